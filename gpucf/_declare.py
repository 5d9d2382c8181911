"""From what a caller declares and a background table shows to the feature domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from gpucf._cells import Cells
from gpucf._domain import BOOLEAN, CATEGORICAL, CONTINUOUS, INTEGER, Column, Domain, Grid, OneHotGroup
from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError, TableError
from gpucf._features import Feature, Features
from gpucf._table import Table, column_at

# What may be said of an ordered column only.
_ORDERED_KEYS = (
    "levels", "values", "step", "origin", "range", "increase_only", "decrease_only", "max_change", "max_rise",
    "max_fall", "price_up", "price_down", "scale", "table", "low_from", "high_from",
)  # fmt: skip


def make_domain(
    ensemble: Ensemble,
    background: Table | None,
    features: Features,
    one_hot: Mapping[str, Sequence[str]] | None,
) -> Domain:
    """Declared kinds first, then the dtypes of the background table, then continuous."""
    groups = _groups(ensemble, features, one_hot)
    _check_names(ensemble, features, groups)
    columns = []
    for c, name in enumerate(ensemble.feature_names):
        dtype = None if background is None else background.dtypes[c]
        entry = features.entries.get(name, Feature())
        columns.append(_column(ensemble, c, name, dtype, entry, background is not None))
    _check_groups(groups, columns, background)
    domain = Domain(tuple(columns), groups)
    _check_entries(ensemble, domain, features)
    return domain


def _check_names(ensemble: Ensemble, features: Features, groups: tuple[OneHotGroup, ...]) -> None:
    known = [*ensemble.feature_names, *(g.name for g in groups)]
    unknown = [n for n in features.names if n not in known]
    if unknown:
        raise OptionError.unknown_names("features", unknown, known)
    for group in groups:
        for name in (ensemble.feature_names[c] for c in group.columns):
            said = [key for key in (features[name].given if name in features.entries else ()) if key != "kind"]
            if name != group.name and said:
                raise OptionError(
                    f"features[{name!r}] has {said[0]!r}, but the column belongs to one-hot group {group.name!r}, "
                    "which moves as one feature; say it of the group."
                )


def _check_entries(ensemble: Ensemble, domain: Domain, features: Features) -> None:
    """Refuse what cannot be said of a column of its kind."""
    groups = {g.name for g in domain.groups}
    kinds = {c.name: c.kind for c in domain.columns}
    for name, entry in features.entries.items():
        at = f"features[{name!r}]"
        is_group = name in groups
        if is_group or kinds[name] == CATEGORICAL:
            wrong = [key for key in entry.given if key in _ORDERED_KEYS]
            if wrong:
                raise OptionError(f"{at} has {wrong[0]!r}, but its categories have no order.")
            if is_group and entry.kind not in (None, CATEGORICAL):
                raise OptionError(f"{at} is {entry.kind!r}, but is a one-hot group, which is 'categorical'.")
        elif entry.prices:
            raise OptionError(f"{at} has prices from category to category, but the column is a number.")
        if entry.missing and (is_group or not ensemble.allows_missing[ensemble.feature_names.index(name)]):
            raise OptionError(f"{at} lets values go missing or be filled, but the model takes no missing values there.")


def _column(
    ensemble: Ensemble, c: int, name: str, dtype: np.dtype[Any] | None, entry: Feature, has_background: bool
) -> Column:
    declared = None if entry.kind == "ordinal" else entry.kind
    if ensemble.categories[c] is not None:
        if entry.kind not in (None, CATEGORICAL):
            raise OptionError(f"features[{name!r}] is {entry.kind!r}, but the model splits it into category sets.")
        return Column(name, CATEGORICAL, dtype if dtype is not None else np.dtype(np.float64))
    if entry.one_hot is not None:  # a group that has the name of one of its columns
        declared = None
    elif declared == CATEGORICAL:
        raise OptionError(
            f"features[{name!r}] is 'categorical', but the model compares the column with thresholds; declare one-hot "
            "columns with one_hot, or the kind 'integer'."
        )
    if dtype is None:
        if has_background:
            raise TableError(f"background column {name!r} is not numeric.")
        storage = np.float64 if declared in (None, CONTINUOUS) else np.int64 if declared == INTEGER else np.bool_
        dtype = np.dtype(storage)
        natural = declared or CONTINUOUS
    else:
        natural = BOOLEAN if dtype.kind == "b" else INTEGER if dtype.kind in "iu" else CONTINUOUS
    kind = declared or natural
    if kind == CONTINUOUS and natural != CONTINUOUS:
        raise OptionError(
            f"features[{name!r}] is 'continuous', but the background column is {dtype}, which holds whole numbers only."
        )
    return _with_values(Column(name, kind, dtype), entry, ensemble.attainable_dtype)


def _with_values(column: Column, entry: Feature, compare_dtype: np.dtype[Any]) -> Column:
    """The column with its declared range, step or values, in its own dtype."""
    at = f"features[{column.name!r}]"
    whole = column.kind != CONTINUOUS
    if entry.step is not None and column.kind == BOOLEAN:
        raise OptionError(f"{at} has a step, but its values are 0 and 1.")
    broken = [f for f in (entry.step, entry.origin) if f is not None and whole and f.denominator != 1]
    broken += [Fraction(v) for v in entry.values or () if whole and v != int(v)]
    if broken:
        raise OptionError(f"{at} declares {float(broken[0])!r}, but the column holds whole numbers ({column.kind}).")
    if column.kind == BOOLEAN and not set(entry.values or ()) <= {0.0, 1.0}:
        raise OptionError(f"{at} declares the values {list(entry.values or ())}, but the column holds 0 and 1.")
    values = None if entry.values is None else tuple(sorted({held(v, column.dtype) for v in entry.values}))
    low, high = (held(v, column.dtype) for v in entry.range)
    column = replace(column, low=low, high=high, step=entry.step, origin=entry.origin, values=values)
    grid = Grid.of(column, compare_dtype)
    if grid.low > grid.high:
        raise OptionError(f"{at} leaves no value that a move could land on; widen its range, or change its values.")
    return column


def held(value: float, dtype: np.dtype[Any]) -> float:
    """What a column of floats makes of a number that a person writes: 0.1 in float32 is the float32 next to 0.1."""
    with np.errstate(over="ignore"):
        return float(dtype.type(value)) + 0.0 if dtype.kind == "f" else value + 0.0


def _groups(
    ensemble: Ensemble, features: Features, one_hot: Mapping[str, Sequence[str]] | None
) -> tuple[OneHotGroup, ...]:
    if one_hot is not None and not isinstance(one_hot, Mapping):
        raise OptionError(f"one_hot is a {type(one_hot).__name__}; give a dict from group name to column names.")
    asked: dict[Any, tuple[Any, str | None]] = {group: (members, None) for group, members in (one_hot or {}).items()}
    for name, entry in features.entries.items():
        if entry.one_hot is None:
            continue
        if name in asked and set(asked[name][0]) != set(entry.one_hot):
            raise OptionError(f"one_hot and features give group {name!r} different columns.")
        asked[name] = (entry.one_hot, entry.reference)
    where = {name: c for c, name in enumerate(ensemble.feature_names)}
    owner: dict[str, str] = {}
    groups = []
    for group, (members, reference) in asked.items():
        if isinstance(members, str) or len(members) < 2:
            raise OptionError(f"one_hot[{group!r}] is {members!r}; give the names of at least two columns.")
        unknown = [str(m) for m in members if m not in where]
        if unknown:
            raise OptionError.unknown_names(f"one_hot[{group!r}]", unknown, list(where))
        if group in where and group not in members:
            raise OptionError(
                f"one_hot group {group!r} has the name of a column outside the group; choose another name."
            )
        if reference in members:
            raise OptionError(f"one_hot group {group!r} has the column {reference!r} and names it as the one left out.")
        for m in members:
            if m in owner:
                raise OptionError(f"column {m!r} is in one_hot group {owner[m]!r} and again in {group!r}.")
            owner[m] = group
        groups.append(OneHotGroup(str(group), tuple(sorted(where[m] for m in members)), reference))
    return tuple(groups)


def _check_groups(groups: tuple[OneHotGroup, ...], columns: list[Column], background: Table | None) -> None:
    for group in groups:
        for c in group.columns:
            if columns[c].kind == CATEGORICAL:
                raise OptionError(
                    f"one_hot group {group.name!r} holds {columns[c].name!r}, which the model splits by category."
                )
        if background is None:
            continue
        block = background.values[:, list(group.columns)]
        total = block.sum(axis=1)
        fits = (total == 1.0) | ((total == 0.0) & (group.reference is not None))
        wrong = ~(np.isin(block, (0.0, 1.0)).all(axis=1) & fits)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            if group.reference is not None:
                needs, remedy = "at most one 1", "Correct the row, or the group."
            else:
                needs, remedy = (
                    "exactly one 1",
                    (
                        "If a reference column was left out, name its category: features={"
                        f"{group.name!r}: {{'one_hot': [...], 'reference': 'name'}}}}."
                    ),
                )
            raise TableError(
                f"one_hot group {group.name!r} needs {needs} in each row, but background row {row} holds "
                f"{block[row].tolist()}. {remedy}"
            )


def check_dtypes(ensemble: Ensemble, domain: Domain, table: Table) -> None:
    """Refuse rows whose dtypes cannot hold the values that moves land on."""
    grouped = {c for group in domain.groups for c in group.columns}  # every dtype holds 0 and 1
    for c, (column, dtype) in enumerate(zip(domain.columns, table.dtypes, strict=True)):
        if dtype is None or column.kind in (CATEGORICAL, BOOLEAN) or c in grouped:
            continue
        if not _holds(dtype, column, ensemble.attainable_dtype):
            raise TableError(
                f"X column {column.name!r} is {dtype}, but the engine was built for {column.kind} values of "
                f"{column.dtype}, which {dtype} cannot hold. Convert the column, or build the engine with a background "
                f"table of the same dtypes (or features={{{column.name!r}: 'integer'}} for whole numbers)."
            )


def check_may_be_missing(cells: Cells, table: Table, enter_price: np.ndarray) -> None:
    """Refuse rows whose columns cannot hold the missing values that moves may land on."""
    for j in np.flatnonzero(np.isfinite(enter_price)).tolist():
        c = cells.columns[j][0]
        if table.kind in ("polars", "pyarrow"):
            continue
        dtype = column_at(table.kind, table.native, table.positions[c]).dtype
        if isinstance(dtype, np.dtype) and dtype.kind not in "fO":
            raise TableError(
                f"X column {cells.names[j]!r} is {dtype}, which holds no missing values, but its features let them "
                "enter. Convert the column to a float or nullable dtype."
            )


def _holds(dtype: np.dtype[Any], column: Column, compare_dtype: np.dtype[Any]) -> bool:
    """Whether every attainable value of the column is exact in `dtype`."""
    grid = Grid.of(column, compare_dtype)
    if dtype.kind == "f" and dtype.itemsize >= grid.dtype.itemsize:
        return True
    if column.values is not None:
        return _holds_each(dtype, [v for v in column.values if grid.low <= v <= grid.high])
    if grid.whole or (column.step is not None and column.step.denominator == column.origin.denominator == 1):
        # Whole numbers of a float column are unbounded, unless a range is declared.
        if dtype.kind in "iu":
            return int(grid.low) >= np.iinfo(dtype).min and int(grid.high) <= np.iinfo(dtype).max
        if dtype.kind == "f":
            return max(abs(grid.low), abs(grid.high)) <= 2.0 ** (np.finfo(dtype).nmant + 1)
    return column.dtype.kind in "iu" and dtype.kind in "iuf" and np.can_cast(column.dtype, dtype, "safe")


def _holds_each(dtype: np.dtype[Any], values: list[float]) -> bool:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return all(v == int(v) and info.min <= int(v) <= info.max for v in values)
    return dtype.kind == "f" and all(held(v, dtype) == v for v in values)
