"""The exponential that CatBoost's softmax uses, which is not the C library's.

CatBoost calls a table-driven exponential of its own: `x` is written as ``n ln2 / 2048 - t``, 2 to the power
``n / 2048`` comes from a table, and a polynomial of degree three stands for ``exp(-t)``. Its results differ from the C
library's in the last bit or two, so that probabilities can only be matched by doing the same operations in the same
order. Whole groups of four go through AVX2 instructions, which clamp very small arguments; the up to three values left
over go through scalar code, which answers 0 for them.
"""

from __future__ import annotations

import math

import numpy as np

from gpucf._jit import inline

_STEPS = 2048  # table entries per power of two
_TABLE = np.array([2.0 ** (i * (1.0 / _STEPS)) for i in range(_STEPS)]).view(np.int64) & np.int64((1 << 52) - 1)
_SCALE = _STEPS / math.log(2.0)
_UNSCALE = 1.0 / _SCALE
_LEAST = -708.39641853226408  # below, the result would be subnormal
_ROUND = 6755399441055744.0  # 3 * 2**51: adding it leaves the nearest integer in the low bits
_CUBIC = 0.16666666685227835064  # about 1/6
_RATIO = 3.0000000027955394  # about (1/2) / (1/6)


@inline
def fast_exp(x, in_group_of_four):
    """CatBoost's exponential of ``x <= 0``; shifted scores of a softmax are never positive."""
    if x <= _LEAST:
        if not in_group_of_four:
            return 0.0
        x = _LEAST
    shifted = x * _SCALE + _ROUND
    n = np.int64(shifted - _ROUND)
    t = (shifted - _ROUND) * _UNSCALE - x
    # Floor division and remainder of n by the table size, as an arithmetic shift and a mask.
    exponent = (n >> 11) + np.int64(1023)
    bits = (exponent << 52) | _TABLE[n & np.int64(_STEPS - 1)]
    power = np.int64(bits).view(np.float64)
    return ((_RATIO - t) * (t * t) * _CUBIC - t + 1.0) * power
