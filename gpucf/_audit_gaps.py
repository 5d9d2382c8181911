"""Gaps and ratios between groups, of values that may be intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpucf._audit_outcomes import Interval


def gap(low: np.ndarray, high: np.ndarray) -> Interval:
    """The largest difference between any two groups, as an interval.

    Parameters
    ----------
    low, high : float64 arrays of shape (..., n_groups)
        Groups whose value has no meaning (NaN) are left out.

    Returns
    -------
    pair of float64 arrays of shape (...)
        NaN where fewer than two groups are left. Two infinite values are equal.
    """
    return _extreme(low, high, _difference, 0.0)


def ratio(low: np.ndarray, high: np.ndarray) -> Interval:
    """The largest ratio between any two groups, at least 1; as `gap`. 0 over 0 is 1, anything else over 0 infinite."""
    return _extreme(low, high, _quotient, 1.0)


def _extreme(
    low: np.ndarray, high: np.ndarray, of: Callable[[np.ndarray, np.ndarray], np.ndarray], least: float
) -> Interval:
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    ok = ~np.isnan(low)
    both = ok[..., :, None] & ok[..., None, :] & ~np.eye(low.shape[-1], dtype=bool)
    enough = ok.sum(axis=-1) > 1
    certain = _most(of(low[..., :, None], high[..., None, :]), both, least)
    possible = _most(of(high[..., :, None], low[..., None, :]), both, least)
    return np.where(enough, certain, np.nan), np.where(enough, possible, np.nan)


def _most(values: np.ndarray, where: np.ndarray, least: float) -> np.ndarray:
    return np.where(where, values, least).max(axis=(-2, -1), initial=least)


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    return np.subtract(a, b, out=np.zeros(a.shape), where=a != b)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    out = np.where(a == b, 1.0, np.inf)
    return np.divide(a, b, out=out, where=(b > 0) & (a != b))
