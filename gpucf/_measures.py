"""How far a move goes: units of columns from a background, percentiles of its population, tables of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpucf._errors import OptionError

LARGEST_POSITION = 1e300
SCALES = ("range", "std", "mad", "iqr")


def column_scales(values: np.ndarray, scale: str | None, n_columns: int) -> np.ndarray:
    """Displacement unit of each column from background rows (float64, NaN ignored).

    "range" is the largest minus the smallest value, "std" the standard deviation (of the population), "mad" the median
    distance from the median, "iqr" the distance between the quartiles. A unit that would be 0 or not finite falls back
    to the range, and for a constant column to 1, so that every displacement stays finite and positive: with a MAD of 0
    (more than half of the rows share one value) a move is measured by the range.
    """
    if scale is None:
        return np.ones(n_columns)
    if scale not in SCALES:
        raise OptionError(f"scale is {scale!r}; give one of {', '.join(map(repr, SCALES))}, or None.")
    out = np.ones(n_columns)
    for j in range(n_columns):
        x = values[:, j]
        x = x[~np.isnan(x)]
        if not len(x):
            continue
        spread = float(x.max()) - float(x.min())
        with np.errstate(over="ignore", invalid="ignore"):  # the largest numbers: what is not finite falls back
            if scale == "std":
                unit = float(x.std())
            elif scale == "mad":
                unit = float(np.median(np.abs(x - np.median(x))))
            elif scale == "iqr":
                unit = float(np.subtract(*np.percentile(x, [75, 25])))
            else:
                unit = spread
        for candidate in (unit, spread, 1.0):
            if np.isfinite(candidate) and candidate > 1e-290:
                out[j] = candidate
                break
    return out


class Population:
    """Percentiles in a background table.

    The position of a value is the share of rows below it plus half the share of rows equal to it (the mid-rank), so
    that rises and falls are treated alike, and a move between two values is as long either way. Counts are whole
    numbers, so that positions are exact, and rise with the value. Missing values are left out.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self._sorted: dict[int, np.ndarray] = {}

    def ranks(self, column: int) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
        """Twice the mid-rank of values (float64, NaN for NaN), and the unit that makes shares of them."""
        if column not in self._sorted:
            x = self._values[:, column]
            self._sorted[column] = np.sort(x[~np.isnan(x)])
        known = self._sorted[column]

        def position(values: np.ndarray) -> np.ndarray:
            twice = np.searchsorted(known, values, "left") + np.searchsorted(known, values, "right")
            return np.where(np.isnan(values), np.nan, twice.astype(np.float64))

        return position, 2.0 * max(len(known), 1)


def position_in(table: tuple[Sequence[float], Sequence[float]], values: np.ndarray) -> np.ndarray:
    """Positions of values in a rising table: straight between its points, and on beyond its ends as at the end.

    Every step rounds once and rises with the value, and no segment ends above the point where the next begins.
    """
    x, y = (np.asarray(part, np.float64) for part in table)
    with np.errstate(over="ignore"):
        slope = np.diff(y) / np.diff(x)
        at = np.clip(np.searchsorted(x, values, "right") - 1, 0, len(x) - 2)
        inside = np.minimum(y[at] + (values - x[at]) * slope[at], y[at + 1])
        above = y[-1] + (values - x[-1]) * slope[-1]
        below = y[0] - (x[0] - values) * slope[0]
    out = np.where(values > x[-1], above, np.where(values < x[0], below, inside))
    # Far beyond what is ever paid, but finite, so that differences are.
    return np.where(np.isnan(values), np.nan, np.clip(out, -LARGEST_POSITION, LARGEST_POSITION))
