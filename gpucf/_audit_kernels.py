"""Resamples and permutations, compiled: each draw has its own stream of random numbers, so that threads change nothing.

The stream is SplitMix64 (Steele, Lea and Flood 2014) from a seed of its own.
"""

from __future__ import annotations

import numpy as np

from gpucf._jit import inline, njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inline
def _mixed(state):
    z = (state ^ (state >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@inline
def _below(state, n):
    """A whole number below `n`; its chances differ from 1 / n by less than n / 2**53 of it."""
    return int((_mixed(state) >> _S11) * (1.0 / 9007199254740992.0) * n)


@njit
def resample(V, cells, seeds, rows, values, starts, q, sums, quantiles):
    """Bootstrap: `n` draws with replacement for each seed.

    Parameters
    ----------
    V : float64 (n, k); cells : int64 (n,); seeds : uint64 (n_draws,)
    rows, values : int64 and float64, rows of all groups one after the other, ascending by value within a group
    starts : int64 (n_groups + 1,)
    q : float
    sums : float64 (n_draws, n_cells, k), zeros
    quantiles : float64 (n_draws, n_groups), NaN
    """
    n, k = V.shape
    counts = np.empty(n, np.int32)
    for d in range(len(seeds)):
        counts[:] = 0
        state = seeds[d]
        for _ in range(n):
            state += _GOLDEN
            counts[_below(state, n)] += 1
        for i in range(n):
            if counts[i]:
                c = cells[i]
                for j in range(k):
                    sums[d, c, j] += counts[i] * V[i, j]
        for g in range(len(starts) - 1):
            m = 0
            for at in range(starts[g], starts[g + 1]):
                m += counts[rows[at]]
            if m == 0:
                continue
            wanted = max(int(np.ceil(q * m - 1e-9)), 1)  # as `quantile_rank`
            passed = 0
            for at in range(starts[g], starts[g + 1]):
                passed += counts[rows[at]]
                if passed >= wanted:
                    quantiles[d, g] = values[at]
                    break


@njit
def deal(V, cells, seeds, sums):
    """Permutations: for each seed, rows keep their values and cells are dealt out anew (Fisher and Yates' shuffle)."""
    n, k = V.shape
    dealt = np.empty(n, np.int32)
    for d in range(len(seeds)):
        for i in range(n):
            dealt[i] = cells[i]
        state = seeds[d]
        for i in range(n - 1, 0, -1):
            state += _GOLDEN
            at = _below(state, i + 1)
            dealt[i], dealt[at] = dealt[at], dealt[i]
        for i in range(n):
            c = dealt[i]
            for j in range(k):
                sums[d, c, j] += V[i, j]
