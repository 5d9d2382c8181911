"""CalibratedClassifierCV, FixedThresholdClassifier, TunedThresholdClassifierCV, FrozenEstimator: rules on one score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, OptionError
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders._nesting import innermost, inside
from gpucf._outer import Calibration, Cutoff, is_calibrated


def from_wrapper(obj: Any, iterations: int | str | None) -> Ensemble:
    """The ensemble inside, with the wrapper's rule around it."""
    from gpucf import _loaders

    kind = common.kind(obj)
    if kind == "FrozenEstimator":
        return _loaders.load_model(obj.estimator, iterations=iterations)
    if iterations is not None:
        raise OptionError(f"iterations is {iterations!r}, but a {kind} was fitted to all of its model; leave it out.")
    if kind == "CalibratedClassifierCV":
        common.need_fitted(obj, "calibrated_classifiers_")
        n = len(obj.calibrated_classifiers_)
        if n != 1:
            raise ModelError.unsupported(
                f"a CalibratedClassifierCV of {n} calibrated models",
                "it averages their probabilities, which are no sum over trees. Fit it with ensemble=False, or around a "
                "FrozenEstimator",
            )
    else:
        common.need_fitted(obj, "classes_" if kind == "FixedThresholdClassifier" else "best_threshold_")
    inner = _loaders.load_model(inside(obj))
    _refuse_more_than_one_score(obj, inner)
    rule: Calibration | Cutoff
    rule = _calibration(obj, inner) if kind == "CalibratedClassifierCV" else _cutoff(obj, inner)
    if not rule.on_raw and inner.probability == "none":
        raise ModelError.unsupported(f"a {kind} around {inner.model_type}", "gpucf does not read its probabilities")
    return replace(
        inner,
        library="sklearn",
        model_type=f"{kind} with {inner.model_type}",
        classes=common.class_labels(obj),
        outer=(*inner.outer, rule),
    )


def _refuse_more_than_one_score(obj: Any, inner: Ensemble) -> None:
    kind = common.kind(obj)
    if inner.classes is None or len(inner.classes) != 2:
        what = "numbers" if inner.classes is None else f"{len(inner.classes)} classes"
        raise ModelError.unsupported(
            f"a {kind} around a model with {what}", "gpucf reads it for two classes, where one score decides"
        )
    model = innermost(obj)
    if getattr(model, "booster", None) == "dart" and type(model).__module__.startswith("xgboost"):
        raise ModelError.unsupported(
            f"a {kind} around XGBoost's DART booster",
            "its wrapper predicts in place, which can differ from Booster.predict in the last bit",
        )
    if inner.n_outputs > 1 and inner.probability != "raw":
        raise ModelError.unsupported(
            f"a {kind} around {inner.model_type} with two scores", "its probability is a softmax of both; fit it with "
            "a binary objective"
        )  # fmt: skip
    if np.asarray(obj.classes_).tolist() != inner.classes.tolist():
        raise ModelError.damaged(f"this {kind}", "its classes are not those of its model")


def _calibration(obj: Any, inner: Ensemble) -> Calibration:
    if is_calibrated(inner.outer):
        raise ModelError.unsupported("a CalibratedClassifierCV around another", "calibrate once")
    part = obj.calibrated_classifiers_[0]
    if part.method not in ("sigmoid", "isotonic"):
        raise ModelError.unsupported(
            f"a CalibratedClassifierCV with method={part.method!r}", "gpucf reads 'sigmoid' and 'isotonic'"
        )
    on_raw = hasattr(part.estimator, "decision_function")
    curve = part.calibrators[0]
    if part.method == "sigmoid":
        is_float32 = not isinstance(curve.a_, np.floating) and _score_is_float32(obj, on_raw)
        if not np.isfinite([curve.a_, curve.b_]).all() or curve.a_ > 0.0:
            raise ModelError.unsupported(
                f"a CalibratedClassifierCV with a sigmoid of slope {float(curve.a_)!r}",
                "its probabilities fall as the model's own rise",
            )
        return Calibration(on_raw, is_float32, float(curve.a_), float(curve.b_))
    if not curve.increasing_ or curve.out_of_bounds != "clip":
        raise ModelError.unsupported(
            "a CalibratedClassifierCV with an isotonic curve that falls, or refuses scores", "fit it anew"
        )
    x, y = np.asarray(curve.X_thresholds_), np.asarray(curve.y_thresholds_)
    return Calibration(
        on_raw, x.dtype == np.float32, x=tuple(x.astype(np.float64).tolist()), y=tuple(y.astype(np.float64).tolist())
    )


def _score_is_float32(obj: Any, on_raw: bool) -> bool:
    """Whether the wrapper is handed float32 scores: XGBoost's probabilities."""
    return not on_raw and type(innermost(obj)).__module__.split(".")[0] == "xgboost"


def _cutoff(obj: Any, inner: Ensemble) -> Cutoff:
    kind, estimator = common.kind(obj), inside(obj)
    is_fixed = kind == "FixedThresholdClassifier"
    wish = obj.response_method
    on_raw = wish == "decision_function" or (wish == "auto" and not hasattr(estimator, "predict_proba"))
    pos_label = obj.pos_label if is_fixed else obj._curve_scorer._get_pos_label()
    classes = np.asarray(obj.classes_).tolist()
    position = 1 if pos_label is None else classes.index(pos_label)
    threshold = obj.threshold if is_fixed else obj.best_threshold_
    if isinstance(threshold, str):  # "auto"
        threshold = 0.0 if on_raw else 0.5
    if not isinstance(threshold, np.generic) and _score_is_float32(obj, on_raw) and not is_calibrated(inner.outer):
        threshold = np.float32(threshold)  # NumPy compares a Python number in the dtype of the scores
    if position == 0 and inner.n_outputs > 1 and not is_calibrated(inner.outer):
        raise ModelError.unsupported(
            f"a {kind} with pos_label={pos_label!r} around {inner.model_type}",
            "the first of two class fractions decides then; give the other class as pos_label",
        )
    return Cutoff(on_raw, position, float(threshold))
