"""Time of every single row inside the compiled search, without what Python adds to a call."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import gpucf
from gpucf import _search


def timed_query(engine: gpucf.Engine, X: np.ndarray, **options: Any) -> tuple[gpucf.Result, np.ndarray]:
    """The result of a query, and the microseconds that each row took in the kernel (0: it was not searched).

    The query goes its usual way, but gives its one thread one row at a time, and each call of the kernel is followed by
    one without rows: what a call costs by itself (some tens of microseconds, cost tables not included) is taken off.
    """
    if engine.method != "search" or engine.n_threads != 1:
        raise ValueError("rows are timed one by one with method='search' and n_threads=1")
    with _row_by_row() as calls:
        result = engine.query(X, **options)
    empty = np.median([nothing for parts in calls.values() for _, nothing in parts])
    us = np.zeros(len(X))
    for row, parts in calls.items():
        us[row] = sum(max(whole - empty, 0.0) for whole, _ in parts) / 1e3
    return result, us


@contextmanager
def _row_by_row() -> Iterator[dict[int, list[tuple[int, int]]]]:
    """Nanoseconds of every call of the kernel, and of an empty call after it, by row."""
    kernel = _search.search_rows
    calls: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def timed(which: np.ndarray, *arguments: Any) -> None:
        start = time.perf_counter_ns()
        kernel(which, *arguments)
        end = time.perf_counter_ns()
        if len(which):
            kernel(which[:0], *arguments)
            calls[int(which[0])].append((end - start, time.perf_counter_ns() - end))

    with ExitStack() as patches:
        patches.enter_context(patch.object(_search, "search_rows", timed))
        patches.enter_context(patch.object(_search, "_ROWS_PER_TASK", 1))
        yield calls
