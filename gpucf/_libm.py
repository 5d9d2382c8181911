"""Exponentials and logarithms of the C library: NumPy's own float32 `exp` differs from it by up to 2 ulp."""

from __future__ import annotations

import math

import numpy as np

from gpucf._jit import njit


@njit
def _exp(values, out):
    for i in range(len(values)):
        out[i] = math.exp(values[i])


@njit
def _log(values, out):
    for i in range(len(values)):
        out[i] = math.log(values[i])


def libm_exp(values: np.ndarray) -> np.ndarray:
    """The C library's `expf` or `exp` of each value, by dtype."""
    out = np.empty(values.shape, values.dtype)
    _exp(np.ascontiguousarray(values).ravel(), out.reshape(-1))
    return out


def logarithms_f32(values: np.ndarray) -> np.ndarray:
    """The C library's `logf` of each value, which NumPy's float32 logarithm does not always equal."""
    out = np.empty(len(values), np.float32)
    _log(np.ascontiguousarray(values, dtype=np.float32), out)
    return out
