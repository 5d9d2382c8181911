"""What a query returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpucf._errors import OptionError
from gpucf._explain import Explanation, explain
from gpucf._region import Region
from gpucf._table import Table, columns_frame, take_rows

ALREADY, OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN = "already", "optimal", "feasible", "infeasible", "unknown"
STATUSES = (ALREADY, OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN)


@dataclass(frozen=True, eq=False)
class Option:
    """One of the answers of a row; ``str`` puts it into words.

    Attributes
    ----------
    counterfactual : table of one row, of the kind of the rows that came in
    status : {"optimal", "feasible"}
        "optimal": proved the nearest of those that the earlier options leave.
    cost, lower_bound : float
    changes : list of dict
        See `Result.changes`.
    explanation : Explanation
    """

    counterfactual: Any
    status: str
    cost: float
    lower_bound: float
    changes: list[dict[str, Any]]
    explanation: Explanation

    def __str__(self) -> str:
        return str(self.explanation)


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
    _further: tuple[Result, ...] = field(default=(), repr=False)
    _regions: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.cost)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {status}" for status in STATUSES if (n := int((self.status == status).sum())))
        return f"<gpucf.Result: {len(self):,} rows ({counts or 'empty'}), verified by {self.verified_by}>"

    def _repr_html_(self) -> str:
        from gpucf._result_html import notebook

        return notebook(self)

    def to_frame(self) -> Any:
        """Status, cost, lower bound and number of changed features of each row, in a frame of the rows' kind.

        For rows that came as a numpy array, a dict of arrays. After a query with ``options=k`` there is one line for
        each option, with the columns "row" (from 0) and "option" (from 1), in the order of the rows.
        """
        names = ("status", "cost", "lower_bound", "n_changed")
        if not self._further:
            return columns_frame(self._table, {name: getattr(self, name) for name in names})
        row, rank = self.option_lines()
        columns = {name: np.stack([getattr(r, name) for r in self.ranks])[rank, row] for name in names}
        table = replace(self._table, native=take_rows(self._table, row))
        return columns_frame(table, {"row": row, "option": rank + 1, **columns})

    @property
    def ranks(self) -> tuple[Result, ...]:
        """The first options of all rows, which is this result itself, the second ones, and so on."""
        return (self, *self._further)

    def option_lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and position in `ranks` of each line of a table of options, int64.

        Every row has its first option, whatever its status. A later option has a line if it was found, or if the search
        for it was stopped by a limit.
        """
        lines = [(i, m) for i in range(len(self)) for m in self._ranks_of(i)]
        row, rank = np.array(lines, np.int64).reshape(-1, 2).T
        return row, rank

    def _ranks_of(self, i: int) -> Iterator[int]:
        yield 0
        if self.status[i] in (ALREADY, INFEASIBLE, UNKNOWN):
            return
        for m, rank in enumerate(self._further, 1):
            if rank.status[i] != INFEASIBLE:
                yield m
            if rank.status[i] in (INFEASIBLE, UNKNOWN):
                return

    @property
    def n_options(self) -> np.ndarray:
        """Options found for each row, int64; 0 where nothing has to change or nothing was found."""
        out = np.zeros(len(self), np.int64)
        for result in self.ranks:
            out += result.changed.any(axis=1)
        return out

    def options(self, i: int) -> list[Option]:
        """The options of row `i`, nearest first: answers none of whose sets of changed features contains another's.

        At most as many as ``Engine.query(..., options=k)`` asked for. Where there are fewer, `no_more_options` says
        whether it is proved that there are no others.
        """
        out = []
        for result in self.ranks:
            if result.changed[i].any():
                one = take_rows(replace(self._table, native=result.counterfactuals), np.array([i]))
                out.append(
                    Option(one, str(result.status[i]), float(result.cost[i]), float(result.lower_bound[i]),
                           result.changes(i), result.explain(i))
                )  # fmt: skip
        return out

    def no_more_options(self, i: int) -> bool:
        """Whether it is proved that row `i` has no further option than those found."""
        return any(result.status[i] == INFEASIBLE for result in self.ranks)

    def region(self, i: int) -> Region | None:
        """The box around the answer of row `i` on which everything still holds; None where there is no answer.

        Every row inside it (missing values only where the answer has them) meets the target, and lies where the row may
        move to. Features that it may not change stay within the cell that they are in.
        """
        if self._regions is None:
            raise OptionError("the query did not ask for regions; give region=True.")
        region: Region | None = self._regions.of(i)
        return region

    def explain(self, i: int) -> Explanation:
        """The answer of row `i` in words, and a table of its changes."""
        changes = self.changes(i)
        columns_of = dict(self._features)
        dtypes = [
            self._table.dtypes[columns_of[c["feature"]][0]] if len(columns_of[c["feature"]]) == 1 else None
            for c in changes
        ]
        return explain(changes, dtypes, str(self.status[i]), float(self.cost[i]), float(self.lower_bound[i]))

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
