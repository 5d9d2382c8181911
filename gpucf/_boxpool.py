"""A pool of disjoint boxes that change, and an index that finds those that meet a beam.

The index is made like the leaf masks, with boxes in the place of leaves: per code one row of bits, so that "which boxes
meet this one in every feature but `j`" is an AND over a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._boxes import EMPTY_HI, EMPTY_LO, BoxLayout
from gpucf._cells import ORDERED
from gpucf._jit import helper, inline, njit

ALIVE, FREE = 0, 1


@dataclass(frozen=True, eq=False)
class Pool:
    """Boxes by slot, their index, and the shape of the space.

    Attributes
    ----------
    kind, code_start, set_start, whole_lo, whole_hi, whole_sets :
        The layout, and the box that holds everything.
    lo, hi, sets, label :
        Box of each slot; an empty range is always ``EMPTY_LO, EMPTY_HI``.
    count : int64 array of shape (2,)
        Number of ALIVE and of FREE slots.
    alive, place, free : int64 arrays of shape (n_slots,)
        The used slots in no order, the place of each slot in `alive`, and the stack of unused slots.
    live : uint64 array of shape (n_words,)
        Bits of the used slots.
    at_most, at_least : uint64 arrays of shape (n_codes, n_words)
        Row of an ordered code `k`: boxes whose range starts at `k` or below, and ends at `k` or above. Row of a
        category, or of "missing" (`at_most` only): boxes that hold it.
    """

    kind: np.ndarray
    code_start: np.ndarray
    set_start: np.ndarray
    whole_lo: np.ndarray
    whole_hi: np.ndarray
    whole_sets: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    sets: np.ndarray
    label: np.ndarray
    count: np.ndarray
    alive: np.ndarray
    place: np.ndarray
    free: np.ndarray
    live: np.ndarray
    at_most: np.ndarray
    at_least: np.ndarray

    @classmethod
    def of(cls, lo: np.ndarray, hi: np.ndarray, sets: np.ndarray, label: np.ndarray, layout: BoxLayout) -> Pool:
        """Pool of boxes, with a quarter more slots than boxes, and some."""
        n = len(label)
        n_words = (n + n // 4 + 127) // 64
        n_slots, n_codes = 64 * n_words, int(layout.code_start[-1])
        whole_lo, whole_hi, whole_sets = layout.whole()
        pool = cls(
            kind=layout.kind,
            code_start=layout.code_start,
            set_start=layout.set_start,
            whole_lo=whole_lo.astype(np.int32),
            whole_hi=whole_hi.astype(np.int32),
            whole_sets=whole_sets,
            lo=np.zeros((n_slots, layout.n_features), np.int32),
            hi=np.zeros((n_slots, layout.n_features), np.int32),
            sets=np.zeros((n_slots, layout.n_set_words), np.uint64),
            label=np.zeros(n_slots, np.int16),
            count=np.array([0, n_slots], np.int64),
            alive=np.zeros(n_slots, np.int64),
            place=np.zeros(n_slots, np.int64),
            free=np.arange(n_slots)[::-1].astype(np.int64),
            live=np.zeros(n_words, np.uint64),
            at_most=np.zeros((n_codes, n_words), np.uint64),
            at_least=np.zeros((n_codes, n_words), np.uint64),
        )
        pool.lo[:n], pool.hi[:n], pool.sets[:n], pool.label[:n] = lo, hi, sets, label
        _fill(
            n, pool.lo, pool.hi, pool.sets, pool.kind, pool.code_start, pool.set_start, pool.at_most, pool.at_least,
            pool.live, pool.count, pool.alive, pool.place, pool.free,
        )  # fmt: skip
        return pool


@njit
def _fill(n, lo, hi, sets, kind, code_start, set_start, at_most, at_least, live, count, alive, place, free):
    for _ in range(n):
        insert(
            take_slot(count, free), lo, hi, sets, kind, code_start, set_start, at_most, at_least, live, count, alive,
            place,
        )  # fmt: skip


@inline
def take_slot(count, free):
    count[FREE] -= 1
    return free[count[FREE]]


@inline
def _mark(table, row, box, on):
    bit = np.uint64(1) << np.uint64(box & 63)
    if on:
        table[row, box >> 6] |= bit
    else:
        table[row, box >> 6] &= ~bit


@inline
def has_null(i, j, sets, set_start):
    """Whether box `i` holds "missing" in the ordered feature `j`."""
    s = set_start[j]
    return set_start[j + 1] > s and sets[i, s] & np.uint64(1) != 0


@helper
def mark_feature(i, j, on, lo, hi, sets, kind, code_start, set_start, at_most, at_least):
    """Enter box `i` in the index rows of feature `j`, or take it out."""
    first, last = code_start[j], code_start[j + 1] - 1
    if kind[j] == ORDERED:
        if lo[i, j] <= hi[i, j]:
            for k in range(first + lo[i, j], last):
                _mark(at_most, k, i, on)
            for k in range(first, first + hi[i, j] + 1):
                _mark(at_least, k, i, on)
        if has_null(i, j, sets, set_start):
            _mark(at_most, last, i, on)
        return
    for s in range(set_start[j], set_start[j + 1]):
        members = sets[i, s]
        while members != 0:
            _mark(at_most, first + 64 * (s - set_start[j]) + trailing_zeros(members), i, on)
            members &= members - np.uint64(1)


@helper
def insert(i, lo, hi, sets, kind, code_start, set_start, at_most, at_least, live, count, alive, place):
    """Put a filled slot, off the stack of free ones, to use."""
    for j in range(len(kind)):
        mark_feature(i, j, True, lo, hi, sets, kind, code_start, set_start, at_most, at_least)
    live[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    alive[count[ALIVE]] = i
    place[i] = count[ALIVE]
    count[ALIVE] += 1


@helper
def unmark(i, lo, hi, sets, kind, code_start, set_start, at_most, at_least):
    """Take a box out of the index rows; its slot stays in use."""
    for j in range(len(kind)):
        mark_feature(i, j, False, lo, hi, sets, kind, code_start, set_start, at_most, at_least)


@helper
def release(i, live, count, alive, place, free):
    """Give back the slot of a box that is out of the index rows."""
    live[i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))
    count[ALIVE] -= 1
    last = alive[count[ALIVE]]
    alive[place[i]] = last
    place[last] = place[i]
    free[count[FREE]] = i
    count[FREE] += 1


@helper
def beam(
    i, j, lo, hi, sets, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most, at_least, live, found,
):  # fmt: skip
    """Bits of the boxes that meet box `i` in every feature but `j`; box `i` is one of them."""
    for w in range(len(found)):
        found[w] = live[w]
    for f in range(len(kind)):
        if f != j:
            if kind[f] == ORDERED:
                _and_range(i, f, lo, hi, sets, code_start, set_start, whole_lo, whole_hi, at_most, at_least, found)
            else:
                _and_members(i, f, sets, code_start, set_start, whole_sets, at_most, found)


@inline
def _and_range(i, f, lo, hi, sets, code_start, set_start, whole_lo, whole_hi, at_most, at_least, found):
    first, last = code_start[f], code_start[f + 1] - 1
    null = has_null(i, f, sets, set_start)
    if lo[i, f] > hi[i, f]:
        for w in range(len(found)):
            found[w] &= at_most[last, w]
        return
    null_done = null or set_start[f + 1] == set_start[f]
    if null_done and lo[i, f] == whole_lo[f] and hi[i, f] == whole_hi[f]:
        return
    start, stop = first + hi[i, f], first + lo[i, f]
    if null:
        for w in range(len(found)):
            found[w] &= (at_most[start, w] & at_least[stop, w]) | at_most[last, w]
    else:
        for w in range(len(found)):
            found[w] &= at_most[start, w] & at_least[stop, w]


@inline
def _and_members(i, f, sets, code_start, set_start, whole_sets, at_most, found):
    first, s0, s1 = code_start[f], set_start[f], set_start[f + 1]
    whole = True
    for s in range(s0, s1):
        whole = whole and sets[i, s] == whole_sets[s]
    if whole:
        return
    for w in range(len(found)):
        if found[w] == 0:
            continue
        some = np.uint64(0)
        for s in range(s0, s1):
            members = sets[i, s]
            while members != 0:
                some |= at_most[first + 64 * (s - s0) + trailing_zeros(members), w]
                members &= members - np.uint64(1)
        found[w] &= some


@inline
def meets(a, b, j, lo, hi, sets, kind, set_start):
    """Whether two boxes share a code of feature `j`."""
    for s in range(set_start[j], set_start[j + 1]):
        if sets[a, s] & sets[b, s] != 0:
            return True
    if kind[j] != ORDERED:
        return False
    return max(lo[a, j], lo[b, j]) <= min(hi[a, j], hi[b, j])


@inline
def n_parts_outside(c, a, f, lo, hi, sets, kind, set_start):
    """In how many parts box `c` reaches out of box `a` in feature `f`; "missing" goes with a part of the range."""
    if kind[f] == ORDERED and lo[c, f] <= hi[c, f]:
        n = 0
        if lo[a, f] > hi[a, f]:
            n = 1
        else:
            if lo[c, f] < lo[a, f]:
                n += 1
            if hi[c, f] > hi[a, f]:
                n += 1
        if n > 0:
            return n
    for s in range(set_start[f], set_start[f + 1]):
        if sets[c, s] & ~sets[a, s] != 0:
            return 1
    return 0


@helper
def carve(c, a, f, p, lo, hi, sets, label, kind, set_start):
    """Move one part of box `c` that lies outside box `a` in feature `f` to slot `p`."""
    for g in range(lo.shape[1]):
        lo[p, g] = lo[c, g]
        hi[p, g] = hi[c, g]
    for s in range(sets.shape[1]):
        sets[p, s] = sets[c, s]
    label[p] = label[c]
    for s in range(set_start[f], set_start[f + 1]):
        sets[p, s] &= ~sets[a, s]
        sets[c, s] &= sets[a, s]
    if kind[f] != ORDERED or lo[c, f] > hi[c, f]:
        return
    if lo[a, f] > hi[a, f]:
        lo[c, f], hi[c, f] = EMPTY_LO, EMPTY_HI
    elif lo[c, f] < lo[a, f]:
        hi[p, f] = min(hi[c, f], lo[a, f] - 1)
        lo[c, f] = hi[p, f] + 1
    elif hi[c, f] > hi[a, f]:
        lo[p, f] = max(lo[c, f], hi[a, f] + 1)
        hi[c, f] = lo[p, f] - 1
    else:
        lo[p, f], hi[p, f] = EMPTY_LO, EMPTY_HI
    if lo[c, f] > hi[c, f]:
        lo[c, f], hi[c, f] = EMPTY_LO, EMPTY_HI
