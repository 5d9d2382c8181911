"""CSV in and out: types that hold for the whole file, and numbers that come back bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpucf._errors import TableError

_BLOCK_BYTES = 8 << 20
_COLUMN = re.compile(r"In CSV column #(\d+):.*?conversion error to (\S+?): invalid value '(.*)'", re.DOTALL)


def open_csv(path: Path, types: dict[str, Any]) -> tuple[Any, Iterator[Any]]:
    """Schema and record batches of a CSV file with one header row.

    Types that `types` does not give are inferred from the first 8 MiB and then hold for the whole file.
    """
    import pyarrow as pa
    from pyarrow import csv

    try:
        reader = csv.open_csv(
            path, csv.ReadOptions(block_size=_BLOCK_BYTES), convert_options=csv.ConvertOptions(column_types=types)
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error, []) from error
    return reader.schema, _batches(path, reader)


def read_csv(path: Path, types: dict[str, Any], names: list[str]) -> Any:
    """A whole CSV file; types that are not given are inferred from all of it."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error, names) from error


def _batches(path: Path, reader: Any) -> Iterator[Any]:
    import pyarrow as pa

    try:
        yield from reader
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error, reader.schema.names) from error


def _unreadable(path: Path, error: Exception, names: list[str]) -> TableError:
    text = " ".join(str(error).split())
    found = _COLUMN.search(text)
    if not found:
        return TableError(f"{path} cannot be read as CSV: {text}")
    number, kind, value = int(found[1]), found[2], found[3]
    name = names[number] if number < len(names) else f"number {number}"
    remedy = "Correct the file, or name the column in --carry if the model does not use it."
    if kind == "int64":
        remedy = (
            f'If it may hold fractions, say so: --features \'{{"{name}": "continuous"}}\'. Otherwise correct the file.'
        )
    return TableError(
        f"{path}, column {name!r}: {value!r} is not {kind}, which the column is by its declaration, by the background, "
        f"or by the first rows of the file. {remedy}"
    )


class CsvWriter:
    """Writes tables of one schema; text is quoted where it must be, missing values are empty."""

    def __init__(self, path: Path, schema: Any) -> None:
        import pyarrow as pa

        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed in close()
        header = pa.chunked_array([pa.array(schema.names, pa.large_string())])
        self._file.write(",".join(_quoted(header).to_pylist()) + "\n")

    def write(self, table: Any) -> None:
        """Append the rows of a table."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not table.num_rows:
            return
        columns = [_text(column, name) for name, column in zip(table.column_names, table.columns, strict=True)]
        lines = pc.binary_join_element_wise(*columns, pa.scalar(",", pa.large_string()))
        self._file.write("\n".join(lines.to_pylist()) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _text(column: Any, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_floating(kind):
        # Shortest text that reads back as the same float64: shorter float32 text would read back as another float64.
        text = column.cast(pa.float64()).cast(pa.large_string())
        whole = pc.match_substring_regex(text, r"^-?\d+$")
        text = pc.if_else(whole, _joined(text, ".0"), text)  # stays a float column
    else:
        try:
            text = column.cast(pa.large_string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TableError(f"column {name!r} of type {kind} cannot be written as CSV. Write Parquet.") from error
        if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            text = _quoted(text)
    return pc.fill_null(text, "")


def _quoted(text: Any) -> Any:
    import pyarrow.compute as pc

    needs = pc.match_substring_regex(text, r'[",\r\n]')
    return pc.if_else(needs, _joined('"', pc.replace_substring(text, '"', '""'), '"'), text)


def _joined(*parts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    large = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*large, pa.scalar("", pa.large_string()))
