"""Ensemble search, compiled: bounds of a node's score and what they say about a label."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros

from gpucf._ensemble import VECTOR_LEAF
from gpucf._jit import helper
from gpucf._labels import CLASS, THRESHOLD, post_sums, softmax_of, surely_beats


@helper
def bound_node(d, trees, stack, scratch):
    """Library's sums over the smallest and the largest reachable leaves; returns the largest leaf range of a tree.

    Leaves the range, the first and the last reachable leaf of each tree behind for branching.
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
            a = trees.value[first, 0]
            b = trees.value[last, 0]
            total_high = total_high + a
            total_low = total_low + b
            scratch.first[t] = first
            scratch.last[t] = last
            spread = np.float64(a) - np.float64(b)
            scratch.spread[t] = spread
            largest = max(largest, spread)
        sum_low[0] = total_low
        sum_high[0] = total_high
        return largest
    n_out = trees.value.shape[1]
    if n_out == 2 and trees.sorted_leaves:  # a forest of two classes: one falls along the leaves, the other rises
        low_0, high_0, low_1, high_1 = sum_low[0], sum_high[0], sum_low[1], sum_high[1]
        for t in range(len(trees.tree_output)):
            w = trees.word_start[t]
            while stack.mask[d, w] == 0:
                w += 1
            first = 64 * w + np.int64(trailing_zeros(stack.mask[d, w]))
            w = trees.word_start[t + 1] - 1
            while stack.mask[d, w] == 0:
                w -= 1
            last = 64 * w + 63 - np.int64(leading_zeros(stack.mask[d, w]))
            high_1 = high_1 + trees.value[first, 1]
            low_0 = low_0 + trees.value[first, 0]
            low_1 = low_1 + trees.value[last, 1]
            high_0 = high_0 + trees.value[last, 0]
            scratch.first[t] = first
            scratch.last[t] = last
            spread = (trees.value[first, 1] - trees.value[last, 1]) + (trees.value[last, 0] - trees.value[first, 0])
            scratch.spread[t] = spread
            largest = max(largest, spread)
        sum_low[0], sum_high[0], sum_low[1], sum_high[1] = low_0, high_0, low_1, high_1
        return largest
    for t in range(len(trees.tree_output)):
        begin = trees.word_start[t]
        end = trees.word_start[t + 1]
        w = begin
        while stack.mask[d, w] == 0:
            w += 1
        first = 64 * w + np.int64(trailing_zeros(stack.mask[d, w]))
        w = end - 1
        while stack.mask[d, w] == 0:
            w -= 1
        last = 64 * w + 63 - np.int64(leading_zeros(stack.mask[d, w]))
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
            spread += np.float64(scratch.high[c]) - np.float64(scratch.low[c])
        scratch.first[t] = first
        scratch.last[t] = last
        scratch.spread[t] = spread
        largest = max(largest, spread)
    return largest


@helper
def outlook_of(rule, label, low, high, raw_low, raw_high):
    """Bit 0: `label` is possible between the bounds; bit 1: some other label is possible."""
    if rule.mode == THRESHOLD:
        one = 1 if high[rule.output] >= rule.bound else 0
        zero = 1 if low[rule.output] < rule.bound else 0
        return one + 2 * zero if label == 1 else zero + 2 * one
    post_sums(rule, low, raw_low)
    post_sums(rule, high, raw_high)
    if rule.mode == CLASS:
        possible = 1
        other = 0
        for j in range(len(raw_low)):
            if j == label:
                continue
            if surely_beats(rule, j, raw_low[j], label, raw_high[label]):
                possible = 0
            if not surely_beats(rule, label, raw_low[label], j, raw_high[j]):
                other = 2
        return possible + other
    k = rule.output
    one = 1 if softmax_of(raw_high[k], raw_low, k) >= rule.bound - rule.slack else 0
    zero = 1 if softmax_of(raw_low[k], raw_high, k) < rule.bound + rule.slack else 0
    return one + 2 * zero if label == 1 else zero + 2 * one
