"""Declared features: random mixtures of rules against brute force, and every rule on the returned numbers."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from declared import Declared, check_rules
from engine_checks import check_search, coded, same_bits
from mixed_models import N_CATEGORIES, random_ensemble, random_rows
from sizes import DEEP
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import gpucf
from gpucf import OptionError, TableError
from gpucf._domain import last_cast_at_most
from gpucf._ensemble import TreeBuilder
from gpucf._targets import resolve_target

N_PROBLEMS = 5000
SPACES = ("xi", "xx", "cx", "oi", "xo", "ci", "xc", "ii")


def check_declared(
    engine: gpucf.Engine, given: dict[str, Any], X: Any, background: Any, target: Any, options: dict[str, Any]
) -> gpucf.Result:
    """Query; demand the oracle's answer for every row, the search's, and all rules on the returned numbers."""
    result = engine.query(X, target=target, **options)
    declared = Declared(engine, given, options, background)
    goal = resolve_target(engine.ensemble, target)
    before, after = coded(engine, X), coded(engine, result.counterfactuals)
    for i, x in enumerate(before):
        if result.status[i] == "already":
            assert same_bits(after[i], x)
            continue
        point, cost = declared.answer(goal, x, i)
        if point is None:
            assert result.status[i] == "infeasible" and same_bits(after[i], x), (i, x, after[i], given, options)
            continue
        assert result.status[i] == "optimal", (i, x, point, given, options)
        expected = np.sqrt(np.float64(cost)) if options.get("cost") == "l2" else cost
        assert result.cost[i] == expected, (i, x, point, after[i], given, options)
        assert np.array_equal(after[i], point, equal_nan=True), (i, x, point, after[i], given, options)
        assert same_bits(after[i][~result.changed[i]], x[~result.changed[i]])
        prices = [change["cost"] for change in result.changes(i)]
        assert (max(prices) if declared.is_max else sum(prices)) == cost
    check_rules(declared, before, after)
    check_search(engine, X, result, target=target, **options)
    return result


def random_number(rng: np.random.Generator, whole: bool, nullable: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    shape = rng.integers(6)
    if shape == 0:
        choices = [1, 2] if whole else [0.1, 0.25, 0.5, 1, 0.3]
        entry["step"] = choices[rng.integers(len(choices))]
        entry["range"] = [float(rng.integers(-2, 1)), float(rng.integers(1, 5))]
        if rng.random() < 0.3:
            entry["origin"] = 1 if whole else 0.05
    elif shape == 1:
        pool = [-9, -4, -1, 0, 1, 2, 3, 5] if whole else [-9.0, -1.0, 0.0, 0.25, 0.5, 0.1, 1.3, 2.0, 7.0]
        entry["levels" if rng.random() < 0.5 else "values"] = sorted(
            rng.choice(pool, rng.integers(1, 6), replace=False).tolist()
        )
    elif shape == 2:
        low = None if rng.random() < 0.3 else float(rng.integers(-1, 2)) / 2
        entry["range"] = [low, None if rng.random() < 0.3 else float(rng.integers(1, 5))]
    if whole and "levels" not in entry:
        entry["kind"] = "integer"
    if rng.random() < 0.25:
        entry[str(rng.choice(["increase_only", "decrease_only", "immutable"], p=[0.4, 0.4, 0.2]))] = True
    if rng.random() < 0.3:
        entry[str(rng.choice(["max_change", "max_rise", "max_fall"]))] = float(rng.choice([0.1, 0.3, 1.0, 2.0]))
    if rng.random() < 0.4:
        entry[str(rng.choice(["price_up", "price_down"]))] = float(rng.choice([0.0, 0.5, 3.0]))
    if rng.random() < 0.2:
        entry["fixed"] = float(rng.choice([0.1, 1.0]))
    if rng.random() < 0.2:
        entry["weight"] = float(rng.choice([0.0, 0.5, 2.0]))
    if rng.random() < 0.2:
        entry["scale"] = float(rng.choice([0.1, 3.0]))
    if rng.random() < 0.2:
        entry["table"] = [[-1, 0], [0.3, 1], [1, 1], [2.5, 4.1]]
    if nullable and rng.random() < 0.5:
        entry["missing"] = {}
        if rng.random() < 0.7:
            entry["missing"]["enter"] = float(rng.choice([0.0, 0.2, 1.0, 3.0]))
        if rng.random() < 0.7 or not entry["missing"]:
            inside = _some_attainable(entry)
            to = inside if rng.random() < 0.5 else inside[:1]
            entry["missing"]["leave"] = {"to": to, "price": float(rng.choice([0.1, 1.0]))}
    return entry


def _some_attainable(entry: dict[str, Any]) -> list[float]:
    """Values that a missing one may be filled with."""
    values = entry.get("levels", entry.get("values"))
    if values is not None:
        return values
    low = (entry.get("range") or [None, None])[0]
    start = 0.0 if low is None else low
    if "step" not in entry:
        return [start + 1.0, start] if start == int(start) else [start + 0.5]
    step, origin = Fraction(repr(entry["step"])), Fraction(repr(entry.get("origin", 0)))
    k = -((origin - Fraction(start)) // step)
    k = next(m for m in range(k - 2, k + 3) if origin + m * step >= Fraction(start))
    return [float(origin + k * step)]


def random_category(rng: np.random.Generator, labels: list[Any], nullable: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if rng.random() < 0.6:
        entry["prices"] = {
            a: {b: [0.0, 0.5, 2.0, None][rng.integers(4)] for b in labels if b != a and rng.random() < 0.5}
            for a in labels
        }
    if rng.random() < 0.3:
        a, b = rng.choice(len(labels), 2, replace=False)
        entry["forbidden"] = [[labels[a], labels[b]]]
    if rng.random() < 0.2:
        entry["fixed"] = 0.25
    if rng.random() < 0.3:
        entry["weight"] = float(rng.choice([0.0, 0.5, 2.0]))
    if rng.random() < 0.1:
        entry["immutable"] = True
    if nullable and rng.random() < 0.5:
        entry["missing"] = {"enter": float(rng.choice([0.0, 0.2, 3.0])), "leave": {"to": labels[0], "price": 0.3}}
    return entry


def random_features(rng: np.random.Generator, names: tuple[str, ...], groups: dict[str, list[str]], nullable: bool):
    given: dict[str, Any] = {}
    for name in names:
        if name[0] in "xi":
            given[name] = random_number(rng, name[0] == "i", nullable)
        elif name[0] == "c":
            given[name] = random_category(rng, list(range(N_CATEGORIES)), nullable)
    for group, columns in groups.items():
        given[group] = {"one_hot": columns}
        if rng.random() < 0.5:
            given[group]["reference"] = "none"
        given[group] |= random_category(rng, columns + ["none"] * ("reference" in given[group]), False)
    return {name: entry for name, entry in given.items() if entry}


def random_options(rng: np.random.Generator, names: tuple[str, ...], groups: dict[str, Any], n: int) -> dict[str, Any]:
    costs = ["l1", "l2", "linf", "l0", "quantile", {"l1": 1, "l0": 0.1}, {"l2": 0.5, "l1": 2, "l0": 1},
             {"quantile": 1, "l0": 0.01}]  # fmt: skip
    movable = [name for name in names if name[0] in "xi"]
    features = [*groups, *(name for name in names if name[0] != "o")]
    options: dict[str, Any] = {
        "cost": costs[rng.integers(len(costs))],
        "scale": [None, "range", "std", "mad", "iqr"][rng.integers(5)],
        "weights": {name: float(rng.choice([0.0, 0.5, 1.0, 2.0])) for name in features if rng.random() < 0.3},
        "increase_only": [name for name in movable if rng.random() < 0.1],
        "immutable": {},
        "limits": {},
    }
    for name in features:
        if rng.random() < 0.15:
            options["immutable"][name] = [rng.random(n) < 0.5, False, True][rng.choice(3, p=[0.6, 0.3, 0.1])]
    for name in movable:
        if rng.random() < 0.3:
            bound = rng.integers(-1, 6, n) * 0.5
            bound[rng.random(n) < 0.2] = np.nan
            options["limits"][name] = {"low": bound - 1.0, "high": bound + float(rng.choice([0.0, 1.0]))}
        elif rng.random() < 0.1:
            options["limits"][name] = {"max_rise": rng.integers(0, 4, n) * 0.4}
    return options


def stored(values: np.ndarray, names: tuple[str, ...], how: str) -> Any:
    """Rows as float64, as float32, or in columns of their own: integers, and float32."""
    if how != "mixed":
        return values.astype(how)
    columns = {name: np.floor(values[:, j]) if name[0] == "i" else values[:, j] for j, name in enumerate(names)}
    dtypes = {"i": "int64", "x": "float32", "c": "int16", "o": "int8"}
    return pd.DataFrame({name: column.astype(dtypes[name[0]]) for name, column in columns.items()})


def check_order(engine: gpucf.Engine, X: Any, result: gpucf.Result, target: Any, options: dict[str, Any]) -> None:
    """Rows backwards, their limits with them, have the same answers."""

    def turned(wish: Any) -> Any:
        if isinstance(wish, dict):
            return {key: turned(value) for key, value in wish.items()}
        return wish[::-1] if isinstance(wish, np.ndarray) else wish

    back = {**options, "limits": turned(options["limits"]), "immutable": turned(options["immutable"])}
    again = engine.query(X[::-1], target=target, **back)
    assert same_bits(again._after[::-1], result._after) and same_bits(again.cost[::-1], result.cost)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("space", SPACES)
def test_random_rules_equal_the_oracle(space: str, nullable: bool) -> None:
    rng = np.random.default_rng([ord(c) for c in space] + [nullable])
    seen = {"optimal": 0, "infeasible": 0, "already": 0}
    for _ in range(N_PROBLEMS // (2 * len(SPACES)) + 1 if DEEP else 4):
        ensemble, groups = random_ensemble(rng, space, nullable)
        names = ensemble.feature_names
        given = random_features(rng, names, groups, nullable)
        left_out = tuple(given[g]["one_hot"][0] for g in groups if "reference" in given[g])
        background = random_rows(rng, names, 12, False, left_out)
        X = random_rows(rng, names, 4, nullable, left_out)
        storage = {"float64": 0.5, "float32": 0.25, "mixed": 0.0 if nullable else 0.25}
        chosen = str(rng.choice(list(storage), p=np.array(list(storage.values())) / sum(storage.values())))
        background, X = stored(background, names, chosen), stored(X, names, chosen)
        engine = gpucf.Engine(ensemble, background=background, features=given, n_threads=1, method="map")
        options = random_options(rng, names, groups, len(X))
        target = ["any_other", 0, 1][rng.integers(3)]
        try:
            engine.query(X, target, **options)
        except TableError as error:  # limits that tell apart what no model can
            if "Leave one of the two out" not in str(error):
                raise
            continue
        result = check_declared(engine, given, X, coded(engine, background), target, options)
        check_order(engine, X, result, target, options)
        for status in result.status:
            seen[status] += 1
        if rng.random() < 0.1:
            for region_map in engine._planner.maps:
                region_map.check()
    assert seen["optimal"] > 0


# --- by hand: faults of peers, cases from bug reports, and what is refused --------------------------------------------


def stump(threshold: float, dtype: Any = np.float64, n_columns: int = 1) -> Any:
    """A model that says 1 above a threshold of the first column (and of any further one)."""
    builder = TreeBuilder("test", n_columns, dtype, np.float64, 1)
    leaves = np.array([[0.0], [-0.25], [0.25]])
    for j in range(n_columns):
        builder.add_tree([j, 0, 0], [threshold, 0, 0], [1, -1, -1], [2, -1, -1], [True] * 3, leaves)
    return builder.build(
        np.zeros(1), library="test", model_type="stump", task="binary", feature_names=tuple("abcd"[:n_columns]),
        has_names=True, classes=np.arange(2), allows_missing=np.full(n_columns, True), decision="above_0",
        probability="none",
    )  # fmt: skip


def ask(model: Any, given: Any, X: Any, target: Any = 1, background: Any = None, **options: Any) -> gpucf.Result:
    """Query by map and by search, unscaled."""
    engine = gpucf.Engine(model, background=background, features=given, n_threads=1, method="map")
    result = engine.query(X, target=target, scale=None, **options)
    check_search(engine, X, result, target=target, scale=None, **options)
    return result


def test_peers_discrete_levels_below_zero() -> None:
    """OCEAN CP called a discrete feature with levels -9..3 infeasible from -9."""
    result = ask(stump(2.0), {"a": {"levels": list(range(-9, 4))}}, np.array([[-9.0]]))
    assert result.status.tolist() == ["optimal"] and result.counterfactuals.tolist() == [[3.0]]
    assert result.cost.tolist() == [12.0]


def test_peers_levels_of_a_quarter() -> None:
    """OCEAN CP called a cost of 1.0 optimal where 0.5 is, with the levels 0, 0.25, 0.5."""
    result = ask(stump(0.3), {"a": {"levels": [0, 0.25, 0.5]}}, np.array([[0.0]]))
    assert result.counterfactuals.tolist() == [[0.5]] and result.cost.tolist() == [0.5]


def test_peers_integer_columns_get_integers() -> None:
    """A search of treecf called non-integers optimal; here also with a step, a range and prices of their own."""
    X = pd.DataFrame({"a": [0, 7, 12]})
    result = ask(stump(2.5), {"a": {"step": 2, "price_up": 3}}, X, background=X)
    assert result.counterfactuals.a.tolist() == [4, 7, 12] and result.counterfactuals.a.dtype == np.int64
    assert result.cost.tolist() == [12.0, 0.0, 0.0]


def test_peers_rows_far_outside_the_range() -> None:
    """OCEAN raised an IndexError. Here they may stay, and what moves lands inside."""
    X = np.array([[1000.0], [-1000.0], [8.0]])
    given = {"a": {"range": [10, 20]}}
    assert ask(stump(15.0), given, X).counterfactuals.tolist() == [[1000.0], [15.0 + 2.0**-49], [15.0 + 2.0**-49]]
    down = ask(stump(15.0), given, X, target=0)
    assert down.counterfactuals.tolist() == [[15.0], [-1000.0], [8.0]] and down.cost.tolist() == [985.0, 0.0, 0.0]
    two = ask(stump(15.0, n_columns=2), given, np.array([[1000.0, 20.0]]), target=0, immutable=["b"])
    assert two.counterfactuals.tolist() == [[15.0, 20.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_case_10_a_step_is_a_number_that_a_person_reads(dtype: Any) -> None:
    """DiCE#473. Also where the model compares in float32, which does not hold 0.1: the answer is 0.1 all the same."""
    X = np.array([[0.05], [0.3], [1e6 + 0.015]])
    cut = float(dtype(0.6799))
    for target, expected in ((1, [0.68, 0.68, 1e6 + 0.015]), (0, [0.05, 0.3, 0.67])):
        result = ask(stump(cut, dtype), {"a": {"step": 0.01}}, X, target=target)
        assert result.counterfactuals[:, 0].tolist() == expected
    assert ask(stump(cut, dtype), None, X[:1]).counterfactuals[0, 0] not in (0.68, 0.67)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_around_every_cut(dtype: Any) -> None:
    """Cuts on a grid value, next to it, and half-way between two float32 numbers."""
    for tenths in range(-7, 8):
        exact = tenths / 10
        for cut in (exact, np.nextafter(dtype(exact), dtype(-9)), np.nextafter(dtype(exact), dtype(9))):
            cut = float(dtype(cut))
            result = ask(stump(cut, dtype), {"a": {"step": 0.1}}, np.array([[-5.03]]))
            fits = [k / 10 for k in range(-9, 10) if dtype(k / 10) > dtype(cut)]
            assert result.counterfactuals[0, 0] == fits[0], (cut, exact)


def test_the_last_number_that_a_cast_puts_below_a_cut() -> None:
    """Also for cuts that are no float32 themselves, and at the ends of its reach."""
    rng = np.random.default_rng(0)
    cuts = np.concatenate([rng.normal(size=200), rng.normal(size=200).astype(np.float32), [0, 0.1, -0.1, 1e-46, 1e38]])
    last = last_cast_at_most(cuts, np.dtype(np.float32))
    assert (last.astype(np.float32).astype(float) <= cuts).all()
    assert (np.nextafter(last, np.inf).astype(np.float32).astype(float) > cuts).all()


def test_case_21_a_range_for_one_feature_only() -> None:
    """DiCE#106."""
    X = np.array([[0.0, 0.0]])
    result = ask(stump(5.0, n_columns=2), {"b": {"range": [None, 4]}}, X)
    assert result.status.tolist() == ["infeasible"]  # both would have to rise above 5
    result = ask(stump(5.0, n_columns=2), {"b": {"range": [None, 6]}}, X)
    assert (result.counterfactuals > 5.0).all() and result.status.tolist() == ["optimal"]


def test_limits_of_rows() -> None:
    """From arrays, numbers and columns; a row outside its limits lands on one of them, on the grid, or stays."""
    X = pd.DataFrame({"a": [0.0, 0.0, 0.0, 0.0, 0.0], "most": [1.0, 2.0, np.nan, 9.0, 1.5]})
    result = ask(stump(1.0), None, X, limits={"a": {"high": "most"}})
    assert result.status.tolist() == ["infeasible", "optimal", "optimal", "optimal", "optimal"]
    assert result.counterfactuals.most.equals(X.most)
    least = np.array([0.7, 1.3, np.nan, 1.25, -5.0])
    result = ask(stump(1.0), {"a": {"step": 0.5}}, X[["a"]], limits={"a": {"low": least, "high": 1.5}})
    assert result.counterfactuals.a.tolist() == [1.5, 1.5, 1.5, 1.5, 1.5]
    result = ask(stump(1.0), {"a": {"step": 0.5}}, X[["a"]], limits={"a": {"low": least + 1, "high": 2.4}})
    assert result.counterfactuals.a.tolist() == [2.0, 0.0, 1.5, 0.0, 1.5]
    assert result.status.tolist() == ["optimal", "infeasible", "optimal", "infeasible", "optimal"]
    frozen = ask(stump(1.0), None, X[["a"]], immutable={"a": np.array([True, False, False, True, True])})
    assert frozen.status.tolist() == ["infeasible", "optimal", "optimal", "infeasible", "infeasible"]


def test_declared_columns_of_limits_ride_along() -> None:
    X = pd.DataFrame({"a": [0.0, 0.0, 0.0], "top": ["1.0", "", "3"], "still": [0, 0, 1]}, index=[7, 3, 5])
    result = ask(stump(1.0), {"a": {"high_from": "top", "immutable_from": "still"}}, X)
    assert result.status.tolist() == ["infeasible", "optimal", "infeasible"]
    assert list(result.counterfactuals) == list(X) and result.counterfactuals.top.tolist() == X.top.tolist()


def test_a_largest_change_is_counted_in_decimals() -> None:
    """0.7 + 0.1 is below 0.8 in floats; a person who allows a tenth means 0.8."""
    X = np.array([[0.7]])
    given = {"a": {"step": 0.1, "max_change": 0.1}}
    assert ask(stump(0.75), given, X).counterfactuals.tolist() == [[0.8]]
    assert ask(stump(0.85), given, X).status.tolist() == ["infeasible"]
    narrow = X.astype(np.float32)
    found = ask(stump(0.75, np.float32), given, narrow, background=narrow)
    assert found.counterfactuals.tolist() == [[float(np.float32(0.8))]]


def test_a_group_with_its_reference_left_out() -> None:
    rng = np.random.default_rng(3)
    code = rng.integers(0, 3, 300)
    X = pd.DataFrame(
        {"job=a": (code == 1).astype(np.int8), "job=b": (code == 2).astype(np.int8), "x": rng.integers(0, 3, 300)}
    )
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, (code == 0) ^ (X.x == 2))
    given = {
        "job": {"one_hot": ["job=a", "job=b"], "reference": "job=none", "prices": {"a": {"b": 0.5, "job=none": 3}}}
    }
    given["job"]["forbidden"] = [["job=b", "job=none"]]
    result = ask(model, given, X[:60], target="opposite", background=X, immutable=["x"])
    after = result.counterfactuals
    assert ((after["job=a"] + after["job=b"]) <= 1).all() and (result.n_changed <= 1).all()
    for i in np.flatnonzero(result.status == "optimal"):
        change = result.changes(i)[0]
        start, end, price = change["from"], change["to"], change["cost"]
        assert (start, end) != ("job=b", "job=none")
        assert price == {("job=a", "job=b"): 0.5, ("job=a", "job=none"): 3.0}.get((start, end), 1.0)
    assert (result.status == "infeasible").any()
    with pytest.raises(TableError, match="needs at most one column at 1"):
        ask(model, given, X[:1].assign(**{"job=a": 1, "job=b": 1}), target="opposite", background=X)


def test_missing_values_as_states() -> None:
    X = pd.DataFrame({"a": [np.nan, 5.0, 0.0], "b": [0.0, 0.0, 0.0]})
    model = stump(1.0, n_columns=2)  # missing goes left: below
    given = {"a": {"missing": {"leave": {"to": [3, 0.5], "price": 2}, "enter": 0.25}}}
    engine = gpucf.Engine(model, features=given, method="map", n_threads=1)
    up = engine.query(X, target=1, scale=None, cost={"l1": 1, "l0": 0.5})
    assert up.counterfactuals.a.tolist() == [3.0, 5.0, np.nextafter(1.0, 2.0)]
    assert up.changes(0)[0] == {"feature": "a", "from": None, "to": 3.0, "cost": 2.5}
    down = engine.query(X, target=0, scale=None, immutable=["b"])
    assert down.status.tolist() == ["already", "already", "already"]
    both = pd.DataFrame({"a": [5.0, np.nan], "b": [5.0, 5.0]})
    down = engine.query(both, target=0, scale=None)
    assert np.isnan(down.counterfactuals.a[0]) and down.cost.tolist() == [0.25, 0.0]
    assert engine.query(both, target=0, scale=None, immutable=["a"]).cost[0] == 4.0
    whole = gpucf.Engine(model, features={"a": {"kind": "integer", "missing": {"enter": 1}}})
    with pytest.raises(TableError, match="'a' is int64, which holds no missing values"):
        whole.query(pd.DataFrame({"a": [5], "b": [5.0]}), target=0, scale=None)


def test_limits_that_tell_fillings_of_one_cell_apart_are_refused() -> None:
    """Found by the mixtures: only the largest filling of a cell was known, so that a row was called infeasible."""
    X = np.array([[np.nan], [np.nan]])
    given = {"a": {"missing": {"leave": {"to": [2.0, 7.0]}}}}
    assert ask(stump(1.0), given, X).counterfactuals.tolist() == [[7.0], [7.0]]
    with pytest.raises(TableError, match=r"row 1: 'a' is missing, and may be filled with 2\.0 but, .* not with 7\.0"):
        ask(stump(1.0), given, X, limits={"a": {"high": np.array([9.0, 3.0])}})
    given = {"a": {"missing": {"leave": {"to": 2.0}}}}
    limits = {"a": {"high": np.array([9.0, 1.0])}}
    assert ask(stump(1.0), given, X, limits=limits).status.tolist() == ["optimal", "infeasible"]


BAD_FEATURES: dict[str, tuple[Any, str]] = {
    "unknown key": ({"a": {"incerase_only": True}}, "unknown key 'incerase_only'; known are 'kind'"),
    "unknown kind": ({"a": {"kind": "real"}}, "features.'a'. is 'real'; give one of"),
    "ordinal without levels": ({"a": "ordinal"}, "is 'ordinal'; give its levels"),
    "falling levels": ({"a": {"levels": [2, 1]}}, "levels must ascend"),
    "no levels": ({"a": {"levels": []}}, "at least one number"),
    "levels twice": ({"a": {"values": [1, 1]}}, "each once"),
    "step and values": ({"a": {"step": 1, "values": [1]}}, "give one of levels, values, or step"),
    "step of 0": ({"a": {"step": 0}}, "'step'. is 0; give a number above 0"),
    "empty range": ({"a": {"range": [2, 1]}}, "low end is above its high end"),
    "range of one": ({"a": {"range": [2]}}, "give .low, high."),
    "a flag as text": ({"a": {"immutable": "yes"}}, "give true or false"),
    "negative weight": ({"a": {"weight": -1}}, "give a number >= 0"),
    "nan": ({"a": {"fixed": float("nan")}}, "give a number >= 0"),
    "falling table": ({"a": {"table": [[0, 1], [1, 0]]}}, "prices must not fall"),
    "missing as text": ({"a": {"missing": "fill"}}, "give .keep., or a dict"),
    "leave without to": ({"a": {"missing": {"leave": {"price": 1}}}}, "'leave'. is .*; give"),
    "reference without group": ({"a": {"reference": "x"}}, "no one_hot columns"),
    "a list": (["a"], "features is a list"),
    "no dict": ({"a": 3}, "features.'a'. is 3; give a kind"),
    "unknown column": ({"z": "integer"}, "features names 'z'"),
    "no value left": ({"a": {"step": 1, "range": [0.2, 0.8]}}, "leaves no value"),
    "half a step": ({"a": {"kind": "integer", "step": 0.5}}, "declares 0.5, but the column holds whole numbers"),
    "prices of a number": ({"a": {"prices": {"x": {"y": 1}}}}, "but the column is a number"),
    "filled off the grid": ({"a": {"step": 1, "missing": {"leave": {"to": 0.5}}}}, "not on its grid"),
    "filled outside": ({"a": {"range": [0, 1], "missing": {"leave": {"to": 2}}}}, "outside its range"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FEATURES)
def test_features_that_cannot_be_used_are_refused(name: str) -> None:
    given, message = BAD_FEATURES[name]
    with pytest.raises(OptionError, match=message):
        gpucf.Engine(stump(1.0), features=given, method="map").query(np.array([[0.0]]), scale=None)


BAD_QUERIES: dict[str, tuple[dict[str, Any], str]] = {
    "limits as a list": ({"limits": ["a"]}, "limits is a list"),
    "limits of no column": ({"limits": {"z": {"high": 1}}}, "limits names 'z'"),
    "unknown limit": ({"limits": {"a": {"hi": 1}}}, "give a dict with 'low', 'high'"),
    "wrong length": ({"limits": {"a": {"high": [1, 2, 3]}}}, r"has shape \(3,\), but X has 1 rows"),
    "text": ({"limits": {"a": {"high": ["x"]}}}, "give a number, one number per row"),
    "negative change": ({"limits": {"a": {"max_rise": -1}}}, "give numbers >= 0"),
    "flags that are not": ({"immutable": {"a": np.array([3])}}, "give booleans"),
    "flags of a wrong length": ({"immutable": {"a": np.array([True, False])}}, "for each row of X"),
    "no such cost": ({"cost": "l3"}, "give one of 'l1', .*or a mixture"),
    "largest in a mixture": ({"cost": {"linf": 1, "l0": 1}}, "cannot be added to a sum"),
    "two measures": ({"cost": {"l1": 1, "quantile": 1}}, "Mix either with"),
    "free": ({"cost": {"l1": 0}}, "every change is free"),
    "a share below 0": ({"cost": {"l1": -1}}, "finite number >= 0"),
    "no population": ({"cost": "quantile"}, "needs a background"),
}


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_queries_that_cannot_be_answered_are_refused(name: str) -> None:
    options, message = BAD_QUERIES[name]
    with pytest.raises(OptionError, match=message):
        gpucf.Engine(stump(1.0)).query(np.array([[0.0]]), scale=None, **options)


def test_columns_that_hold_limits_must_exist() -> None:
    frame = pd.DataFrame({"a": [0.0], "top": ["much"]})
    engine = gpucf.Engine(stump(1.0), features={"a": {"high_from": "top"}})
    with pytest.raises(TableError, match="'much' is not a number"):
        engine.query(frame, scale=None)
    with pytest.raises(TableError, match="'top', which X does not have"):
        engine.query(frame[["a"]], scale=None)
    with pytest.raises(OptionError, match="array without column names"):
        engine.query(np.array([[0.0]]), scale=None)


def test_features_hold_in_every_form(tmp_path: Path) -> None:
    """A dict, `Features`, a file; and an engine that was pickled."""
    given = {"a": {"step": 0.5, "range": [0, 9], "fixed": 0.25, "increase_only": True}}
    path = tmp_path / "features.json"
    gpucf.Features(given).to_file(path)
    assert gpucf.Features.from_file(path) == gpucf.Features(given)
    X = np.array([[0.0], [3.0]])
    for form in (given, gpucf.Features(given), path, str(path)):
        engine = gpucf.Engine(stump(1.2), features=form, n_threads=1)
        for one in (engine, pickle.loads(pickle.dumps(engine))):
            result = one.query(X, target=1, scale=None)
            assert result.counterfactuals.tolist() == [[1.5], [3.0]] and result.cost.tolist() == [1.75, 0.0]
    freed = gpucf.Engine(stump(1.2), features={"a": {"immutable": True}})
    assert freed.query(X, target=1, scale=None).status.tolist() == ["infeasible", "already"]
    assert freed.query(X, target=1, scale=None, immutable={"a": False}).status.tolist() == ["optimal", "already"]


def test_tables_too_narrow_for_a_declared_grid_are_refused() -> None:
    engine = gpucf.Engine(stump(0.6, np.float32), features={"a": {"step": 0.1}})
    with pytest.raises(TableError, match="float32, but the engine was built for continuous values of float64"):
        engine.query(np.zeros((1, 1), np.float32), scale=None)
    halves = gpucf.Engine(stump(0.6, np.float32), features={"a": {"values": [0, 0.5, 1]}})
    assert halves.query(np.zeros((1, 1), np.float32), target=1, scale=None).counterfactuals.tolist() == [[1.0]]
    whole = gpucf.Engine(stump(0.6), features={"a": {"kind": "integer", "range": [0, 100]}})
    assert whole.query(np.zeros((1, 1), np.int8), target=1, scale=None).counterfactuals.tolist() == [[1]]


def dearest_first(labels: list[Any], rng: np.random.Generator) -> dict[Any, dict[Any, float | None]]:
    """Prices between all categories, some moves forbidden, some missing from the table."""
    return {
        a: {b: None if rng.random() < 0.2 else float(rng.integers(0, 9)) / 4 for b in labels if rng.random() < 0.8}
        for a in labels
    }


def cheapest(model: Any, row: pd.DataFrame, variants: list[pd.DataFrame], prices: list[float]) -> float:
    said = model.predict(row)[0]
    return min(
        (p for v, p in zip(variants, prices, strict=True) if model.predict(v)[0] != said), default=float("inf")
    )  # fmt: skip


def price_between(given: dict[Any, dict[Any, float | None]], a: Any, b: Any) -> float:
    price = given[a].get(b, 1.0)
    return float("inf") if price is None else price


def test_seventy_categories_with_a_price_each() -> None:
    """More categories than bits in a word, in a one-hot group."""
    rng = np.random.default_rng(7)
    k = 70
    names = [f"job_{i}" for i in range(k)]
    code = rng.integers(0, k, 600)
    X = pd.DataFrame(np.eye(k, dtype=np.int8)[code], columns=names)
    model = RandomForestClassifier(5, max_depth=12, random_state=0).fit(X, rng.random(k)[code] < 0.5)
    given = dearest_first(names, rng)
    result = ask(model, {"job": {"one_hot": names, "prices": given}}, X[:25], target="opposite", background=X)
    variants = [pd.DataFrame([row], columns=names) for row in np.eye(k, dtype=np.int8)]
    for i in range(25):
        prices = [price_between(given, names[code[i]], b) for b in names]
        assert result.cost[i] == cheapest(model, X[i : i + 1], variants, prices)


def test_native_categories_with_prices_by_name() -> None:
    import lightgbm

    rng = np.random.default_rng(8)
    labels = [f"town {i}" for i in range(9)]
    X = pd.DataFrame({"town": pd.Categorical(rng.choice(labels, 400), categories=labels), "x": rng.integers(0, 3, 400)})
    y = (X.town.cat.codes % 3 == 0) ^ (X.x == 2)
    options = {"min_child_samples": 2, "cat_smooth": 0.1, "min_data_per_group": 1, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMClassifier(n_estimators=5, **options).fit(X, y)
    given = dearest_first(labels, rng)
    features = {"town": {"prices": given, "missing": {"enter": 0.125}}}
    engine = gpucf.Engine(model, background=X, features=features, n_threads=1, method="map")
    result = engine.query(X[:30], immutable=["x"])
    for i in range(30):
        row = X[i : i + 1]
        variants = [row.assign(town=pd.Categorical([b], categories=labels)) for b in [*labels, None]]
        prices = [*(price_between(given, row.town.iloc[0], b) for b in labels), 0.125]
        assert result.cost[i] == cheapest(model, row, variants, prices)
        if result.status[i] == "optimal" and result.cost[i] == 0.125:
            assert result.changes(i)[0]["to"] is None and pd.isna(result.counterfactuals.town.iloc[i])
    elsewhere = gpucf.Engine(model, background=X, features={"town": {"prices": {"town 1": {"nowhere": 1}}}})
    with pytest.raises(OptionError, match="the prices of 'town' name 'nowhere'"):
        elsewhere.query(X[:1])
