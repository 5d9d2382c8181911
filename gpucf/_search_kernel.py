"""Ensemble search, compiled: branch and bound on the trees themselves, one row at a time (design, section 7).

A node is a box of codes with its cost and, for each tree, the leaves that the box can still reach. Looking at a node:
drop it if its key cannot beat the best; *clip* every feature to the codes that the budget can still pay; *bound* the
score by the library's own sum over the best and worst reachable leaves; then drop it, take its nearest point as the new
best, or *branch* on an undecided split. A pass with a budget that ends without an answer proves that every answer costs
more; the next pass has a larger budget (*deepening*).

All arrays come from the caller (`gpucf._search`), so that nothing here counts references.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros

from gpucf._cells import ORDERED
from gpucf._costs import fill_tables
from gpucf._ensemble import VECTOR_LEAF
from gpucf._jit import helper, inline, njit
from gpucf._keys import best_in_range, better_code, comes_first
from gpucf._labels import ASK, CLASS, THRESHOLD, label_of_sums, post_sums, softmax_of, surely_beats

INFEASIBLE, OPTIMAL, LIMIT, ASKED, TOO_DEEP = 0, 1, 2, 3, 4
GROWTH = 1.7
SHARE_OF_LARGEST = 0.6  # trees whose leaf range is at least this share of the largest take part in branching
GUESS = 0.5  # of the usual cost of earlier rows: the first budget
FLOOR = 0.2  # weight of a split whose sides cost the same
EPS = 2.220446049250313e-16


class Space(NamedTuple):
    """Features and splits (see `Cells`); `set_start` counts words of categorical features only."""

    kind: Any
    code_start: Any
    set_start: Any
    has_gaps: Any
    split_feature: Any
    split_cut: Any
    split_set: Any
    split_missing_left: Any
    set_words: Any


class Trees(NamedTuple):
    """Trees and leaf masks (see `Ensemble` and `LeafMasks`).

    ``non_missing`` holds, by feature, the leaves that some code other than "missing" leaves reachable, ``none_missing``
    those that are so for all features. ``leaf_node`` is the node of each leaf bit; ``parent`` and ``depth`` are by
    node. ``sorted_leaves``: in every tree all outputs are monotone along the leaves, so that the first and the last
    reachable leaf hold the extremes of every output.
    ``one_word``: one output, and no tree has more than 64 leaves.
    """

    tree_start: Any
    left: Any
    right: Any
    node_split: Any
    word_start: Any
    at_least: Any
    at_most: Any
    full: Any
    non_missing: Any
    none_missing: Any
    value: Any
    leaf_node: Any
    parent: Any
    depth: Any
    tree_output: Any
    base: Any
    sorted_leaves: Any
    one_word: Any


class Prices(NamedTuple):
    """What moves cost (see `CostModel`)."""

    cost: Any
    is_max: Any
    cell_lo: Any
    cell_hi: Any
    weight: Any
    scale: Any
    may_rise: Any
    may_fall: Any


class Stack(NamedTuple):
    """Open nodes, one row each: ranges, set words, reachable leaves, least price of each feature, cost."""

    lo: Any
    hi: Any
    sets: Any
    mask: Any
    feature_price: Any
    cost: Any


class Scratch(NamedTuple):
    """Work space of one thread."""

    price: Any
    displacement: Any
    low: Any
    high: Any
    spread: Any
    first: Any
    last: Any
    sum_low: Any
    sum_high: Any
    raw_low: Any
    raw_high: Any
    weight: Any
    factor: Any
    touched: Any
    codes: Any
    best: Any
    excluded: Any
    usual: Any


class Rows(NamedTuple):
    """What comes in and goes out, by row.

    ``label`` is the wanted label, or with ``negate`` the unwanted one; ``bound`` a certified lower bound to start
    from. ``question`` is the point whose label must be asked; ``asked`` and ``asked_label`` hold those that the
    library's arithmetic has told.
    """

    own: Any
    values: Any
    label: Any
    negate: Any
    status: Any
    codes: Any
    cost: Any
    bound: Any
    nodes: Any
    question: Any
    asked: Any
    asked_label: Any


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
def _start_node(own, space, trees, stack):
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
def _clip(d, budget, is_max, own, space, trees, stack, price, excluded):
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
def _bound(d, trees, stack, scratch):
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
def _outlook(rule, label, low, high, raw_low, raw_high):
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


@helper
def _node_key(d, own, space, stack, price, displacement, codes):
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
def _precedes(codes, total, best, best_total, own, space, price, displacement):
    """Whether a key of the same cost stands before the best key."""
    if total != best_total:
        return total < best_total
    for j in range(len(space.kind)):
        if codes[j] != best[j]:
            missing = space.code_start[j + 1] - space.code_start[j] - 1
            return comes_first(np.int64(codes[j]), np.int64(best[j]), np.int64(own[j]), missing,
                               space.kind[j] == ORDERED, space.code_start[j], price, displacement)  # fmt: skip
    return False


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
def _pick_split(d, budget, largest, own, space, trees, stack, scratch):
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
def _branch(d, s, is_max, own, space, trees, stack, price):
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
def _settled_label(rule, d, space, stack, sums, raw, asked, asked_label, codes):
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


@helper
def _search_row(row, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows):
    """Answer one row; see `Rows` for what is written.

    A run that ends in a question or in want of a deeper stack leaves no trace but that: the next one then takes the
    same way as if the answer had been known, so that a limited answer does not depend on the other rows of the table.
    """
    own = rows.own[row]
    price = scratch.price
    displacement = scratch.displacement
    fill_tables(
        prices.cost, own, rows.values[row], space.kind, space.code_start, prices.cell_lo, prices.cell_hi,
        prices.weight, prices.scale, prices.may_rise, prices.may_fall, price, displacement,
    )  # fmt: skip
    best_cost = rows.cost[row]
    best_total = np.inf
    if best_cost < np.inf:
        best_total = 0.0
        for j in range(len(own)):
            scratch.best[j] = rows.codes[row, j]
            best_total += displacement[space.code_start[j] + scratch.best[j]]
    wanted = 1
    if rows.negate[row]:
        wanted = 2
    nodes = rows.nodes[row]
    bound = rows.bound[row]
    budget = bound
    if budget <= 0.0:
        budget = np.inf
        for code in range(space.code_start[-1]):
            if 0.0 < price[code] < budget:
                budget = price[code]
        # What rows before this one cost: most rows then need few passes, and passes decide nothing but the work.
        budget = max(budget, GUESS * scratch.usual[0])
    status = LIMIT
    while status == LIMIT:
        _start_node(own, space, trees, stack)
        scratch.excluded[0] = np.inf
        d = 0
        while d >= 0:
            if nodes >= node_limit or stop[0] != 0:
                break
            nodes += 1
            cost = stack.cost[d]
            if cost > best_cost or cost == np.inf:
                d -= 1
                continue
            if cost > budget:
                scratch.excluded[0] = min(scratch.excluded[0], cost)
                d -= 1
                continue
            if cost == best_cost:
                total = _node_key(d, own, space, stack, price, displacement, scratch.codes)
                if not _precedes(scratch.codes, total, scratch.best, best_total, own, space, price, displacement):
                    d -= 1
                    continue
            _clip(d, min(budget, best_cost), prices.is_max, own, space, trees, stack, price, scratch.excluded)
            largest = _bound(d, trees, stack, scratch)
            outlook = _outlook(
                rule, rows.label[row], scratch.sum_low, scratch.sum_high, scratch.raw_low, scratch.raw_high
            )
            if outlook & wanted == 0:
                d -= 1
                continue
            s = -1
            if outlook & (3 - wanted) != 0:
                if largest > 0.0:
                    s = _pick_split(d, min(budget, best_cost), largest, own, space, trees, stack, scratch)
                else:
                    label = _settled_label(rule, d, space, stack, scratch.sum_low, scratch.raw_low, rows.asked,
                                           rows.asked_label, scratch.codes)  # fmt: skip
                    if label == ASK:
                        for j in range(len(own)):
                            rows.question[row, j] = scratch.codes[j]
                        return ASKED
                    if (label == rows.label[row]) == rows.negate[row]:
                        d -= 1
                        continue
            if s < 0:
                total = _node_key(d, own, space, stack, price, displacement, scratch.codes)
                if cost < best_cost or _precedes(
                    scratch.codes, total, scratch.best, best_total, own, space, price, displacement
                ):
                    best_cost = cost
                    best_total = total
                    for j in range(len(own)):
                        scratch.best[j] = scratch.codes[j]
                d -= 1
                continue
            if d + 2 > len(stack.cost) - 1:
                return TOO_DEEP
            _branch(d, s, prices.is_max, own, space, trees, stack, price)
            d += 1
        if d >= 0:
            break
        if best_cost < np.inf and best_cost <= budget:
            status = OPTIMAL
        elif scratch.excluded[0] == np.inf:
            status = OPTIMAL if best_cost < np.inf else INFEASIBLE
        else:
            # Everything left out costs at least `excluded`; an answer from elsewhere may be cheaper than that.
            bound = max(bound, min(scratch.excluded[0], best_cost))
            budget = min(max(budget * GROWTH, scratch.excluded[0] * (1.0 + 1e-9)), best_cost)
    if best_cost < np.inf:
        for j in range(len(own)):
            rows.codes[row, j] = scratch.best[j]
        rows.cost[row] = best_cost
        if status == OPTIMAL:
            bound = best_cost
            if learn:
                scratch.usual[0] += 0.2 * (best_cost - scratch.usual[0])
    elif status == INFEASIBLE:
        bound = np.inf
    rows.bound[row] = bound
    rows.nodes[row] = nodes
    return status


@njit
def search_rows(which, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows):
    """Answer the rows `which` until they have taken `node_limit` nodes, earlier runs included.

    A non-zero ``stop[0]`` ends at once; rows then have the status LIMIT, as before, with what was found and proved.
    With `learn`, first budgets follow the costs of earlier rows, so that the nodes of a row depend on the order.
    """
    for row in which:
        if stop[0] != 0:
            return
        rows.status[row] = _search_row(row, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows)
