"""Nearest boxes: branch and bound over the KD-trees of a row's target labels, for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._answers import Answers
from gpucf._boxes import BoxLayout
from gpucf._cells import ORDERED, Cells, ordered_gaps
from gpucf._costs import CostModel
from gpucf._jit import helper, inline, njit
from gpucf._kdtree import MAX_STACK, SLOTS, KdTree
from gpucf._keys import best_code, key_precedes
from gpucf._prices import fill_tables

_ROWS_PER_TASK = 512
_BOXES_IN_CACHE = 4096


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
) -> Answers:
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
    out = Answers.none_yet(own)
    gaps = ordered_gaps(cells) | costs.prices.irregular
    order = _row_order(own, wanted, sum(8 * len(t.size) for t in trees if t is not None))
    passes = [(tree, order[wanted[order, label]]) for label, tree in enumerate(trees) if tree is not None]
    done, n_passes = 0, sum(len(rows) for _, rows in passes)
    for tree, rows in passes:
        tasks = [rows[i : i + _ROWS_PER_TASK] for i in range(0, len(rows), _ROWS_PER_TASK)]
        arguments = (
            costs.prices, own, values, cells.kind, cells.code_start, layout.set_start, gaps, tree.lo, tree.hi,
            tree.sets, tree.size, tree.child, out.codes, out.cost, out.visits,
        )  # fmt: skip
        run_tasks(_search_rows, tasks, arguments, n_threads, _share(progress, done, n_passes, n))
        done += len(rows)
    if progress is not None and n_passes == 0:
        progress(n, n)
    return replace(out, lower_bound=out.cost.copy())  # every answer of a map is proved


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


def _row_order(own: np.ndarray, wanted: np.ndarray, n_boxes: int) -> np.ndarray:
    """Rows with something to find, like rows side by side so that they walk the same nodes."""
    rows = np.flatnonzero(wanted.any(axis=1))
    if own.shape[1] == 0 or len(rows) < 2 or n_boxes < _BOXES_IN_CACHE:
        return rows
    return rows[np.lexsort(own[rows].T[::-1])]


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


@inline
def _box_key(block, slot, lo, hi, sets, own, way, other, kind, code_start, set_start, has_gaps, price, displacement,
             codes):  # fmt: skip
    """Codes of the nearest point of a slot's box, written to `codes`; returns the sum of displacements."""
    total = 0.0
    for j in range(len(kind)):
        mine = np.int64(own[j])
        if way[j] == 0:
            code = min(max(mine, np.int64(lo[block, j, slot])), np.int64(hi[block, j, slot]))
        elif way[j] == 1 and other[j] == other[j]:
            members = sets[block, set_start[j], slot]
            code = mine if (members >> np.uint64(mine)) & np.uint64(1) != 0 else np.int64(trailing_zeros(members))
        else:
            code = best_code(j, np.int64(lo[block, j, slot]), np.int64(hi[block, j, slot]), sets[block, :, slot], mine,
                             kind, code_start, set_start, has_gaps, price, displacement)  # fmt: skip
        codes[j] = code
        total += displacement[code_start[j] + code]
    return total


@inline
def _ways(kind, code_start, set_start, has_gaps, way):
    """How each feature is priced: 0 by the clamp of the own code, 1 by one set word, 2 member by member."""
    for j in range(len(kind)):
        if kind[j] == ORDERED:
            way[j] = 0 if set_start[j + 1] == set_start[j] and not has_gaps[j] else 2
        else:
            way[j] = 1 if set_start[j + 1] == set_start[j] + 1 else 2


@inline
def _even_prices(own, kind, code_start, price, displacement, other):
    """The one price of every other category of a feature, or NaN where they, or a move to "missing", differ."""
    for j in range(len(kind)):
        other[j] = np.inf
        if kind[j] == ORDERED:
            continue
        mine = code_start[j] + own[j]
        last = code_start[j + 1] - 1
        seen = -1
        for code in range(code_start[j], last):
            if code == mine:
                continue
            if seen < 0:
                other[j] = price[code]
                seen = code
            elif price[code] != other[j] or displacement[code] != displacement[seen]:
                other[j] = np.nan
        if (mine != last and price[last] < np.inf) or price[mine] > 0.0:
            other[j] = np.nan


@inline
def _clamped(block, j, slot, own, first, lo, hi, price):
    # Unsigned, so that numba does not look for negative indices.
    return price[first + min(max(own, np.uint64(lo[block, j, slot])), np.uint64(hi[block, j, slot]))]


@inline
def _in_word(members, bit, missing, other):
    """Price of a set that fits one word, where all other categories have the price `other`."""
    p = other if members & ~missing != 0 else np.inf
    return 0.0 if (members >> bit) & np.uint64(1) != 0 else p


@inline
def _price_block(
    block, size, is_max, best_cost, own, way, other, lo, hi, sets, kind, code_start, set_start, price, out
):
    """Cost of the nearest point of each slot: prices in feature order, one rounding after another.

    The eight sums are spelled out so that they stay in registers; as arrays they would be stored and loaded again for
    every feature, since the compiler cannot know that they do not overlap the tables. A block of which no slot can
    still beat `best_cost` is left early; its sums are then too low, but above `best_cost`.
    """
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = 0.0
    for j in range(len(kind)):
        mine = np.int64(own[j])
        bit = np.uint64(mine)
        first = code_start[j]
        start = np.uint64(first)
        if way[j] == 0:
            p0 = _clamped(block, j, 0, bit, start, lo, hi, price)
            p1 = _clamped(block, j, 1, bit, start, lo, hi, price)
            p2 = _clamped(block, j, 2, bit, start, lo, hi, price)
            p3 = _clamped(block, j, 3, bit, start, lo, hi, price)
            p4 = _clamped(block, j, 4, bit, start, lo, hi, price)
            p5 = _clamped(block, j, 5, bit, start, lo, hi, price)
            p6 = _clamped(block, j, 6, bit, start, lo, hi, price)
            p7 = _clamped(block, j, 7, bit, start, lo, hi, price)
        elif way[j] == 1 and other[j] == other[j]:
            w = set_start[j]
            missing = np.uint64(1) << np.uint64(code_start[j + 1] - first - 1)
            p0 = _in_word(sets[block, w, 0], bit, missing, other[j])
            p1 = _in_word(sets[block, w, 1], bit, missing, other[j])
            p2 = _in_word(sets[block, w, 2], bit, missing, other[j])
            p3 = _in_word(sets[block, w, 3], bit, missing, other[j])
            p4 = _in_word(sets[block, w, 4], bit, missing, other[j])
            p5 = _in_word(sets[block, w, 5], bit, missing, other[j])
            p6 = _in_word(sets[block, w, 6], bit, missing, other[j])
            p7 = _in_word(sets[block, w, 7], bit, missing, other[j])
        else:
            for slot in range(size):
                out[slot] = _set_price(j, block, slot, lo, hi, sets, mine, kind, code_start, set_start, price)
            p0 = out[0]
            p1 = out[1]
            p2 = out[2]
            p3 = out[3]
            p4 = out[4]
            p5 = out[5]
            p6 = out[6]
            p7 = out[7]
        if is_max:
            c0 = max(c0, p0)
            c1 = max(c1, p1)
            c2 = max(c2, p2)
            c3 = max(c3, p3)
            c4 = max(c4, p4)
            c5 = max(c5, p5)
            c6 = max(c6, p6)
            c7 = max(c7, p7)
        else:
            c0 += p0
            c1 += p1
            c2 += p2
            c3 += p3
            c4 += p4
            c5 += p5
            c6 += p6
            c7 += p7
        if j & 3 == 3 and min(min(min(c0, c1), min(c2, c3)), min(min(c4, c5), min(c6, c7))) > best_cost:
            break
    out[0] = c0
    out[1] = c1
    out[2] = c2
    out[3] = c3
    out[4] = c4
    out[5] = c5
    out[6] = c6
    out[7] = c7


@helper
def _search_all(
    rows, prices, own_codes, values, kind, code_start, set_start, has_gaps, lo, hi, sets, size, child, out_codes,
    out_cost, out_visits,
    way, price, displacement, other, stack, stack_cost, codes, best, slot_cost,
):  # fmt: skip
    """Branch and bound for each row; an answer already in `out_codes` (cost finite) is the one to beat.

    Costs are sums (or maxima) of prices in feature order, one rounding after another, the same for bounding boxes and
    boxes (design, rule 6). Equal costs are settled by whole keys.
    """
    n_features = len(kind)
    _ways(kind, code_start, set_start, has_gaps, way)
    for row in rows:
        own = own_codes[row]
        fill_tables(prices, row, own, values[row], kind, code_start, price, displacement)
        _even_prices(own, kind, code_start, price, displacement, other)
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
            _price_block(block, size[block], prices.is_max, best_cost, own, way, other, lo, hi, sets, kind, code_start,
                         set_start, price, slot_cost)  # fmt: skip
            is_last = child[block, 0] < 0
            base = top
            for slot in range(size[block]):
                c = slot_cost[slot]
                if c > best_cost or c == np.inf:
                    continue
                if is_last or c == best_cost:
                    total = _box_key(block, slot, lo, hi, sets, own, way, other, kind, code_start, set_start, has_gaps,
                                     price, displacement, codes)  # fmt: skip
                    if c == best_cost and not key_precedes(
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


@njit
def _search_rows(
    rows, prices, own_codes, values, kind, code_start, set_start, has_gaps, lo, hi, sets, size, child, out_codes,
    out_cost, out_visits,
):  # fmt: skip
    """Allocate what one task needs, and answer its rows."""
    n_features = len(kind)
    n_codes = code_start[-1]
    _search_all(
        rows, prices, own_codes, values, kind, code_start, set_start, has_gaps, lo, hi, sets, size, child, out_codes,
        out_cost, out_visits,
        np.empty(n_features, np.int64), np.empty(n_codes, np.float64), np.empty(n_codes, np.float64),
        np.empty(n_features, np.float64), np.empty(MAX_STACK, np.int64), np.empty(MAX_STACK, np.float64),
        np.empty(n_features, np.int32), np.empty(n_features, np.int32), np.zeros(SLOTS, np.float64),
    )  # fmt: skip
