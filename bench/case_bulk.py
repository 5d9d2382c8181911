"""Whole tables: every row answered and proved, nothing invalid by the model itself, rows per second by threads."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpucf
from bench import datasets
from bench.datasets import Dataset
from bench.harness import Rows, case

MODELS = [("compas", "xgb", 100, 6), ("compas", "rf", 100, 7), ("german", "xgb", 20, 3), ("german", "rf", 10, 4)]
N_ROWS = 10_000
METHODS = ("map", "search")
THREADS = (1, 2)
TIMES = 3


@case("bulk", f"{N_ROWS:,} resampled rows: status, rows invalid by the model's own predict, rows per second")
def bulk() -> Rows:
    for name, kind, n_trees, depth in MODELS:
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        rows = datasets.resampled(held_out, N_ROWS, data)
        about = {"model": f"{name} {kind} {n_trees}x{depth}", "rows": N_ROWS}
        answers = set()
        for method in METHODS:
            measured, answer = _measured(data, model, rows, method)
            answers.add(answer)
            yield {**about, "method": method, **measured}
        if len(answers) > 1:
            raise AssertionError(f"{about['model']}: the methods gave different answers")


def _measured(data: Dataset, model: Any, rows: np.ndarray, method: str) -> tuple[dict[str, Any], bytes]:
    """Figures, and the answers in bytes."""
    engine = gpucf.Engine(model, background=data.X, one_hot=data.one_hot_by_position, method=method)
    first = engine.query(rows)  # compiles, and builds what is kept
    answer = first.counterfactuals.tobytes()
    out: dict[str, Any] = {
        "status": _counts(first.status),
        "invalid": _invalid(model, rows, first),
        "verified_by": first.verified_by,
        "visits_mean": float(first.visits.mean()),
        "visits_max": int(first.visits.max()),
    }
    for threads in THREADS:
        engine._planner.n_threads = threads
        whole, parts = [], []
        for _ in range(TIMES):
            start = time.perf_counter()
            result = engine.query(rows)
            whole.append(time.perf_counter() - start)
            parts.append(result.plan["seconds"])
            if result.counterfactuals.tobytes() != answer:
                raise AssertionError(f"{threads} thread(s) gave other answers")
        best = int(np.argmin(whole))
        name = f"{threads}_thread{'s'[: threads > 1]}"
        out[f"rows_per_s_{name}"] = N_ROWS / whole[best]
        out[f"seconds_{name}"] = {"whole": whole[best], **parts[best]}
    return out, answer


def _counts(status: np.ndarray) -> dict[str, int]:
    words, counts = np.unique(status, return_counts=True)
    return dict(zip(words.tolist(), counts.tolist(), strict=True))


def _invalid(model: Any, rows: np.ndarray, result: gpucf.Result) -> int:
    """Answers that the model gives the class of the row they came from: none, or gpucf is wrong."""
    answered = np.isin(result.status, ["optimal", "feasible"])
    same = model.predict(result.counterfactuals) == model.predict(rows)
    return int((same & answered).sum())
