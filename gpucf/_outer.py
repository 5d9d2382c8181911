"""What may stand around a two-class model: calibrated probabilities and decisions that were moved.

Each step is a copy of scikit-learn's arithmetic, in its dtype and order. All of them depend on one score and do not
fall when it rises, so that a target is still one least sum (`gpucf._labels.least_sum`); `refuse_falls` guards the one
exception, rounding where two pieces of an isotonic curve meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpucf._errors import OptionError
from gpucf._libm import libm_exp


@dataclass(frozen=True)
class Calibration:
    """Probabilities of CalibratedClassifierCV with one calibrator.

    Attributes
    ----------
    on_raw : bool
        Whether it reads the raw score, else the probability of the second class.
    is_float32 : bool
        The dtype of its arithmetic: float32, else float64.
    slope, intercept : float
        Sigmoid: ``1 / (1 + exp(slope * x + intercept))``.
    x, y : tuples of float
        Isotonic: linear between these points, constant outside; empty for a sigmoid.
    """

    on_raw: bool
    is_float32: bool
    slope: float = 0.0
    intercept: float = 0.0
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()


@dataclass(frozen=True)
class Cutoff:
    """Decision of FixedThresholdClassifier and TunedThresholdClassifierCV: class `position` from a score on.

    Attributes
    ----------
    on_raw : bool
        Whether the score is the raw score (negated for the first class), else the probability of class `position`.
    position : int
        Index of the class that is chosen when the score is at least `at_least`.
    at_least : float
        In float64, rounded before to the score's dtype where the library compares in that.
    """

    on_raw: bool
    position: int
    at_least: float


def calibrated(step: Calibration, score: np.ndarray) -> np.ndarray:
    """Calibrated probability of the second class for each score, float64."""
    dtype: Any = np.float32 if step.is_float32 else np.float64
    t = score.astype(dtype)
    if not step.x:
        z = -(t * dtype(step.slope) + dtype(step.intercept))
        p = 1.0 / (libm_exp(-z) + 1.0)  # scipy.special.expit; 1.0 takes the dtype of the array
    else:
        p = _interpolated(np.asarray(step.x, dtype), np.asarray(step.y, dtype), t)
    p = p.astype(np.float64)
    p[(p > 1.0) & (p <= 1.0 + 1e-5)] = 1.0
    return p


def _interpolated(x: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """IsotonicRegression.predict: numpy's interp in float64; in float32 scipy spells the line out."""
    if len(x) == 1:
        return np.full(len(t), y[0])
    t = np.clip(t, x[0], x[-1])
    if x.dtype == np.float64:
        return np.interp(t, x, y)
    high = np.clip(np.searchsorted(x, t), 1, len(x) - 1)
    low = high - 1
    slope = (y[high] - y[low]) / (x[high] - x[low])
    return slope * (t - x[low]) + y[low]


def is_calibrated(outer: tuple[Any, ...]) -> bool:
    """Whether the probabilities are other than the model's own."""
    return any(isinstance(step, Calibration) for step in outer)


def outer_probability(outer: tuple[Any, ...], raw: np.ndarray, inner: Callable[[], np.ndarray]) -> np.ndarray:
    """Probabilities (n_rows, 2), float64, behind all steps; `inner` gives the model's own."""
    steps = [step for step in outer if isinstance(step, Calibration)]
    if not steps:
        return inner().astype(np.float64)
    return _two(calibrated(steps[0], raw[:, 0] if steps[0].on_raw else inner()[:, 1]))


def _two(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - p, p])


def outer_classes(outer: tuple[Any, ...], raw: np.ndarray, inner: Callable[[], np.ndarray]) -> np.ndarray:
    """Class index of each row by the last step."""
    last = outer[-1]
    if isinstance(last, Cutoff) and last.on_raw:
        score = raw[:, 0].astype(np.float64)
        return _cut(last, score if last.position == 1 else -score)
    return _classes_of(last, outer_probability(outer, raw, inner))


def _classes_of(last: Any, p: np.ndarray) -> np.ndarray:
    return _cut(last, p[:, last.position]) if isinstance(last, Cutoff) else p.argmax(axis=1)


def _cut(last: Cutoff, score: np.ndarray) -> np.ndarray:
    hit = score >= last.at_least
    return np.where(hit, last.position, 1 - last.position)


def refuse_falls(outer: tuple[Any, ...], what: str, meets: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
    """Refuse a condition that ceases to hold where an isotonic curve, rounded, falls by its last bit.

    `meets` tells of probabilities (n, 2) whether the condition holds; by default "the second class is chosen".
    """
    steps = [step for step in outer if isinstance(step, Calibration) and step.x]
    last = outer[-1]
    if not steps or (meets is None and isinstance(last, Cutoff) and last.on_raw):
        return
    holds = meets if meets is not None else lambda p: _classes_of(last, p) == 1
    p = _two(_joints(steps[0]))
    met = np.asarray(holds(p), dtype=bool)
    if np.any(met[:-1] & ~met[1:]):
        raise OptionError(
            f"{what} lies within the last bit of a step of the isotonic calibration, where the calibrated probability "
            "is not monotone in the score. Move the probability a little."
        )


@lru_cache(maxsize=8)
def _joints(step: Calibration) -> np.ndarray:
    """Calibrated probabilities at, just below and just above each point, in the order of the score."""
    dtype = np.float32 if step.is_float32 else np.float64
    x = np.asarray(step.x, dtype)
    around = np.unique(np.concatenate([x, np.nextafter(x, dtype(-np.inf)), np.nextafter(x, dtype(np.inf))]))
    return calibrated(step, around)
