"""Cells: the finitely many things that a model can tell apart in each feature.

For an ordered feature these are the intervals of attainable values between neighbouring thresholds; for a categorical
feature (native, or a folded one-hot group) the categories. Everything behind this stage speaks of *codes*: code `k` of
feature `j` is its cell or category number, and the last code of every feature means "missing".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucf._domain import CATEGORICAL, Domain, Grid, last_cast_at_most
from gpucf._ensemble import Ensemble
from gpucf._errors import TableError

ORDERED, NATIVE, ONE_HOT = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Cells:
    """Codes of every feature, and the splits of the ensemble in terms of codes.

    Attributes
    ----------
    names : tuple of str, one per feature
        Column name, or the name of the one-hot group. Features are in the order of their first column.
    columns : tuple of tuples of int
        Columns of the model that make up each feature.
    kind : int8 array of shape (n_features,)
        ORDERED, NATIVE (categorical column) or ONE_HOT (folded group).
    references : tuple of str or None, one per feature
        Name of the category of a one-hot group whose column was left out; its code follows those of the columns.
    code_start : int64 array of shape (n_features + 1,)
        Feature `j` has codes ``0 .. code_start[j+1] - code_start[j] - 1``, the last of them "missing".
    cell_lo, cell_hi : float64 arrays of shape (n_codes,)
        First and last attainable value of each cell; NaN for cells without one (kept only on request), for categories
        and for "missing".
    cell_probe : float64 array of shape (n_codes,)
        A value of the compare dtype in each cell, attainable or not.
    raw_start : int64 array of shape (n_features + 1,)
    raw_cut : float64 array
        Distinct thresholds of each ordered feature in the compare dtype, ascending: row values are coded with these.
    raw_code : int32 array of shape (raw_start[-1] + n_features,)
        Code of the values up to each raw cut and, last, above all; -1 where no attainable value lies. Feature `j`
        starts at ``raw_start[j] + j``.
    split_feature, split_cut, split_set : int32 arrays of shape (n_splits,)
        Distinct splits. Ordered: codes <= split_cut go left (-1: none). Categorical: row of `set_words`.
    split_missing_left : bool array of shape (n_splits,)
    set_words : uint64 array of shape (n_sets, max words)
        Bit `c`: code `c` goes left, "missing" included.
    node_split : int32 array of shape (n_nodes,)
        Split of every node of the ensemble, -1 at leaves.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    kind: np.ndarray
    references: tuple[str | None, ...]
    code_start: np.ndarray
    cell_lo: np.ndarray
    cell_hi: np.ndarray
    cell_probe: np.ndarray
    raw_start: np.ndarray
    raw_cut: np.ndarray
    raw_code: np.ndarray
    split_feature: np.ndarray
    split_cut: np.ndarray
    split_set: np.ndarray
    split_missing_left: np.ndarray
    set_words: np.ndarray
    node_split: np.ndarray

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def n_codes(self) -> np.ndarray:
        """Codes of each feature, "missing" included."""
        return np.diff(self.code_start)


def make_cells(ensemble: Ensemble, domain: Domain, keep_empty: bool = False) -> Cells:
    """Cells of an ensemble on a domain.

    Parameters
    ----------
    ensemble : Ensemble
    domain : Domain
    keep_empty : bool
        Keep also cells without an attainable value. They can only be stayed in, never moved to, and matter for rows
        that hold unattainable values (2.5 in an integer column).
    """
    features = folded(domain)
    references = {group.name: group.reference for group in domain.groups}
    owner = np.full(ensemble.n_features, -1, np.int64)
    for j, (_, columns) in enumerate(features):
        owner[list(columns)] = j
    ordered = [_ordered_codes(ensemble, domain, columns, keep_empty) for _, columns in features]
    left_out = tuple(references[name] if len(columns) > 1 else None for name, columns in features)
    n_codes = [
        _count(ensemble, columns, o, reference)
        for (_, columns), o, reference in zip(features, ordered, left_out, strict=True)
    ]
    code_start = np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)
    cell_lo, cell_hi, cell_probe = (np.full(code_start[-1], np.nan) for _ in range(3))
    for j, o in enumerate(ordered):
        if o is not None:
            cell_lo[code_start[j] : code_start[j + 1] - 1] = o.lo
            cell_hi[code_start[j] : code_start[j + 1] - 1] = o.hi
            cell_probe[code_start[j] : code_start[j + 1] - 1] = o.probe
    raw = [np.zeros(0) if o is None else o.raw_cut for o in ordered]
    raw_code = [np.zeros(1, np.int32) if o is None else o.raw_code for o in ordered]
    kind = [
        ORDERED if o is not None else NATIVE if len(f[1]) == 1 else ONE_HOT
        for f, o in zip(features, ordered, strict=True)
    ]
    return Cells(
        names=tuple(name for name, _ in features),
        columns=tuple(columns for _, columns in features),
        kind=np.asarray(kind, np.int8),
        references=left_out,
        code_start=code_start,
        cell_lo=cell_lo,
        cell_hi=cell_hi,
        cell_probe=cell_probe,
        raw_start=np.concatenate([[0], np.cumsum([len(r) for r in raw])]).astype(np.int64),
        raw_cut=np.concatenate(raw) if raw else np.zeros(0),
        raw_code=np.concatenate(raw_code).astype(np.int32) if raw_code else np.zeros(0, np.int32),
        **_splits(ensemble, features, owner, ordered, n_codes),
    )


@dataclass(frozen=True)
class _OrderedCodes:
    lo: np.ndarray
    hi: np.ndarray
    probe: np.ndarray
    raw_cut: np.ndarray
    raw_code: np.ndarray
    cut_code: np.ndarray  # for every raw cut, the last code that goes left (-1: none)


def folded(domain: Domain) -> list[tuple[str, tuple[int, ...]]]:
    """Features and their columns, one-hot groups folded, in the order of their first column."""
    group_of = {c: g for g in domain.groups for c in g.columns}
    features: list[tuple[str, tuple[int, ...]]] = []
    for c, column in enumerate(domain.columns):
        group = group_of.get(c)
        if group is None:
            features.append((column.name, (c,)))
        elif c == min(group.columns):
            features.append((group.name, group.columns))
    return features


def _is_categorical(domain: Domain, columns: tuple[int, ...]) -> bool:
    return len(columns) > 1 or domain.columns[columns[0]].kind == CATEGORICAL


def _count(ensemble: Ensemble, columns: tuple[int, ...], ordered: _OrderedCodes | None, reference: str | None) -> int:
    if ordered is not None:
        return len(ordered.lo) + 1
    categories = ensemble.categories[columns[0]] if len(columns) == 1 else columns
    return len(categories if categories is not None else ()) + (reference is not None) + 1


def _ordered_codes(
    ensemble: Ensemble, domain: Domain, columns: tuple[int, ...], keep_empty: bool
) -> _OrderedCodes | None:
    if _is_categorical(domain, columns):
        return None
    grid = Grid.of(domain.columns[columns[0]], ensemble.attainable_dtype)
    at = (ensemble.feature == columns[0]) & (ensemble.category_set < 0)
    raw = np.unique(ensemble.threshold[at])
    raw = raw[np.isfinite(raw)] + 0.0  # + 0.0: no negative zeros
    going_left = grid.floor(last_cast_at_most(raw, ensemble.compare_dtype))
    ends = np.concatenate([np.clip(going_left, -np.inf, grid.high), [grid.high]])
    starts = np.full(len(ends), grid.low)
    reaches = ends[:-1] >= grid.low
    starts[1:][reaches] = grid.next_above(ends[:-1][reaches])
    filled = starts <= ends
    above = ensemble.compare_dtype.type(raw[-1] if len(raw) else 0.0)
    tops = np.append(raw, np.float64(np.nextafter(above, ensemble.compare_dtype.type(np.inf))))
    kept = np.ones(len(ends), bool) if keep_empty else filled
    code = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    return _OrderedCodes(
        lo=np.where(filled, starts, np.nan)[kept],
        hi=np.where(filled, ends, np.nan)[kept],
        probe=np.where(filled, starts, tops)[kept],
        raw_cut=raw,
        raw_code=code,
        cut_code=(np.cumsum(kept)[:-1] - 1).astype(np.int32),
    )


def _splits(
    ensemble: Ensemble,
    features: list[tuple[str, tuple[int, ...]]],
    owner: np.ndarray,
    ordered: list[_OrderedCodes | None],
    n_codes: list[int],
) -> dict[str, np.ndarray]:
    n_words = max([(n + 63) // 64 for n in n_codes] or [1])
    keys: dict[tuple[int, int, tuple[int, ...], bool], int] = {}
    sets: list[np.ndarray] = []
    rows: list[tuple[int, int, int, bool]] = []
    node_split = np.full(ensemble.n_nodes, -1, np.int32)
    for node in np.flatnonzero(ensemble.left >= 0):
        j = int(owner[ensemble.feature[node]])
        o = ordered[j]
        missing_left = bool(ensemble.missing_left[node])
        words: tuple[int, ...] = ()
        if o is not None:
            threshold = float(ensemble.threshold[node])
            if np.isfinite(threshold):
                cut = int(o.cut_code[np.searchsorted(o.raw_cut, threshold)])
            else:
                cut = len(o.lo) - 1 if threshold > 0 else -1
        else:
            cut = -1
            bits = _left_bits(ensemble, int(node), features[j][1], n_codes[j])
            bits |= int(missing_left) << (n_codes[j] - 1)
            words = tuple((bits >> (64 * i)) & 0xFFFFFFFFFFFFFFFF for i in range(n_words))
        key = (j, cut, words, missing_left)
        if key not in keys:
            keys[key] = len(rows)
            rows.append((j, cut, len(sets) if words else -1, missing_left))
            if words:
                sets.append(np.asarray(words, np.uint64))
        node_split[node] = keys[key]
    table = np.asarray([r[:3] for r in rows], np.int32).reshape(-1, 3)
    return {
        "split_feature": table[:, 0].copy(),
        "split_cut": table[:, 1].copy(),
        "split_set": table[:, 2].copy(),
        "split_missing_left": np.asarray([r[3] for r in rows], bool),
        "set_words": np.stack(sets) if sets else np.zeros((0, n_words), np.uint64),
        "node_split": node_split,
    }


def _left_bits(ensemble: Ensemble, node: int, columns: tuple[int, ...], n_codes: int) -> int:
    """Category codes that go left at a node, as bits of one integer."""
    if len(columns) > 1:
        position = columns.index(int(ensemble.feature[node]))
        return sum(1 << c for c in range(n_codes - 1) if float(c == position) <= ensemble.threshold[node])
    s = ensemble.category_set[node]
    words = ensemble.category_words[ensemble.category_start[s] : ensemble.category_start[s + 1]]
    return sum(int(w) << (64 * i) for i, w in enumerate(words)) & ((1 << (n_codes - 1)) - 1)


def code_rows(ensemble: Ensemble, cells: Cells, X: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Codes of rows.

    Parameters
    ----------
    X : float64 array of shape (n_rows, n_columns)
        Native categorical columns hold category indices; NaN is missing.

    Returns
    -------
    codes : int32 array of shape (n_rows, n_features)
        -1 where a value is unattainable and its cell was not kept.
    values : float64 array of shape (n_rows, n_features)
        The number that displacements are measured from; the category code for categorical features.

    Raises
    ------
    TableError
        If a one-hot group has none or several active columns in some row.
    """
    codes = np.empty((len(X), cells.n_features), np.int32)
    values = np.empty((len(X), cells.n_features), np.float64)
    for j, columns in enumerate(cells.columns):
        missing = int(cells.n_codes[j]) - 1
        if cells.kind[j] == ONE_HOT:
            block, reference = X[:, list(columns)], cells.references[j]
            codes[:, j] = _one_hot_codes(block, cells.names[j], [names[c] for c in columns], reference)
            values[:, j] = codes[:, j]
            continue
        x = X[:, columns[0]]
        values[:, j] = x
        gone = np.isnan(x)
        if cells.kind[j] == NATIVE:
            codes[:, j] = np.where(gone, missing, np.where(gone, 0, x).astype(np.int32))
            continue
        codes[:, j] = np.where(gone, missing, ordered_codes(ensemble, cells, j, np.where(gone, 0.0, x)))
    return codes, values


def ordered_codes(ensemble: Ensemble, cells: Cells, j: int, x: np.ndarray) -> np.ndarray:
    """Codes of values of an ordered feature, none of them missing; -1 where the cell was not kept."""
    with np.errstate(over="ignore"):
        seen = x.astype(ensemble.compare_dtype).astype(np.float64)  # what the library compares
    cuts = cells.raw_cut[cells.raw_start[j] : cells.raw_start[j + 1]]
    raw_code = cells.raw_code[cells.raw_start[j] + j : cells.raw_start[j + 1] + j + 1]
    return raw_code[np.searchsorted(cuts, seen, side="left")]


def _one_hot_codes(block: np.ndarray, name: str, columns: list[str], reference: str | None) -> np.ndarray:
    active = block == 1.0
    n_active = active.sum(axis=1)
    fits = (n_active == 1) | ((n_active == 0) & (reference is not None))
    wrong = ~(np.all(active | (block == 0.0), axis=1) & fits)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        needs = "exactly" if reference is None else "at most"
        raise TableError(
            f"row {row}: one-hot group {name!r} needs {needs} one column at 1 and the others at 0, but "
            f"({', '.join(columns)}) hold ({', '.join(f'{v:g}' for v in block[row])})."
        )
    return np.where(n_active == 0, len(columns), np.argmax(active, axis=1))


def ordered_gaps(cells: Cells) -> np.ndarray:
    """Ordered features in which a cell without an attainable value was kept: their prices do not rise evenly."""
    out = np.zeros(cells.n_features, bool)
    for j in np.flatnonzero(cells.kind == ORDERED):
        out[j] = np.isnan(cells.cell_lo[cells.code_start[j] : cells.code_start[j + 1] - 1]).any()
    return out
