"""Boxes around answers, in the values that people know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._cells import ONE_HOT, ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._explain import value_text
from gpucf._face_growth import FaceBoxes
from gpucf._table import Table


@dataclass(frozen=True)
class Region:
    """A box around an answer on which every row meets the target.

    Attributes
    ----------
    limits : dict
        By feature: for numbers a pair (least, largest value), None for an open end, both NaN where the value is
        missing and stays so; for categories the list of those allowed.
    blocked : bool
        No side can be moved any further: beyond each of them lies a row that does not meet the target, or what the row
        may not have. False where a limit on nodes or time ended the growth.

    Examples
    --------
    >>> from gpucf._region import Region
    >>> print(Region({"income": (41200.0, None), "debt": (None, 0.35), "age": (None, None)}, True))
    income at least 41,200; debt at most 0.35
    """

    limits: dict[str, Any]
    blocked: bool

    def __str__(self) -> str:
        parts = [text for name, limit in self.limits.items() if (text := _limit_text(name, limit))]
        return "; ".join(parts) or "everything meets the target"


def _limit_text(name: str, limit: Any) -> str:
    if limit is None:
        return ""
    if isinstance(limit, list):
        shown = ", ".join(value_text(v) for v in limit)
        return f"{name} {shown}" if len(limit) == 1 else f"{name} one of {shown}"
    low, high = limit
    if low is None and high is None:
        return ""
    if low is not None and low != low:
        return f"{name} missing"
    if low is not None and high is not None:
        return f"{name} {value_text(low)}" if low == high else f"{name} from {value_text(low)} to {value_text(high)}"
    return f"{name} at least {value_text(low)}" if high is None else f"{name} at most {value_text(high)}"


@dataclass(frozen=True, eq=False)
class Regions:
    """The boxes of a result's rows.

    Attributes
    ----------
    boxes : FaceBoxes
    cells : Cells
    after : float64 array of shape (n_rows, n_columns)
        The answers.
    least, largest : float64 arrays of shape (n_rows or 1, n_features)
        What a row may move to, where that ends within a cell.
    """

    boxes: FaceBoxes
    cells: Cells
    after: np.ndarray
    table: Table
    categories: tuple[np.ndarray | None, ...]
    least: np.ndarray
    largest: np.ndarray

    def of(self, i: int) -> Region | None:
        """The box of row `i`; None where the row has no answer."""
        if not self.boxes.has_box[i]:
            return None
        limits = {}
        for j, name in enumerate(self.cells.names):
            limits[name] = self._range(i, j) if self.cells.kind[j] == ORDERED else self._categories(i, j)
        return Region(limits, bool(self.boxes.blocked[i]))

    def _range(self, i: int, j: int) -> tuple[Any, Any]:
        cells, column = self.cells, self.cells.columns[j][0]
        lo, hi = int(self.boxes.lo[i, j]), int(self.boxes.hi[i, j])
        last = int(cells.n_codes[j]) - 1
        if lo == last:
            return np.nan, np.nan
        inside = slice(int(cells.code_start[j]) + lo, int(cells.code_start[j]) + hi + 1)
        own = self.after[i, column]  # perhaps unattainable: then in a cell without ends
        low = None if lo == 0 else float(np.nanmin(np.append(cells.cell_lo[inside], own)))
        high = None if hi == last - 1 else float(np.nanmax(np.append(cells.cell_hi[inside], own)))
        least, largest = (bounds[min(i, len(bounds) - 1), j] for bounds in (self.least, self.largest))
        if not least <= own <= largest:  # it stays outside of its limits
            least = largest = own
        if least > (-np.inf if low is None else low):
            low = float(least)
        if largest < (np.inf if high is None else high):
            high = float(largest)
        dtype = self.table.dtypes[column]
        if dtype is not None and dtype.kind in "iu":
            return (None if low is None else int(low)), (None if high is None else int(high))
        return low, high

    def _categories(self, i: int, j: int) -> list[Any] | None:
        first, last = int(self.cells.code_start[j]), int(self.cells.code_start[j + 1]) - 1
        codes = np.flatnonzero(self.boxes.members[i, first : last + 1]).tolist()
        if len(codes) == last - first and codes[-1] != last - first:
            return None
        columns = self.cells.columns[j]
        known = self.categories[columns[0]] if self.cells.kind[j] != ONE_HOT else None
        out: list[Any] = []
        for code in codes:
            if known is not None:
                out.append(None if code == last - first else known.item(code))
            else:
                out.append(self.table.names[columns[code]] if code < len(columns) else self.cells.references[j])
        return out


def moving_limits(before: np.ndarray, costs: CostModel) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value that each row may move to, by feature; its own one where it may only rise or fall.

    `before` are the rows' values by feature, from `code_rows`. A feature that may not move is not limited here: it
    stays within its cell.
    """
    prices = costs.prices
    free = costs.may_rise | costs.may_fall
    frozen = (prices.low > prices.high) | ~free
    least = np.where(free & ~costs.may_fall, before, -np.inf)
    largest = np.where(free & ~costs.may_rise, before, np.inf)
    least, largest = np.fmax(least, prices.low), np.fmin(largest, prices.high)
    return np.where(frozen, -np.inf, least), np.where(frozen, np.inf, largest)
