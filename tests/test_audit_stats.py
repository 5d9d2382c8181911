"""The statistics of an audit against scipy, or against the same thing done by hand, row by row."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import sizes
from scipy import stats

from gpucf._audit_gaps import gap, ratio
from gpucf._audit_outcomes import Columns, Outcomes, gehan_scores, quantile
from gpucf._audit_resample import (
    Strata,
    bootstrap,
    bootstrap_counts,
    holm,
    p_value,
    percentile_interval,
    permuted_counts,
)
from gpucf._audit_resample import permutations as deal
from gpucf._audit_subgroups import adjusted_p, kruskal, z_scores

inf, nan = np.inf, np.nan


def outcomes(low, high, status, changes=1):
    low, high = np.asarray(low, float), np.asarray(high, float)
    n = len(low)
    k = np.full(n, changes)
    return Outcomes(np.arange(n), np.asarray(status, object), low, high, (k, k), None)


def proved(costs):
    costs = np.asarray(costs, float)
    return outcomes(costs, costs, np.where(np.isinf(costs), "infeasible", "optimal"))


def completions(o):
    """Every way in which the open rows could turn out, at the ends of their intervals: an array of costs each."""
    ends = [
        [lo] if s in ("optimal", "infeasible") else [lo, hi] if s == "feasible" else [lo, 1e9, inf]
        for lo, hi, s in zip(o.low, o.high, o.status, strict=True)
    ]
    todo = [[]]
    for choices in ends:
        todo = [[*done, c] for done in todo for c in choices]
    return [np.array(c) for c in todo]


def test_measures_of_a_proved_group_are_those_of_numpy():
    costs = np.array([0.5, 0.25, 2.0, inf, 0.25])
    columns = Columns(proved(costs), [0.25, 1.0])
    values = columns.values(columns.V.sum(axis=0))
    finite = costs[np.isfinite(costs)]
    expected = {"no_recourse": 0.2, "burden": finite.mean(), "changes": 1.0, "within:0.25": 0.4, "within:1": 0.6}
    for name, value in expected.items():
        assert values[name][0] == values[name][1] == value, name
    assert columns.measures == tuple(expected)


@pytest.mark.parametrize("seed", range(sizes.count(60)))
def test_intervals_hold_whatever_the_open_rows_turn_out_to_be(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    status = rng.choice(["optimal", "infeasible", "feasible", "unknown"], n)
    low = rng.integers(1, 6, n) / 4
    high = np.where(status == "optimal", low, np.where(status == "feasible", low + rng.integers(0, 4, n) / 4, inf))
    low = np.where(status == "infeasible", inf, low)
    o = outcomes(low, high, status)
    columns = Columns(o, [0.5, 1.0])
    values = columns.values(columns.V.sum(axis=0))
    met = {"low": False, "high": False}
    for costs in completions(o):
        c = Columns(proved(costs), [0.5, 1.0])
        true = c.values(c.V.sum(axis=0))
        for name in ("no_recourse", "burden", "within:0.5", "within:1"):
            if not np.isnan(true[name][0]):
                assert values[name][0] - 1e-12 <= true[name][0] <= values[name][1] + 1e-12, name
        for q in (0.1, 0.5, 0.9):
            assert quantile(np.sort(low), q) <= quantile(np.sort(costs), q) <= quantile(np.sort(high), q)
        met["low"] |= true["no_recourse"][0] == values["no_recourse"][0]
        met["high"] |= true["no_recourse"][0] == values["no_recourse"][1]
    assert all(met.values())  # the interval is no wider than it must be


def test_changes_of_open_rows_are_bounded():
    n = np.array([1, 1, 2])
    o = Outcomes(np.arange(3), np.array(["optimal", "feasible", "unknown"]), n / 4, np.array([0.25, 1.0, inf]),
                 (np.array([2, 1, 1]), np.array([2, 7, 7])), None)  # fmt: skip
    low, high = Columns(o, []).values(Columns(o, []).V.sum(axis=0))["changes"]
    assert (low, high) == ((2 + 1 + 1) / 3, (2 + 7 + 7) / 3)
    settled = o.take(np.array([0]))
    low, high = Columns(settled, []).values(Columns(settled, []).V.sum(axis=0))["changes"]
    assert low == high == 2


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11])
def test_quantile_is_the_inverse_of_the_curve(n):
    values = np.sort(np.random.default_rng(n).random(n))
    for q in (0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0):
        assert quantile(values, q) == np.quantile(values, q, method="inverted_cdf")
        assert np.mean(values <= quantile(values, q)) >= q - 1e-12


def test_gehan_scores_of_proved_rows_are_centred_ranks():
    costs = np.array([3.0, 1.0, 1.0, inf, 2.0, inf])
    ranks = stats.rankdata(costs)
    assert (gehan_scores(costs, costs) == 2 * (ranks - ranks.mean())).all()


@pytest.mark.parametrize("seed", range(sizes.count(50)))
def test_gehan_scores_by_hand(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    low = rng.integers(0, 5, n).astype(float)
    high = low + rng.choice([0.0, 0.0, 1.0, inf], n)
    by_hand = [sum(float(h < lo_i) - float(lo > h_i) for lo, h in zip(low, high, strict=True))
               for lo_i, h_i in zip(low, high, strict=True)]  # fmt: skip
    scores = gehan_scores(low, high)
    assert scores.tolist() == by_hand
    assert scores.sum() == 0


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_cost_test_is_kruskal_and_wallis(n_groups):
    rng = np.random.default_rng(n_groups)
    costs, groups = rng.integers(0, 9, 60) / 8, np.arange(60) % n_groups
    scores = gehan_scores(costs, costs)
    sums = np.bincount(groups, weights=scores)
    found = kruskal(sums, np.bincount(groups), 60, float((scores**2).sum()))
    assert found == pytest.approx(stats.kruskal(*(costs[groups == g] for g in range(n_groups))).statistic, rel=1e-12)


def test_z_of_a_subgroup_is_that_of_mann_and_whitney():
    rng = np.random.default_rng(3)
    costs, inside = rng.integers(0, 9, 50) / 8, rng.random(50) < 0.4
    scores = gehan_scores(costs, costs)
    z = z_scores(np.array([scores[inside].sum()]), np.array([inside.sum()]), 50, float((scores**2).sum()))[0]
    known = stats.mannwhitneyu(costs[inside], costs[~inside], method="asymptotic", use_continuity=False)
    assert 2 * stats.norm.sf(abs(z)) == pytest.approx(known.pvalue, rel=1e-9)


def test_permutation_p_of_a_small_case_is_that_of_all_permutations():
    values = np.array([0.1, 0.9, 0.5, 1.4, 1.1, 0.7])
    cells = np.array([0, 0, 0, 1, 1, 1])
    strata = Strata(np.column_stack([np.ones(6), values]), cells, 2)
    n = 4000

    def gaps(sums):
        means = sums[..., 1] / sums[..., 0]
        return gap(means, means)

    observed = gaps(strata.sums())
    p = p_value((float(observed[0]), float(observed[1])), gaps(deal(strata, n, [0])))
    exact = []
    for first in combinations(range(6), 3):
        at = np.isin(np.arange(6), first)
        exact.append(abs(values[at].mean() - values[~at].mean()) >= observed[0] - 1e-12)
    assert p[0] == p[1]
    assert abs(p[0] - np.mean(exact)) < 4 * np.sqrt(0.25 / n)
    known = stats.permutation_test(
        (values[:3], values[3:]), lambda a, b: abs(a.mean() - b.mean()), alternative="greater", n_resamples=inf
    )
    assert known.pvalue == np.mean(exact)


def test_every_deal_is_a_permutation_and_all_are_equally_likely():
    strata = Strata(np.eye(4), np.array([0, 1, 2, 3]), 4)
    sums = deal(strata, 12_000, [7])
    places = sums.argmax(axis=2)
    assert (np.sort(places, axis=1) == np.arange(4)).all()
    codes = {p: k for k, p in enumerate(permutations(range(4)))}
    counts = np.bincount([codes[tuple(row)] for row in places.tolist()], minlength=24)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_resamples_are_multinomial():
    n = 5
    strata = Strata(np.eye(n), np.zeros(n, np.int64), 1)
    counts = bootstrap(strata, [], 0.5, 20_000, [3])[0][:, 0]
    assert (counts.sum(axis=1) == n).all()
    expected = stats.binom(n, 1 / n).pmf(np.arange(n + 1)) * len(counts)
    seen = np.stack([np.bincount(counts[:, i].astype(int), minlength=n + 1) for i in range(n)])
    pooled = np.column_stack([seen[:, :3], seen[:, 3:].sum(axis=1)])
    for row in pooled:
        assert stats.chisquare(row, [*expected[:3], expected[3:].sum()]).pvalue > 1e-4
    assert np.corrcoef(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-1 / (n - 1), abs=0.03)


def test_bootstrap_interval_of_a_mean_and_of_a_median_agree_with_scipy():
    values = np.random.default_rng(5).exponential(size=80)
    rows = np.argsort(values, kind="stable")
    strata = Strata(np.column_stack([np.ones(80), values]), np.zeros(80, np.int64), 1)
    sums, medians = bootstrap(strata, [(rows, values[rows])], 0.5, 9999, [1])
    means = sums[:, 0, 1] / sums[:, 0, 0]
    for draws, statistic in [
        (means, np.mean), (medians[:, 0], lambda x, axis: np.quantile(x, 0.5, axis=axis, method="inverted_cdf")),
    ]:  # fmt: skip
        known = stats.bootstrap((values,), statistic, n_resamples=9999, method="percentile", rng=2).confidence_interval
        found = percentile_interval(draws, draws, 0.95)
        assert found == pytest.approx(tuple(known), rel=0.04)


def test_threads_change_no_draw():
    rng = np.random.default_rng(0)
    strata = Strata(rng.random((50, 3)), rng.integers(0, 4, 50), 4)
    rows = np.argsort(strata.V[:, 0])
    one = bootstrap(strata, [(rows, strata.V[rows, 0])], 0.5, 37, [1], 1)
    two = bootstrap(strata, [(rows, strata.V[rows, 0])], 0.5, 37, [1], 3)
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert (deal(strata, 37, [1], 1) == deal(strata, 37, [1], 3)).all()
    assert (deal(strata, 37, [1], 1) != deal(strata, 37, [2], 1)).any()


def test_shares_of_refused_rows():
    sizes_, refused = np.array([30, 20, 0]), np.array([10, 15, 0])
    n, k = bootstrap_counts(sizes_, refused, 4000, np.random.default_rng(0))
    assert (n.sum(axis=1) == 50).all()
    assert (k <= n).all()
    assert np.allclose(k.mean(axis=0), refused, atol=0.25)
    dealt = permuted_counts(sizes_, refused, 4000, np.random.default_rng(0))
    assert (dealt.sum(axis=1) == 25).all()
    known = stats.hypergeom(50, 25, 30)
    assert np.mean(dealt[:, 0] >= 18) == pytest.approx(known.sf(17), abs=0.03)
    nobody = np.zeros(2, int)
    assert not permuted_counts(nobody, nobody, 3, np.random.default_rng(0)).any()
    assert not bootstrap_counts(nobody, nobody, 3, np.random.default_rng(0))[0].any()


@pytest.mark.parametrize("p", [[0.01, 0.04, 0.03, 0.005], [0.2], [0.5, 0.5, 0.5], [0.001, 1.0]])
def test_holm_by_hand(p):
    n = len(p)
    expected = [
        min(1.0, max((n - sum(other < q for other in p)) * q for q in p if q <= mine)) for mine in p
    ]  # each p by its rank, and never below that of a smaller one
    assert holm(p) == pytest.approx(expected)
    assert np.isnan(holm([nan, 0.5])).tolist() == [True, False]
    assert holm([nan, 0.5])[1] == 0.5


def test_gaps_and_ratios_by_hand():
    values = np.array([0.5, 0.1, 0.3])
    assert gap(values, values) == (0.4, 0.4)
    assert ratio(values, values) == (pytest.approx(5.0), pytest.approx(5.0))
    one = np.array([0.5, nan])
    assert all(np.isnan(v) for v in (*gap(one, one), *ratio(one, one)))
    zero = np.array([0.0, 0.0])
    assert ratio(zero, zero) == (1.0, 1.0)
    assert ratio(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == (inf, inf)
    both = np.array([inf, inf])
    assert gap(both, both) == (0.0, 0.0)
    assert gap(np.array([inf, 1.0]), np.array([inf, 1.0])) == (inf, inf)


@pytest.mark.parametrize("seed", range(sizes.count(50)))
def test_gaps_of_intervals_are_met_and_never_passed(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    low = rng.integers(1, 8, n) / 4
    high = low + rng.integers(0, 3, n) / 4
    grids = [np.unique([lo, hi, *np.arange(lo, hi, 0.25)]) for lo, hi in zip(low, high, strict=True)]
    seen = [np.array(p) for p in np.stack(np.meshgrid(*grids), -1).reshape(-1, n)]
    for of, exact in ((gap, lambda v: v.max() - v.min()), (ratio, lambda v: v.max() / v.min())):
        all_values = [exact(v) for v in seen]
        found = of(low, high)
        assert found[1] == max(all_values)
        assert found[0] <= min(all_values)  # certain; three groups and more may force a little more


def test_largest_z_corrects_for_looking_often():
    rng = np.random.default_rng(0)
    z = np.array([2.5, 0.0])
    drawn = rng.normal(size=(999, 40))
    found = adjusted_p(z, drawn)
    assert found[0] == pytest.approx(1 - stats.norm.cdf(2.5) ** 40, abs=0.05)
    assert found[1] == 1.0


def test_interval_of_draws_without_a_value():
    draws = np.r_[np.full(90, nan), np.ones(10)]
    assert np.isnan(percentile_interval(draws, draws, 0.95)).all()
    assert np.isnan(percentile_interval(np.zeros(0), np.zeros(0), 0.95)).all()
    assert percentile_interval(np.r_[np.ones(50), np.full(50, inf)], np.r_[np.ones(50), np.full(50, inf)], 0.5) == (
        1,
        inf,
    )
