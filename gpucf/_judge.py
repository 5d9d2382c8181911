"""The user's own model as the judge of answers (rule 7 of the design: the user's model has the last word)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Judge:
    """The source library's own predict, on rows as they are handed back.

    Attributes
    ----------
    name : str
        What `Result.verified_by` says, e.g. ``"xgboost 3.2.0"``.
    class_index : callable
        Takes the rows (a 2-D numpy array with the model's columns in the model's order, or a pandas DataFrame when
        the user handed in one), returns int64 positions in ``ensemble.classes``, from the library's own ``predict``.
    probability : callable
        As above, returns a float64 array (n_rows, n_classes), the library's probabilities widened.
    raw : callable
        As above, returns the library's raw scores, shape (n_rows, n_outputs), in the library's dtype.
    rows : callable, optional
        Takes a `gpucf._table.Table` and returns the rows that the others take, where the form above does not do.
    """

    name: str
    class_index: Callable[[Any], np.ndarray]
    probability: Callable[[Any], np.ndarray]
    raw: Callable[[Any], np.ndarray]
    rows: Callable[[Any], Any] | None = None
