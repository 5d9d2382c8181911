"""Ensemble search, compiled: what is done to one node: start, clip, key, choice of a split, branching."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._cells import ORDERED
from gpucf._jit import helper, inline
from gpucf._keys import best_in_range, better_code
from gpucf._labels import ASK, label_of_sums

SHARE_OF_LARGEST = 0.6  # trees whose leaf range is at least this share of the largest take part in branching
FLOOR = 0.2  # weight of a split whose sides cost the same
EPS = 2.220446049250313e-16


@inline
def _range_price(j, lo, hi, own, space, price):
    """Least price of the codes ``lo..hi`` of an ordered feature."""
    first = space.code_start[j]
    if not space.has_gaps[j]:
        return price[first + min(max(own, lo), hi)]
    least = np.inf
    for code in range(lo, hi + 1):
        least = min(least, price[first + code])
    return least


@inline
def _word_price(j, w, members, space, price):
    """Least price of the categories in set word `w` of feature `j`."""
    first = space.code_start[j] + 64 * (w - space.set_start[j])
    least = np.inf
    while members != 0:
        least = min(least, price[first + np.int64(trailing_zeros(members))])
        members &= members - np.uint64(1)
    return least


@inline
def _total(d, is_max, stack):
    """Cost of a node: least prices in feature order, one rounding after another (design, rule 6)."""
    total = 0.0
    for j in range(stack.feature_price.shape[1]):
        p = stack.feature_price[d, j]
        total = max(total, p) if is_max else total + p
    return total


@helper
def start_node(own, space, trees, stack):
    """Row 0 of the stack: every code, but a missing value stays missing and no other becomes it."""
    some_missing = False
    for j in range(len(space.kind)):
        some_missing = some_missing or own[j] == space.code_start[j + 1] - space.code_start[j] - 1
    for w in range(len(trees.full)):
        stack.mask[0, w] = trees.full[w] if some_missing else trees.none_missing[w]
    for j in range(len(space.kind)):
        stack.feature_price[0, j] = 0.0
        first = space.code_start[j]
        missing = space.code_start[j + 1] - first - 1
        is_missing = own[j] == missing
        stack.lo[0, j] = missing if is_missing else 0
        stack.hi[0, j] = missing if is_missing else missing - 1
        if is_missing:
            for w in range(len(trees.full)):
                stack.mask[0, w] &= trees.at_least[first + missing, w]
        elif some_missing:
            for w in range(len(trees.full)):
                stack.mask[0, w] &= trees.non_missing[j, w]
        for w in range(space.set_start[j], space.set_start[j + 1]):
            base = 64 * (w - space.set_start[j])
            stack.sets[0, w] = np.uint64(0)
            for code in range(base, min(base + 64, missing + 1)):
                if (code == missing) == is_missing:
                    stack.sets[0, w] |= np.uint64(1) << np.uint64(code & 63)
    stack.cost[0] = 0.0


@inline
def _and_sets(d, j, space, trees, stack):
    """Restrict the reachable leaves to those that some category in the set of feature `j` leaves reachable."""
    first = space.code_start[j]
    for i in range(len(trees.full)):
        reachable = np.uint64(0)
        for w in range(space.set_start[j], space.set_start[j + 1]):
            members = stack.sets[d, w]
            base = first + 64 * (w - space.set_start[j])
            while members != 0:
                reachable |= trees.at_least[base + np.int64(trailing_zeros(members)), i]
                members &= members - np.uint64(1)
        stack.mask[d, i] &= reachable


@helper
def clip_node(d, budget, is_max, own, space, trees, stack, price, excluded):
    """Drop the codes that cost more than the budget from where the box stands; a filter that errs on keeping.

    ``excluded[0]`` becomes at most the cost of anything that was dropped.
    """
    cost = stack.cost[d]
    n_features = len(space.kind)
    slack = 4.0 * n_features * EPS * budget if budget < np.inf else 0.0
    for j in range(n_features):
        rest = 0.0 if is_max else cost - stack.feature_price[d, j]
        limit = budget - rest + slack
        first = space.code_start[j]
        dropped = np.inf
        if space.kind[j] == ORDERED:
            lo = np.int64(stack.lo[d, j])
            hi = np.int64(stack.hi[d, j])
            if lo == hi:
                continue
            nearest = min(max(np.int64(own[j]), lo), hi)
            new_hi, new_lo = hi, lo
            if space.has_gaps[j]:
                while new_hi > nearest and not price[first + new_hi] <= limit:
                    dropped = min(dropped, price[first + new_hi])
                    new_hi -= 1
                while new_lo < nearest and not price[first + new_lo] <= limit:
                    dropped = min(dropped, price[first + new_lo])
                    new_lo += 1
            else:
                if not _payable(price[first + hi], limit):
                    below, above = nearest, hi  # prices rise: the last payable code lies in [below, above)
                    while above - below > 1:
                        middle = (below + above) >> 1
                        if _payable(price[first + middle], limit):
                            below = middle
                        else:
                            above = middle
                    dropped = min(dropped, price[first + above])
                    new_hi = below
                if not _payable(price[first + lo], limit):
                    below, above = lo, nearest
                    while above - below > 1:
                        middle = (below + above) >> 1
                        if _payable(price[first + middle], limit):
                            above = middle
                        else:
                            below = middle
                    dropped = min(dropped, price[first + below])
                    new_lo = above
            if new_hi < hi:
                stack.hi[d, j] = new_hi
                for w in range(len(trees.full)):
                    stack.mask[d, w] &= trees.at_most[first + new_hi, w]
            if new_lo > lo:
                stack.lo[d, j] = new_lo
                for w in range(len(trees.full)):
                    stack.mask[d, w] &= trees.at_least[first + new_lo, w]
        else:
            changed = False
            for w in range(space.set_start[j], space.set_start[j + 1]):
                members = stack.sets[d, w]
                base = first + 64 * (w - space.set_start[j])
                while members != 0:
                    bit = members & (~members + np.uint64(1))
                    p = price[base + np.int64(trailing_zeros(members))]
                    members &= members - np.uint64(1)
                    if not _payable(p, limit) and p > stack.feature_price[d, j]:
                        stack.sets[d, w] &= ~bit
                        dropped = min(dropped, p)
                        changed = True
            if changed:
                _and_sets(d, j, space, trees, stack)
        if dropped < np.inf:
            total = max(cost, dropped) if is_max else rest + dropped
            excluded[0] = min(excluded[0], total * (1.0 - 4.0 * n_features * EPS))


@inline
def _payable(p, limit):
    return p <= limit and p < np.inf


@helper
def node_key(d, own, space, stack, price, displacement, codes):
    """Codes of the nearest point of a node, written to `codes`; returns the sum of displacements."""
    total = 0.0
    for j in range(len(space.kind)):
        first = space.code_start[j]
        mine = np.int64(own[j])
        missing = space.code_start[j + 1] - first - 1
        if space.kind[j] == ORDERED:
            code = best_in_range(j, np.int64(stack.lo[d, j]), np.int64(stack.hi[d, j]), mine, space.code_start,
                                 space.has_gaps, price, displacement)  # fmt: skip
        else:
            code = -1
            for w in range(space.set_start[j], space.set_start[j + 1]):
                members = stack.sets[d, w]
                while members != 0:
                    c = 64 * (w - space.set_start[j]) + np.int64(trailing_zeros(members))
                    members &= members - np.uint64(1)
                    if code < 0 or better_code(c, code, mine, missing, False, first, price, displacement):
                        code = c
        codes[j] = code
        total += displacement[first + code]
    return total


@inline
def _side_price(d, s, is_left, own, space, stack, price):
    """Least price of the split's feature on one side of the split."""
    j = space.split_feature[s]
    if space.kind[j] == ORDERED:
        cut = np.int64(space.split_cut[s])
        lo = np.int64(stack.lo[d, j])
        hi = np.int64(stack.hi[d, j])
        if is_left:
            return _range_price(j, lo, min(hi, cut), np.int64(own[j]), space, price)
        return _range_price(j, max(lo, cut + 1), hi, np.int64(own[j]), space, price)
    least = np.inf
    for w in range(space.set_start[j], space.set_start[j + 1]):
        goes_left = space.set_words[space.split_set[s], w - space.set_start[j]]
        members = stack.sets[d, w] & (goes_left if is_left else ~goes_left)
        least = min(least, _word_price(j, w, members, space, price))
    return least


@helper
def pick_split(d, budget, largest, own, space, trees, stack, scratch):
    """The undecided split to branch on.

    A tree votes for the split at which the paths to its first and its last reachable leaf part, which the box reaches
    on both sides. The sum over trees of (leaf range) x (0.2 + what the dearer side adds / what is left of the budget)
    decides; only trees with a large range take part.
    """
    left_over = budget - stack.cost[d]
    n_touched = 0
    best = -1
    best_weight = 0.0
    for t in range(len(trees.tree_output)):
        spread = scratch.spread[t]
        if spread < SHARE_OF_LARGEST * largest:
            continue
        a = np.int64(trees.leaf_node[scratch.first[t]])
        b = np.int64(trees.leaf_node[scratch.last[t]])
        while a != b:
            if trees.depth[a] >= trees.depth[b]:
                a = np.int64(trees.parent[a])
            else:
                b = np.int64(trees.parent[b])
        s = trees.node_split[a]
        if scratch.weight[s] == 0.0:
            far = max(
                _side_price(d, s, True, own, space, stack, scratch.price),
                _side_price(d, s, False, own, space, stack, scratch.price),
            )
            extra = far - stack.feature_price[d, space.split_feature[s]]
            scratch.factor[s] = FLOOR + (min(extra / left_over, 1.0) if 0.0 < left_over < np.inf else 0.0)
            scratch.touched[n_touched] = s
            n_touched += 1
        scratch.weight[s] += spread * scratch.factor[s]
        if best < 0 or scratch.weight[s] > best_weight:  # the weight of a denormal range may be 0
            best_weight = scratch.weight[s]
            best = s
    for i in range(n_touched):
        scratch.weight[scratch.touched[i]] = 0.0
    return best


@inline
def _cut(d, s, is_left, space, trees, stack):
    """Keep of node `d` what goes to one side of split `s`."""
    j = space.split_feature[s]
    first = space.code_start[j]
    if space.kind[j] == ORDERED:
        if is_left:
            stack.hi[d, j] = min(stack.hi[d, j], space.split_cut[s])
            row = first + np.int64(stack.hi[d, j])
            for w in range(len(trees.full)):
                stack.mask[d, w] &= trees.at_most[row, w]
        else:
            stack.lo[d, j] = max(stack.lo[d, j], space.split_cut[s] + 1)
            row = first + np.int64(stack.lo[d, j])
            for w in range(len(trees.full)):
                stack.mask[d, w] &= trees.at_least[row, w]
        return
    for w in range(space.set_start[j], space.set_start[j + 1]):
        goes_left = space.set_words[space.split_set[s], w - space.set_start[j]]
        stack.sets[d, w] &= goes_left if is_left else ~goes_left
    _and_sets(d, j, space, trees, stack)


@helper
def branch_node(d, s, is_max, own, space, trees, stack, price):
    """Replace node `d` by its two sides: the dearer one in its place, the nearer one on top."""
    j = space.split_feature[s]
    left = _side_price(d, s, True, own, space, stack, price)
    right = _side_price(d, s, False, own, space, stack, price)
    left_is_near = left <= right
    for f in range(len(space.kind)):
        stack.lo[d + 1, f] = stack.lo[d, f]
        stack.hi[d + 1, f] = stack.hi[d, f]
        stack.feature_price[d + 1, f] = stack.feature_price[d, f]
    for w in range(stack.sets.shape[1]):
        stack.sets[d + 1, w] = stack.sets[d, w]
    for w in range(stack.mask.shape[1]):
        stack.mask[d + 1, w] = stack.mask[d, w]
    for turn in range(2):
        is_left = left_is_near == (turn == 1)
        _cut(d + turn, s, is_left, space, trees, stack)
        stack.feature_price[d + turn, j] = left if is_left else right
        stack.cost[d + turn] = _total(d + turn, is_max, stack)


@helper
def settled_label(rule, d, space, stack, sums, raw, asked, asked_label, codes):
    """Label of a node whose sums are settled: exact, or known from an earlier question, or ASK.

    The label of a settled node is that of any of its points; its first point stands for it in questions.
    """
    label = label_of_sums(rule, sums, raw)
    if label != ASK:
        return label
    for j in range(len(space.kind)):
        codes[j] = stack.lo[d, j]
        if space.kind[j] != ORDERED:
            for w in range(space.set_start[j + 1] - 1, space.set_start[j] - 1, -1):
                if stack.sets[d, w] != 0:
                    codes[j] = 64 * (w - space.set_start[j]) + np.int64(trailing_zeros(stack.sets[d, w]))
    for i in range(len(asked_label)):
        same = True
        for j in range(len(space.kind)):
            same = same and asked[i, j] == codes[j]
        if same:
            return np.int64(asked_label[i])
    return ASK
