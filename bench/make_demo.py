"""Makes what `gpucf demo` ships: ``gpucf/_data/german.csv`` and ``gpucf/_data/german-model.json``.

Run ``.venv/bin/python -m bench.make_demo [shared/data/german.csv]`` with the pinned XGBoost; the same versions give the
same bytes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
DATA = ROOT / "gpucf" / "_data"
SOURCE = ROOT.parent / "shared" / "data" / "german.csv"
NAMES = ["Age", "Sex", "Job", "Housing", "Savings", "Checking", "Amount", "Months", "Purpose", "Accepted"]


def clean(source: Path) -> None:
    """Drop the rows on kinds and actions, shorten the names; values stay as they are."""
    with open(source, newline="") as f:
        rows = list(csv.reader(f))[3:]
    with open(DATA / "german.csv", "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([NAMES, *rows])


def train() -> None:
    """20 trees of depth 3: few enough regions to list in a moment."""
    import xgboost

    from gpucf._demo import load_people, one_hot_columns

    people = load_people()
    table, _ = one_hot_columns(people)
    X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in table.column_names])
    labels = people["Accepted"].to_numpy()
    data = xgboost.DMatrix(X, labels, feature_names=table.column_names)
    options = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "seed": 7, "nthread": 1}
    xgboost.train(options, data, num_boost_round=20).save_model(DATA / "german-model.json")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    clean(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
    train()
