"""Ensemble search, compiled: bounds of a node's score."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros

from gpucf._ensemble import VECTOR_LEAF
from gpucf._jit import helper, inline
from gpucf._labels import MAY, MAY_NOT, THRESHOLD, simple_outlook


@inline
def _end_leaves(d, begin, end, stack):
    """The first and the last reachable leaf of the tree whose mask lies in the words ``begin .. end - 1``."""
    w = begin
    members = stack.mask[d, w]
    while members == 0:
        w += 1
        members = stack.mask[d, w]
    first = 64 * w + np.int64(trailing_zeros(members))
    w = end - 1
    members = stack.mask[d, w]
    while members == 0:
        w -= 1
        members = stack.mask[d, w]
    return first, 64 * w + 63 - np.int64(leading_zeros(members))


@inline
def bound_node(d, trees, stack, scratch):
    """Library's sums over the smallest and the largest reachable leaves; returns the largest leaf range of a tree.

    Leaves the range of each tree behind for branching.
    """
    sum_low = scratch.sum_low
    sum_high = scratch.sum_high
    for c in range(len(trees.base)):
        sum_low[c] = trees.base[c]
        sum_high[c] = trees.base[c]
    largest = 0.0
    if trees.one_word and len(trees.base) == 1:
        total_low = sum_low[0]
        total_high = sum_high[0]
        for t in range(len(trees.tree_output)):
            members = stack.mask[d, t]
            first = 64 * t + np.int64(trailing_zeros(members))
            last = 64 * t + 63 - np.int64(leading_zeros(members))
            a = trees.flat[first]
            b = trees.flat[last]
            total_high = total_high + a
            total_low = total_low + b
            spread = np.float64(a) - np.float64(b)
            scratch.spread[t] = spread
            largest = max(largest, spread)
        sum_low[0] = total_low
        sum_high[0] = total_high
        return largest
    n_out = trees.value.shape[1]
    if n_out == 2 and trees.sorted_leaves:  # `margin_outlook` decides classes, this the rest
        low_0, high_0, low_1, high_1 = sum_low[0], sum_high[0], sum_low[1], sum_high[1]
        end = trees.word_start[0]
        for t in range(len(trees.tree_output)):
            begin = end
            end = trees.word_start[t + 1]
            first, last = _end_leaves(d, begin, end, stack)
            first_0, first_1 = trees.flat[2 * first], trees.flat[2 * first + 1]
            last_0, last_1 = trees.flat[2 * last], trees.flat[2 * last + 1]
            high_1 = high_1 + first_1
            low_0 = low_0 + first_0
            low_1 = low_1 + last_1
            high_0 = high_0 + last_0
            spread = (first_1 - last_1) + (last_0 - first_0)
            scratch.spread[t] = spread
            largest = max(largest, spread)
        sum_low[0], sum_high[0], sum_low[1], sum_high[1] = low_0, high_0, low_1, high_1
        return largest
    for t in range(len(trees.tree_output)):
        begin = trees.word_start[t]
        end = trees.word_start[t + 1]
        first, last = _end_leaves(d, begin, end, stack)
        for c in range(n_out):
            a = trees.value[first, c]
            b = trees.value[last, c]
            scratch.low[c] = min(a, b)
            scratch.high[c] = max(a, b)
        if not trees.sorted_leaves:
            for w in range(begin, end):
                members = stack.mask[d, w]
                while members != 0:
                    row = 64 * w + np.int64(trailing_zeros(members))
                    members &= members - np.uint64(1)
                    for c in range(n_out):
                        scratch.low[c] = min(scratch.low[c], trees.value[row, c])
                        scratch.high[c] = max(scratch.high[c], trees.value[row, c])
        output = trees.tree_output[t]
        spread = 0.0
        for c in range(n_out):
            k = c if output == VECTOR_LEAF else np.int64(output)
            sum_low[k] = sum_low[k] + scratch.low[c]
            sum_high[k] = sum_high[k] + scratch.high[c]
            if trees.rounds[t]:
                sum_low[k] = np.float32(sum_low[k])
                sum_high[k] = np.float32(sum_high[k])
            spread += np.float64(scratch.high[c]) - np.float64(scratch.low[c])
        scratch.spread[t] = spread
        largest = max(largest, spread)
    return largest


@inline
def margin_outlook(d, label, trees, stack, scratch):
    """What whole numbers say of a forest of two classes: the outlook on `label` and the largest leaf range of a tree.

    The outlook is 0 where the margin is too near to 0 for them: then the library's own sums have to decide. Each
    entry of ``trees.margin`` is within one unit of the leaf's score of class 1 less that of class 0; rounding of the
    library's sums stays far below a unit.
    """
    low = np.int64(0)
    high = np.int64(0)
    largest = 0.0
    end = trees.word_start[0]
    for t in range(len(trees.tree_output)):
        begin = end
        end = trees.word_start[t + 1]
        best, worst = _end_leaves(d, begin, end, stack)
        first = np.int64(trees.margin[best])
        last = np.int64(trees.margin[worst])
        high += first
        low += last
        spread = np.float64(first - last)
        scratch.spread[t] = spread
        largest = max(largest, spread)
    room = 2 * len(trees.tree_output) + 2
    may_be_1 = high > room
    may_be_0 = low < -room
    outlook = np.int64(0)
    if may_be_1 and may_be_0:
        outlook = np.int64(MAY | MAY_NOT)
    elif low > room:
        outlook = np.int64(MAY if label == 1 else MAY_NOT)
    elif high < -room:
        outlook = np.int64(MAY if label == 0 else MAY_NOT)
    return outlook, largest


@helper
def weigh_spreads(rule, trees, scratch):
    """Leaf ranges as they matter to a compound rule; returns the largest.

    Trees that only settled conditions, or alternatives that surely fail, look at have none. Those of the others count
    as shares of what is open in their sum, so that sums of unlike scales compare.
    """
    for c in range(len(scratch.relevance)):
        scratch.relevance[c] = 0.0
    begin = 0
    for i in range(len(rule.mode)):
        if i + 1 < len(rule.mode) and rule.alternative[i + 1] == rule.alternative[i]:
            continue
        possible = True
        for turn in range(2):
            for k in range(begin, i + 1):
                outlook = simple_outlook(rule, k, scratch.sum_low, scratch.sum_high, scratch.raw_low, scratch.raw_high)
                possible = possible and outlook & MAY != 0
                if turn == 1 and possible and outlook & MAY_NOT != 0:
                    if rule.mode[k] == THRESHOLD:
                        scratch.relevance[rule.output[k]] = 1.0
                    else:
                        for c in range(rule.begin[k], rule.end[k]):
                            scratch.relevance[c] = 1.0
        begin = i + 1
    largest = 0.0
    for t in range(len(trees.tree_output)):
        c = trees.tree_output[t]
        if c != VECTOR_LEAF:
            open_range = np.float64(scratch.sum_high[c]) - np.float64(scratch.sum_low[c])
            share = scratch.relevance[c] / open_range if open_range > 0.0 else scratch.relevance[c]
            scratch.spread[t] *= share
        largest = max(largest, scratch.spread[t])
    return largest
