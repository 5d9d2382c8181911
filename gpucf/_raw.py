"""What a pipeline makes of its user's columns beyond what the trees say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNKNOWN = "(unknown level)"


@dataclass(frozen=True)
class RawColumns:
    """Columns of a model that begins with preprocessing.

    Attributes
    ----------
    ignored : tuple of str
        Columns of the training frame that no tree hears of. A table may hold them; they ride along.
    missing_levels : tuple, one entry per column of the model
        Levels beside ``categories`` that the model takes for a missing value: a tuple of them, or None for every
        unknown level.
    unknown : tuple of bool, one entry per column
        The last of ``categories`` is `UNKNOWN`, which stands for every level that training did not see: a row may
        hold such a level and leave it, but no move lands there.
    no_float32 : tuple of bool, one entry per column
        The preprocessing computes in the dtype of the column: only float64, integers and booleans give the numbers
        that the trees were read with.
    """

    ignored: tuple[str, ...]
    missing_levels: tuple[tuple[Any, ...] | None, ...]
    unknown: tuple[bool, ...]
    no_float32: tuple[bool, ...]
