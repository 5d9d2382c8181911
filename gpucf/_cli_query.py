"""``gpucf query``: a table on disk in, answered in batches, a table on disk out."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucf import _cli_options
from gpucf._engine import Engine
from gpucf._ensemble import Ensemble
from gpucf._errors import GpucfError, OptionError, TableError, VerificationError
from gpucf._features import Features
from gpucf._loaders import load_model
from gpucf._progress import Progress
from gpucf._result import Result
from gpucf._stream import Fingerprint, Output, Source, format_of, open_source, partial_path, read_all, side_path
from gpucf._table import read_table
from gpucf._version import __version__

ADDED = ("gpucf_status", "gpucf_cost", "gpucf_lower_bound", "gpucf_changed")
LINES, REGION = ("gpucf_row", "gpucf_option"), "gpucf_region"
_PATIENCE_S = 5.0
_COMPILING = "gpucf: still preparing; on a first run the code is compiled, once, which can take a minute or two\n"
_UNSCALED = "gpucf: no --background, so that changes are not scaled: each counts in its column's own units\n"


def run_query(args: argparse.Namespace) -> int:
    """Answer every row of ``args.table``; returns the exit code."""
    start = time.perf_counter()
    options = _cli_options.canonical(args)
    if args.batch_rows < 1:
        raise OptionError(f"--batch-rows is {args.batch_rows}; give a whole number of at least 1.")
    paths = _Paths.of(args)
    ensemble = load_model(paths.model, iterations=options["iterations"], trust_pickle=args.trust_pickle)
    known = (*ensemble.feature_names, *options["carry"])
    options["carry"] += [n for n in Features(options["features"] or {}).row_columns if n not in known]
    background, source = _open_tables(paths, ensemble, options)
    options["carry"] += _index_columns(source, options["carry"])
    if background is None:
        # Dtypes, but no units: those would come from a part of the rows.
        background = _model_columns(source.schema.empty_table(), ensemble, options["carry"])
        if options["scale"] is not None:
            raise OptionError(f"--scale {options['scale']} needs --background; units are not taken from a stream.")
    engine = Engine(
        paths.model, background, features=options["features"], one_hot=options["one_hot"],
        rules=options["rules"], iterations=options["iterations"],
        trust_pickle=args.trust_pickle, n_threads=args.threads,
        method=args.method, max_regions=args.max_regions,
    )  # fmt: skip
    prints = {name: Fingerprint.of(path, name) for name, path in paths.inputs().items()}
    n_rows = source.n_rows if source.n_rows is not None else max(prints["table"].n_lines - 1, 0)
    note = "" if args.quiet or args.scale is not None or paths.background is not None else _UNSCALED
    run = _Run(engine, source, options, paths.output, _metadata(paths, prints, options, engine), note)
    with Progress(n_rows, quiet=args.quiet) as progress:
        code = run.all_batches(args.batch_rows, progress)
    if code == 0 and not args.quiet:
        sys.stdout.write(run.report(time.perf_counter() - start) + "\n")
    return code


@dataclass(frozen=True)
class _Paths:
    model: Path
    table: Path
    background: Path | None
    output: Path

    @classmethod
    def of(cls, args: argparse.Namespace) -> _Paths:
        background = None if args.background is None else Path(args.background)
        paths = cls(Path(args.model), Path(args.table), background, Path(args.output))
        format_of(paths.table)
        format_of(paths.output)
        for name, path in paths.inputs().items():
            if name != "model" and not path.exists():
                raise TableError(f"cannot read the {name} {path}: there is no such file.")
            for written in (paths.output, partial_path(paths.output), side_path(paths.output)):
                if path.resolve() == written.resolve():
                    raise TableError(f"the output would overwrite the {name} {path}. Give another name to -o.")
        if not paths.output.parent.is_dir():
            raise TableError(f"cannot write {paths.output}: there is no folder {paths.output.parent}.")
        if paths.output.is_dir():
            raise TableError(f"cannot write {paths.output}: it is a folder.")
        return paths

    def inputs(self) -> dict[str, Path]:
        found = {"model": self.model, "table": self.table}
        return found if self.background is None else {**found, "background": self.background}


def _metadata(paths: _Paths, prints: dict[str, Fingerprint], options: dict[str, Any], engine: Engine) -> dict[str, Any]:
    return {
        "gpucf_version": __version__,
        **{name: {"file": path.name, "sha256": prints[name].sha256} for name, path in paths.inputs().items()},
        "options": options,
        "options_sha256": hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest(),
        "trees": engine.ensemble.n_trees,
    }


def _open_tables(paths: _Paths, ensemble: Ensemble, options: dict[str, Any]) -> tuple[Any, Source]:
    """The background (whole) and the table (in batches); CSV columns get the types that the model and it ask for."""
    declared = _declared_types(ensemble, options)
    background = None
    if paths.background is not None:
        whole = read_all(paths.background, "background", lambda schema: _csv_types(schema, ensemble, declared))
        background = _blank_to_null(_model_columns(whole, ensemble, options["carry"]), ensemble)
        seen = _numeric_types(background.schema)
        declared = {
            **seen,
            **{name: kind for name, kind in declared.items() if not _whole_floats(kind, seen.get(name))},
        }
    source = open_source(paths.table, "table", lambda schema: _csv_types(schema, ensemble, declared))
    taken = [name for name in (*ADDED, *LINES, REGION) if name in source.schema.names]
    if taken:
        raise TableError(f"{paths.table} already has the column {taken[0]!r}, which the output needs. Rename it.")
    return background, source


def _declared_types(ensemble: Ensemble, options: dict[str, Any]) -> dict[str, Any]:
    import pyarrow as pa

    # As text nothing of a carried column is lost: leading zeros, dates, numbers of any length.
    beside = () if ensemble.raw is None else ensemble.raw.ignored
    types: dict[str, Any] = {name: pa.string() for name in (*options["carry"], *beside)}
    for name, known in zip(ensemble.feature_names, ensemble.categories, strict=True):
        if known is not None and all(isinstance(value, str) for value in known.tolist()):
            types[name] = pa.string()
    for name, wish in (options["features"] or {}).items():
        kind = wish.get("kind") if isinstance(wish, dict) else wish
        if kind in ("continuous", "integer"):
            types[name] = pa.float64() if kind == "continuous" else pa.int64()
    return types


def _csv_types(schema: Any, ensemble: Ensemble, declared: dict[str, Any]) -> dict[str, Any]:
    """Types by column: as declared, and numbers where the first rows show only blanks."""
    import pyarrow as pa

    blank = {field.name: pa.float64() for field in schema if pa.types.is_null(field.type)}
    types = {name: kind for name, kind in {**blank, **declared}.items() if name in schema.names}
    return {n: pa.float64() if _whole_floats(kind, schema.field(n).type) else kind for n, kind in types.items()}


def _whole_floats(declared: Any, seen: Any) -> bool:
    """Whether whole numbers are declared of a column that is written as floats, such as 30000.0."""
    import pyarrow as pa

    return seen is not None and pa.types.is_integer(declared) and pa.types.is_floating(seen)


def _numeric_types(schema: Any) -> dict[str, Any]:
    import pyarrow as pa

    return {f.name: f.type for f in schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)}


def _model_columns(table: Any, ensemble: Ensemble, carry: Sequence[str]) -> Any:
    """Without the columns that the model does not know: a background may hold more than is asked for."""
    drop = set(carry)
    if ensemble.has_names:
        known = set(ensemble.feature_names)
        drop |= {name for name in table.column_names if name not in known and "_".join(name.split(" ")) not in known}
    return table.drop_columns([name for name in table.column_names if name in drop])


def _blank_to_null(table: Any, ensemble: Ensemble) -> Any:
    """In a CSV file a missing category is an empty field."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, known in zip(ensemble.feature_names, ensemble.categories, strict=True):
        if known is None or name not in table.column_names or "" in known.tolist():
            continue
        column = table[name]
        if pa.types.is_string(column.type) and pc.any(pc.equal(column, "")).as_py():
            i = table.column_names.index(name)
            filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
            table = table.set_column(i, table.schema.field(i), filled)
    return table


def _index_columns(source: Source, carry: list[str]) -> list[str]:
    """Index columns that pandas wrote into a Parquet file ride along without being named."""
    pandas = source.schema.pandas_metadata or {}
    stored = [name for name in pandas.get("index_columns", []) if isinstance(name, str)]
    return [name for name in stored if name in source.schema.names and name not in carry]


@dataclass
class _Run:
    engine: Engine
    source: Source
    options: dict[str, Any]
    path: Path
    metadata: dict[str, Any]
    note: str = ""  # for stderr, once the first answers show that all else is well
    statuses: Counter[str] = field(default_factory=Counter)
    verified_by: str = ""
    answering_s: float = 0.0
    output: Output | None = None

    def all_batches(self, batch_rows: int, progress: Progress) -> int:
        """Answer and write; leaves a partial file when interrupted, or when a later batch cannot be used."""
        try:
            batches = self.source.batches(batch_rows)
            for number, batch in enumerate(batches):
                self._one_batch(batch, number * batch_rows, progress)
            if self.output is None:  # a table without rows
                self._one_batch(self.source.schema.empty_table(), 0, progress)
            self._finish()
            return 0
        except KeyboardInterrupt:
            progress.close()
            sys.stderr.write(f"gpucf: interrupted; {self._what_is_left()}\n")
            return 130
        except (GpucfError, VerificationError) as error:
            progress.close()
            left = self._what_is_left()
            raise type(error)(f"{str(error).rstrip('.')}. {left[0].upper()}{left[1:]}.") from error

    def _one_batch(self, batch: Any, first_row: int, progress: Progress) -> None:
        carry = self.options["carry"]
        batch = _blank_to_null(batch, self.engine.ensemble)
        # Here the rows have their numbers in the whole table; the engine counts within the batch.
        read_table(batch, self.engine.ensemble, self.source.path.name, carry, first_row=first_row)
        given = {k: v for k, v in self.options.items() if k not in ("one_hot", "features", "rules", "iterations")}
        if given["time_limit_s"] is not None:  # a limit for the table, not for each batch
            given["time_limit_s"] = max(given["time_limit_s"] - self.answering_s, 1e-9)
        start = time.perf_counter()
        waiting = threading.Timer(_PATIENCE_S, sys.stderr.write, [_COMPILING])
        waiting.daemon = True
        if first_row == 0:
            waiting.start()
        try:
            result = self.engine.query(batch, progress=progress.within(first_row), **given)
        except TableError as error:
            where = f" (rows counted from row {first_row} of {self.source.path.name})" if first_row else ""
            raise TableError(f"{str(error).rstrip('.')}{where}.") from error
        finally:
            waiting.cancel()
        self.answering_s += time.perf_counter() - start
        self.verified_by = result.verified_by
        self.statuses.update(result.status.tolist())
        table = _with_answers(result, first_row, self.options)
        if self.output is None:
            self.metadata["verified_by"] = result.verified_by
            self.output = Output(self.path, table.schema, self.metadata)
            sys.stderr.write(self.note)
        self.output.write(table)
        progress.done(first_row + batch.num_rows)

    def _finish(self) -> None:
        if self.output is not None:
            self.output.finish()

    def _what_is_left(self) -> str:
        if self.output is None or not self.output.n_rows:
            if self.output is not None:
                self.output.discard()
            return "nothing was written"
        self.output.keep_partial()
        return f"the first {self.output.n_rows:,} rows, finished, are in {self.output.partial}"

    def report(self, time_s: float) -> str:
        """One line on what was done, and one more where a limit has left rows open."""
        n = sum(self.statuses.values())
        counts = ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses.items())) or "none"
        line = (
            f"{self.path}: {n:,} rows ({counts}) in {time_s:.1f} s; checked by {self.verified_by}; "
            f"{self.engine.ensemble.model_type}, {self.engine.ensemble.n_trees} trees"
        )
        feasible, unknown = self.statuses["feasible"], self.statuses["unknown"]
        if not feasible + unknown:
            return line
        return line + (
            f"\nA limit left {feasible + unknown:,} rows open: {feasible:,} feasible (an answer that may not be the "
            f"nearest), {unknown:,} unknown (none found yet); gpucf_lower_bound holds for both."
        )


def _with_answers(result: Result, first_row: int, options: dict[str, Any]) -> Any:
    """The answers as a table: a line for each row or, where more than one is asked for, for each option."""
    import pyarrow as pa

    row, rank = result.option_lines()
    parts = []
    for m, one in enumerate(result.ranks):
        columns = [
            pa.array(one.status.tolist(), pa.string()),
            pa.array(one.cost, pa.float64()),
            pa.array(one.lower_bound, pa.float64()),
            pa.array(one.n_changed, pa.int64()),
        ]
        table = one.counterfactuals
        for name, column in zip(ADDED, columns, strict=True):
            table = table.append_column(name, column)
        if options["region"]:
            texts = [_region_json(result, i) if m == 0 else None for i in range(len(result))]
            table = table.append_column(REGION, pa.array(texts, pa.string()))
        parts.append(table)
    if options["options"] == 1:
        return parts[0]
    table = pa.concat_tables(parts).take(rank * len(result) + row)
    for name, numbers in zip(LINES, (row + first_row, rank + 1), strict=True):
        table = table.append_column(name, pa.array(numbers, pa.int64()))
    return table


def _region_json(result: Result, i: int) -> str | None:
    """The sides of a region that are not open: ``{"low": ..., "high": ...}``, or a list of categories."""
    region = result.region(i)
    if region is None:
        return None
    sides: dict[str, Any] = {}
    for name, limit in region.limits.items():
        if isinstance(limit, tuple):
            found = {side: v for side, v in zip(("low", "high"), limit, strict=True) if v is not None and v == v}
            sides.update({name: found} if found else {})
        elif limit is not None:
            sides[name] = limit
    return json.dumps(sides)
