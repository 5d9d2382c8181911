"""Whether the decision, or the recourse, changes when only a protected attribute does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._audit_groups import MISSING, Attribute
from gpucf._result import ALREADY, Result
from gpucf._table import Table, take_rows, with_values

if TYPE_CHECKING:
    from gpucf._engine import Engine


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What happens to the rows when one attribute is set to each of its other values and all else stays.

    Attributes
    ----------
    attribute : str
    read_by_model : bool
        False: the model does not read it, so that nothing can happen, and nothing was computed.
    settings : dict
        Level to what its column was set to.
    n_rows : int
        Rows that were tried (those with a value), of which `n_refused` are refused.
    n_refused : int
    refused_to_accepted, accepted_to_refused : int
        Rows for which some other value gives the other decision. Exact: the model itself was asked.
    small : float
        What counts as a small other change.
    small_before : pair of int
        Refused rows that a change of at most `small` helps, as they are.
    small_unlocked : pair of int
        Refused rows that such a change does not help as they are, but does with another value of the attribute (or
        that the other value helps by itself). A pair of bounds where a limit left rows open.
    pairs : dict of arrays
        "row", "from", "to", "before", "after", one entry for each flipped decision.
    """

    attribute: str
    read_by_model: bool
    settings: dict[str, float] = field(default_factory=dict)
    n_rows: int = 0
    n_refused: int = 0
    refused_to_accepted: int = 0
    accepted_to_refused: int = 0
    small: float = 0.0
    small_before: tuple[int, int] = (0, 0)
    small_unlocked: tuple[int, int] = (0, 0)
    pairs: dict[str, np.ndarray] = field(default_factory=dict)

    def to_dict(self, n_pairs: int = 20) -> dict[str, Any]:
        """Everything, and the first `n_pairs` of the pairs."""
        shown = {name: values[:n_pairs].tolist() for name, values in self.pairs.items()}
        return {**self.__dict__, "pairs": shown, "n_pairs": len(self.pairs.get("row", ()))}


def sensitivity(
    engine: Engine, table: Table, attribute: Attribute, result: Result, asked: dict[str, Any], small: float
) -> Sensitivity:
    """Ask the engine for all rows with the attribute set to each of its other values.

    Parameters
    ----------
    asked : dict
        Options of the query that gave `result`.
    small : float
        Cost of what counts as a small other change.
    """
    if not attribute.columns:
        return Sensitivity(attribute.name, False)
    known = np.array([level != MISSING for level in attribute.levels])[attribute.codes]
    refused = result.status != ALREADY
    options = {**asked, "immutable": held(asked.get("immutable", ()), _feature_name(engine, attribute))}
    flipped = {True: np.zeros(len(refused), bool), False: np.zeros(len(refused), bool)}
    low, high = np.full(len(refused), np.inf), np.full(len(refused), np.inf)
    pairs: dict[str, list[np.ndarray]] = {name: [] for name in ("row", "from", "to", "before", "after")}
    used: dict[str, float] = {}
    for level, setting in enumerate(attribute.settings):
        rows = np.flatnonzero(known & (attribute.codes != level))
        if np.isnan(setting) or not len(rows):
            continue
        used[attribute.levels[level]] = setting
        there = engine.query(_set(engine, table, attribute, setting, rows), **_rows_of(options, rows, len(refused)))
        accepted = there.status == ALREADY
        low[rows] = np.minimum(low[rows], there.lower_bound)
        high[rows] = np.minimum(high[rows], there.cost)
        turned = accepted == refused[rows]
        for before in (True, False):
            flipped[before][rows[turned & (refused[rows] == before)]] = True
        at = rows[turned]
        names = np.array(attribute.levels, dtype=object)
        for name, values in [
            ("row", at), ("from", names[attribute.codes[at]]), ("to", np.full(len(at), names[level], dtype=object)),
            ("before", np.where(refused[at], "refused", "accepted")),
            ("after", np.where(refused[at], "accepted", "refused")),
        ]:  # fmt: skip
            pairs[name].append(values)
    of = known & refused
    helped = [int((side[of] <= small).sum()) for side in (result.cost, result.lower_bound)]
    surely = (high <= small) & (result.lower_bound > small) & of
    perhaps = (low <= small) & (result.cost > small) & of
    return Sensitivity(
        attribute.name, True, used, int(known.sum()), int(of.sum()), int(flipped[True].sum()),
        int(flipped[False].sum()), small, (helped[0], helped[1]), (int(surely.sum()), int(perhaps.sum())),
        {name: np.concatenate(values) if values else np.zeros(0) for name, values in pairs.items()},
    )  # fmt: skip


def held(immutable: Any, name: str) -> Any:
    """`immutable` of a query with one more feature in it."""
    if isinstance(immutable, Mapping):
        return {**immutable, name: True}
    given = [immutable] if isinstance(immutable, str) else list(immutable)
    return given if name in given else [*given, name]


def _rows_of(options: dict[str, Any], rows: np.ndarray, n: int) -> dict[str, Any]:
    """Options with those entries that have one value a row cut to some rows."""
    out = {name: value for name, value in options.items() if name not in ("options", "region", "progress")}

    def cut(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: cut(inner) for name, inner in value.items()}
        return value[rows] if isinstance(value, np.ndarray) and value.shape[:1] == (n,) else value

    return {name: cut(value) if name in ("immutable", "limits", "target") else value for name, value in out.items()}


def _feature_name(engine: Engine, attribute: Attribute) -> str:
    for group in engine.domain.groups:
        if set(attribute.columns) & set(group.columns):
            return str(group.name)
    return str(engine.ensemble.feature_names[attribute.columns[0]])


def _set(engine: Engine, table: Table, attribute: Attribute, setting: float, rows: np.ndarray) -> Any:
    """Those rows of the user's table with the attribute set."""
    values = table.values[rows].copy()
    changed = np.zeros(values.shape, bool)
    columns = list(attribute.columns)
    if any(set(columns) <= set(g.columns) and len(g.columns) == len(columns) for g in engine.domain.groups):
        values[:, columns] = np.arange(len(columns)) == setting
    else:
        values[:, columns[0]] = setting
    changed[:, columns] = values[:, columns] != table.values[rows][:, columns]
    part = Table(table.kind, take_rows(table, rows), table.names, table.values[rows], table.dtypes, table.positions)
    return with_values(part, engine.ensemble, values, changed)
