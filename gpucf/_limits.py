"""Limits of single rows: what my row may become need not be what yours may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from gpucf._cells import ORDERED, Cells
from gpucf._costs import entries_of, features_named
from gpucf._declare import held
from gpucf._domain import Domain, Grid
from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError, TableError
from gpucf._features import Feature, Features
from gpucf._table import Table, column_at, column_names
from gpucf._table_read import Where, read_numbers

LIMIT_KEYS = ("low", "high", "max_change", "max_rise", "max_fall")


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and largest value that each row may move to.

    Attributes
    ----------
    low, high : float64 arrays of shape (n_rows, n_features)
        -inf and inf where nothing limits; inf and -inf where the row's feature must not move. Attainable where the row
        lies outside of them, since it then lands on one of them.
    limited : bool array of shape (n_features,)
        Features with any limit.
    irregular : bool array of shape (n_features,)
        Features in which some row lies outside its limits, so that nearer values are forbidden and farther ones not.
    """

    low: np.ndarray
    high: np.ndarray
    limited: np.ndarray
    irregular: np.ndarray


def named_columns(features: Features, limits: Any, immutable: Any) -> list[str]:
    """Columns of the table that hold limits, by what is declared and what is asked."""
    found = list(features.row_columns)
    for wish in (limits or {}).values() if isinstance(limits, Mapping) else ():
        found += [value for value in wish.values() if isinstance(value, str)] if isinstance(wish, Mapping) else []
    found += [value for value in immutable.values() if isinstance(value, str)] if isinstance(immutable, Mapping) else []
    return list(dict.fromkeys(found))


def row_bounds(
    ensemble: Ensemble,
    domain: Domain,
    cells: Cells,
    features: Features,
    limits: Any,
    immutable: Any,
    table: Table,
    values: np.ndarray,
) -> Bounds | None:
    """Limits of all rows, from what is declared and, coming before it, what is asked; None where there are none."""
    wishes = _wishes(cells, ensemble.feature_names, entries_of(cells, features), limits)
    frozen = _frozen(cells, ensemble.feature_names, entries_of(cells, features), immutable)
    limited = np.array([bool(wishes[j] or frozen[j] is not None) for j in range(cells.n_features)], bool)
    if not limited.any():
        return None
    low, high = np.full(values.shape, -np.inf), np.full(values.shape, np.inf)
    irregular = np.zeros(cells.n_features, bool)
    for j in np.flatnonzero(limited).tolist():
        if wishes[j]:
            column = domain.columns[cells.columns[j][0]]
            _limit(cells.names[j], wishes[j], table, values[:, j], column.dtype, low[:, j], high[:, j])
            irregular[j] = _land(Grid.of(column, ensemble.attainable_dtype), values[:, j], low[:, j], high[:, j])
        if frozen[j] is not None:
            still = _flags(f"immutable[{cells.names[j]!r}]", frozen[j], table)
            low[still, j], high[still, j] = np.inf, -np.inf
    return Bounds(low, high, limited, irregular)


def _wishes(cells: Cells, column_names: Sequence[str], entries: Sequence[Feature], limits: Any) -> list[dict[str, Any]]:
    """By feature: limit to number, array, or name of a column."""
    out: list[dict[str, Any]] = []
    for entry in entries:
        keys = {"max_change": entry.max_change, "max_rise": entry.max_rise, "max_fall": entry.max_fall,
                "low": entry.low_from, "high": entry.high_from}  # fmt: skip
        out.append({key: value for key, value in keys.items() if value is not None})
    if limits is None:
        return out
    if not isinstance(limits, Mapping):
        raise OptionError(f"limits is a {type(limits).__name__}; give a dict such as {{'age': {{'high': 65}}}}.")
    at = features_named("limits", list(limits), cells, column_names)
    for j, (name, wish) in zip(at, limits.items(), strict=True):
        if not isinstance(wish, Mapping) or not wish or any(key not in LIMIT_KEYS for key in wish):
            raise OptionError(f"limits[{name!r}] is {wish!r}; give a dict with {', '.join(map(repr, LIMIT_KEYS))}.")
        if cells.kind[j] != ORDERED:
            raise OptionError(f"limits names {name!r}, whose categories have no order; use immutable instead.")
        out[j].update(wish)
    return out


def _frozen(cells: Cells, column_names: Sequence[str], entries: Sequence[Feature], immutable: Any) -> list[Any]:
    """By feature: which rows must not move, as array or name of a column; None where nothing is said of rows."""
    out: list[Any] = [entry.immutable_from for entry in entries]
    if isinstance(immutable, Mapping):
        at = features_named("immutable", list(immutable), cells, column_names)
        for j, value in zip(at, immutable.values(), strict=True):
            out[j] = None if isinstance(value, bool | np.bool_) else value
    return out


def _limit(
    name: str, wish: dict[str, Any], table: Table, x: np.ndarray, dtype: np.dtype[Any], low: np.ndarray,
    high: np.ndarray,
) -> None:  # fmt: skip
    """Write the limits of one feature."""
    for key, value in wish.items():
        given = _numbers(f"limits[{name!r}][{key!r}]", value, table)
        if key in ("low", "high"):
            bound = given.astype(dtype).astype(np.float64) if dtype.kind == "f" else given
            if key == "low":
                np.fmax(low, bound, out=low)  # fmax, fmin: a limit that is missing does not limit
            else:
                np.fmin(high, bound, out=high)
            continue
        if (given < 0).any():
            raise OptionError(f"limits[{name!r}][{key!r}] holds {float(given.min())!r}; give numbers >= 0.")
        if key != "max_fall":
            np.fmin(high, _shifted(x, given, 1, dtype), out=high)
        if key != "max_rise":
            np.fmax(low, _shifted(x, given, -1, dtype), out=low)


def _shifted(x: np.ndarray, distance: np.ndarray, sign: int, dtype: np.dtype[Any]) -> np.ndarray:
    """``x + sign * distance`` as a person adds: in decimals, then rounded to the column's dtype.

    In floats 0.7 + 0.1 lies below 0.8, and a step to 0.8 would be refused.
    """
    pairs, where = np.unique(np.stack([x, np.broadcast_to(distance, x.shape)]), axis=1, return_inverse=True)
    out = np.full(pairs.shape[1], np.nan)
    for i, (value, step) in enumerate(pairs.T.tolist()):
        if np.isfinite(value) and np.isfinite(step):
            shown = str(dtype.type(value)) if dtype.kind == "f" else repr(value)
            out[i] = held(float(Decimal(shown) + sign * Decimal(repr(step))), dtype)
    return out[where.reshape(x.shape)]


def _land(grid: Grid, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Make the limits of rows outside of them attainable; returns whether there are such rows."""
    below, above = (x < low) & (low <= high), (x > high) & (low <= high)
    at = below & np.isfinite(low)
    low[at] = np.maximum(grid.ceil(low[at]), grid.low)
    at = above & np.isfinite(high)
    high[at] = np.minimum(grid.floor(high[at]), grid.high)
    return bool((below | above).any())


def _numbers(what: str, value: Any, table: Table) -> np.ndarray:
    """A number for all rows, or one for each, from an array or a column; NaN does not limit."""
    if isinstance(value, str):
        return _column(what, value, table)
    shape = (len(table.values),)
    try:
        given = np.asarray(value if value is not None else np.nan, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"{what} is {value!r}; give a number, one number per row, or a column of X.") from None
    if given.shape not in ((), shape):
        raise OptionError(f"{what} has shape {given.shape}, but X has {shape[0]} rows; give one number per row.")
    return np.broadcast_to(given, shape)


def _flags(what: str, value: Any, table: Table) -> np.ndarray:
    """One boolean per row, from an array or a column of booleans, or of 0 and 1."""
    if isinstance(value, str):
        given = _column(what, value, table)
    else:
        given = np.asarray(value)
        if given.shape != (len(table.values),):
            raise OptionError(f"{what} has shape {given.shape}; give true or false, or one of them for each row of X.")
    if not np.isin(given, (0, 1)).all():
        raise OptionError(f"{what} holds {given[~np.isin(given, (0, 1))][0]!r}; give booleans, or 0 and 1.")
    return given.astype(bool)


def _column(what: str, name: str, table: Table) -> np.ndarray:
    """A column of the table as numbers; text is read as numbers, since carried CSV columns are text."""
    if table.kind == "numpy":
        raise TableError(f"{what} names the column {name!r}, but X is an array without column names. Pass a frame.")
    names = [str(n) for n in column_names(table.kind, table.native)]
    if name not in names:
        raise TableError(f"{what} names the column {name!r}, which X does not have.")
    column = column_at(table.kind, table.native, names.index(name))
    try:
        return read_numbers(table.kind, column, Where("X", name))[0]
    except TableError as error:
        return np.array([_of_text(cell, row, name, error) for row, cell in enumerate(_cells(table.kind, column))])


def _cells(kind: str, column: Any) -> list[Any]:
    return column.to_pylist() if kind == "pyarrow" else column.to_list()


def _of_text(cell: Any, row: int, name: str, error: TableError) -> float:
    text = "" if cell is None else str(cell).strip().lower()
    if text in ("", "nan", "none", "<na>"):
        return float("nan")
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        raise TableError(f"X, column {name!r}, row {row}: {cell!r} is not a number, and it holds limits.") from error
