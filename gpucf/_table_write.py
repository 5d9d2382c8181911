"""Columns of foreign tables with some cells replaced, everything else bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._errors import VerificationError


def write_column(
    kind: str,
    column: Any,
    rows: np.ndarray,
    values: np.ndarray,
    known: np.ndarray | None,
    dtype: np.dtype[Any] | None,
    name: str,
) -> Any:
    """A copy of `column` with ``values`` (float64, NaN: missing) in ``rows``.

    `known` are the model's categories where the column is categorical, and `values` positions in them; `dtype` is the
    storage of the column, None for text and categories.
    """
    if known is None:
        cells = exact_cast(values, dtype if dtype is not None else np.dtype(np.float64), name)
        missing = np.isnan(values)
    else:
        cells, missing = _category_cells(values, known, dtype, name)
    if kind == "numpy":
        return _write_numpy(column, rows, cells, missing, name)
    if kind == "pandas":
        return _write_pandas(column, rows, cells, missing, name)
    if kind == "polars":
        return _write_polars(column, rows, cells, missing)
    return _write_arrow(column, rows, cells, missing)


def exact_cast(values: np.ndarray, dtype: np.dtype[Any], name: str) -> np.ndarray:
    """Float64 numbers in another dtype, each equal to what it was; NaN becomes 0 where the dtype has no NaN."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = values.astype(dtype)
        wrong = cast.astype(np.float64) != values
        return _all_fit(cast, wrong & ~np.isnan(values), values, dtype, name)
    present = np.where(np.isnan(values), 0.0, values)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    # float(high) rounds up to 2**63 or 2**64 for the 64-bit types; as it is a bound from outside, compare with `<`.
    above = float(high) if float(high) == high and high < 2**53 else np.nextafter(float(high), 0.0)
    fits = (present >= float(low)) & (present <= above) & (np.floor(present) == present)
    return _all_fit(np.where(fits, present, 0.0).astype(dtype), ~fits, values, dtype, name)


def _all_fit(cast: np.ndarray, wrong: np.ndarray, values: np.ndarray, dtype: np.dtype[Any], name: str) -> np.ndarray:
    if wrong.any():
        raise VerificationError(
            f"the answer {float(values[wrong][0])!r} does not fit column {name!r} of dtype {dtype} exactly. "
            "This is a fault of gpucf; please report it."
        )
    return cast


def _category_cells(
    values: np.ndarray, known: np.ndarray, dtype: np.dtype[Any] | None, name: str
) -> tuple[np.ndarray, np.ndarray]:
    missing = np.isnan(values)
    positions = np.where(missing, 0, values).astype(np.int64)
    if np.any((positions < 0) | (positions >= max(len(known), 1)) | (~missing & (positions != values))):
        raise VerificationError(f"an answer is not a category of column {name!r}. This is a fault of gpucf.")
    cells = np.empty(len(values), object)
    for i, position in enumerate(positions.tolist()):
        cells[i] = None if missing[i] else known.item(position)
    if dtype is None:
        return cells, missing
    numbers = np.array([np.nan if cell is None else float(cell) for cell in cells.tolist()], np.float64)
    return exact_cast(numbers, dtype, name), missing


def _no_missing(missing: np.ndarray, name: str, dtype: Any) -> None:
    if missing.any():
        raise VerificationError(
            f"an answer is missing, but column {name!r} of dtype {dtype} holds no missing values. "
            "This is a fault of gpucf; please report it."
        )


def _write_numpy(column: np.ndarray, rows: np.ndarray, cells: np.ndarray, missing: np.ndarray, name: str) -> Any:
    if column.dtype.kind not in "fO":
        _no_missing(missing, name, column.dtype)
    out = np.array(column, copy=True)
    out[rows] = cells.astype(object) if column.dtype.kind == "O" else cells
    if column.dtype.kind == "O":
        out[rows[missing]] = None
    return out


def _write_pandas(column: Any, rows: np.ndarray, cells: np.ndarray, missing: np.ndarray, name: str) -> Any:
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        # A Series of the old dtype: pandas would take a bare object array of strings for text.
        return pd.Series(_write_numpy(column.to_numpy(), rows, cells, missing, name), column.index, dtype)
    array = column.array.copy()
    if isinstance(dtype, pd.CategoricalDtype):
        absent = [c for c in dict.fromkeys(cells[~missing].tolist()) if c not in dtype.categories]
        if absent:
            array = array.add_categories(absent)
    array[rows[~missing]] = cells[~missing]
    if missing.any():
        array[rows[missing]] = None if isinstance(dtype, pd.CategoricalDtype) else pd.NA
    return array


def _write_polars(column: Any, rows: np.ndarray, cells: np.ndarray, missing: np.ndarray) -> Any:
    import polars as pl

    dtype, name = column.dtype, column.name
    is_category = dtype in (pl.Categorical, pl.Enum)
    if dtype == pl.Enum:
        known = dtype.categories.to_list()
        dtype = pl.Enum(known + [c for c in dict.fromkeys(cells[~missing].tolist()) if c not in known])
    if dtype == pl.Null:
        dtype = pl.Float64
    storage = pl.String if is_category else dtype
    new = [None if gone else cell for cell, gone in zip(cells.tolist(), missing.tolist(), strict=True)]
    # scatter writes in place, and a clone shares its buffers until then.
    out = column.cast(storage).clone().scatter(rows.tolist(), pl.Series(name, new, dtype=storage))
    return out.cast(dtype).alias(name)


def _write_arrow(column: Any, rows: np.ndarray, cells: np.ndarray, missing: np.ndarray) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.float64() if pa.types.is_null(column.type) else column.type
    is_dictionary = pa.types.is_dictionary(kind)
    storage = kind.value_type if is_dictionary else kind
    new = [None if gone else cell for cell, gone in zip(cells.tolist(), missing.tolist(), strict=True)]
    mask = np.zeros(len(column), bool)
    mask[rows] = True
    old = pa.concat_arrays(column.cast(storage).chunks) if column.num_chunks else pa.array([], storage)
    replaced = pc.replace_with_mask(old, pa.array(mask), pa.array(new, type=storage))
    return pa.chunked_array([_encoded_as(replaced, column, kind) if is_dictionary else replaced])


def _encoded_as(plain: Any, column: Any, kind: Any) -> Any:
    """Dictionary-encode with the dictionary of `column` first, so that its categories stay and keep their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    dictionary = column.unify_dictionaries().chunk(0).dictionary
    fresh = pc.unique(plain).drop_null()
    fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=dictionary)))
    dictionary = pa.concat_arrays([dictionary, fresh])
    indices = pc.index_in(plain, value_set=dictionary).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)
