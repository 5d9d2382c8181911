"""From answers in codes back to values, and the price of each single move."""

from __future__ import annotations

import numpy as np

from gpucf._cells import ONE_HOT, ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._prices import Prices, price_tables


def moved_values(
    before: np.ndarray, cells: Cells, prices: Prices, own: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of the answers and which of them differ from the row's own."""
    after, changed = before.copy(), np.zeros(before.shape, bool)
    for j, columns in enumerate(cells.columns):
        moved = codes[:, j] != own[:, j]
        if not moved.any():
            continue
        if cells.kind[j] == ONE_HOT:
            hot = codes[:, j][:, None] == np.arange(len(columns))  # a reference category: no column
            block = np.where(moved[:, None], hot, before[:, list(columns)])
            changed[:, list(columns)] = block != before[:, list(columns)]
            after[:, list(columns)] = block
            continue
        c = columns[0]
        if cells.kind[j] == ORDERED:
            value = _landing(cells, prices, j, own[:, j], codes[:, j])
        else:
            value = codes[:, j].astype(np.float64)
        after[moved, c] = np.where(codes[:, j] == cells.n_codes[j] - 1, np.nan, value)[moved]
        changed[moved, c] = True
    return after, changed


def _landing(cells: Cells, prices: Prices, j: int, own: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Where moves of an ordered feature land: the near end of the cell, or a limit of the row inside it."""
    at = cells.code_start[j] + codes
    value = np.where(
        codes > own, np.maximum(cells.cell_lo[at], prices.low[:, j]), np.minimum(cells.cell_hi[at], prices.high[:, j])
    )
    return np.where(own == cells.n_codes[j] - 1, prices.leave_value[at], value)


class FeatureCost:
    """Price of one feature's move in one row, for `Result.changes`: the kernels' own table."""

    def __init__(self, cells: Cells, costs: CostModel, own: np.ndarray, values: np.ndarray, codes: np.ndarray) -> None:
        self._arguments = (cells, costs, own, values, codes)

    def __call__(self, i: int, j: int) -> float:
        cells, costs, own, values, codes = self._arguments
        price, displacement = np.empty(int(cells.code_start[-1])), np.empty(int(cells.code_start[-1]))
        price_tables(costs.prices, i, own[i], values[i], cells.kind, cells.code_start, price, displacement)
        return float(price[cells.code_start[j] + codes[i, j]])

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Prices of the moves of some rows, of shape (n_rows, n_features); 0 where a feature stays."""
        cells, costs, own, values, codes = self._arguments
        price, displacement = np.empty(int(cells.code_start[-1])), np.empty(int(cells.code_start[-1]))
        at = cells.code_start[:-1] + codes
        out = np.zeros((len(rows), cells.n_features))
        for k, i in enumerate(rows.tolist()):
            price_tables(costs.prices, i, own[i], values[i], cells.kind, cells.code_start, price, displacement)
            out[k] = price[at[i]]
        return np.where(codes[rows] != own[rows], out, 0.0)
