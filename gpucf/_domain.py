"""What values each column of the model can take: the feature domain, fixed when an engine is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
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
    low, high : float
        Declared range of the values that a move may land on.
    step, origin : Fraction or None
        Declared grid: moves land on ``origin + k * step``, each rounded to the column's dtype.
    values : tuple of float or None
        Declared values, ascending: moves land on these.
    """

    name: str
    kind: str
    dtype: np.dtype[Any]
    low: float = -np.inf
    high: float = np.inf
    step: Fraction | None = None
    origin: Fraction = Fraction(0)
    values: tuple[float, ...] | None = None


@dataclass(frozen=True)
class OneHotGroup:
    """Columns of which exactly one is 1 and the others are 0: one categorical feature.

    With a `reference`, all columns may be 0: that is the category of this name, whose column was left out.
    """

    name: str
    columns: tuple[int, ...]
    reference: str | None = None


@dataclass(frozen=True)
class Domain:
    """Columns in the model's order, and the one-hot groups among them."""

    columns: tuple[Column, ...]
    groups: tuple[OneHotGroup, ...] = ()


@dataclass(frozen=True)
class Grid:
    """The attainable values of an ordered column.

    Without a declared grid they are exactly representable in the column's dtype *and* in the compare dtype, and whole
    numbers where the column is integer or boolean. Declared steps and values are numbers that a person reads: they are
    held in the column's dtype alone (0.1 stays 0.1), and lie in the cell into which the model's cast puts them.
    """

    dtype: np.dtype[Any]
    whole: bool
    low: float
    high: float
    step: Fraction | None = None
    origin: Fraction = Fraction(0)
    values: tuple[float, ...] | None = None

    @classmethod
    def of(cls, column: Column, compare_dtype: np.dtype[Any]) -> Grid:
        """Grid of a column, cut to its range; `low` is above `high` where nothing is left."""
        floats = [d for d in (column.dtype, compare_dtype) if d.kind == "f"]
        dtype = min(floats, key=lambda d: d.itemsize)
        largest = float(np.finfo(dtype).max)
        low, high = -largest, largest
        whole = column.kind in (INTEGER, BOOLEAN)
        if column.kind == BOOLEAN:
            low, high = 0.0, 1.0
        elif column.dtype.kind in "iu":
            info = np.iinfo(column.dtype)
            whole = True
            low, high = _round_inward(info.min, dtype, up=True), _round_inward(info.max, dtype, up=False)
        if column.step is not None or column.values is not None:
            dtype = column.dtype if column.dtype.kind == "f" else np.dtype(np.float64)
            if column.dtype.kind in "iu":  # every whole number up to here is a float64
                low, high = max(low, -(2.0**53)), min(high, 2.0**53)
        grid = cls(dtype, whole, low, high, column.step, column.origin, column.values)
        low, high = max(low, column.low), min(high, column.high)
        return cls(dtype, whole, grid.at_least(low), grid.at_most(high), column.step, column.origin, column.values)

    @property
    def is_declared(self) -> bool:
        """Whether the values are a declared grid or list."""
        return self.step is not None or self.values is not None

    def floor(self, values: np.ndarray) -> np.ndarray:
        """Largest attainable value <= each value (float64), ignoring `low` and `high`; -inf where there is none."""
        if self.values is not None:
            known = np.concatenate([[-np.inf], self.values])
            return known[np.searchsorted(known, values, side="right") - 1]
        if self.step is not None:
            return self._each(values, lambda v: self._step_value(self._last_step(v)))
        with np.errstate(over="ignore"):
            out = values.astype(self.dtype)
        too_large = out.astype(np.float64) > values
        out[too_large] = np.nextafter(out[too_large], self.dtype.type(-np.inf))
        result = out.astype(np.float64)
        return np.floor(result) if self.whole else result

    def next_above(self, values: np.ndarray) -> np.ndarray:
        """Smallest attainable value > each attainable value (float64); inf where there is none."""
        if self.values is not None:
            known = np.concatenate([self.values, [np.inf]])
            return known[np.searchsorted(known, values, side="right")]
        if self.step is not None:
            return self._each(values, lambda v: self._step_value(self._last_step(v) + 1))
        with np.errstate(over="ignore"):  # above the largest number: inf, which is no attainable value
            above = np.nextafter(values.astype(self.dtype), self.dtype.type(np.inf)).astype(np.float64)
        # Beyond 2**24 (float32) or 2**53 (float64) neighbouring floats are whole numbers two or more apart.
        # + 0.0: the neighbour above the smallest negative number is -0.0, which nobody wants to read in an answer.
        return (np.maximum(np.floor(values) + 1.0, above) if self.whole else above) + 0.0

    def ceil(self, values: np.ndarray) -> np.ndarray:
        """Smallest attainable value >= each value (float64), not below `low`; inf where there is none."""
        below = self.floor(values)
        out = below.copy()
        at = (below != values) & np.isfinite(below)
        out[at] = self.next_above(below[at])
        out[below == -np.inf] = self.low if self.values is None else self.values[0]
        return out

    def at_most(self, value: float) -> float:
        """Largest attainable value <= one value, within `low` and `high`; -inf where there is none."""
        found = float(self.floor(np.array([min(value, self.high)]))[0]) + 0.0
        return found if found >= self.low else -np.inf

    def at_least(self, value: float) -> float:
        """Smallest attainable value >= one value, within `low` and `high`; inf where there is none."""
        found = float(self.ceil(np.array([max(value, self.low)]))[0]) + 0.0
        return found if found <= self.high else np.inf

    def _each(self, values: np.ndarray, function: Callable[[float], float]) -> np.ndarray:
        """A function of single finite values; what is infinite stays."""
        distinct, where = np.unique(values, return_inverse=True)
        out = np.array([function(v) if np.isfinite(v) else v for v in distinct.tolist()], dtype=np.float64)
        return out[where].reshape(values.shape)

    def _step_value(self, k: int) -> float:
        """Value number `k`: exact, then rounded to the column's dtype, hence rising with `k`."""
        exact = self.origin + k * self.step  # type: ignore[operator]
        try:
            value = float(exact)
        except OverflowError:
            return np.inf if exact > 0 else -np.inf
        with np.errstate(over="ignore"):
            return float(self.dtype.type(value)) + 0.0

    def _last_step(self, value: float) -> int:
        """The largest `k` whose value is <= `value`, found by looking at the rounded values themselves."""
        k = floor((Fraction(value) - self.origin) / self.step)  # type: ignore[operator]
        below, above = 1, 1  # rounding moves values by more than a step where steps are finer than the dtype
        while self._step_value(k - below) > value:
            below *= 2
        while self._step_value(k + above) <= value:
            above *= 2
        low, high = k - below, k + above
        while high - low > 1:
            middle = (low + high) // 2
            if self._step_value(middle) <= value:
                low = middle
            else:
                high = middle
        return low


def last_cast_at_most(cuts: np.ndarray, compare_dtype: np.dtype[Any]) -> np.ndarray:
    """Largest float64 that the cast to `compare_dtype` puts at or below each cut (finite float64 values).

    The cast rounds to nearest, ties to even, so that the bound lies half-way between two numbers of that dtype, or just
    below.
    """
    if compare_dtype == np.float64:
        return cuts
    with np.errstate(over="ignore"):
        below = cuts.astype(compare_dtype)
        too_large = below.astype(np.float64) > cuts  # a cut that is not of the dtype itself
        below[too_large] = np.nextafter(below[too_large], compare_dtype.type(-np.inf))
        above = np.nextafter(below, compare_dtype.type(np.inf)).astype(np.float64)
        last = below.astype(np.float64)
        middle = np.where(np.isfinite(above), last + (above - last) / 2, last)  # exact: float64 has bits to spare
        rounds_down = middle.astype(compare_dtype).astype(np.float64) <= cuts
    return np.where(rounds_down, middle, np.nextafter(middle, -np.inf))


def _round_inward(bound: int, dtype: np.dtype[Any], up: bool) -> float:
    value = dtype.type(bound)
    if up and int(value) < bound:
        value = np.nextafter(value, dtype.type(np.inf))
    if not up and int(value) > bound:
        value = np.nextafter(value, dtype.type(-np.inf))
    return float(value)
