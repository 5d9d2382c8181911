"""The tables of the benchmarks: columns scaled to 0-1, nominal columns as one-hot groups, as the yardstick does it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Dataset:
    """float32 rows, labels, column names, and one-hot groups by name."""

    name: str
    X: np.ndarray
    y: np.ndarray
    names: list[str]
    one_hot: dict[str, list[str]]

    @property
    def one_hot_by_position(self) -> dict[str, list[str]]:
        """The groups in the names f0, f1, ... that models trained on plain arrays give their columns."""
        place = {name: f"f{j}" for j, name in enumerate(self.names)}
        return {group: [place[name] for name in members] for group, members in self.one_hot.items()}


def load(name: str) -> Dataset:
    """Read one of the shipped tables, or scikit-learn's breast cancer data ("breast")."""
    if name == "breast":
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        names = [f"f{j}" for j in range(X.shape[1])]
        return Dataset(name, ((X - X.min(0)) / (X.max(0) - X.min(0))).astype(np.float32), y, names, {})
    with open(DATA / f"{name}.csv", newline="") as f:
        header, kinds, _, *rows = list(csv.reader(f))
    table = np.array(rows, dtype=object)
    columns, names, one_hot = [], [], {}
    for j, (column, kind) in enumerate(zip(header[:-1], kinds[:-1], strict=True)):
        values = table[:, j]
        column = column.strip()
        if kind == "C":
            levels = sorted(set(values))
            one_hot[column] = [f"{column}={level}" for level in levels]
            names += one_hot[column]
            columns += [(values == level).astype(float) for level in levels]
            continue
        number = _numbers(values)
        spread = number.max() - number.min()
        names.append(column)
        columns.append((number - number.min()) / (spread or 1.0))
    y = np.array([int(float(v)) for v in table[:, -1]])
    return Dataset(name, np.column_stack(columns).astype(np.float32), y, names, one_hot)


def _numbers(values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(float)
    except ValueError:  # a column of words: numbered in order of appearance
        seen: dict[str, int] = {}
        return np.array([float(seen.setdefault(v, len(seen))) for v in values])


def train(data: Dataset, kind: str, n_trees: int, depth: int | None):
    """The yardstick's model ("xgb" or "rf") on four fifths of the rows; the model, and the other rows."""
    from sklearn.model_selection import train_test_split

    rows, held_out, labels, _ = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    if kind == "rf":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(rows, labels), held_out
    import xgboost

    rate = 0.1 if n_trees >= 50 else 0.3
    model = xgboost.XGBClassifier(n_estimators=n_trees, max_depth=depth, learning_rate=rate)
    return model.fit(rows, labels), held_out


def resampled(X: np.ndarray, n: int, data: Dataset, seed: int = 0) -> np.ndarray:
    """`n` rows drawn from X with noise on the numeric columns (one-hot groups stay whole)."""
    rng = np.random.default_rng(seed)
    rows = X[rng.integers(len(X), size=n)].copy()
    hot = {name for members in data.one_hot.values() for name in members}
    numeric = [j for j, name in enumerate(data.names) if name not in hot and len(np.unique(X[:, j])) > 2]
    rows[:, numeric] += rng.normal(scale=0.02, size=(n, len(numeric))).astype(np.float32)
    return rows
