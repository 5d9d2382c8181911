"""Map = search = oracle, point and cost, bit for bit, on random small models; and the native model agrees."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import answer
from random_models import KINDS, random_model
from random_queries import random_engine, random_options, random_query_rows, random_target
from sizes import count

import gpucf
from gpucf._costs import make_cost_model
from gpucf._targets import resolve_target

N_MODELS = 2000


def _native_meets(model, target, X, before):
    if isinstance(target, gpucf.Probability):
        k = list(model.classes_).index(target.label)
        return model.predict_proba(X)[:, k].astype(np.float64) >= target.at_least
    said = np.asarray(model.predict(X)).ravel()
    if target in ("opposite", "any_other"):
        return said != np.asarray(model.predict(before)).ravel()
    return said == target


def _search_agrees(engine, by_map, rows, target, options):
    """The search gives the map's points, costs and verdicts, bit for bit."""
    engine.method = "search"
    found = engine.query(rows, target=target, **options)
    engine.method = "map"
    asked = (by_map.status != "already").any()  # else there is nothing to choose a method for
    assert not asked or (found.plan["method"] == "search" and by_map.plan["method"] == "map")
    assert np.array_equal(found.status, by_map.status)
    assert np.array_equal(found.cost, by_map.cost) and np.array_equal(found.lower_bound, by_map.cost)
    assert np.array_equal(found.counterfactuals, by_map.counterfactuals)


@pytest.mark.parametrize("kind", KINDS)
def test_map_and_search_equal_oracle(kind):
    rng = np.random.default_rng(sum(map(ord, kind)))
    compared = 0
    for _ in range(count(N_MODELS) // len(KINDS) + 1):
        model, X = random_model(kind, rng)
        engine = random_engine(model, X, rng)
        rows, options, target = random_query_rows(X, rng), random_options(engine, rng), random_target(engine, rng)
        result = engine.query(rows, target=target, **options)
        _search_agrees(engine, result, rows, target, options)
        goal = resolve_target(engine.ensemble, target)
        costs = make_cost_model(
            engine.cells(), engine.ensemble.feature_names, options["cost"], options["weights"],
            engine._unit(options["scale"]), options["immutable"], options["increase_only"], (),
        )  # fmt: skip
        for i, x in enumerate(rows):
            if result.status[i] == "already":
                assert np.array_equal(result.counterfactuals[i], x)
                continue
            point, cost = answer(engine, goal, x, costs)
            if point is None:
                assert result.status[i] == "infeasible" and np.isinf(result.cost[i])
                continue
            assert result.status[i] == "optimal"
            assert result.cost[i] == costs.report(np.float64(cost)), (kind, options, target, x)
            assert np.array_equal(result.counterfactuals[i], point), (kind, options, target, x)
            compared += 1
        found = np.isin(result.status, ["optimal", "already"])
        assert _native_meets(model, target, result.counterfactuals, rows)[found].all()
    assert compared > 0
