"""From outcomes to the numbers of an audit: one pass of resamples for all groups, gaps and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpucf._audit_gaps import gap, ratio
from gpucf._audit_groups import Partition
from gpucf._audit_outcomes import Columns, Interval, Outcomes, gehan_scores, quantile
from gpucf._audit_resample import (
    Strata,
    bootstrap,
    bootstrap_counts,
    holm,
    p_value,
    percentile_interval,
    permutations,
    permuted_counts,
)
from gpucf._audit_result import QUANTILES, Estimate, FeatureShare, Gap, GroupReport, PartitionReport
from gpucf._audit_subgroups import Subgroup, adjusted_p, candidates, kruskal, z_scores
from gpucf._result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN

CURVE_POINTS = 201


@dataclass(frozen=True)
class Chance:
    """How the statistics are drawn."""

    min_group: int
    n_bootstrap: int
    n_permutations: int
    level: float
    seed: int
    n_threads: int = 1

    def rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream])


class Statistics:
    """All resamples of one audit, and what each partition takes from them.

    Parameters
    ----------
    parts : list of Partition
        Of all rows; the last one is the finest.
    refused : bool array of shape (n_rows,)
    outcomes : Outcomes
        Of the refused rows.
    """

    def __init__(
        self, parts: Sequence[Partition], refused: np.ndarray, outcomes: Outcomes, budgets: Sequence[float],
        feature_names: Sequence[str], moved: np.ndarray, prices: np.ndarray, chance: Chance, finest: Partition,
    ) -> None:  # fmt: skip
        self.parts, self.outcomes, self.chance = parts, outcomes, chance
        self.columns = Columns(outcomes, budgets)
        self.feature_names, self.moved, self.prices = feature_names, moved, prices
        self.scores = gehan_scores(outcomes.low, outcomes.high)
        self.costs = curve_costs(outcomes)
        n_cells = len(finest.groups)
        V = np.column_stack([self.columns.V, self.scores])
        self.strata = Strata(V, finest.codes[refused], n_cells)
        self.codes = [part.codes[refused] for part in parts]
        # Which cells make up each group: every group of a partition is a union of the finest ones.
        self.members = [_members(part, finest) for part in parts]
        self.sizes = [np.bincount(c, minlength=len(p.groups)) for c, p in zip(self.codes, parts, strict=True)]
        self.all_sizes = np.bincount(finest.codes, minlength=n_cells)
        self.all_refused = np.bincount(finest.codes[refused], minlength=n_cells)
        self._draw()

    def _draw(self) -> None:
        wanted: list[tuple[np.ndarray, np.ndarray]] = []
        self._quantile_at: dict[tuple[int, int], tuple[int, int]] = {}
        for p, (part, codes) in enumerate(zip(self.parts, self.codes, strict=True)):
            for g in range(len(part.groups)):
                if self.sizes[p][g] < self.chance.min_group:
                    continue
                rows = np.flatnonzero(codes == g)
                sides = (
                    [self.outcomes.high] if not self.outcomes.open.any() else [self.outcomes.low, self.outcomes.high]
                )
                at = []
                for side in sides:
                    order = rows[np.argsort(side[rows], kind="stable")]
                    at.append(len(wanted))
                    wanted.append((order, side[order]))
                self._quantile_at[p, g] = (at[0], at[-1])
        c = self.chance
        self.boot, self.boot_quantiles = bootstrap(self.strata, wanted, 0.5, c.n_bootstrap, [c.seed, 1], c.n_threads)
        self.perm = permutations(self.strata, c.n_permutations, [c.seed, 2], c.n_threads)
        self.boot_counts = bootstrap_counts(self.all_sizes, self.all_refused, c.n_bootstrap, c.rng(3))
        self.perm_refused = permuted_counts(self.all_sizes, self.all_refused, c.n_permutations, c.rng(4))

    def reports(self) -> list[PartitionReport]:
        """One report a partition, the p-values of all gaps adjusted together."""
        out = [self._partition(p) for p in range(len(self.parts))]
        places = [(k, name) for k, report in enumerate(out) for name in report.gaps]
        adjusted = holm([out[k].gaps[name].p[1] for k, name in places])
        for (k, name), p in zip(places, adjusted.tolist(), strict=True):
            out[k].gaps[name] = replace(out[k].gaps[name], p_holm=p)
        return out

    def _partition(self, p: int) -> PartitionReport:
        part, member = self.parts[p], self.members[p].astype(np.float64)
        k = self.columns.V.shape[1]
        total = self.strata.sums()
        observed = member @ total
        drawn = {"boot": member @ self.boot, "perm": member @ self.perm}
        values = {"seen": self.columns.values(observed[:, :k])}
        values |= {name: self.columns.values(sums[..., :k]) for name, sums in drawn.items()}
        self._add_refused(values, member)
        self._add_median(values, p)
        rest = {
            "seen": self.columns.values((total.sum(axis=0) - observed)[:, :k]),
            "boot": self.columns.values((self.boot.sum(axis=1, keepdims=True) - drawn["boot"])[..., :k]),
        }
        groups = [self._group(p, g, values, rest) for g in range(len(part.groups))]
        enough = {name: np.array([g.sufficient for g in groups], bool) for name in values["seen"]}
        enough["refused"] = np.array([g.n >= self.chance.min_group for g in groups], bool)
        gaps = {}
        for name in values["seen"]:
            if enough[name].sum() > 1:
                gaps[name] = self._gap(name, {w: v.get(name) for w, v in values.items()}, enough[name])
        squares = float((self.scores**2).sum())
        statistic = kruskal(observed[:, k], self.sizes[p], len(self.scores), squares)
        spread = kruskal(drawn["perm"][..., k], self.sizes[p], len(self.scores), squares)
        tested = (self.sizes[p] > 0).sum() > 1
        test = p_value((float(statistic),) * 2, (spread, spread))[0] if tested else float("nan")
        return PartitionReport(
            part.attributes, groups, gaps, (float(statistic) if tested else float("nan"), test), _curve_gap(groups)
        )

    def _add_refused(self, values: dict[str, dict[str, Interval]], member: np.ndarray) -> None:
        sizes = member @ self.all_sizes

        def share(refused: np.ndarray, of: np.ndarray) -> Interval:
            found = np.divide(refused, of, out=np.full(np.broadcast(refused, of).shape, np.nan), where=of > 0)
            return found, found

        values["seen"]["refused"] = share(member @ self.all_refused, sizes)
        boot_sizes, boot_refused = (counts @ member.T for counts in self.boot_counts)
        values["boot"]["refused"] = share(boot_refused, boot_sizes)
        values["perm"]["refused"] = share(self.perm_refused @ member.T, sizes)

    def _add_median(self, values: dict[str, dict[str, Interval]], p: int) -> None:
        n = len(self.parts[p].groups)
        seen, boot = np.full((2, n), np.nan), np.full((2, self.chance.n_bootstrap, n), np.nan)
        for g in range(n):
            at = self._quantile_at.get((p, g))
            if at is not None:
                rows = np.flatnonzero(self.codes[p] == g)
                for side, source in enumerate((self.outcomes.low, self.outcomes.high)):
                    seen[side, g] = quantile(np.sort(source[rows]), 0.5)
                    boot[side, :, g] = self.boot_quantiles[:, at[side]]
        values["seen"]["median"] = (seen[0], seen[1])
        values["boot"]["median"] = (boot[0], boot[1])

    def _estimate(self, seen: Interval, boot: Interval, g: Any = ...) -> Estimate:
        interval = percentile_interval(boot[0][..., g], boot[1][..., g], self.chance.level)
        return Estimate(float(seen[0][g]), float(seen[1][g]), interval)

    def _group(self, p: int, g: int, values: dict[str, dict[str, Interval]], rest: Any) -> GroupReport:
        part = self.parts[p]
        own = self.outcomes.take(np.flatnonzero(self.codes[p] == g))
        n = int((part.codes == g).sum())
        counts = [int((own.status == s).sum()) for s in (OPTIMAL, FEASIBLE, UNKNOWN, INFEASIBLE)]
        sufficient = len(own) >= self.chance.min_group
        measures = {}
        for name, seen in values["seen"].items():
            if sufficient or (name == "refused" and n >= self.chance.min_group):
                measures[name] = self._estimate(seen, values["boot"][name], g)
        head = GroupReport(
            part.groups[g],
            part.values[g],
            n,
            len(own),
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            sufficient,
            measures,
        )
        if not sufficient:
            return head
        against = {}
        for name in self.columns.measures:
            lows, highs = rest["seen"][name], rest["boot"][name]
            seen_low, seen_high = values["seen"][name]
            boot_low, boot_high = values["boot"][name]
            against[name] = self._estimate(
                (_minus(seen_low, lows[1]), _minus(seen_high, lows[0])),
                (_minus(boot_low, highs[1]), _minus(boot_high, highs[0])), g,
            )  # fmt: skip
        low, high = np.sort(own.low), np.sort(own.high)
        proved = own.status == OPTIMAL
        shares, at = np.unique(own.changes[0][proved], return_counts=True)
        return replace(
            head,
            quantiles={q: (quantile(low, q), quantile(high, q)) for q in QUANTILES},
            curve=(_reached(high, self.costs), _reached(low, self.costs)),
            change_counts={int(c): int(m) for c, m in zip(shares, at, strict=True)},
            features=self._features(np.flatnonzero(self.codes[p] == g)),
            against_rest=against,
        )

    def _features(self, rows: np.ndarray) -> list[FeatureShare]:
        proved, open_ = self.outcomes.status[rows] == OPTIMAL, self.outcomes.open[rows]
        at, n = rows[proved], int(proved.sum() + open_.sum())
        if not n:
            return []
        moved = self.moved[at].sum(axis=0)
        paid = self.prices[at].sum(axis=0)
        share = np.divide(paid, paid.sum(), out=np.zeros(len(paid)), where=paid.sum() > 0)
        out = [
            FeatureShare(name, (float(m / n), float((m + open_.sum()) / n)), float(s))
            for name, m, s in zip(self.feature_names, moved, share, strict=True)
            if m
        ]
        return sorted(out, key=lambda f: (-f.cost, -f.changed[0], f.name))

    def _gap(self, name: str, values: dict[str, Interval | None], enough: np.ndarray) -> Gap:
        def kept(interval: Interval) -> Interval:
            return interval[0][..., enough], interval[1][..., enough]

        assert values["seen"] is not None  # every measure is computed of what was seen, and of the resamples
        assert values["boot"] is not None
        seen, boot = kept(values["seen"]), kept(values["boot"])
        estimates = []
        for of in (gap, ratio):
            now, drawn = of(*seen), of(*boot)
            interval = percentile_interval(*drawn, self.chance.level)
            estimates.append(Estimate(float(now[0]), float(now[1]), interval))
        p = (float("nan"), float("nan"))
        if values.get("perm") is not None:
            permuted = gap(*kept(values["perm"]))  # type: ignore[arg-type]
            p = p_value((estimates[0].low, estimates[0].high), permuted)
        return Gap(name, estimates[0], estimates[1], p)

    def subgroups(self) -> list[Subgroup]:
        """Every group of every partition that has enough refused rows, worst first."""
        found = candidates(self.parts, self.members, self.sizes, self.chance.min_group)
        if not found:
            return []
        k, n = self.columns.V.shape[1], len(self.scores)
        member = np.stack([m for *_, m in found]).astype(np.float64)
        total = self.strata.sums()
        sums = member @ total
        sizes = member @ self.strata.sizes
        squares = float((self.scores**2).sum())
        z = z_scores(sums[:, k], sizes, n, squares)
        adjusted = adjusted_p(z, z_scores(self.perm[..., k] @ member.T, sizes, n, squares))
        inside = self.columns.values(sums[:, :k])
        outside = self.columns.values((total.sum(axis=0) - sums)[:, :k])
        out = []
        for s, (p, g, _) in enumerate(found):
            pairs = [
                (float(side[name][0][s]), float(side[name][1][s]))
                for name in ("burden", "no_recourse")
                for side in (inside, outside)
            ]
            out.append(Subgroup(self.parts[p].groups[g], int(sizes[s]), float(z[s]), float(adjusted[s]), *pairs))
        return sorted(out, key=lambda s: (-s.z, s.name))


def curve_costs(outcomes: Outcomes) -> np.ndarray:
    """Costs at which curves are evaluated: 0, and quantiles of all finite bounds, where the steps are."""
    finite = np.concatenate([side[np.isfinite(side)] for side in (outcomes.low, outcomes.high)])
    if not len(finite):
        return np.zeros(1)
    ordered = np.sort(finite)
    at = np.linspace(0, len(ordered) - 1, CURVE_POINTS).round().astype(np.int64)
    return np.unique(np.concatenate([[0.0], ordered[at]]))


def _reached(sorted_costs: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    return np.searchsorted(sorted_costs, budgets, side="right") / max(len(sorted_costs), 1)


def _curve_gap(groups: Sequence[GroupReport]) -> Estimate:
    kept = [g.curve for g in groups if g.sufficient]
    if len(kept) < 2:
        return Estimate(float("nan"), float("nan"))
    low, high = gap(np.stack([c[0] for c in kept], axis=1), np.stack([c[1] for c in kept], axis=1))
    return Estimate(float(low.max()), float(high.max()))


def _members(part: Partition, finest: Partition) -> np.ndarray:
    out = np.zeros((len(part.groups), len(finest.groups)), bool)
    out[part.codes, finest.codes] = True
    return out


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Difference in which two infinite values are equal."""
    a, b = np.broadcast_arrays(a, b)
    same = np.isinf(a) & (a == b)
    return np.subtract(a, b, out=np.zeros(a.shape), where=~same)
