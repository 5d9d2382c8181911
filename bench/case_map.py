"""The region map on the yardstick's models: build times, boxes, time and visits per query, beside the prototype."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpucf
from bench import datasets, yardstick
from bench.datasets import Dataset
from bench.harness import Rows, case
from gpucf._cells import code_rows
from gpucf._costs import make_cost_model
from gpucf._labels import labels_from_sums
from gpucf._measures import column_scales
from gpucf._predict import predict_sums
from gpucf._query import nearest_boxes
from gpucf._regionmap import RegionMap
from gpucf._targets import resolve_target

MODELS = [
    ("compas", "xgb", 100, 6),
    ("compas", "rf", 100, 7),
    ("german", "xgb", 20, 3),
    ("german", "rf", 10, 4),
    ("credit", "rf", 10, 4),
]
N_TIMED = 100  # rows timed one by one
COPIES = 200  # of each row in one call, so that the call itself does not count
TIMES = 3  # the least counts


@case("map", "region maps: boxes, build, microseconds and visits per query, beside the prototype")
def region_maps() -> Rows:
    for name, kind, n_trees, depth in MODELS:
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        yield {"model": f"{name} {kind} {n_trees}x{depth}", **_measured(data, model, held_out[:N_TIMED])}


def _measured(data: Dataset, model: Any, rows: np.ndarray) -> dict[str, Any]:
    _engine(data, model).region_map()  # compiles, the library's import included
    start = time.perf_counter()
    engine = _engine(data, model)
    loaded = time.perf_counter()
    region_map = engine.region_map()
    us, visits = _per_row(engine, region_map, data.X, rows)
    out = {
        "load_s": loaded - start,
        "boxes": region_map.n_regions,
        "boxes_before_joining": region_map.n_compressed,
        **{f"{stage}_s": seconds for stage, seconds in region_map.seconds.items()},
        "query_us_median": float(np.median(us)),
        "query_us_p95": float(np.percentile(us, 95)),
        "visits_median": float(np.median(visits)),
        "visits_p95": float(np.percentile(visits, 95)),
    }
    if yardstick.available():
        theirs = yardstick.run_map(engine.ensemble, rows)
        out |= {f"prototype_{name}": value for name, value in theirs.items()}
    return out


def _engine(data: Dataset, model: Any) -> gpucf.Engine:
    return gpucf.Engine(model, background=data.X, one_hot=data.one_hot_by_position, n_threads=1, method="map")


def _per_row(
    engine: gpucf.Engine, region_map: RegionMap, background: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds (cost tables included) and visits of each row alone, on one thread."""
    ensemble, cells = engine.ensemble, region_map.cells
    goal = resolve_target(ensemble, "opposite")
    unit = column_scales(background.astype(np.float64), "range", ensemble.n_features)
    costs = make_cost_model(cells, ensemble.feature_names, "l1", None, unit, (), (), ())
    us, visits = [], []
    for row in rows:
        copies = np.tile(row.astype(np.float64), (COPIES, 1))
        codes, values = code_rows(ensemble, cells, copies, ensemble.feature_names)
        wanted, _ = goal.wanted(labels_from_sums(ensemble, goal.rule, predict_sums(ensemble, copies)))
        arguments = (list(region_map.trees), cells, region_map.layout, costs, codes, values, wanted, 1)
        seconds = []
        for _ in range(TIMES):
            start = time.perf_counter()
            nearest = nearest_boxes(*arguments)
            seconds.append(time.perf_counter() - start)
        us.append(min(seconds) / COPIES * 1e6)
        visits.append(int(nearest.visits[0]))
    return np.array(us), np.array(visits)
