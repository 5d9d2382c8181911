"""One door for tables: numpy, pandas, polars, pyarrow in, the model's columns as float64 out, the same kind back.

Everything that can be wrong with a table is refused here, with the column, the row and the value in the message. Rows
are counted from 0.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError, TableError
from gpucf._table_read import Where, read_categories, read_numbers
from gpucf._table_write import write_column

_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Table:
    """A table that fits a model.

    Attributes
    ----------
    kind : {"numpy", "pandas", "polars", "pyarrow"}
    native : array or frame
        What the user gave; never modified.
    names : tuple of str
        The model's columns in the model's order. A model without names takes those of the frame.
    values : float64 array of shape (n_rows, n_model_columns)
        In the model's order. NaN is missing (NaN, None, NA or null in `native`); native categorical columns hold
        positions in ``ensemble.categories[j]``.
    dtypes : tuple of numpy dtype or None
        Storage of each column (nullable, polars and arrow types as their numpy equals); None for strings and
        categories.
    positions : tuple of int
        Where each of the model's columns stands in `native`.
    """

    kind: str
    native: Any
    names: tuple[str, ...]
    values: np.ndarray
    dtypes: tuple[np.dtype[Any] | None, ...]
    positions: tuple[int, ...]


def read_table(X: Any, ensemble: Ensemble, what: str = "X", carry: Sequence[Any] = (), *, first_row: int = 0) -> Table:
    """Check a table against a model and read the model's columns.

    Parameters
    ----------
    X : 2-D numpy array, pandas or polars DataFrame, or pyarrow Table
        Frames are matched by name, in any order, where the model has names; all else by position.
    ensemble : Ensemble
    what : str
        What messages call the table.
    carry : sequence of str
        Columns of a frame that the model does not know and that ride along untouched.
    first_row : int
        Number of the first row in messages, for a batch of a larger table.

    Raises
    ------
    TableError
        If the table does not fit the model; the message names the column, the row and the value.
    """
    carry = (carry,) if isinstance(carry, str) else tuple(carry)
    kind = kind_of(X, what)
    if kind == "numpy":
        _check_array(X, ensemble, what, carry)
        names, positions = ensemble.feature_names, tuple(range(ensemble.n_features))
    else:
        names, positions = _match(X, ensemble, what, carry)
    values = np.empty((len(X), ensemble.n_features), np.float64)
    dtypes: list[np.dtype[Any] | None] = []
    for j, (name, position) in enumerate(zip(names, positions, strict=True)):
        where = Where(what, name, first_row)
        column = column_at(kind, X, position)
        dtype: np.dtype[Any] | None
        known = ensemble.categories[j]
        if known is None:
            values[:, j], dtype = read_numbers(kind, column, where)
            _check_numbers(values[:, j], ensemble.attainable_dtype, where)
        else:
            raw = ensemble.raw
            beyond = () if raw is None else (raw.missing_levels[j], raw.unknown[j])
            values[:, j], dtype = read_categories(kind, column, known, where, *beyond)
        if not ensemble.allows_missing[j]:
            _check_present(values[:, j], where)
        if ensemble.raw is not None and ensemble.raw.no_float32[j]:
            _check_float64(dtype, where)
        dtypes.append(dtype)
    return Table(kind, X, names, values, tuple(dtypes), positions)


def with_values(table: Table, ensemble: Ensemble, values: np.ndarray, changed: np.ndarray) -> Any:
    """The user's table with some cells replaced.

    Parameters
    ----------
    table : Table
    ensemble : Ensemble
    values : float64 array of shape (n_rows, n_model_columns)
        Coded as ``table.values``.
    changed : bool array of the same shape
        The cells to replace; all others stay bit for bit (NaN payloads, signs of zero, nulls).

    Returns
    -------
    array or frame
        A new object of the kind of ``table.native``, with its rows, order, index, column names, order and dtypes. A
        categorical column whose dtype lacks a category that an answer needs has it appended.

    Raises
    ------
    VerificationError
        If a value does not fit its column exactly, which would be a fault of gpucf.
    """
    moved = np.flatnonzero(changed.any(axis=0))
    replaced = {
        table.positions[j]: write_column(
            table.kind,
            column_at(table.kind, table.native, table.positions[j]),
            np.flatnonzero(changed[:, j]),
            values[changed[:, j], j],
            ensemble.categories[j],
            table.dtypes[j],
            table.names[j],
        )
        for j in moved.tolist()
    }
    return _with_columns(table.kind, table.native, replaced)


def columns_frame(kind_of: Table, columns: dict[str, np.ndarray]) -> Any:
    """A new frame of the kind (and with the index) of ``kind_of.native``; for numpy the dict of arrays itself."""
    if kind_of.kind == "pandas":
        import pandas as pd

        return pd.DataFrame(columns, index=kind_of.native.index)
    if kind_of.kind == "polars":
        import polars as pl

        return pl.DataFrame(columns)
    if kind_of.kind == "pyarrow":
        import pyarrow as pa

        return pa.table({name: pa.array(column) for name, column in columns.items()})
    return columns


def take_rows(table: Table, rows: np.ndarray) -> Any:
    """Rows of ``table.native`` by position, as a table of the same kind."""
    if table.kind == "pandas":
        return table.native.iloc[rows]
    return table.native.take(rows) if table.kind == "pyarrow" else table.native[rows]


def column_at(kind: str, X: Any, position: int) -> Any:
    """One column of a native table: a 1-D array, a Series or a ChunkedArray."""
    if kind == "numpy":
        return X[:, position]
    if kind == "pandas":
        return X.iloc[:, position]
    if kind == "polars":
        return X.to_series(position)
    return X.column(position)


def column_names(kind: str, X: Any) -> list[Any]:
    """Column names of a frame as they are, not only strings."""
    return list(X.column_names if kind == "pyarrow" else X.columns)


def kind_of(X: Any, what: str) -> str:
    """The library that a table is of; anything else is refused."""
    if isinstance(X, np.ma.MaskedArray):
        raise TableError(f"{what} is a masked array. Pass X.filled(np.nan) if the model takes missing values.")
    if isinstance(X, np.ndarray):
        return "numpy"
    if _is(X, "pandas", "DataFrame"):
        return "pandas"
    if _is(X, "polars", "DataFrame"):
        return "polars"
    if _is(X, "pyarrow", "Table"):
        return "pyarrow"
    kind = f"{type(X).__module__}.{type(X).__qualname__}"
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TableError(f"{what} is sparse ({kind}). Pass {what}.toarray(): gpucf reads dense tables only.")
    if _is(X, "polars", "LazyFrame"):
        raise TableError(f"{what} is a polars LazyFrame. Pass {what}.collect().")
    if _is(X, "pandas", "Series") or _is(X, "polars", "Series"):
        raise TableError(f"{what} is one column ({kind}). Pass a frame: one row a person, one column a feature.")
    raise TableError(f"{what} is a {kind}. Pass a 2-D numpy array, a pandas or polars DataFrame, or a pyarrow Table.")


def _is(X: Any, library: str, name: str) -> bool:
    """Whether X is of the class `name` of a library, which is not imported: where it is not loaded, X is not of it."""
    found = getattr(sys.modules.get(library), name, None)
    return found is not None and isinstance(X, found)


def _check_array(X: np.ndarray, ensemble: Ensemble, what: str, carry: tuple[Any, ...]) -> None:
    if carry:
        raise OptionError(f"carry names {_list(carry)}, but {what} is an array without column names. Pass a frame.")
    if X.dtype.names is not None:
        raise TableError(f"{what} is a structured array. Pass a 2-D array of numbers, or a frame.")
    if X.ndim != 2:
        hint = f" For one row pass {what}.reshape(1, -1)." if X.ndim == 1 else ""
        raise TableError(f"{what} is an array with {X.ndim} dimension(s), but 2 are needed: rows and columns.{hint}")
    if X.shape[1] != ensemble.n_features:
        raise _wrong_count(X.shape[1], ensemble, what)


def _wrong_count(n: int, ensemble: Ensemble, what: str) -> TableError:
    remedy = f"Pass the model's columns, in the order {_list(ensemble.feature_names)}."
    if not ensemble.has_names:
        remedy = (
            f"Pass the {ensemble.n_features} columns in training order; in a frame, carry= names those beside them."
        )
    return TableError(f"{what} has {n} columns, but the model was trained on {ensemble.n_features}. {remedy}")


def _match(X: Any, ensemble: Ensemble, what: str, carry: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the model's columns and where they stand in the frame."""
    frame_names = [str(name) for name in column_names(kind_of(X, what), X)]
    twice = sorted({name for name in frame_names if frame_names.count(name) > 1})
    if twice:
        raise TableError(f"{what} has more than one column named {_list(twice)}. Rename or drop the others.")
    carried = [str(name) for name in carry]
    absent = [name for name in carried if name not in frame_names]
    if absent:
        raise TableError(f"carry names {_list(absent)}, which {what} does not have; it has {_list(frame_names)}.")
    if not ensemble.has_names:
        kept = [i for i, name in enumerate(frame_names) if name not in carried]
        if len(kept) != ensemble.n_features:
            raise _wrong_count(len(kept), ensemble, what)
        return tuple(frame_names[i] for i in kept), tuple(kept)
    place = _places(frame_names, ensemble)
    both = [name for name in carried if name in ensemble.feature_names]
    if both:
        raise OptionError(f"carry names {_list(both)}, which the model uses. Carry only columns it does not know.")
    missing = [name for name in ensemble.feature_names if name not in place]
    if missing:
        raise TableError(f"{what} lacks {_list(missing)}, which the model was trained on; it has {_list(frame_names)}.")
    used = {place[name] for name in ensemble.feature_names}
    beside = [*carried, *(() if ensemble.raw is None else ensemble.raw.ignored)]
    extra = [name for i, name in enumerate(frame_names) if i not in used and name not in beside]
    if extra:
        raise TableError(
            f"{what} has {_list(extra)}, which the model does not know. Drop such columns, or name them in carry "
            "(command line: --carry) to take them along unchanged."
        )
    return ensemble.feature_names, tuple(place[name] for name in ensemble.feature_names)


def _places(frame_names: list[str], ensemble: Ensemble) -> dict[str, int]:
    place = {name: i for i, name in enumerate(frame_names)}
    if ensemble.library == "lightgbm":
        # LightGBM stores its names with an underscore for each blank.
        for i, name in enumerate(frame_names):
            place.setdefault("_".join(name.split(" ")), i)
    return place


def _check_numbers(values: np.ndarray, compare_dtype: np.dtype[Any], where: Where) -> None:
    largest = float(np.finfo(compare_dtype).max)
    bad = np.flatnonzero(np.abs(values) > largest)
    if not bad.size:
        return
    value = float(values[bad[0]])
    if np.isinf(value):
        raise where.error(int(bad[0]), f"{value} is not a number that a row can hold. Correct or drop the row.")
    raise where.error(
        int(bad[0]),
        f"{value!r} is too large for the model, which compares in {compare_dtype} (at most {largest!r} either side of "
        "0). Correct or drop the row.",
    )


def _check_present(values: np.ndarray, where: Where) -> None:
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise where.error(
            int(bad[0]),
            f"the value is missing, and the model takes no missing values here ({bad.size} row(s) of this column). "
            "Fill or drop them.",
        )


def _check_float64(dtype: np.dtype[Any] | None, where: Where) -> None:
    if dtype is not None and dtype.kind == "f" and dtype.itemsize < 8:
        raise TableError(
            f"{where.what}, column {where.name!r} is {dtype}, and the pipeline would compute with it in {dtype}, which "
            "gives other numbers than those it was read with. Convert the column to float64."
        )


def _with_columns(kind: str, native: Any, replaced: dict[int, Any]) -> Any:
    if kind == "numpy":
        out = np.array(native, order="K", copy=True)
        for position, column in replaced.items():
            out[:, position] = column
        return out
    if kind == "pandas":
        out = native.copy()
        for position, column in replaced.items():
            out.isetitem(position, column)
        return out
    if kind == "polars":
        out = native.clone()
        for position, column in replaced.items():
            out.replace_column(position, column)
        return out
    out = native
    for position, column in replaced.items():
        out = out.set_column(position, out.schema.field(position).with_type(column.type), column)
    return out


def _list(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown + (f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
