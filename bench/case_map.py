"""The region map on the yardstick's models: build times, boxes, time and visits per query, beside the prototype."""

from __future__ import annotations

import time

import numpy as np

import gpucf
from bench import datasets, yardstick
from bench.harness import Rows, case
from gpucf._costs import make_cost_model
from gpucf._query import nearest_boxes
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
N_BULK = 10_000


@case("map", "region maps: boxes, build, microseconds and visits per query, beside the prototype")
def region_maps() -> Rows:
    for name, kind, n_trees, depth in MODELS:
        data = datasets.load(name)
        model, held_out = datasets.train(data, kind, n_trees, depth)
        yield {"model": f"{name} {kind} {n_trees}x{depth}", **_measure(data, model, held_out)}


def _measure(data, model, held_out):
    start = time.perf_counter()
    engine = gpucf.Engine(_renamed(model, data), background=data.X, one_hot=_by_position(data), n_threads=1)
    loaded = time.perf_counter()
    region_map = engine.region_map()
    engine._maps.clear()  # the first one compiled
    region_map = engine.region_map()
    rows = held_out[:N_TIMED]
    us, visits = per_row(engine, region_map, rows)
    bulk = datasets.resampled(held_out, N_BULK, data)
    result = engine.query(bulk)
    seconds = {}
    for threads in (1, 2):
        engine.n_threads = threads
        result = engine.query(bulk)
        seconds[threads] = result.plan["seconds"]
    out = {
        "load_s": loaded - start,
        "boxes": region_map.n_regions,
        "boxes_before_joining": region_map.n_compressed,
        **{f"{stage}_s": s for stage, s in region_map.seconds.items()},
        "query_us_median": float(np.median(us)),
        "query_us_p95": float(np.percentile(us, 95)),
        "visits_median": float(np.median(visits)),
        "visits_p95": float(np.percentile(visits, 95)),
        "bulk_rows": N_BULK,
        "bulk_status": {s: int((result.status == s).sum()) for s in np.unique(result.status)},
        "bulk_verified_by": result.verified_by,
        "bulk_search_1_thread_s": seconds[1]["search"],
        "bulk_search_2_threads_s": seconds[2]["search"],
        "bulk_verify_s": seconds[2]["verify"],
    }
    if yardstick.available():
        out["prototype"] = yardstick.run_map(engine.ensemble, rows)
    return out


def per_row(engine, region_map, rows):
    """Microseconds (tables included) and visits of each row alone, one thread."""
    goal = resolve_target(engine.ensemble, "opposite")
    cells = region_map.cells
    costs = make_cost_model(cells, engine.ensemble.feature_names, "l1", None, engine._unit(None), (), (), ())
    own = engine.query(rows)
    us, visits = [], []
    for i in range(len(rows)):
        from gpucf._cells import code_rows
        from gpucf._labels import labels_from_sums
        from gpucf._predict import predict_sums

        copies = np.repeat(rows[i : i + 1].astype(np.float64), COPIES, axis=0)
        codes, values = code_rows(engine.ensemble, cells, copies, engine.ensemble.feature_names)
        labels = labels_from_sums(engine.ensemble, goal.rule, predict_sums(engine.ensemble, copies))
        wanted, _ = goal.wanted(labels)
        arguments = (list(region_map.trees), cells, region_map.layout, costs, codes, values, wanted, 1)
        nearest_boxes(*arguments)
        start = time.perf_counter()
        nearest = nearest_boxes(*arguments)
        us.append((time.perf_counter() - start) / COPIES * 1e6)
        visits.append(nearest.visits[0])
    del own
    return np.array(us), np.array(visits)


def _renamed(model, data):
    return model


def _by_position(data):
    where = {name: f"f{j}" for j, name in enumerate(data.names)}
    return {group: [where[m] for m in members] for group, members in data.one_hot.items()}
