"""The last word: every returned row is put to the user's own model (design, rule 7)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpucf._change_rules import ChangeRules
from gpucf._ensemble import Ensemble, Member
from gpucf._errors import ModelError, VerificationError
from gpucf._groups import Group
from gpucf._judge import Judge
from gpucf._labels import labels_from_sums
from gpucf._links import classes_from_raw, probabilities_from_raw
from gpucf._predict import predict_sums, raw_from_sums
from gpucf._rules import RULES
from gpucf._table import Table, read_table
from gpucf._targets import Condition

REFERENCE = "gpucf reference predictor"


def verify(
    space: Ensemble, judges: list[Judge | None], groups: list[Group], before: Table, answer: Any,
    answered: np.ndarray, carry: tuple[str, ...], changes: ChangeRules | None = None,
) -> str:  # fmt: skip
    """Re-check the rows as they are handed back; returns who did it.

    Every answered row must meet its target, and the models must say of the rows that came in what the reference
    predictor said. `space` is the user's model, or merged from it and further ones; `judges` has one for each. Rules
    about moves are put to the rows before and after.

    Raises
    ------
    VerificationError
        If a row fails: a fault of gpucf, never passed over.
    """
    members = space.members or (Member(space, np.arange(space.n_features)),)
    main = members[0].ensemble
    after = read_table(answer, main, "the answer", carry)
    sums = predict_sums(space, after.values)
    for group in groups:
        _demand(group, labels_from_sums(space, group.target.rule, sums[group.rows]), answered, REFERENCE)
    if changes is not None:
        broken = np.flatnonzero(~changes.kept(before.values, after.values).all(axis=0) & answered)
        if len(broken):
            raise VerificationError(
                f"row {broken[0]} breaks a rule about moves: a fault of gpucf, please report it ({len(broken)} rows)."
            )
    if not any(judges) or not len(answered):
        return REFERENCE
    told_before, told_after = (_Told(judges, members, table) for table in (before, after))
    for group in groups:
        said = group.target.judged(told_before.of(group))
        disagree = group.rows[said != group.own]
        if len(disagree):
            raise ModelError(
                f"{told_before.by} and gpucf disagree on row {disagree[0]} as it came in: gpucf does not read this "
                "model exactly. Please report this model."
            )
        _demand(group, group.target.judged(told_after.of(group)), answered, told_after.by)
    by = told_after.by
    return by if changes is None or RULES in by else f"{by}, {RULES}"


class _Told:
    """What each model says of a table, asked once for each kind of question."""

    def __init__(self, judges: list[Judge | None], members: Sequence[Member], table: Table) -> None:
        self.judges, self.members, self.table = judges, members, table
        self._known: dict[tuple[int, str], np.ndarray] = {}
        self._asked: dict[str, None] = {}

    @property
    def by(self) -> str:
        return ", ".join(self._asked)

    def of(self, group: Group) -> Callable[[Condition], np.ndarray]:
        return lambda condition: self._answers(condition)[group.rows]

    def _answers(self, condition: Condition) -> np.ndarray:
        key = (condition.member, condition.asked)
        if key not in self._known:
            self._known[key] = self._ask(condition)
        return self._known[key]

    def _ask(self, condition: Condition) -> np.ndarray:
        judge, member = self.judges[condition.member], self.members[condition.member]
        if judge is None:
            self._asked[REFERENCE] = None
            return _reference(member, condition.asked, self.table.values)
        self._asked[judge.name] = None
        rows = judge_rows(self.table, self.members[0].ensemble) if judge.rows is None else judge.rows(self.table)
        if condition.member:
            rows = rows.iloc[:, member.columns] if hasattr(rows, "iloc") else rows[:, member.columns]
        with warnings.catch_warnings():
            # A table without pandas goes to the judge as bare numbers, of which scikit-learn warns.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            answers: np.ndarray = getattr(judge, condition.asked)(rows)
        return answers


def _reference(member: Member, asked: str, X: np.ndarray) -> np.ndarray:
    raw = raw_from_sums(member.ensemble, predict_sums(member.ensemble, X[:, member.columns]))
    if asked == "class_index":
        return classes_from_raw(member.ensemble, raw)
    return probabilities_from_raw(member.ensemble, raw) if asked == "probability" else raw


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


def _demand(group: Group, labels: np.ndarray, answered: np.ndarray, who: str) -> None:
    target, mine = group.target, answered[group.rows]
    good = labels != group.own if target.labels is None else target.labels[labels]
    failed = group.rows[mine & ~good]
    if len(failed):
        raise VerificationError(
            f"row {failed[0]} does not meet the target ({target.text}) by {who}: a fault of gpucf, please report it "
            f"({len(failed)} of {int(mine.sum())} rows)."
        )
