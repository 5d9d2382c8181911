"""Comparison of whole queries with the oracle, for tables of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracle import answer

import gpucf
from gpucf._costs import CostModel, make_cost_model
from gpucf._table import read_table
from gpucf._targets import Target


def cost_model(engine: gpucf.Engine, options: dict[str, Any]) -> CostModel:
    """What `Engine.query` makes of its options."""
    return make_cost_model(
        engine.cells(), engine.ensemble.feature_names, options.get("cost", "l1"), options.get("weights"),
        engine._unit(options.get("scale", "range")), options.get("immutable", ()), options.get("increase_only", ()),
        options.get("decrease_only", ()),
    )  # fmt: skip


def coded(engine: gpucf.Engine, table: Any) -> np.ndarray:
    """A table as float64 in the model's order, categories as their positions."""
    return read_table(table, engine.ensemble).values


def same_bits(a: Any, b: Any) -> bool:
    """Equal float64 arrays, NaN and the sign of zero included."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a.shape == b.shape and bool(np.array_equal(a.view(np.int64), b.view(np.int64)))


def check_query(engine: gpucf.Engine, X: Any, target: Any = "opposite", **options: Any) -> gpucf.Result:
    """Query, and demand the oracle's answer for every row: status, cost, point, and what did not change."""
    result = engine.query(X, target=target, **options)
    costs, goals = cost_model(engine, options), goals_by_row(engine, X, target, options.get("margin", 0.0))
    before, after = coded(engine, X), coded(engine, result.counterfactuals)
    assert np.array_equal(result.lower_bound, result.cost)
    for i, x in enumerate(before):
        goal = goals[i]
        if result.status[i] == "already":
            assert goal.labels is not None and result.cost[i] == 0.0
            assert same_bits(after[i], x)
            continue
        point, cost = answer(engine, goal, x, costs)
        if point is None:
            assert result.status[i] == "infeasible" and np.isinf(result.cost[i]), (i, x)
            assert same_bits(after[i], x)
            continue
        assert result.status[i] == "optimal", (i, x, point)
        assert result.cost[i] == costs.report(np.float64(cost)), (i, x, point, after[i])
        assert np.array_equal(after[i], point, equal_nan=True), (i, x, point, after[i])
        assert same_bits(after[i][~result.changed[i]], x[~result.changed[i]])
        assert result.changed[i].any()
    for method in ("map", "search"):
        check_method(engine, X, result, method, target=target, **options)
    return result


def goals_by_row(engine: gpucf.Engine, X: Any, target: Any, margin: float = 0.0) -> list[Target]:
    """The target of each row, resolved."""
    table = read_table(X, engine.ensemble)
    goals: dict[int, Target] = {}
    for group in engine._groups(target, margin, table):
        goals.update(dict.fromkeys(group.rows.tolist(), group.target))
    return [goals[i] for i in range(len(table.values))]


def check_method(engine: gpucf.Engine, X: Any, result: gpucf.Result, method: str, **options: Any) -> None:
    """A method gives the same bits, if another one has answered and this one can."""
    if result.plan["method"] == method:
        return
    own_method, engine.method = engine.method, method
    try:
        found = engine.query(X, **options)
    except gpucf.MapTooLargeError:
        return
    finally:
        engine.method = own_method
    assert np.array_equal(found.status, result.status)
    assert same_bits(found.cost, result.cost) and same_bits(found.lower_bound, result.lower_bound)
    assert same_bits(found._after, result._after)


def check_search(engine: gpucf.Engine, X: Any, result: gpucf.Result, **options: Any) -> None:
    """The ensemble search gives the same bits, if another method has answered."""
    check_method(engine, X, result, "search", **options)
