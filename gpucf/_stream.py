"""Tables on disk, in batches: CSV and Parquet by suffix, and an output that is whole, or partial and named so."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucf._csv import CsvWriter, open_csv, read_csv
from gpucf._errors import TableError

_SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_CHUNK_BYTES = 1 << 20


def format_of(path: Path) -> str:
    """"csv" or "parquet", by the suffix."""  # fmt: skip
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise TableError(f"{path} has the suffix {suffix!r}; use one of {', '.join(_SUFFIXES)}.")
    return _SUFFIXES[suffix]


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of a file, and how many line ends it holds (rows of a CSV file, nearly)."""

    sha256: str
    n_lines: int

    @classmethod
    def of(cls, path: Path, what: str) -> Fingerprint:
        """Read the whole file once."""
        h, n_lines = hashlib.sha256(), 0
        with readable(path, what), open(path, "rb") as f:
            while chunk := f.read(_CHUNK_BYTES):
                h.update(chunk)
                n_lines += chunk.count(b"\n")
        return cls(h.hexdigest(), n_lines)


@contextlib.contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Turn what the operating system says about a file into a `TableError`."""
    try:
        yield
    except OSError as error:
        raise TableError(f"cannot read the {what} {path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Source:
    """A table on disk.

    Attributes
    ----------
    path : Path
    schema : pyarrow Schema
    n_rows : int or None
        Exact for Parquet.
    """

    path: Path
    schema: Any
    n_rows: int | None
    _record_batches: Callable[[int], Iterator[Any]]

    def batches(self, n_rows: int) -> Iterator[Any]:
        """Tables (pyarrow) of `n_rows` rows, the last one smaller; none for a table without rows."""
        import pyarrow as pa

        held: list[Any] = []
        n_held = 0
        for batch in self._record_batches(n_rows):
            held.append(batch)
            n_held += batch.num_rows
            if n_held < n_rows:
                continue
            table = pa.Table.from_batches(held, self.schema)
            whole = n_held - n_held % n_rows
            for start in range(0, whole, n_rows):
                yield table.slice(start, n_rows)
            held, n_held = table.slice(whole).to_batches(), n_held - whole
        if n_held:
            yield pa.Table.from_batches(held, self.schema)


def open_source(path: Path, what: str, types: Callable[[Any], dict[str, Any]] = lambda schema: {}) -> Source:
    """Open a table for reading in batches.

    Parameters
    ----------
    types : callable
        Takes the schema as inferred, returns types by column name; asked for CSV only, as Parquet knows its types.
    """
    with readable(path, what):
        if format_of(path) == "parquet":
            return _open_parquet(path)
        schema, _ = open_csv(path, {})
        wanted = types(schema)
        schema, first = open_csv(path, wanted)
        return Source(path, schema, None, lambda n_rows: first)


def read_all(path: Path, what: str, types: Callable[[Any], dict[str, Any]] = lambda schema: {}) -> Any:
    """A whole table."""
    import pyarrow as pa

    with readable(path, what):
        if format_of(path) == "csv":
            schema, _ = open_csv(path, {})
            return read_csv(path, types(schema), schema.names)
        source = _open_parquet(path)
        return pa.Table.from_batches(source._record_batches(1 << 16), source.schema)


def _open_parquet(path: Path) -> Source:
    import pyarrow as pa
    from pyarrow import parquet

    def damaged(error: Exception) -> TableError:
        return TableError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}")

    try:
        file = parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise damaged(error) from error

    def batches(n_rows: int) -> Iterator[Any]:
        try:
            yield from file.iter_batches(batch_size=n_rows)
        except (pa.ArrowInvalid, OSError) as error:
            raise damaged(error) from error

    return Source(path, file.schema_arrow, file.metadata.num_rows, batches)


class Output:
    """A table being written: under ``NAME.partial.SUFFIX`` until it is whole, then renamed in one step.

    Parameters
    ----------
    path : Path
    schema : pyarrow Schema
    metadata : dict
        Written into the Parquet schema under ``gpucf``, or beside a CSV file as ``PATH.meta.json``.
    """

    def __init__(self, path: Path, schema: Any, metadata: dict[str, Any]) -> None:
        self.path = path
        self.partial = partial_path(path)
        self.n_rows = 0
        self._metadata = metadata
        self._is_csv = format_of(path) == "csv"
        with writable(self.partial):
            if self._is_csv:
                self._writer: Any = CsvWriter(self.partial, schema)
            else:
                from pyarrow import parquet

                held = {**(schema.metadata or {}), b"gpucf": json.dumps(metadata, sort_keys=True).encode()}
                self._schema = schema.with_metadata(held)
                self._writer = parquet.ParquetWriter(self.partial, self._schema)

    def write(self, table: Any) -> None:
        """Append rows; an interrupt waits until they are whole."""
        with writable(self.partial), deferred_interrupt():
            if self._is_csv:
                self._writer.write(table)
            else:
                self._writer.write_table(table.replace_schema_metadata(self._schema.metadata))
            self.n_rows += table.num_rows

    def finish(self) -> None:
        """Close the file and give it its name."""
        with writable(self.path), deferred_interrupt():
            self._writer.close()
            self._side_file(self.partial, complete=True)
            if self._is_csv:
                os.replace(side_path(self.partial), side_path(self.path))
            os.replace(self.partial, self.path)

    def keep_partial(self) -> None:
        """Close the file as it is: valid, and named partial."""
        with writable(self.partial), deferred_interrupt():
            self._writer.close()
            self._side_file(self.partial, complete=False)

    def discard(self) -> None:
        """Close and remove the file."""
        with contextlib.suppress(OSError), deferred_interrupt():
            self._writer.close()
            self.partial.unlink(missing_ok=True)

    def _side_file(self, path: Path, complete: bool) -> None:
        if self._is_csv:
            content = {**self._metadata, "rows": self.n_rows, "complete": complete}
            side_path(path).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def partial_path(path: Path) -> Path:
    """Where a table is written until it is whole: ``out.csv`` -> ``out.partial.csv``."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def side_path(path: Path) -> Path:
    """Where the metadata of a CSV file lie."""
    return path.with_name(f"{path.name}.meta.json")


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn what the operating system says about an output file into a `TableError`."""
    try:
        yield
    except OSError as error:
        raise TableError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done, so that no file is left with half a row in it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


def write_csv(path: Path, table: Any) -> None:
    """A whole pyarrow table as a CSV file."""
    with writable(path):
        writer = CsvWriter(path, table.schema)
        try:
            writer.write(table)
        finally:
            writer.close()
