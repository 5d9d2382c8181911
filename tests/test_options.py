"""Further options, sets of features that cannot do it alone, regions around answers, and answers in words.

Options are compared with their definition by brute force over all points, for map and search; regions with what the
model says of points inside them, and beyond each of their sides.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from engine_checks import coded, cost_model, goals_by_row, same_bits
from oracle import candidates, moves, options_by_key
from random_models import KINDS, random_model
from sizes import count

import gpucf
from gpucf._explain import difference_text, number_text


def brute_options(engine: gpucf.Engine, goal: Any, x: np.ndarray, costs: Any, k: int) -> list[tuple[np.ndarray, float]]:
    """The definition, for what `make_cost_model` knows of costs."""
    cells = engine.cells()
    lists = [candidates(engine, j, c, x[list(c)]) for j, c in enumerate(cells.columns)]
    tables = [
        moves(lists[j], tuple(x[list(c)]), "ordered" if cells.kind[j] == 0 else "set", costs.weight[j], costs.scale[j],
              costs.may_rise[j], costs.may_fall[j], costs.name)
        for j, c in enumerate(cells.columns)
    ]  # fmt: skip
    return options_by_key(engine, goal, cells.columns, lists, tables, costs.name == "linf", k)


def check_options(engine: gpucf.Engine, X: np.ndarray, target: Any, k: int, **wishes: Any) -> tuple[int, int]:
    """Compare with brute force; returns how many options were proved, and for how many rows the list stayed open."""
    costs, goals = cost_model(engine, wishes), goals_by_row(engine, X, target)
    before = coded(engine, X)
    proved = left_open = 0
    plain = engine.query(X, target, **wishes)
    results = []
    for method in ("map", "search"):
        engine.method = method
        results.append(engine.query(X, target, options=k, **wishes))
    for result in results:
        assert same_bits(coded(engine, result.counterfactuals), coded(engine, plain.counterfactuals))
        assert np.array_equal(result.status, plain.status) and same_bits(result.cost, plain.cost)
        for i, x in enumerate(before):
            if result.status[i] == "already":
                assert result.options(i) == [] and result.n_options[i] == 0
                continue
            expected = brute_options(engine, goals[i], x, costs, k)
            found = result.options(i)
            assert len(found) == result.n_options[i] <= len(expected)
            for option, (point, cost) in zip(found, expected, strict=False):
                assert option.status == "optimal" and option.cost == costs.report(np.float64(cost)), (i, x)
                assert np.array_equal(coded(engine, option.counterfactual)[0], point, equal_nan=True), (i, x)
                proved += 1
            is_open = any(rank.status[i] == "unknown" for rank in result._further)
            if len(found) < min(k, len(expected)):
                assert is_open
                bound = result._further[len(found) - 1].lower_bound[i]
                assert bound <= costs.report(np.float64(expected[len(found)][1]))
            if result.no_more_options(i):
                assert len(found) == len(expected) < k
            left_open += is_open
    a, b = results
    for one, other in zip(a.ranks, b.ranks, strict=True):
        assert np.array_equal(one.status, other.status) and same_bits(one.cost, other.cost)
        assert same_bits(coded(engine, one.counterfactuals), coded(engine, other.counterfactuals))
    return proved, left_open


@pytest.mark.parametrize("kind", KINDS)
def test_options_are_those_of_the_definition(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    proved = 0
    for _ in range(count(30)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X, n_threads=1)
        names = list(engine.ensemble.feature_names)
        wishes = {
            "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
            "weights": dict(zip(names, rng.choice([0.0, 0.5, 1.0, 2.0], len(names)), strict=True)),
            "immutable": [n for n in names if rng.random() < 0.1],
            "increase_only": [n for n in names if rng.random() < 0.1],
        }
        if rng.random() < 0.5:
            del wishes["weights"]
        rows = X[rng.integers(len(X), size=4)]
        found, left_open = check_options(engine, rows, "any_other", int(rng.integers(2, 5)), **wishes)
        proved += found
        assert left_open == 0
    assert proved


def test_options_of_categories_and_groups() -> None:
    import lightgbm
    import pandas as pd

    rng = np.random.default_rng(3)
    proved = 0
    for _ in range(count(60)):
        group = np.eye(3)[rng.integers(3, size=200)]
        X = pd.DataFrame({"a": rng.integers(0, 5, 200), "g0": group[:, 0], "g1": group[:, 1], "g2": group[:, 2]})
        X["c"] = pd.Categorical(rng.choice(list("uvwx"), 200))
        y = (X["a"] + 2 * X["g1"] + 2 * (X["c"] == "v") + rng.normal(size=200) > 3.2).astype(int)
        model = lightgbm.LGBMClassifier(
            n_estimators=3, num_leaves=5, min_child_samples=5, min_data_per_group=1, cat_smooth=1, n_jobs=1, verbose=-1
        ).fit(X, y)
        engine = gpucf.Engine(model, background=X, one_hot={"g": ["g0", "g1", "g2"]}, n_threads=1)
        found, left_open = check_options(engine, X.iloc[:6], "opposite", 4, cost=str(rng.choice(["l1", "l0", "linf"])))
        proved += found
        assert left_open == 0
    assert proved


def test_a_table_of_options_has_a_line_for_each() -> None:
    import pandas as pd
    import pyarrow as pa

    rng = np.random.default_rng(0)
    model, X = random_model("xgb", rng)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).set_index(np.arange(len(X)) + 100)
    engine = gpucf.Engine(model.fit(frame, model.predict(X)), background=frame)
    result = engine.query(frame, options=3)
    lines = result.to_frame()
    assert list(lines.columns) == ["row", "option", "status", "cost", "lower_bound", "n_changed"]
    assert lines.index.tolist() == (lines["row"] + 100).tolist()
    assert sorted(set(lines["row"])) == list(range(len(X)))
    good = lines[lines["status"] == "optimal"]
    assert (good.groupby("row").size().reindex(range(len(X)), fill_value=0) == result.n_options).all()
    for i, m, cost in zip(good["row"], good["option"], good["cost"], strict=True):
        assert result.options(i)[m - 1].cost == cost
        assert result.options(i)[m - 1].counterfactual.index.tolist() == [100 + i]
    table = engine.query(pa.Table.from_pandas(frame, preserve_index=False), options=3).to_frame()
    assert table["cost"].to_pylist() == lines["cost"].tolist()
    with pytest.raises(gpucf.OptionError, match="options is 0"):
        engine.query(frame, options=0)


def test_a_limit_leaves_options_open_not_wrong() -> None:
    rng = np.random.default_rng(7)
    model, X = random_model("xgb", rng)
    engine = gpucf.Engine(model, background=X)
    full, short = engine.query(X[:20], options=3), engine.query(X[:20], options=3, node_limit=2)
    for i in range(20):
        for one, other in zip(full.ranks, short.ranks, strict=True):
            assert other.lower_bound[i] <= one.cost[i]
            if other.status[i] in ("optimal", "infeasible"):
                assert other.status[i] == one.status[i] and other.cost[i] == one.cost[i]


def test_only_these_features_may_change() -> None:
    rng = np.random.default_rng(1)
    seen = set()
    for kind in ("xgb", "forest"):
        for _ in range(count(50)):
            model, X = random_model(kind, rng)
            engine = gpucf.Engine(model, background=X)
            names = list(engine.ensemble.feature_names)
            chosen = [n for n in names if rng.random() < 0.4]
            rows = X[:8]
            result = engine.query(rows, only=chosen)
            same = engine.query(rows, immutable=[n for n in names if n not in chosen])
            assert np.array_equal(result.status, same.status) and np.array_equal(result.cost, same.cost)
            assert not result.changed[:, [names.index(n) for n in names if n not in chosen]].any()
            seen |= set(result.status.tolist())
    assert seen == {"optimal", "infeasible"}
    with pytest.raises(gpucf.OptionError, match="only names 'nothing'"):
        engine.query(rows, only=["nothing"])


def points_in(rng: np.random.Generator, engine: gpucf.Engine, region: Any, row: np.ndarray, n: int) -> np.ndarray:
    """Random points of a region, corners among them (ordered features only)."""
    out = np.tile(row, (n, 1))
    for j, limit in enumerate(region.limits.values()):
        if limit[0] is not None and np.isnan(limit[0]):
            continue
        low = -1e6 if limit[0] is None else limit[0]
        high = 1e6 if limit[1] is None else limit[1]
        inside = np.concatenate([[low, high], rng.uniform(low, high, n)])
        out[:, j] = np.clip(rng.choice(inside, n), low, high)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_regions_hold_inside_and_are_blocked_outside(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    grown = 0
    for _ in range(count(20)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X, n_threads=1)
        names = list(engine.ensemble.feature_names)
        still = [n for n in names if rng.random() < 0.2]
        result = engine.query(X[:6], "any_other", immutable=still, region=True)
        own, after = engine.judge.class_index(X[:6]), coded(engine, result.counterfactuals)
        cells = engine.cells()
        boxes = result._regions.boxes
        for i in range(6):
            region = result.region(i)
            assert (region is None) == (result.status[i] == "infeasible")
            if region is None:
                continue
            assert region.blocked and str(region)
            inside = points_in(rng, engine, region, after[i], 40)
            inside[0] = after[i]
            assert (engine.judge.class_index(inside) != own[i]).all()
            grown += int((boxes.lo[i] < boxes.hi[i]).sum())
            for j, name in enumerate(names):
                assert name not in still or boxes.lo[i, j] == boxes.hi[i, j]
                if name in still:
                    continue
                for code, at_end in ((boxes.lo[i, j] - 1, boxes.lo[i, j] == 0),
                                     (boxes.hi[i, j] + 1, boxes.hi[i, j] == cells.n_codes[j] - 2)):  # fmt: skip
                    assert region.limits[name][0 if code < boxes.lo[i, j] else 1] is None if at_end else True
                    if not at_end:
                        assert _some_point_fails(engine, boxes, i, j, int(code), own[i])
    assert grown


def _some_point_fails(engine: gpucf.Engine, boxes: Any, i: int, j: int, code: int, own: int) -> bool:
    """Brute force over the cells beside one side of a box."""
    cells = engine.cells()
    ranges = [range(boxes.lo[i, f], boxes.hi[i, f] + 1) if f != j else [code] for f in range(cells.n_features)]
    points = np.array(list(itertools.product(*ranges)), np.int64)
    values = cells.cell_lo[cells.code_start[:-1] + points]
    return bool((engine.judge.class_index(values) == own).any())


def test_regions_of_categories_and_targets() -> None:
    import lightgbm
    import pandas as pd

    rng = np.random.default_rng(5)
    group = np.eye(3)[rng.integers(3, size=300)]
    X = pd.DataFrame({"a": rng.integers(0, 9, 300), "g0": group[:, 0], "g1": group[:, 1], "g2": group[:, 2]})
    X["c"] = pd.Categorical(rng.choice(list("uvwx"), 300))
    y = (X["a"] + 2 * X["g1"] + 3 * (X["c"] == "v") + 3 * (X["c"] == "w") + rng.normal(size=300) > 5).astype(int)
    model = lightgbm.LGBMClassifier(
        n_estimators=8, num_leaves=6, min_child_samples=5, min_data_per_group=1, cat_smooth=1, n_jobs=1, verbose=-1
    ).fit(X, y)
    engine = gpucf.Engine(model, background=X, one_hot={"g": ["g0", "g1", "g2"]})
    result = engine.query(X.iloc[:30], "p >= 0.6 and p < 0.95", region=True)
    several = 0
    for i in range(30):
        region = result.region(i)
        assert region is not None and region.blocked
        assert isinstance(region.limits["a"][0], int | None)
        several += region.limits["c"] is None or len(region.limits["c"]) > 1
        low, high = (e if e is not None else d for e, d in zip(region.limits["a"], (-3, 30), strict=True))
        groups = region.limits["g"] or ["g0", "g1", "g2"]
        letters = region.limits["c"] or list("uvwx")
        inside = pd.DataFrame(
            [(a, *(float(g == h) for h in ("g0", "g1", "g2")), c)
             for a in range(low, high + 1) for g in groups for c in letters],
            columns=X.columns,
        )  # fmt: skip
        inside["c"] = pd.Categorical(inside["c"], categories=list("uvwx"))
        p = model.predict_proba(inside)[:, 1]
        assert ((p >= 0.6) & (p < 0.95)).all()
        outside = [c for c in "uvwx" if c not in letters]
        for c in outside:  # each other category fails somewhere in the box
            there = inside.assign(c=pd.Categorical([c] * len(inside), categories=list("uvwx")))
            p = model.predict_proba(there)[:, 1]
            assert not ((p >= 0.6) & (p < 0.95)).all()
    assert several
    with pytest.raises(gpucf.OptionError, match="region=True"):
        engine.query(X.iloc[:2], "p >= 0.6").region(0)


def test_answers_in_words() -> None:
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    frame = pd.DataFrame({"income": [38000, 50000, 41200, 30000], "job": [0, 1, 1, 0]})
    model = DecisionTreeClassifier(random_state=0).fit(frame.assign(job=0), [0, 1, 1, 0])
    engine = gpucf.Engine(model, background=frame)
    result = engine.query(frame, 1, scale=None, region=True)
    assert str(result.explain(0)).splitlines() == [
        "income from 38,000 to 39,601 (+1,601); cost 1,601, proved the least.",
        "",
        "feature    from      to   cost",
        "income   38,000  39,601  1,601",
    ]
    assert str(result.explain(1)) == "Nothing to change: the row meets the target already."
    assert str(result.region(0)) == "income at least 39,601"
    never = engine.query(frame, 1, scale=None, immutable=["income"])
    assert str(never.explain(0)) == "Impossible, proved: no permitted change meets the target."
    assert "job" not in str(result.explain(0))


def test_numbers_are_as_short_as_they_read_back() -> None:
    rng = np.random.default_rng(2)
    for value in [*rng.normal(size=50) * 10.0 ** rng.integers(-12, 18, 50), 0.1, 1e30, -1234567.25, 41200.0]:
        assert float(number_text(value).replace(",", "")) == value
        short = number_text(np.float64(np.float32(value)), np.float32)
        assert np.float32(short.replace(",", "")) == np.float32(value)
    assert number_text(np.float64(np.float32(0.1)), np.float32) == "0.1"
    assert number_text(-1234567.25) == "-1,234,567.25"
    assert difference_text(0.1, 0.3) == "+0.2" and 0.3 - 0.1 != 0.2
    assert difference_text(38000, 3) == "-37,997" and difference_text(0.0, 1e-300) == "+1E-300"


def test_the_command_line_writes_a_line_for_each_option(tmp_path: Any) -> None:
    import json

    import pandas as pd

    from gpucf._cli import main

    rng = np.random.default_rng(0)
    model, X = random_model("xgb", rng)
    names = [f"c{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    model.fit(frame, model.predict(X))
    model.save_model(tmp_path / "model.json")
    frame.iloc[:20].to_parquet(tmp_path / "rows.parquet")
    frame.to_parquet(tmp_path / "all.parquet")
    given = [str(tmp_path / name) for name in ("model.json", "rows.parquet")]
    more = [
        "--background",
        str(tmp_path / "all.parquet"),
        "--options",
        "3",
        "--regions",
        "--batch-rows",
        "7",
        "--quiet",
    ]
    assert main(["query", *given, "-o", str(tmp_path / "out.parquet"), *more]) == 0
    out = pd.read_parquet(tmp_path / "out.parquet")
    result = gpucf.Engine(str(tmp_path / "model.json"), frame).query(frame.iloc[:20], options=3, region=True)
    lines = result.to_frame()
    assert (
        out["gpucf_row"].tolist() == lines["row"].tolist() and out["gpucf_option"].tolist() == lines["option"].tolist()
    )
    assert same_bits(out["gpucf_cost"], lines["cost"]) and out["gpucf_status"].tolist() == lines["status"].tolist()
    for line in out.itertuples():
        option = result.ranks[line.gpucf_option - 1]
        assert same_bits([getattr(line, n) for n in names], option.counterfactuals.iloc[line.gpucf_row])
        has_region = isinstance(line.gpucf_region, str)
        assert has_region == (line.gpucf_option == 1 and result.region(line.gpucf_row) is not None)
        if has_region:
            sides = json.loads(line.gpucf_region)
            region = result.region(line.gpucf_row)
            assert region is not None
            for name, (low, high) in region.limits.items():
                assert sides.get(name, {}).get("low") == low and sides.get(name, {}).get("high") == high
