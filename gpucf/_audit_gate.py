"""Thresholds put to an audit: held, violated, or not to be decided while rows are open or groups too small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._audit_result import Audit, Estimate, Gap, PartitionReport
from gpucf._audit_words import measure_title, value_text
from gpucf._errors import OptionError

HELD, VIOLATED, UNDECIDED = "held", "violated", "undecided"
EXIT_CODES = {HELD: 0, VIOLATED: 1, UNDECIDED: 2}

# Which limits each kind of measure knows.
_OF_GROUPS = ("max_gap", "max_ratio", "max", "min")
_LIMITS = {
    **dict.fromkeys(("refused", "no_recourse", "burden", "median", "changes", "within", "options"), _OF_GROUPS),
    "curve": ("max_gap",),
    "cost_test": ("min_p",),
    "subgroups": ("min_p",),
    "flips": ("max",),
    "small_unlocked": ("max",),
    "unresolved": ("max",),
}
_KEYS = ("measure", "by", "budget", "alpha", "name", "max_gap", "max_ratio", "max", "min", "min_p")


@dataclass(frozen=True)
class Verdict:
    """What became of one threshold, for one partition, group or attribute.

    Attributes
    ----------
    name : str
    state : {"held", "violated", "undecided"}
    text : str
        The number, the limit, and why.
    """

    name: str
    state: str
    text: str


def overall(verdicts: Sequence[Verdict]) -> str:
    """"violated" where any is, else "undecided" where any is, else "held"."""  # fmt: skip
    states = {v.state for v in verdicts}
    return VIOLATED if VIOLATED in states else UNDECIDED if UNDECIDED in states else HELD


def check(audit: Audit, thresholds: Any) -> list[Verdict]:
    """See `Audit.check`."""
    if isinstance(thresholds, Mapping) or not isinstance(thresholds, Sequence) or isinstance(thresholds, str):
        raise OptionError(
            f"thresholds is {thresholds!r}; give a list of entries such as {{measure: ..., max_gap: ...}}."
        )
    out: list[Verdict] = []
    for number, rule in enumerate(thresholds, 1):
        out += _Rule(audit, rule, f"threshold {number}").verdicts()
    return out


def _against(value: Estimate, limit: float, upper: bool) -> str:
    """A number that may be an interval against a limit."""
    if np.isnan(value.low) or np.isnan(value.high):
        return UNDECIDED
    low, high = (value.low, value.high) if upper else (-value.high, -value.low)
    bound = limit if upper else -limit
    return HELD if high <= bound else VIOLATED if low > bound else UNDECIDED


class _Rule:
    def __init__(self, audit: Audit, rule: Any, where: str) -> None:
        if not isinstance(rule, Mapping):
            raise OptionError(f"{where} is {rule!r}; give an entry such as {{measure: burden, max_gap: 0.05}}.")
        self.audit, self.rule, self.where = audit, rule, where
        for key in rule:
            if key not in _KEYS:
                raise OptionError(f"{where} has the unknown key {key!r}; known are {', '.join(_KEYS)}.")
        measure = rule.get("measure")
        if measure not in _LIMITS:
            raise OptionError(f"{where}: the measure is {measure!r}; give one of {', '.join(_LIMITS)}.")
        given = [key for key in ("max_gap", "max_ratio", "max", "min", "min_p") if key in rule]
        if len(given) != 1 or given[0] not in _LIMITS[measure]:
            raise OptionError(f"{where}: the measure {measure!r} takes one of {', '.join(_LIMITS[measure])}.")
        self.measure, self.kind = str(measure), given[0]
        self.limit = self._number(self.kind)
        self.alpha = self._number("alpha") if "alpha" in rule else None
        if self.alpha is not None and self.kind not in ("max_gap", "max_ratio"):
            raise OptionError(f"{where}: alpha goes with max_gap or max_ratio, not with {self.kind}.")
        if ("budget" in rule) != (measure == "within"):
            raise OptionError(f"{where}: the measure 'within' has a budget, and no other has one.")
        self.key = self._within() if measure == "within" else self.measure
        if measure == "options" and int(audit.settings["query"].get("options", 1)) < 2:
            raise OptionError(f"{where}: the measure 'options' needs an audit with query: {{options: 2}} or more.")

    def _number(self, key: str) -> float:
        value = self.rule[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise OptionError(f"{self.where}: {key} is {value!r}; give a number.")
        return float(value)

    def _within(self) -> str:
        key = f"within:{self._number('budget'):g}"
        known = [f"within:{b:g}" for b in self.audit.settings["budgets"]]
        if key not in known:
            raise OptionError(f"{self.where}: the budget {self.rule['budget']!r} is not among the audit's budgets.")
        return key

    def verdicts(self) -> list[Verdict]:
        if self.measure == "unresolved":
            n = float(self.audit.counts["feasible"] + self.audit.counts["unknown"])
            return [self._verdict("rows left open by a limit", Estimate(n, n))]
        if self.measure == "subgroups":
            found = [s for s in self.audit.subgroups if not np.isnan(s.p_adjusted)]
            p = min((s.p_adjusted for s in found), default=np.nan)
            return [self._verdict("subgroup search, least adjusted p", Estimate(p, p))]
        if self.measure in ("flips", "small_unlocked"):
            return self._sensitivity()
        check_one: Callable[[PartitionReport], list[Verdict]] = {
            "curve": self._curve, "cost_test": self._cost_test,
        }.get(self.measure, self._groups if self.kind in ("max", "min") else self._gap)  # fmt: skip
        return [verdict for part in self._partitions() for verdict in check_one(part)]

    def _partitions(self) -> list[PartitionReport]:
        by = self.rule.get("by")
        if by is None:
            return self.audit.partitions
        return [self.audit.partition(*([by] if isinstance(by, str) else by))]

    def _sensitivity(self) -> list[Verdict]:
        by, out = self.rule.get("by"), []
        names = [s.attribute for s in self.audit.sensitivity]
        if by is not None and by not in names:
            raise OptionError(f"{self.where}: the audit did not change {by!r} alone; it did so with {names}.")
        for s in self.audit.sensitivity:
            if by in (None, s.attribute):
                n = float(s.refused_to_accepted + s.accepted_to_refused)
                low, high = (n, n) if self.measure == "flips" else tuple(map(float, s.small_unlocked))
                out.append(self._verdict(f"{self.measure}, {s.attribute}", Estimate(low, high)))
        return out

    def _curve(self, part: PartitionReport) -> list[Verdict]:
        return [self._verdict(f"curve gap, by {part.name}", part.curve_gap)]

    def _cost_test(self, part: PartitionReport) -> list[Verdict]:
        p = part.cost_test[1]
        return [self._verdict(f"cost test, by {part.name}, p", Estimate(p, p))]

    def _groups(self, part: PartitionReport) -> list[Verdict]:
        held = [g for g in part.groups if self.key in g.measures]
        if not held:
            return [Verdict(f"{self.key}, by {part.name}", UNDECIDED, "no group has enough rows.")]
        return [self._verdict(f"{self.key}, {g.name}", g.measures[self.key]) for g in held]

    def _gap(self, part: PartitionReport) -> list[Verdict]:
        found = part.gaps.get(self.key)
        name = f"{self.key}, {self.kind.removeprefix('max_')} by {part.name}"
        if found is None:
            return [Verdict(name, UNDECIDED, "fewer than two groups have enough rows to be compared.")]
        return [self._with_test(self._verdict(name, found.gap if self.kind == "max_gap" else found.ratio), found)]

    def _with_test(self, verdict: Verdict, found: Gap) -> Verdict:
        """With `alpha` a gap violates only if chance does not explain it."""
        if self.alpha is None or verdict.state == HELD:
            return verdict
        low, high = found.p
        text = f"{verdict.text} Permutation test: p = {value_text('p', low, high)}, alpha = {self.alpha:g}."
        if low > self.alpha:  # whatever the gap is: chance explains it
            return Verdict(verdict.name, HELD, text)
        state = verdict.state if high <= self.alpha else UNDECIDED
        return Verdict(verdict.name, state, text if low == low else f"{verdict.text} There is no test of it.")

    def _verdict(self, name: str, value: Estimate) -> Verdict:
        upper = self.kind.startswith("max")
        state = _against(value, self.limit, upper)
        of = {"max_gap": "gap", "max_ratio": "ratio"}.get(self.kind, "value")
        shown = value_text("ratio" if of == "ratio" else self.key, value.low, value.high)
        text = f"{measure_title(self.key)}: {of} {shown}, {'at most' if upper else 'at least'} {self.limit:g} allowed."
        if state == UNDECIDED and not np.isnan(value.low):
            text += " Rows left open by a limit decide it; raise the limit."
        return Verdict(str(self.rule.get("name", "")) + ": " * ("name" in self.rule) + name, state, text)
