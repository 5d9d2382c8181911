"""The hard tail: rows proved against time, on many continuous columns, where answers are far.

Every row is asked alone, on one thread, with the least limit; while it stays open, again with ten times as much. Of a
millisecond, setting out (a thread, its work space) takes a good part. Set GPUCF_BENCH_TAIL_S to 10 (or 100) for limits
beyond a second: at worst the whole then takes 45 minutes (seven hours).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import gpucf
from bench import datasets
from bench.harness import Rows, case

MODELS = [
    ("breast", "rf", 10, 5),
    ("breast", "rf", 50, 5),
    ("breast", "rf", 100, 7),
    ("breast", "xgb", 50, 3),
    ("breast", "xgb", 100, 6),
    ("breast", "xgb", 500, 6),
    ("spambase", "xgb", 100, 6),
    ("spambase", "rf", 100, 7),
]
N_ROWS = 30
LIMITS_S = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


@case("tail", "rows proved against time (1 ms to 1 s, or GPUCF_BENCH_TAIL_S), and the gap of the others")
def tail() -> Rows:
    largest = float(os.environ.get("GPUCF_BENCH_TAIL_S", "1"))
    for name, kind, n_trees, depth in MODELS:
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        engine = gpucf.Engine(model, background=data.X, method="search", n_threads=1)
        rows = held_out[:N_ROWS]
        engine.query(rows[:1], time_limit_s=LIMITS_S[0])  # compiles, and builds what is kept
        about = {"model": f"{name} {kind} {n_trees}x{depth}", "rows": len(rows)}
        answers: dict[int, gpucf.Result] = {}
        for limit_s in LIMITS_S:
            if limit_s > largest:
                break
            for i in range(len(rows)):
                if i not in answers or not _proved(answers[i]):
                    answers[i] = engine.query(rows[i : i + 1], time_limit_s=limit_s)
            yield {**about, "limit_s": limit_s, **_standing(list(answers.values()))}


def _proved(answer: gpucf.Result) -> bool:
    return answer.status[0] in ("optimal", "infeasible")


def _standing(answers: list[gpucf.Result]) -> dict[str, Any]:
    """The share of rows proved, and how far from it the others are."""
    proved = np.array([_proved(answer) for answer in answers])
    cost, bound, visits = (
        np.concatenate([getattr(answer, name) for answer in answers]) for name in ("cost", "lower_bound", "visits")
    )
    gaps = relative_gaps(cost[~proved], bound[~proved])
    return {
        "proved": float(proved.mean()),
        "n_open": len(gaps),
        "n_open_without_answer": int(np.isinf(cost[~proved]).sum()),
        "open_gap_median": float(np.median(gaps)) if len(gaps) else None,
        "visits_median": float(np.median(visits)),
    }


def relative_gaps(cost: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """How much of each cost is not certified yet; 1 where there is no answer, hence no cost."""
    finite = np.where(np.isfinite(cost), cost, 1.0)
    return np.where(np.isfinite(cost), (finite - bound) / finite, 1.0)
