"""``gpucf features``: a first draft of what may change, from a table on disk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpucf._features_file import yaml_text
from gpucf._infer import infer_features, only
from gpucf._loaders import load_model
from gpucf._stream import read_all

_TITLE = """Proposed by gpucf from {name} ({n:,} rows), for a person to edit.
Other keys: range, immutable, increase_only, decrease_only, max_change, max_rise, max_fall, weight, price_up,
price_down, fixed, scale, levels, values, table, prices, forbidden, missing, low_from, high_from, immutable_from.
Beside the columns, rules: a list of texts, such as "a <= b" or "if a changes then b rises"."""


def run_features(args: argparse.Namespace) -> int:
    """Print the features of ``args.table``; returns the exit code."""
    path = Path(args.table)
    table = read_all(path, "table")
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])  # not columns of a model
    table = table.drop_columns([name for name in index if isinstance(name, str) and name in table.column_names])
    features = infer_features(table)
    if args.model is not None:
        features = only(features, load_model(args.model, trust_pickle=args.trust_pickle).feature_names)
    sys.stdout.write(yaml_text(features, _TITLE.format(name=path.name, n=table.num_rows)))
    return 0
