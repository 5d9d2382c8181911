"""The command line: ``gpucf query``, ``features``, ``audit``, ``plot``, ``info``, ``demo``.

Exit codes: 0 all is well, 1 something given cannot be used (one line on stderr says what), 130 interrupted. For
``gpucf audit`` 1 means that a threshold is violated, and 2 that it could not be decided, or that something given cannot
be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpucf._errors import GpucfError, VerificationError
from gpucf._version import __version__


class _Parser(argparse.ArgumentParser):
    wrong_call = 1

    def error(self, message: str) -> NoReturn:
        self.exit(self.wrong_call, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser()
    if argv[:1] == ["audit"]:
        parser.wrong_call = 2  # 1 would say that a threshold is violated
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # argparse has printed help, the version or an error
        return int(done.code or 0)
    try:
        return int(args.run(args))
    except (GpucfError, VerificationError) as error:
        return _fail(str(error))
    except BrokenPipeError:
        return _fail("nothing reads the output any more")
    except OSError as error:
        return _fail(f"{error.filename or 'the operating system'}: {error.strerror or error}")
    except MemoryError:
        return _fail("out of memory; use a smaller --batch-rows or --max-regions")
    except KeyboardInterrupt:
        sys.stderr.write("gpucf: interrupted; nothing was written\n")
        return 130


def _fail(message: str) -> int:
    sys.stderr.write(f"gpucf: error: {' '.join(message.split())}\n")
    return 1


def _parser() -> _Parser:
    parser = _Parser(
        prog="gpucf", description="Exact nearest counterfactuals for tree ensembles, a whole table at a time."
    )
    parser.add_argument("--version", action="version", version=f"gpucf {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_query(commands)
    features = commands.add_parser(
        "features",
        help="a first draft of what may change, for a person to edit",
        description="Prints kinds, steps and one-hot groups as the table shows them, in YAML, for --features of query.",
    )
    features.add_argument("table", metavar="TABLE", help=".csv or .parquet, such as the rows of training")
    features.add_argument("--model", metavar="MODEL", help="leave out the columns that this model does not know")
    features.add_argument("--trust-pickle", action="store_true", help="open a pickled model; a pickle can run any code")
    features.set_defaults(run=_run_features)
    _add_audit(commands)
    _add_plot(commands)
    info = commands.add_parser("info", help="versions, devices and caches: what was found, and why not")
    info.set_defaults(run=_run_info)
    demo = commands.add_parser(
        "demo", help="German credit: explain every declined applicant", description="German credit, UCI, CC BY 4.0."
    )
    demo.add_argument("-o", "--output", default="demo-output", metavar="DIR", help="folder to write to (%(default)s)")
    demo.set_defaults(run=_run_demo)
    return parser


def _add_query(commands: argparse._SubParsersAction[_Parser]) -> None:
    query = commands.add_parser(
        "query",
        help="the nearest counterfactual of every row of a table",
        description="Reads a CSV or Parquet table, writes it with counterfactual values and the columns gpucf_status, "
        "gpucf_cost, gpucf_lower_bound and gpucf_changed (number of changed features).",
    )
    add = query.add_argument
    add("model", metavar="MODEL", help="XGBoost JSON or UBJSON, LightGBM text, CatBoost JSON, skops, or pickle file")
    add("table", metavar="TABLE", help=".csv or .parquet; a row a person")
    add("-o", "--output", required=True, metavar="OUT", help=".csv or .parquet")
    add("--background", metavar="FILE", help="rows like those of training: dtypes, and the units for --scale")
    add("--target", default="opposite", help='"opposite", "any_other", a class, or "probability >= 0.7" (%(default)s)')
    add("--cost", default="l1", help='l1, l2, linf, l0, quantile, or JSON {"l1": 1, "l0": 0.1} (%(default)s)')
    add("--weights", action="append", default=[], metavar="W", help='name=2.0,...; or JSON {"name": 2.0}, or its file')
    add("--scale", metavar="S", help="range, std, mad, iqr or none (range with --background, else none)")
    for option, what in [
        ("--immutable", "columns or groups that must not change"),
        ("--increase-only", "columns that may only rise"),
        ("--decrease-only", "columns that may only fall"),
        ("--only", "the only columns or groups that may change"),
        ("--carry", "columns that the model does not know, taken along unchanged"),
    ]:
        add(option, action="append", default=[], metavar="A,B", help=what + "; or a JSON list")
    add(
        "--one-hot",
        action="append",
        default=[],
        metavar="G",
        help='NAME=COL1,COL2; or JSON {"NAME": [...]}, or its file',
    )
    add("--features", action="append", default=[], metavar="F", help='YAML or JSON file, or JSON {"age": "integer"}')
    add("--rule", action="append", default=[], metavar="R", help='what must hold between columns, such as "a <= b"')
    add("--iterations", metavar="N", help='rounds of the model to use: a count, or "all"')
    add("--trust-pickle", action="store_true", help="open a pickled model; a pickle can run any code")
    add("--threads", type=int, metavar="N", help="threads (all cores); answers do not depend on it")
    add("--method", default="auto", metavar="M", help="map, search, or auto: a map where it is small (%(default)s)")
    add("--node-limit", metavar="N", help="search nodes that a row may take; then its best answer, with a bound")
    add("--options", type=int, default=1, metavar="K", help="answers a row, each changing other features; a line each")
    add("--regions", action="store_true", help="also the box around each answer on which it still holds, as JSON")
    add("--time-limit", metavar="S", help="seconds for all rows; then the best answers so far, with bounds")
    add("--max-regions", type=int, default=2_000_000, metavar="N", help="largest region map to build (%(default)s)")
    add(
        "--batch-rows",
        type=int,
        default=65_536,
        metavar="N",
        help="rows to read, answer and write at a time (%(default)s)",
    )
    add("--quiet", action="store_true", help="print nothing but errors")
    query.set_defaults(run=_run_query)


def _add_audit(commands: argparse._SubParsersAction[_Parser]) -> None:
    audit = commands.add_parser(
        "audit",
        help="is recourse equally within reach of all groups? a report, and an exit code for CI",
        description="Compares groups of the rows that the model refuses: share without recourse, cost of recourse, and "
        "more. Writes index.html, audit.json, junit.xml, summary.txt, rows.csv and flips.csv to a folder. Exit codes: "
        "0 all thresholds held (or none given), 1 one is violated, 2 not decided, or something given cannot be used.",
    )
    audit.wrong_call = 2
    add = audit.add_argument
    add("model", metavar="MODEL", help="as for query")
    add("table", metavar="TABLE", help=".csv or .parquet; a row a person")
    add("-o", "--output", required=True, metavar="DIR", help="folder for the report")
    add("--by", action="append", default=[], metavar="A,B", help="attributes: columns or one-hot groups")
    add("--config", metavar="F", help="audit.yaml: all settings, bins of numeric attributes, and thresholds")
    add("--target", help="the outcome that people want (the second of two classes)")
    add("--background", metavar="FILE", help="rows like those of training, for units (the table itself)")
    add("--features", action="append", default=[], metavar="F", help="YAML or JSON file: what may change")
    add("--one-hot", action="append", default=[], metavar="G", help="NAME=COL1,COL2; or JSON, or its file")
    add("--cost", help="as for query (l1)")
    for option in ("--immutable", "--increase-only", "--decrease-only"):
        add(option, action="append", default=[], metavar="A,B", help="as for query")
    add("--node-limit", metavar="N", help="search nodes that a row may take; open rows count as intervals")
    add("--time-limit", metavar="S", help="seconds for the search")
    add("--trust-pickle", action="store_true", help="open a pickled model; a pickle can run any code")
    add("--threads", type=int, metavar="N", help="threads (all cores); numbers do not depend on it")
    add("--quiet", action="store_true", help="print nothing but errors")
    audit.set_defaults(run=_run_audit)


def _add_plot(commands: argparse._SubParsersAction[_Parser]) -> None:
    plot = commands.add_parser(
        "plot",
        help="pictures: the map around one person, a card, options, costs by group",
        description="Draws one picture: 'map' (which region answers for whom, over two features), 'card' and 'options' "
        "(one person's answers), or 'costs' (curves by group). Needs matplotlib.",
    )
    add = plot.add_argument
    add("kind", choices=("map", "card", "options", "costs"), metavar="KIND", help="map, card, options or costs")
    add("model", metavar="MODEL", help="as for query")
    add("table", metavar="TABLE", help=".csv or .parquet; a row a person")
    add("-o", "--output", required=True, metavar="OUT", help=".png, .svg or .pdf")
    add("--row", type=int, default=0, metavar="N", help="which person, counted from 0 (%(default)s)")
    add("--axes", action="append", default=[], metavar="A,B", help="map: the two features")
    add("--all", action="store_true", help="map: all features may change, not only the two")
    add("--by", action="append", default=[], metavar="A", help="costs: the column that makes the groups")
    add("--options", type=int, default=3, metavar="K", help="card, options: answers at most (%(default)s)")
    add("--target", default="opposite", help="as for query (%(default)s)")
    add("--cost", default="l1", help="as for query (%(default)s)")
    add("--immutable", action="append", default=[], metavar="A,B", help="as for query")
    add("--background", metavar="FILE", help="rows like those of training, for units (the table itself)")
    add("--features", action="append", default=[], metavar="F", help="YAML or JSON file: what may change")
    add("--one-hot", action="append", default=[], metavar="G", help="NAME=COL1,COL2; or JSON, or its file")
    add("--trust-pickle", action="store_true", help="open a pickled model; a pickle can run any code")
    add("--threads", type=int, metavar="N", help="threads (all cores)")
    plot.set_defaults(run=_run_plot)


def _run_plot(args: argparse.Namespace) -> int:
    from gpucf._cli_plot import run_plot

    return run_plot(args)


def _run_audit(args: argparse.Namespace) -> int:
    from gpucf._cli_audit import run_audit

    return run_audit(args)


def _run_query(args: argparse.Namespace) -> int:
    from gpucf._cli_query import run_query

    return run_query(args)


def _run_features(args: argparse.Namespace) -> int:
    from gpucf._cli_features import run_features

    return run_features(args)


def _run_info(args: argparse.Namespace) -> int:
    from gpucf._info import print_info

    print_info()
    return 0


def _run_demo(args: argparse.Namespace) -> int:
    from gpucf._demo import run_demo

    return run_demo(args.output)
