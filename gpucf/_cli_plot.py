"""``gpucf plot``: a picture of one person's answer, of the map around it, or of costs by group."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpucf import _cli_options
from gpucf._cli_audit import read_inputs
from gpucf._errors import OptionError
from gpucf._stream import writable

_SUFFIXES = (".png", ".svg", ".pdf")


def run_plot(args: argparse.Namespace) -> int:
    """Draw one picture; returns the exit code."""
    path = Path(args.output)
    if path.suffix.lower() not in _SUFFIXES:
        raise OptionError(f"-o is {args.output!r}; give a name that ends in one of {', '.join(_SUFFIXES)}.")
    from gpucf import plot

    by = _cli_options.names("--by", args.by)
    if args.kind == "costs" and len(by) != 1:
        raise OptionError("the picture of costs needs one --by: the column that makes the groups.")
    settings: dict[str, Any] = {
        "by": by if args.kind == "costs" else [],
        "bins": {},
        "features": _cli_options.features("--features", args.features),
        "one_hot": _cli_options.one_hot("--one-hot", args.one_hot),
        "background": args.background,
    }
    engine, X, _ = read_inputs(args, settings)
    query: dict[str, Any] = {
        "cost": _cli_options.cost("--cost", args.cost),
        "immutable": _cli_options.names("--immutable", args.immutable),
    }
    target = args.target
    if args.kind == "costs":
        from gpucf._audit_groups import read_attributes

        attribute = read_attributes(engine, X, by, None)[0]
        carry = [] if attribute.columns else by
        groups = [f"{attribute.name} {attribute.levels[k]}" for k in attribute.codes.tolist()]
        figure = plot.costs(engine.query(X, target, carry=carry, **query), groups)
    else:
        figure = _one_row(args, engine, X, target, query)
    with writable(path):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    return 0


def _one_row(args: argparse.Namespace, engine: Any, X: Any, target: Any, query: dict[str, Any]) -> Any:
    from gpucf import plot

    if not 0 <= args.row < X.num_rows:
        raise OptionError(f"--row is {args.row}, and the table has the rows 0 to {X.num_rows - 1}.")
    row = X.slice(args.row, 1)
    if args.kind == "map":
        pair = _cli_options.names("--axes", args.axes)
        if len(pair) != 2:
            raise OptionError("the map needs --axes A,B: the two features to show.")
        return plot.map(engine, row, pair, target=target, move="all" if args.all else "these", **query)
    if args.kind == "options":
        return plot.options(engine.query(row, target, options=args.options, **query), 0)
    return plot.card(engine.query(row, target, options=args.options, region=True, **query), 0)
