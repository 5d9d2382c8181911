"""scikit-learn's GradientBoosting and HistGradientBoosting.

Both add float64 leaf values to a float64 base, round by round. GradientBoosting casts the row to float32 and
multiplies each leaf by the learning rate while predicting; HistGradientBoosting compares in float64 and has the
learning rate in its leaves already.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import ModelError
from gpucf._judge import Judge
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders._sklearn_forest import add_tree

# Dummies whose answer does not depend on the row; scikit-learn's own default is "prior" (or the mean).
_CONSTANT_DUMMIES = {"prior", "most_frequent", "constant", "uniform", "mean", "median", "quantile"}
_BITS_PER_SET = 256
_MOST_IN_LANES = 128  # NumPy adds longer rows in halves, which the compiled rule does not do


def _rounds(available: int, iterations: int | str | None) -> int:
    return available if iterations is None or iterations == "all" else min(int(iterations), available)


def from_gradient_boosting(obj: Any, iterations: int | str | None) -> Ensemble:
    """GradientBoostingClassifier or GradientBoostingRegressor as an `Ensemble`."""
    common.need_fitted(obj, "estimators_")
    classes = common.class_labels(obj)
    n_features, names, has_names = common.columns(obj)
    stages = obj.estimators_[: _rounds(len(obj.estimators_), iterations)]
    base = _gradient_boosting_base(obj, n_features)
    builder = TreeBuilder(f"this {common.kind(obj)}", n_features, np.float32, np.float64)
    for stage in stages:
        for k, member in enumerate(stage):
            # The library computes scale * value for each row and adds the rounded product: the same double here.
            scaled = np.float64(obj.learning_rate) * np.asarray(member.tree_.value, dtype=np.float64)[:, 0, 0]
            add_tree(builder, member.tree_, scaled, k)
    one_output = len(base) == 1
    exponential = getattr(obj, "loss", "") == "exponential"
    link = ("expit_twice" if exponential else "expit") if one_output else "softmax_pairwise"
    notes: tuple[str, ...] = ()
    if len(base) > _MOST_IN_LANES:
        link = "none"
        notes = (f"probabilities of more than {_MOST_IN_LANES} classes are not read; classes and scores are",)
    return builder.build(
        base=base,
        library="sklearn",
        model_type=common.kind(obj),
        task=common.task_of(classes),
        feature_names=names,
        has_names=has_names,
        classes=classes,
        allows_missing=np.zeros(n_features, bool),
        decision="none" if classes is None else ("at_least_0" if one_output else "argmax"),
        probability="none" if classes is None else link,
        notes=notes,
    )


def _gradient_boosting_base(obj: Any, n_features: int) -> np.ndarray:
    """Scores before the first tree, from the library's own function, where they are the same for every row."""
    init = obj.init_
    constant = isinstance(init, str) or (
        type(init).__module__.startswith("sklearn.dummy") and getattr(init, "strategy", "") in _CONSTANT_DUMMIES
    )
    if not constant:
        raise ModelError.unsupported(
            f"a {common.kind(obj)} with init={type(init).__name__}",
            "the score then starts from another model's answer for the row; fit with init=None or init='zero'",
        )
    return np.asarray(obj._raw_predict_init(np.zeros((1, n_features), np.float32)), dtype=np.float64)[0]


def from_hist_gradient_boosting(obj: Any, iterations: int | str | None) -> Ensemble:
    """HistGradientBoostingClassifier or HistGradientBoostingRegressor as an `Ensemble`."""
    common.need_fitted(obj, "_predictors")
    classes = common.class_labels(obj)
    n_features, names, has_names = common.columns(obj)
    place, categories = _encoded_columns(obj, n_features)
    known = _known_categories(obj, place, categories)
    builder = TreeBuilder(f"this {common.kind(obj)}", n_features, np.float64, np.float64)
    for stage in obj._predictors[: _rounds(len(obj._predictors), iterations)]:
        for k, predictor in enumerate(stage):
            _add_predictor(builder, predictor, k, place, categories, known)
    base = np.asarray(obj._baseline_prediction, dtype=np.float64).reshape(-1) + 0.0
    one_output = len(base) == 1
    notes: tuple[str, ...] = ()
    if classes is None and obj._loss.link.__class__.__name__ != "IdentityLink":
        notes = (f"scores are raw scores of loss={obj.loss!r}: predict() answers with their exponential",)
    return builder.build(
        base=base,
        library="sklearn",
        model_type=common.kind(obj),
        task=common.task_of(classes),
        feature_names=names,
        has_names=has_names,
        classes=classes,
        categories=categories,
        allows_missing=np.ones(n_features, bool),
        decision="none" if classes is None else ("above_0" if one_output else "argmax"),
        probability="none" if classes is None else ("expit" if one_output else "softmax"),
        notes=notes,
    )


def _encoded_columns(obj: Any, n_features: int) -> tuple[np.ndarray, tuple[np.ndarray | None, ...]]:
    """For each position that the trees see: the user's column; and for each user's column: its category values.

    With categorical columns the model first encodes: categories become codes 0, 1, ... and move to the front.
    """
    categories: list[np.ndarray | None] = [None] * n_features
    preprocessor = getattr(obj, "_preprocessor", None)
    if preprocessor is None:
        if getattr(obj, "is_categorical_", None) is not None:
            raise ModelError.unsupported(
                f"a {common.kind(obj)} with categorical columns from scikit-learn older than 1.4",
                "it has no encoder that says which values are categories; fit it again with 1.4 or newer",
            )
        return np.arange(n_features), tuple(categories)
    is_categorical = np.asarray(obj.is_categorical_, dtype=bool)
    place = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    encoder = preprocessor.named_transformers_["encoder"]
    for column, values in zip(np.flatnonzero(is_categorical), encoder.categories_, strict=True):
        values = np.asarray(values)
        missing = np.asarray([v is None or v != v for v in values.tolist()], dtype=bool)
        if np.any(missing[: int((~missing).sum())]):
            raise ModelError.damaged(
                f"this {common.kind(obj)}", f"column {column} has a missing value among its categories"
            )
        categories[column] = values[~missing]
    return place, tuple(categories)


def _known_categories(obj: Any, place: np.ndarray, categories: tuple[np.ndarray | None, ...]) -> dict[int, np.ndarray]:
    """Per user's column, which codes training knew; the others follow the direction of missing values."""
    if all(c is None for c in categories):
        return {}
    bitsets, row_of = obj._bin_mapper.make_known_categories_bitsets()
    return {
        int(column): _bits(bitsets[row_of[seen]]) for seen, column in enumerate(place) if categories[column] is not None
    }


def _bits(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little").astype(bool)


def _add_predictor(
    builder: TreeBuilder,
    predictor: Any,
    output: int,
    place: np.ndarray,
    categories: tuple[np.ndarray | None, ...],
    known: dict[int, np.ndarray],
) -> None:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    seen = nodes["feature_idx"].astype(np.int64)
    if np.any((seen[~leaf] < 0) | (seen[~leaf] >= len(place))):
        raise ModelError.damaged(builder.source, "a tree splits on a column that the model does not have")
    column = np.where(leaf, -1, place[np.where(leaf, 0, seen)])
    missing_left = nodes["missing_go_to_left"].astype(bool)
    sets = np.full(len(nodes), -1, np.int32)
    for node in np.flatnonzero(~leaf & nodes["is_categorical"].astype(bool)):
        values = categories[column[node]]
        if values is None:
            raise ModelError.damaged(builder.source, "a tree splits a numeric column by category")
        codes = np.arange(len(values))
        goes_left = _bits(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        in_range = codes < _BITS_PER_SET
        listed = np.where(in_range, goes_left[codes % _BITS_PER_SET], False)
        trained = np.where(in_range, known[int(column[node])][codes % _BITS_PER_SET], False)
        sets[node] = builder.add_category_set(codes[listed | (~trained & missing_left[node])])
    builder.add_tree(
        feature=column,
        threshold=nodes["num_threshold"],
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        missing_left=missing_left,
        value=nodes["value"],
        output=output,
        category_set=sets,
    )


def boosting_judge(obj: Any, ensemble: Ensemble, name: str) -> Judge:
    """The model's own predict, with as many rounds as were read."""
    own = copy.copy(obj)
    rounds = ensemble.n_trees // ensemble.n_outputs
    if common.kind(obj) in common.HIST_BOOSTING:
        own._predictors = obj._predictors[:rounds]
        raw: Callable[[Any], np.ndarray] = own._raw_predict
    else:
        own.estimators_ = obj.estimators_[:rounds]
        raw = own.predict if ensemble.classes is None else own.decision_function
    classes = ensemble.classes
    if classes is None:
        return Judge(name, common.no_classes, common.no_classes, lambda rows: common.two_dimensional(raw(rows)))
    return Judge(
        name,
        class_index=lambda rows: common.label_positions(own.predict(rows), classes),
        probability=lambda rows: _as_a_batch(own.predict_proba, rows),
        raw=lambda rows: common.two_dimensional(raw(rows)),
    )


def _as_a_batch(predict: Callable[[Any], np.ndarray], rows: Any) -> np.ndarray:
    """Ask for at least two rows.

    HistGradientBoosting lays the scores out by column, and NumPy then adds up a softmax class by class; a single row
    is laid out by row as well and from eight classes on is added in another order. A table is what defines.
    """
    if len(rows) != 1:
        return predict(rows)
    twice = rows.iloc[[0, 0]] if hasattr(rows, "iloc") else np.concatenate([rows, rows])
    return predict(twice)[:1]
