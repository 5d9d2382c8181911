"""Labels: what the map tells apart, as rules on sums and on bounds of sums.

Bounds are sound because sequential floating-point addition is monotone in every term: the library's own sum over each
tree's largest (smallest) reachable leaf bounds the library's score anywhere in a box (design, rule 4). Where a softmax
decides, scores a few ulp apart can give equal probabilities: compiled code then answers `ASK`, and the label comes
from the library's own arithmetic (`labels_from_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._jit import helper, inline
from gpucf._links import classes_from_raw, lead_of, probabilities_from_raw
from gpucf._merge import owner_of
from gpucf._outer import is_calibrated, refuse_falls
from gpucf._predict import raw_from_sums

THRESHOLD, CLASS, PROBABILITY, LEAD = 0, 1, 2, 3
UNDECIDED, ASK = -1, -2
MAY, MAY_NOT = 1, 2  # bits: some point between the bounds meets a condition; some point does not
_POSTS = {"none": 0, "divide": 1, "affine": 2}
_SOFTMAXES = ("xgb_softmax", "lgb_softmax")
_SIGMOIDS = ("lgb_ova", "cat_ova")


class LabelRule(NamedTuple):
    """A rule from sums to a label, as arrays with one entry per condition.

    A simple rule has one condition, whose label it gives. ``mode`` THRESHOLD: label 1 when ``sums[output] >= bound``,
    else 0. CLASS: the library's class index. PROBABILITY: label 1 when the library's softmax probability of class
    `output`, widened to float64, is >= ``bound``. LEAD: label 1 when the raw score of class `output`, less that of any
    other class (float64), is >= ``bound``.

    A compound rule gives label 1 where all conditions of some ``alternative`` hold, else 0. A condition holds where
    ``yes[i, label]`` is True of its label. Conditions lie in the order of their alternatives.

    The rest says how compiled code may compare raw scores: those of condition `i` are the outputs
    ``begin[i] .. end[i] - 1`` of the sums; ``slack`` is the relative lead from which on a raw score surely gives the
    larger probability (0: raw scores decide themselves), ``ceiling`` the raw score above which probabilities may
    saturate.
    """

    compound: bool
    n_labels: int
    mode: np.ndarray
    output: np.ndarray
    bound: np.ndarray
    slack: np.ndarray
    ceiling: np.ndarray
    post: np.ndarray
    post_a: np.ndarray
    post_b: np.ndarray
    is_float32: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    alternative: np.ndarray
    yes: np.ndarray

    @property
    def key(self) -> tuple[Any, ...]:
        """Rules with equal keys give equal labels everywhere."""
        return (self.compound, self.n_labels, *(a.tobytes() for a in self[2:]))

    @property
    def is_threshold(self) -> bool:
        return not self.compound and int(self.mode[0]) == THRESHOLD

    def to_lists(self) -> list[Any]:
        """For JSON; see `from_lists`."""
        return [self.compound, self.n_labels, *(a.tolist() for a in self[2:])]

    @classmethod
    def from_lists(cls, lists: Sequence[Any]) -> LabelRule:
        compound, n_labels, *rest = lists
        dtypes = [_DTYPES.get(name, np.int64) for name in cls._fields[2:]]
        arrays = [np.asarray(a, d) for a, d in zip(rest, dtypes, strict=True)]
        return cls(bool(compound), int(n_labels), *arrays)


_DTYPES: dict[str, Any] = dict.fromkeys(("bound", "slack", "ceiling", "post_a", "post_b"), np.float64)
_DTYPES.update(dict.fromkeys(("is_float32", "yes"), np.bool_))


def _rule(ensemble: Ensemble, mode: int, output: int, bound: float, n_labels: int) -> LabelRule:
    is_float32 = bool(ensemble.score_dtype == np.float32)
    rounded = mode == PROBABILITY or ensemble.decision in _SOFTMAXES + _SIGMOIDS
    slack = (1e-5 if is_float32 else 1e-11) if rounded else 0.0
    ceiling = 15.0 / abs(ensemble.link_a) if ensemble.decision in _SIGMOIDS else np.inf
    yes = [[label > 0 for label in range(n_labels)]]
    return LabelRule.from_lists(
        [
            False, n_labels, [mode], [output], [bound], [slack], [ceiling], [_POSTS[ensemble.post]],
            [ensemble.post_a], [ensemble.post_b], [is_float32], [0], [ensemble.n_outputs], [0], yes,
        ]
    )  # fmt: skip


def compound_rule(alternatives: Sequence[Sequence[tuple[LabelRule, Sequence[bool], int]]]) -> LabelRule:
    """Label 1 where all conditions of some alternative hold.

    A condition is a simple rule, for each of its labels whether it meets the condition, and the output of the (merged)
    ensemble at which the outputs of its own ensemble begin.
    """
    columns: dict[str, list[Any]] = {name: [] for name in LabelRule._fields[2:]}
    width = max((len(yes) for conditions in alternatives for _, yes, _ in conditions), default=1)
    for number, conditions in enumerate(alternatives):
        for rule, yes, first in conditions:
            for name in ("mode", "bound", "slack", "ceiling", "post", "post_a", "post_b", "is_float32"):
                columns[name].append(getattr(rule, name)[0])
            for name in ("output", "begin", "end"):
                columns[name].append(int(getattr(rule, name)[0]) + first)
            columns["alternative"].append(number)
            columns["yes"].append([*map(bool, yes), *[False] * (width - len(yes))])
    return LabelRule.from_lists([True, 2, *columns.values()])


def class_rule(ensemble: Ensemble) -> LabelRule:
    """Labels are the library's classes (rule 3 of the design)."""
    output = ensemble.n_outputs - 1
    if output and not ensemble.outer:
        return _rule(ensemble, CLASS, 0, 0.0, ensemble.n_classes)
    if ensemble.outer:
        refuse_falls(ensemble.outer, "the model's decision")

    def is_class_1(sums: np.ndarray) -> np.ndarray:
        return classes_from_raw(ensemble, raw_from_sums(ensemble, sums)) == 1

    return _rule(ensemble, THRESHOLD, output, least_sum(ensemble, output, is_class_1), 2)


def probability_rule(ensemble: Ensemble, k: int, p: float) -> tuple[LabelRule, int]:
    """Rule, and the label in it that means "the library's probability of class k is >= p"."""
    one_score = is_calibrated(ensemble.outer)
    if ensemble.n_outputs > 1 and not one_score and ensemble.probability not in ("raw", *_SIGMOIDS):
        return _rule(ensemble, PROBABILITY, k, p, 2), 1

    def reaches(sums: np.ndarray) -> np.ndarray:
        return probabilities_from_raw(ensemble, raw_from_sums(ensemble, sums))[:, k] >= p

    def misses(sums: np.ndarray) -> np.ndarray:
        return ~reaches(sums)

    output = ensemble.n_outputs - 1
    if one_score:  # both probabilities come from the last output
        refuse_falls(ensemble.outer, f"probability {p!r}", lambda q: q[:, 1] >= p if k == 1 else q[:, 0] < p)
    elif output:
        return _rule(ensemble, THRESHOLD, k, least_sum(ensemble, k, reaches), 2), 1
    if k == 1:
        return _rule(ensemble, THRESHOLD, output, least_sum(ensemble, output, reaches), 2), 1
    return _rule(ensemble, THRESHOLD, output, least_sum(ensemble, output, misses), 2), 0


def sum_rule(ensemble: Ensemble, holds: Callable[[np.ndarray], np.ndarray]) -> LabelRule:
    """Label 1 where a monotone condition on the sums of a single output holds."""
    return _rule(ensemble, THRESHOLD, 0, least_sum(ensemble, 0, holds), 2)


def score_rule(ensemble: Ensemble, output: int, bound: float) -> LabelRule:
    """Label 1 where the raw score of an output, widened to float64, is at least `bound`."""

    def reaches(sums: np.ndarray) -> np.ndarray:
        return raw_from_sums(ensemble, sums)[:, output].astype(np.float64) >= bound

    return _rule(ensemble, THRESHOLD, output, least_sum(ensemble, output, reaches), 2)


def lead_rule(ensemble: Ensemble, k: int, margin: float) -> LabelRule:
    """Label 1 where the raw score of class `k` exceeds that of every other class by at least `margin`."""
    return _rule(ensemble, LEAD, k, margin, 2)


def least_sum(ensemble: Ensemble, output: int, holds: Callable[[np.ndarray], np.ndarray]) -> float:
    """Least sum of `output`, in the score dtype, for which a monotone condition holds; inf if none, -inf if all.

    Bisection over the representable numbers, each tried on the library's own arithmetic.
    """
    dtype = ensemble.score_dtype
    integer = np.int32 if dtype == np.float32 else np.int64

    def check(ordinal: int) -> bool:
        bits = np.asarray([ordinal if ordinal >= 0 else np.iinfo(integer).min - ordinal], integer)
        sums = np.zeros((1, ensemble.n_outputs), dtype)
        sums[0, output] = bits.view(dtype)[0]
        with np.errstate(all="ignore"):
            return bool(holds(sums)[0])

    high = int(np.asarray(np.finfo(dtype).max).view(integer))
    low = -high
    if not check(high):
        return np.inf
    if check(low):
        return -np.inf
    while high - low > 1:
        middle = (high + low) // 2
        if check(middle):
            high = middle
        else:
            low = middle
    return float(np.asarray([high if high >= 0 else np.iinfo(integer).min - high], integer).view(dtype)[0])


@inline
def _post_sums(rule, i, sums, raw):
    for c in range(rule.begin[i], rule.end[i]):
        if rule.is_float32[i]:
            s = np.float32(sums[c])
            if rule.post[i] == 1:
                s = np.float32(s / np.float32(rule.post_a[i]))
            elif rule.post[i] == 2:
                s = np.float32(np.float32(s * np.float32(rule.post_a[i])) + np.float32(rule.post_b[i]))
            raw[c] = s
        else:
            d = np.float64(sums[c])
            if rule.post[i] == 1:
                d = d / rule.post_a[i]
            elif rule.post[i] == 2:
                d = d * rule.post_a[i] + rule.post_b[i]
            raw[c] = d


@inline
def _softmax_of(rule, i, own, others):
    """Probability of class `output` with raw score `own`, against the others' raw scores; rounded only roughly."""
    total = 1.0
    for c in range(rule.begin[i], rule.end[i]):
        if c != rule.output[i]:
            total += math.exp(min(others[c] - own, 700.0))
    return 1.0 / total


@inline
def _surely_beats(rule, i, j, low_j, k, high_k):
    """Whether class j is preferred to class k wherever raw_j >= low_j and raw_k <= high_k; ties go to the first."""
    if rule.slack[i] > 0.0:
        return low_j - high_k > rule.slack[i] * (1.0 + abs(low_j) + abs(high_k)) and high_k < rule.ceiling[i]
    return low_j >= high_k if j < k else low_j > high_k


@inline
def _class_is_possible(rule, i, k, raw_low, raw_high):
    for j in range(rule.begin[i], rule.end[i]):
        if j != k and _surely_beats(rule, i, j, raw_low[j], k, raw_high[k]):
            return False
    return True


@helper
def simple_outlook(rule, i, low, high, raw_low, raw_high):
    """MAY and MAY_NOT of one condition, for all vectors of sums between `low` and `high`."""
    c = rule.output[i]
    may = False
    may_not = False
    if rule.mode[i] == THRESHOLD:
        may = high[c] >= rule.bound[i]
        may_not = low[c] < rule.bound[i]
    else:
        _post_sums(rule, i, low, raw_low)
        _post_sums(rule, i, high, raw_high)
        if rule.mode[i] == CLASS:
            for k in range(rule.begin[i], rule.end[i]):
                if _class_is_possible(rule, i, k, raw_low, raw_high):
                    if rule.yes[i, k - rule.begin[i]]:
                        may = True
                    else:
                        may_not = True
            return np.int64(may) * MAY + np.int64(may_not) * MAY_NOT
        if rule.mode[i] == LEAD:  # a rounded difference is monotone in both of its terms
            may = True
            for k in range(rule.begin[i], rule.end[i]):
                if k != c:
                    may = may and raw_high[c] - raw_low[k] >= rule.bound[i]
                    may_not = may_not or raw_low[c] - raw_high[k] < rule.bound[i]
            return np.int64(may) * MAY + np.int64(may_not) * MAY_NOT
        may = _softmax_of(rule, i, raw_high[c], raw_low) >= rule.bound[i] - rule.slack[i]
        may_not = _softmax_of(rule, i, raw_low[c], raw_high) < rule.bound[i] + rule.slack[i]
    if not rule.yes[i, 1]:
        may, may_not = may_not, may
    return np.int64(may) * MAY + np.int64(may_not) * MAY_NOT


@helper
def _compound_outlook(rule, low, high, raw_low, raw_high):
    """MAY and MAY_NOT of a compound rule: some alternative may hold; no alternative surely holds."""
    may = False
    sure = False
    alternative_may = True
    alternative_sure = True
    for i in range(len(rule.mode)):
        outlook = simple_outlook(rule, i, low, high, raw_low, raw_high)
        alternative_may &= outlook & MAY != 0
        alternative_sure &= outlook & MAY_NOT == 0
        if i + 1 == len(rule.mode) or rule.alternative[i + 1] != rule.alternative[i]:
            may |= alternative_may
            sure |= alternative_sure
            alternative_may = True
            alternative_sure = True
    return np.int64(may) * MAY + np.int64(not sure) * MAY_NOT


@inline
def by_margin(rule):
    """Whether the larger of two sums, or means, decides between two classes, the first where they are equal."""
    return (
        not rule.compound and rule.mode[0] == CLASS and rule.slack[0] == 0.0 and rule.end[0] - rule.begin[0] == 2
        and (rule.post[0] == 0 or (rule.post[0] == 1 and 1.0 <= rule.post_a[0] <= 1e9))
    )  # fmt: skip


@inline
def outlook_of(rule, label, low, high, raw_low, raw_high):
    """MAY: `label` is possible between the bounds; MAY_NOT: some other label is possible."""
    if not rule.compound and rule.mode[0] == CLASS:
        _post_sums(rule, 0, low, raw_low)
        _post_sums(rule, 0, high, raw_high)
        possible = MAY
        other = 0
        for j in range(len(raw_low)):
            if j == label:
                continue
            if _surely_beats(rule, 0, j, raw_low[j], label, raw_high[label]):
                possible = 0
            if not _surely_beats(rule, 0, label, raw_low[label], j, raw_high[j]):
                other = MAY_NOT
        return possible + other
    if rule.compound:
        outlook = _compound_outlook(rule, low, high, raw_low, raw_high)
    else:
        outlook = simple_outlook(rule, 0, low, high, raw_low, raw_high)
    return outlook if label == 1 else (outlook >> 1) | ((outlook & 1) << 1)


@inline
def label_of_bounds(rule, low, high, raw_low, raw_high):
    """Label shared by every vector of sums between `low` and `high`, or UNDECIDED where that is not certain."""
    if not rule.compound and rule.mode[0] == CLASS:
        _post_sums(rule, 0, low, raw_low)
        _post_sums(rule, 0, high, raw_high)
        found = UNDECIDED
        for k in range(len(raw_low)):
            if _class_is_possible(rule, 0, k, raw_low, raw_high):
                if found >= 0:
                    return UNDECIDED
                found = k
        return found
    outlook = outlook_of(rule, 1, low, high, raw_low, raw_high)
    return UNDECIDED if outlook == MAY + MAY_NOT else 2 - outlook


@helper
def label_of_sums(rule, sums, raw):
    """Label of exact sums, or ASK; `raw` is scratch of the same shape, float64."""
    if not rule.compound and rule.mode[0] == CLASS and rule.slack[0] == 0.0:
        _post_sums(rule, 0, sums, raw)
        best = 0
        for k in range(1, len(raw)):
            if raw[k] > raw[best]:
                best = k
        return best
    label = label_of_bounds(rule, sums, sums, raw, raw)
    return label if label >= 0 else ASK


def labels_from_sums(ensemble: Ensemble, rule: LabelRule, sums: np.ndarray) -> np.ndarray:
    """Label of each row of sums, int64, by the library's own arithmetic."""
    if not rule.compound:
        return _labels_of_condition(ensemble, rule, 0, sums)
    meets = np.zeros(len(sums), bool)
    for number in np.unique(rule.alternative):
        all_hold = np.ones(len(sums), bool)
        for i in np.flatnonzero(rule.alternative == number):
            own = sums[:, rule.begin[i] : rule.end[i]]
            all_hold &= rule.yes[i][_labels_of_condition(owner_of(ensemble, int(rule.begin[i])), rule, int(i), own)]
        meets |= all_hold
    return meets.astype(np.int64)


def _labels_of_condition(ensemble: Ensemble, rule: LabelRule, i: int, sums: np.ndarray) -> np.ndarray:
    """Labels of condition `i`; `sums` are those of its own ensemble."""
    sums = sums.astype(ensemble.score_dtype, copy=False)
    output = int(rule.output[i] - rule.begin[i])
    if rule.mode[i] == THRESHOLD:
        return (sums[:, output] >= rule.bound[i]).astype(np.int64)
    raw = raw_from_sums(ensemble, sums)
    if rule.mode[i] == CLASS:
        return classes_from_raw(ensemble, raw)
    if rule.mode[i] == LEAD:
        return (lead_of(raw, output) >= rule.bound[i]).astype(np.int64)
    return (probabilities_from_raw(ensemble, raw)[:, output] >= rule.bound[i]).astype(np.int64)
