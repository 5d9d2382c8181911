"""From raw scores to classes and probabilities, exactly as each library does it.

Each rule is a copy of the library's arithmetic in its own dtype, tested against the installed library at and around
every place where its result changes. NumPy's float32 `exp` differs from the C library's by up to 2 ulp, so that the
rules are compiled (numba calls the C library's `expf` and `exp`, as the libraries do).

A rule takes one row of raw scores. Class rules return a class index; probability rules the probability of one class.
"""

from __future__ import annotations

import math

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._fast_exp import fast_exp
from gpucf._jit import inline, njit

# name -> code; compiled code switches on the code
DECISIONS = {
    "none": 0,
    "argmax": 1,  # first largest raw score
    "above_0": 2,  # one output: class 1 when raw > 0
    "at_least_0": 3,  # one output: class 1 when raw >= 0
    "xgb_logistic": 4,  # float32 probability > 0.5
    "lgb_logistic": 5,  # float64 probability > 0.5, slope link_a
    "xgb_softmax": 6,  # first largest float32 softmax probability
    "lgb_softmax": 7,
    "lgb_ova": 8,
    "above": 9,  # one output: class 1 when raw > link_a (CatBoost with its own probability threshold)
}
PROBABILITIES = {
    "none": 0,
    "raw": 1,  # the raw scores are the probabilities (forests)
    "expit": 2,  # scipy.special.expit of one float64 output
    "softmax": 3,  # scikit-learn's softmax of a table laid out by column (HistGradientBoosting): summed in order
    "xgb_logistic": 4,
    "lgb_logistic": 5,
    "xgb_softmax": 6,
    "lgb_softmax": 7,
    "lgb_ova": 8,
    "cat_logistic": 9,
    "cat_softmax": 10,
    "expit_twice": 11,  # expit of twice the one output (scikit-learn's exponential loss)
    "softmax_pairwise": 12,  # scikit-learn's softmax of a table laid out by row (GradientBoosting): pairwise sum
    "cat_ova": 13,  # a sigmoid per output
}


@inline
def _first_largest(values, n):
    best = 0
    for k in range(1, n):
        if values[k] > values[best]:
            best = k
    return best


@inline
def xgb_sigmoid(x):
    """XGBoost's Sigmoid (src/common/math.h), in float32."""
    one = np.float32(1.0)
    denominator = np.float32(np.float32(math.exp(np.float32(min(-np.float32(x), np.float32(88.7))))) + one)
    return one / np.float32(denominator + np.float32(1e-16))


@inline
def lgb_sigmoid(x, slope):
    return 1.0 / (1.0 + math.exp(-slope * x))


@inline
def expit(x):
    return 1.0 / (1.0 + math.exp(-x))


@inline
def xgb_softmax(raw, k):
    """XGBoost's Softmax (src/common/math.h): float32 exponentials, a float64 sum rounded to float32."""
    largest = np.float32(raw[0])
    for c in range(1, len(raw)):
        largest = max(largest, np.float32(raw[c]))
    total = 0.0
    own = np.float32(0.0)
    for c in range(len(raw)):
        e = np.float32(math.exp(np.float32(np.float32(raw[c]) - largest)))
        total += np.float64(e)
        if c == k:
            own = e
    return own / np.float32(total)


@inline
def softmax(raw, k):
    """Softmax in float64, summed in order (LightGBM's Common::Softmax)."""
    largest = raw[0]
    for c in range(1, len(raw)):
        largest = max(largest, raw[c])
    total = 0.0
    own = 0.0
    for c in range(len(raw)):
        e = math.exp(raw[c] - largest)
        total += e
        if c == k:
            own = e
    return own / total


@inline
def softmax_pairwise(raw, k):
    """Softmax in float64, summed as NumPy sums a row of up to 128 values: from 8 values on in eight lanes."""
    n = len(raw)
    largest = raw[0]
    for c in range(1, n):
        largest = max(largest, raw[c])
    if n < 8:
        total = 0.0
        for c in range(n):
            total += math.exp(raw[c] - largest)
    else:
        whole = n - n % 8
        pair = 0.0
        quad = 0.0
        total = 0.0
        for lane in range(8):
            own_lane = math.exp(raw[lane] - largest)
            for c in range(lane + 8, whole, 8):
                own_lane += math.exp(raw[c] - largest)
            # ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
            pair = pair + own_lane if lane % 2 == 1 else own_lane
            if lane % 4 == 1:
                quad = pair
            elif lane % 4 == 3:
                quad = quad + pair
            if lane == 3:
                total = quad
            elif lane == 7:
                total = total + quad
        for c in range(whole, n):
            total += math.exp(raw[c] - largest)
    return math.exp(raw[k] - largest) / total


@inline
def cat_softmax(raw, k):
    """CatBoost's softmax: its own exponential, in groups of four, summed in order."""
    n = len(raw)
    largest = raw[0]
    for c in range(1, n):
        largest = max(largest, raw[c])
    grouped = n - n % 4
    total = 0.0
    own = 0.0
    for c in range(n):
        e = fast_exp(raw[c] - largest, c < grouped)
        total += e
        if c == k:
            own = e
    return own / total


@inline
def probability_of(code, raw, k, link_a):
    """Probability of class k as the library computes it, widened to float64.

    Libraries with one output give the probability of class 1 and make that of class 0 from it.
    """
    if code == 1:
        return np.float64(raw[k])
    if code == 2 or code == 9:
        p = expit(np.float64(raw[0]))
        return p if k == 1 else 1.0 - p
    if code == 4:
        q = xgb_sigmoid(raw[0])
        return np.float64(q) if k == 1 else np.float64(np.float32(1.0) - q)
    if code == 5:
        p = lgb_sigmoid(np.float64(raw[0]), link_a)
        return p if k == 1 else 1.0 - p
    if code == 6:
        return np.float64(xgb_softmax(raw, k))
    if code == 8:
        return lgb_sigmoid(np.float64(raw[k]), link_a)
    if code == 10:
        return np.float64(cat_softmax(raw, k))
    if code == 11:
        p = expit(2.0 * np.float64(raw[0]))
        return p if k == 1 else 1.0 - p
    if code == 12:
        return np.float64(softmax_pairwise(raw, k))
    if code == 13:
        return expit(np.float64(raw[k]))
    return np.float64(softmax(raw, k))


@inline
def class_of(code, raw, link_a):
    """Index of the class that the library's `predict` answers for one row of raw scores."""
    if code == 2:
        return 1 if raw[0] > 0 else 0
    if code == 3:
        return 1 if raw[0] >= 0 else 0
    if code == 4:
        return 1 if xgb_sigmoid(raw[0]) > np.float32(0.5) else 0
    if code == 5:
        return 1 if lgb_sigmoid(np.float64(raw[0]), link_a) > 0.5 else 0
    if code == 6 or code == 7 or code == 8:
        best = 0
        best_p = probability_of(code, raw, 0, link_a)
        for k in range(1, len(raw)):
            p = probability_of(code, raw, k, link_a)
            if p > best_p:
                best, best_p = k, p
        return best
    if code == 9:
        return 1 if raw[0] > link_a else 0
    return _first_largest(raw, len(raw))


@njit
def _classes(code, raw, link_a, out):
    for i in range(len(raw)):
        out[i] = class_of(code, raw[i], link_a)


@njit
def _probabilities(code, raw, link_a, out):
    for i in range(len(raw)):
        for k in range(out.shape[1]):
            out[i, k] = probability_of(code, raw[i], k, link_a)


def classes_from_raw(ensemble: Ensemble, raw: np.ndarray) -> np.ndarray:
    """Class index (into ``ensemble.classes``) of each row of raw scores, int64."""
    out = np.empty(len(raw), np.int64)
    _classes(DECISIONS[ensemble.decision], np.ascontiguousarray(raw), ensemble.link_a, out)
    return out


def probabilities_from_raw(ensemble: Ensemble, raw: np.ndarray) -> np.ndarray:
    """Class probabilities of each row of raw scores: the library's numbers, widened to float64."""
    if ensemble.probability in ("softmax", "softmax_pairwise"):
        return numpy_softmax(raw, by_column=ensemble.probability == "softmax")
    out = np.empty((len(raw), ensemble.n_classes), np.float64)
    _probabilities(PROBABILITIES[ensemble.probability], np.ascontiguousarray(raw), ensemble.link_a, out)
    return out


def numpy_softmax(raw: np.ndarray, by_column: bool) -> np.ndarray:
    """scikit-learn's softmax with NumPy's own `exp` and `sum`, as scikit-learn calls them.

    On CPUs with AVX-512 NumPy's `exp` can differ from the C library's (which the compiled rules use) in the last bit;
    where NumPy has no such code the two are equal. NumPy adds a table that is laid out by column class by class, if it
    has two rows or more.
    """
    rows = np.concatenate([raw, raw]) if by_column and len(raw) == 1 else raw
    shifted = np.array(rows, dtype=np.float64, order="F" if by_column else "C")
    shifted -= shifted.max(axis=1).reshape(-1, 1)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1).reshape(-1, 1)
    return np.ascontiguousarray(shifted[: len(raw)])


@njit
def _logarithms_f32(values, out):
    for i in range(len(values)):
        out[i] = math.log(values[i])


def logarithms_f32(values: np.ndarray) -> np.ndarray:
    """The C library's `logf` of each value, which NumPy's float32 logarithm does not always equal."""
    out = np.empty(len(values), np.float32)
    _logarithms_f32(np.ascontiguousarray(values, dtype=np.float32), out)
    return out
