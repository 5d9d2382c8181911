"""Groups of people: attributes read from a table, and every combination of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._errors import OptionError, TableError
from gpucf._table import column_at, column_names, kind_of

if TYPE_CHECKING:
    from gpucf._engine import Engine

MISSING = "(missing)"
MAX_LEVELS = 20


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute of the rows.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Names of its values, or of its bins.
    codes : int64 array of shape (n_rows,)
        Position in `levels`. Rows without a value are in the level "(missing)".
    columns : tuple of int
        Columns of the model that hold it; empty where the model does not read it.
    settings : tuple of float, one per level
        What its column holds to be at that level: the value itself, for a bin the middle one of those seen in it, for a
        one-hot group the position of the column. NaN where there is none.
    bins : tuple of float or None
    """

    name: str
    levels: tuple[str, ...]
    codes: np.ndarray
    columns: tuple[int, ...]
    settings: tuple[float, ...]
    bins: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class Partition:
    """All combinations of the values of some attributes that occur; every row is in one of them.

    Attributes
    ----------
    attributes : tuple of str
    groups : tuple of str
    codes : int64 array of shape (n_rows,)
        Position in `groups`.
    values : tuple of tuples of str
        Values of the attributes in each group.
    """

    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    codes: np.ndarray
    values: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        return " x ".join(self.attributes)


def read_attributes(
    engine: Engine, X: Any, groups: Sequence[str] | Mapping[str, Any],
    bins: Mapping[str, Sequence[float]] | None = None, labels: Mapping[str, Mapping[Any, str]] | None = None,
) -> list[Attribute]:  # fmt: skip
    """The attributes that were asked for, one entry a row.

    Parameters
    ----------
    engine : Engine
    X : table
    groups : list of names, or dict
        Columns of `X` or one-hot groups of the engine; a dict gives the values themselves by name, or names a column.
    bins : dict, optional
        Inner borders by attribute, ascending; a value on a border belongs to the bin above.
    labels : dict, optional
        What values are called, by attribute: ``{"sex": {0: "male", 1: "female"}}``.
    """
    if isinstance(groups, str):
        groups = [groups]
    wanted = dict(groups) if isinstance(groups, Mapping) else {name: name for name in groups}
    if not wanted:
        raise OptionError("no attribute to audit by: give at least one name, such as groups=['sex'].")
    bins, labels = dict(bins or {}), dict(labels or {})
    for what, given in (("bins", bins), ("labels", labels)):
        unknown = [name for name in given if name not in wanted]
        if unknown:
            raise OptionError(f"{what} are given for {unknown[0]!r}, which is not among the attributes {list(wanted)}.")
    found = [_attribute(engine, X, str(name), given, bins.get(name)) for name, given in wanted.items()]
    return [_labelled(a, labels.get(a.name, {})) for a in found]


def _labelled(attribute: Attribute, labels: Mapping[Any, str]) -> Attribute:
    named = {_text(value): str(label) for value, label in labels.items()}
    absent = [value for value in named if value not in attribute.levels]
    if absent:
        raise OptionError(
            f"labels of {attribute.name!r} name the value {absent[0]!r}, which does not occur; there are "
            f"{list(attribute.levels)}."
        )
    levels = tuple(named.get(level, level) for level in attribute.levels)
    if len(set(levels)) < len(levels):
        raise OptionError(f"labels of {attribute.name!r} give one name to two values; merge them in the table.")
    return replace(attribute, levels=levels)


def partitions(attributes: Sequence[Attribute], order: int) -> list[Partition]:
    """Each attribute by itself, then every intersection of up to `order` of them."""
    out = []
    for size in range(1, min(order, len(attributes)) + 1):
        out += [_partition(chosen) for chosen in combinations(attributes, size)]
    return out


def _partition(chosen: tuple[Attribute, ...]) -> Partition:
    codes = np.stack([a.codes for a in chosen], axis=1)
    found, inverse = np.unique(codes, axis=0, return_inverse=True)
    values = tuple(tuple(a.levels[k] for a, k in zip(chosen, row, strict=True)) for row in found.tolist())
    names = tuple(", ".join(f"{a.name} {v}" for a, v in zip(chosen, row, strict=True)) for row in values)
    return Partition(tuple(a.name for a in chosen), names, inverse.reshape(-1).astype(np.int64), values)


def _attribute(engine: Engine, X: Any, name: str, given: Any, edges: Sequence[float] | None) -> Attribute:
    column = given if isinstance(given, str) else None
    if column is not None:
        for group in engine.domain.groups:
            if group.name == column:
                return _one_hot(engine, X, name, group, edges)
            inside = [c for c in group.columns if engine.ensemble.feature_names[c] == column]
            if inside:
                raise OptionError(
                    f"{column!r} is one column of the one-hot group {group.name!r}; audit by the group as a whole."
                )
    values = _column(engine, X, column) if column is not None else _given(name, given, len(X))
    where = _model_columns(engine, column) if column is not None else ()
    if edges is not None:
        return _binned(name, values, where, edges)
    return _listed(engine, name, values, where)


def _listed(engine: Engine, name: str, values: list[Any], where: tuple[int, ...]) -> Attribute:
    found = sorted({v for v in values if v is not None}, key=_sort_key)
    if len(found) > MAX_LEVELS:
        numbers = all(isinstance(v, int | float) for v in found)
        remedy = f"give bins={{{name!r}: [...]}} with the inner borders" if numbers else "merge some of them first"
        raise OptionError(
            f"the attribute {name!r} has {len(found)} different values, and at most {MAX_LEVELS} can be compared; "
            f"{remedy}."
        )
    place = {v: k for k, v in enumerate(found)}
    levels = [_text(v) for v in found]
    if None in values:
        place[None] = len(levels)
        levels.append(MISSING)
    settings = [_setting(engine, where, v) for v in found] + [np.nan] * (None in values)
    codes = np.array([place[v] for v in values], np.int64)
    return Attribute(name, tuple(levels), codes, where, tuple(settings), None)


def _binned(name: str, values: list[Any], where: tuple[int, ...], edges: Sequence[float]) -> Attribute:
    borders = np.asarray(edges, np.float64)
    if borders.ndim != 1 or not len(borders) or not np.isfinite(borders).all() or (np.diff(borders) <= 0).any():
        raise OptionError(f"the bins of {name!r} are {list(edges)!r}; give ascending numbers, such as [25, 45, 65].")
    try:
        numbers = np.array([np.nan if v is None else float(v) for v in values], np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"bins are given for {name!r}, which holds other things than numbers ({error}).") from None
    at = np.searchsorted(borders, numbers, side="right")
    shown = [_text(float(b)) for b in borders]
    middle = [f"{low} to under {high}" for low, high in pairwise(shown)]
    names = [f"under {shown[0]}", *middle, f"{shown[-1]} and over"]
    at[np.isnan(numbers)] = len(names)
    kept = np.unique(at)
    levels = tuple(names[k] if k < len(names) else MISSING for k in kept.tolist())
    settings = []
    for k in kept.tolist():
        inside = np.sort(numbers[at == k])
        # A value that somebody has: the middle one, not an average.
        settings.append(float(inside[(len(inside) - 1) // 2]) if k < len(names) else np.nan)
    codes = np.searchsorted(kept, at).astype(np.int64)
    return Attribute(name, levels, codes, where, tuple(settings), tuple(borders.tolist()))


def _one_hot(engine: Engine, X: Any, name: str, group: Any, edges: Any) -> Attribute:
    if edges is not None:
        raise OptionError(f"bins are given for {name!r}, which is a one-hot group; bins are for numbers.")
    members = [engine.ensemble.feature_names[c] for c in group.columns]
    hot = np.stack([np.array([v == 1 for v in _column(engine, X, m)], bool) for m in members], axis=1)
    active = np.where(hot.any(axis=1), hot.argmax(axis=1), len(members))
    names = [m.removeprefix(f"{group.name}=").removeprefix(f"{group.name}_") for m in members]
    names.append(MISSING if group.reference is None else str(group.reference))
    kept = np.unique(active)
    settings = tuple(float(k) if k < len(members) or group.reference is not None else np.nan for k in kept.tolist())
    return Attribute(
        name, tuple(names[k] for k in kept.tolist()), np.searchsorted(kept, active).astype(np.int64), group.columns,
        settings, None,
    )  # fmt: skip


def _model_columns(engine: Engine, column: str) -> tuple[int, ...]:
    names = list(engine.ensemble.feature_names)
    return (names.index(column),) if column in names else ()


def _column(engine: Engine, X: Any, name: str) -> list[Any]:
    """Values of a column of `X` as Python objects, None where missing."""
    kind = kind_of(X, "X")
    if kind == "numpy":
        names: list[Any] = list(engine.ensemble.feature_names)
    else:
        names = [str(n) for n in column_names(kind, X)]
    if name not in names:
        groups = [g.name for g in engine.domain.groups]
        raise TableError(f"there is no column or one-hot group {name!r} to audit by; X has {names + groups}.")
    found = column_at(kind, X, names.index(name))
    if kind == "pyarrow":
        return _plain(found.to_pylist())
    return _plain(found.to_list() if kind == "polars" else found.tolist())


def _given(name: str, given: Any, n: int) -> list[Any]:
    found = given.to_pylist() if hasattr(given, "to_pylist") else np.asarray(given, dtype=object).tolist()
    if not isinstance(found, list) or len(found) != n:
        have = len(found) if isinstance(found, list) else "no"
        raise TableError(f"the attribute {name!r} has {have} values for {n} rows; give one for each row.")
    return _plain(found)


def _plain(values: list[Any]) -> list[Any]:
    """NaN, NaT and NA of any library as None; 1.0 as 1, so that a level is named once."""
    out: list[Any] = []
    for v in values:
        if isinstance(v, np.generic):
            v = v.item()
        if v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, float) and v != v):
            out.append(None)
        elif isinstance(v, float) and v.is_integer():
            out.append(int(v))
        else:
            out.append(v)
    return out


def _sort_key(value: Any) -> tuple[str, Any]:
    number = isinstance(value, int | float)
    return ("", value) if number else (type(value).__name__, str(value))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _setting(engine: Engine, where: tuple[int, ...], value: Any) -> float:
    """What the model's column holds for a value: a number, or the position of a category."""
    if not where:
        return float("nan")
    known = engine.ensemble.categories[where[0]]
    if known is None:
        return float(value)
    at = [k for k, category in enumerate(known.tolist()) if category == value]
    return float(at[0]) if at else float("nan")
