"""Map = search = oracle, point and cost, bit for bit, on random small models; and the native model agrees."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import answer
from random_models import KINDS, random_model
from sizes import count

import gpucf
from gpucf._costs import make_cost_model
from gpucf._targets import resolve_target

N_MODELS = 2000


def _engine(model, X, rng):
    """An engine with a random domain: continuous, integer or float32 columns."""
    whole = (np.floor(X) == X).all(axis=0)
    names = gpucf.load_model(model).feature_names
    features = {names[j]: "integer" for j in range(X.shape[1]) if whole[j] and rng.random() < 0.3}
    return gpucf.Engine(model, background=X, features=features, n_threads=1, method="map")


def _query_rows(X, rng):
    """Rows of the data, some moved off the grid."""
    rows = X[rng.integers(len(X), size=3)].copy()
    if rng.random() < 0.5:
        rows[0] += rng.normal(size=X.shape[1])
    return rows


def _options(engine, rng):
    names = list(engine.ensemble.feature_names)
    weights = dict(zip(names, rng.choice([0.0, 0.5, 1.0, 2.0], len(names)), strict=True))
    return {
        "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
        "weights": None if rng.random() < 0.5 else weights,
        "scale": [None, "range", "std", "mad", "iqr"][rng.integers(5)],
        "immutable": [n for n in names if rng.random() < 0.1],
        "increase_only": [n for n in names if rng.random() < 0.1],
    }  # fmt: skip


def _target(engine, rng):
    classes = engine.ensemble.classes.tolist()
    choices = ["any_other", classes[rng.integers(len(classes))]]
    if len(classes) == 2:
        choices.append("opposite")
    if engine.ensemble.probability != "none":
        choices.append(gpucf.Probability(float(rng.choice([0.3, 0.5, 0.7])), classes[rng.integers(len(classes))]))
    return choices[rng.integers(len(choices))]


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
        engine = _engine(model, X, rng)
        rows, options, target = _query_rows(X, rng), _options(engine, rng), _target(engine, rng)
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
