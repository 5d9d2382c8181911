"""From answers in codes back to values, and the price of each single move."""

from __future__ import annotations

import numpy as np

from gpucf._cells import ONE_HOT, ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._prices import price_tables


def moved_values(before: np.ndarray, cells: Cells, own: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of the answers and which of them differ from the row's own."""
    after, changed = before.copy(), np.zeros(before.shape, bool)
    for j, columns in enumerate(cells.columns):
        moved = codes[:, j] != own[:, j]
        if not moved.any():
            continue
        if cells.kind[j] == ONE_HOT:
            hot = codes[:, j][:, None] == np.arange(len(columns))
            block = np.where(moved[:, None], hot, before[:, list(columns)])
            changed[:, list(columns)] = block != before[:, list(columns)]
            after[:, list(columns)] = block
            continue
        c = columns[0]
        at = cells.code_start[j] + codes[:, j]
        if cells.kind[j] == ORDERED:
            value = np.where(codes[:, j] > own[:, j], cells.cell_lo[at], cells.cell_hi[at])
        else:
            value = codes[:, j].astype(np.float64)
        after[moved, c] = value[moved]
        changed[moved, c] = True
    return after, changed


class FeatureCost:
    """Price of one feature's move in one row, for `Result.changes`: the kernels' own table."""

    def __init__(self, cells: Cells, costs: CostModel, own: np.ndarray, values: np.ndarray, codes: np.ndarray) -> None:
        self._arguments = (cells, costs, own, values, codes)

    def __call__(self, i: int, j: int) -> float:
        cells, costs, own, values, codes = self._arguments
        price, displacement = np.empty(int(cells.code_start[-1])), np.empty(int(cells.code_start[-1]))
        price_tables(costs.prices, i, own[i], values[i], cells.kind, cells.code_start, price, displacement)
        return float(price[cells.code_start[j] + codes[i, j]])
