"""Rules about moves: map = search = brute force over values, with each rule said again in plain Python."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_checks import check_method, coded, cost_model, goals_by_row, same_bits
from mixed_models import random_ensemble, random_rows
from oracle import answer
from sizes import count
from sklearn.tree import DecisionTreeClassifier
from test_rules import HIGH, NUMBERS, refused

import gpucf
from gpucf import OptionError, TableError, VerificationError

Row = dict[str, float]
Check = Callable[[Row, Row], bool]


def changes(a: Row, b: Row, *names: str) -> bool:
    return any(a[n] != b[n] and not (np.isnan(a[n]) and np.isnan(b[n])) for n in names)


def says(b: Row, name: str, holds: Callable[[float], bool]) -> bool:
    """A condition on one value of the answer; a missing one breaks nothing."""
    return bool(np.isnan(b[name]) or holds(b[name]))


def random_change_rule(
    rng: np.random.Generator, names: tuple[str, ...], groups: dict[str, list[str]]
) -> tuple[str, Check]:
    """Text, and the same again for a row and its answer as dicts by column name."""
    whole = [n for n in names if n[0] == "i"]
    any_one: list[tuple[str, list[str]]] = [(n, [n]) for n in names if n[0] != "o"] + list(groups.items())
    k, m = (int(v) for v in rng.integers(0, HIGH, 2))
    p, P = any_one[int(rng.integers(len(any_one)))]  # the premise: a feature, and its columns
    q, Q = any_one[int(rng.integers(len(any_one)))]
    i = str(rng.choice(whole))
    found: list[tuple[str, Check]] = [
        (f"if {p} changes then {i} >= {k}", lambda a, b: not changes(a, b, *P) or says(b, i, lambda v: v >= k)),
        (f"if {p} changes then {i} rises", lambda a, b: not changes(a, b, *P) or b[i] > a[i]),
        (f"if {p} changes then not {q} changes", lambda a, b: not changes(a, b, *P) or not changes(a, b, *Q)),
        (f"if {p} changes or {i} = {m} and {i} falls then {i} falls or {i} <= {k}",
         lambda a, b: (not changes(a, b, *P) and (says(b, i, lambda v: v != m) or not b[i] < a[i]))
         or b[i] < a[i] or says(b, i, lambda v: v <= k)),
        (f"if {i} rises then {i} in {{{k}, {m}}}", lambda a, b: not b[i] > a[i] or says(b, i, lambda v: v in (k, m))),
        (f"not ({i} falls and {p} changes)", lambda a, b: not (b[i] < a[i] and changes(a, b, *P))),
    ]  # fmt: skip
    if q[0] != "x":  # what has to move needs a grid
        found += [
            (f"if {p} changes then {q} changes", lambda a, b: not changes(a, b, *P) or changes(a, b, *Q)),
            (f"if {p} changes then {q} changes and {i} != {k}", lambda a, b: not changes(a, b, *P)
             or (changes(a, b, *Q) and says(b, i, lambda v: v != k))),
        ]  # fmt: skip
    real = [n for n in names if n[0] == "x"]
    if real:
        x = real[0]
        found.append((f"if {x} rises then not {i} falls", lambda a, b: not b[x] > a[x] or not b[i] < a[i]))
        found.append((f"if {i} changes then {x} <= {0.4 * k}", lambda a, b: not changes(a, b, i)
                      or says(b, x, lambda v: v <= 0.4 * k)))  # fmt: skip
    return found[int(rng.integers(len(found)))]


def as_dict(names: tuple[str, ...], point: Any) -> Row:
    return dict(zip(names, (float(v) for v in point), strict=True))


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("space", ["ii", "iii", "ci", "oi", "xi", "ico", "cxi"])
def test_rules_about_moves_equal_the_oracle(space: str, nullable: bool) -> None:
    rng = np.random.default_rng([ord(c) for c in space] + [nullable, 9])
    dearer = moved = 0
    for _ in range(count(300)):
        ensemble, groups = random_ensemble(rng, space, nullable)
        names = ensemble.feature_names
        features = {n: {"kind": "integer", "range": [0, HIGH]} for n in names if n[0] == "i"}
        chosen = [random_change_rule(rng, names, groups) for _ in range(int(rng.integers(1, 3)))]
        rules = [text for text, _ in chosen]
        common: dict[str, Any] = {"background": random_rows(rng, names, 10, False), "features": features,
                                  "one_hot": groups, "n_threads": 1}  # fmt: skip
        plain, engine = gpucf.Engine(ensemble, **common), gpucf.Engine(ensemble, **common, rules=rules)
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
        after, free = coded(engine, result.counterfactuals), plain.query(X, target, **options)
        grids = {j: [float(v) for v in range(HIGH + 1)] for j, n in enumerate(names) if n[0] == "i"}
        for i, x in enumerate(coded(plain, X)):

            def keeps(point: Any, x: Any = x, chosen: Any = chosen, names: Any = names) -> bool:
                return all(check(as_dict(names, x), as_dict(names, point)) for _, check in chosen)

            if free.status[i] == "already":
                assert result.status[i] == "already" and same_bits(after[i], x)
                continue
            point, cost = answer(plain, goals[i], x, costs, keeps, grids, NUMBERS)
            if point is None:
                assert result.status[i] == "infeasible" and same_bits(after[i], x), (rules, x, after[i])
                continue
            assert result.status[i] == "optimal", (rules, x, point)
            assert result.cost[i] == costs.report(np.float64(cost)), (rules, x, point, after[i])
            assert np.array_equal(after[i], point, equal_nan=True), (rules, x, point, after[i])
            dearer += int(free.cost[i] < result.cost[i])
            moved += 1
        for method in ("map", "search"):
            check_method(engine, X, result, method, target=target, **options)
    assert dearer and moved > 5


def people() -> tuple[Any, pd.DataFrame]:
    """A model of degree, age and hours, all whole numbers."""
    rng = np.random.default_rng(0)
    degree, age, hours = rng.integers(0, 4, 300), rng.integers(18, 70, 300), rng.integers(0, 60, 300)
    frame = pd.DataFrame({"degree": degree, "age": age, "hours per week": hours})
    return DecisionTreeClassifier(max_depth=4, random_state=0).fit(frame, 10 * degree + hours > 45), frame


FEATURES = {
    "degree": {"kind": "integer", "range": [0, 3]},
    "age": {"kind": "integer", "range": [18, 100]},
    "hours per week": {"kind": "integer", "range": [0, 80]},
}


def test_a_degree_takes_years() -> None:
    """The least rise is to the next value, though the model has no cut there."""
    model, frame = people()
    rows = frame[~model.predict(frame)].head(40)
    engine = gpucf.Engine(model, frame, features=FEATURES, rules=["if degree changes then age rises"])
    assert "age" not in {str(n) for n in np.array(list(frame))[model.tree_.feature[model.tree_.feature >= 0]]}
    result = engine.query(rows, True, immutable=["hours per week"])
    moved = result.counterfactuals[result.status == "optimal"]
    before = rows[result.status == "optimal"]
    assert len(moved) > 5
    assert (moved["degree"] > before["degree"]).all() and (moved["age"] == before["age"] + 1).all()
    assert "the rules as written" in result.verified_by
    never = engine.query(rows, True, immutable=["hours per week"], decrease_only=["age"])
    assert (never.status == "infeasible").all()
    again = pickle.loads(pickle.dumps(engine)).query(rows, True, immutable=["hours per week"])
    assert same_bits(again.cost, result.cost) and again.counterfactuals.equals(result.counterfactuals)


def test_a_limit_leaves_rules_about_moves_kept() -> None:
    model, frame = people()
    rules = ["if degree changes then age rises", "if `hours per week` changes then degree = 3 or age >= 30"]
    engine = gpucf.Engine(model, frame, features=FEATURES, rules=rules, method="search")
    full = engine.query(frame, True)
    assert (full.status == "optimal").any()
    for limit in (1, 3, 10):
        short = engine.query(frame, True, node_limit=limit)
        assert (short.lower_bound <= full.cost).all() and (short.cost >= full.cost).all()
        proved = np.isin(short.status, ["optimal", "infeasible", "already"])
        assert (short.cost[proved] == full.cost[proved]).all()
    assert not np.isin(engine.query(frame, True, node_limit=1).status, ["optimal", "already"]).all()


def test_the_answer_of_a_row_does_not_depend_on_the_others() -> None:
    model, frame = people()
    rules = ["if degree changes then age rises", "if `hours per week` rises then not degree changes"]
    result = gpucf.Engine(model, frame, features=FEATURES, rules=rules, n_threads=2).query(frame, True)
    back = gpucf.Engine(model, frame, features=FEATURES, rules=rules[::-1], n_threads=1).query(frame[::-1], True)
    assert back.counterfactuals[::-1].equals(result.counterfactuals) and same_bits(back.cost[::-1], result.cost)


def test_a_broken_rule_is_found_by_the_last_check(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpucf._options import Answering

    model, frame = people()
    engine = gpucf.Engine(model, frame, features=FEATURES, rules=["if degree changes then age rises"])
    monkeypatch.setattr(Answering, "keeping_rules", lambda self, first, limits: first)
    with pytest.raises(VerificationError, match="breaks a rule about moves"):
        engine.query(frame, True, immutable=["hours per week"])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("if income changes then age rises", "'income' is no column"),
        ("if degree changes then real rises", "needs column 'real' on a grid"),
        ("if degree changes then real changes", "needs column 'real' on a grid"),
        ("if degree changes then real + age >= 30", "needs column 'real' on a grid"),
        ("age rises", "of rows of which nothing moves"),
        ("if degree = 1 then age rises", "of rows of which nothing moves"),
        ("if job rises then age >= 3", "holds categories, which have no order; say 'job changes'"),
        ("if job=a changes then age >= 3", "a changes is no category of 'job'"),
        ("if `job=a` changes then age >= 3", "moves with its group; say 'job changes'"),
        ("if degree + age changes then age >= 3", "no comparison"),
        ("if degree changes then age >= 300", "holds for no values"),
    ],
)
def test_refused_by_name(rule: str, message: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"degree": rng.integers(0, 4, 50), "age": rng.integers(18, 60, 50), "real": rng.random(50)})
    frame["job=a"] = rng.integers(0, 2, 50)
    frame["job=b"] = 1 - frame["job=a"]
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, frame.real > 0.5)
    features = {k: v for k, v in FEATURES.items() if k in frame} | {"job": {"one_hot": ["job=a", "job=b"]}}
    with pytest.raises(OptionError, match=message):
        gpucf.Engine(model, frame, features=features, rules=[rule])


def test_regions_are_refused() -> None:
    model, frame = people()
    engine = gpucf.Engine(model, frame, features=FEATURES, rules=["if degree changes then age rises"])
    with pytest.raises(OptionError, match="region=True is not for engines with rules about moves"):
        engine.query(frame, True, region=True)


def test_words_that_are_also_names() -> None:
    """A column may be called "rises", and text in quotes is no move."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"rises": rng.random(60) < 0.5, "b": rng.random(60) < 0.5})
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame, frame["rises"] & frame["b"])
    engine = gpucf.Engine(model, frame, rules=["if rises changes then b = 1", "not rises = 1 or b = 1"])
    after = engine.query(frame, True).counterfactuals
    assert (~after["rises"] | after["b"]).all()
    text = pd.DataFrame({"job": pd.Categorical(rng.choice(["job changes", "none"], 60)), "b": frame["b"]})
    import lightgbm

    boosted = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, min_data_per_group=1, verbose=-1)
    boosted.fit(text, (text.job == "none") & text.b)
    kept = gpucf.Engine(boosted, text, rules=["if b changes then job = 'job changes'"]).query(text, True)
    moved = kept.counterfactuals.b != text.b
    assert (kept.counterfactuals.job[moved] == "job changes").all()


def test_rules_in_a_features_file_and_on_the_command_line(tmp_path: Any, capsys: Any) -> None:
    import xgboost

    from gpucf._cli import main

    _, frame = people()
    frame = frame.rename(columns={"hours per week": "hours"})
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
    model.fit(frame, 10 * frame.degree + frame.hours > 45)
    model.save_model(tmp_path / "model.json")
    frame.to_parquet(tmp_path / "rows.parquet")
    rules = ["if degree changes then age rises", "2*degree + hours <= 60"]
    given = {n.split(" ")[0]: entry for n, entry in FEATURES.items()} | {"rules": rules[:1]}
    for suffix in ("yaml", "json"):
        path = tmp_path / f"features.{suffix}"
        gpucf.Features(given).to_file(path)
        again = gpucf.Features.from_file(path)
        assert again.rules == (rules[0],) and again == gpucf.Features(given) and "rules" not in again.names
        arguments = ["query", str(tmp_path / "model.json"), str(tmp_path / "rows.parquet"), "--features", str(path)]
        arguments += ["--rule", rules[1], "-o", str(tmp_path / "out.parquet"), "--target", "1", "--quiet"]
        assert main(arguments) == 0
        out = pd.read_parquet(tmp_path / "out.parquet")
        engine = gpucf.Engine(model, frame, features=path, rules=rules[1:])
        result = engine.query(frame, 1, scale=None)
        assert out[list(frame)].equals(result.counterfactuals) and same_bits(out.gpucf_cost, result.cost)
        both = gpucf.Engine(model, frame, features=given, rules=rules[1:]).query(frame, 1, scale=None)
        plain = gpucf.Engine(model, frame, features=given).query(frame, 1, scale=None)
        assert same_bits(both.cost, result.cost) and (plain.cost < result.cost).any()
    assert main([*arguments, "--rule", "degree <= income"]) == 1
    assert "'income' is no column" in capsys.readouterr().err
    with pytest.raises(OptionError, match="holds 3; give texts"):
        gpucf.Features({"rules": [3]})
    assert gpucf.Features({"rules": "integer"}).names == ("rules",)  # a column of that name
