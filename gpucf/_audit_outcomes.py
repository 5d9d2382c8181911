"""What recourse each refused row has, as intervals, and the measures of a group that sums of them give.

A row that a limit left open enters with what is certain of it: its cost lies between its certified lower bound and the
cost of the answer that was found (infinity where none was). Every measure is a pair (low, high) between which it lies
whatever the truth about the open rows is; where there are none both are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._result import ALREADY, FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Result

Interval = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Recourse of the refused rows.

    Attributes
    ----------
    rows : int64 array of shape (n_refused,)
        Positions in the table.
    status : str array
    low, high : float64 arrays
        The least cost lies between them; both inf: proved that nothing helps.
    changes : pair of int64 arrays
        Least and largest possible number of changed features; 0 where nothing helps.
    options : pair of int64 arrays, or None where only one option was asked for
    """

    rows: np.ndarray
    status: np.ndarray
    low: np.ndarray
    high: np.ndarray
    changes: tuple[np.ndarray, np.ndarray]
    options: tuple[np.ndarray, np.ndarray] | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def infeasible(self) -> np.ndarray:
        return self.status == INFEASIBLE

    @property
    def unknown(self) -> np.ndarray:
        return self.status == UNKNOWN

    @property
    def found(self) -> np.ndarray:
        """Rows that certainly have recourse."""
        return (self.status == OPTIMAL) | (self.status == FEASIBLE)

    @property
    def open(self) -> np.ndarray:
        """Rows that a limit left unresolved."""
        return (self.status == FEASIBLE) | (self.status == UNKNOWN)

    def take(self, at: np.ndarray) -> Outcomes:
        """Some of the rows, by position among the refused."""
        options = None if self.options is None else (self.options[0][at], self.options[1][at])
        return Outcomes(
            self.rows[at], self.status[at], self.low[at], self.high[at], (self.changes[0][at], self.changes[1][at]),
            options,
        )  # fmt: skip

    @classmethod
    def of(cls, result: Result, n_options: int) -> Outcomes:
        """Of all rows that do not meet the target as they are."""
        rows = np.flatnonzero(result.status != ALREADY)
        status = result.status[rows]
        open_, none = np.isin(status, [FEASIBLE, UNKNOWN]), status == INFEASIBLE
        n_features = len(result._features)
        n_changed = result.n_changed[rows]
        # The nearest answer of an open row is not known: it changes at least one feature, and at most all.
        changes = (
            np.where(open_, 1, np.where(none, 0, n_changed)),
            np.where(open_, n_features, np.where(none, 0, n_changed)),
        )
        options = None
        if n_options > 1:
            counted = result.n_options[rows]
            ended = np.zeros(len(rows), bool)
            for one in result.ranks:
                ended |= one.status[rows] == INFEASIBLE
            options = (counted, np.where(ended, counted, n_options))
        return cls(rows, status, result.lower_bound[rows], result.cost[rows], changes, options)


def gehan_scores(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """For each row: rows that are certainly cheaper minus rows that are certainly dearer (Gehan 1965), float64.

    Without open rows twice the centred rank. The sum is 0.
    """
    n = len(low)
    cheaper = np.searchsorted(np.sort(high), low, side="left")
    dearer = n - np.searchsorted(np.sort(low), high, side="right")
    return (cheaper - dearer).astype(np.float64)


class Columns:
    """Columns whose sums over a group give its measures.

    Attributes
    ----------
    V : float64 array of shape (n_refused, n_columns)
    measures : tuple of str
        "no_recourse", "burden", "changes", "within:B" for each budget, and "options" where they were asked for.
    """

    def __init__(self, outcomes: Outcomes, budgets: Sequence[float]) -> None:
        self.budgets = tuple(budgets)
        found, unknown = outcomes.found, outcomes.unknown
        self._names: dict[str, int] = {}
        parts: list[np.ndarray] = []
        settled = not outcomes.open.any()

        def add(name: str, low: np.ndarray, high: np.ndarray) -> None:
            self._names[f"{name}<"] = len(parts)
            parts.append(low.astype(np.float64))
            if not settled:  # else both ends are one column
                parts.append(high.astype(np.float64))
            self._names[f"{name}>"] = len(parts) - 1

        add("n", np.ones(len(outcomes)), np.ones(len(outcomes)))
        add("found", found, found)
        add("unknown", unknown, unknown)
        add("none", outcomes.infeasible, outcomes.infeasible | unknown)
        add("cost", *(np.where(found, side, 0.0) for side in (outcomes.low, outcomes.high)))
        add("changes", *(np.where(found, side, 0) for side in outcomes.changes))
        for k, budget in enumerate(self.budgets):
            add(f"within{k}", outcomes.high <= budget, outcomes.low <= budget)
        self.has_options = outcomes.options is not None
        if outcomes.options is not None:
            add("options", *outcomes.options)
        self.V = np.stack(parts, axis=1) if parts else np.zeros((len(outcomes), 0))
        self._least = float(outcomes.low[unknown].min()) if unknown.any() else 0.0
        self._most_changes = float(outcomes.changes[1].max(initial=0))
        named = ("no_recourse", "burden", "changes", *(f"within:{b:g}" for b in self.budgets))
        self.measures = (*named, "options") if self.has_options else named

    def values(self, sums: np.ndarray) -> dict[str, Interval]:
        """Measures of groups from sums over them, of shape (..., n_columns); NaN where a measure has no meaning."""

        def of(name: str) -> Interval:
            return sums[..., self._names[f"{name}<"]], sums[..., self._names[f"{name}>"]]

        (n, _), (found, _), (unknown, _) = of("n"), of("found"), of("unknown")
        cost, changes = of("cost"), of("changes")
        some = unknown > 0
        out: dict[str, Interval] = {"no_recourse": (_over(of("none")[0], n), _over(of("none")[1], n))}
        # Each unknown row has recourse at some cost of at least `_least`, or none and then does not count.
        low, high = _over(cost[0], found), _over(cost[1], found)
        with_all = _over(cost[0] + unknown * self._least, found + unknown)
        out["burden"] = (np.where(some, np.fmin(low, with_all), low), np.where(some, np.inf, high))
        low, high = _over(changes[0], found), _over(changes[1], found)
        fewest, most = (
            _over(side + unknown * each, found + unknown)
            for side, each in zip(changes, (1.0, self._most_changes), strict=True)
        )
        out["changes"] = (np.where(some, np.fmin(low, fewest), low), np.where(some, np.fmax(high, most), high))
        for k, budget in enumerate(self.budgets):
            reach = of(f"within{k}")
            out[f"within:{budget:g}"] = (_over(reach[0], n), _over(reach[1], n))
        if self.has_options:
            out["options"] = (_over(of("options")[0], n), _over(of("options")[1], n))
        return out


def quantile(sorted_values: np.ndarray, q: float) -> float:
    """The least cost that at least the share `q` does not exceed; NaN of nothing."""
    m = len(sorted_values)
    return float(sorted_values[quantile_rank(q, m) - 1]) if m else float("nan")


def quantile_rank(q: float, m: Any) -> Any:
    """Rank from 1 of the quantile among `m` sorted values."""
    # q * m may lie an ulp above a whole number; the tolerance is far below what a count can be off by.
    return np.maximum(np.ceil(q * m - 1e-9), 1).astype(np.int64)


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0)
