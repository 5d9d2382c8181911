"""The throw-away C++ prototype as a peer in the same run, where its sources lie beside the checkout and g++ exists."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from bench.harness import ROOT
from gpucf import Ensemble

SOURCES = ROOT.parent / "shared" / "prototype"


FLAGS = ["-O3", "-march=native", "-ffast-math"]  # as its README says
NODE_LIMIT = 1_000_000  # of a row, as in the design's table
FIRST_BUDGET, GROWTH = 0.01, 1.8


def available() -> bool:
    return (SOURCES / "map.cpp").exists() and shutil.which("g++") is not None


def run_map(ensemble: Ensemble, X: np.ndarray) -> dict[str, float]:
    """Boxes, build times and microseconds per query of the prototype's map on the same model and rows."""
    return _parsed(_last_line("map", ensemble, X, 0, len(X), 0, 0, 0))


def run_search(ensemble: Ensemble, X: np.ndarray) -> dict[str, float]:
    """Rows solved, nodes and microseconds per row of the prototype's search on the same model and rows."""
    return _parsed_search(_last_line("search", ensemble, X, NODE_LIMIT, len(X), FIRST_BUDGET, GROWTH))


def _last_line(program: str, ensemble: Ensemble, X: np.ndarray, *arguments: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.txt"
        _export(ensemble, X, model)
        command = [_binary(program), model, *(str(argument) for argument in arguments)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


@cache
def _binary(program: str) -> Path:
    path = Path(_folder().name) / program
    subprocess.run(["g++", *FLAGS, "-o", path, SOURCES / f"{program}.cpp"], check=True, capture_output=True)
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One folder for the life of the process."""
    return tempfile.TemporaryDirectory()


def _parsed(line: str) -> dict[str, float]:
    """Read ``FILE boxes N part Xs build Ys | query us med A p95 B max C visits med D p95 E mean dist F``, by words."""
    build, _, rest = line.rpartition(" boxes ")[2].partition(" | query us ")
    query, _, visits = rest.partition(" visits ")
    built = ("boxes " + build).split()
    asked, visited = query.split(), visits.split()
    return {
        "boxes": int(_after(built, "boxes")),
        "compress_s": float(_after(built, "part").rstrip("s")),
        "index_s": float(_after(built, "build").rstrip("s")),
        "query_us_median": float(_after(asked, "med")),
        "query_us_p95": float(_after(asked, "p95")),
        "visits_median": float(_after(visited, "med")),
        "visits_p95": float(_after(visited, "p95")),
    }


def _parsed_search(line: str) -> dict[str, float]:
    """Read ``... solved A/B nodes med C p95 D max E | ms med F p95 G max H us/node I meandist J``, by words."""
    counted, _, timed = line.rpartition(" solved ")[2].partition(" | ms ")
    nodes, ms = counted.split(), timed.split()
    return {
        "proved": int(nodes[0].split("/")[0]),
        "nodes_median": float(_after(nodes, "med")),
        "nodes_p95": float(_after(nodes, "p95")),
        "us_median": 1e3 * float(_after(ms, "med")),
        "us_p95": 1e3 * float(_after(ms, "p95")),
        "mean_cost": float(_after(ms, "meandist")),
    }


def _after(words: list[str], word: str) -> str:
    return words[words.index(word) + 1]


def _export(ensemble: Ensemble, X: np.ndarray, path: Path) -> None:
    e = ensemble
    forest = e.leaf_value.shape[1] == 2
    value = (e.leaf_value[:, 1] - 0.5) / e.n_trees if forest else e.leaf_value[:, 0]
    cuts = [np.unique(e.threshold[(e.feature == j)]) for j in range(e.n_features)]
    with open(path, "w") as f:
        print(e.n_features, e.n_trees, 0.0 if forest else float(e.base[0]), 0, file=f)
        for cut in cuts:
            print(len(cut), *(f"{v:.17g}" for v in cut), file=f)
        for t in range(e.n_trees):
            begin, end = e.tree_start[t], e.tree_start[t + 1]
            print(end - begin, file=f)
            for n in range(begin, end):
                j = e.feature[n]
                cut = int(np.searchsorted(cuts[j], e.threshold[n])) if j >= 0 else -1
                leaf = value[e.leaf[n]] if j < 0 else 0.0
                left, right = (e.left[n] - begin, e.right[n] - begin) if j >= 0 else (-1, -1)
                print(int(j), cut, left, right, f"{leaf:.17g}", file=f)
        print(len(X), file=f)
        for row in X:
            print(*(f"{v:.17g}" for v in row), file=f)
