"""From what a caller declares and a background table shows to the feature domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._domain import BOOLEAN, CATEGORICAL, CONTINUOUS, INTEGER, KINDS, Column, Domain, Grid, OneHotGroup
from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError, TableError

if TYPE_CHECKING:
    from gpucf._table import Table


def make_domain(
    ensemble: Ensemble,
    background: Table | None,
    features: Mapping[str, Any] | None,
    one_hot: Mapping[str, Sequence[str]] | None,
) -> Domain:
    """Declared kinds first, then the dtypes of the background table, then continuous."""
    declared = _declared_kinds(ensemble, features)
    columns = []
    for c, name in enumerate(ensemble.feature_names):
        dtype = None if background is None else background.dtypes[c]
        columns.append(_column(ensemble, c, name, dtype, declared.get(name), background is not None))
    groups = _groups(ensemble, one_hot)
    _check_groups(groups, columns, background)
    return Domain(tuple(columns), groups)


def _declared_kinds(ensemble: Ensemble, features: Mapping[str, Any] | None) -> dict[str, str]:
    if features is None:
        return {}
    if not isinstance(features, Mapping):
        raise OptionError(f"features is a {type(features).__name__}; give a dict from column name to kind.")
    unknown = [str(n) for n in features if n not in ensemble.feature_names]
    if unknown:
        raise OptionError.unknown_names("features", unknown, list(ensemble.feature_names))
    kinds = {}
    for name, wish in features.items():
        if isinstance(wish, Mapping):
            odd = [k for k in wish if k != "kind"]
            if odd or "kind" not in wish:
                raise OptionError(f"features[{name!r}] is {dict(wish)!r}; this version knows only the key 'kind'.")
            wish = wish["kind"]
        if wish not in KINDS:
            raise OptionError(f"features[{name!r}] is {wish!r}; give one of {', '.join(map(repr, KINDS))}.")
        kinds[name] = wish
    return kinds


def _column(
    ensemble: Ensemble, c: int, name: str, dtype: np.dtype[Any] | None, declared: str | None, has_background: bool
) -> Column:
    if ensemble.categories[c] is not None:
        if declared not in (None, CATEGORICAL):
            raise OptionError(f"features[{name!r}] is {declared!r}, but the model splits it into category sets.")
        return Column(name, CATEGORICAL, dtype if dtype is not None else np.dtype(np.float64))
    if declared == CATEGORICAL:
        raise OptionError(
            f"features[{name!r}] is 'categorical', but the model compares the column with thresholds; declare one-hot "
            "columns with one_hot, or the kind 'integer'."
        )
    if dtype is None:
        if has_background:
            raise TableError(f"background column {name!r} is not numeric.")
        storage = np.float64 if declared in (None, CONTINUOUS) else np.int64 if declared == INTEGER else np.bool_
        return Column(name, declared or CONTINUOUS, np.dtype(storage))
    natural = BOOLEAN if dtype.kind == "b" else INTEGER if dtype.kind in "iu" else CONTINUOUS
    kind = declared or natural
    if kind == CONTINUOUS and natural != CONTINUOUS:
        raise OptionError(
            f"features[{name!r}] is 'continuous', but the background column is {dtype}, which holds whole numbers only."
        )
    return Column(name, kind, dtype)


def _groups(ensemble: Ensemble, one_hot: Mapping[str, Sequence[str]] | None) -> tuple[OneHotGroup, ...]:
    if one_hot is None:
        return ()
    if not isinstance(one_hot, Mapping):
        raise OptionError(f"one_hot is a {type(one_hot).__name__}; give a dict from group name to column names.")
    where = {name: c for c, name in enumerate(ensemble.feature_names)}
    owner: dict[str, str] = {}
    groups = []
    for group, members in one_hot.items():
        if isinstance(members, str) or len(members) < 2:
            raise OptionError(f"one_hot[{group!r}] is {members!r}; give the names of at least two columns.")
        unknown = [str(m) for m in members if m not in where]
        if unknown:
            raise OptionError.unknown_names(f"one_hot[{group!r}]", unknown, list(where))
        if group in where and group not in members:
            raise OptionError(
                f"one_hot group {group!r} has the name of a column outside the group; choose another name."
            )
        for m in members:
            if m in owner:
                raise OptionError(f"column {m!r} is in one_hot group {owner[m]!r} and again in {group!r}.")
            owner[m] = group
        groups.append(OneHotGroup(str(group), tuple(sorted(where[m] for m in members))))
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
        wrong = ~(np.isin(block, (0.0, 1.0)).all(axis=1) & (block.sum(axis=1) == 1.0))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise TableError(
                f"one_hot group {group.name!r} needs exactly one 1 in each row, but background row {row} holds "
                f"{block[row].tolist()}. A group with a reference column left out cannot be declared."
            )


def check_dtypes(ensemble: Ensemble, domain: Domain, table: Table) -> None:
    """Refuse rows whose dtypes cannot hold the values that moves land on."""
    grouped = {c for group in domain.groups for c in group.columns}  # every dtype holds 0 and 1
    for c, (column, dtype) in enumerate(zip(domain.columns, table.dtypes, strict=True)):
        if dtype is None or column.kind in (CATEGORICAL, BOOLEAN) or c in grouped:
            continue
        if not _holds(dtype, column, ensemble.compare_dtype):
            raise TableError(
                f"X column {column.name!r} is {dtype}, but the engine was built for {column.kind} values of "
                f"{column.dtype}, which {dtype} cannot hold. Convert the column, or build the engine with a background "
                f"table of the same dtypes (or features={{{column.name!r}: 'integer'}} for whole numbers)."
            )


def _holds(dtype: np.dtype[Any], column: Column, compare_dtype: np.dtype[Any]) -> bool:
    """Whether every attainable value of the column is exact in `dtype`."""
    if dtype.kind == "f" and dtype.itemsize >= Grid.of(column, compare_dtype).dtype.itemsize:
        return True
    # Whole numbers of a float column are unbounded: only columns of integers fit into integers.
    return column.dtype.kind in "iu" and dtype.kind in "iuf" and np.can_cast(column.dtype, dtype, "safe")
