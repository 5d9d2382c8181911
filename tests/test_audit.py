"""`gpucf.audit` from end to end: planted unfairness is found, fairness passes, edge cases have defined answers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import sizes
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import gpucf
from gpucf._audit_gate import HELD, UNDECIDED, VIOLATED, overall

FEW = {"n_bootstrap": 99, "n_permutations": 99}


@pytest.fixture(scope="module")
def engine():
    """Accepts where x is above 0.5; reads neither y nor who asks."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(500), "y": rng.random(500)})
    return gpucf.Engine(DecisionTreeClassifier(max_depth=1).fit(X, X["x"] > 0.5), X)


def people(n, seed=0, x=None):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.random(n) if x is None else x, "y": rng.random(n)})


def by(audit, *attributes):
    return {g.name: g for g in audit.partition(*attributes).groups}


def test_numbers_are_those_of_the_query(engine):
    X = people(400)
    sex = np.where(np.random.default_rng(1).random(400) < 0.4, "f", "m")
    audit = gpucf.audit(engine, X, {"sex": sex}, budgets=[0.1, 0.3], **FEW)
    result = engine.query(X, True)
    refused = result.status != "already"
    assert (audit.n, audit.n_refused) == (400, refused.sum())
    for name in ("f", "m"):
        group = by(audit, "sex")[f"sex {name}"]
        cost = result.cost[refused & (sex == name)]
        assert (group.n, group.n_refused, group.n_optimal) == ((sex == name).sum(), len(cost), len(cost))
        seen = {k: e.low for k, e in group.measures.items()}
        assert seen["burden"] == pytest.approx(cost.mean(), rel=1e-12)
        assert seen["median"] == np.quantile(cost, 0.5, method="inverted_cdf")
        assert seen["refused"] == len(cost) / (sex == name).sum()
        assert (seen["within:0.1"], seen["within:0.3"]) == ((cost <= 0.1).mean(), (cost <= 0.3).mean())
        assert group.quantiles[0.9][0] == np.quantile(cost, 0.9, method="inverted_cdf")
        assert (group.curve[0] == [(cost <= c).mean() for c in audit.curve_costs]).all()
        assert group.change_counts == {1: len(cost)}
        assert [(f.name, f.changed, f.cost) for f in group.features] == [("x", (1.0, 1.0), 1.0)]
        low, high = group.measures["burden"].interval
        assert low < seen["burden"] < high
    f, m = (result.cost[refused & (sex == name)] for name in ("f", "m"))
    assert by(audit, "sex")["sex f"].against_rest["burden"].low == pytest.approx(f.mean() - m.mean())
    part = audit.partition("sex")
    assert part.gaps["burden"].gap.low == pytest.approx(abs(f.mean() - m.mean()))
    assert part.gaps["burden"].ratio.low == pytest.approx(max(f.mean(), m.mean()) / min(f.mean(), m.mean()))
    assert part.cost_test[0] == pytest.approx(stats.kruskal(f, m).statistic)
    # Evaluated at a grid of costs, the distance of two curves is at most Kolmogorov and Smirnov's.
    assert part.curve_gap.low == pytest.approx(stats.ks_2samp(f, m).statistic, abs=0.02)


def test_same_numbers_for_every_kind_of_table_and_number_of_threads(engine):
    X = people(200)
    X["sex"] = np.where(X["y"] > 0.5, "f", "m")
    first = gpucf.audit(engine, X, ["sex"], **FEW).to_dict()
    import polars as pl
    import pyarrow as pa

    again = gpucf.Engine(engine._model, people(500), n_threads=3)
    again._scales = engine._scales
    for other in (pl.DataFrame(X), pa.Table.from_pandas(X, preserve_index=False)):
        found = gpucf.audit(again, other, ["sex"], **FEW).to_dict()
        for key in ("partitions", "subgroups", "counts", "sensitivity"):
            assert json.dumps(found[key]) == json.dumps(first[key])


def test_planted_unfair_recourse_is_found(engine):
    rng = np.random.default_rng(2)
    n = 600
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n)
    worse = (sex == "f") & (race == "b")
    X = people(n, 3, np.where(worse, 0.15, 0.3) + 0.1 * rng.random(n))
    audit = gpucf.audit(engine, X, {"sex": sex, "race": race}, n_permutations=499, n_bootstrap=99)
    worst = audit.subgroups[0]
    assert worst.name == "sex f, race b"
    assert worst.p_adjusted == 1 / 500
    assert audit.partition("sex", "race").gaps["burden"].p_holm < 0.05
    assert audit.partition("sex", "race").gaps["burden"].gap.low == pytest.approx(0.15, abs=0.03)
    states = {v.state for v in audit.check([{"measure": "burden", "max_gap": 0.05, "alpha": 0.01}])}
    assert VIOLATED in states


def test_fair_recourse_passes_at_the_stated_rate():
    """Rejections of true null hypotheses, over simulated tables: at most the level, but for chance."""
    from gpucf._audit_groups import Attribute, partitions
    from gpucf._audit_outcomes import Outcomes
    from gpucf._audit_stats import Chance, Statistics

    n, runs, level = 120, sizes.count(1500), 0.1
    rejected = {"gap": 0, "cost": 0, "subgroup": 0, "any adjusted": 0}
    for run in range(runs):
        rng = np.random.default_rng([run, 17])
        costs = np.where(rng.random(n) < 0.1, np.inf, rng.integers(1, 30, n) / 10)
        status = np.where(np.isinf(costs), "infeasible", "optimal")
        k = np.ones(n, np.int64)
        attributes = []
        for name, levels in (("a", 2), ("b", 3)):
            codes = rng.integers(0, levels, n)
            attributes.append(Attribute(name, tuple(map(str, range(levels))), codes, (), (0.0,) * levels, None))
        parts = partitions(attributes, 2)
        o = Outcomes(np.arange(n), status, costs, costs, (k, k), None)
        s = Statistics(parts, np.ones(n, bool), o, [1.0], ["x"], np.ones((n, 1), bool), np.ones((n, 1)),
                       Chance(10, 5, 99, 0.95, run), parts[-1])  # fmt: skip
        reports, subgroups = s.reports(), s.subgroups()
        rejected["gap"] += reports[0].gaps["burden"].p[1] <= level
        rejected["cost"] += reports[1].cost_test[1] <= level
        rejected["subgroup"] += subgroups[0].p_adjusted <= level
        rejected["any adjusted"] += any(g.p_holm <= level for r in reports for g in r.gaps.values())
    most = stats.binom.ppf(0.9999, runs, level)
    least = stats.binom.ppf(0.0001, runs, level)
    assert all(count <= most for count in rejected.values()), rejected
    assert all(rejected[name] >= least for name in ("gap", "cost", "subgroup")), rejected  # the tests are not idle


def test_case_87_tiny_groups_are_listed_and_not_compared(engine):
    X = people(101, x=0.4)
    audit = gpucf.audit(engine, X, {"g": ["one"] + ["a"] * 50 + ["b"] * 50}, **FEW)
    one = by(audit, "g")["g one"]
    assert (one.n, one.n_refused, one.sufficient, one.note) == (1, 1, False, "insufficient: 1 refused")
    assert one.measures == {}
    assert audit.partition("g").gaps["burden"].gap.low == 0.0
    assert all("one" not in s.name for s in audit.subgroups)


def test_case_87_a_group_with_nobody_refused(engine):
    X = people(100, x=np.r_[np.full(50, 0.4), np.full(50, 0.9)])
    audit = gpucf.audit(engine, X, {"g": ["a"] * 50 + ["b"] * 50}, **FEW)
    assert by(audit, "g")["g b"].note == "nobody refused"
    # The share refused can be compared all the same.
    assert audit.partition("g").gaps["refused"].gap.low == 1.0
    assert "burden" not in audit.partition("g").gaps
    assert audit.subgroups == []
    assert "nothing can be compared" in " ".join(gpucf._audit_text.findings(audit))
    verdicts = audit.check([{"measure": "burden", "max_gap": 1}, {"measure": "burden", "max": 1}])
    assert [v.state for v in verdicts] == [UNDECIDED, HELD]


@pytest.mark.parametrize(("x", "n_refused"), [(0.9, 0), (0.4, 80)])
def test_nobody_or_everybody_refused(engine, tmp_path, x, n_refused):
    audit = gpucf.audit(engine, people(80, x=x), {"g": ["a", "b"] * 40}, **FEW)
    assert audit.n_refused == n_refused
    audit.write(tmp_path)
    assert json.loads((tmp_path / "audit.json").read_text())["n_refused"] == n_refused
    shares = audit.partition("g").gaps["refused"]
    assert shares.gap.low == 0.0
    assert shares.p == (1.0, 1.0)


def test_an_empty_table(engine, tmp_path):
    audit = gpucf.audit(engine, people(0), {"g": []}, **FEW)
    assert (audit.n, audit.n_refused, audit.partitions[0].groups) == (0, 0, [])
    audit.write(tmp_path)


def test_case_89_nobody_has_recourse(engine, tmp_path):
    audit = gpucf.audit(engine, people(80, x=0.4), {"g": ["a", "b"] * 40}, immutable=["x"], **FEW)
    assert audit.counts["infeasible"] == 80
    for g in audit.partition("g").groups:
        assert g.measures["no_recourse"].low == 1.0
        assert np.isnan(g.measures["burden"].low)
        assert g.measures["median"].low == np.inf
        assert g.features == []
    gaps = audit.partition("g").gaps
    assert (gaps["median"].gap.low, gaps["no_recourse"].gap.high) == (0.0, 0.0)
    assert np.isnan(gaps["burden"].gap.low)
    assert overall(audit.check([{"measure": "burden", "max_gap": 1}])) == UNDECIDED
    assert "None of them has recourse" in str(audit._repr_html_())
    audit.write(tmp_path)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_attribute_values_are_a_group_of_their_own(engine, missing):
    values = pd.Series(["a", "b", missing] * 40, dtype=object)
    audit = gpucf.audit(engine, people(120, x=0.4), {"g": values}, **FEW)
    assert [(g.name, g.n) for g in audit.partition("g").groups] == [("g a", 40), ("g b", 40), ("g (missing)", 40)]


def test_continuous_attributes_need_bins(engine):
    X = people(200, x=0.4)
    with pytest.raises(gpucf.OptionError, match=r"'y' has 200 different values.*give bins="):
        gpucf.audit(engine, X, ["y"], **FEW)
    audit = gpucf.audit(engine, X, ["y"], bins={"y": [0.25, 0.5]}, **FEW)
    names = ["y under 0.25", "y 0.25 to under 0.5", "y 0.5 and over"]
    assert [g.name for g in audit.partition("y").groups] == names
    assert [g.n for g in audit.partition("y").groups] == [
        (X["y"] < 0.25).sum(), ((X["y"] >= 0.25) & (X["y"] < 0.5)).sum(), (X["y"] >= 0.5).sum()
    ]  # fmt: skip
    edge = gpucf.audit(engine, people(2, x=0.4), {"v": [0.25, np.nan]}, bins={"v": [0.25]}, **FEW)
    assert [g.name for g in edge.partition("v").groups] == ["v 0.25 and over", "v (missing)"]


def test_open_rows_enter_as_intervals(engine):
    """A node limit of one: every bound holds what the search without a limit finds."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.random((400, 6)), columns=list("abcdef"))
    from sklearn.ensemble import RandomForestClassifier

    y = X.sum(axis=1) + rng.normal(0, 0.3, 400) > 3.4
    forest = gpucf.Engine(RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, y), X, method="search")
    g = {"g": np.where(X["a"] > 0.5, "l", "r")}
    full = gpucf.audit(forest, X, g, budgets=[0.1, 0.3], **FEW)
    part = gpucf.audit(forest, X, g, budgets=[0.1, 0.3], node_limit=3, **FEW)
    assert part.counts["feasible"] + part.counts["unknown"] > 20
    for a, b in zip(full.partition("g").groups, part.partition("g").groups, strict=True):
        assert b.n_refused == a.n_refused
        assert b.n_optimal + b.n_feasible + b.n_unknown + b.n_infeasible == b.n_refused
        for key, e in a.measures.items():
            assert b.measures[key].low <= e.low <= b.measures[key].high, key
        for q, (cost, _) in a.quantiles.items():
            assert b.quantiles[q][0] <= cost <= b.quantiles[q][1]
        assert (b.curve[0] <= b.curve[1]).all()
    for key, gap in full.partition("g").gaps.items():
        other = part.partition("g").gaps[key]
        assert other.gap.low <= gap.gap.low <= other.gap.high
        assert other.p[0] <= other.p[1] or np.isnan(gap.p[0])


def test_what_only_the_attribute_changes_is_found_with_all_pairs():
    """The model accepts x above 0.5, for group 1 above 0.3: changing the group alone turns exactly those between."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"x": np.r_[rng.random(397), 0.2999, 0.4999, 0.5001], "g": rng.integers(0, 2, 400)})
    y = X["x"] > np.where(X["g"] == 1, 0.3, 0.5)
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    engine = gpucf.Engine(tree, X)
    audit = gpucf.audit(engine, X, ["g"], small_change=0.1, **FEW)
    (s,) = audit.sensitivity
    swapped = X.assign(g=1 - X["g"])
    before, after = tree.predict(X), tree.predict(swapped)
    turned = np.flatnonzero(before != after)
    assert len(turned) > 30
    assert sorted(s.pairs["row"].tolist()) == turned.tolist()
    assert (s.refused_to_accepted, s.accepted_to_refused) == ((~before & after).sum(), (before & ~after).sum())
    first = int(s.pairs["row"][0])
    assert (s.pairs["from"][0], s.pairs["to"][0]) == (str(X["g"][first]), str(swapped["g"][first]))
    assert (s.pairs["before"][0] == "refused") == (not before[first])
    # Nobody is told to change their group, and a small other change counts from where the other group stands.
    own = engine.query(X, True, immutable=["g"]).cost
    other = engine.query(swapped, True, immutable=["g"]).cost
    assert s.small_unlocked == (((own > 0.1) & (other <= 0.1)).sum(),) * 2
    assert s.small_before == (((own > 0) & (own <= 0.1)).sum(),) * 2
    assert all(f.name == "x" for g in audit.partition("g").groups for f in g.features)
    free = gpucf.audit(engine, X, ["g"], may_change=["g"], weights={"g": 0.01}, **FEW)
    assert any(f.name == "g" for g in free.partition("g").groups for f in g.features)


def test_case_89_the_share_without_recourse_stands_beside_the_mean_of_the_others(engine):
    """Rows of y above 0.5 may not change x: no recourse. The mean is that of the others, and says nothing of these."""
    X = people(400, x=0.4)
    locked = X["y"].to_numpy() > 0.5
    audit = gpucf.audit(engine, X, {"g": ["a", "b"] * 200}, immutable={"x": locked}, **FEW)
    cost = engine.query(X, True).cost
    for k, name in enumerate(("g a", "g b")):
        mine = np.arange(400) % 2 == k
        group = by(audit, "g")[name]
        assert group.n_infeasible == (mine & locked).sum()
        assert group.measures["no_recourse"].low == locked[mine].mean()
        assert group.measures["burden"].low == pytest.approx(cost[mine & ~locked].mean(), rel=1e-12)


def test_case_91_no_true_labels_are_needed(engine):
    """Nothing but the rows, the model and the groups is asked for, here or by the command line."""
    import inspect

    assert not {"y", "labels_true", "y_true"} & set(inspect.signature(gpucf.audit).parameters)
    assert gpucf.audit(engine, people(60), {"g": ["a", "b"] * 30}, **FEW).n == 60


def test_an_attribute_that_the_model_does_not_read(engine):
    audit = gpucf.audit(engine, people(60, x=0.4), {"g": ["a", "b"] * 30}, **FEW)
    assert not audit.sensitivity[0].read_by_model
    assert overall(audit.check([{"measure": "flips", "max": 0}])) == HELD


def test_one_hot_groups_as_attributes():
    rng = np.random.default_rng(6)
    color = rng.integers(0, 3, 300)
    X = pd.DataFrame({"x": rng.random(300), **{f"c={k}": (color == k).astype(int) for k in range(3)}})
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, X["x"] + 0.2 * (color == 2) > 0.6)
    engine = gpucf.Engine(tree, X, one_hot={"c": ["c=0", "c=1", "c=2"]})
    audit = gpucf.audit(engine, X, ["c"], **FEW)
    assert [g.name for g in audit.partition("c").groups] == ["c 0", "c 1", "c 2"]
    before = tree.predict(X)
    turned = np.zeros(300, bool)
    for k in range(3):
        other = X.assign(**{f"c={m}": int(m == k) for m in range(3)})
        turned |= tree.predict(other) != before
    s = audit.sensitivity[0]
    assert s.refused_to_accepted + s.accepted_to_refused == turned.sum() > 0
    with pytest.raises(gpucf.OptionError, match="one column of the one-hot group 'c'"):
        gpucf.audit(engine, X, ["c=0"])


def test_labels(engine):
    audit = gpucf.audit(engine, people(80, x=0.4), {"g": [0, 1.0] * 40}, labels={"g": {0: "men", 1: "women"}}, **FEW)
    assert [g.name for g in audit.partition("g").groups] == ["g men", "g women"]


def test_choice_of_options(engine):
    X = people(120, x=0.4)
    audit = gpucf.audit(engine, X, {"g": ["a", "b"] * 60}, options=2, **FEW)
    assert [g.measures["options"].low for g in audit.partition("g").groups] == [1.0, 1.0]
    assert audit.check([{"measure": "options", "min": 1}])[0].state == HELD


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": []}, "no attribute to audit by"),
        ({"groups": ["nobody"]}, "no column or one-hot group 'nobody'"),
        ({"groups": {"g": ["a"]}}, "has 1 values for 60 rows"),
        ({"bins": {"z": [1]}}, "bins are given for 'z'"),
        ({"groups": ["y"], "bins": {"y": [2, 1]}}, "give ascending numbers"),
        ({"bins": {"g": [1]}}, "holds other things than numbers"),
        ({"labels": {"z": {}}}, "labels are given for 'z'"),
        ({"labels": {"g": {"c": "x"}}}, "name the value 'c', which does not occur"),
        ({"labels": {"g": {"a": "b"}}}, "one name to two values"),
        ({"order": 0}, "order is 0"),
        ({"level": 1.0}, "level is 1.0"),
        ({"budgets": [-1]}, "budgets has -1"),
        ({"may_change": ["x"]}, "may_change names 'x'"),
        ({"sensitivity_to": ["x"]}, "sensitivity_to names 'x'"),
        ({"target": "opposite"}, "no outcome that people want"),
        ({"carry": ["y"]}, "carry is no option of an audit"),
    ],
)
def test_wrong_calls(engine, wrong, message):
    with pytest.raises(gpucf.GpucfError, match=message):
        gpucf.audit(engine, people(60), **{"groups": {"g": ["a", "b"] * 30}, **wrong})


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("burden", "give an entry such as"),
        ({"measure": "cost"}, "the measure is 'cost'; give one of refused, no_recourse"),
        ({"measure": "burden"}, "takes one of max_gap"),
        ({"measure": "burden", "max_gap": 1, "max": 1}, "takes one of max_gap"),
        ({"measure": "burden", "max_gap": "much"}, "max_gap is 'much'; give a number"),
        ({"measure": "burden", "max": 1, "alpha": 0.1}, "alpha goes with max_gap"),
        ({"measure": "burden", "most": 1}, "unknown key 'most'"),
        ({"measure": "burden", "max": 1, "by": "z"}, "no partition by z"),
        ({"measure": "within", "min": 0.5}, "'within' has a budget"),
        ({"measure": "within", "min": 0.5, "budget": 7}, "7 is not among"),
        ({"measure": "options", "min": 1}, "needs an audit with query"),
        ({"measure": "flips", "max": 1, "by": "z"}, "did not change 'z' alone"),
    ],
)
def test_wrong_thresholds(engine, threshold, message):
    audit = gpucf.audit(engine, people(60), {"g": ["a", "b"] * 30}, **FEW)
    with pytest.raises(gpucf.OptionError, match=message):
        audit.check([threshold])


def test_what_is_shown_of_open_rows_is_never_more_than_is_known(engine, tmp_path):
    """No end of an interval is shown as if it were the number, in the summary, the findings or the table."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.random((300, 6)), columns=list("abcdef"))
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, X.sum(axis=1) > 3.2)
    forest = gpucf.Engine(forest, X, method="search")
    audit = gpucf.audit(forest, X, {"g": np.where(X["a"] > 0.5, "l", "r")}, node_limit=1, **FEW)
    group = audit.partition("g").groups[0]
    assert group.n_unknown > 0
    line = next(line for line in str(audit).splitlines() if line.startswith(group.name))
    assert " .. " in line
    assert ">= " in line
    text = " ".join(gpucf._audit_text.findings(audit))
    assert "costs at least" in text
    assert "without bound" not in text
    assert "cannot be said while rows are open" in text
    audit.write(tmp_path)
