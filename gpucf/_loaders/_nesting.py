"""scikit-learn estimators that hold the model inside another: pipelines, calibration, moved thresholds, frozen ones."""

from __future__ import annotations

import copy
from typing import Any

WRAPPERS = {
    "Pipeline", "FrozenEstimator", "CalibratedClassifierCV", "FixedThresholdClassifier", "TunedThresholdClassifierCV",
}  # fmt: skip


def is_wrapper(obj: Any) -> bool:
    """Whether the object is one of scikit-learn's own wrappers that are read here."""
    return type(obj).__qualname__ in WRAPPERS and type(obj).__module__.split(".")[0] == "sklearn"


def inside(obj: Any) -> Any:
    """The estimator that a fitted wrapper asks."""
    kind = type(obj).__qualname__
    if kind == "Pipeline":
        return obj.steps[-1][1]
    if kind == "CalibratedClassifierCV":
        return obj.calibrated_classifiers_[0].estimator
    if kind == "FrozenEstimator":
        return obj.estimator
    return getattr(obj, "estimator_", obj.estimator)


def innermost(obj: Any) -> Any:
    """The model itself."""
    while is_wrapper(obj):
        obj = inside(obj)
    return obj


def settled(obj: Any) -> Any:
    """A copy that shares everything, but in which a forest adds its trees in order (`n_jobs=1`)."""
    own = copy.copy(obj)
    if not is_wrapper(obj):
        if hasattr(own, "n_jobs") and type(obj).__module__.split(".")[0] == "sklearn":
            own.n_jobs = 1
        return own
    kind, child = type(obj).__qualname__, settled(inside(obj))
    if kind == "Pipeline":
        own.steps = [*obj.steps[:-1], (obj.steps[-1][0], child)]
    elif kind == "CalibratedClassifierCV":
        only = copy.copy(obj.calibrated_classifiers_[0])
        only.estimator = child
        own.calibrated_classifiers_ = [only]
    elif kind == "FrozenEstimator" or not hasattr(obj, "estimator_"):
        own.estimator = child
    else:
        own.estimator_ = child
    return own
