"""A first draft of the features of a table, for a person to edit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gpucf._errors import TableError
from gpucf._features import Features
from gpucf._table import column_at, column_names, kind_of
from gpucf._table_read import Where, is_missing, read_numbers

_MOST_DECIMALS = 6  # more than a person writes: such a column has no human step
_ENOUGH = 3  # distinct values before a common multiple is taken for a habit
_SEPARATORS = "=_"
_SHOWN = 6


def infer_features(frame: Any) -> Features:
    """Kinds, steps and one-hot groups as a table shows them, each with a note.

    Whole numbers are ``integer`` (with a step where all are multiples of 10, 100, ...), columns of 0 and 1 ``binary``,
    text ``categorical``; numbers with few decimals get the step of their last decimal. Columns of 0 and 1 that share
    the beginning of their names, up to ``=`` or ``_``, and of which each row has exactly one (or at most one) at 1,
    become a one-hot group. Ranges are given in the notes, not as limits: what the data show is not what is allowed.

    Parameters
    ----------
    frame : pandas or polars DataFrame, or pyarrow Table

    Returns
    -------
    Features
        Its ``notes`` say what each entry rests on; `Features.to_file` writes both.

    Examples
    --------
    >>> import gpucf, pandas as pd
    >>> people = pd.DataFrame({"income": [41200.0, 38000.0, 52500.0], "rate": [3.5, 4.25, 4.0]})
    >>> gpucf.infer_features(people).given
    {'income': {'kind': 'integer', 'step': 100}, 'rate': {'kind': 'continuous', 'step': 0.01}}
    """
    kind = kind_of(frame, "the table")
    if kind == "numpy":
        raise TableError("the table is an array without column names. Pass a frame.")
    names = [str(name) for name in column_names(kind, frame)]
    columns = {name: _read(kind, column_at(kind, frame, i), name) for i, name in enumerate(names)}
    flags = {name: values for name, (values, _) in columns.items() if values is not None and _is_flag(values)}
    groups = _groups(flags)
    given: dict[str, Any] = {}
    notes: dict[str, tuple[str, ...]] = {}
    grouped = {member for members, _ in groups.values() for member in members}
    for name in names:
        for group, (members, is_whole) in groups.items():
            if members[0] == name:
                given[group], notes[group] = _group(members, is_whole, len(frame))
        if name not in grouped:
            given[name], notes[name] = _column(*columns[name])
    return Features(given, notes)


def _read(kind: str, column: Any, name: str) -> tuple[np.ndarray | None, Any]:
    """Numbers and their dtype, or None and the distinct values of a column of text."""
    try:
        return read_numbers(kind, column, Where("the table", name))
    except TableError:
        cells = column.to_pylist() if kind == "pyarrow" else column.to_list()
        return None, cells


def _is_flag(values: np.ndarray) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all()) and len(np.unique(values)) == 2


def _groups(flags: dict[str, np.ndarray]) -> dict[str, tuple[list[str], bool]]:
    """Columns of one-hot groups by common beginning; True where each row has one 1, False where some have none.

    Groups without a reference come first, larger ones first; a column is in one group only.
    """
    prefixes = {name[: i + 1] for name in flags for i, sign in enumerate(name[:-1]) if sign in _SEPARATORS and i > 0}
    found: dict[str, tuple[list[str], bool]] = {}
    taken: set[str] = set()
    for is_whole in (True, False):
        candidates = {p: [n for n in flags if n.startswith(p) and n not in taken] for p in sorted(prefixes)}
        for prefix in sorted(candidates, key=lambda p: (-len(candidates[p]), len(p), p)):
            members = [n for n in candidates[prefix] if n not in taken]
            if len(members) < 2:
                continue
            n_active = np.sum([flags[n] for n in members], axis=0)
            if (n_active <= 1).all() and (n_active == 1).all() == is_whole:
                found[_free_name(prefix[:-1], found, flags)] = (members, is_whole)
                taken.update(members)
    return found


def _free_name(name: str, found: dict[str, Any], flags: dict[str, Any]) -> str:
    while name in found or name in flags:
        name += " group"
    return name


def _group(members: list[str], is_whole: bool, n_rows: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    if is_whole:
        return {"one_hot": members}, (f"exactly one of {len(members)} columns is 1 in each of {n_rows:,} rows",)
    return {"one_hot": members, "reference": "none of these"}, (
        f"at most one of {len(members)} columns is 1 in each of {n_rows:,} rows, and in some none: one category was",
        "left out. If the columns do not belong together, delete this entry; else give the category its name",
    )


def _column(values: np.ndarray | None, about: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    if values is None:
        distinct = sorted({str(cell) for cell in about if not is_missing(cell)})
        shown = ", ".join(distinct[:_SHOWN]) + (", ..." if len(distinct) > _SHOWN else "")
        return {"kind": "categorical"}, (f"text, {len(distinct):,} distinct: {shown}",)
    known = np.unique(values[~np.isnan(values)])
    gone = int(np.isnan(values).sum())
    notes = [f"missing in {gone:,} of {len(values):,} rows; a missing value is kept"] if gone else []
    if not len(known):
        return {"kind": "continuous"}, (*notes, "no values seen")
    if about.kind == "b" or set(known.tolist()) <= {0.0, 1.0}:
        return {"kind": "binary"}, (*notes, "0 and 1")
    low, high = known[0], known[-1]
    seen = f"seen: {_text(low, about)} to {_text(high, about)}; as a limit it would be range: "
    notes.append(seen + f"[{_text(low, about)}, {_text(high, about)}]")
    whole = bool((known == np.floor(known)).all())
    kind = "integer" if whole else "continuous"
    step, why = _step(known, about, whole)
    entry: dict[str, Any] = {"kind": kind}
    if step is not None and not (kind == "integer" and step == 1):
        entry["step"] = step
    return entry, (*notes, why)


def _step(known: np.ndarray, dtype: Any, whole: bool) -> tuple[float | int | None, str]:
    """The step of the last decimal that a person has written, and the note that says so."""
    n = len(known)
    if whole:
        tens = 1
        nonzero = known[known != 0]
        while len(nonzero) >= _ENOUGH and not (nonzero % (10 * tens)).any():
            tens *= 10
        if tens == 1:
            return 1, f"whole numbers ({n:,} distinct): answers in whole units"
        return tens, f"all {n:,} distinct values are multiples of {tens:,}: answers in steps of {tens:,}"
    decimals = max(_decimals(value, dtype) for value in known.tolist())
    if decimals > _MOST_DECIMALS:
        return None, f"{decimals} decimals seen: no step that a person would use"
    step = float(Decimal(1).scaleb(-decimals))
    return step, f"at most {decimals} decimal{'s' * (decimals > 1)} seen: answers in steps of {step!r}"


def _decimals(value: float, dtype: Any) -> int:
    return max(-int(Decimal(_text(value, dtype)).as_tuple().exponent), 0)


def _text(value: Any, dtype: Any) -> str:
    """A number as a person would read it in the table."""
    number = dtype.type(value) if dtype.kind == "f" else float(value)
    return str(int(number)) if number == int(number) and abs(number) < 1e16 else str(number)


def only(features: Features, names: Sequence[str]) -> Features:
    """The entries whose columns a model has, for a table that holds more."""
    known = set(names)
    kept = {
        name: wish for name, wish in features.given.items() if known.issuperset(wish.get("one_hot", [name]))
    }  # fmt: skip
    return Features(kept, {name: features.notes.get(name, ()) for name in kept})
