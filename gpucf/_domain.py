"""What values each column of the model can take: the feature domain, fixed when an engine is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

CONTINUOUS, INTEGER, BOOLEAN, CATEGORICAL = "continuous", "integer", "boolean", "categorical"
KINDS = (CONTINUOUS, INTEGER, BOOLEAN, CATEGORICAL)


@dataclass(frozen=True)
class Column:
    """One column of the model.

    Attributes
    ----------
    name : str
    kind : {"continuous", "integer", "boolean", "categorical"}
        Categorical columns are those in which the model itself splits on category sets.
    dtype : numpy dtype
        Storage of the column; moves land on values that it holds exactly.
    """

    name: str
    kind: str
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class OneHotGroup:
    """Columns of which exactly one is 1 and the others are 0: one categorical feature."""

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """Columns in the model's order, and the one-hot groups among them."""

    columns: tuple[Column, ...]
    groups: tuple[OneHotGroup, ...] = ()


@dataclass(frozen=True)
class Grid:
    """The attainable values of an ordered column.

    They are exactly representable in the column's dtype *and* in the compare dtype, and whole numbers where the column
    is integer or boolean.
    """

    dtype: np.dtype[Any]
    whole: bool
    low: float
    high: float

    @classmethod
    def of(cls, column: Column, compare_dtype: np.dtype[Any]) -> Grid:
        floats = [d for d in (column.dtype, compare_dtype) if d.kind == "f"]
        dtype = min(floats, key=lambda d: d.itemsize)
        if column.kind == BOOLEAN:
            return cls(dtype, True, 0.0, 1.0)
        whole = column.kind == INTEGER
        largest = float(np.finfo(dtype).max)
        if column.dtype.kind not in "iu":
            return cls(dtype, whole, -largest, largest)
        info = np.iinfo(column.dtype)
        return cls(dtype, True, _round_inward(info.min, dtype, up=True), _round_inward(info.max, dtype, up=False))

    def floor(self, values: np.ndarray) -> np.ndarray:
        """Largest attainable value <= each value (float64), ignoring `low` and `high`; -inf where there is none."""
        with np.errstate(over="ignore"):
            out = values.astype(self.dtype)
        too_large = out.astype(np.float64) > values
        out[too_large] = np.nextafter(out[too_large], self.dtype.type(-np.inf))
        result = out.astype(np.float64)
        return np.floor(result) if self.whole else result

    def next_above(self, values: np.ndarray) -> np.ndarray:
        """Smallest attainable value > each attainable value (float64)."""
        with np.errstate(over="ignore"):  # above the largest number: inf, which is no attainable value
            above = np.nextafter(values.astype(self.dtype), self.dtype.type(np.inf)).astype(np.float64)
        # Beyond 2**24 (float32) or 2**53 (float64) neighbouring floats are whole numbers two or more apart.
        # + 0.0: the neighbour above the smallest negative number is -0.0, which nobody wants to read in an answer.
        return (np.maximum(np.floor(values) + 1.0, above) if self.whole else above) + 0.0


def _round_inward(bound: int, dtype: np.dtype[Any], up: bool) -> float:
    value = dtype.type(bound)
    if up and int(value) < bound:
        value = np.nextafter(value, dtype.type(np.inf))
    if not up and int(value) > bound:
        value = np.nextafter(value, dtype.type(-np.inf))
    return float(value)
