"""Ensemble search, compiled: which split a node is branched on, and its two sides."""

from __future__ import annotations

import numpy as np

from gpucf._cells import ORDERED
from gpucf._jit import inline
from gpucf._search_node import keep_range, keep_row, keep_sets, node_cost, range_price, word_price

# Trees whose leaf range is at least this share of the largest take part in branching.
SHARE_OF_LARGEST = 0.3
FEW_VOTES_SHARE = 0.7
FLOOR = 0.1  # weight of a split whose sides cost the same


@inline
def _side_price(d, s, is_left, own, space, stack, scratch):
    """Least price of the split's feature on one side of the split; inf where the side is empty."""
    j = space.split_feature[s]
    least = np.inf
    if space.kind[j] == ORDERED:
        cut = np.int64(space.split_cut[s])
        lo = np.int64(stack.lo[d, j])
        hi = np.int64(stack.hi[d, j])
        if is_left:
            hi = min(hi, cut)
        else:
            lo = max(lo, cut + 1)
        if lo <= hi:
            least = range_price(j, lo, hi, np.int64(own[j]), space, scratch)
        if stack.null[d, j] != 0 and space.split_missing_left[s] == is_left:
            least = min(least, scratch.price[space.code_start[j + 1] - 1])
        return least
    for w in range(space.set_start[j], space.set_start[j + 1]):
        goes_left = space.set_words[space.split_set[s], w - space.set_start[j]]
        members = stack.sets[d, w] & (goes_left if is_left else ~goes_left)
        least = min(least, word_price(j, w, members, space, scratch.price))
    return least


@inline
def _dearer_side(d, s, j, own, space, stack, scratch):
    """The larger of the two least prices of the split's feature on either side of the split."""
    if space.kind[j] == ORDERED and stack.null[d, j] == 0 and not scratch.irregular[j]:
        cut = np.int64(space.split_cut[s])
        mine = np.int64(own[j])
        if mine <= cut:
            nearest = min(max(mine, cut + 1), np.int64(stack.hi[d, j]))
        else:
            nearest = max(min(mine, cut), np.int64(stack.lo[d, j]))
        return scratch.price[space.code_start[j] + nearest]
    return max(
        _side_price(d, s, True, own, space, stack, scratch), _side_price(d, s, False, own, space, stack, scratch)
    )


@inline
def _sides(d, s, space, stack):
    """Which sides of a split the box reaches: bit 0 left, bit 1 right."""
    j = space.split_feature[s]
    left = False
    right = False
    if space.kind[j] == ORDERED:
        lo = stack.lo[d, j]
        hi = stack.hi[d, j]
        cut = space.split_cut[s]
        if lo <= hi:
            left = lo <= cut
            right = hi > cut
        if stack.null[d, j] != 0:
            if space.split_missing_left[s]:
                left = True
            else:
                right = True
    else:
        for w in range(space.set_start[j], space.set_start[j + 1]):
            goes_left = space.set_words[space.split_set[s], w - space.set_start[j]]
            left |= stack.sets[d, w] & goes_left != 0
            right |= stack.sets[d, w] & ~goes_left != 0
    return np.int64(left) + 2 * np.int64(right)


@inline
def _open_node(d, node, space, trees, stack):
    """The first node from `node` on down that the box reaches both sides of."""
    while True:
        j = np.int64(trees.step[node, 0])
        if space.kind[j] == ORDERED and stack.null[d, j] == 0:
            cut = trees.step[node, 1]
            if stack.hi[d, j] <= cut:
                sides = 1
            elif stack.lo[d, j] > cut:
                sides = 2
            else:
                return node
        else:
            sides = _sides(d, np.int64(trees.node_split[node]), space, stack)
            if sides == 3:
                return node
        node = np.int64(trees.step[node, 1 + sides])


@inline
def pick_split(d, few, budget, largest, own, space, trees, stack, scratch):
    """The undecided split to branch on.

    The first trees with a large leaf range, at most as many as there are features, vote for the first split on their
    way down that the box reaches both sides of, with (leaf range) x (0.1 + what the dearer side adds / what is left of
    the budget). The feature with the most votes is cut at their weighted median, a categorical one at its heaviest
    split.
    """
    left_over = budget - stack.cost[d]
    rate = 1.0 / left_over if 1e-300 < left_over < np.inf else 0.0
    least = (FEW_VOTES_SHARE if few else SHARE_OF_LARGEST) * largest
    n_touched = 0
    votes = 0
    feature = np.int64(0)
    most = 0.0
    for t in range(len(trees.tree_output)):
        spread = scratch.spread[t]
        # A share of the smallest denormal rounds to 0, and a tree without a range has no open split.
        if spread <= 0.0 or spread < least:
            continue
        votes += 1
        if votes > len(space.kind):
            break
        node = _open_node(d, np.int64(stack.node[d, t]), space, trees, stack)
        stack.node[d, t] = node
        s = np.int64(trees.node_split[node])
        j = np.int64(trees.step[node, 0])
        if scratch.weight[s] == 0.0:
            extra = _dearer_side(d, s, j, own, space, stack, scratch) - stack.feature_price[d, j]
            scratch.factor[s] = FLOOR + min(extra * rate, 1.0) if rate > 0.0 else FLOOR
            scratch.touched[n_touched] = s
            n_touched += 1
        vote = spread * scratch.factor[s]
        scratch.weight[s] += vote
        weight = scratch.feature_weight[j] + vote
        scratch.feature_weight[j] = weight
        if weight > most:
            most = weight
            feature = j
    best = np.int64(scratch.touched[0])
    if space.kind[feature] == ORDERED and stack.null[d, feature] == 0:
        half = 0.5 * most
        total = 0.0
        first = space.code_start[feature]
        for i in range(space.cut_start[first + stack.lo[d, feature]], space.cut_start[first + stack.hi[d, feature]]):
            s = np.int64(space.by_cut[i])
            if scratch.weight[s] > 0.0:
                total += scratch.weight[s]
                best = s
                if total >= half:
                    break
    else:
        for i in range(n_touched):
            s = scratch.touched[i]
            if space.split_feature[s] == feature and (
                space.split_feature[best] != feature or scratch.weight[s] > scratch.weight[best]
            ):
                best = s
    for i in range(n_touched):
        s = scratch.touched[i]
        scratch.weight[s] = 0.0
        scratch.feature_weight[space.split_feature[s]] = 0.0
    return best


@inline
def _cut(d, s, is_left, space, trees, stack):
    """Keep of node `d` what goes to one side of split `s`."""
    j = space.split_feature[s]
    if space.kind[j] != ORDERED:
        for w in range(space.set_start[j], space.set_start[j + 1]):
            goes_left = space.set_words[space.split_set[s], w - space.set_start[j]]
            stack.sets[d, w] &= goes_left if is_left else ~goes_left
        keep_sets(d, j, space, trees, stack)
        return
    cut = np.int64(space.split_cut[s])
    lo = np.int64(stack.lo[d, j])
    hi = np.int64(stack.hi[d, j])
    new_lo = lo if is_left else max(lo, cut + 1)
    new_hi = min(hi, cut) if is_left else hi
    null_goes = stack.null[d, j] != 0 and space.split_missing_left[s] != is_left
    if null_goes:
        stack.null[d, j] = 0
    if new_lo > new_hi:
        stack.lo[d, j] = 1
        stack.hi[d, j] = 0
        keep_row(d, space.code_start[j + 1] - 1, trees, stack)
        return
    stack.lo[d, j] = new_lo
    stack.hi[d, j] = new_hi
    keep_range(d, j, null_goes or new_lo > lo, null_goes or new_hi < hi, space, trees, stack)


@inline
def branch_node(d, s, is_max, own, space, trees, stack, scratch):
    """Replace node `d` by its two sides: the dearer one in its place, the nearer one on top."""
    j = space.split_feature[s]
    left = _side_price(d, s, True, own, space, stack, scratch)
    right = _side_price(d, s, False, own, space, stack, scratch)
    left_is_near = left <= right
    for f in range(len(space.kind)):
        stack.lo[d + 1, f] = stack.lo[d, f]
        stack.hi[d + 1, f] = stack.hi[d, f]
        stack.null[d + 1, f] = stack.null[d, f]
        stack.feature_price[d + 1, f] = stack.feature_price[d, f]
    stack.clipped[d + 1, 0] = stack.clipped[d, 0]
    stack.clipped[d + 1, 1] = stack.clipped[d, 1]
    for w in range(stack.sets.shape[1]):
        stack.sets[d + 1, w] = stack.sets[d, w]
    for w in range(stack.mask.shape[1]):
        stack.mask[d + 1, w] = stack.mask[d, w]
    for t in range(stack.node.shape[1]):
        stack.node[d + 1, t] = stack.node[d, t]
    for turn in range(2):
        is_left = left_is_near == (turn == 1)
        _cut(d + turn, s, is_left, space, trees, stack)
        stack.feature_price[d + turn, j] = left if is_left else right
        stack.cost[d + turn] = node_cost(d + turn, is_max, stack)
