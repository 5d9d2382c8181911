"""XGBoost on sparse tables: what the table leaves out, every 0, goes the way of missing values.

For a number that is scaled or passed through, "left" is then an interval with a hole, or one interval and a point
elsewhere. Such a split is written as up to three, over copies of its children. Within a copy it is known whether the
number is 0, so that it asks no further.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import ModelError

_MOST_NODES = 4_000_000


def send_zeros_the_missing_way(
    ensemble: Ensemble, column: np.ndarray, low: np.ndarray, high: np.ndarray, default_left: np.ndarray
) -> Ensemble:
    """The ensemble with splits that send a stretch of raw numbers the default way.

    Parameters
    ----------
    ensemble : Ensemble
        Over raw columns, with 0 compared as a number.
    column : int array of shape (n_nodes,)
        Transformed column of each numeric split, -1 elsewhere.
    low, high : float64 arrays of shape (n_transformed_columns,)
        First and last raw number that becomes 0; ``low > high`` where none does.
    default_left : bool array of shape (n_nodes,)
        Where missing transformed values go.
    """
    at = np.maximum(column, 0)
    zero_left = high[at] <= ensemble.threshold
    # The threshold never lies within the stretch, as all of it becomes the same number.
    conflict = (column >= 0) & (low[at] <= high[at]) & (zero_left != default_left)
    if not conflict.any():
        return ensemble
    builder = TreeBuilder(
        "this Pipeline", ensemble.n_features, ensemble.compare_dtype, ensemble.score_dtype, ensemble.leaf_value.shape[1]
    )
    n_nodes = 0
    for t in range(ensemble.n_trees):
        tree = _Rewritten(ensemble, column, low, high, default_left, conflict)
        tree.grow(int(ensemble.tree_start[t]))
        n_nodes += len(tree.left)
        if n_nodes > _MOST_NODES:
            break
        tree.add_to(builder, int(ensemble.tree_output[t]))
    if n_nodes > _MOST_NODES:
        raise ModelError.unsupported(
            f"a Pipeline that hands XGBoost a sparse table (over {_MOST_NODES:,} nodes)",
            "XGBoost takes each 0 in it for missing, which these trees need too many copies for. Fit it with "
            "ColumnTransformer(..., sparse_threshold=0)",
        )
    own = {f.name for f in fields(Ensemble)} - _MADE_BY_BUILDER
    built = builder.build(**{name: getattr(ensemble, name) for name in own})
    return replace(built, category_start=ensemble.category_start, category_words=ensemble.category_words)


_MADE_BY_BUILDER = {
    "n_features", "compare_dtype", "score_dtype", "tree_start", "category_start", "category_words", "tree_output",
    "feature", "threshold", "left", "right", "missing_left", "category_set", "leaf", "leaf_value",
}  # fmt: skip


@dataclass
class _Rewritten:
    """One tree being rewritten; `todo` holds old node, what is known of zeros by column, new parent and side."""

    ensemble: Ensemble
    column: np.ndarray
    low: np.ndarray
    high: np.ndarray
    default_left: np.ndarray
    conflict: np.ndarray
    old: list[int] = field(default_factory=list)  # the old node whose column, set or leaf a new one has
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    todo: list[tuple[int, dict[int, bool], int, bool]] = field(default_factory=list)

    def grow(self, root: int) -> None:
        self.todo.append((root, {}, -1, True))
        while self.todo and len(self.left) <= _MOST_NODES:
            node, known, parent, is_left = self.todo.pop()
            e = self.ensemble
            while e.left[node] >= 0 and known.get(int(self.column[node]), False):
                node = int(e.left[node] if self.default_left[node] else e.right[node])
            if e.left[node] >= 0 and self.conflict[node] and int(self.column[node]) not in known:
                self._split_apart(node, known, parent, is_left)
                continue
            new = self._emit(node, float(e.threshold[node]), bool(e.missing_left[node]), parent, is_left)
            if e.left[node] >= 0:
                self.todo.append((int(e.right[node]), known, new, False))
                self.todo.append((int(e.left[node]), known, new, True))

    def _split_apart(self, node: int, known: dict[int, bool], parent: int, is_left: bool) -> None:
        e, m = self.ensemble, int(self.column[node])
        cut, missing_left = float(e.threshold[node]), bool(e.missing_left[node])
        before, last = float(np.nextafter(self.low[m], -np.inf)), float(self.high[m])
        other, zero = {**known, m: False}, {**known, m: True}
        left, right = int(e.left[node]), int(e.right[node])
        at = self._emit(node, cut, missing_left, parent, is_left)
        # Missing values always take copies without knowledge of zeros: `other`.
        if last <= cut:  # zeros lie left and go right
            self.todo.append((right, other, at, False))
            if last < cut:
                at = self._emit(node, last, False, at, True)
                self.todo.append((left, other, at, False))
                at = self._emit(node, before, True, at, True)
            else:
                at = self._emit(node, before, True, at, True)
            self.todo.append((left, other, at, True))
            self.todo.append((right, zero, at, False))
        else:
            self.todo.append((left, other, at, True))
            if before > cut:
                at = self._emit(node, before, True, at, False)
                self.todo.append((right, other, at, True))
                at = self._emit(node, last, False, at, False)
            else:
                at = self._emit(node, last, False, at, False)
            self.todo.append((left, zero, at, True))
            self.todo.append((right, other, at, False))

    def _emit(self, old: int, threshold: float, missing_left: bool, parent: int, is_left: bool) -> int:
        new = len(self.left)
        self.old.append(old)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.left.append(-1)
        self.right.append(-1)
        if parent >= 0:
            (self.left if is_left else self.right)[parent] = new
        return new

    def add_to(self, builder: TreeBuilder, output: int) -> None:
        e, old = self.ensemble, np.asarray(self.old)
        value: Any = np.where((e.leaf[old] >= 0)[:, None], e.leaf_value[np.maximum(e.leaf[old], 0)], 0.0)
        builder.add_tree(
            e.feature[old], np.asarray(self.threshold), np.asarray(self.left), np.asarray(self.right),
            np.asarray(self.missing_left), value.astype(e.score_dtype), output, e.category_set[old],
        )  # fmt: skip
