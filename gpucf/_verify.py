"""The last word: every returned row is put to the user's own model (design, rule 7)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, VerificationError
from gpucf._judge import Judge
from gpucf._labels import labels_from_sums
from gpucf._predict import predict_sums
from gpucf._table import Table, read_table
from gpucf._targets import Target

REFERENCE = "gpucf reference predictor"


def verify(
    ensemble: Ensemble, judge: Judge | None, target: Target, before: Table, own: np.ndarray, answer: Any,
    answered: np.ndarray, carry: tuple[str, ...],
) -> str:  # fmt: skip
    """Re-check the rows as they are handed back; returns who did it.

    Every answered row must meet the target, and the model must say of the rows that came in what the reference
    predictor said (`own`, their labels).

    Raises
    ------
    VerificationError
        If a row fails: a fault of gpucf, never passed over.
    """
    after = read_table(answer, ensemble, "the answer", carry)
    labels = labels_from_sums(ensemble, target.rule, predict_sums(ensemble, after.values))
    _demand(target, own, labels, answered, REFERENCE)
    if judge is None or not len(own):
        return REFERENCE
    disagree = np.flatnonzero(_judged(judge, target, ensemble, before) != own)
    if len(disagree):
        raise ModelError(
            f"{judge.name} and gpucf disagree on row {disagree[0]} as it came in: gpucf does not read this model "
            "exactly. Please report this model."
        )
    _demand(target, own, _judged(judge, target, ensemble, after), answered, judge.name)
    return judge.name


def _judged(judge: Judge, target: Target, ensemble: Ensemble, table: Table) -> np.ndarray:
    """Labels of the target's rule, from the source library's own predict."""
    rows = judge_rows(table, ensemble) if judge.rows is None else judge.rows(table)
    with warnings.catch_warnings():
        # A table without pandas goes to the judge as bare numbers in the model's order, of which scikit-learn warns.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        if target.at_least is None:
            return judge.class_index(rows)
        meets = judge.probability(rows)[:, target.klass] >= target.at_least
    yes = int(np.flatnonzero(target.labels)[0])  # type: ignore[arg-type]
    return np.where(meets, yes, 1 - yes)


def judge_rows(table: Table, ensemble: Ensemble) -> Any:
    """Rows in the form in which the library is asked, in the model's order.

    The user's own numpy or pandas object where the library can take it; else numbers, and where there are native
    categories an object array that holds their values.
    """
    if table.kind == "numpy":
        return table.native
    native = [j for j, known in enumerate(ensemble.categories) if known is not None]
    if table.kind == "pandas":
        frame = table.native.iloc[:, list(table.positions)]
        if not any(_is_text(frame.dtypes.iloc[j]) for j in native):
            return frame
    if not native:
        return table.values
    rows = table.values.astype(object)
    for j in native:
        known = np.append(np.asarray(ensemble.categories[j], dtype=object), np.array([None]))
        codes = table.values[:, j]
        rows[:, j] = known[np.where(np.isnan(codes), len(known) - 1, codes).astype(np.int64)]
    return rows


def _is_text(dtype: Any) -> bool:
    """Whether a pandas column holds categories as plain text or objects, which XGBoost and LightGBM do not take."""
    return type(dtype).__name__ != "CategoricalDtype" and getattr(dtype, "kind", "O") not in "biuf"


def _demand(target: Target, own: np.ndarray, labels: np.ndarray, answered: np.ndarray, who: str) -> None:
    good = labels != own if target.labels is None else target.labels[labels]
    failed = np.flatnonzero(answered & ~good)
    if len(failed):
        raise VerificationError(
            f"row {failed[0]} does not meet the target ({target.text}) by {who}: a fault of gpucf, please report it "
            f"({len(failed)} of {int(answered.sum())} rows)."
        )
