"""Asking fitted transformers what they make of single raw values.

Columns do not influence one another there, so that one call probes a value in every column at once. The other columns
of a probe hold something harmless.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpucf._errors import ModelError
from gpucf._loaders._transformers import Signal, Trace
from gpucf._raw import UNKNOWN
from gpucf._table import column_at
from gpucf._table_read import is_missing

_TOP = np.int64(np.float64(np.finfo(np.float64).max).view(np.int64))


@dataclass(frozen=True)
class Probe:
    """The preprocessing of one pipeline, ready to be asked.

    Attributes
    ----------
    steps : list of fitted transformers
    names : tuple of str, or None
        Raw columns; None where the pipeline takes them by position.
    n_raw : int
    found : Trace
    inner_categories : tuple
        Of the columns that the trees see.
    zero_is_missing : bool
        The trees' library takes what a sparse table leaves out for a missing value.
    """

    steps: list[Any]
    names: tuple[str, ...] | None
    n_raw: int
    found: Trace
    inner_categories: tuple[np.ndarray | None, ...]
    zero_is_missing: bool
    _neutral: dict[int, Any] = field(default_factory=dict)

    def neutral(self, source: int) -> Any:
        """A value of a raw column that its transformers take."""
        levels = self.found.levels.get(source)
        if levels is None:
            return 0.0
        return levels[0] if levels else self.found.marker.get(source, np.nan)

    def ask(self, n_rows: int, given: dict[int, list[Any]]) -> Callable[[int], np.ndarray]:
        """Transform rows that hold `given` in some raw columns; returns a function from column to its values.

        Values are float64, for a native category of the trees its index in their categories (-1: none of them).
        """
        columns = [given.get(j, [self.neutral(j)] * n_rows) for j in range(self.n_raw)]
        out: Any = self._rows([_array(c, self.found.levels.get(j, ())) for j, c in enumerate(columns)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in self.steps:
                if step is not None and not isinstance(step, str):
                    out = step.transform(out)
        if hasattr(out, "toarray"):
            out = dense(out, self.zero_is_missing)
        return lambda m: self._column(out, m)

    def _rows(self, columns: list[np.ndarray]) -> Any:
        if self.names is not None:
            import pandas as pd

            return pd.DataFrame(dict(zip(self.names, columns, strict=True)))
        if any(c.dtype == object for c in columns):
            columns = [c.astype(object) for c in columns]
        return np.column_stack(columns)

    def _column(self, out: Any, m: int) -> np.ndarray:
        kind = "pandas" if hasattr(out, "iloc") else "polars" if hasattr(out, "to_series") else "numpy"
        column = column_at(kind, out, m)
        known = self.inner_categories[m]
        if known is None:
            return np.asarray(column, dtype=np.float64)
        place = {value: i for i, value in enumerate(known.tolist())}
        cells = np.asarray(column, dtype=object).tolist()
        return np.asarray([np.nan if is_missing(cell) else place.get(cell, -1) for cell in cells], dtype=np.float64)

    def missing(self, source: int) -> Callable[[int], np.ndarray] | None:
        """What a missing value in one raw column becomes; None where the transformers refuse it."""
        return self._try(source, self.found.marker.get(source, np.nan))

    def unknown(self, source: int) -> Callable[[int], np.ndarray] | None:
        """What a level that training never saw becomes; None where the transformers refuse it."""
        levels = self.found.levels[source]
        if levels and all(isinstance(v, bool) for v in levels):
            return None
        return self._try(source, self.made_up(source))

    def made_up(self, source: int) -> Any:
        """A level that training never saw."""
        levels = self.found.levels[source]
        if levels and all(isinstance(v, int | float) for v in levels):
            return max(float(max(levels)), 0.0) * 2.0 + 1.0
        return UNKNOWN

    def _try(self, source: int, value: Any) -> Callable[[int], np.ndarray] | None:
        try:
            return self.ask(1, {source: [value]})
        except (ValueError, TypeError, KeyError):
            return None


def _array(values: list[Any], levels: Sequence[Any]) -> np.ndarray:
    """Python values as a column: numbers in their own dtype, levels that are no numbers as objects."""
    kinds = {type(v) for v in (*values, *levels)}
    if kinds == {bool} or (kinds <= {int, float}):
        return np.asarray(values)
    out = np.empty(len(values), object)
    out[:] = values
    return out


def dense(table: Any, zero_is_missing: bool) -> np.ndarray:
    """A sparse table with 0, or missing, where it holds nothing."""
    if not zero_is_missing:
        return np.asarray(table.toarray())
    coordinates = table.tocoo()
    out = np.full(table.shape, np.nan)
    out[coordinates.row, coordinates.col] = coordinates.data
    return out


def last_left(signal: Signal, thresholds: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Last raw float64 of which the trees' comparison says "left", for each of their thresholds; -inf, inf: none, all.

    Bisection over all float64 numbers: the arithmetic is monotone, and so is the rounding to `dtype` in front of the
    comparison.
    """

    def goes_left(raw: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return signal.numbers(raw).astype(dtype) <= thresholds

    return bisect(goes_left, len(thresholds))


def zero_range(signal: Signal) -> tuple[float, float]:
    """First and last raw number that becomes exactly 0; the first above the last where there is none."""
    if signal.is_level:
        return np.inf, -np.inf
    last_below = bisect(lambda raw: signal.numbers(raw) < 0.0, 1)
    last = bisect(lambda raw: signal.numbers(raw) <= 0.0, 1)
    first = np.nextafter(last_below, np.inf) if np.isfinite(last_below[0]) else last_below
    return float(first[0]) + 0.0, float(last[0])


def bisect(holds: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
    """Last float64 for which each of `n` falling conditions holds; -inf where none does, inf where all do."""
    low, high = np.full(n, -_TOP), np.full(n, _TOP)
    all_left, none_left = holds(_float(high)), ~holds(_float(low))
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their sum may overflow
        left = holds(_float(middle))
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    out = _float(low) + 0.0  # + 0.0: no negative zeros
    return np.where(all_left, np.inf, np.where(none_left, -np.inf, out))


def _float(ordinal: np.ndarray) -> np.ndarray:
    """The float64 numbers by their place in order, 0 for zero."""
    bits = np.where(ordinal >= 0, ordinal, np.iinfo(np.int64).min - ordinal)
    return bits.astype(np.int64).view(np.float64)


def check_copies(probe: Probe, signals: list[Signal], cuts: dict[int, np.ndarray]) -> None:
    """Compare the copied arithmetic with the transformers at all cuts (by raw column) and just above them."""
    around = {}
    for source, cut in cuts.items():
        finite = cut[np.isfinite(cut)]
        values = np.unique(np.concatenate([finite, np.nextafter(finite, np.inf), [0.0]]))
        own = [s for s in signals if s.source == source]
        # Numbers that some step turns into infinity are refused by the transformers.
        around[source] = values[np.all([np.isfinite(s.numbers(values)) for s in own], axis=0)]
    n = max((len(v) for v in around.values()), default=0)
    if not n:
        return
    padded = {j: np.concatenate([v, np.zeros(n - len(v))]).tolist() for j, v in around.items()}
    column = probe.ask(n, padded)
    for m, signal in enumerate(signals):
        if signal.source not in around:
            continue
        expected, got = signal.numbers(np.asarray(padded[signal.source])), column(m)
        absent = np.isnan(got) & (expected == 0.0) if probe.zero_is_missing else np.zeros(n, bool)
        if np.any((got != expected) & ~absent):
            i = int(np.flatnonzero((got != expected) & ~absent)[0])
            raise ModelError.unsupported(
                f"the preprocessing of column {probe.found.names[signal.source]!r}",
                f"it turns {padded[signal.source][i]!r} into {got[i]!r}, where gpucf computes {expected[i]!r}. "
                "Please report this pipeline",
            )
