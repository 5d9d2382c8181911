"""From raw scores to classes and probabilities, exactly as each library does it.

Each rule is a copy of the library's arithmetic in its own dtype and order, tested against the installed library at and
around every place where its result changes. Single additions, products and quotients are the same everywhere (IEEE);
exponentials are not: NumPy's float32 `exp` differs from the C library's by up to 2 ulp, so that those are compiled
(numba calls the C library's `expf` and `exp`, as the libraries do).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._fast_exp import fast_exp
from gpucf._jit import njit
from gpucf._libm import libm_exp
from gpucf._outer import outer_classes, outer_probability

_ONE = np.float32(1.0)


@njit
def _fast_exp(values, out):
    n = values.shape[1]
    grouped = n - n % 4
    for i in range(len(values)):
        for c in range(n):
            out[i, c] = fast_exp(values[i, c], c < grouped)


def _ordered_sum(columns: np.ndarray) -> np.ndarray:
    """Sum over classes, one float64 addition after another."""
    total = np.zeros(len(columns))
    for c in range(columns.shape[1]):
        total += columns[:, c]
    return total


def _xgb_sigmoid(x: np.ndarray) -> np.ndarray:
    """XGBoost's Sigmoid (src/common/math.h), in float32."""
    return _ONE / ((libm_exp(np.minimum(-x, np.float32(88.7))) + _ONE) + np.float32(1e-16))


def _xgb_logistic(raw: np.ndarray, slope: float) -> np.ndarray:
    q = _xgb_sigmoid(raw[:, 0])
    return np.column_stack([_ONE - q, q])


def _xgb_softmax(raw: np.ndarray, slope: float) -> np.ndarray:
    """XGBoost's Softmax (src/common/math.h): float32 exponentials, a float64 sum rounded to float32."""
    e = libm_exp(raw - raw.max(axis=1, keepdims=True))
    return e / _ordered_sum(e).astype(np.float32)[:, None]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + libm_exp(-x))


def _two_classes(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - p, p])


def _softmax(raw: np.ndarray, slope: float) -> np.ndarray:
    """Softmax in float64, summed in order (LightGBM's Common::Softmax)."""
    e = libm_exp(raw - raw.max(axis=1, keepdims=True))
    return e / _ordered_sum(e)[:, None]


def _cat_softmax(raw: np.ndarray, slope: float) -> np.ndarray:
    """CatBoost's softmax: its own exponential, in groups of four, summed in order."""
    e = np.empty(raw.shape)
    _fast_exp(np.ascontiguousarray(raw - raw.max(axis=1, keepdims=True)), e)
    return e / _ordered_sum(e)[:, None]


def _numpy_softmax(raw: np.ndarray, by_column: bool) -> np.ndarray:
    """scikit-learn's softmax with NumPy's own `exp` and `sum`, as scikit-learn calls them.

    NumPy adds a table that is laid out by column class by class, if it has two rows or more; one that is laid out by
    row it adds pairwise.
    """
    rows = np.concatenate([raw, raw]) if by_column and len(raw) == 1 else raw
    shifted = np.array(rows, dtype=np.float64, order="F" if by_column else "C")
    shifted -= shifted.max(axis=1).reshape(-1, 1)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1).reshape(-1, 1)
    return np.ascontiguousarray(shifted[: len(raw)])


# Rules take raw scores (n_rows, n_outputs) in the score dtype and Ensemble.link_a, and give probabilities
# (n_rows, n_classes) in the library's dtype.
_PROBABILITIES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "raw": lambda raw, slope: raw,  # forests: the raw scores are the probabilities
    "expit": lambda raw, slope: _two_classes(_sigmoid(raw[:, 0])),  # scipy.special.expit
    "expit_twice": lambda raw, slope: _two_classes(_sigmoid(2.0 * raw[:, 0])),  # scikit-learn's exponential loss
    "softmax": lambda raw, slope: _numpy_softmax(raw, by_column=True),  # HistGradientBoosting
    "softmax_pairwise": lambda raw, slope: _numpy_softmax(raw, by_column=False),  # GradientBoosting
    "xgb_logistic": _xgb_logistic,
    "xgb_softmax": _xgb_softmax,
    "lgb_logistic": lambda raw, slope: _two_classes(_sigmoid(slope * raw[:, 0])),
    "lgb_softmax": _softmax,
    "lgb_ova": lambda raw, slope: _sigmoid(slope * raw),
    "cat_logistic": lambda raw, slope: _two_classes(_sigmoid(raw[:, 0])),
    "cat_softmax": _cat_softmax,
    "cat_ova": lambda raw, slope: _sigmoid(raw),
}
# Class rules give class indices (n_rows,).
_DECISIONS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "argmax": lambda raw, slope: raw.argmax(axis=1),  # the first largest
    "above_0": lambda raw, slope: raw[:, 0] > 0,
    "at_least_0": lambda raw, slope: raw[:, 0] >= 0,
    "above": lambda raw, slope: raw[:, 0] > slope,  # CatBoost with a probability threshold of its own
    "xgb_logistic": lambda raw, slope: _xgb_sigmoid(raw[:, 0]) > np.float32(0.5),
    "lgb_logistic": lambda raw, slope: _sigmoid(slope * raw[:, 0]) > 0.5,
    "xgb_softmax": lambda raw, slope: _xgb_softmax(raw, slope).argmax(axis=1),
    "lgb_softmax": lambda raw, slope: _softmax(raw, slope).argmax(axis=1),
    "lgb_ova": lambda raw, slope: _sigmoid(slope * raw).argmax(axis=1),
}


def classes_from_raw(ensemble: Ensemble, raw: np.ndarray) -> np.ndarray:
    """Class index (into ``ensemble.classes``) of each row of raw scores, int64."""
    if ensemble.outer:
        return outer_classes(ensemble.outer, raw, lambda: _inner_probability(ensemble, raw)).astype(np.int64)
    return _DECISIONS[ensemble.decision](raw, ensemble.link_a).astype(np.int64)


def probabilities_from_raw(ensemble: Ensemble, raw: np.ndarray) -> np.ndarray:
    """Class probabilities of each row of raw scores: the library's numbers, widened to float64."""
    if ensemble.outer:
        return outer_probability(ensemble.outer, raw, lambda: _inner_probability(ensemble, raw))
    return _inner_probability(ensemble, raw).astype(np.float64)


def _inner_probability(ensemble: Ensemble, raw: np.ndarray) -> np.ndarray:
    """The tree model's own probabilities, in its dtype."""
    return _PROBABILITIES[ensemble.probability](raw, ensemble.link_a)


def lead_of(raw: np.ndarray, k: int) -> np.ndarray:
    """By how much each row's raw score of class `k` exceeds the largest of the others, float64."""
    scores = raw.astype(np.float64)
    lead: np.ndarray = (scores[:, [k]] - np.delete(scores, k, axis=1)).min(axis=1)
    return lead
