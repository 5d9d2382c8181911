"""Re-cutting: a local search for fewer boxes with the same union of each label.

One step: a box grows over one of its faces as far as its own label reaches, up to the far side of a neighbour. What
it covers is cut off its neighbours: some vanish, some become shorter, some fall into several parts. A step that does
not raise the number of boxes is taken, others rarely, and ever more rarely (annealing). A step has to know nothing but
which boxes have other labels: the model is not asked, and the outcome is as exact as the input.

Steps are drawn from a seeded generator and counted, never timed: equal boxes in, equal boxes out, on every machine.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._boxes import BoxLayout
from gpucf._boxpool import (
    ALIVE,
    FREE,
    Pool,
    beam,
    carve,
    insert,
    mark_feature,
    meets,
    n_parts_outside,
    release,
    take_slot,
    unmark,
)
from gpucf._cells import ORDERED
from gpucf._compress import Boxes
from gpucf._jit import helper, inline, njit

_STEPS_PER_BOX = 300
_LEAST_STEPS_PER_BOX = 50  # with fewer steps a search gains little over joining
_WORK = 300_000_000  # in units of about a nanosecond
_FIRST_CHANCE = 0.1  # of a step that costs one box
_COLD_AFTER = 0.7  # of all steps: from there on no step may cost a box


def n_steps(n_boxes: int, layout: BoxLayout) -> int:
    """Steps that a search may take on so many boxes: none where it would cost more than it gains."""
    cost = 256 + layout.n_features * (n_boxes // 50) + int(layout.code_start[-1]) // 4
    steps = min(_STEPS_PER_BOX * n_boxes, _WORK // cost)
    return steps if steps >= _LEAST_STEPS_PER_BOX * n_boxes else 0


def recut(boxes: Boxes, layout: BoxLayout, steps: int, seed: int = 1) -> Boxes:
    """As few boxes as the search finds, never more than it was given, with the same union of each label.

    Parameters
    ----------
    boxes : Boxes
        Disjoint, and together the whole space.
    steps : int
        Steps to try.
    """
    if len(boxes) < 2 or steps < 1:
        return boxes
    pool = Pool.of(boxes.lo, boxes.hi, boxes.sets, boxes.label, layout)
    _anneal(
        steps, _FIRST_CHANCE, _COLD_AFTER, pool.lo, pool.hi, pool.sets, pool.label, pool.kind, pool.code_start,
        pool.set_start, pool.whole_lo, pool.whole_hi, pool.whole_sets, pool.at_most, pool.at_least, pool.live,
        pool.count, pool.alive, pool.place, pool.free,
        np.array([seed], np.uint64),  # random: state of the generator
        np.zeros(len(pool.live), np.uint64),  # found: bits of the boxes in a beam
        np.zeros(len(pool.label), np.int64),  # members: boxes that a grown box meets
        np.zeros(2, np.int32),  # old: range of the box before it grew
        np.zeros(layout.n_set_words, np.uint64),  # old_sets
    )  # fmt: skip
    kept = np.sort(pool.alive[: pool.count[ALIVE]])
    if len(kept) >= len(boxes):
        return boxes
    lo, hi = pool.lo[kept].astype(np.uint16), pool.hi[kept].astype(np.uint16)
    return Boxes(lo, hi, pool.sets[kept], pool.label[kept])


@inline
def _random(state):
    """The next of 2**64 numbers (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inline
def _below(state, n):
    return np.int64(((_random(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit
def _anneal(
    steps, first_chance, cold_after, lo, hi, sets, label, kind, code_start, set_start, whole_lo, whole_hi, whole_sets,
    at_most, at_least, live, count, alive, place, free, random, found, members, old, old_sets,
):  # fmt: skip
    n_features = len(kind)
    for step in range(steps):
        left = 1.0 - step / (cold_after * steps)
        chance = first_chance * left * left if left > 0.0 else 0.0
        a = alive[_below(random, count[ALIVE])]
        j = _below(random, n_features)
        draw = _random(random)
        by_set = kind[j] != ORDERED
        if not by_set and set_start[j + 1] > set_start[j]:
            by_set = draw & np.uint64(6) == 0  # a quarter of the steps on a nullable feature move "missing"
        if by_set:
            grown = _grow_set(
                a, j, lo, hi, sets, label, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most,
                at_least, live, random, found, members, old, old_sets,
            )  # fmt: skip
        else:
            grown = _grow_range(
                a, j, draw & np.uint64(1) != 0, lo, hi, sets, label, kind, code_start, set_start, whole_lo, whole_hi,
                whole_sets, at_most, at_least, live, random, found, members, old, old_sets,
            )  # fmt: skip
        if not grown:
            continue
        n_members, n_parts = _count_parts(a, j, lo, hi, sets, kind, set_start, found, members)
        more = n_parts - n_members
        if n_parts < count[FREE] and (more <= 0 or _accept(random, chance, more)):
            mark_feature(a, j, True, lo, hi, sets, kind, code_start, set_start, at_most, at_least)
            _trim(
                a, n_members, lo, hi, sets, label, kind, code_start, set_start, at_most, at_least, live, count, alive,
                place, free, random, members,
            )  # fmt: skip
        else:
            lo[a, j], hi[a, j] = old[0], old[1]
            for s in range(set_start[j], set_start[j + 1]):
                sets[a, s] = old_sets[s]


@inline
def _accept(random, chance, more):
    p = 1.0
    for _ in range(more):
        p *= chance
    return chance > 0.0 and np.float64(_random(random) >> np.uint64(11)) < p * 9007199254740992.0


@helper
def _grow_range(
    a, j, up, lo, hi, sets, label, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most, at_least,
    live, random, found, members, old, old_sets,
):  # fmt: skip
    """Let the range of box `a` grow to the far side of some neighbour of its label, if no other label forbids."""
    low, high = lo[a, j], hi[a, j]
    if low > high or (up and high == whole_hi[j]) or (not up and low == whole_lo[j]):
        return False
    beam(
        a, j, lo, hi, sets, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most, at_least, live,
        found,
    )  # fmt: skip
    limit = whole_hi[j] if up else whole_lo[j]
    n = 0
    for w in range(len(found)):
        bits = found[w]
        while bits != 0:
            c = 64 * w + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            # Two boxes of the partition that meet in every other feature are apart in this one.
            if lo[c, j] > hi[c, j] or (lo[c, j] <= high if up else hi[c, j] >= low):
                continue
            if label[c] == label[a]:
                members[n] = c
                n += 1
            elif up:
                limit = min(limit, lo[c, j] - 1)
            else:
                limit = max(limit, hi[c, j] + 1)
    near = 0
    for x in range(n):
        c = members[x]
        if lo[c, j] <= limit if up else hi[c, j] >= limit:
            members[near] = c
            near += 1
    if near == 0:
        return False
    c = members[_below(random, near)]
    _remember(a, j, lo, hi, sets, set_start, old, old_sets)
    if up:
        hi[a, j] = min(limit, hi[c, j])
    else:
        lo[a, j] = max(limit, lo[c, j])
    return True


@helper
def _grow_set(
    a, j, lo, hi, sets, label, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most, at_least, live,
    random, found, members, old, old_sets,
):  # fmt: skip
    """Give box `a` the categories (or "missing") of some neighbour of its label, less those of other labels."""
    s0, s1 = set_start[j], set_start[j + 1]
    beam(
        a, j, lo, hi, sets, kind, code_start, set_start, whole_lo, whole_hi, whole_sets, at_most, at_least, live,
        found,
    )  # fmt: skip
    n = 0
    for w in range(len(found)):
        bits = found[w]
        while bits != 0:
            c = 64 * w + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            if c == a or label[c] != label[a]:
                continue
            some = np.uint64(0)
            for s in range(s0, s1):
                some |= sets[c, s]
            if some != 0:
                members[n] = c
                n += 1
    if n == 0:
        return False
    chosen = members[_below(random, n)]
    _remember(a, j, lo, hi, sets, set_start, old, old_sets)
    for s in range(s0, s1):
        sets[a, s] |= sets[chosen, s]
    for w in range(len(found)):
        bits = found[w]
        while bits != 0:
            c = 64 * w + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            if label[c] != label[a]:
                for s in range(s0, s1):
                    sets[a, s] &= ~sets[c, s]
    changed = False
    for s in range(s0, s1):
        changed = changed or sets[a, s] != old_sets[s]
    return changed


@inline
def _remember(a, j, lo, hi, sets, set_start, old, old_sets):
    old[0] = lo[a, j]
    old[1] = hi[a, j]
    for s in range(set_start[j], set_start[j + 1]):
        old_sets[s] = sets[a, s]


@helper
def _count_parts(a, j, lo, hi, sets, kind, set_start, found, members):
    """Gather the boxes that the grown box meets; count them, and the parts of them that would stay."""
    n_members = 0
    n_parts = 0
    for w in range(len(found)):
        bits = found[w]
        while bits != 0:
            c = 64 * w + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            if c != a and meets(c, a, j, lo, hi, sets, kind, set_start):
                members[n_members] = c
                n_members += 1
                for f in range(len(kind)):
                    n_parts += n_parts_outside(c, a, f, lo, hi, sets, kind, set_start)
    return n_members, n_parts


@helper
def _trim(
    a, n_members, lo, hi, sets, label, kind, code_start, set_start, at_most, at_least, live, count, alive, place,
    free, random, members,
):  # fmt: skip
    """Cut the grown box `a` off the boxes that it meets, in a random order of features."""
    n_features = len(kind)
    start = _below(random, n_features)
    for x in range(n_members):
        c = members[x]
        unmark(c, lo, hi, sets, kind, code_start, set_start, at_most, at_least)
        for y in range(start, start + n_features):
            f = y if y < n_features else y - n_features
            while n_parts_outside(c, a, f, lo, hi, sets, kind, set_start) > 0:
                p = take_slot(count, free)
                carve(c, a, f, p, lo, hi, sets, label, kind, set_start)
                insert(p, lo, hi, sets, kind, code_start, set_start, at_most, at_least, live, count, alive, place)
        release(c, live, count, alive, place, free)
