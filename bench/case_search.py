"""The ensemble search on the yardstick's models: time and nodes per row, beside the prototype on the same rows.

The prototype (float32, -ffast-math, no ties) takes one-hot columns as independent, so that on Adult and German it
answers an easier question. ``GPUCF_BENCH_SEARCH_MODELS`` holds words, separated by commas, of which a model's name must
contain one.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import gpucf
from bench import datasets, yardstick
from bench.datasets import Dataset
from bench.harness import Rows, case
from bench.row_times import timed_query

MODELS: list[tuple[str, str, int, int | None]] = [
    ("adult", "xgb", 100, 6),
    ("adult", "xgb", 500, 6),
    ("adult", "xgb", 100, 4),
    ("adult", "rf", 100, 7),
    ("credit", "xgb", 100, 6),
    ("credit", "rf", 100, 7),
    ("german", "rf", 100, 7),
    ("german", "xgb", 100, 6),
    ("diabetes8", "rf", 100, None),
    ("breast", "xgb", 100, 6),
    ("spambase", "xgb", 100, 6),
]
N_ROWS = 100
ROUNDS = 3  # of both programs in turn; the least of each figure counts
ENOUGH_S = 60.0  # of one model: no further round begins then; long times vary little
TIME_LIMIT_S = 60.0  # of all rows, so that a far answer cannot stop the benchmark


@case("search", "the search on one thread: microseconds and nodes per row, beside the prototype in alternation")
def search() -> Rows:
    wanted = os.environ.get("GPUCF_BENCH_SEARCH_MODELS", "").split(",")
    for name, kind, n_trees, depth in MODELS:
        label = f"{name} {kind} {n_trees}x{depth or 'any'}"
        if not any(word in label for word in wanted):
            continue
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        rows = held_out[:N_ROWS]
        yield {
            "model": label,
            "rows": len(rows),
            **_measured(data, model, rows, depth),
        }


def _measured(data: Dataset, model: Any, rows: np.ndarray, depth: int | None) -> dict[str, Any]:
    engine = gpucf.Engine(model, background=data.X, one_hot=data.one_hot_by_position, method="search", n_threads=1)
    answer = engine.query(rows, time_limit_s=TIME_LIMIT_S)  # compiles, and builds what is kept
    ours, theirs = [], []
    start = time.perf_counter()
    while len(ours) < ROUNDS and time.perf_counter() - start < ENOUGH_S:
        if yardstick.available():
            theirs.append(yardstick.run_search(engine.ensemble, rows))
        whole = engine.query(rows, time_limit_s=TIME_LIMIT_S)
        timed, us = timed_query(engine, rows, time_limit_s=TIME_LIMIT_S)
        _check_same(answer, whole)
        _check_same(answer, timed)
        ours.append(_figures(timed, us, whole))
    out: dict[str, Any] = {"rounds": len(ours), **least(ours)}
    if theirs:
        theirs_least = least(theirs)
        # Trees of any depth vote yes or no; where the votes tie, the prototype's rounding decides.
        if not data.one_hot and out["proved"] == theirs_least["proved"] == len(rows):
            _check_same_question(out["mean_cost"], theirs_least["mean_cost"], tolerance=1e-3 if depth else 0.05)
        out |= {f"prototype_{name}": value for name, value in theirs_least.items()}
        for figure in ("us_median", "us_p95", "nodes_median", "nodes_p95"):
            out[f"prototype_over_ours_{figure}"] = theirs_least[figure] / out[figure]
    return out


def _figures(timed: gpucf.Result, us: np.ndarray, whole: gpucf.Result) -> dict[str, float]:
    proved = np.isin(timed.status, ["optimal", "infeasible"])
    return {
        "proved": int(proved.sum()),
        "us_median": at_rank(us, 50),
        "us_p95": at_rank(us, 95),
        "us_mean": float(us.mean()),
        # The whole search of the table over its rows: what setting out costs is in it.
        "table_us_per_row": whole.plan["seconds"]["search"] / len(us) * 1e6,
        "nodes_median": at_rank(timed.visits, 50),
        "nodes_p95": at_rank(timed.visits, 95),
        "mean_cost": float(timed.cost[np.isfinite(timed.cost)].mean()),
    }


def at_rank(values: np.ndarray, percent: int) -> float:
    """The prototype's median and percentile: an element of the sorted values, nothing in between."""
    return float(np.sort(values)[len(values) * percent // 100])


def least(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The least of each figure over the rounds; of the rows proved, too."""
    return {name: min(figures[name] for figures in rounds) for name in rounds[0]}


def _check_same(one: gpucf.Result, other: gpucf.Result) -> None:
    """Proved answers do not depend on how the rows were handed out."""
    proved = (one.status == "optimal") & (other.status == "optimal")
    if one.counterfactuals[proved].tobytes() != other.counterfactuals[proved].tobytes():
        raise AssertionError("the same rows got different answers")


def _check_same_question(ours: float, theirs: float, tolerance: float) -> None:
    """Without one-hot columns both minimise the same cost, but for float32 and for cells narrower than it."""
    if abs(ours - theirs) > tolerance * theirs:
        raise AssertionError(f"mean cost {ours} and {theirs}: the questions differ")
