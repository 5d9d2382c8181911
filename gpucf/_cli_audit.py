"""``gpucf audit``: from a model and a table to a report and an exit code.

Exit codes: 0 every threshold is held (or none was given), 1 one is violated, 2 it could not be decided: rows that a
limit left open matter, groups are too small, or something given cannot be used.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from gpucf import _cli_options
from gpucf._audit import audit
from gpucf._audit_config import read_config
from gpucf._audit_gate import EXIT_CODES, overall
from gpucf._audit_text import summary
from gpucf._cli_query import _blank_to_null, _csv_types, _declared_types, _model_columns
from gpucf._engine import Engine
from gpucf._errors import GpucfError, OptionError, TableError, VerificationError
from gpucf._loaders import load_model
from gpucf._stream import Fingerprint, read_all

CANNOT = 2


def run_audit(args: argparse.Namespace) -> int:
    """Audit, write the report, print one screen; returns the exit code."""
    try:
        return _run(args)
    except (GpucfError, VerificationError, OSError) as error:
        sys.stderr.write(f"gpucf: error: {' '.join(str(error).split())}\n")
    except MemoryError:
        sys.stderr.write("gpucf: error: out of memory\n")
    return CANNOT


def _run(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    config = read_config(args.config)
    settings = _settings(args, config)
    folder = Path(args.output)
    if folder.exists() and not folder.is_dir():
        raise TableError(f"cannot write the report to {folder}: it is a file. Name a folder.")
    engine, X, files = read_inputs(args, settings)
    read_s = time.perf_counter() - start
    found = audit(engine, X, settings.pop("by"), **settings["audit"], **settings["query"])
    found.seconds["reading"] = read_s
    began = time.perf_counter()
    about = {**files, "command": shlex.join(["gpucf", *sys.argv[1:]]) if sys.argv[1:] else "gpucf audit"}
    verdicts = found.write(folder, config.get("thresholds", []), about)
    if not args.quiet:
        sys.stdout.write(summary(found, verdicts) + "\n")
        sys.stdout.write(
            f"{folder / 'index.html'}; {sum(found.seconds.values()):.1f} s and {time.perf_counter() - began:.1f} s for "
            "the report\n"
        )
    return EXIT_CODES[overall(verdicts)]


def _settings(args: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """What is given on the command line comes before what the file says."""
    by = _cli_options.names("--by", args.by) or config.get("by", [])
    by = [by] if isinstance(by, str) else by
    if not by:
        raise OptionError("name the attributes to audit by: --by sex,age_group, or by: [sex, age_group] in the file.")
    query = dict(config.get("query", {}))
    if args.cost is not None:
        query["cost"] = _cli_options.cost("--cost", args.cost)
    for option in ("immutable", "increase_only", "decrease_only"):
        given = _cli_options.names(f"--{option.replace('_', '-')}", getattr(args, option))
        if given:
            query[option] = given
    limit = _cli_options.node_limit("--node-limit", args.node_limit)
    if limit is not None:
        query["node_limit"] = limit
    seconds = _cli_options.time_limit("--time-limit", args.time_limit)
    if seconds is not None:
        query["time_limit_s"] = seconds
    names = (
        "bins", "labels", "may_change", "budgets", "order", "min_group", "n_bootstrap", "n_permutations", "level",
        "seed", "sensitivity_to", "small_change",
    )  # fmt: skip
    return {
        "by": by,
        "bins": config.get("bins", {}),
        "audit": {
            **{name: config[name] for name in names if name in config},
            "target": args.target if args.target is not None else config.get("target"),
        },
        "query": query,
        "features": _cli_options.features("--features", args.features) or config.get("features"),
        "one_hot": _cli_options.one_hot("--one-hot", args.one_hot) or config.get("one_hot"),
        "background": args.background or config.get("background"),
    }


def read_inputs(args: argparse.Namespace, settings: dict[str, Any]) -> tuple[Engine, Any, dict[str, str]]:
    """The engine, the columns of the table that matter, and the digests of all files."""
    model, table = Path(args.model), Path(args.table)
    features = settings["features"]
    if isinstance(features, str):
        from gpucf._features_file import read_features

        features = read_features(features)
    ensemble = load_model(model, trust_pickle=args.trust_pickle)
    # Attributes that the model does not know are read as text, unless they are numbers to be put into bins.
    bins = settings["bins"]
    groups = {*(settings["one_hot"] or {}), *(n for n, f in (features or {}).items() if "one_hot" in _entry(f))}
    beside = [n for n in settings["by"] if n not in ensemble.feature_names and n not in groups]
    declared = _declared_types(ensemble, {"carry": [n for n in beside if n not in bins], "features": features})

    def read(path: Path, what: str, keep: list[str]) -> Any:
        whole = read_all(path, what, lambda schema: _csv_types(schema, ensemble, declared))
        absent = [n for n in keep if n not in whole.column_names]
        if absent:
            raise TableError(f"{path} has no column {absent[0]!r} to audit by; it has {whole.column_names}.")
        kept = _model_columns(whole, ensemble, ())
        for name in keep:
            if name not in kept.column_names:
                kept = kept.append_column(whole.schema.field(name), whole[name])
        return _blank_to_null(kept, ensemble)

    X = read(table, "table", beside)
    files = {"model file": model, "table file": table}
    if settings["background"] is not None:
        files["background file"] = Path(settings["background"])
        background = read(files["background file"], "background", [])
    else:  # the audited rows give dtypes and units
        background = X.drop_columns([n for n in beside if n in X.column_names])
    engine = Engine(
        model, background, features=features, one_hot=settings["one_hot"], trust_pickle=args.trust_pickle,
        n_threads=args.threads,
    )  # fmt: skip
    prints = {what: f"{path.name}, SHA-256 {Fingerprint.of(path, what).sha256}" for what, path in files.items()}
    if getattr(args, "config", None) is not None:
        prints["audit file"] = f"{os.path.basename(args.config)}, SHA-256 "
        prints["audit file"] += Fingerprint.of(Path(args.config), "audit file").sha256
    return engine, X, prints


def _entry(feature: Any) -> Any:
    return feature if isinstance(feature, dict) else ()
