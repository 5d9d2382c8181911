"""scikit-learn's decision trees and forests.

A row is cast to float32 and compared with float64 thresholds. A forest adds the trees' leaf vectors in float64, tree
by tree from zero, divides by the number of trees, and answers with the first largest.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gpucf._ensemble import VECTOR_LEAF, Ensemble, TreeBuilder
from gpucf._errors import ModelError
from gpucf._judge import Judge
from gpucf._loaders import _sklearn_common as common


def from_forest(obj: Any, iterations: int | str | None) -> Ensemble:
    """A forest or a single tree as an `Ensemble`."""
    is_forest = common.kind(obj) in common.FORESTS
    common.need_fitted(obj, "estimators_" if is_forest else "tree_")
    common.whole_model_only(obj, iterations)
    classes = common.class_labels(obj)
    n_features, names, has_names = common.columns(obj)
    members = list(obj.estimators_) if is_forest else [obj]
    n_outputs = 1 if classes is None else len(classes)
    source = f"this {common.kind(obj)}"
    builder = TreeBuilder(source, n_features, np.float32, np.float64, n_outputs)
    for member in members:
        value = _leaf_vectors(member.tree_, classes, source)
        add_tree(builder, member.tree_, value, 0 if classes is None else VECTOR_LEAF)
    return builder.build(
        base=np.zeros(n_outputs),
        library="sklearn",
        model_type=common.kind(obj),
        task=common.task_of(classes),
        feature_names=names,
        has_names=has_names,
        classes=classes,
        allows_missing=np.full(n_features, accepts_nan(members[0])),
        decision="none" if classes is None else "argmax",
        probability="none" if classes is None else "raw",
        post="divide" if is_forest else "none",
        post_a=float(len(members)),
    )


def add_tree(builder: TreeBuilder, tree: Any, value: np.ndarray, output: int) -> None:
    """Add one of scikit-learn's ``tree_`` structures with the given leaf values."""
    n = int(tree.node_count)
    # Before scikit-learn 1.3 trees had no such array, and refused NaN.
    missing_left = np.asarray(getattr(tree, "missing_go_to_left", np.zeros(n)), dtype=bool)
    builder.add_tree(
        feature=np.asarray(tree.feature),
        threshold=common.last_float32_left(tree.threshold),
        left=np.asarray(tree.children_left),
        right=np.asarray(tree.children_right),
        missing_left=missing_left,
        value=value,
        output=output,
    )


def accepts_nan(member: Any) -> bool:
    """Whether the tree's own predict lets NaN pass.

    scikit-learn asks this of the estimator, not of the column: a tree that supports missing values follows
    ``missing_go_to_left`` in columns that had none in training as well (there it points to the fuller child).
    """
    supports = getattr(member, "_support_missing_values", None)
    return bool(supports is not None and supports(np.zeros((1, 1), np.float32)))


def _leaf_vectors(tree: Any, classes: np.ndarray | None, source: str) -> np.ndarray:
    """Leaf values as ``predict_proba`` (or a regressor's ``predict``) takes them from ``tree_.value``.

    Since version 1.3 these are fractions, used as they are; before, they were counts, which predict_proba divided by
    their sum. A tree of counts inside a newer version is a pickle from an older one, which that version itself reads
    wrongly.
    """
    value = np.asarray(tree.value, dtype=np.float64)
    if classes is None:
        return value[:, 0, 0]
    value = value[:, 0, : len(classes)]
    totals = value.sum(axis=1)
    if _counts_version():
        return value / np.where(totals == 0.0, 1.0, totals)[:, None]
    if np.any(np.abs(totals - 1.0) > 1e-6):
        raise ModelError(
            f"{source} holds class counts in its leaves instead of fractions: it was saved by a scikit-learn older "
            "than 1.3 and opened by a newer one, which then predicts other numbers than the model was tested with. "
            "Open it with the version that saved it, or fit it again."
        )
    return value


def _counts_version() -> bool:
    import sklearn

    return tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 3)


def forest_judge(obj: Any, ensemble: Ensemble, name: str) -> Judge:
    """The forest's own predict, on one thread: with more, scikit-learn adds the trees in random order."""
    own = copy.copy(obj)  # shares the trees; only n_jobs differs, and the user's object keeps its own
    if hasattr(own, "n_jobs"):
        own.n_jobs = 1
    classes = ensemble.classes
    if classes is None:
        return Judge(name, common.no_classes, common.no_classes, lambda rows: own.predict(rows).reshape(-1, 1))
    return Judge(
        name,
        class_index=lambda rows: common.label_positions(own.predict(rows), classes),
        probability=own.predict_proba,
        raw=own.predict_proba,
    )
