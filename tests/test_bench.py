"""Benchmarks: what they read out of other programs' words, and how they count."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from sizes import count
from sklearn import ensemble

import gpucf
from gpucf import _search

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch):
    """Import a module of `bench` from the checkout, while `gpucf` stays the one under test."""
    spec = importlib.util.spec_from_file_location(
        "bench", BENCH / "__init__.py", submodule_search_locations=[str(BENCH)]
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "bench"]:
        monkeypatch.delitem(sys.modules, name)
    package = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench", package)
    spec.loader.exec_module(package)
    yield lambda name: importlib.import_module(f"bench.{name}")
    for name in [name for name in sys.modules if name.startswith("bench.")]:
        del sys.modules[name]


def test_the_line_of_the_prototypes_search(bench):
    line = (
        "/tmp/med 9 solved 1/1 x/m.txt  W 1 mask 2.3MB build 0.04s solved 19/20 nodes med 31 p95 88 max 1000000 | "
        "ms med 0.0431 p95 0.121 max 0.2 us/node 1.27 meandist 0.05767"
    )
    assert bench("yardstick")._parsed_search(line) == {
        "proved": 19,
        "nodes_median": 31.0,
        "nodes_p95": 88.0,
        "us_median": pytest.approx(43.1),
        "us_p95": pytest.approx(121.0),
        "mean_cost": 0.05767,
    }


def test_the_log_of_the_command_line(bench):
    log = (
        "xgboost binary:logistic: 100 trees, 41 columns, 11 features after folding\n"
        "3 rows: {'method': 'search', 'n_regions': None, 'seconds': {'prepare': 0.5, 'search': 1.0, 'verify': 0.25}}\n"
        "2 rows: {'method': 'search', 'n_regions': None, 'seconds': {'prepare': 0.5, 'search': 2.0, 'verify': 0.25}}\n"
        "Name:\tpython\nVmPeak:\t  9999999 kB\nVmHWM:\t  524288 kB\nVmRSS:\t  1024 kB\n"
    )
    assert bench("case_table").parsed(log) == {
        "rows_answered": 5, "method": "search", "prepare_s": 1.0, "search_s": 3.0, "verify_s": 0.5, "peak_mib": 512.0
    }  # fmt: skip


def test_gaps_of_open_rows(bench):
    gaps = bench("case_tail").relative_gaps(np.array([2.0, 4.0, np.inf]), np.array([0.0, 3.0, 1.5]))
    assert gaps.tolist() == [1.0, 0.25, 1.0]


def test_percentiles_are_the_prototypes_elements(bench):
    at_rank = bench("case_search").at_rank
    values = np.arange(100.0)[::-1]
    assert (at_rank(values, 50), at_rank(values, 95)) == (50.0, 95.0)


def test_the_tables_of_the_benchmarks(bench):
    datasets = bench("datasets")
    raw, scaled = datasets.load_raw("german"), datasets.load("german")
    assert list(raw.columns) == scaled.names
    hot = [name for members in scaled.one_hot.values() for name in members]
    for j, (name, values) in enumerate(raw.columns.items()):
        assert np.array_equal(np.unique(scaled.X[:, j])[[0, -1]], [0, 1])
        if name in hot:
            assert np.array_equal(values, scaled.X[:, j])
    assert raw.columns["Age"].dtype == np.int64
    assert raw.columns["Age"].max() == 75
    for members in scaled.one_hot.values():
        assert (sum(raw.columns[name] for name in members) == 1).all()
    spam = datasets.load("spambase")
    assert spam.X.shape == (4601, 57)
    assert spam.y.sum() == 1813


def test_times_of_rows_come_from_the_usual_query(bench):
    row_times = bench("row_times")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    model = ensemble.RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, X.sum(axis=1) > 0)
    engine = gpucf.Engine(model, background=X, method="search", n_threads=1)
    usual = engine.query(X[:20])
    kernel = _search.search_rows
    result, us = row_times.timed_query(engine, X[:20])
    assert result.counterfactuals.tobytes() == usual.counterfactuals.tobytes()
    assert np.array_equal(us > 0, result.visits > 0)
    assert _search.search_rows is kernel
    with pytest.raises(ValueError, match="n_threads=1"):
        row_times.timed_query(gpucf.Engine(model, background=X, method="search", n_threads=2), X[:2])


@pytest.mark.parametrize(
    ("name", "kind", "n_trees", "depth"),
    [("compas", "xgb", 100, 6), ("compas", "rf", 100, 7), ("german", "xgb", 20, 3), ("german", "rf", 10, 4)],
)
def test_map_and_search_agree_on_the_models_of_the_map_benchmark(bench, name, kind, n_trees, depth):
    datasets = bench("datasets")
    data = datasets.load(name)
    model, held_out = datasets.train(data, kind, n_trees, depth)
    rows = held_out[: count(1000)]
    options = {"background": data.X, "one_hot": data.one_hot_by_position}
    for cost in ("l1", "linf"):
        by_map, by_search = (gpucf.Engine(model, method=m, **options).query(rows, cost=cost) for m in ("map", "search"))
        assert (by_map.plan["method"], by_search.plan["method"]) == ("map", "search")
        assert set(by_search.status) <= {"optimal", "already", "infeasible"}
        for field in ("status", "counterfactuals", "cost", "lower_bound"):
            assert getattr(by_map, field).tobytes() == getattr(by_search, field).tobytes(), field
