"""scikit-learn's trees, forests and boosting, read and compared with the installed library, bit for bit."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from loader_checks import DEPTHS, SEEDS, check_bits, compare
from sklearn import ensemble as ens
from sklearn import tree as trees
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV

from gpucf._errors import ModelError, OptionError
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders import load_model, open_judge
from gpucf._loaders import sklearn as loader
from gpucf._predict import predict_raw


def make_table(seed: int, n: int = 300, n_features: int = 4) -> np.ndarray:
    """Half of the columns on a grid of tenths (so that thresholds fall between and rows tie), half continuous."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[:, ::2] = np.round(X[:, ::2], 1)
    return X


def make_classes(X: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed + 1000)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=len(X))
    return np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def with_holes(X: np.ndarray, seed: int) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(seed + 2000).random(X.shape) < 0.15] = np.nan
    return X


def check(model: Any, X: np.ndarray, **options: Any) -> int:
    return check_bits(model, X, ensemble=loader.from_object(model), **options)


FORESTS = [
    ens.RandomForestClassifier,
    ens.RandomForestRegressor,
    ens.ExtraTreesClassifier,
    ens.ExtraTreesRegressor,
]
TREES = [
    trees.DecisionTreeClassifier,
    trees.DecisionTreeRegressor,
    trees.ExtraTreeClassifier,
    trees.ExtraTreeRegressor,
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", [*TREES, *FORESTS], ids=lambda k: k.__name__)
def test_case_07_trees_and_forests(kind: Any, depth: int, seed: int) -> None:
    X = make_table(seed)
    size = {"n_estimators": 9} if kind in FORESTS else {}
    for n_classes in (2, 4):
        model = kind(max_depth=depth, random_state=seed, **size).fit(X, make_classes(X, n_classes, seed))
        assert check(model, X) > 300


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_case_07_gradient_boosting_binary(loss: str, depth: int, seed: int) -> None:
    X = make_table(seed)
    y = make_classes(X, 2, seed)
    for init in (None, "zero"):
        model = ens.GradientBoostingClassifier(
            n_estimators=12, max_depth=depth, loss=loss, init=init, random_state=seed
        )
        check(model.fit(X, y), X)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_case_07_gradient_boosting_regression(loss: str, depth: int, seed: int) -> None:
    X = make_table(seed)
    model = ens.GradientBoostingRegressor(
        n_estimators=12, max_depth=depth, loss=loss, learning_rate=0.3, random_state=seed
    )
    check(model.fit(X, X[:, 0] * 3 + X[:, 1]), X)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_case_07_hist_gradient_boosting(n_classes: int, depth: int, seed: int) -> None:
    X = with_holes(make_table(seed), seed)
    y = make_classes(np.nan_to_num(X), n_classes, seed)
    model = ens.HistGradientBoostingClassifier(max_iter=8, max_depth=depth, min_samples_leaf=5, random_state=seed)
    check(model.fit(X, y), X)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "gamma", "poisson", "quantile"])
def test_case_07_hist_gradient_boosting_regression(loss: str, seed: int) -> None:
    X = make_table(seed)
    model = ens.HistGradientBoostingRegressor(max_iter=8, max_depth=3, loss=loss, quantile=0.3, random_state=seed)
    model.fit(X, np.exp(X[:, 0]) + 0.1)
    read = loader.from_object(model)
    check_bits(model, X, ensemble=read)
    assert bool(read.notes) == (loss in ("gamma", "poisson"))


@pytest.mark.parametrize("n_classes", [3, 7, 8, 11, 17])
@pytest.mark.parametrize("kind", [ens.GradientBoostingClassifier, ens.HistGradientBoostingClassifier])
def test_softmax_follows_numpy_whatever_the_number_of_classes(kind: Any, n_classes: int) -> None:
    """From eight classes on NumPy adds in lanes, unless the table is laid out by column."""
    X = make_table(3, n=400)
    y = make_classes(X, n_classes, 3)
    size = "n_estimators" if kind is ens.GradientBoostingClassifier else "max_iter"
    model = kind(**{size: 3}, max_depth=2, learning_rate=0.5, random_state=0).fit(X, y)
    check(model, X)
    read = loader.from_object(model)
    judge = loader.judge(model, read)
    for i in range(20):  # a row alone gets the bits that it gets in a table
        compare(read, judge, X[i : i + 1], X[i : i + 1])


def test_more_classes_than_the_compiled_sum_can_add() -> None:
    X = make_table(0, n=280)
    model = ens.GradientBoostingClassifier(n_estimators=1, max_depth=1).fit(X, np.arange(280) % 130)
    read = loader.from_object(model)
    assert read.probability == "none" and "128" in read.notes[0]
    check(model, X, max_rows=300)


@pytest.mark.parametrize("seed", SEEDS)
def test_case_45_missing_in_training(seed: int) -> None:
    """NaN goes where training sent it, in columns that had none in training too."""
    X = with_holes(make_table(seed), seed)
    X[:, 3] = make_table(seed)[:, 3]
    y = make_classes(np.nan_to_num(X), 2, seed)
    for kind in (*TREES, *FORESTS):
        read = loader.from_object(kind(max_depth=5, random_state=seed).fit(X, y))
        assert read.allows_missing.all()
        assert read.missing_left.any() and not read.missing_left[read.left >= 0].all()
        check(kind(max_depth=5, random_state=seed).fit(X, y), X)


def test_case_42_missing_without_missing_in_training() -> None:
    """A tree of version 1.9 accepts NaN everywhere; gradient boosting and some criteria refuse it."""
    X = make_table(0)
    y = make_classes(X, 2, 0)
    forest = ens.RandomForestClassifier(5, random_state=0).fit(X, y)
    assert loader.from_object(forest).allows_missing.all()
    forest.predict(np.full((1, 4), np.nan))
    check(forest, X)
    boosted = ens.GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)
    assert not loader.from_object(boosted).allows_missing.any()
    with pytest.raises(ValueError, match="NaN"):
        boosted.predict(np.full((1, 4), np.nan))
    absolute = trees.DecisionTreeRegressor(criterion="absolute_error", max_depth=3, random_state=0).fit(X, X[:, 0])
    supports = absolute._support_missing_values(X)
    assert loader.from_object(absolute).allows_missing.all() == supports
    hist = ens.HistGradientBoostingClassifier(max_iter=4, random_state=0).fit(X, y)
    assert loader.from_object(hist).allows_missing.all()
    check(hist, X)


def test_case_57_single_leaf_trees() -> None:
    X = np.ones((40, 3))
    y = np.arange(40) % 2
    for kind in (*TREES, *FORESTS, ens.GradientBoostingClassifier, ens.GradientBoostingRegressor):
        model = kind(random_state=0).fit(X, y)
        assert len(loader.from_object(model).left) == loader.from_object(model).n_trees
        check(model, X)
    for kind in (ens.HistGradientBoostingClassifier, ens.HistGradientBoostingRegressor):
        model = kind(max_iter=3, min_samples_leaf=30).fit(make_table(0, 40), y)
        check(model, make_table(0, 40))


@pytest.mark.parametrize("seed", SEEDS)
def test_case_68_multi_class_with_string_labels(seed: int) -> None:
    X = make_table(seed)
    y = np.array(["low", "middle", "high"])[make_classes(X, 3, seed)]
    for model in (
        ens.RandomForestClassifier(8, max_depth=4, random_state=seed),
        ens.GradientBoostingClassifier(n_estimators=6, random_state=seed),
        ens.HistGradientBoostingClassifier(max_iter=6, random_state=seed),
        trees.DecisionTreeClassifier(max_depth=4, random_state=seed),
    ):
        read = loader.from_object(model.fit(X, y))
        assert read.classes is not None and read.classes.tolist() == ["high", "low", "middle"]
        check(model, X)


def test_case_70_fractions_with_any_weights() -> None:
    X = make_table(0)
    y = make_classes(X, 3, 0)
    weight = np.random.default_rng(0).uniform(0.1, 5, len(X))
    for options in ({}, {"class_weight": "balanced"}, {"class_weight": {0: 1, 1: 7, 2: 0.3}}):
        model = ens.RandomForestClassifier(7, max_depth=4, random_state=0, **options).fit(X, y, sample_weight=weight)
        read = loader.from_object(model)
        assert np.all(np.abs(read.leaf_value.sum(axis=1) - 1) < 1e-9)
        check(model, X)


def test_case_70_counts_of_an_old_version_are_refused() -> None:
    X = make_table(0)
    model = trees.DecisionTreeClassifier(max_depth=2).fit(X, make_classes(X, 2, 0))
    state = model.tree_.__getstate__()
    state["values"] = state["values"] * 300
    model.tree_.__setstate__(state)
    with pytest.raises(ModelError, match="counts"):
        loader.from_object(model)


@pytest.mark.parametrize("seed", SEEDS)
def test_case_72_margins_next_to_zero(seed: int) -> None:
    """Move the base so that rows land on 0 and within a few ulp of it: > 0 and >= 0 must be told apart."""
    X = make_table(seed)
    y = make_classes(X, 2, seed)
    hist = ens.HistGradientBoostingClassifier(max_iter=5, max_depth=2, random_state=seed).fit(X, y)
    boosted = ens.GradientBoostingClassifier(n_estimators=1, max_depth=2, init="zero", random_state=seed).fit(X, y)
    boosted.learning_rate = 1.0
    at_zero = 0
    for row in X[:5]:
        start = -float(hist._raw_predict(row.reshape(1, -1))[0, 0] - hist._baseline_prediction[0, 0])
        for value in (start, np.nextafter(start, -1), np.nextafter(start, 1), start - 1e-5, start + 1e-5):
            hist._baseline_prediction[0, 0] = value
            at_zero += int((hist._raw_predict(X) == 0).sum())
            check(hist, X)
    leaf = boosted.estimators_[0, 0].tree_.value
    for value in (0.0, -0.0, 5e-324, -5e-324, 1e-17, -1e-17, 1e-5):
        leaf[:] = value
        at_zero += int((boosted.decision_function(X) == 0).sum())
        check(boosted, X)
    assert at_zero > 0


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-17, 1e-16, 2.3e-16, 36.7, 37.0, 700.0, 709.5, 710.0, 745.2, 800.0])
def test_expit_at_its_extremes(value: float) -> None:
    X = make_table(0)
    y = make_classes(X, 2, 0)
    for sign in (1.0, -1.0):
        hist = ens.HistGradientBoostingClassifier(max_iter=1, max_depth=2).fit(X, y)
        hist._baseline_prediction[0, 0] = sign * value
        check(hist, X)
        boosted = ens.GradientBoostingClassifier(n_estimators=1, max_depth=2, init="zero", loss="exponential").fit(X, y)
        boosted.estimators_[0, 0].tree_.value[:] = sign * value
        check(boosted, X)


def category_frame(seed: int, n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.round(rng.normal(size=n), 1),
            "job": pd.Categorical(rng.choice(list("abcdefg"), n)),
            "pay": rng.normal(size=n),
            "code": pd.Categorical(rng.choice([3, 5, 9, 40], n)),
        }
    )
    y = (frame["job"].isin(["a", "d", "g"]).to_numpy().astype(int) + (frame["code"] == 9) + (frame["age"] > 0)) > 1
    frame.loc[rng.random(n) < 0.1, "job"] = None
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    return frame, y.to_numpy().astype(int)


def coded(frame: pd.DataFrame, categories: tuple[np.ndarray | None, ...]) -> np.ndarray:
    out = np.empty(frame.shape)
    for j, name in enumerate(frame.columns):
        values = categories[j]
        if values is None:
            out[:, j] = frame[name]
            continue
        code = {v: i for i, v in enumerate(values.tolist())}
        out[:, j] = [code.get(v, np.nan) for v in frame[name].tolist()]
    return out


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("seed", SEEDS)
def test_hist_categories_of_a_frame(seed: int, depth: int) -> None:
    frame, y = category_frame(seed)
    for kind in (ens.HistGradientBoostingClassifier, ens.HistGradientBoostingRegressor):
        model = kind(max_iter=10, max_depth=depth, categorical_features="from_dtype", min_samples_leaf=5).fit(frame, y)
        read = loader.from_object(model)
        assert [c is None for c in read.categories] == [True, False, True, False]
        assert read.categories[1].tolist() == list("abcdefg") and read.categories[3].tolist() == [3, 5, 9, 40]
        assert read.has_names and read.feature_names == ("age", "job", "pay", "code")
        assert (read.category_set >= 0).any()
        check(model, coded(frame, read.categories))


def test_hist_categories_of_an_array_with_early_stopping() -> None:
    """Categories by index, values as floats, some only in the rows held out by early stopping."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 60, 300) * 2.0])
    X[::17, 1] = np.nan
    y = (np.nan_to_num(X[:, 1]) % 7 + X[:, 0] > 3).astype(int)
    model = ens.HistGradientBoostingClassifier(
        max_iter=8,
        categorical_features=[1],
        early_stopping=True,
        validation_fraction=0.5,
        random_state=0,
        min_samples_leaf=2,
    ).fit(X, y)
    read = loader.from_object(model)
    assert read.categories[1].dtype == np.float64 and not np.isnan(read.categories[1]).any()
    values = read.categories[1]

    def decode(_: Any, rows: np.ndarray) -> np.ndarray:
        codes = np.where(np.isnan(rows[:, 1]), 0, rows[:, 1]).astype(int)
        return np.column_stack([rows[:, 0], np.where(np.isnan(rows[:, 1]), np.nan, values[codes])])

    index = {v: i for i, v in enumerate(values.tolist())}
    check(model, np.column_stack([X[:, 0], [index.get(v, np.nan) for v in X[:, 1]]]), decode=decode)


def test_hist_codes_unknown_to_the_trees_follow_missing() -> None:
    """A category that the encoder knows and the bin mapper does not goes where missing values go."""
    frame, y = category_frame(0)
    model = ens.HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(frame, y)
    mapper = model._bin_mapper
    seen = [j for j, c in enumerate(mapper.is_categorical_) if c]
    mapper.bin_thresholds_[seen[0]] = mapper.bin_thresholds_[seen[0]][:-2]
    read = loader.from_object(model)
    check(model, coded(frame, read.categories))


def test_thresholds_cut_float32_where_float64_does() -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=500).astype(np.float32)
    threshold = np.concatenate(
        [
            exact,
            np.nextafter(exact.astype(float), 9),
            np.nextafter(exact.astype(float), -9),
            rng.normal(size=500) * 1e-42,
        ]
    )
    threshold = np.concatenate([threshold, [1e300, -1e300, 0.0, -0.0, 3.5e38, -3.5e38, 1e-50, -1e-50]])
    last = common.last_float32_left(threshold)
    for t, left in zip(threshold, last, strict=True):
        around = np.float32(np.clip(t, -3e38, 3e38))
        for x in (around, np.nextafter(around, np.float32(-np.inf)), np.nextafter(around, np.float32(np.inf))):
            assert (float(x) <= t) == (float(x) <= left), (t, left, x)


def test_iterations_follow_the_rounds() -> None:
    X = make_table(0)
    y = make_classes(X, 3, 0)
    for model in (
        ens.GradientBoostingClassifier(n_estimators=6, random_state=0).fit(X, y),
        ens.HistGradientBoostingClassifier(max_iter=6, random_state=0).fit(X, y),
    ):
        read = loader.from_object(model, 2)
        assert read.n_trees == 6
        check_bits(model, X, ensemble=read)
        staged = list(model.staged_decision_function(X))[1]
        assert np.array_equal(predict_raw(read, X), staged)
        assert loader.from_object(model, "all").n_trees == 18
    with pytest.raises(OptionError, match="iterations is 2"):
        loader.from_object(ens.RandomForestClassifier(3).fit(X, y), 2)


def test_the_judge_changes_nothing_and_uses_one_thread() -> None:
    X = make_table(0)
    model = ens.RandomForestClassifier(9, n_jobs=2, random_state=0).fit(X, make_classes(X, 2, 0))
    before = pickle.dumps(model)
    read = loader.from_object(model)
    judge = loader.judge(model, read)
    judge.class_index(X)
    assert model.n_jobs == 2 and pickle.dumps(model) == before
    assert judge.name.startswith("scikit-learn ")
    compare(read, judge, X, X)


def test_refusals_say_why() -> None:
    X = make_table(0, 60)
    y = make_classes(X, 2, 0)
    forest = ens.RandomForestClassifier(2)
    for model, words in [
        (ens.AdaBoostClassifier(n_estimators=2).fit(X, y), "AdaBoostClassifier.*vote"),
        (ens.BaggingClassifier(n_estimators=2).fit(X, y), "BaggingClassifier.*random forest"),
        (ens.StackingClassifier([("a", forest)], cv=2).fit(X, y), "StackingClassifier"),
        (GridSearchCV(forest, {"max_depth": [1]}, cv=2).fit(X, y), "best_estimator_"),
        (LogisticRegression().fit(X, y), "LogisticRegression"),
        (ens.IsolationForest(n_estimators=2).fit(X), "IsolationForest"),
        (ens.RandomForestClassifier(2).fit(X, y * 0), "one class"),
        (ens.RandomForestRegressor(2).fit(X, X[:, :2]), "2 outputs"),
        (ens.RandomForestClassifier(2).fit(X, np.c_[y, y]), "2 outputs"),
        (ens.RandomForestClassifier(2), "fit"),
        (ens.HistGradientBoostingClassifier(), "fit"),
        (
            ens.GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, X[:, 0]),
            "init=LinearRegression",
        ),
        (
            ens.GradientBoostingClassifier(n_estimators=2, init=DummyClassifier(strategy="stratified")).fit(X, y),
            "init=",
        ),
    ]:
        assert loader.claims(model)
        with pytest.raises(ModelError, match=words):
            loader.from_object(model)

    class Mine(ens.RandomForestClassifier):
        pass

    assert loader.claims(Mine()) and not loader.claims(object())
    with pytest.raises(ModelError, match="derives from RandomForestClassifier"):
        loader.from_object(Mine(2).fit(X, y))


def test_pickles_need_trust(tmp_path: Any) -> None:
    X = make_table(0)
    model = ens.HistGradientBoostingClassifier(max_iter=3).fit(X, make_classes(X, 2, 0))
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    (tmp_path / "old.pkl").write_bytes(pickle.dumps(model, protocol=0))
    (tmp_path / "no_suffix").write_bytes(pickle.dumps(model))
    joblib.dump(model, tmp_path / "m.joblib")
    for compress in ("zlib", "gzip", "bz2", "xz"):
        joblib.dump(model, tmp_path / f"m.{compress}", compress=(compress, 3))
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(ModelError, match="trust_pickle"):
            load_model(path)
        with pytest.raises(ModelError, match="trust_pickle"):
            open_judge(path, loader.from_object(model))
        read = load_model(str(path), trust_pickle=True)
        assert read.digest() == loader.from_object(model).digest()
        judge = open_judge(path, read, trust_pickle=True)
        assert judge is not None
        compare(read, judge, X, X)


def test_a_pickle_may_hold_a_model_of_any_library(tmp_path: Any) -> None:
    catboost = pytest.importorskip("catboost")
    X = make_table(0)
    model = catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False).fit(
        X, make_classes(X, 2, 0)
    )
    joblib.dump(model, tmp_path / "cat.joblib")
    read = load_model(tmp_path / "cat.joblib", trust_pickle=True)
    assert read.library == "catboost"
    compare(read, open_judge(tmp_path / "cat.joblib", read, trust_pickle=True), X, X)


def test_skops_files(tmp_path: Any) -> None:
    X = make_table(0)
    y = make_classes(X, 2, 0)
    frame, target = category_frame(0)
    for model in (
        ens.RandomForestClassifier(3, random_state=np.random.RandomState(0)).fit(X, y),
        trees.DecisionTreeRegressor(max_depth=3).fit(X, y),
        ens.GradientBoostingClassifier(n_estimators=3).fit(X, y),
        ens.HistGradientBoostingClassifier(max_iter=3).fit(X, make_classes(X, 3, 0)),
        ens.HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype").fit(frame, target),
    ):
        path = tmp_path / "m.skops"
        skops.io.dump(model, path)
        read = load_model(path)
        assert read.digest() == loader.from_object(model).digest()
        assert open_judge(path, read) is not None


class Foreign:
    def __init__(self) -> None:
        self.a = 1


def test_skops_files_with_foreign_types_are_refused_by_name(tmp_path: Any) -> None:
    X = make_table(0)
    model = ens.RandomForestClassifier(2).fit(X, make_classes(X, 2, 0))
    model.extra = Foreign()
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="Foreign"):
        load_model(tmp_path / "m.skops")


def test_damaged_files(tmp_path: Any) -> None:
    X = make_table(0)
    model = ens.RandomForestClassifier(2, max_depth=2).fit(X, make_classes(X, 2, 0))
    skops.io.dump(model, tmp_path / "m.skops")
    joblib.dump(model, tmp_path / "m.joblib")
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    rng = np.random.default_rng(0)
    for name, data in whole.items():
        for n in [5, 50, *rng.integers(1, len(data) - 1, 6).tolist()]:
            (tmp_path / name).write_bytes(data[:n])
            with pytest.raises(ModelError):
                load_model(tmp_path / name, trust_pickle=True)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps("a word"))
    with pytest.raises(ModelError, match="str"):
        load_model(tmp_path / "m.pkl", trust_pickle=True)
    (tmp_path / "m.pkl").write_bytes(b"")
    with pytest.raises(ModelError, match="empty"):
        load_model(tmp_path / "m.pkl", trust_pickle=True)
    with pytest.raises(ModelError, match="cannot read"):
        load_model(tmp_path / "nowhere.pkl")
