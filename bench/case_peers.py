"""Other exact tools in the same run: same models, rows, costs and domains; times, proofs, and row-by-row agreement.

Costs are L1 on columns scaled to 0-1: 1 per column, 1 for another category (1/2 per one-hot column). All numeric
columns are continuous. The library's own ``predict`` judges every answer of everybody.

The default takes about nine minutes and answers few rows of the slow peers. ``GPUCF_PEERS_PYTHON`` names a ready
interpreter for the peers; ``GPUCF_PEERS_TOTAL`` (480) is the seconds after which no peer is begun,
``GPUCF_PEERS_SECONDS`` (2) how long a peer may go on beginning rows of a model, ``GPUCF_PEERS_ROW_LIMIT`` (60) its
limit per row, ``GPUCF_PEERS_ROWS`` (100) the most rows of a model, ``GPUCF_PEERS_MODELS`` and ``GPUCF_PEERS_ONLY``
words of which a model's or peer's name must hold one (separated by commas).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpucf
from bench import datasets
from bench.datasets import Dataset
from bench.harness import Rows, case
from bench.peers import compare, environment

sys.path.insert(0, str(environment.RUN.parent))  # the job's form is shared with scripts that have no package
from job import Job, write_job

MODELS = [
    (name, kind, n_trees, depth)
    for name in ("compas", "german", "adult", "credit")
    for kind, n_trees, depth in (("rf", 100, 7), ("xgb", 100, 6), ("xgb", 500, 6))
] + [("breast", "xgb", 100, 6)]
LARGEST_MILP = 100  # trees; beyond, HiGHS takes minutes to prove a row
ONE_THREAD = ("treecf exact", "own MILP (HiGHS)")  # whatever the job says
N_BULK = 1000
TIMES = 3
BUILD_LIMIT_S = 120
PRODUCT_OF = {"OCEAN CP": "oceanpy", "treecf exact": "treecf", "own CP-SAT": "ortools"}


@dataclass(frozen=True)
class Limits:
    until: float  # on the clock of time.monotonic
    seconds: float
    row_limit_s: float
    rows: int
    models: list[str]
    only: list[str]

    @classmethod
    def read(cls) -> Limits:
        def get(name: str, default: str) -> str:
            return os.environ.get(f"GPUCF_PEERS_{name}") or default

        words = [[w for w in get(name, "").lower().split(",") if w] for name in ("MODELS", "ONLY")]
        until = time.monotonic() + float(get("TOTAL", "480"))
        return cls(until, float(get("SECONDS", "2")), float(get("ROW_LIMIT", "60")), int(get("ROWS", "100")), *words)


@case("peers", "other exact tools on the same models and rows: seconds, ratios, agreement of proved costs")
def peers() -> Rows:
    limits = Limits.read()
    python, probed = _probed()
    running = {peer: found["version"] for peer, found in probed.items() if "version" in found}
    for peer, found in probed.items():
        if _named(peer, limits.only) and peer not in running:
            yield {"peer": peer, "skipped": found["skipped"]}
    lines: list[dict[str, Any]] = []
    for name, kind, n_trees, depth in MODELS:
        about = f"{name} {kind} {n_trees}x{depth}"
        if not _named(about, limits.models):
            continue
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        if kind == "xgb":
            model.get_booster().set_param({"nthread": 1})  # gpucf's last check is its predict
        table = held_out[:N_BULK]
        if len(table) < N_BULK:
            table = np.concatenate([table, datasets.resampled(held_out, N_BULK - len(table), data)])
        ours = compare.Ours(data, model, table, min(limits.rows, len(held_out)), TIMES)
        yield {"model": about, "peer": "gpucf", "version": gpucf.__version__, **ours.figures}
        for peer, version in running.items():
            if not _named(peer, limits.only):
                continue
            if reason := _left_out(peer, n_trees, limits):
                yield {"model": about, "peer": peer, "skipped": reason}
                continue
            job = _job(data, kind, model, ours, limits)
            line = {"model": about, "peer": peer, "version": version, **ours.beside(_asked(python, peer, job))}
            lines.append(line)
            yield line
    print(compare.table(lines))
    if wrong := sum(line["gpucf_wrong"] for line in lines):
        raise AssertionError(f"{wrong} rows have a valid answer nearer than gpucf's 'optimal' one")


def _left_out(peer: str, n_trees: int, limits: Limits) -> str | None:
    if peer == "own MILP (HiGHS)" and n_trees > LARGEST_MILP:
        return f"more than {LARGEST_MILP} trees"
    if time.monotonic() > limits.until:
        return "the time of the run is over: GPUCF_PEERS_TOTAL takes more seconds"
    return None


def _named(text: str, words: list[str]) -> bool:
    return not words or any(word in text.lower() for word in words)


def _probed() -> tuple[str, dict[str, dict[str, str]]]:
    """The peers' interpreter, and of each peer its version, or why it is skipped."""
    python, failed = environment.ready()
    done = subprocess.run([python, environment.RUN, "--probe"], capture_output=True, text=True, check=True)
    probed = json.loads(done.stdout.splitlines()[-1])
    for peer, found in probed.items():
        if "skipped" in found and PRODUCT_OF.get(peer) in failed:
            found["skipped"] = failed[PRODUCT_OF[peer]]
    return python, probed


def _job(data: Dataset, kind: str, model: Any, ours: compare.Ours, limits: Limits) -> Job:
    column = {name: j for j, name in enumerate(data.names)}
    groups = [[column[name] for name in members] for members in data.one_hot.values()]
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Job(kind, model, ours.rows, ours.wanted, groups, limits.row_limit_s, limits.seconds, workers)


def _asked(python: str, peer: str, job: Job) -> dict[str, Any]:
    """Lines of the peer's process: seconds to build, answers, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "job"
        write_job(work, job)
        trouble = None
        limit = BUILD_LIMIT_S + job.budget_s + 1.5 * job.row_limit_s
        try:
            done = subprocess.run(
                [python, environment.RUN, work, peer], capture_output=True, text=True, timeout=limit, check=False
            )
            if done.returncode:
                trouble = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            trouble = f"stopped after {limit:.0f} s"
        written = list(work.glob("*.jsonl"))
        lines = [json.loads(line) for line in written[0].read_text().splitlines()] if written else []
    build = next((line["build_s"] for line in lines if "build_s" in line), None)
    return {
        "build_s": build,
        "trouble": trouble,
        "workers": 1 if peer in ONE_THREAD else job.workers,
        "answers": [line for line in lines if "row" in line],
    }
