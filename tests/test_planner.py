"""The planner: what it chooses, that it says why, and that the choice never changes an answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from engine_checks import same_bits
from sklearn.ensemble import RandomForestClassifier

import gpucf
from gpucf import _planner


def rows_and_model(n_trees: int = 5, depth: int = 3) -> tuple[np.ndarray, RandomForestClassifier]:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(2000, 4)), 2)
    y = (X @ [1.0, -1.0, 0.5, 0.25] > 0).astype(int)
    return X, RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X, y)


def test_few_rows_are_searched_and_no_map_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    X, model = rows_and_model()
    engine = gpucf.Engine(model, background=X, n_threads=1)
    measured = []
    real = _planner._seconds_per_row
    monkeypatch.setattr(_planner, "_seconds_per_row", lambda *a: measured.append(1) or real(*a))
    for _ in range(3):
        result = engine.query(X[:3])
        assert result.plan["method"] == "search" and "us a row" in result.plan["why"]
    assert not engine._planner.maps and len(measured) == 1  # later queries pay for no sample


@pytest.mark.parametrize("winner", ["map", "search"])
def test_many_rows_are_measured(winner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, model = rows_and_model()
    times = iter([1e-3, 1e-6] if winner == "map" else [1e-6 * 0.999, 1e-3])
    monkeypatch.setattr(_planner, "_seconds_per_row", lambda rows, action: next(times))
    monkeypatch.setattr(_planner, "WORTH_A_MAP_S", 1e-4)
    engine = gpucf.Engine(model, background=X, n_threads=1)
    result = engine.query(X)
    assert result.plan["method"] == winner and "regions" in result.plan["why"]
    assert (result.plan["n_regions"] is None) == (winner == "search")
    again = engine.query(X)  # what was measured is kept
    assert again.plan["method"] == winner and same_bits(again.cost, result.cost)
    forced = gpucf.Engine(model, background=X, n_threads=1, method="search" if winner == "map" else "map").query(X)
    assert same_bits(forced.cost, result.cost) and same_bits(forced.counterfactuals, result.counterfactuals)
    assert pickle.loads(pickle.dumps(engine)).query(X[:5]).plan["method"] == winner


def test_a_small_map_that_is_there_is_taken_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring would have the search compiled, half a minute, for rows that the map answers in milliseconds."""
    X, model = rows_and_model()
    engine = gpucf.Engine(model, background=X, n_threads=1)
    engine.region_map("opposite")
    with monkeypatch.context() as patch:
        patch.setattr(_planner.Planner, "_search", lambda *a: pytest.fail("the search was asked"))
        result = engine.query(X[:20])
    assert result.plan["method"] == "map" and "is there" in result.plan["why"]
    monkeypatch.setattr(_planner, "FEW_ROWS", 19)
    assert "us a row" in engine.query(X[:20]).plan["why"]


def test_a_hopeless_map_is_tried_once_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    X, model = rows_and_model(30, 6)
    monkeypatch.setattr(_planner, "WORTH_A_MAP_S", 0.0)
    monkeypatch.setattr(_planner, "SMALL_MAP", 100)
    built = []
    real = _planner.build_region_map
    monkeypatch.setattr(_planner, "build_region_map", lambda *a: built.append(1) or real(*a))
    engine = gpucf.Engine(model, background=X, n_threads=1)
    for _ in range(2):
        result = engine.query(X[:20])
        assert result.plan["method"] == "search" and "no small map" in result.plan["why"]
    assert len(built) == 1


def test_limits_and_wishes_come_first() -> None:
    X, model = rows_and_model()
    engine = gpucf.Engine(model, background=X, n_threads=1, method="map")
    assert engine.query(X[:5]).plan["method"] == "map"
    limited = engine.query(X[:5], node_limit=10_000)
    assert limited.plan["method"] == "search" and "limits" in limited.plan["why"]
    assert same_bits(limited.cost, engine.query(X[:5]).cost)
