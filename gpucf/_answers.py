"""Answers in codes: what the map and the search both give."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, eq=False)
class Answers:
    """The best point of every row.

    Attributes
    ----------
    codes : int32 array of shape (n_rows, n_features)
        The row's own codes where nothing was found.
    cost : float64 array of shape (n_rows,)
        The minimised sum or maximum; inf where nothing was found.
    lower_bound : float64 array of shape (n_rows,)
        Certified: nothing that qualifies costs less.
    proved : bool array of shape (n_rows,)
        The cost is the least; where it is inf, nothing qualifies.
    visits : int64 array of shape (n_rows,)
        Boxes priced (map) or nodes looked at (search).
    """

    codes: np.ndarray
    cost: np.ndarray
    lower_bound: np.ndarray
    proved: np.ndarray
    visits: np.ndarray

    def take(self, other: Answers, rows: np.ndarray) -> None:
        """Take over what another run found for some rows."""
        for name in ("codes", "cost", "lower_bound", "proved", "visits"):
            getattr(self, name)[rows] = getattr(other, name)[rows]

    def copy(self) -> Answers:
        """Arrays of their own."""
        return Answers(*(getattr(self, f.name).copy() for f in fields(self)))

    @classmethod
    def none_yet(cls, own: np.ndarray) -> Answers:
        """Nothing found for any row, and proved so: to be filled in."""
        n = len(own)
        return cls(own.copy(), np.full(n, np.inf), np.full(n, np.inf), np.ones(n, bool), np.zeros(n, np.int64))
