"""What a query returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpucf._table import Table, columns_frame

ALREADY, OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN = "already", "optimal", "feasible", "infeasible", "unknown"
STATUSES = (ALREADY, OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Counterfactuals of a table of rows, in the order of the rows.

    Attributes
    ----------
    counterfactuals : same kind as the rows that came in
        Same rows, order, index, column names and dtypes; unchanged values are bit-identical. Rows without an answer
        are returned unchanged; `status` says so.
    cost : float64 array of shape (n_rows,)
        Cost of the counterfactual in cost units; 0 where nothing had to change, inf where there is none.
    lower_bound : float64 array of shape (n_rows,)
        No counterfactual of the row costs less (proved); equal to `cost` where that is optimal.
    status : str array of shape (n_rows,)
        "already" (the row meets the target), "optimal" (proved nearest), "feasible" (found, the gap is stated),
        "infeasible" (proved that nothing qualifies), "unknown" (stopped with nothing found).
    verified_by : str
        Who re-checked every returned row, e.g. ``"xgboost 3.2.0"`` or ``"gpucf reference predictor"``.
    changed : bool array of shape (n_rows, n_columns)
        Which columns of the model were changed.
    visits : int64 array of shape (n_rows,)
        Nodes and boxes that were looked at.
    plan : dict
        How the rows were answered: method, regions, times, threads.
    """

    counterfactuals: Any
    cost: np.ndarray
    lower_bound: np.ndarray
    status: np.ndarray
    verified_by: str
    changed: np.ndarray
    visits: np.ndarray
    plan: dict[str, Any]
    _table: Table = field(repr=False)
    _after: np.ndarray = field(repr=False)
    _features: tuple[tuple[str, tuple[int, ...]], ...] = field(repr=False)
    _references: tuple[str | None, ...] = field(repr=False)
    _categories: tuple[np.ndarray | None, ...] = field(repr=False)
    _feature_cost: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.cost)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {status}" for status in STATUSES if (n := int((self.status == status).sum())))
        return f"<gpucf.Result: {len(self):,} rows ({counts or 'empty'}), verified by {self.verified_by}>"

    def to_frame(self) -> Any:
        """Status, cost, lower bound and number of changed features of each row, in a frame of the rows' kind.

        For rows that came as a numpy array, a dict of arrays.
        """
        return columns_frame(
            self._table,
            {
                "status": self.status,
                "cost": self.cost,
                "lower_bound": self.lower_bound,
                "n_changed": self.n_changed,
            },
        )

    @property
    def n_changed(self) -> np.ndarray:
        """Number of changed features of each row (a one-hot group is one feature), int64."""
        out = np.zeros(len(self), np.int64)
        for _, columns in self._features:
            out += self.changed[:, list(columns)].any(axis=1)
        return out

    def changes(self, i: int) -> list[dict[str, Any]]:
        """The moves of row `i`: feature, value before, value after (None: missing), and the price of that move."""
        out = []
        for j, (name, columns) in enumerate(self._features):
            if not self.changed[i, list(columns)].any():
                continue
            out.append(
                {
                    "feature": name,
                    "from": self._value(self._table.values[i], j),
                    "to": self._value(self._after[i], j),
                    "cost": self._feature_cost(i, j),
                }
            )
        return out

    def _value(self, row: np.ndarray, j: int) -> Any:
        columns = self._features[j][1]
        if len(columns) > 1:
            active = np.flatnonzero(row[list(columns)] == 1.0)
            return self._table.names[columns[int(active[0])]] if len(active) else self._references[j]
        value = float(row[columns[0]])
        categories = self._categories[columns[0]]
        if categories is not None:
            return None if np.isnan(value) else categories[int(value)]
        if np.isnan(value):
            return None
        dtype = self._table.dtypes[columns[0]]
        if dtype is not None and dtype.kind in "iu":
            return int(value)
        return bool(value) if dtype is not None and dtype.kind == "b" else value

    def summary(self) -> dict[str, Any]:
        """Counts by status, and the median and 95th percentile of the proved costs."""
        proved = self.cost[self.status == OPTIMAL]
        return {
            "rows": len(self),
            **{status: int((self.status == status).sum()) for status in STATUSES},
            "median_cost": float(np.median(proved)) if len(proved) else None,
            "p95_cost": float(np.percentile(proved, 95)) if len(proved) else None,
            "verified_by": self.verified_by,
        }
