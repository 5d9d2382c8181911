"""Costs by hand: mixtures, percentiles of a population, tables, units of constant and nearly constant columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import gpucf
from gpucf import OptionError
from gpucf._measures import LARGEST_POSITION, Population, column_scales, position_in

X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [10.0, 3.0], [0.0, 4.0], [0.0, 40.0]])


def engine(**options: Any) -> gpucf.Engine:
    """A tree that says True above 3.5 in the second column."""
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, X[:, 1] > 3.5)
    assert model.tree_.threshold[0] == 3.5
    return gpucf.Engine(model, background=X, n_threads=1, **options)


def price(cost: Any, start: float, target: bool, entry: dict[str, Any] | None = None, **options: Any) -> float:
    found = engine(features={"f1": entry or {}})
    result = found.query(np.array([[0.0, start]]), target=target, cost=cost, **options)
    assert result.status[0] == "optimal"
    return float(result.cost[0])


UP = float(np.nextafter(np.float32(3.5), np.float32(4)))  # the first number above the cut that the model can tell


def test_quantile_is_the_share_of_the_population_between_two_values() -> None:
    """Of six rows, below 3.5 lie four. Half of those that equal an end count."""
    assert price("quantile", 3.5, True) == 0.0  # nobody lies between 3.5 and the number above
    assert price("quantile", 2.0, True) == 1.5 / 6
    assert price("quantile", 2.5, True) == 1 / 6
    assert price("quantile", 4.0, False) == 0.5 / 6
    assert price("quantile", 40.0, False) == 1.5 / 6
    assert price("quantile", 1000.0, False) == 2 / 6
    assert price("quantile", -7.0, True, weights={"f1": 2.0}) == 8 / 6
    assert price({"quantile": 3, "l0": 0.5}, 2.5, True) == 0.5 + 3 * (1 / 6)


def test_quantile_is_exact_and_monotone_on_large_populations() -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=(5000, 1)), 2)
    values[::50] = np.nan
    position, unit = Population(values).ranks(0)
    known = values[~np.isnan(values)]
    assert unit == 2 * len(known)
    at = np.sort(np.concatenate([known[:200], rng.normal(size=200), [-99.0, 99.0]]))
    found = position(at)
    assert (np.diff(found) >= 0).all() and found[0] == 0 and found[-1] == unit
    assert found.tolist() == [(known < v).sum() + (known <= v).sum() for v in at]


def test_mixtures_add_their_terms() -> None:
    assert price({"l1": 1}, 1.5, True, scale=None) == price("l1", 1.5, True, scale=None) == UP - 1.5
    assert price({"l1": 1, "l0": 0.25}, 1.5, True, scale=None) == 0.25 + (UP - 1.5)
    assert price({"l2": 1}, 1.5, True, scale=None) == (UP - 1.5) ** 2  # a mixture takes no root
    assert price("l2", 1.5, True, scale=None) == UP - 1.5
    both = price({"l0": 1, "l1": 2, "l2": 0.5}, 1.5, True, scale=None, weights={"f1": 4.0})
    assert both == 4.0 + 8.0 * (UP - 1.5) + 2.0 * (UP - 1.5) ** 2


def test_prices_up_and_down_and_charges() -> None:
    entry = {"price_up": 3.0, "price_down": 0.5, "fixed": 0.25, "weight": 2.0, "scale": 4.0}
    assert price("l1", 1.5, True, entry) == 0.25 + 6.0 * ((UP - 1.5) / 4.0)
    assert price("l1", 4.5, False, entry) == 0.25 + 1.0 * (1.0 / 4.0)
    assert price("l0", 1.5, True, entry) == 6.25 and price("l0", 4.5, False, entry) == 1.25
    assert price("linf", 4.5, False, entry, weights={"f1": 4.0}) == 0.25 + 2.0 * 0.25


def test_tables_say_what_a_move_costs() -> None:
    """Up to 2 a unit costs 0.5, up to 4 it costs 2, beyond it costs that on."""
    entry = {"table": [[0, 0], [2, 1], [4, 5]], "values": [0, 1, 2, 3, 4, 6]}
    assert price("l1", 0.0, True, entry) == 5.0 and price("l1", 3.0, True, entry) == 2.0
    assert price("l1", 6.0, False, entry) == 9.0 - 3.0
    assert price("l1", -2.0, True, entry) == 6.0
    assert price("l1", 0.0, True, entry, weights={"f1": 0.5}) == 2.5
    squares = {"table": lambda v: np.sign(v) * v * v, "values": [0, 1, 2, 3, 4, 6]}
    assert price("l1", 1.0, True, squares) == 15.0
    with pytest.raises(OptionError, match=r"the table of 'f1' falls from 0.0 to"):
        price("l1", 1.0, True, {"table": lambda v: -v, "values": [0, 1, 2, 3, 4, 6]})
    with pytest.raises(OptionError, match="one finite number for each value"):
        price("l1", 1.0, True, {"table": lambda v: np.full(v.shape, np.nan)})


def test_positions_in_a_table_never_fall() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        x = np.unique(rng.normal(size=6).round(rng.integers(1, 17)))
        y = np.sort(rng.normal(size=len(x)) * 10.0 ** rng.integers(-9, 9))
        around = np.concatenate([x, np.nextafter(x, -9), np.nextafter(x, 9), rng.normal(size=50), [1e308, -1e308]])
        found = position_in((x.tolist(), y.tolist()), np.sort(around))
        assert (np.diff(found) >= 0).all() and (np.abs(found) <= LARGEST_POSITION).all()
        inside = np.abs(found) < LARGEST_POSITION
        assert np.array_equal(position_in((x.tolist(), y.tolist()), x)[:-1], y[:-1]) and inside.any()


def test_a_zero_mad_has_a_finite_meaning() -> None:
    """More than half of the first column is 0, so that its MAD is: its range measures it. A constant counts 1."""
    assert column_scales(X, "mad", 2).tolist() == [10.0, 1.5]
    assert column_scales(X[:3], "mad", 2).tolist() == [1.0, 1.0]
    assert column_scales(X, "iqr", 2).tolist() == [10.0, 2.5]
    assert column_scales(X[:3], "std", 2)[0] == 1.0


def test_category_prices_stand_for_the_distance() -> None:
    """Under L2 a price of 3 counts as a distance of 3; under L0 every change counts once."""
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(np.eye(2)[[0, 1] * 5], [0, 1] * 5)
    given = {"g": {"one_hot": ["f0", "f1"], "prices": {"f0": {"f1": 3}}, "fixed": 0.5, "weight": 2}}
    found = gpucf.Engine(model, background=np.eye(2), features=given, n_threads=1)
    costs = {"l1": 6.5, "l2": np.sqrt(18.5), "linf": 6.5, "l0": 2.5, "quantile": 6.5}
    for cost, expected in costs.items():
        result = found.query(np.eye(2), target=1, cost=cost)
        assert result.status.tolist() == ["optimal", "already"] and result.cost[0] == expected
    back = found.query(np.eye(2), target=0)
    assert back.cost.tolist() == [0.0, 2.5]
