"""Ensemble search, compiled: a node as a box of codes: its start, clip, key, and its label once settled."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._cells import ORDERED
from gpucf._jit import helper, inline
from gpucf._keys import best_in_range, better_code, key_precedes
from gpucf._labels import ASK, label_of_sums

EPS = 2.220446049250313e-16


@inline
def survey_prices(prices, own, space, scratch):
    """What a row's tables say of whole features: see `Scratch`.

    Prices and displacements that rise away from the row's own code are least at the code nearest to it; where one of
    them does not, a range has to be searched through (design, section 5). Those that `fill_tables` makes without
    further ado rise by construction, so that only the neighbours of the own code are looked at.
    """
    price = scratch.price
    displacement = scratch.displacement
    for j in range(len(space.kind)):
        first = space.code_start[j]
        last = space.code_start[j + 1] - 1
        mine = first + own[j]
        dearest = 0.0
        cheapest = np.inf
        irregular = False
        if space.kind[j] != ORDERED:
            for code in range(first, last + 1):
                if price[code] < np.inf:
                    dearest = max(dearest, price[code])
                    if code != mine:
                        cheapest = min(cheapest, price[code])
        elif space.gapless[j] and not prices.special[j] and len(prices.barred) == 0:
            code = mine - 1
            while code > first and price[code] == 0.0:
                code -= 1
            if code >= first and price[code] > 0.0:
                cheapest = price[code]
            code = mine + 1
            while code < last and price[code] == 0.0:
                code += 1
            if code < last and price[code] > 0.0:
                cheapest = min(cheapest, price[code])
        else:
            if mine == last:
                for code in range(first, last):
                    irregular = irregular or price[code] < np.inf
            else:
                for code in range(first, mine):
                    irregular |= price[code] < price[code + 1] or displacement[code] < displacement[code + 1]
                for code in range(mine, last - 1):
                    irregular |= price[code] > price[code + 1] or displacement[code] > displacement[code + 1]
            for code in range(first, last + 1):
                if 0.0 < price[code] < cheapest:
                    cheapest = price[code]
        scratch.irregular[j] = irregular
        scratch.dearest[j] = dearest
        scratch.cheapest[j] = cheapest


@inline
def range_price(j, lo, hi, own, space, scratch):
    """Least price of the codes ``lo..hi`` (lo <= hi) of an ordered feature."""
    first = space.code_start[j]
    if not scratch.irregular[j]:
        return scratch.price[first + min(max(own, lo), hi)]
    least = np.inf
    for code in range(lo, hi + 1):
        least = min(least, scratch.price[first + code])
    return least


@inline
def word_price(j, w, members, space, price):
    """Least price of the categories in set word `w` of feature `j`."""
    first = space.code_start[j] + 64 * (w - space.set_start[j])
    least = np.inf
    while members != 0:
        least = min(least, price[first + np.int64(trailing_zeros(members))])
        members &= members - np.uint64(1)
    return least


@inline
def keep_row(d, row, trees, stack):
    """Keep of node `d` the leaves of one row of `at_least` that "missing", or a single category, leaves reachable."""
    _and_row(d, row, trees.at_least, stack.mask)


# Called, not inlined, and with no more arrays than they need: every array costs seven words a call.
@helper
def _and_row(d, row, table, mask):
    for w in range(mask.shape[1]):
        mask[d, w] &= table[row, w]


@helper
def _and_row_or(d, row, table, other, others, mask):
    for w in range(mask.shape[1]):
        mask[d, w] &= table[row, w] | others[other, w]


@inline
def keep_range(d, j, lo_moved, hi_moved, space, trees, stack):
    """Keep the leaves that the range of an ordered feature, and "missing" where that is in, leave reachable.

    Masks of ends and of "missing" may be joined one after another, since (A | M) & (B | M) = (A & B) | M.
    """
    first = space.code_start[j]
    missing = space.code_start[j + 1] - 1
    if hi_moved:
        row = first + np.int64(stack.hi[d, j])
        if stack.null[d, j]:
            _and_row_or(d, row, trees.at_most, missing, trees.at_least, stack.mask)
        else:
            _and_row(d, row, trees.at_most, stack.mask)
    if lo_moved:
        row = first + np.int64(stack.lo[d, j])
        if stack.null[d, j]:
            _and_row_or(d, row, trees.at_least, missing, trees.at_least, stack.mask)
        else:
            _and_row(d, row, trees.at_least, stack.mask)


@inline
def keep_sets(d, j, space, trees, stack):
    """Restrict the reachable leaves to those that some category in the set of feature `j` leaves reachable."""
    _keep_sets(
        d, space.code_start[j], space.set_start[j], space.set_start[j + 1], stack.sets, trees.at_least, stack.mask
    )


@helper
def _keep_sets(d, first, begin, end, sets, at_least, mask):
    for i in range(mask.shape[1]):
        reachable = np.uint64(0)
        for w in range(begin, end):
            members = sets[d, w]
            base = first + 64 * (w - begin)
            while members != 0:
                reachable |= at_least[base + np.int64(trailing_zeros(members)), i]
                members &= members - np.uint64(1)
        mask[d, i] &= reachable


@inline
def node_cost(d, is_max, stack):
    """Cost of a node: least prices in feature order, one rounding after another (design, rule 6)."""
    total = 0.0
    for j in range(stack.feature_price.shape[1]):
        p = stack.feature_price[d, j]
        total = max(total, p) if is_max else total + p
    return total


@inline
def start_node(is_max, own, space, trees, stack, scratch):
    """Row 0 of the stack: every code that has a finite price, or that lies between such codes."""
    price = scratch.price
    some_missing = False
    for j in range(len(space.kind)):
        some_missing |= price[space.code_start[j + 1] - 1] < np.inf
    for w in range(len(trees.full)):
        stack.mask[0, w] = trees.full[w] if some_missing else trees.none_missing[w]
    for t in range(len(trees.tree_output)):
        stack.node[0, t] = trees.tree_start[t]
    for j in range(len(space.kind)):
        first = space.code_start[j]
        last = space.code_start[j + 1] - 1
        least = price[first + own[j]]  # 0, or inf where the feature must change
        if least > 0.0:
            for code in range(first, last + 1):
                least = min(least, price[code])
        stack.feature_price[0, j] = least
        if space.kind[j] == ORDERED:
            some_value = first + own[j] != last or scratch.irregular[j]
            stack.null[0, j] = 1 if price[last] < np.inf else 0
            stack.lo[0, j] = 0 if some_value else 1
            stack.hi[0, j] = last - first - 1 if some_value else 0
            # Leaves behind contradictory splits, which no code reaches, must not count as reachable.
            if not some_value:
                keep_row(0, last, trees, stack)
            elif stack.null[0, j] != 0:
                _and_row_or(0, j, trees.non_missing, last, trees.at_least, stack.mask)
            elif some_missing:
                _and_row(0, j, trees.non_missing, stack.mask)
            continue
        stack.null[0, j] = 0
        forbidden = False
        for w in range(space.set_start[j], space.set_start[j + 1]):
            base = first + 64 * (w - space.set_start[j])
            members = np.uint64(0)
            for code in range(base, min(base + 64, last + 1)):
                if price[code] < np.inf:
                    members |= np.uint64(1) << np.uint64(code - base)
                else:
                    forbidden |= code != last
            stack.sets[0, w] = members
        if forbidden or price[last] < np.inf:
            keep_sets(0, j, space, trees, stack)
        elif some_missing:
            _and_row(0, j, trees.non_missing, stack.mask)
    stack.cost[0] = node_cost(0, is_max, stack)
    stack.clipped[0, 0] = -1.0


@inline
def clip_node(d, budget, is_max, own, space, trees, stack, scratch):
    """Drop the codes that cost more than the budget from where the box stands; a filter that errs on keeping.

    ``scratch.excluded[0]`` becomes at most the cost of anything that was dropped.
    """
    cost = stack.cost[d]
    n_features = len(space.kind)
    slack = 4.0 * n_features * EPS * budget if budget < np.inf else 0.0
    for j in range(n_features):
        rest = 0.0 if is_max else cost - stack.feature_price[d, j]
        limit = budget - rest + slack
        if space.kind[j] == ORDERED:
            dropped = _clip_ordered(d, j, limit, np.int64(own[j]), space, trees, stack, scratch)
        elif scratch.dearest[j] <= limit:
            continue
        else:
            dropped = _clip_set(d, j, limit, np.int64(own[j]), space, trees, stack, scratch)
        if dropped < np.inf:
            total = max(cost, dropped) if is_max else rest + dropped
            scratch.excluded[0] = min(scratch.excluded[0], total * (1.0 - 4.0 * n_features * EPS))


@inline
def _payable(p, limit):
    return p <= limit and p < np.inf


@inline
def _last_payable(near, far, first, limit, price):
    """The last payable code on the way from `near`, which can be paid, to `far`, which cannot; prices rise that way."""
    while abs(far - near) > 1:
        middle = (near + far) >> 1
        if _payable(price[first + middle], limit):
            near = middle
        else:
            far = middle
    return near


@inline
def _clip_ordered(d, j, limit, own, space, trees, stack, scratch):
    """Clip an ordered feature; returns the least price of what was dropped."""
    price = scratch.price
    lo = np.int64(stack.lo[d, j])
    hi = np.int64(stack.hi[d, j])
    null = stack.null[d, j] != 0
    if lo > hi or (lo == hi and not null):
        return np.inf
    first = space.code_start[j]
    dropped = np.inf
    new_lo, new_hi = lo, hi
    if scratch.irregular[j]:
        while new_hi >= lo and not _payable(price[first + new_hi], limit):
            dropped = min(dropped, price[first + new_hi])
            new_hi -= 1
        while new_lo < new_hi and not _payable(price[first + new_lo], limit):
            dropped = min(dropped, price[first + new_lo])
            new_lo += 1
    else:
        nearest = min(max(own, lo), hi)
        if null and not _payable(price[first + nearest], limit):
            dropped = price[first + nearest]
            new_hi = lo - 1
        else:
            if not _payable(price[first + hi], limit):
                new_hi = _last_payable(nearest, hi, first, limit, price)
                dropped = price[first + new_hi + 1]
            if not _payable(price[first + lo], limit):
                new_lo = _last_payable(nearest, lo, first, limit, price)
                dropped = min(dropped, price[first + new_lo - 1])
    last = space.code_start[j + 1] - 1
    if new_hi < new_lo:
        stack.lo[d, j] = 1
        stack.hi[d, j] = 0
        keep_row(d, last, trees, stack)
        return dropped
    stack.lo[d, j] = new_lo
    stack.hi[d, j] = new_hi
    if null and not _payable(price[last], limit):
        stack.null[d, j] = 0
        keep_range(d, j, True, True, space, trees, stack)
        return min(dropped, price[last])
    keep_range(d, j, new_lo > lo, new_hi < hi, space, trees, stack)
    return dropped


@inline
def _clip_set(d, j, limit, own, space, trees, stack, scratch):
    """Clip a categorical feature; returns at most the least price of what was dropped."""
    dropped = np.inf
    changed = False
    own_word = space.set_start[j] + (own >> 6)
    own_bit = np.uint64(1) << np.uint64(own & 63)
    if scratch.cheapest[j] > limit and stack.sets[d, own_word] & own_bit != 0:
        for w in range(space.set_start[j], space.set_start[j + 1]):
            kept = own_bit if w == own_word else np.uint64(0)
            changed |= stack.sets[d, w] != kept
            stack.sets[d, w] = kept
        if changed:
            dropped = scratch.cheapest[j]
            keep_row(d, space.code_start[j] + own, trees, stack)
        return dropped
    for w in range(space.set_start[j], space.set_start[j + 1]):
        members = stack.sets[d, w]
        base = space.code_start[j] + 64 * (w - space.set_start[j])
        while members != 0:
            bit = members & (~members + np.uint64(1))
            p = scratch.price[base + np.int64(trailing_zeros(members))]
            members &= members - np.uint64(1)
            if not _payable(p, limit) and p > stack.feature_price[d, j]:
                stack.sets[d, w] &= ~bit
                dropped = min(dropped, p)
                changed = True
    if changed:
        keep_sets(d, j, space, trees, stack)
    return dropped


@inline
def key_beats_best(total, best_total, own, space, scratch):
    """Whether the key of ``scratch.codes``, which `node_key` has written, stands before that of ``scratch.best``."""
    return key_precedes(
        scratch.codes, total, scratch.best, best_total, own, space.kind, space.code_start, scratch.price,
        scratch.displacement,
    )  # fmt: skip


@helper
def node_key(d, own, space, stack, scratch):
    """Codes of the nearest point of a node, written to ``scratch.codes``; returns the sum of displacements."""
    price = scratch.price
    displacement = scratch.displacement
    total = 0.0
    for j in range(len(space.kind)):
        first = space.code_start[j]
        mine = np.int64(own[j])
        missing = space.code_start[j + 1] - first - 1
        code = np.int64(-1)
        if space.kind[j] == ORDERED:
            if stack.lo[d, j] <= stack.hi[d, j]:
                code = best_in_range(j, np.int64(stack.lo[d, j]), np.int64(stack.hi[d, j]), mine, space.code_start,
                                     scratch.irregular, price, displacement)  # fmt: skip
            if stack.null[d, j] != 0 and (
                code < 0 or better_code(missing, code, mine, missing, True, first, price, displacement)
            ):
                code = missing
        else:
            for w in range(space.set_start[j], space.set_start[j + 1]):
                members = stack.sets[d, w]
                while members != 0:
                    c = 64 * (w - space.set_start[j]) + np.int64(trailing_zeros(members))
                    members &= members - np.uint64(1)
                    if code < 0 or better_code(c, code, mine, missing, False, first, price, displacement):
                        code = c
        scratch.codes[j] = code
        total += displacement[first + code]
    return total


@inline
def settled_label(rule, d, space, stack, sums, raw, asked, asked_label, codes):
    """Label of a node whose sums are settled: exact, or known from an earlier question, or ASK.

    The label of a settled node is that of any of its points; its first point stands for it in questions.
    """
    label = label_of_sums(rule, sums, raw)
    if label != ASK:
        return label
    for j in range(len(space.kind)):
        if space.kind[j] == ORDERED:
            missing = space.code_start[j + 1] - space.code_start[j] - 1
            codes[j] = stack.lo[d, j] if stack.lo[d, j] <= stack.hi[d, j] else missing
            continue
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
