"""Price tables, compiled: what moving to each code costs one row (design, section 5).

`price[code]` is the least price of any attainable, permitted value with that code: 0 for the row's own code, inf where
forbidden. `displacement[code]` orders points of equal cost. Map, search and kernels see only these two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpucf._cells import ORDERED
from gpucf._jit import helper, inline, njit

# Prices stay below this, so that no sum of finite prices overflows to inf, which means "forbidden".
LARGEST_PRICE = 1e300


class Prices(NamedTuple):
    """What moves cost, as compiled code reads it.

    A move by ``d`` units costs ``flat + linear * d + square * d * d``, one rounding after another, hence monotone in
    `d`. Arrays over features unless said otherwise; those over rows have one row where all rows are alike.

    Attributes
    ----------
    is_max : bool
        The cost is the largest price, not the sum.
    cell_lo, cell_hi : over codes (see `Cells`)
    flat, linear, square : of shape (2, n_features), falls first
    far, scale :
        The displacement is ``far * (distance / scale)``.
    may_rise, may_fall : bool
    special : bool
        Features to which what follows applies; all others are priced by the above.
    at, at_lo, at_hi, unit :
        Where the row's value (over rows and features) and the cell ends (over codes) lie on the measure in which moves
        are priced: ``d = (difference of positions) / unit``.
    low, high, at_low, at_high : over rows and features
        Least and largest value that a row may move to, and their positions; inf and -inf: no move, not to "missing"
        either.
    matrix_start, matrix_price :
        Categories: where the table "from, to" of each feature begins (-1: all moves have one price), and the tables,
        one after another.
    enter_price :
        Becoming missing.
    leave_price, leave_value : over codes
        No longer being missing, and the value to land on.
    by_price : bool
        Displacements are the prices. So it must be where unlike moves compete within one box, since there a dearer
        move must never have the smaller displacement: else the answer would depend on how the space was cut.
    irregular : bool
        Prices that do not rise evenly away from the own code in some row: to be taken member by member.
    barred : bool array over rows and codes, or of shape (0, 0)
        Codes that the row may not have, whatever else is said; its own code is among them where a feature must change
        (see `gpucf._options`).
    """

    is_max: Any
    cell_lo: Any
    cell_hi: Any
    flat: Any
    linear: Any
    square: Any
    far: Any
    scale: Any
    may_rise: Any
    may_fall: Any
    special: Any
    at: Any
    at_lo: Any
    at_hi: Any
    unit: Any
    low: Any
    high: Any
    at_low: Any
    at_high: Any
    matrix_start: Any
    matrix_price: Any
    enter_price: Any
    leave_price: Any
    leave_value: Any
    by_price: Any
    irregular: Any
    barred: Any = np.zeros((0, 0), np.bool_)


@inline
def fill_tables(prices, row, own, x, kind, code_start, price, displacement):
    """Prices and displacements of every code for one row; `own` and `x` are its codes and values by feature."""
    for j in range(len(kind)):
        first = code_start[j]
        last = code_start[j + 1] - 1
        mine = first + own[j]
        if prices.special[j]:
            _fill_special(prices, row, j, x[j], kind[j] == ORDERED, first, last, mine, price, displacement)
        elif kind[j] != ORDERED:
            free = prices.may_rise[j] and mine != last
            other = prices.flat[1, j] + prices.linear[1, j] + prices.square[1, j] if free else np.inf
            far = prices.far[j] if free else np.inf
            for code in range(first, last):
                price[code] = other
                displacement[code] = far
            price[last] = np.inf
            displacement[last] = np.inf
        else:
            falls = prices.may_fall[j] and mine != last  # a missing value stays missing
            rises = prices.may_rise[j] and mine != last
            _price_moves(falls, -1.0, x[j], prices.cell_hi, first, mine, prices.flat[0, j], prices.linear[0, j],
                         prices.square[0, j], prices.far[j], prices.scale[j], price, displacement)  # fmt: skip
            _price_moves(rises, 1.0, x[j], prices.cell_lo, mine + 1, last, prices.flat[1, j], prices.linear[1, j],
                         prices.square[1, j], prices.far[j], prices.scale[j], price, displacement)  # fmt: skip
            price[last] = np.inf
            displacement[last] = np.inf
        price[mine] = 0.0
        displacement[mine] = 0.0
    if len(prices.barred) > 0:
        for code in range(code_start[-1]):
            if prices.barred[row, code]:
                price[code] = np.inf
                displacement[code] = np.inf


@inline
def _price_of(d, flat, linear, square):
    """Price of a move by `d` units. A factor of 0 takes no part, since `d` may have overflowed: 0 * inf is NaN."""
    p = flat
    if linear > 0.0:
        p += linear * d
    if square > 0.0:
        p += square * (d * d)
    return min(p, LARGEST_PRICE)


@inline
def _price_moves(allowed, direction, x, ends, begin, end, flat, linear, square, far, scale, price, displacement):
    """Prices of moving to the near ends of cells on one side.

    Each expression is one rounding after another in a fixed order, hence monotone in the distance. A cell without an
    attainable value has a NaN end and is forbidden. The division has a loop of its own, which is vectorised.
    """
    if not allowed:
        for code in range(begin, end):
            price[code] = np.inf
            displacement[code] = np.inf
        return
    for code in range(begin, end):
        price[code] = (ends[code] - x) * direction / scale
    for code in range(begin, end):
        d = price[code]
        displacement[code] = min(far * d, LARGEST_PRICE) if d == d else np.inf
        price[code] = _price_of(d, flat, linear, square) if d == d else np.inf


@helper
def _fill_special(prices, row, j, x, is_ordered, first, last, mine, price, displacement):
    """As `fill_tables`, for one feature with limits, a measure of its own, a price matrix, or a way to be missing."""
    for code in range(first, last + 1):
        price[code] = np.inf
        displacement[code] = np.inf
    at_row = min(row, len(prices.low) - 1)
    low = prices.low[at_row, j]
    high = prices.high[at_row, j]
    still = low == np.inf and high == -np.inf
    if not still and (prices.may_rise[j] or prices.may_fall[j]):
        if mine == last:
            for code in range(first, last):
                if not is_ordered or low <= prices.leave_value[code] <= high:
                    price[code] = prices.leave_price[code]
                    displacement[code] = prices.leave_price[code]
        else:
            if is_ordered:
                _limited_moves(prices, row, j, x, low, high, first, last, mine, price, displacement)
            else:
                other = prices.flat[1, j] + prices.linear[1, j] + prices.square[1, j]
                begin = prices.matrix_start[j] + (mine - first) * (last - first) - first
                for code in range(first, last):
                    price[code] = other if prices.matrix_start[j] < 0 else prices.matrix_price[begin + code]
                    displacement[code] = price[code] if prices.by_price[j] else prices.far[j]
            price[last] = prices.enter_price[j]
            displacement[last] = prices.enter_price[j]
    price[mine] = 0.0
    displacement[mine] = 0.0


@inline
def _limited_moves(prices, row, j, x, low, high, first, last, mine, price, displacement):
    """Prices of an ordered feature within limits, on its own measure.

    A row outside its limits lands on a limit itself where that lies inside a cell.
    """
    at_row = min(row, len(prices.low) - 1)
    at = prices.at[min(row, len(prices.at) - 1), j]
    for code in range(first, last):
        if code == mine:
            continue
        rises = code > mine
        if not (prices.may_rise[j] if rises else prices.may_fall[j]):
            continue
        v = prices.cell_lo[code] if rises else prices.cell_hi[code]
        to = prices.at_lo[code] if rises else prices.at_hi[code]
        if rises and low > v:
            v = low
            to = prices.at_low[at_row, j]
        if not rises and high < v:
            v = high
            to = prices.at_high[at_row, j]
        # False for a cell without an attainable value, whose ends are NaN.
        if not (prices.cell_lo[code] <= v <= prices.cell_hi[code] and low <= v <= high):
            continue
        side = 1 if rises else 0
        d = ((to - at) if rises else (at - to)) / prices.unit[j]
        price[code] = _price_of(d, prices.flat[side, j], prices.linear[side, j], prices.square[side, j])
        moved = ((v - x) if rises else (x - v)) / prices.scale[j]
        displacement[code] = price[code] if prices.by_price[j] else min(prices.far[j] * moved, LARGEST_PRICE)


@njit
def price_tables(prices, row, own, x, kind, code_start, price, displacement):
    """`fill_tables` for a caller in Python."""
    fill_tables(prices, row, own, x, kind, code_start, price, displacement)
