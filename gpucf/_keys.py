"""Keys: the total order that makes the answer one point (design, rule 5), in compiled form.

The key of a point is its cost, then the sum of its displacements, then feature by feature in index order: the smaller
displacement, below before above, the nearer cell; for categories the own one first, then the cheaper, then the lower
code; "missing" by its price, and last at the same price. On a box every component is least at the same point, the row's
clamp, so that the key of a box is that of its clamp, and the order in which boxes are looked at cannot matter.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from gpucf._cells import ORDERED
from gpucf._jit import helper, inline


@inline
def comes_first(a, b, own, missing, is_ordered, first, price, displacement):
    """Whether code `a` stands before code `b` (a != b) in the order of one feature."""
    if a == own or b == own:
        return a == own
    if a == missing or b == missing:
        if price[first + a] != price[first + b]:
            return price[first + a] < price[first + b]
        return b == missing
    if is_ordered:
        if (a < own) == (b < own):
            return abs(a - own) < abs(b - own)
        if displacement[first + a] != displacement[first + b]:
            return displacement[first + a] < displacement[first + b]
        return a < own
    if price[first + a] != price[first + b]:
        return price[first + a] < price[first + b]
    return a < b


@inline
def key_precedes(codes, total, best, best_total, own, kind, code_start, price, displacement):
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


@helper
def better_code(a, b, own, missing, is_ordered, first, price, displacement):
    """Whether code `a` is the better choice within one feature than code `b`: cheaper, else nearer, else first."""
    if price[first + a] != price[first + b]:
        return price[first + a] < price[first + b]
    if displacement[first + a] != displacement[first + b]:
        return displacement[first + a] < displacement[first + b]
    return a != b and comes_first(a, b, own, missing, is_ordered, first, price, displacement)


@inline
def best_in_range(j, lo, hi, own, code_start, has_gaps, price, displacement):
    """Best code among ``lo..hi`` (lo <= hi) of an ordered feature.

    Prices rise away from the own code, so that this is the clamp; where forbidden cells lie between permitted ones it
    is the least over the members (design, section 5).
    """
    nearest = min(max(own, lo), hi)
    if not has_gaps[j]:
        return nearest
    first = code_start[j]
    missing = code_start[j + 1] - first - 1
    best = nearest
    for code in range(lo, hi + 1):
        if better_code(code, best, own, missing, True, first, price, displacement):
            best = code
    return best


@helper
def best_code(j, lo, hi, sets, own, kind, code_start, set_start, has_gaps, price, displacement):
    """Best code of feature `j` in a box given by its range and its set words (`sets`: those of the whole box)."""
    first = code_start[j]
    missing = code_start[j + 1] - first - 1
    ordered = kind[j] == ORDERED
    best = -1
    if ordered:
        if lo <= hi:
            best = best_in_range(j, lo, hi, own, code_start, has_gaps, price, displacement)
        may_be_missing = set_start[j + 1] > set_start[j] and sets[set_start[j]] & np.uint64(1) != 0
        if may_be_missing and (best < 0 or better_code(missing, best, own, missing, True, first, price, displacement)):
            best = missing
        return best
    for w in range(set_start[j], set_start[j + 1]):
        members = sets[w]
        base = 64 * (w - set_start[j])
        while members != 0:
            code = base + np.int64(trailing_zeros(members))
            members &= members - np.uint64(1)
            if code == own and price[first + own] == 0.0:
                return code
            if best < 0 or better_code(code, best, own, missing, False, first, price, displacement):
                best = code
    return best
