"""What makes a feature special to the price tables: limits of rows, measures, price matrices, ways to be missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._cells import NATIVE, ORDERED, Cells, ordered_codes
from gpucf._costs import CostModel, entries_of
from gpucf._declare import held
from gpucf._domain import Domain, Grid
from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError, TableError
from gpucf._features import Feature, Features
from gpucf._limits import Bounds
from gpucf._measures import Population, position_in
from gpucf._prices import LARGEST_PRICE, Prices


def with_special(
    costs: CostModel,
    ensemble: Ensemble,
    domain: Domain,
    cells: Cells,
    features: Features,
    population: Population | None,
    values: np.ndarray,
    bounds: Bounds | None,
) -> CostModel:
    """A cost model with everything that `make_cost_model` leaves out.

    `values` are the rows', from `code_rows`; `bounds` the limits of the rows, None where there are none.
    """
    entries = entries_of(cells, features)
    prices = costs.prices
    measures = _measures(costs, cells, entries, population)
    if bounds is not None:
        prices = prices._replace(
            special=prices.special | bounds.limited, irregular=prices.irregular | bounds.irregular, low=bounds.low,
            high=bounds.high,
        )  # fmt: skip
    prices = _with_matrices(prices, ensemble, cells, entries)
    prices = _with_states(prices, costs, ensemble, domain, cells, entries, values)
    if measures or prices.special.any():
        prices = _with_positions(prices, cells, measures, values)
    return replace(costs, prices=prices)


def _measures(
    costs: CostModel, cells: Cells, entries: Sequence[Feature], population: Population | None
) -> dict[int, tuple[Callable[[np.ndarray], np.ndarray], float]]:
    """Features whose moves are not measured by the values themselves: positions of values, and the unit."""
    found: dict[int, tuple[Callable[[np.ndarray], np.ndarray], float]] = {}
    if costs.terms.quantile and population is None:
        raise OptionError("the cost 'quantile' needs a background table: build the engine with background=.")
    for j in np.flatnonzero(cells.kind == ORDERED).tolist():
        table = entries[j].table
        if table is not None:
            found[j] = (_checked_table(cells.names[j], table), 1.0)
        elif costs.terms.quantile and population is not None:
            found[j] = population.ranks(cells.columns[j][0])
    return found


def _checked_table(name: str, table: Any) -> Callable[[np.ndarray], np.ndarray]:
    def position(values: np.ndarray) -> np.ndarray:
        if not callable(table):
            return position_in(table, values)
        known = ~np.isnan(values)
        out = np.full(values.shape, np.nan)
        given = np.asarray(table(values[known]), np.float64)
        if given.shape != values[known].shape or not np.isfinite(given).all():
            raise OptionError(f"the table of {name!r} does not give one finite number for each value.")
        out[known] = given
        return out

    return position


def _with_positions(
    prices: Prices, cells: Cells, measures: dict[int, tuple[Callable[[np.ndarray], np.ndarray], float]],
    values: np.ndarray,
) -> Prices:  # fmt: skip
    """Positions of rows, cell ends and limits: the values themselves where nothing else is declared."""
    at, at_low, at_high = values, prices.low, prices.high
    at_lo, at_hi, unit, special = prices.cell_lo, prices.cell_hi, prices.unit, prices.special
    if measures:
        at, at_low, at_high = at.copy(), at_low.copy(), at_high.copy()
        at_lo, at_hi, unit, special = at_lo.copy(), at_hi.copy(), unit.copy(), special.copy()
    for j, (position, scale) in measures.items():
        own = slice(int(cells.code_start[j]), int(cells.code_start[j + 1]) - 1)
        ends = [at[:, j], at_low[:, j], at_high[:, j], at_lo[own], at_hi[own]]
        _check_rising(cells.names[j], np.concatenate(ends), position)
        at[:, j], at_lo[own], at_hi[own] = position(values[:, j]), position(ends[3]), position(ends[4])
        for limits in (at_low, at_high):
            finite = np.isfinite(limits[:, j])
            limits[finite, j] = position(limits[finite, j])
        unit[j] = scale
        special[j] = True
    return prices._replace(
        at=at, at_low=at_low, at_high=at_high, at_lo=at_lo, at_hi=at_hi, unit=unit, special=special
    )  # fmt: skip


def _check_rising(name: str, values: np.ndarray, position: Callable[[np.ndarray], np.ndarray]) -> None:
    """Refuse a table that falls: the price of a cell would not be that of its near end."""
    known = np.unique(values[np.isfinite(values)])
    fall = np.flatnonzero(np.diff(position(known)) < 0)
    if len(fall):
        a, b = known[fall[0]], known[fall[0] + 1]
        raise OptionError(f"the table of {name!r} falls from {float(a)!r} to {float(b)!r}; it must rise.")


def _with_matrices(prices: Prices, ensemble: Ensemble, cells: Cells, entries: Sequence[Feature]) -> Prices:
    start, blocks, size = prices.matrix_start.copy(), [], 0
    declared = np.asarray([bool(entry.prices) for entry in entries], bool)
    for j, entry in enumerate(entries):
        has_unknown = _has_unknown_level(ensemble, cells, j)
        if not entry.prices and not has_unknown:
            continue
        names = category_codes(ensemble, cells, j)
        n = int(cells.n_codes[j]) - 1
        matrix = np.full((n, n), _price_of(prices, j, 1.0))
        for a, b, price in entry.prices:
            for name in (a, b):
                if name not in names:
                    known = ", ".join(map(repr, list(names)[:20]))
                    raise OptionError(f"the prices of {cells.names[j]!r} name {name!r}; its categories are {known}.")
            matrix[names[a], names[b]] = np.inf if price is None else _price_of(prices, j, price)
        if has_unknown:
            matrix[:, n - 1] = np.inf  # nobody is advised to become unknown
        start[j] = size
        blocks.append(matrix.ravel())
        size += n * n
    if not blocks:
        return prices
    return prices._replace(
        matrix_start=start, matrix_price=np.concatenate(blocks), special=prices.special | (start >= 0),
        by_price=prices.by_price | declared,
    )  # fmt: skip


def _has_unknown_level(ensemble: Ensemble, cells: Cells, j: int) -> bool:
    return bool(cells.kind[j] == NATIVE and ensemble.raw is not None and ensemble.raw.unknown[cells.columns[j][0]])


def category_codes(ensemble: Ensemble, cells: Cells, j: int) -> dict[Any, int]:
    """Code of every category by its name: the column, what follows the columns' common beginning, or the value."""
    if cells.kind[j] == NATIVE:
        return {value: k for k, value in enumerate(np.asarray(ensemble.categories[cells.columns[j][0]]).tolist())}
    columns = [ensemble.feature_names[c] for c in cells.columns[j]]
    codes: dict[Any, int] = {name: k for k, name in enumerate(columns)}
    reference = cells.references[j]
    if reference is not None:
        codes[reference] = len(columns)
    shared = 0
    while all(len(name) > shared + 1 and name[shared] == columns[0][shared] for name in columns):
        shared += 1
    for k, name in enumerate(columns):
        codes.setdefault(name[shared:], k)
    return codes


def _price_of(prices: Prices, j: int, d: float) -> float:
    """As the compiled function of this name, for moves without a direction."""
    p = prices.flat[1, j]
    if prices.linear[1, j] > 0.0:
        p += prices.linear[1, j] * d
    if prices.square[1, j] > 0.0:
        p += prices.square[1, j] * (d * d)
    return float(min(p, LARGEST_PRICE))


def _with_states(
    prices: Prices, costs: CostModel, ensemble: Ensemble, domain: Domain, cells: Cells, entries: Sequence[Feature],
    values: np.ndarray,
) -> Prices:  # fmt: skip
    """Moves into and out of "missing": a change of `price` units, of the weight without direction."""
    has_states = np.array([bool(e.missing) for e in entries], bool)
    if not has_states.any():
        return prices
    enter, leave, landing = prices.enter_price.copy(), prices.leave_price.copy(), prices.leave_value.copy()
    terms, fixed = costs.terms, np.array([e.fixed for e in entries])
    undirected = prices._replace(
        flat=np.stack([terms.flat * costs.weight + fixed] * 2), linear=np.stack([terms.linear * costs.weight] * 2),
        square=np.stack([terms.square * costs.weight] * 2),
    )  # fmt: skip
    for j in np.flatnonzero(has_states).tolist():
        ways = dict(entries[j].missing)
        if "enter" in ways:
            enter[j] = _price_of(undirected, j, ways["enter"])
        for code, value, price in _landings(ensemble, domain, cells, j, ways.get("leave", ())):
            at = int(cells.code_start[j]) + code
            if np.isinf(leave[at]):
                leave[at], landing[at] = _price_of(undirected, j, price), value
            else:
                _refuse_hidden(cells.names[j], values[:, j], prices.low[:, j], prices.high[:, j], landing[at], value)
    return prices._replace(
        enter_price=enter, leave_price=leave, leave_value=landing, special=prices.special | has_states,
        by_price=prices.by_price | has_states, irregular=prices.irregular | (has_states & (cells.kind == ORDERED)),
    )  # fmt: skip


def _refuse_hidden(name: str, x: np.ndarray, low: np.ndarray, high: np.ndarray, kept: float, other: float) -> None:
    """Refuse rows whose limits forbid the filling that is kept for a cell, but not another one of that cell."""
    hidden = np.isnan(x) & (low <= other) & (other <= high) & ~((low <= kept) & (kept <= high))
    if hidden.any():
        raise TableError(
            f"row {int(np.argmax(hidden))}: {name!r} is missing, and may be filled with {float(other)!r} but, by the "
            f"row's limits, not with {float(kept)!r}, which no model can tell from it. Leave one of the two out."
        )


def _landings(
    ensemble: Ensemble, domain: Domain, cells: Cells, j: int, leave: Sequence[tuple[Any, float]]
) -> list[tuple[int, float, float]]:
    """Code, value and price of what a missing value may be filled with, larger values first (as in keys)."""
    name = cells.names[j]
    if cells.kind[j] == NATIVE:
        names = category_codes(ensemble, cells, j)
        unknown = [value for value, _ in leave if value not in names]
        if unknown:
            raise OptionError(f"features[{name!r}] fills missing values with {unknown[0]!r}, which is no category.")
        return [(names[value], float(names[value]), price) for value, price in leave]
    column = domain.columns[cells.columns[j][0]]
    grid = Grid.of(column, ensemble.attainable_dtype)
    out = []
    for value, price in leave:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OptionError(f"features[{name!r}] fills missing values with {value!r}; give a number.")
        v = held(float(value), column.dtype)
        if not (grid.low <= v <= grid.high):
            raise OptionError(f"features[{name!r}] fills missing values with {value!r}, which is outside its range.")
        if grid.is_declared or grid.whole:
            if grid.at_most(v) != v:
                raise OptionError(f"features[{name!r}] fills missing values with {value!r}, which is not on its grid.")
        else:
            v = grid.at_most(v)  # the value that the model and the column both hold
        code = int(ordered_codes(ensemble, cells, j, np.array([v]))[0])
        out.append((code, v, price))
    return sorted(out, key=lambda found: -found[1])
