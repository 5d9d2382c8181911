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
    common: dict[str, Any] = {"background": background, "features": given, "n_threads": 1, "agree": agree}
    if rules and refused(OptionError, "holds for no values", gpucf.Engine, ensemble, **common, rules=rules):
        return
    engine = gpucf.Engine(ensemble, **common, rules=rules or None)
    X = whole_rows(rng, random_rows(rng, names, 4, nullable), names)
    if refused(TableError, "not on its grid", engine.query, X, "any_other"):
        return
    options, k = random_options(rng, names, groups, len(X)), int(rng.integers(1, 4))
    target = ["any_other", 0, 1][rng.integers(3)]
    results = []
    for method in ("map", "search"):
        engine.method = method
        results.append(engine.query(X, target, options=k, **options))
    for one, also in zip(*(r.ranks for r in results), strict=True):
        assert np.array_equal(one.status, also.status) and same_bits(one.cost, also.cost)
        assert same_bits(one._after, also._after)
    declared, result = Declared(engine, given, options, background, NUMBERS), results[0]
    goals = goals_by_row(engine, X, target)
    for i, x in enumerate(coded(engine, X)):
        if result.status[i] == "already":
            seen["already"] += 1
            continue

        def keeps(point: Any, x: Any = x) -> bool:
            before, after = as_dict(names, x), as_dict(names, point)
            return all(
                any(np.isnan(after[n]) for n in named_by(text, names)) or check(after) for text, check in static
            ) and all(check(before, after) for _, check in moving)

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
    for rank in result.ranks:
        seen["moves"] += check_rules(declared, coded(engine, X), rank._after)
