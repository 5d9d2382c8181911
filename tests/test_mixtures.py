"""Everything at once: declared features, limits of rows, costs, rules, rules about moves, agreeing models, options.

Map = search = the definition by brute force over values, point by point; and what comes back keeps everything that was
declared, by an independent checker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from declared import Declared, check_rules
from engine_checks import coded, goals_by_row, same_bits
from mixed_models import random_ensemble, random_rows
from oracle import options_by_key
from sizes import DEEP
from test_change_rules import as_dict, random_change_rule
from test_features import random_features, random_options
from test_rules import HIGH, NUMBERS, named_by, random_rule, refused

import gpucf
from gpucf import OptionError, TableError
from gpucf._ensemble import Ensemble, TreeBuilder

N_PROBLEMS = 5000
SPACES = ("ii", "iii", "ci", "oi", "xi", "xii")


def on_grids(rng: np.random.Generator, given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Whole-number columns on 0 .. HIGH, whatever else is declared of them: rules compute with them."""
    for name in names:
        if name[0] == "i":
            entry = given.get(name, {})
            kept = {k: v for k, v in entry.items() if k not in ("levels", "values", "origin", "range", "step")}
            given[name] = {**kept, "kind": "integer", "step": 1, "range": [0, HIGH]}
            if "leave" in kept.get("missing", {}):
                given[name]["missing"]["leave"]["to"] = [0.0, 2.0][: int(rng.integers(1, 3))]
    return given


def whole_rows(rng: np.random.Generator, X: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Rows on their grids, or next to them."""
    kept = np.clip(np.floor(X), 0, HIGH) if rng.random() < 0.7 else np.floor(X)
    return np.where([n[0] == "i" for n in names], kept, X)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("space", SPACES)
def test_mixtures_equal_the_definition(space: str, nullable: bool) -> None:
    rng = np.random.default_rng([ord(c) for c in space] + [nullable, 3])
    seen = {"optimal": 0, "infeasible": 0, "already": 0, "second": 0, "moves": 0}
    for _ in range(N_PROBLEMS // (2 * len(SPACES)) + 1 if DEEP else 25):
        one_problem(rng, space, nullable, seen)
    assert seen["optimal"] and seen["moves"] and (seen["second"] or not DEEP), seen


def one_problem(rng: np.random.Generator, space: str, nullable: bool, seen: dict[str, int]) -> None:
    ensemble, groups = random_ensemble(rng, space, nullable)
    names = ensemble.feature_names
    given = on_grids(rng, random_features(rng, names, groups, nullable), names)
    for group in groups:  # rules know their categories by their columns only
        given[group].pop("reference", None)
        given[group] = {"one_hot": given[group]["one_hot"]}
    static = [random_rule(rng, names, groups) for _ in range(int(rng.integers(0, 2)))]
    moving = [random_change_rule(rng, names, groups) for _ in range(int(rng.integers(0, 3)))]
    rules = [text for text, _ in static + moving]
    agree = None
    if rng.random() < 0.4:
        other, _ = random_ensemble(rng, space, nullable)
        agree = [(other, int(rng.integers(2)))]
    background = random_rows(rng, names, 12, False)
    common: dict[str, Any] = {"background": background, "features": given, "n_threads": 1, "agree": agree,
                              "min_support": 1 if rng.random() < 0.2 else None}  # fmt: skip
    if rules and refused(OptionError, "holds for no values", gpucf.Engine, ensemble, **common, rules=rules):
        return
    engine = gpucf.Engine(ensemble, **common, rules=rules or None)
    X = whole_rows(rng, random_rows(rng, names, 4, nullable), names)
    if refused(TableError, "not on its grid", engine.query, X, "any_other"):
        return
    options, k = random_options(rng, names, groups, len(X)), int(rng.integers(1, 4))
    target = random_target(rng, ensemble, len(X))
    if rng.random() < 0.15:
        options["only"] = [n for n in (*engine.cells().names,) if rng.random() < 0.7]
    if ensemble.n_outputs == 1 and isinstance(target, int) and rng.random() < 0.3:
        options["margin"] = float(rng.choice([0.1, 0.5]))
    if refused(TableError, "Leave one of the two out", engine.query, X, target, **options):
        return
    results = []
    for method in ("map", "search"):
        engine.method = method
        results.append(engine.query(X, target, options=k, **options))
    for one, also in zip(*(r.ranks for r in results), strict=True):
        assert np.array_equal(one.status, also.status) and same_bits(one.cost, also.cost)
        assert same_bits(one._after, also._after)
    declared, result = Declared(engine, given, options, background, NUMBERS), results[0]
    goals = goals_by_row(engine, X, target, options.get("margin", 0.0))
    for i, x in enumerate(coded(engine, X)):
        if result.status[i] == "already":
            seen["already"] += 1
            continue

        def keeps(point: Any, x: Any = x) -> bool:
            before, after = as_dict(names, x), as_dict(names, point)
            return all(
                any(np.isnan(after[n]) for n in named_by(text, names)) or check(after) for text, check in static
            ) and all(check(before, after) for _, check in moving)

        with np.errstate(over="ignore"):  # the largest float is among the values that could matter
            lists, tables = declared.moves(x, i)
        expected = options_by_key(engine, goals[i], declared.columns, lists, tables, declared.is_max, k, keeps)
        about = (rules, given, options, x)
        for m, rank in enumerate(result.ranks):
            if m >= len(expected):
                assert rank.status[i] == "infeasible", about
                continue
            point, cost = expected[m]
            shown = np.sqrt(np.float64(cost)) if options["cost"] == "l2" else cost
            assert rank.status[i] == "optimal" and rank.cost[i] == shown, (m, point, rank._after[i], about)
            assert np.array_equal(rank._after[i], point, equal_nan=True), (m, point, rank._after[i], about)
            assert keeps(rank._after[i])
            seen["second"] += m > 0
        seen["optimal" if expected else "infeasible"] += 1
    kept = [*map(on_answer, static), *(check for _, check in moving)]
    before = coded(engine, X)
    for rank in result.ranks:
        found = np.isin(rank.status, ["optimal", "already"])
        seen["moves"] += check_rules(declared, before, rank._after)
        now = Declared(engine, given, of_rows(options, found), background)
        check_rules(now, before[found], coded(engine, rank.counterfactuals)[found], kept)


def random_target(rng: np.random.Generator, ensemble: Ensemble, n_rows: int) -> Any:
    """A class, another class, limits of a score, several of these, or one for each row."""
    label = {"label": int(rng.integers(ensemble.n_outputs))} if ensemble.n_outputs > 1 else {}
    low = float(rng.integers(-4, 4)) / 4
    score = gpucf.Score(at_least=low, below=low + 1.5, **label)
    single: list[Any] = [
        "any_other",
        0,
        1,
        score,
        gpucf.AnyOf(0, score),
        gpucf.AllOf(1, gpucf.Score(above=low, **label)),
    ]
    if rng.random() < 0.2:
        wishes = np.empty(n_rows, object)
        wishes[:] = [single[int(rng.integers(len(single)))] for _ in range(n_rows)]
        return wishes
    return single[int(rng.integers(len(single)))]


def on_answer(rule: tuple[str, Any]) -> Any:
    """A rule on the answer alone as one on a row and its answer; what is missing keeps it."""
    text, check = rule
    return lambda before, after: any(np.isnan(after[n]) for n in named_by(text, tuple(after))) or check(after)


def of_rows(wish: Any, rows: np.ndarray) -> Any:
    """Options for some of the rows."""
    if isinstance(wish, dict):
        return {key: of_rows(value, rows) for key, value in wish.items()}
    return wish[rows] if isinstance(wish, np.ndarray) else wish


PLANTED = {
    "immutable": {"x": [0.5, 0.6]},
    "declared immutable": {"y": [0.0, 1.0]},
    "only": {"z": [1.0, 2.0]},
    "rises": {"up": [2.0, 1.0]},
    "falls": {"down": [2.0, 3.0]},
    "rises by option": {"asked_up": [2.0, 1.0]},
    "falls by option": {"asked_down": [2.0, 3.0]},
    "below the range": {"ranged": [2.0, -1.0]},
    "above the range": {"ranged": [2.0, 11.0]},
    "off the step": {"stepped": [0.1, 0.25]},
    "off the step by an ulp": {"stepped": [0.1, np.nextafter(0.3, 1.0)]},
    "off the origin": {"shifted": [0.5, 2.0]},
    "off the values": {"listed": [1.0, 3.0]},
    "no whole number": {"whole": [1.0, 1.5]},
    "too far up": {"near": [1.0, 3.5]},
    "too far down": {"near": [4.0, 1.5]},
    "above the row's limit": {"limited": [1.0, 3.0]},
    "missing": {"x2": [1.0, np.nan]},
    "filled": {"filled": [np.nan, 2.0]},
    "none of a group": {"g=a": [1.0, 0.0], "g=b": [0.0, 0.0], "g=c": [0.0, 0.0]},
    "two of a group": {"g=a": [1.0, 1.0], "g=b": [0.0, 1.0], "g=c": [0.0, 0.0]},
    "a forbidden move": {"g=a": [1.0, 0.0], "g=b": [0.0, 1.0], "g=c": [0.0, 0.0]},
    "a move without price": {"g=a": [0.0, 0.0], "g=b": [1.0, 0.0], "g=c": [0.0, 1.0]},
    "a rule": {"whole": [1.0, 9.0]},
    "a rule about moves": {"listed": [1.0, 5.0]},
}  # fmt: skip


def a_checker() -> tuple[Declared, list[Any], tuple[str, ...]]:
    names = ("x", "x2", "y", "z", "up", "down", "asked_up", "asked_down", "ranged", "stepped", "shifted", "listed",
             "whole", "near", "limited", "filled", "g=a", "g=b", "g=c")  # fmt: skip
    given = {
        "y": {"immutable": True}, "up": {"increase_only": True}, "down": {"decrease_only": True},
        "ranged": {"range": [0, 10]}, "stepped": {"step": 0.1}, "shifted": {"step": 1, "origin": 0.5},
        "listed": {"values": [1, 2, 5]}, "whole": "integer", "near": {"max_rise": 2, "max_change": 2.25},
        "filled": {"missing": {"leave": {"to": 3}}},
        "g": {"one_hot": ["g=a", "g=b", "g=c"], "forbidden": [["g=a", "g=b"]], "prices": {"g=b": {"g=c": None}}},
    }  # fmt: skip
    builder = TreeBuilder("test", len(names), np.float64, np.float64)
    builder.add_tree([0, 0, 0], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [True] * 3, np.array([[0.0], [-1.0], [1.0]]))
    ensemble = builder.build(
        0.0, library="test", model_type="stump", task="binary", feature_names=names, has_names=True,
        classes=np.arange(2), allows_missing=np.array(["=" not in n for n in names]), decision="above_0",
        probability="none",
    )  # fmt: skip
    options = {
        "immutable": {"x": np.array([True])}, "increase_only": ["asked_up"], "decrease_only": ["asked_down"],
        "limits": {"limited": {"high": np.array([2.5])}}, "only": [n for n in [*names, "g"] if n != "z"],
    }  # fmt: skip
    rules = [lambda a, b: b["whole"] <= 5, lambda a, b: a["listed"] == b["listed"] or b["ranged"] > a["ranged"]]
    return Declared(gpucf.Engine(ensemble, features=given), given, options, None), rules, names


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_caught(name: str) -> None:
    declared, rules, names = a_checker()
    good = {n: [1.0, 1.0] for n in names} | {"g=b": [0.0, 0.0], "g=c": [0.0, 0.0]}
    before, after = (np.array([[{**good, **PLANTED[name]}[n][k] for n in names]]) for k in (0, 1))
    assert check_rules(declared, before, before.copy(), rules) == 0
    with pytest.raises(AssertionError):
        check_rules(declared, before, after, rules)


def test_good_moves_are_let_through() -> None:
    declared, rules, names = a_checker()
    before = {n: 1.0 for n in names} | {"g=b": 0.0, "g=c": 0.0, "shifted": 0.5, "filled": np.nan, "near": 4.0}
    moved = {"x2": 7.0, "up": 2.0, "down": 0.0, "asked_up": 2.0, "asked_down": 0.5, "ranged": 10.0, "stepped": 0.3,
             "shifted": 2.5, "listed": 5.0, "whole": 5.0, "near": 6.0, "limited": 2.5, "filled": 3.0, "g=a": 0.0,
             "g=c": 1.0}  # fmt: skip
    rows = [np.array([[{**before, **change}[n] for n in names]]) for change in ({}, moved)]
    assert check_rules(declared, *rows, rules) == len(moved) - 1
