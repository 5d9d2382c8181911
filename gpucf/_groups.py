"""Rows by what is wanted of them: one target for all, or one for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError
from gpucf._labels import labels_from_sums
from gpucf._targets import Target


@dataclass(frozen=True, eq=False)
class Group:
    """Rows with one target.

    Attributes
    ----------
    rows : int64 array
        Positions in the table.
    own : int64 array
        Their own labels under the target's rule.
    already : bool array
        Which meet the target as they are.
    """

    target: Target
    rows: np.ndarray
    own: np.ndarray
    already: np.ndarray

    def labels(self, n_rows: int) -> np.ndarray:
        """`own` by row of the whole table; 0 for rows of other groups."""
        out = np.zeros(n_rows, np.int64)
        out[self.rows] = self.own
        return out

    @classmethod
    def of(cls, ensemble: Ensemble, target: Target, rows: np.ndarray, sums: np.ndarray) -> Group:
        own = labels_from_sums(ensemble, target.rule, sums[rows])
        _, already = target.wanted(own)
        return cls(target, rows, own, already)


def wishes_by_row(target: Any, n_rows: int) -> list[tuple[Any, np.ndarray]]:
    """Distinct targets and the rows that each is for.

    A one-dimensional array or column of targets has one for each row; anything else is one target for all.
    """
    if not _is_column(target):
        return [(target, np.arange(n_rows))]
    wishes = np.asarray(target, dtype=object).tolist()
    if len(wishes) != n_rows:
        raise OptionError(
            f"target has {len(wishes)} entries for {n_rows} rows; give one for each row, or a single target (a list of "
            "targets means any of them)."
        )
    rows: dict[Any, list[int]] = {}
    kept: dict[Any, Any] = {}
    for i, wish in enumerate(wishes):
        if isinstance(wish, np.generic):
            wish = wish.item()
        try:
            key = (type(wish), wish)
            kept.setdefault(key, wish)
        except TypeError:
            raise OptionError(f"the target of row {i} is {wish!r}; give a class, text, or a gpucf target.") from None
        rows.setdefault(key, []).append(i)
    return [(kept[key], np.asarray(at)) for key, at in rows.items()]


def _is_column(target: Any) -> bool:
    """Arrays and columns of frames; lists and tuples are targets themselves."""
    if isinstance(target, str | bytes | list | tuple | set | frozenset | np.generic):
        return False
    shape = getattr(target, "shape", None)
    return (shape is not None and len(shape) == 1) or type(target).__module__.split(".")[0] == "pyarrow"


def part_of(progress: Callable[[int, int], None], before: int, n_part: int, n_total: int) -> Callable[[int, int], None]:
    """Progress of a part as progress of the whole."""

    def tell(done: int, of: int) -> None:
        progress(before + (n_part * done // of if of else n_part), n_total)

    return tell
