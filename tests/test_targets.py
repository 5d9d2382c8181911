"""Targets beyond a class: ranges of probabilities and scores, several at once, by row, with margins; and agreement.

Map = search = oracle, bit for bit; and what comes back is judged by the libraries' own predict in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_checks import check_query
from random_models import KINDS, random_model
from sizes import count

import gpucf
from gpucf._errors import ModelError, OptionError
from gpucf._labels import class_rule
from gpucf._targets import raw_bound


def random_range(rng: np.random.Generator, values: np.ndarray) -> dict[str, float]:
    """Limits that hold of some of the values: from among them, or between."""
    low, high = np.sort(rng.choice(values, 2))
    lower = {str(rng.choice(["at_least", "above"])): float(low)} if rng.random() < 0.7 else {}
    upper = {str(rng.choice(["at_most", "below"])): float(high)} if not lower or rng.random() < 0.5 else {}
    both = {**lower, **upper}
    if lower and upper and low == high:
        return {"at_least": float(low)}
    return both


def small(rng: np.random.Generator, regression: bool = False, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    X = np.round(rng.normal(size=(60, 3)), 1).astype(dtype)
    y = X @ rng.normal(size=3) + rng.normal(size=60) / 4
    return X, y if regression else (y > 0).astype(int)


def regressors() -> dict[str, Any]:
    import lightgbm
    import xgboost
    from sklearn import ensemble

    return {
        "xgboost": lambda: xgboost.XGBRegressor(n_estimators=4, max_depth=2, n_jobs=1),
        "lightgbm": lambda: lightgbm.LGBMRegressor(
            n_estimators=4, num_leaves=4, min_child_samples=5, n_jobs=1, verbose=-1
        ),
        "forest": lambda: ensemble.RandomForestRegressor(4, max_depth=2, random_state=0),
        "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=4, max_depth=2, random_state=0),
        "hist": lambda: ensemble.HistGradientBoostingRegressor(max_iter=4, max_depth=2, min_samples_leaf=5),
    }


@pytest.mark.parametrize("name", sorted(["xgboost", "lightgbm", "forest", "gradient", "hist"]))
def test_ranges_of_a_regression(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(count(40)):
        X, y = small(rng, regression=True)
        model = regressors()[name]().fit(X, y)
        engine = gpucf.Engine(model, background=X)
        limits = random_range(rng, model.predict(X))
        result = check_query(engine, X[:5], gpucf.Score(**limits), cost=str(rng.choice(["l1", "l2", "linf", "l0"])))
        found = np.isin(result.status, ["optimal", "already"])
        said = np.asarray(model.predict(result.counterfactuals), np.float64)[found]
        assert (said >= limits.get("at_least", -np.inf)).all() and (said > limits.get("above", -np.inf)).all()
        assert (said <= limits.get("at_most", np.inf)).all() and (said < limits.get("below", np.inf)).all()
        # What was called already, or was found, holds; what was refused does not hold of any row of the data.
        assert found.any() or not np.isin(model.predict(X), said).any()


def rankers() -> dict[str, Any]:
    import catboost
    import lightgbm
    import xgboost

    return {
        "xgboost": lambda: xgboost.XGBRanker(n_estimators=4, max_depth=2, n_jobs=1),
        "lightgbm": lambda: lightgbm.LGBMRanker(
            n_estimators=4, num_leaves=4, min_child_samples=5, n_jobs=1, verbose=-1
        ),
        "catboost": lambda: catboost.CatBoostRanker(
            iterations=4, depth=2, verbose=False, allow_writing_files=False, thread_count=1
        ),
    }


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_scores_of_rankings(name: str) -> None:
    """Raw scores only: a ranking has neither classes nor probabilities."""
    rng = np.random.default_rng(len(name))
    for _ in range(count(30)):
        X, y = small(rng)
        y += X[:, 1] > 0.5
        group = {"group_id": np.repeat([0, 1, 2], 20)} if name == "catboost" else {"group": [20, 20, 20]}
        model = rankers()[name]().fit(X, y, **group)
        engine = gpucf.Engine(model, background=X)
        limits = random_range(rng, np.asarray(model.predict(X), np.float64))
        result = check_query(engine, X[:4], gpucf.Score(**limits))
        assert name in result.verified_by
        said = np.asarray(model.predict(result.counterfactuals), np.float64)
        said = said[np.isin(result.status, ["optimal", "already"])]
        assert (said >= limits.get("at_least", -np.inf)).all() and (said > limits.get("above", -np.inf)).all()
        assert (said <= limits.get("at_most", np.inf)).all() and (said < limits.get("below", np.inf)).all()
    for target, message in [("p >= 0.5", "gives no probabilities"), ("opposite", "predicts numbers"), (1, "predicts")]:
        with pytest.raises(OptionError, match=message):
            engine.query(X[:1], target)


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_of_probabilities(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(count(30)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X)
        if engine.judge is None or engine.ensemble.probability == "none":
            return
        p = engine.judge.probability(X)
        k = int(rng.integers(p.shape[1]))
        label = engine.ensemble.classes.tolist()[k]
        limits = {n: v for n, v in random_range(rng, p[:, k]).items() if 0.0 < v < 1.0}
        if not limits:
            continue
        result = check_query(engine, X[:4], gpucf.Probability(label=label, **limits))
        found = np.isin(result.status, ["optimal", "already"])
        said = engine.judge.probability(result.counterfactuals)[found, k].astype(np.float64)
        assert (said >= limits.get("at_least", -np.inf)).all() and (said > limits.get("above", -np.inf)).all()
        assert (said <= limits.get("at_most", np.inf)).all() and (said < limits.get("below", np.inf)).all()


@pytest.mark.parametrize("kind", [k for k in KINDS if k.endswith("multi")])
def test_sets_of_classes_and_mixtures(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(count(30)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X)
        classes = engine.ensemble.classes.tolist()
        chosen = [classes[i] for i in rng.choice(len(classes), 2, replace=False)]
        result = check_query(engine, X[:4], chosen)
        assert engine.judge is not None
        said = [classes[i] for i in engine.judge.class_index(result.counterfactuals)]
        assert all(s in chosen for s, status in zip(said, result.status, strict=True) if status != "infeasible")
        likely = gpucf.Probability(at_least=0.4, label=chosen[0])
        check_query(engine, X[:4], gpucf.AllOf(chosen[0], likely))
        check_query(engine, X[:4], gpucf.AnyOf(chosen[1], likely, gpucf.Probability(below=0.2, label=chosen[1])))


@pytest.mark.parametrize("kind", ["xgb", "forest", "hist"])
def test_targets_by_row(kind: str) -> None:
    rng = np.random.default_rng(5)
    model, X = random_model(kind, rng)
    engine = gpucf.Engine(model, background=X)
    classes = engine.ensemble.classes.tolist()
    wishes = np.array([classes[0], classes[1], "p >= 0.3", gpucf.Probability(below=0.6), "opposite"], dtype=object)
    rows = X[:5]
    together = check_query(engine, rows, wishes)
    for i, wish in enumerate(wishes):
        alone = engine.query(rows[i : i + 1], wish)
        assert alone.status[0] == together.status[i] and alone.cost[0] == together.cost[i]
    with pytest.raises(OptionError, match="3 entries for 5 rows"):
        engine.query(rows, np.array([0, 1, 0]))


@pytest.mark.parametrize("kind", ["xgb", "hist", "gb", "lgbm"])
def test_a_margin_raises_the_bar(kind: str) -> None:
    rng = np.random.default_rng(9)
    for _ in range(count(30)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X)
        plain = engine.query(X[:6], "opposite")
        wide = check_query(engine, X[:6], "opposite", margin=0.125)
        assert (wide.cost >= plain.cost).all()
        assert engine.judge is not None
        raw = engine.judge.raw(wide.counterfactuals)[:, 0].astype(np.float64)
        found = wide.status == "optimal"
        just = raw_bound(engine.ensemble, class_rule(engine.ensemble))
        assert ((raw >= just + 0.125) | (raw < just - 0.125))[found].all()


def test_models_that_must_agree() -> None:
    import lightgbm
    import xgboost
    from sklearn.ensemble import IsolationForest, RandomForestClassifier

    rng = np.random.default_rng(3)
    dearer = 0
    for number in range(count(50)):
        X, y = small(rng)
        makers = [
            lambda: xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1),
            lambda: RandomForestClassifier(3, max_depth=2, random_state=0),
            lambda: lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, min_child_samples=5, n_jobs=1, verbose=-1),
        ]
        main, other = (makers[i]() for i in rng.choice(3, 2, replace=False))
        half = rng.random(len(X)) < 0.6
        main.fit(X, y), other.fit(X[half], y[half])
        forest = IsolationForest(n_estimators=3, max_samples=16, random_state=number).fit(X)
        threshold = float(np.quantile(forest.decision_function(X), 0.2))
        options: dict[str, Any] = [
            {"agree": [other]},
            {"agree": [(other, gpucf.Probability(at_least=0.55))]},
            {"plausible": (forest, threshold)},
            {"min_support": 4},
            {"agree": [other], "plausible": (forest, threshold), "min_support": 2},
        ][number % 5]
        rows = np.round(rng.normal(size=(4, 3)), 1)
        engine = gpucf.Engine(main, background=X, **options)
        cost = str(rng.choice(["l1", "linf"]))
        result = check_query(engine, rows, cost=cost)
        found = result.status == "optimal"
        after = result.counterfactuals[found]
        if len(after):
            assert (main.predict(after) != main.predict(rows[found])).all()
            if options.get("agree") == [other]:
                assert np.array_equal(other.predict(after), main.predict(after))
            if "plausible" in options:
                assert (forest.decision_function(after) >= threshold).all()
        plain = gpucf.Engine(main, background=X).query(rows, cost=cost)
        assert (plain.cost <= result.cost).all()
        dearer += int((plain.cost < result.cost).sum())
    assert dearer


@pytest.mark.parametrize("kind", [k for k in KINDS if k.endswith("multi")] + ["forest"])
def test_a_margin_is_a_lead_where_each_class_has_a_score(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)) + 5)
    dearer = 0
    for _ in range(count(30)):
        model, X = random_model(kind, rng)
        engine = gpucf.Engine(model, background=X)
        assert engine.judge is not None and engine.ensemble.n_outputs > 1
        margin = float(rng.choice([0.01, 0.1, 0.3, 1e-9]))
        for target in ("any_other", engine.ensemble.classes.tolist()[0]):
            result = check_query(engine, X[:4], target, margin=margin)
            found = np.isin(result.status, ["optimal", "already"])
            raw = np.sort(np.asarray(engine.judge.raw(result.counterfactuals), np.float64)[found], axis=1)
            assert (raw[:, -1] - raw[:, -2] >= margin).all()
            dearer += int((engine.query(X[:4], target).cost < result.cost).sum())
    assert dearer


def test_what_is_refused_by_name() -> None:
    import xgboost
    from sklearn.ensemble import IsolationForest

    rng = np.random.default_rng(0)
    X, y = small(rng)
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y)
    engine = gpucf.Engine(model, background=X)
    for target, message in [
        (gpucf.Probability(at_least=0.5, label="maybe"), "not a class"),
        ("probability >= much", "no number"),
        ([], "empty"),
        ("nonsense", "not a class"),
        (gpucf.Score(at_least=0.0, label=0), "one score"),
    ]:
        with pytest.raises(OptionError, match=message):
            engine.query(X[:1], target)
    with pytest.raises(OptionError, match="lies above"):
        gpucf.Score(at_least=2.0, below=1.0)
    with pytest.raises(OptionError, match=r"at_least='0\.5'"):
        gpucf.Probability("0.5")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no limit"):
        gpucf.Probability()
    with pytest.raises(OptionError, match="margin is -1"):
        engine.query(X[:1], margin=-1)
    with pytest.raises(OptionError, match="min_support is 0"):
        gpucf.Engine(model, background=X, min_support=0)
    with pytest.raises(OptionError, match="background"):
        gpucf.Engine(model, min_support=2)
    with pytest.raises(ModelError, match="IsolationForest"):
        gpucf.Engine(model, background=X, plausible=model)
    with pytest.raises(ModelError, match="has 2 columns"):
        gpucf.Engine(model, background=X, plausible=IsolationForest(n_estimators=2).fit(X[:, :2]))
    agreeing = gpucf.Engine(model, background=X, agree=[model])
    with pytest.raises(OptionError, match="agree="):
        agreeing.query(X[:1], gpucf.Probability(0.7))
