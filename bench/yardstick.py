"""The throw-away C++ prototype as a peer in the same run, where its sources lie beside the checkout and g++ exists."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from bench.harness import ROOT
from gpucf import Ensemble

SOURCES = ROOT.parent / "shared" / "prototype"


def available() -> bool:
    return (SOURCES / "map.cpp").exists() and shutil.which("g++") is not None


def run_map(ensemble: Ensemble, X: np.ndarray) -> dict[str, float]:
    """Boxes, build times and microseconds per query of the prototype's map on the same model and rows."""
    with tempfile.TemporaryDirectory() as folder:
        binary, model = Path(folder) / "map", Path(folder) / "model.txt"
        flags = ["-O3", "-march=native", "-ffast-math"]
        subprocess.run(["g++", *flags, "-o", binary, SOURCES / "map.cpp"], check=True, capture_output=True)
        _export(ensemble, X, model)
        done = subprocess.run(
            [binary, model, "0", str(len(X)), "0", "0", "0"], check=True, capture_output=True, text=True
        )
    return _parsed(done.stdout.splitlines()[-1])


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
