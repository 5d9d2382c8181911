"""Rules between columns: map = search = brute force over values, with the rule said again in plain Python."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_checks import check_method, coded, cost_model, goals_by_row, same_bits
from mixed_models import N_CATEGORIES, N_ONE_HOT, random_ensemble, random_rows
from oracle import answer
from random_models import random_model
from sizes import count

import gpucf
from gpucf._errors import OptionError, TableError

HIGH = 4  # whole-number columns of these tests lie in 0 .. HIGH
NUMBERS = [0.4 * k for k in range(HIGH)] + [0.5 * k for k in range(HIGH)]  # that rules compare columns with

Check = Callable[[dict[str, float]], bool]


def random_rule(rng: np.random.Generator, names: tuple[str, ...], groups: dict[str, list[str]]) -> tuple[str, Check]:
    """Text, and the same again in plain Python for a row as a dict by column name (categories as codes)."""
    whole = [n for n in names if n[0] == "i"]
    real = [n for n in names if n[0] == "x"]
    kinds = ["if_number"] * bool(whole) + ["pair", "sum", "both"] * (len(whole) > 1)
    kinds += ["category"] * any(n[0] == "c" for n in names) + ["group"] * bool(groups) + ["real"] * bool(real)
    kind = str(rng.choice(kinds))
    i, k, m = (int(v) for v in rng.integers(0, HIGH, 3))
    if whole:
        a, b = (str(v) for v in rng.choice(whole, 2, replace=len(whole) < 2))
    if kind == "pair":
        return [
            (f"{a} <= {b}", lambda r: r[a] <= r[b]), (f"{a} > {b}", lambda r: r[a] > r[b]),
            (f"{a} != {b}", lambda r: r[a] != r[b]), (f"if {a} = {i} then {a} < {b}", lambda r: r[a] != i or i < r[b]),
        ][rng.integers(4)]  # fmt: skip
    if kind == "sum":
        return [
            (f"2*{a} + {b} <= {k + 2}", lambda r: 2 * r[a] + r[b] <= k + 2),
            (f"{a} - 0.5*{b} >= -0.1*{k}", lambda r: r[a] - 0.5 * r[b] >= -0.1 * k),
            (f"1 <= {a} + {b} < {k + 4}", lambda r: 1 <= r[a] + r[b] < k + 4),
        ][rng.integers(3)]
    if kind == "both":
        return f"{a} <= 2 and not {b} = {k} or {a} >= {i}", lambda r: (r[a] <= 2 and r[b] != k) or r[a] >= i
    if kind == "category":
        c = str(rng.choice([n for n in names if n[0] == "c"]))
        other = str(rng.choice(whole + real + [c]))
        j = int(rng.integers(N_CATEGORIES))
        if other == c:
            return f"{c} != {j}", lambda r: r[c] != j
        return f"if {c} in {{{j}, 1}} then {other} >= {k / 2}", lambda r: r[c] not in (j, 1) or r[other] >= k / 2
    if kind == "group":
        g = str(rng.choice(list(groups)))
        chosen = groups[g][int(rng.integers(N_ONE_HOT))]
        if not whole + real:
            return f"{g} != {chosen}", lambda r: r[chosen] != 1
        other = str(rng.choice(whole + real))
        return [
            (f"if {g} = {chosen} then {other} <= {k / 2}", lambda r: r[chosen] != 1 or r[other] <= k / 2),
            (f"if {other} > {k / 2} then {g} != {chosen}", lambda r: r[other] <= k / 2 or r[chosen] != 1),
            (f"{chosen} + 0 < 1 or {other} = {m}", lambda r: r[chosen] == 0 or r[other] == m),
        ][rng.integers(2 + (other in whole))]
    if kind == "real":
        x = str(rng.choice(real))
        other = str(rng.choice(whole + real))
        return f"if {x} > {i * 0.4} then {other} <= {k * 0.4}", lambda r: r[x] <= i * 0.4 or r[other] <= k * 0.4
    return f"if {a} in {{{i}, {k}}} then {b} >= {m}", lambda r: r[a] not in (i, k) or r[b] >= m


def named_by(rule: str, names: tuple[str, ...]) -> list[str]:
    return [n for n in names if n in rule]


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("space", ["ii", "iii", "ci", "oi", "xi", "ico", "cx"])
def test_rules_equal_the_oracle(space: str, nullable: bool) -> None:
    rng = np.random.default_rng([ord(c) for c in space] + [nullable])
    dearer = moved = 0
    for _ in range(count(150)):
        ensemble, groups = random_ensemble(rng, space, nullable)
        names = ensemble.feature_names
        background = random_rows(rng, names, 10, False)
        features = {n: {"kind": "integer", "range": [0, HIGH]} for n in names if n[0] == "i"}
        chosen = [random_rule(rng, names, groups) for _ in range(int(rng.integers(1, 3)))]
        rules = [text for text, _ in chosen]

        def keeps(point: Any, chosen: Any = chosen, names: Any = names) -> bool:
            row = dict(zip(names, point, strict=True))
            return all(
                any(np.isnan(row[n]) for n in named_by(text, names)) or check(row) for text, check in chosen
            )  # fmt: skip

        common: dict[str, Any] = {"background": background, "features": features, "one_hot": groups, "n_threads": 1}
        plain = gpucf.Engine(ensemble, **common)
        if refused(OptionError, "holds for no values", gpucf.Engine, ensemble, **common, rules=rules):
            continue
        engine = gpucf.Engine(ensemble, **common, rules=rules)
        X = random_rows(rng, names, 5, nullable)
        if refused(TableError, "not on its grid", engine.query, X, "any_other"):
            X = np.where([n[0] == "i" for n in names], np.clip(np.floor(X), 0, HIGH), X)
        options: dict[str, Any] = {
            "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
            "immutable": [n for n in names if n[0] != "o" and rng.random() < 0.1],
        }
        target = ["any_other", 0, 1][rng.integers(3)]
        result = engine.query(X, target, **options)
        costs, goals = cost_model(plain, options), goals_by_row(plain, X, target)
        after = coded(engine, result.counterfactuals)
        grids = {j: [float(v) for v in range(HIGH + 1)] for j, n in enumerate(names) if n[0] == "i"}
        for i, x in enumerate(coded(plain, X)):
            allowed = np.flatnonzero(goals[i].labels) if goals[i].labels is not None else []
            said = plain.query(X[i : i + 1], target, **options)
            if said.status[0] == "already" and keeps(x):
                assert result.status[i] == "already" and same_bits(after[i], x), allowed
                continue
            point, cost = answer(plain, goals[i], x, costs, keeps, grids, NUMBERS)
            if point is None:
                assert result.status[i] == "infeasible", (rules, x)
                continue
            assert result.status[i] == "optimal", (rules, x, point)
            assert result.cost[i] == costs.report(np.float64(cost)), (rules, x, point, after[i])
            assert np.array_equal(after[i], point, equal_nan=True), (rules, x, point, after[i])
            assert keeps(after[i])
            dearer += int(said.cost[0] < result.cost[i])
            moved += 1
        for method in ("map", "search"):
            check_method(engine, X, result, method, target=target, **options)
    assert dearer and moved > 5


def refused(kind: type[Exception], message: str, action: Callable[..., Any], *given: Any, **options: Any) -> bool:
    """Whether an action is refused, which must be for the reason given."""
    try:
        action(*given, **options)
    except kind as error:
        if message not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize("kind", ["xgb", "lgbm", "forest", "hist", "catboost"])
def test_rules_with_models_of_every_library(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    kept = 0
    for _ in range(count(20)):
        model, X = random_model(kind, rng)
        X = np.clip(np.round(X), 0, 1).astype(bool)  # a grid of two values
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
        y = (X[:, 0] ^ (rng.random(len(X)) < 0.2)).astype(int)
        y[:2] = 0, 1
        model = type(model)(**model.get_params()).fit(frame, y)
        engine = gpucf.Engine(model, background=frame, rules=["c0 + c1 <= 1", "if c0 = 1 then c1 = 0"])
        plain = gpucf.Engine(model, background=frame)
        rows = frame[frame.columns[::-1]].iloc[:6]
        result = engine.query(rows)
        found = result.counterfactuals[result.status == "optimal"]
        assert all(int(a) + int(b) <= 1 for a, b in zip(found.c0, found.c1, strict=True))
        if len(found):
            before = model.predict(rows[frame.columns])[result.status == "optimal"]
            assert (model.predict(found[frame.columns]) != before).all()
        assert (plain.query(rows).cost <= result.cost).all()
        kept += len(found)
        for method in ("map", "search"):
            check_method(engine, rows, result, method)
        assert "the rules as written" in result.verified_by
    assert kept


def two_columns() -> tuple[Any, pd.DataFrame]:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    a, b, n = rng.integers(0, 9, (3, 60))
    real = rng.random((2, 60))
    frame = pd.DataFrame({"a": a.astype(np.int8), "b": b.astype(np.int8), "r": real[0], "n": n})
    frame["f"] = real[1].astype(np.float32)
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, frame.a + frame.b > 7), frame


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("a <= r + b", "needs column 'r' on a grid"),
        ("n <= r", "needs column"),
        ("a + n <= 3", "needs column 'n' on a grid"),
        ("a <= nobody", "'nobody' is no column"),
        ("a * b <= 3", "only linear"),
        ("a / 0 <= 3", "divides"),
        ("a <= 'x'", "neither a column|no finite"),
        ("a + b", "no comparison"),
        ("if a = 1", "cannot be read"),
        ("if a = 1 then", "cannot be read"),
        ("a in [1, 2]", "braces"),
        ("__import__('os').system('true') = 0", "neither a column"),
        ("a is b", "only <="),
        ("1 <= 2", "names no column"),
        ("a > 127", "holds for no values"),
        ("2*a + b <= 10 and a + b + n >= 0", "needs column 'n'"),
        (f"a + b in {set(range(0, 60, 3))}", "leaves"),
        ("if a = 2.5 then b = 1", "equals 2.5, which no value"),
        ("a != b + 1 and f in {0.5, 0.1}", r"the nearest is 0\.1000000014"),
        (3, "give text"),
    ],
)
def test_refused_by_name(rule: Any, message: str) -> None:
    model, frame = two_columns()
    with pytest.raises(OptionError, match=message):
        gpucf.Engine(model, background=frame, rules=[rule])


def test_text_instead_of_a_list() -> None:
    model, frame = two_columns()
    with pytest.raises(OptionError, match="give a list"):
        gpucf.Engine(model, background=frame, rules="a <= b")


def test_rows_in_gaps() -> None:
    model, frame = two_columns()
    rows = frame.astype({"a": np.float64, "b": np.float64}).iloc[:3].copy()
    rows.iloc[0, :2] = 2.5, 2.25  # both in one gap, and unchanged they would break the rule
    engine = gpucf.Engine(model, background=frame, rules=["a <= b"])
    with pytest.raises(TableError, match=r"row 0: '[ab]' holds 2.*5, which is not on its grid"):
        engine.query(rows)
    rows.iloc[0, :2] = 2.5, 3.0  # one gap: nothing depends on where in it
    result = engine.query(rows)
    assert (result.counterfactuals.a <= result.counterfactuals.b).all()
    summed = gpucf.Engine(model, background=frame, rules=["a + b <= 10"])
    rows.iloc[0, :2] = 2.5, 3.0
    with pytest.raises(TableError, match="depends on where between 2 and 3"):
        summed.query(rows)


def test_names_in_backticks_and_pickles() -> None:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"hours per week": rng.random(50) < 0.5, "class": rng.random(50) < 0.5, "x": rng.random(50)})
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, frame.x + frame["class"] > 0.8)
    engine = gpucf.Engine(model, background=frame, rules=["if `class` = 1 then `hours per week` = 1", "x >= 0.25"])
    result = engine.query(frame)
    again = pickle.loads(pickle.dumps(engine)).query(frame)
    after = result.counterfactuals[result.status == "optimal"]
    assert len(after) and (~after["class"] | after["hours per week"]).all() and (after.x >= 0.25).all()
    assert again.verified_by == result.verified_by and same_bits(again.cost, result.cost)


def test_a_row_that_breaks_a_rule_moves() -> None:
    model, frame = two_columns()
    engine = gpucf.Engine(model, background=frame, rules=["a <= b"])
    good = bool(
        model.predict(pd.DataFrame({"a": [7], "b": [6], "r": [0.5], "n": [3], "f": np.zeros(1, np.float32)}))[0]
    )
    row = pd.DataFrame(
        {"a": np.array([7], np.int8), "b": np.array([6], np.int8), "r": [0.5], "n": [3], "f": np.zeros(1, np.float32)}
    )
    result = engine.query(row, good)
    assert result.status.tolist() == ["optimal"] and result.cost[0] > 0
    assert (result.counterfactuals.a <= result.counterfactuals.b).all()
