"""Several ensembles over one table as one: what must hold of a point may be said by more than one model.

The trees of all members stand one after another, each adding to outputs of its own. A merged ensemble compares in
float64: thresholds of a member that rounds its columns to float32 become the last float64 number that such rounding
takes to the left. Its sums are float64 too; those of a float32 member are rounded to float32 after every addition,
which gives the same bits as adding in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpucf._domain import last_cast_at_most
from gpucf._ensemble import NO_CATEGORY_SET, VECTOR_LEAF, Ensemble, Member
from gpucf._errors import ModelError


def merge(members: Sequence[Member]) -> Ensemble:
    """One ensemble of all members; the first, whose columns are those of the table, gives all descriptions.

    Raises
    ------
    ModelError
        If members know different categories of one column.
    """
    main = members[0].ensemble
    if len(members) == 1:
        return main
    scalar = [_scalar_leaves(m.ensemble) for m in members]
    nodes = np.cumsum([0] + [e.n_nodes for e in scalar])
    leaves = np.cumsum([0] + [len(e.leaf_value) for e in scalar])
    sets = np.cumsum([0] + [len(e.category_start) - 1 for e in scalar])
    words = np.cumsum([0] + [len(e.category_words) for e in scalar])
    outputs = np.cumsum([0] + [e.n_outputs for e in scalar])
    for member in members[1:]:
        _check_categories(main, member)

    def joined(parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)

    def shifted(name: str, by: np.ndarray) -> np.ndarray:
        old = [getattr(e, name) for e in scalar]
        return joined([np.where(a < 0, -1, a + b) for a, b in zip(old, by, strict=False)])

    allows = main.allows_missing.copy()
    for member in members[1:]:
        allows[member.columns] &= member.ensemble.allows_missing
    merged = replace(
        main,
        compare_dtype=np.dtype(np.float64),
        score_dtype=np.dtype(np.float64),
        allows_missing=allows,
        tree_start=joined([e.tree_start[:-1] + n for e, n in zip(scalar, nodes, strict=False)] + [nodes[-1:]]),
        feature=joined(
            [np.where(e.feature < 0, -1, m.columns[e.feature]) for e, m in zip(scalar, members, strict=True)]
        ).astype(np.int32),
        threshold=joined([_as_float64(e) for e in scalar]),
        left=shifted("left", nodes).astype(np.int32),
        right=shifted("right", nodes).astype(np.int32),
        missing_left=joined([e.missing_left for e in scalar]),
        category_set=shifted("category_set", sets).astype(np.int32),
        category_start=joined([e.category_start[:-1] + w for e, w in zip(scalar, words, strict=False)] + [words[-1:]]),
        category_words=joined([e.category_words for e in scalar]),
        leaf=shifted("leaf", leaves).astype(np.int32),
        leaf_value=joined([e.leaf_value.astype(np.float64) for e in scalar]),
        tree_output=shifted("tree_output", outputs).astype(np.int32),
        base=joined([e.base.astype(np.float64) for e in scalar]),
        decision="none",
        probability="none",
        post="none",
        members=tuple(members),
    )
    for array in vars(merged).values():  # as in every ensemble; compiled code is made for one kind of array only
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return merged


def rounded_trees(ensemble: Ensemble) -> np.ndarray:
    """For every tree whether sums are rounded to float32 after it was added, though they are kept in float64."""
    if not ensemble.members:
        return np.zeros(ensemble.n_trees, bool)
    narrow = [m.ensemble.score_dtype == np.float32 for m in ensemble.members]
    return np.repeat(narrow, [_n_scalar_trees(m.ensemble) for m in ensemble.members])


def owner_of(ensemble: Ensemble, output: int) -> Ensemble:
    """The member of a merged ensemble whose outputs begin at `output`."""
    first = 0
    for member in ensemble.members:
        if first == output:
            return member.ensemble
        first += member.ensemble.n_outputs
    return ensemble


def _n_scalar_trees(e: Ensemble) -> int:
    is_vector = e.tree_output == VECTOR_LEAF
    return int(np.where(is_vector, e.n_outputs, 1).sum())


def _scalar_leaves(e: Ensemble) -> Ensemble:
    """The same sums from trees that add to one output each."""
    if e.leaf_value.shape[1] == 1 and not (e.tree_output == VECTOR_LEAF).any():
        return e
    n, k = e.n_nodes, e.n_outputs
    length = np.diff(e.tree_start)
    n_leaves = len(e.leaf_value)

    def repeated(array: np.ndarray, step: int) -> np.ndarray:
        return np.concatenate([np.where(array < 0, -1, array + step * c) for c in range(k)]).astype(np.int32)

    return replace(
        e,
        tree_start=np.concatenate([[0], np.cumsum(np.tile(length, k))]).astype(np.int64),
        feature=np.tile(e.feature, k),
        threshold=np.tile(e.threshold, k),
        left=repeated(e.left, n),
        right=repeated(e.right, n),
        missing_left=np.tile(e.missing_left, k),
        category_set=np.tile(e.category_set, k),
        leaf=repeated(e.leaf, n_leaves),
        leaf_value=np.concatenate([e.leaf_value[:, c : c + 1] for c in range(k)]),
        tree_output=np.repeat(np.arange(k), e.n_trees).astype(np.int32),
    )


def _as_float64(e: Ensemble) -> np.ndarray:
    """For every node the last float64 number that goes left."""
    if e.compare_dtype == np.float64:
        return e.threshold
    numeric = (e.left >= 0) & (e.category_set == NO_CATEGORY_SET) & np.isfinite(e.threshold)
    last = e.threshold.copy()
    last[numeric] = last_cast_at_most(e.threshold[numeric], e.compare_dtype)
    return last


def _check_categories(main: Ensemble, member: Member) -> None:
    for own, c in enumerate(member.columns.tolist()):
        ours, theirs = main.categories[c], member.ensemble.categories[own]
        if theirs is None and ours is None:
            continue
        if theirs is None or ours is None or list(ours) != list(theirs):
            raise ModelError(
                f"the models know different categories of column {main.feature_names[c]!r}; train them on the same "
                "category dtype."
            )
