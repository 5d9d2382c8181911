"""Labels: what the map tells apart, as rules on sums and on bounds of sums.

Bounds are sound because sequential floating-point addition is monotone in every term: the library's own sum over each
tree's largest (smallest) reachable leaf bounds the library's score anywhere in a box (design, rule 4). Where a softmax
decides, scores a few ulp apart can give equal probabilities: compiled code then answers `ASK`, and the label comes
from the library's own arithmetic (`labels_from_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._jit import inline
from gpucf._links import classes_from_raw, probabilities_from_raw
from gpucf._outer import is_calibrated, refuse_falls
from gpucf._predict import raw_from_sums

THRESHOLD, CLASS, PROBABILITY = 0, 1, 2
UNDECIDED, ASK = -1, -2
_POSTS = {"none": 0, "divide": 1, "affine": 2}
_SOFTMAXES = ("xgb_softmax", "lgb_softmax")
_SIGMOIDS = ("lgb_ova", "cat_ova")


class LabelRule(NamedTuple):
    """A rule from sums to a label.

    ``mode`` THRESHOLD: label 1 when ``sums[output] >= bound``, else 0. CLASS: the library's class index.
    PROBABILITY: label 1 when the library's softmax probability of class `output`, widened to float64, is >= ``bound``.

    The rest says how compiled code may compare raw scores: ``slack`` is the relative lead from which on a raw score
    surely gives the larger probability (0: raw scores decide themselves), ``ceiling`` the raw score above which
    probabilities may saturate.
    """

    mode: int
    output: int
    bound: float
    n_labels: int
    slack: float
    ceiling: float
    post: int
    post_a: float
    post_b: float
    is_float32: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """Rules with equal keys give equal labels everywhere."""
        return (self.mode, self.output, float(self.bound))


def _rule(ensemble: Ensemble, mode: int, output: int, bound: float, n_labels: int) -> LabelRule:
    is_float32 = bool(ensemble.score_dtype == np.float32)
    rounded = mode == PROBABILITY or ensemble.decision in _SOFTMAXES + _SIGMOIDS
    slack = (1e-5 if is_float32 else 1e-11) if rounded else 0.0
    ceiling = 15.0 / abs(ensemble.link_a) if ensemble.decision in _SIGMOIDS else np.inf
    return LabelRule(
        mode, output, float(bound), n_labels, slack, float(ceiling), _POSTS[ensemble.post], float(ensemble.post_a),
        float(ensemble.post_b), is_float32,
    )  # fmt: skip


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
def post_sums(rule, sums, raw):
    for c in range(len(sums)):
        if rule.is_float32:
            s = np.float32(sums[c])
            if rule.post == 1:
                s = np.float32(s / np.float32(rule.post_a))
            elif rule.post == 2:
                s = np.float32(np.float32(s * np.float32(rule.post_a)) + np.float32(rule.post_b))
            raw[c] = s
        else:
            d = np.float64(sums[c])
            if rule.post == 1:
                d = d / rule.post_a
            elif rule.post == 2:
                d = d * rule.post_a + rule.post_b
            raw[c] = d


@inline
def label_of_sums(rule, sums, raw):
    """Label of exact sums, or ASK; `raw` is scratch of the same shape, float64."""
    if rule.mode == THRESHOLD:
        return 1 if sums[rule.output] >= rule.bound else 0
    if rule.slack > 0.0:
        label = label_of_bounds(rule, sums, sums, raw, raw)
        return label if label >= 0 else ASK
    post_sums(rule, sums, raw)
    best = 0
    for k in range(1, len(raw)):
        if raw[k] > raw[best]:
            best = k
    return best


@inline
def label_of_bounds(rule, low, high, raw_low, raw_high):
    """Label shared by every vector of sums between `low` and `high`, or UNDECIDED where that is not certain."""
    if rule.mode == THRESHOLD:
        if low[rule.output] >= rule.bound:
            return 1
        return 0 if high[rule.output] < rule.bound else UNDECIDED
    post_sums(rule, low, raw_low)
    post_sums(rule, high, raw_high)
    if rule.mode == CLASS:
        return _class_of_bounds(rule, raw_low, raw_high)
    k = rule.output
    if softmax_of(raw_low[k], raw_high, k) >= rule.bound + rule.slack:
        return 1
    return 0 if softmax_of(raw_high[k], raw_low, k) < rule.bound - rule.slack else UNDECIDED


@inline
def softmax_of(own, others, k):
    """Probability of class k with raw score `own`, against the raw scores of the others; rounded only roughly."""
    total = 1.0
    for c in range(len(others)):
        if c != k:
            total += math.exp(min(others[c] - own, 700.0))
    return 1.0 / total


@inline
def surely_beats(rule, j, low_j, k, high_k):
    """Whether class j is preferred to class k wherever raw_j >= low_j and raw_k <= high_k; ties go to the first."""
    if rule.slack > 0.0:
        return low_j - high_k > rule.slack * (1.0 + abs(low_j) + abs(high_k)) and high_k < rule.ceiling
    return low_j >= high_k if j < k else low_j > high_k


@inline
def _class_of_bounds(rule, raw_low, raw_high):
    found = UNDECIDED
    for k in range(len(raw_low)):
        possible = True
        for j in range(len(raw_low)):
            if j != k and surely_beats(rule, j, raw_low[j], k, raw_high[k]):
                possible = False
                break
        if possible:
            if found >= 0:
                return UNDECIDED
            found = k
    return found


def labels_from_sums(ensemble: Ensemble, rule: LabelRule, sums: np.ndarray) -> np.ndarray:
    """Label of each row of sums, int64, by the library's own arithmetic."""
    if rule.mode == THRESHOLD:
        return (sums[:, rule.output] >= rule.bound).astype(np.int64)
    raw = raw_from_sums(ensemble, sums)
    if rule.mode == CLASS:
        return classes_from_raw(ensemble, raw)
    return (probabilities_from_raw(ensemble, raw)[:, rule.output] >= rule.bound).astype(np.int64)
