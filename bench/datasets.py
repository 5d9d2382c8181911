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


@dataclass(frozen=True)
class Raw:
    """Columns by name as they are in the file (whole numbers as int64, nominal columns one-hot as int8), and labels.

    ``actions`` is the file's third row, by column or group: FREE, FIXED, or INC (only upwards).
    """

    columns: dict[str, np.ndarray]
    y: np.ndarray
    one_hot: dict[str, list[str]]
    actions: dict[str, str]


def load(name: str) -> Dataset:
    """Read one of the shipped tables, scaled to 0-1, or one of scikit-learn's ("breast", "diabetes8")."""
    if name == "breast":
        from sklearn.datasets import load_breast_cancer

        return _continuous(name, *load_breast_cancer(return_X_y=True))
    if name == "diabetes8":
        # In the place of Pima, which cannot be had here: eight continuous measurements (without age and sex) of 442
        # people; the class is a disease score above the median.
        from sklearn.datasets import load_diabetes

        X, score = load_diabetes(return_X_y=True)
        return _continuous(name, X[:, 2:], (score > np.median(score)).astype(int))
    raw = load_raw(name)
    hot = {member for members in raw.one_hot.values() for member in members}
    columns = [values if column in hot else _to_unit(values) for column, values in raw.columns.items()]
    return Dataset(name, np.column_stack(columns).astype(np.float32), raw.y, list(raw.columns), raw.one_hot)


def load_raw(name: str) -> Raw:
    """Read one of the shipped tables."""
    with open(DATA / f"{name}.csv", newline="") as f:
        header, kinds, may, *rows = list(csv.reader(f))
    table = np.array(rows, dtype=object)
    columns: dict[str, np.ndarray] = {}
    one_hot = {}
    for j, (column, kind) in enumerate(zip(header[:-1], kinds[:-1], strict=True)):
        values = table[:, j]
        column = column.strip()
        if kind == "C":
            members = {f"{column}={level}": (values == level).astype(np.int8) for level in sorted(set(values))}
            one_hot[column] = list(members)
            columns |= members
            continue
        number = _numbers(values)
        columns[column] = number.astype(np.int64) if kind in "BD" and not (number % 1).any() else number
    actions = {column.strip(): action for column, action in zip(header[:-1], may[:-1], strict=True)}
    return Raw(columns, np.array([int(float(v)) for v in table[:, -1]]), one_hot, actions)


def _continuous(name: str, X: np.ndarray, y: np.ndarray) -> Dataset:
    names = [f"f{j}" for j in range(X.shape[1])]
    return Dataset(name, ((X - X.min(0)) / (X.max(0) - X.min(0))).astype(np.float32), y, names, {})


def _to_unit(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / ((values.max() - values.min()) or 1.0)


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
