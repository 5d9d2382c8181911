"""Time of every single row inside the compiled search, without what Python adds to a call."""

from __future__ import annotations

import ctypes
from typing import Any
from unittest.mock import patch

import numba
import numpy as np

import gpucf
from gpucf import _search
from gpucf._search_kernel import search_rows

_clock_gettime = ctypes.CDLL(None).clock_gettime
_clock_gettime.argtypes = [ctypes.c_int, ctypes.c_void_p]
_MONOTONIC = 1  # on Linux


@numba.njit(nogil=True)
def _search_each(which, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows, ns):
    """`search_rows`, one row after another in compiled code; adds the nanoseconds of each row to `ns`."""
    clock = np.zeros(4, np.int64)
    for i in range(len(which)):
        _clock_gettime(_MONOTONIC, clock.ctypes)
        search_rows(which[i : i + 1], node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows)
        _clock_gettime(_MONOTONIC, clock[2:].ctypes)
        ns[which[i]] += (clock[2] - clock[0]) * 1_000_000_000 + clock[3] - clock[1]


def timed_query(engine: gpucf.Engine, X: np.ndarray, **options: Any) -> tuple[gpucf.Result, np.ndarray]:
    """The result of a query, and the microseconds that each row took in the kernel (0: it was not searched).

    The query goes its usual way, but its one thread reads the clock between rows, in compiled code, as the prototype
    does. What an empty reading costs (some tens of nanoseconds) is left in.
    """
    if engine.method != "search" or engine.n_threads != 1:
        raise ValueError("rows are timed one by one with method='search' and n_threads=1")
    ns = np.zeros(len(X), np.int64)

    def timed(*arguments: Any) -> None:
        _search_each(*arguments, ns)

    with patch.object(_search, "search_rows", timed):
        result = engine.query(X, **options)
    return result, ns / 1e3
