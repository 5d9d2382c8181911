"""scikit-learn's IsolationForest, for plausibility: how deep a row lies in the trees, as a sum.

Its score falls with ``2 ** -(sum of depths / constant)``; the sum is taken in float64, tree by tree from zero. A least
`decision_function` is therefore a least sum, found by bisection on scikit-learn's own arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import ModelError
from gpucf._judge import Judge
from gpucf._labels import LabelRule, sum_rule
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders._sklearn_forest import accepts_nan


def isolation_ensemble(obj: Any) -> Ensemble:
    """Sums of depths as an `Ensemble`."""
    names = [f"{t.__module__.split('.')[0]}.{t.__name__}" for t in type(obj).__mro__]
    if "sklearn.IsolationForest" not in names:
        raise ModelError(f"plausible= is a {type(obj).__name__}; give a fitted sklearn.ensemble.IsolationForest.")
    common.need_fitted(obj, "estimators_")
    n_features, feature_names, has_names = common.columns(obj)
    builder = TreeBuilder("this IsolationForest", n_features, np.float32, np.float64)
    for number, (member, columns) in enumerate(zip(obj.estimators_, obj.estimators_features_, strict=True)):
        tree = member.tree_
        depth = obj._decision_path_lengths[number] + obj._average_path_length_per_tree[number] - 1.0
        inner = np.asarray(tree.children_left) >= 0
        feature = np.where(inner, np.asarray(columns)[np.where(inner, tree.feature, 0)], -1)
        builder.add_tree(
            feature=feature,
            threshold=common.last_float32_left(tree.threshold),
            left=np.asarray(tree.children_left),
            right=np.asarray(tree.children_right),
            missing_left=np.asarray(getattr(tree, "missing_go_to_left", np.zeros(len(inner))), dtype=bool),
            value=np.asarray(depth, np.float64),
        )
    return builder.build(
        base=np.zeros(1), library="sklearn", model_type="IsolationForest", task="regression",
        feature_names=feature_names, has_names=has_names, classes=None,
        allows_missing=np.full(n_features, accepts_nan(obj.estimators_[0])), decision="none", probability="none",
    )  # fmt: skip


def isolation_rule(obj: Any, ensemble: Ensemble, threshold: float) -> LabelRule:
    """Label 1 where ``decision_function`` is at least `threshold`."""
    from sklearn.ensemble._iforest import _average_path_length

    denominator = len(obj.estimators_) * _average_path_length([obj._max_samples])

    def reaches(sums: np.ndarray) -> np.ndarray:
        depths = sums[:, 0]
        scores = -(2 ** -np.divide(depths, denominator, out=np.ones_like(depths), where=denominator != 0))
        return scores - obj.offset_ >= threshold

    return sum_rule(ensemble, reaches)


def isolation_judge(obj: Any) -> Judge:
    """The forest's own `decision_function`."""
    import sklearn

    def raw(rows: Any) -> np.ndarray:
        return np.asarray(obj.decision_function(rows), np.float64).reshape(-1, 1)

    return Judge(f"scikit-learn {sklearn.__version__}", common.no_classes, common.no_classes, raw)
