"""Calibrated probabilities and moved thresholds: read with scikit-learn's bits, and answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost
from loader_checks import check_bits
from random_pipelines import FINALS, final_model, random_frame, random_preprocessing
from sizes import count
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpucf
from gpucf._errors import ModelError, OptionError
from gpucf._labels import class_rule, labels_from_sums, probability_rule
from gpucf._loaders import load_model, open_judge
from gpucf._outer import Calibration, calibrated
from gpucf._predict import predict_sums


def make_table(rng: np.random.Generator, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    X = np.round(rng.normal(size=(n, 3)), 1)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) * 0.5 > 0).astype(int)


def wrappers(model: Any, X: Any, y: Any, rng: np.random.Generator) -> list[Any]:
    """A fitted model of each kind around a fitted model."""
    frozen = FrozenEstimator(model)
    sigmoid = CalibratedClassifierCV(frozen, method="sigmoid").fit(X, y)
    isotonic = CalibratedClassifierCV(frozen, method="isotonic").fit(X, y)
    p = float(np.round(rng.random(), 2))
    at = float(model.predict_proba(X)[0, 1])
    return [
        sigmoid,
        isotonic,
        FixedThresholdClassifier(frozen, threshold=p).fit(X, y),
        FixedThresholdClassifier(frozen, threshold=at).fit(X, y),
        FixedThresholdClassifier(FrozenEstimator(isotonic), threshold=p, pos_label=0).fit(X, y),
        FixedThresholdClassifier(FrozenEstimator(sigmoid), threshold="auto", response_method="predict_proba").fit(X, y),
        TunedThresholdClassifierCV(frozen, cv="prefit", refit=False).fit(X, y),
        CalibratedClassifierCV(FixedThresholdClassifier(frozen, threshold=0.3).fit(X, y), ensemble=False).fit(X, y),
    ]


@pytest.mark.parametrize("kind", FINALS)
def test_wrapped_models_are_read_bit_for_bit(kind: str) -> None:
    for seed in range(count(20)):
        rng = np.random.default_rng([seed, FINALS.index(kind)])
        X, y = make_table(rng)
        model = final_model(kind, rng, int(rng.integers(1, 9)), int(rng.integers(1, 4))).fit(X, y)
        for wrapped in wrappers(model, X, y, rng):
            ensemble = load_model(wrapped)
            judge = open_judge(wrapped, ensemble)
            check_bits(wrapped, X, ensemble=ensemble, judge=judge)
            sums = predict_sums(ensemble, X)
            assert np.array_equal(labels_from_sums(ensemble, class_rule(ensemble), sums), judge.class_index(X))
            for k in (0, 1):
                given = judge.probability(X)[:, k]  # float64, and a forest on one thread
                for p in (0.3, float(given[0])):
                    rule, label = probability_rule(ensemble, k, p)
                    assert np.array_equal(labels_from_sums(ensemble, rule, sums) == label, given >= p)


@pytest.mark.parametrize("kind", ["gb", "hist"])
def test_cutoff_of_the_raw_score(kind: str) -> None:
    rng = np.random.default_rng(3)
    X, y = make_table(rng)
    model = final_model(kind, rng, 5, 2).fit(X, y)
    for pos_label in (None, 0, 1):
        for at in (-0.5, 0.0, float(model.decision_function(X)[0])):
            wrapped = FixedThresholdClassifier(
                FrozenEstimator(model), threshold=at, response_method="decision_function", pos_label=pos_label
            ).fit(X, y)
            check_bits(wrapped, X, judge=open_judge(wrapped, load_model(wrapped)))
            rule = class_rule(load_model(wrapped))
            got = labels_from_sums(load_model(wrapped), rule, predict_sums(load_model(wrapped), X))
            assert np.array_equal(got, wrapped.predict(X))


def test_isotonic_curve_has_the_library_bits() -> None:
    """At, below and above each of its points, and between; in float64 and float32."""
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(5)
    for dtype in (np.float64, np.float32):
        for n in (1, 2, 40, 300):
            x, y = rng.random(n).astype(dtype), (rng.random(n) < 0.5).astype(float)
            curve = IsotonicRegression(out_of_bounds="clip").fit(x, y)
            points = curve.X_thresholds_
            assert points.dtype == dtype
            t = np.concatenate([points, np.nextafter(points, dtype(-9)), np.nextafter(points, dtype(9)),
                                rng.random(500).astype(dtype), np.array([-3, 3], dtype)])  # fmt: skip
            step = Calibration(
                False, dtype is np.float32, x=tuple(map(float, points)), y=tuple(map(float, curve.y_thresholds_))
            )
            assert np.array_equal(calibrated(step, t), curve.predict(t).astype(np.float64))


def test_a_condition_in_the_last_bit_of_an_isotonic_step_is_refused() -> None:
    """Where the rounded curve falls by its last bit, "probability >= p" is no half-line of scores."""
    from gpucf._outer import _joints, refuse_falls

    rng = np.random.default_rng(11)
    for _ in range(200):
        x, y = np.sort(rng.random(99)), np.sort(rng.random(99))
        x, y = x.astype(np.float32), y.astype(np.float32)
        step = Calibration(False, True, x=tuple(x.tolist()), y=tuple(y.tolist()))
        p = _joints(step)
        fall = np.flatnonzero(p[1:] < p[:-1])
        if len(fall):
            break
    high = p[fall[0]]
    with pytest.raises(OptionError, match="last bit"):
        refuse_falls((step,), "probability", lambda q: q[:, 1] >= high)
    refuse_falls((step,), "probability", lambda q: q[:, 1] >= high + 0.01)


def test_refusals_say_why() -> None:
    rng = np.random.default_rng(0)
    X, y = make_table(rng)
    forest = RandomForestClassifier(3, random_state=0)
    three = np.arange(len(y)) % 3
    fitted = RandomForestClassifier(3, random_state=0).fit(X, y)
    logits = xgboost.XGBClassifier(n_estimators=2, objective="binary:logitraw", n_jobs=1).fit(X, y)
    once = CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, y)
    reversed_ = CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, 1 - y)
    for model, words in [
        (CalibratedClassifierCV(forest, cv=2).fit(X, y), "2 calibrated models.*ensemble=False"),
        (CalibratedClassifierCV(forest, ensemble=False).fit(X, three), "3 classes"),
        (CalibratedClassifierCV(FrozenEstimator(fitted), method="temperature").fit(X, y), "temperature"),
        (CalibratedClassifierCV(FrozenEstimator(once)).fit(X, y), "around another"),
        (reversed_, "fall as the model"),
        (CalibratedClassifierCV(FrozenEstimator(logits), ensemble=False).fit(X, y), "does not read its probabilities"),
        (CalibratedClassifierCV(forest), "has not been fitted"),
        (TunedThresholdClassifierCV(forest), "has not been fitted"),
        (FixedThresholdClassifier(FrozenEstimator(fitted), pos_label=0).fit(X, y), "pos_label=0"),
    ]:
        with pytest.raises(ModelError, match=words):
            load_model(model)
    with pytest.raises(OptionError, match="iterations is 2"):
        load_model(once, iterations=2)


def test_calibrated_pipelines_inside_and_outside() -> None:
    """A calibrated model at the end of a pipeline, and a pipeline inside a calibrated model with a threshold."""
    rng = np.random.default_rng(1)
    frame, y = random_frame(rng, holes=False)
    for kind in ("forest", "hist", "xgb"):
        before = random_preprocessing(np.random.default_rng(4), holes=False).set_params(sparse_threshold=0.0)
        model = final_model(kind, rng, 5, 3)
        inside = make_pipeline(before, CalibratedClassifierCV(model, ensemble=False, cv=3)).fit(frame, y)
        outside = TunedThresholdClassifierCV(
            CalibratedClassifierCV(make_pipeline(before, model), ensemble=False, cv=3, method="isotonic"), cv=2
        ).fit(frame, y)
        for pipeline in (inside, outside):
            engine = gpucf.Engine(pipeline, frame)
            for target in ("opposite", "probability >= 0.6"):
                result = engine.query(frame.iloc[:40], target=target)
                assert set(result.status) <= {"optimal", "already", "infeasible"}
                done = np.isin(result.status, ["optimal", "already"])
                assert result.verified_by.startswith("scikit-learn")
                answers = result.counterfactuals[done]
                if target == "opposite":
                    assert (pipeline.predict(answers) != pipeline.predict(frame.iloc[:40])[done]).all()
                else:
                    assert (pipeline.predict_proba(answers)[:, 1] >= 0.6).all()


def test_a_scaled_model_alone_keeps_names_by_position() -> None:
    rng = np.random.default_rng(2)
    X, y = make_table(rng)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, y)
    result = gpucf.Engine(pipeline, X).query(X[:20])
    assert (pipeline.predict(result.counterfactuals) != pipeline.predict(X[:20])).all()
