"""The price of recourse: seconds per proved row over seconds per row of XGBoost's own prediction, same threads."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpucf
from bench import datasets
from bench.harness import Rows, case

THREADS = (1, 2)
TIMES = 3  # of both in turn; the least counts


@case("price", "Adult, XGBoost 100x6: time of a proved row over time of a row of booster.inplace_predict")
def price() -> Rows:
    data = datasets.load("adult")
    model, held_out = datasets.train(data, "xgb", 100, 6)
    engine = gpucf.Engine(model, background=data.X, one_hot=data.one_hot_by_position, method="search")
    tables = {
        "held-out rows, refused": held_out[model.predict(held_out) == 0],
        "all rows, refused": data.X[model.predict(data.X) == 0],
        "all rows": data.X,
    }
    for what, X in tables.items():
        answer = engine.query(X)  # compiles, and builds what is kept
        invalid = int((model.predict(answer.counterfactuals) == model.predict(X)).sum())
        for threads in THREADS:
            about = {"table": what, "rows": len(X), "invalid": invalid, "threads": threads}
            yield {**about, **_measured(engine, model.get_booster(), X, threads)}


def _measured(engine: gpucf.Engine, booster: Any, X: np.ndarray, threads: int) -> dict[str, Any]:
    engine._planner.n_threads = threads
    booster.set_param({"nthread": threads})
    predict, whole, inside = [], [], []
    for _ in range(TIMES):
        start = time.perf_counter()
        booster.inplace_predict(X)
        predicted = time.perf_counter()
        result = engine.query(X)
        whole.append(time.perf_counter() - predicted)
        predict.append(predicted - start)
        inside.append(result.plan["seconds"]["search"])
    proved = int(np.isin(result.status, ["optimal", "infeasible"]).sum())
    predict_us = min(predict) / len(X) * 1e6
    search_us, query_us = (min(seconds) / proved * 1e6 for seconds in (inside, whole))
    return {
        "proved": proved,
        "visits_mean": float(result.visits.mean()),
        "predict_us_per_row": predict_us,
        "search_us_per_proved_row": search_us,
        "query_us_per_proved_row": query_us,
        "price_search": search_us / predict_us,
        "price_query": query_us / predict_us,
    }
