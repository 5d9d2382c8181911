"""Columns of foreign tables as float64, nothing lost: what does not survive is refused with its row and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._errors import TableError

_WORDS = {
    "U": "text", "S": "bytes", "T": "text", "c": "complex numbers", "M": "dates", "m": "time spans", "V": "records",
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """A column of a table, for messages."""

    what: str
    name: str
    first_row: int = 0

    def error(self, row: int, why: str) -> TableError:
        return TableError(f"{self.what}, column {self.name!r}, row {row + self.first_row}: {why}")

    def not_numbers(self, holds: str, column: Any) -> TableError:
        shown = f", for example {_plain(column[0])!r} in row {self.first_row}" if len(column) else ""
        return TableError(
            f"{self.what}, column {self.name!r} holds {holds}{shown}, but the model takes numbers there. Convert the "
            "column as it was converted for training."
        )


def read_numbers(kind: str, column: Any, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    """A numeric column as float64 (NaN: missing), and its storage as a numpy dtype."""
    if kind == "numpy":
        return _numpy_numbers(column, where)
    if kind == "pandas":
        return _pandas_numbers(column, where)
    return _arrow_numbers(_to_arrow(kind, column), where)


def read_categories(
    kind: str,
    column: Any,
    known: np.ndarray,
    where: Where,
    also_missing: tuple[Any, ...] | None = (),
    unknown: bool = False,
) -> tuple[np.ndarray, np.dtype[Any] | None]:
    """A categorical column as positions in `known` (NaN: missing), and its storage (None: text or categories).

    Values of `also_missing` (None: all others) are read as missing; with `unknown` all others as the last of `known`.
    """
    codes, distinct, dtype = _encode(kind, column, where)
    place = dict.fromkeys(also_missing or (), -2) | {value: i for i, value in enumerate(known.tolist())}
    other = -2 if also_missing is None else len(known) - 1 if unknown else -1
    found = np.array([place.get(value, other) for value in distinct], dtype=np.int64)
    found = np.append(found, -2)  # code -1 (missing) reads the last entry
    positions = found[codes]
    bad = np.flatnonzero(positions == -1)
    if bad.size:
        row = int(bad[0])
        value = distinct[codes[row]]
        names = ", ".join(repr(v) for v in known.tolist()[:12]) + (", ..." if len(known) > 12 else "")
        raise where.error(row, f"{value!r} is not a category that the model was trained on; it knows {names}.")
    return np.where(positions == -2, np.nan, positions.astype(np.float64)), dtype


def _numpy_numbers(column: np.ndarray, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    dtype = column.dtype.newbyteorder("=")
    if dtype.kind == "b":
        return column.astype(np.float64), dtype
    if dtype.kind in "iu":
        return _exact_integers(column, where), dtype
    if dtype.kind == "f":
        values = column.astype(np.float64)
        if dtype.itemsize > 8:
            lost = np.flatnonzero((values != column) & ~np.isnan(values))
            if lost.size:
                row = int(lost[0])
                raise where.error(row, f"{column[row]!r} does not fit in float64. Convert the table to float64 first.")
            dtype = np.dtype(np.float64)
        return values, dtype
    if dtype.kind == "O":
        return _object_numbers(column, where)
    raise where.not_numbers(_WORDS.get(dtype.kind, f"{dtype} values"), column)


def _exact_integers(column: np.ndarray, where: Where) -> np.ndarray:
    values = column.astype(np.float64)
    if column.dtype.itemsize == 8:
        # Up to 2**53 every integer is a float64; the few beyond are compared as Python integers, which cannot wrap.
        for row in np.flatnonzero(np.abs(values) >= 2.0**53).tolist():
            if int(values[row]) != int(column[row]):
                raise where.error(
                    row,
                    f"{int(column[row])} is an integer that float64 cannot hold (exact up to 2**53), so that the model "
                    "itself cannot tell it from its neighbours. Give the column as float64 if that is meant.",
                )
    return values


def _object_numbers(column: np.ndarray, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    values = np.empty(len(column), np.float64)
    kinds: set[str] = set()
    for row, cell in enumerate(column.tolist()):
        if is_missing(cell):
            values[row] = np.nan
            kinds.add("f")
        elif isinstance(cell, bool | np.bool_):
            values[row] = float(cell)
            kinds.add("b")
        elif isinstance(cell, int | np.integer):
            values[row] = _exact_integers(np.array([_in_int64(int(cell), row, where)]), Where(*_at(where, row)))[0]
            kinds.add("i")
        elif isinstance(cell, float | np.floating):
            values[row] = float(cell)
            kinds.add("f")
        else:
            raise where.error(
                row,
                f"{cell!r} is not a number (it is a {type(cell).__name__}), but the model takes numbers there. Convert "
                "the column as it was converted for training.",
            )
    if kinds == {"b"}:
        return values, np.dtype(bool)
    return values, np.dtype(np.int64 if kinds == {"i"} else np.float64)


def _at(where: Where, row: int) -> tuple[str, str, int]:
    return where.what, where.name, where.first_row + row


def _in_int64(value: int, row: int, where: Where) -> int:
    if not -(2**63) <= value < 2**63:
        raise where.error(row, f"{value} is too large an integer. Give the column as float64.")
    return value


def _pandas_numbers(column: Any, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return _numpy_numbers(column.to_numpy(), where)
    cells = column.array
    if type(dtype).__name__ == "SparseDtype":
        raise where.not_numbers("sparse values", cells)
    if type(dtype).__name__ == "ArrowDtype":
        return _arrow_numbers(_to_arrow("pandas", column), where)
    numpy_dtype = getattr(dtype, "numpy_dtype", None)  # the nullable integers, floats and booleans
    if type(dtype).__name__ == "CategoricalDtype" or numpy_dtype is None or numpy_dtype.kind not in "biuf":
        raise where.not_numbers(f"{dtype} values", cells)
    missing = column.isna().to_numpy()
    filled = column.to_numpy(dtype=numpy_dtype, na_value=numpy_dtype.type(0))
    return _with_missing(filled, missing, where)


def _with_missing(filled: np.ndarray, missing: np.ndarray, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    values, dtype = _numpy_numbers(filled, where)
    values[missing] = np.nan
    return values, dtype


def _to_arrow(kind: str, column: Any) -> Any:
    import pyarrow as pa

    if kind == "pyarrow":
        return column
    array = column.to_arrow() if kind == "polars" else pa.array(column)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _arrow_numbers(column: Any, where: Where) -> tuple[np.ndarray, np.dtype[Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), np.dtype(np.float64)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise where.not_numbers(f"{kind} values", column)
    missing = pc.is_null(column).to_numpy()
    zero = pa.scalar(False if pa.types.is_boolean(kind) else 0).cast(kind)
    filled = pc.fill_null(column, zero) if missing.any() else column
    return _with_missing(filled.to_numpy().astype(kind.to_pandas_dtype(), copy=False), missing, where)


def _encode(kind: str, column: Any, where: Where) -> tuple[np.ndarray, list[Any], np.dtype[Any] | None]:
    """Codes (-1: missing), the distinct values that they stand for, and the storage of a categorical column."""
    if kind == "numpy":
        codes, distinct = _encode_cells(column)
        return codes, distinct, column.dtype.newbyteorder("=") if column.dtype.kind in "biuf" else None
    if kind == "pandas":
        import pandas as pd

        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.codes.to_numpy().astype(np.int64), column.cat.categories.tolist(), None
        numeric = _pandas_storage(column.dtype)
        codes, uniques = pd.factorize(column)
        return codes.astype(np.int64), list(uniques.tolist()), numeric
    return _encode_arrow(_to_arrow(kind, column))


def _pandas_storage(dtype: Any) -> np.dtype[Any] | None:
    storage = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", None)
    return storage if storage is not None and storage.kind in "biuf" else None


def _encode_arrow(column: Any) -> tuple[np.ndarray, list[Any], np.dtype[Any] | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        numeric = None
    else:
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        numeric = np.dtype(kind.to_pandas_dtype()) if is_number else None
    if len(column) == 0:
        return np.zeros(0, np.int64), [], numeric
    encoded = pc.dictionary_encode(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    distinct = encoded.dictionary.to_pylist()
    for code, value in enumerate(distinct):
        if is_missing(value):
            codes[codes == code] = -1
    return codes, distinct, numeric


def _encode_cells(column: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    codes = np.empty(len(column), np.int64)
    places: dict[Any, int] = {}
    for row, cell in enumerate(column.tolist()):
        codes[row] = -1 if is_missing(cell) else places.setdefault(cell, len(places))
    return codes, list(places)


def is_missing(cell: Any) -> bool:
    """Whether a single cell is None, NaN, or pandas' NA or NaT."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def _plain(cell: Any) -> Any:
    if hasattr(cell, "as_py"):
        return cell.as_py()
    return cell.item() if isinstance(cell, np.generic) and cell.dtype.kind != "M" else cell
