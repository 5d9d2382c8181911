"""Nearest boxes: branch and bound over the KD-trees of a row's target labels, for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._boxes import BoxLayout
from gpucf._cells import ORDERED, Cells
from gpucf._costs import CostModel, fill_tables
from gpucf._jit import helper, inline, njit
from gpucf._kdtree import MAX_STACK, SLOTS, KdTree
from gpucf._keys import best_code, comes_first

_ROWS_PER_TASK = 512


@dataclass(frozen=True, eq=False)
class Nearest:
    """Answers in codes.

    Attributes
    ----------
    codes : int32 array of shape (n_rows, n_features)
        The answer; the row's own codes where there is none.
    cost : float64 array of shape (n_rows,)
        The minimised sum or maximum; inf where nothing qualifies.
    visits : int64 array of shape (n_rows,)
        Boxes and bounding boxes of the KD-tree that were priced.
    """

    codes: np.ndarray
    cost: np.ndarray
    visits: np.ndarray


def nearest_boxes(
    trees: list[KdTree | None],
    cells: Cells,
    layout: BoxLayout,
    costs: CostModel,
    own: np.ndarray,
    values: np.ndarray,
    wanted: np.ndarray,
    n_threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Nearest:
    """The point of least key in the boxes of the wanted labels, for every row.

    Parameters
    ----------
    trees : list of KdTree or None
        One per label; None where no box has the label.
    own : int32 array of shape (n_rows, n_features)
    values : float64 array of shape (n_rows, n_features)
        From `code_rows`.
    wanted : bool array of shape (n_rows, n_labels)
        Rows without a wanted label are left alone (cost inf).
    """
    n = len(own)
    out = Nearest(own.copy(), np.full(n, np.inf), np.zeros(n, np.int64))
    gaps = _has_gaps(cells)
    order = _row_order(own, wanted)
    passes = [(tree, order[wanted[order, label]]) for label, tree in enumerate(trees) if tree is not None]
    done, n_passes = 0, sum(len(rows) for _, rows in passes)
    for tree, rows in passes:
        tasks = [rows[i : i + _ROWS_PER_TASK] for i in range(0, len(rows), _ROWS_PER_TASK)]
        arguments = (
            costs.code, costs.is_max, own, values, cells.kind, cells.code_start, cells.cell_lo, cells.cell_hi,
            costs.weight, costs.scale, costs.may_rise, costs.may_fall, layout.set_start, gaps, tree.lo, tree.hi,
            tree.sets, tree.size, tree.child, out.codes, out.cost, out.visits,
        )  # fmt: skip
        run_tasks(_search_rows, tasks, arguments, n_threads, _share(progress, done, n_passes, n))
        done += len(rows)
    if progress is not None and n_passes == 0:
        progress(n, n)
    return out


def _share(progress: Callable[[int, int], None] | None, before: int, n_passes: int, n: int) -> Any:
    """Progress in rows, where a row with several wanted labels takes several passes."""
    return None if progress is None else lambda done: progress(n * (before + done) // n_passes, n)


def run_tasks(
    kernel: Any,
    tasks: list[np.ndarray],
    arguments: tuple[Any, ...],
    n_threads: int,
    progress: Callable[[int], None] | None,
) -> None:
    """Run ``kernel(rows, *arguments)`` for every task on a pool of threads; an exception or Ctrl-C stops all."""
    if n_threads == 1 and progress is None:
        for rows in tasks:  # signals are handled between tasks
            kernel(rows, *arguments)
        return
    done = 0
    with ThreadPoolExecutor(n_threads) as pool:
        pending = {pool.submit(kernel, rows, *arguments): len(rows) for rows in tasks}
        try:
            while pending:
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    done += pending.pop(future)
                if progress is not None:
                    progress(done)
        except BaseException:
            for future in pending:
                future.cancel()
            raise


def _row_order(own: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Rows with something to find, like rows side by side so that they walk the same nodes."""
    rows = np.flatnonzero(wanted.any(axis=1))
    if own.shape[1] == 0 or len(rows) < 2:
        return rows
    return rows[np.lexsort(own[rows].T[::-1])]


def _has_gaps(cells: Cells) -> np.ndarray:
    """Ordered features in which a cell without an attainable value was kept: their prices do not rise evenly."""
    out = np.zeros(cells.n_features, bool)
    for j in np.flatnonzero(cells.kind == ORDERED):
        out[j] = np.isnan(cells.cell_lo[cells.code_start[j] : cells.code_start[j + 1] - 1]).any()
    return out


@helper
def _set_price(j, block, slot, lo, hi, sets, own, kind, code_start, set_start, price):
    """Least price of what slot `slot` allows in feature `j`, member by member."""
    first = code_start[j]
    begin = set_start[j]
    least = np.inf
    if kind[j] == ORDERED:
        if set_start[j + 1] > begin and sets[block, begin, slot] & np.uint64(1) != 0:
            least = price[code_start[j + 1] - 1]
        for code in range(lo[block, j, slot], hi[block, j, slot] + 1):
            least = min(least, price[first + code])
        return least
    for w in range(begin, set_start[j + 1]):
        members = sets[block, w, slot]
        while members != 0:
            least = min(least, price[first + 64 * (w - begin) + np.int64(trailing_zeros(members))])
            members &= members - np.uint64(1)
    return least


@helper
def _box_key(lo, hi, sets, own, kind, code_start, set_start, has_gaps, price, displacement, codes):
    """Codes of the nearest point of a box, written to `codes`; returns the sum of displacements."""
    total = 0.0
    for j in range(len(kind)):
        code = best_code(j, np.int64(lo[j]), np.int64(hi[j]), sets, np.int64(own[j]), kind, code_start, set_start,
                         has_gaps, price, displacement)  # fmt: skip
        codes[j] = code
        total += displacement[code_start[j] + code]
    return total


@helper
def _precedes(codes, total, best, best_total, own, kind, code_start, price, displacement):
    """Whether a key of the same cost stands before the best key."""
    if total != best_total:
        return total < best_total
    for j in range(len(kind)):
        if codes[j] != best[j]:
            missing = code_start[j + 1] - code_start[j] - 1
            return comes_first(
                np.int64(codes[j]), np.int64(best[j]), np.int64(own[j]), missing, kind[j] == ORDERED, code_start[j],
                price, displacement,
            )  # fmt: skip
    return False


@inline
def _ways(kind, code_start, set_start, has_gaps, way):
    """How each feature is priced: 0 by the clamp of the own code, 1 by one set word, 2 member by member."""
    for j in range(len(kind)):
        if kind[j] == ORDERED:
            way[j] = 0 if set_start[j + 1] == set_start[j] and not has_gaps[j] else 2
        else:
            way[j] = 1 if set_start[j + 1] == set_start[j] + 1 else 2


@inline
def _even_prices(own, kind, code_start, price, other):
    """The one price of every other category of a feature, or NaN where prices differ."""
    for j in range(len(kind)):
        other[j] = np.inf
        if kind[j] == ORDERED:
            continue
        seen = False
        for code in range(code_start[j], code_start[j + 1] - 1):
            if code == code_start[j] + own[j]:
                continue
            if not seen:
                other[j] = price[code]
                seen = True
            elif price[code] != other[j]:
                other[j] = np.nan


@njit
def _search_rows(
    rows, cost, is_max, own_codes, values, kind, code_start, cell_lo, cell_hi, weight, scale, may_rise, may_fall,
    set_start, has_gaps, lo, hi, sets, size, child, out_codes, out_cost, out_visits,
):  # fmt: skip
    """Branch and bound for each row; an answer already in `out_codes` (cost finite) is the one to beat.

    Costs are sums (or maxima) of prices in feature order, one rounding after another, the same for bounding boxes and
    boxes (design, rule 6). Equal costs are settled by whole keys.
    """
    n_features = len(kind)
    n_words = sets.shape[1]
    way = np.empty(n_features, np.int64)
    _ways(kind, code_start, set_start, has_gaps, way)
    price = np.empty(code_start[-1], np.float64)
    displacement = np.empty(code_start[-1], np.float64)
    other = np.empty(n_features, np.float64)
    stack = np.empty(MAX_STACK, np.int64)
    stack_cost = np.empty(MAX_STACK, np.float64)
    codes = np.empty(n_features, np.int32)
    best = np.empty(n_features, np.int32)
    slot_cost = np.empty(SLOTS, np.float64)
    slot_lo = np.empty(n_features, np.uint16)
    slot_hi = np.empty(n_features, np.uint16)
    slot_sets = np.empty(n_words, np.uint64)
    for row in rows:
        own = own_codes[row]
        fill_tables(
            cost, own, values[row], kind, code_start, cell_lo, cell_hi, weight, scale, may_rise, may_fall, price,
            displacement,
        )  # fmt: skip
        _even_prices(own, kind, code_start, price, other)
        best_cost = out_cost[row]
        best_total = np.inf
        if best_cost < np.inf:
            best_total = 0.0
            for j in range(n_features):
                best[j] = out_codes[row, j]
                best_total += displacement[code_start[j] + best[j]]
        visits = 0
        stack[0] = 0
        stack_cost[0] = 0.0
        top = 0
        while top >= 0:
            block = stack[top]
            bound = stack_cost[top]
            top -= 1
            if bound > best_cost:
                continue
            visits += size[block]
            for slot in range(SLOTS):
                slot_cost[slot] = 0.0
            for j in range(n_features):
                mine = np.int64(own[j])
                first = code_start[j]
                if way[j] == 0:
                    for slot in range(SLOTS):
                        code = min(max(mine, np.int64(lo[block, j, slot])), np.int64(hi[block, j, slot]))
                        p = price[first + code]
                        slot_cost[slot] = max(slot_cost[slot], p) if is_max else slot_cost[slot] + p
                elif way[j] == 1 and other[j] == other[j]:
                    w = set_start[j]
                    bit = np.uint64(mine)
                    missing = np.uint64(1) << np.uint64(code_start[j + 1] - first - 1)
                    for slot in range(SLOTS):
                        members = sets[block, w, slot]
                        p = other[j] if members & ~missing != 0 else np.inf
                        p = 0.0 if (members >> bit) & np.uint64(1) != 0 else p
                        slot_cost[slot] = max(slot_cost[slot], p) if is_max else slot_cost[slot] + p
                else:
                    for slot in range(size[block]):
                        p = _set_price(j, block, slot, lo, hi, sets, mine, kind, code_start, set_start, price)
                        slot_cost[slot] = max(slot_cost[slot], p) if is_max else slot_cost[slot] + p
            is_last = child[block, 0] < 0
            base = top
            for slot in range(size[block]):
                c = slot_cost[slot]
                if c > best_cost or c == np.inf:
                    continue
                if is_last or c == best_cost:
                    for j in range(n_features):
                        slot_lo[j] = lo[block, j, slot]
                        slot_hi[j] = hi[block, j, slot]
                    for w in range(n_words):
                        slot_sets[w] = sets[block, w, slot]
                    total = _box_key(slot_lo, slot_hi, slot_sets, own, kind, code_start, set_start, has_gaps, price,
                                     displacement, codes)  # fmt: skip
                    if c == best_cost and not _precedes(
                        codes, total, best, best_total, own, kind, code_start, price, displacement
                    ):
                        continue
                if is_last:
                    best_cost = c
                    best_total = total
                    for j in range(n_features):
                        best[j] = codes[j]
                    continue
                # Children in order of falling cost, so that the nearest is on top of the stack.
                at = top
                top += 1
                while at > base and stack_cost[at] < c:
                    stack[at + 1] = stack[at]
                    stack_cost[at + 1] = stack_cost[at]
                    at -= 1
                stack[at + 1] = child[block, slot]
                stack_cost[at + 1] = c
        if best_cost < np.inf:
            for j in range(n_features):
                out_codes[row, j] = best[j]
        out_cost[row] = best_cost
        out_visits[row] += visits
