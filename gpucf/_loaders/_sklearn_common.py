"""What the scikit-learn loaders share: names, labels, float32 thresholds, and the refusals by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._errors import ModelError, OptionError

FORESTS = {
    "RandomForestClassifier",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
}
TREES = {"DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"}
BOOSTING = {"GradientBoostingClassifier", "GradientBoostingRegressor"}
HIST_BOOSTING = {"HistGradientBoostingClassifier", "HistGradientBoostingRegressor"}
SUPPORTED = FORESTS | TREES | BOOSTING | HIST_BOOSTING

_REASONS = {
    "ColumnTransformer": "it is a transformer, not a model",
    "TransformedTargetRegressor": "its answers are transformed; pass its regressor_",
    "AdaBoostClassifier": "its score is a weighted vote, which gpucf does not compute exactly",
    "AdaBoostRegressor": "it answers with a weighted median of trees, not with a sum",
    "BaggingClassifier": "its members may see different columns or be no trees; use a random forest",
    "BaggingRegressor": "its members may see different columns or be no trees; use a random forest",
    "StackingClassifier": "a second model reads the answers of the first ones, so that no sum over trees exists",
    "StackingRegressor": "a second model reads the answers of the first ones, so that no sum over trees exists",
    "VotingClassifier": "its members may be any models; pass one of them",
    "VotingRegressor": "its members may be any models; pass one of them",
    "IsolationForest": "its score is a function of depths, and it has no classes to move between",
    "RandomTreesEmbedding": "it is a transformer, not a model",
    "GridSearchCV": "pass its best_estimator_",
    "RandomizedSearchCV": "pass its best_estimator_",
    "HalvingGridSearchCV": "pass its best_estimator_",
    "HalvingRandomSearchCV": "pass its best_estimator_",
    "OneVsRestClassifier": "it holds one model per class; pass a model that knows all classes",
    "OneVsOneClassifier": "it holds one model per pair of classes; pass a model that knows all classes",
    "MultiOutputClassifier": "it answers several questions at once; pass one of its estimators_",
    "MultiOutputRegressor": "it answers several questions at once; pass one of its estimators_",
}


def kind(obj: Any) -> str:
    """The class of the object, as errors and `Ensemble.model_type` name it."""
    return type(obj).__qualname__


def is_sklearn(obj: Any) -> bool:
    """Whether the object's own class is defined by scikit-learn (found out without importing it)."""
    return type(obj).__module__.split(".")[0] == "sklearn"


def supported_base(obj: Any) -> str | None:
    """Name of the supported scikit-learn class that the object's class derives from, or None."""
    for base in type(obj).__mro__:
        if base.__module__.split(".")[0] == "sklearn" and base.__qualname__ in SUPPORTED:
            return base.__qualname__
    return None


def refuse_by_name(obj: Any) -> None:
    """Raise for whatever is not exactly one of the supported classes."""
    name = kind(obj)
    if is_sklearn(obj):
        if name not in SUPPORTED:
            why = _REASONS.get(name, "gpucf reads scikit-learn's trees, forests and gradient boosting")
            raise ModelError.unsupported(f"scikit-learn's {name}", why)
        return
    raise ModelError.unsupported(
        f"{type(obj).__module__}.{name}",
        f"it derives from {supported_base(obj)} and may predict differently; pass a plain {supported_base(obj)}",
    )


def need_fitted(obj: Any, attribute: str) -> None:
    if not hasattr(obj, attribute):
        raise ModelError(f"this {kind(obj)} has not been fitted: it has no {attribute}. Call fit first.")


def whole_model_only(obj: Any, iterations: int | str | None) -> None:
    """Forests average their trees: part of one is another model, which the library has no word for."""
    if iterations not in (None, "all"):
        raise OptionError(
            f"iterations is {iterations!r}, but a {kind(obj)} is not boosted and always uses all its trees; "
            "leave iterations out."
        )


def class_labels(obj: Any) -> np.ndarray | None:
    """Labels of a classifier (None for a regressor); one class, and several outputs, are refused."""
    classes = getattr(obj, "classes_", None)
    if int(getattr(obj, "n_outputs_", 1)) > 1:
        raise ModelError.unsupported(
            f"a {kind(obj)} with {obj.n_outputs_} outputs", "one model must answer one question; fit one per output"
        )
    if classes is None:
        return None
    classes = np.asarray(classes)
    if len(classes) < 2:
        raise ModelError.unsupported(
            f"a {kind(obj)} with one class ({classes.tolist()})", "there is no other class to move to"
        )
    return classes


def columns(obj: Any) -> tuple[int, tuple[str, ...], bool]:
    """Number of columns, their names, and whether the model itself has names."""
    n_features = int(obj.n_features_in_)
    names = getattr(obj, "feature_names_in_", None)
    if names is None:
        return n_features, tuple(f"f{j}" for j in range(n_features)), False
    return n_features, tuple(str(name) for name in names), True


def task_of(classes: np.ndarray | None) -> str:
    if classes is None:
        return "regression"
    return "binary" if len(classes) == 2 else "multiclass"


def last_float32_left(threshold: np.ndarray) -> np.ndarray:
    """Largest float32 that is ``<=`` each float64 threshold, as float64.

    scikit-learn's trees compare a float32 value with a float64 threshold, so that no float32 lies strictly between
    the answer and the threshold: both cut the attainable values at the same place.
    """
    threshold = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
    too_high = rounded.astype(np.float64) > threshold
    rounded[too_high] = np.nextafter(rounded[too_high], np.float32(-np.inf))
    return rounded.astype(np.float64)


def label_positions(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions in `classes` of the labels that the library's predict answered with."""
    order = {label: i for i, label in enumerate(classes.tolist())}
    return np.asarray([order[label] for label in np.asarray(labels).ravel().tolist()], dtype=np.int64)


def two_dimensional(raw: np.ndarray) -> np.ndarray:
    return raw.reshape(len(raw), -1)


def no_classes(rows: Any) -> np.ndarray:
    raise ModelError("a regression model has no classes; ask for raw scores")
