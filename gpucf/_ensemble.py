"""The neutral form of a tree ensemble: flat arrays, with the source library's own arithmetic.

A loader turns a foreign model into one `Ensemble`; every later stage reads only this. The loader has already turned the
library's comparison into one rule (`goes_left`), so that `<` against `<=`, float32 against float64 and missing values
are settled in exactly one place.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._errors import ModelError
from gpucf._raw import RawColumns

if TYPE_CHECKING:
    from gpucf._outer import Calibration, Cutoff

NO_CATEGORY_SET = -1
VECTOR_LEAF = -1


@dataclass(frozen=True, eq=False)
class Member:
    """One model of a merged ensemble, and the table's column that each of its own columns is."""

    ensemble: Ensemble
    columns: np.ndarray

    def digest(self) -> str:
        return self.ensemble.digest() + repr(self.columns.tolist())


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All trees of one model as flat arrays.

    Walking a tree: start at node ``tree_start[t]``. At an inner node, with ``v`` the row's value of column
    ``feature[node]`` cast to ``compare_dtype`` (categorical columns hold the index into ``categories``):

    - ``v`` is NaN: left when ``missing_left[node]``;
    - ``category_set[node] >= 0``: left when bit ``v`` of that set is 1;
    - otherwise left when ``v <= threshold[node]``.

    The score of output ``c`` is ``base[c]``, plus the leaf values of the trees in order, every addition rounded to
    ``score_dtype``; trees with ``tree_output[t] == VECTOR_LEAF`` add a value to each output, all others only to output
    ``tree_output[t]``. This is called the *sum*. The library's raw score is ``post`` of the sum:
    ``"none"``: the sum, ``"divide"``: ``sum / post_a``, ``"affine"``: ``sum * post_a + post_b``, rounded to
    ``score_dtype`` after each operation.

    Attributes
    ----------
    library, model_type : str
        Where the model came from, e.g. ``"xgboost"``, ``"XGBClassifier"``.
    task : {"binary", "multiclass", "regression"}
    n_features : int
        Columns that the model was trained on.
    feature_names : tuple of str
        As the model has them; ``("f0", "f1", ...)`` where it has none (see ``has_names``).
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the library's ``classes_``; None for regression.
    compare_dtype, score_dtype : numpy dtype
        float32 or float64: the dtype of comparisons and of the additions.
    allows_missing : bool array of shape (n_features,)
        Whether the library accepts NaN in the column.
    categories : tuple, one entry per column
        None for numeric columns; for native categorical columns the array of category values, in the order of the
        bits in the category sets. The value `i` in a coded row means ``categories[j][i]``.
    tree_start : int64 array of shape (n_trees + 1,)
        First node of each tree (its root); trees lie one after another.
    feature : int32 array of shape (n_nodes,)
        Column of the split, -1 at leaves.
    threshold : float64 array of shape (n_nodes,)
        Last value *of compare_dtype* that goes left; 0 at leaves and at categorical splits. -inf: all go right, inf:
        all go left.
    left, right : int32 arrays of shape (n_nodes,)
        Children as positions in these arrays; -1 at leaves.
    missing_left : bool array of shape (n_nodes,)
    category_set : int32 array of shape (n_nodes,)
        Index of the node's category set, -1 where the split is numeric.
    category_start : int64 array of shape (n_sets + 1,)
        First word of each set in ``category_words``.
    category_words : uint64 array
        Bit ``i`` of a set: category index ``i`` goes LEFT. Indices past the last word go right.
    leaf : int32 array of shape (n_nodes,)
        Row of ``leaf_value``, -1 at inner nodes.
    leaf_value : score_dtype array of shape (n_leaves, 1 or n_outputs)
        Everything that multiplies a leaf (learning rate, DART weight) is already in it, rounded as the library does.
    tree_output : int32 array of shape (n_trees,)
    base : score_dtype array of shape (n_outputs,)
    post, post_a, post_b :
        What happens to the sum, see above.
    decision : str
        Name of the class rule in `gpucf._links` ("none" for regression).
    probability : str
        Name of the probability rule in `gpucf._links` ("none" where there is none).
    link_a : float
        Parameter of these rules (LightGBM's ``sigmoid``).
    notes : tuple of str
        What a user should know about how the model was read.
    raw : RawColumns or None
        Of a model that begins with preprocessing; the columns are then those in front of it.
    outer : tuple of Calibration and Cutoff
        What stands around a two-class model, innermost first (see `gpucf._outer`). ``decision`` and ``probability``
        are then those of the model inside; the answers depend on the last output only.
    members : tuple of Member
        Empty, or the ensembles that this one was merged from (see `gpucf._merge`).
    """

    library: str
    model_type: str
    task: str
    n_features: int
    feature_names: tuple[str, ...]
    has_names: bool
    classes: np.ndarray | None
    compare_dtype: np.dtype[Any]
    score_dtype: np.dtype[Any]
    allows_missing: np.ndarray
    categories: tuple[np.ndarray | None, ...]
    tree_start: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    category_set: np.ndarray
    category_start: np.ndarray
    category_words: np.ndarray
    leaf: np.ndarray
    leaf_value: np.ndarray
    tree_output: np.ndarray
    base: np.ndarray
    decision: str
    probability: str
    link_a: float = 1.0
    post: str = "none"
    post_a: float = 1.0
    post_b: float = 0.0
    notes: tuple[str, ...] = field(default=())
    raw: RawColumns | None = None
    outer: tuple[Calibration | Cutoff, ...] = ()
    members: tuple[Member, ...] = field(default=())

    @property
    def n_trees(self) -> int:
        return len(self.tree_start) - 1

    @property
    def n_nodes(self) -> int:
        return len(self.feature)

    @property
    def n_outputs(self) -> int:
        return len(self.base)

    @property
    def n_classes(self) -> int:
        return 0 if self.classes is None else len(self.classes)

    @property
    def attainable_dtype(self) -> np.dtype[Any]:
        """The narrowest dtype in which a model compares: what moves land on is exact in it."""
        dtypes = [m.ensemble.compare_dtype for m in self.members] or [self.compare_dtype]
        return min(dtypes, key=lambda d: d.itemsize)

    def digest(self) -> str:
        """SHA-256 over everything that decides an answer, as hex."""
        h = hashlib.sha256()
        for f in fields(self):
            value = getattr(self, f.name)
            h.update(f.name.encode())
            if isinstance(value, np.ndarray) and value.dtype != object:
                h.update(str(value.dtype).encode() + str(value.shape).encode() + np.ascontiguousarray(value).tobytes())
            elif isinstance(value, np.ndarray):
                h.update(repr(value.tolist()).encode())
            elif isinstance(value, tuple):
                h.update(repr([_plain(v) for v in value]).encode())
            else:
                h.update(repr(value).encode())
        return h.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.digest() if isinstance(value, Member) else value


class TreeBuilder:
    """Collects trees one by one for a loader, checks them, and makes the `Ensemble`.

    All checks of the tree structure live here: a hostile file (cycles, children out of range, shared children, NaN
    thresholds) is refused with a `ModelError`, whatever loader read it, and a chain of any depth is walked without
    recursion.
    """

    def __init__(self, source: str, n_features: int, compare_dtype: Any, score_dtype: Any, n_leaf_outputs: int = 1):
        self.source = source
        self.n_features = int(n_features)
        self.compare_dtype = np.dtype(compare_dtype)
        self.score_dtype = np.dtype(score_dtype)
        self.n_leaf_outputs = n_leaf_outputs
        self._parts: list[dict[str, np.ndarray]] = []
        self._outputs: list[int] = []
        self._sets: list[np.ndarray] = []
        self._n_nodes = 0
        self._n_leaves = 0

    def add_category_set(self, members_left: np.ndarray) -> int:
        """Register the set of category indices that go left; returns its index for `add_tree`."""
        members = np.asarray(members_left, dtype=np.int64)
        if members.size and (members.min() < 0 or members.max() > 10_000_000):
            raise ModelError.damaged(self.source, f"category {members.max()} or {members.min()} is out of range")
        words = np.zeros(members.max() // 64 + 1 if members.size else 1, dtype=np.uint64)
        np.bitwise_or.at(words, members // 64, np.uint64(1) << (members % 64).astype(np.uint64))
        self._sets.append(words)
        return len(self._sets) - 1

    def add_tree(
        self,
        feature: np.ndarray,
        threshold: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        missing_left: np.ndarray,
        value: np.ndarray,
        output: int = 0,
        category_set: np.ndarray | None = None,
    ) -> None:
        """Add one tree, its root at position 0, children numbered within the tree, -1 as children of leaves.

        Parameters
        ----------
        feature, left, right : integer arrays of shape (n,)
        threshold : float array of shape (n,)
            Last value of ``compare_dtype`` that goes left (see `Ensemble`); ignored at leaves.
        missing_left : bool array of shape (n,)
        value : array of shape (n,) or (n, n_leaf_outputs)
            Leaf values in the score dtype; ignored at inner nodes.
        output : int
            Output that a scalar tree adds to, or `VECTOR_LEAF`.
        category_set : int array of shape (n,), optional
            Index from `add_category_set`, -1 at numeric splits.
        """
        number = len(self._parts)
        n = len(left)
        left = np.maximum(np.asarray(left, dtype=np.int64), -1)
        right = np.maximum(np.asarray(right, dtype=np.int64), -1)
        where = f"tree {number}"
        if n == 0:
            raise ModelError.damaged(self.source, f"{where} has no nodes")
        arrays = (feature, threshold, right, missing_left, value)
        if any(len(a) != n for a in arrays) or (category_set is not None and len(category_set) != n):
            raise ModelError.damaged(self.source, f"{where} has node arrays of different lengths")
        is_leaf = left < 0
        inner = np.flatnonzero(~is_leaf)
        if np.any((right < 0) != is_leaf):
            raise ModelError.damaged(self.source, f"{where} has a node with one child")
        keep = _reachable(left, right, f"{where}", self.source)
        feature = np.where(is_leaf, -1, np.asarray(feature, dtype=np.int64))
        sets = np.full(n, NO_CATEGORY_SET, np.int32) if category_set is None else np.asarray(category_set, np.int32)
        sets = np.where(is_leaf, NO_CATEGORY_SET, sets).astype(np.int32)
        numeric = ~is_leaf & (sets < 0)
        threshold = np.where(numeric, np.asarray(threshold, dtype=np.float64), 0.0)
        if np.any((feature[inner] < 0) | (feature[inner] >= self.n_features)):
            bad = feature[inner][(feature[inner] < 0) | (feature[inner] >= self.n_features)][0]
            raise ModelError.damaged(self.source, f"{where} splits on feature {bad} of {self.n_features}")
        if np.any(np.isnan(threshold)):
            raise ModelError.damaged(self.source, f"{where} has a NaN threshold")
        value = np.asarray(value).reshape(n, -1)
        if value.shape[1] != self.n_leaf_outputs:
            raise ModelError.damaged(
                self.source, f"{where} has leaves of {value.shape[1]} values, not {self.n_leaf_outputs}"
            )
        leaves = keep[is_leaf[keep]]
        if not np.all(np.isfinite(value[leaves])):
            raise ModelError.damaged(self.source, f"{where} has a leaf that is not a finite number")
        place = np.full(n, -1, np.int64)
        place[keep] = np.arange(len(keep)) + self._n_nodes
        leaf = np.full(len(keep), -1, np.int32)
        leaf[is_leaf[keep]] = np.arange(len(leaves)) + self._n_leaves
        self._parts.append(
            {
                "feature": feature[keep].astype(np.int32),
                "threshold": threshold[keep],
                "left": np.where(is_leaf[keep], -1, place[left[keep]]).astype(np.int32),
                "right": np.where(is_leaf[keep], -1, place[right[keep]]).astype(np.int32),
                "missing_left": np.asarray(missing_left, dtype=bool)[keep] & ~is_leaf[keep],
                "category_set": sets[keep],
                "leaf": leaf,
                "leaf_value": value[leaves].astype(self.score_dtype),
            }
        )
        self._outputs.append(output)
        self._n_nodes += len(keep)
        self._n_leaves += len(leaves)

    def build(self, base: Any, **described: Any) -> Ensemble:
        """The finished ensemble; `described` are the remaining fields of `Ensemble`."""
        parts: dict[str, Any]
        if not self._parts:
            parts = {
                k: np.zeros(0, t)
                for k, t in [
                    ("feature", np.int32),
                    ("threshold", np.float64),
                    ("left", np.int32),
                    ("right", np.int32),
                    ("missing_left", bool),
                    ("category_set", np.int32),
                    ("leaf", np.int32),
                ]
            }
            parts["leaf_value"] = np.zeros((0, self.n_leaf_outputs), self.score_dtype)
        else:
            parts = {k: np.concatenate([p[k] for p in self._parts]) for k in self._parts[0]}
        lengths = [len(p["feature"]) for p in self._parts]
        described.setdefault("categories", (None,) * self.n_features)
        base = np.atleast_1d(np.asarray(base)).astype(self.score_dtype)
        outputs = np.asarray(self._outputs, dtype=np.int32)
        if not np.all(np.isfinite(base)):
            raise ModelError.damaged(self.source, "the base score is not a finite number")
        if np.any(outputs >= len(base)) or np.any(outputs < VECTOR_LEAF):
            raise ModelError.damaged(self.source, f"a tree adds to output {outputs.max()}, of {len(base)} outputs")
        words = [len(s) for s in self._sets]
        ensemble = Ensemble(
            n_features=self.n_features,
            compare_dtype=self.compare_dtype,
            score_dtype=self.score_dtype,
            tree_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            category_start=np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
            category_words=np.concatenate([*self._sets, np.zeros(0, np.uint64)]),
            tree_output=outputs,
            base=base,
            **parts,
            **described,
        )
        for array in vars(ensemble).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
        return ensemble


def _reachable(left: np.ndarray, right: np.ndarray, where: str, source: str) -> np.ndarray:
    """Nodes reachable from node 0, depth first, left before right; refuses cycles and shared children."""
    n = len(left)
    inner = left >= 0
    children = np.concatenate([left[inner], right[inner]])
    if children.size and children.max() >= n:
        raise ModelError.damaged(source, f"{where} has child {children.max()} of {n} nodes")
    if children.size and (np.bincount(children, minlength=n).max() > 1 or np.any(children == 0)):
        raise ModelError.damaged(source, f"{where} is not a tree: a node has two parents, or lies on a cycle")
    # With at most one parent each and none for the root, nothing reachable from the root can lie on a cycle.
    left_list, right_list, order, stack = left.tolist(), right.tolist(), [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if left_list[node] >= 0:
            stack.append(right_list[node])
            stack.append(left_list[node])
    return np.asarray(order, dtype=np.int64)
