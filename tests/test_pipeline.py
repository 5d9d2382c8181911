"""Pipelines: read in raw columns with the library's bits, and answered there."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skops.io
import xgboost
from engine_checks import check_query
from loader_checks import compare, probe_values, rows_around_thresholds
from random_pipelines import FINALS, final_model, random_frame, random_pipeline
from sizes import count
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import gpucf
from gpucf._cli import main
from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, OptionError, TableError
from gpucf._loaders import load_model, open_judge
from gpucf._table import read_table

DATA = Path(__file__).parent / "data"


def raw_frame(ensemble: Ensemble, rows: np.ndarray) -> pd.DataFrame:
    """Coded rows as a frame of raw values."""
    columns: dict[str, Any] = {}
    for j, name in enumerate(ensemble.feature_names):
        known = ensemble.categories[j]
        if known is None:
            columns[name] = rows[:, j]
            continue
        if ensemble.raw is not None and ensemble.raw.unknown[j] and not isinstance(known[0], str):
            known = np.append(known[:-1], 999)  # a number that is no level
        cells = np.append(known.astype(object), np.nan)[np.where(np.isnan(rows[:, j]), -1, rows[:, j]).astype(int)]
        is_text = any(isinstance(v, str) for v in known)
        columns[name] = cells if is_text or np.isnan(rows[:, j]).any() else cells.astype(known.dtype)
    return pd.DataFrame(columns)


def check_reading(pipeline: Any, frame: Any, rng: np.random.Generator) -> Ensemble:
    """Scores, classes and probabilities equal the pipeline's on rows around all thresholds, levels and holes."""
    ensemble = load_model(pipeline)
    X = read_table(frame, ensemble).values
    rows = rows_around_thresholds(ensemble, X, rng, 2)
    mixed = np.column_stack([rng.choice(probe_values(ensemble, j), 400) for j in range(ensemble.n_features)])
    rows = np.concatenate([rows, mixed])
    compare(ensemble, open_judge(pipeline, ensemble), rows, raw_frame(ensemble, rows))
    return ensemble


@pytest.mark.parametrize("kind", FINALS)
def test_random_pipelines_are_read_bit_for_bit(kind: str) -> None:
    for seed in range(count(60)):
        rng = np.random.default_rng([seed, FINALS.index(kind)])
        pipeline, frame = random_pipeline(kind, rng)
        check_reading(pipeline, frame, rng)


def pieces(frame: pd.DataFrame, y: Any, *parts: Any, model: Any = None, **options: Any) -> Any:
    """A fitted pipeline of `parts`, named ColumnTransformer entries, and a small model."""
    before = ColumnTransformer([(f"part{i}", *part) for i, part in enumerate(parts)], **options)
    model = DecisionTreeClassifier(max_depth=3) if model is None else model
    return Pipeline([("before", before), ("model", model)]).fit(frame, y)


def oracle_by_predict(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the brute-force oracle ask the pipeline, not gpucf's own predictor, on raw rows."""

    def labels(ensemble: Ensemble, rule: Any, rows: np.ndarray) -> np.ndarray:
        predicted = pipeline.predict(raw_frame(ensemble, rows))
        return np.searchsorted(pipeline.classes_, predicted).astype(np.int64)

    monkeypatch.setattr(oracle, "predict_sums", lambda ensemble, rows: rows)
    monkeypatch.setattr(oracle, "labels_from_sums", labels)


@pytest.mark.parametrize("kind", FINALS)
def test_answers_are_the_nearest_raw_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Map and search against brute force in raw space, where the pipeline itself labels every candidate."""
    costs = ("l1", "l2", "linf", "l0")
    asked = 0
    for seed in range(count(40)):
        rng = np.random.default_rng([seed, 77, FINALS.index(kind)])
        pipeline, frame = random_pipeline(kind, rng, trees=2, depth=2)
        engine = gpucf.Engine(pipeline, frame, method="map")
        rows = frame.iloc[rng.choice(len(frame), 3, replace=False)]
        lists = [oracle.candidates(engine, j, c, np.full(len(c), np.inf)) for j, c in enumerate(engine.cells().columns)]
        if np.prod([len(found) for found in lists], dtype=float) > 10_000:
            continue
        with monkeypatch.context() as patch:
            oracle_by_predict(pipeline, patch)
            check_query(engine, rows, cost=costs[seed % 4], scale=["range", None][seed % 2])
        asked += 1
    assert asked >= count(40) // 2


def test_one_column_scaled_and_encoded_is_one_feature() -> None:
    rng = np.random.default_rng(0)
    frame, y = random_frame(rng, holes=False)
    pipeline = pieces(
        frame, y, (OneHotEncoder(), ["rooms", "town"]), (StandardScaler(), ["rooms", "age"]),
        model=DecisionTreeClassifier(max_depth=6, random_state=0),
    )  # fmt: skip
    ensemble = check_reading(pipeline, frame, rng)
    assert ensemble.feature_names == ("age", "town", "rooms")
    assert ensemble.categories[2].tolist() == [1, 2, 5]
    result = gpucf.Engine(pipeline, frame).query(frame)
    assert (pipeline.predict(result.counterfactuals) != pipeline.predict(frame)).all()
    with pytest.raises(TableError, match="'rooms', row 0: 3 is not a category"):
        gpucf.Engine(pipeline, frame).query(frame.assign(rooms=3))


def test_native_categories_behind_an_ordinal_encoder() -> None:
    """HistGradientBoosting and LightGBM split codes as categories; the raw column has the words."""
    rng = np.random.default_rng(3)
    frame, y = random_frame(rng, holes=False)
    unknown = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    parts = [(unknown, ["town", "job"]), ("passthrough", ["age", "income"])]
    hist = HistGradientBoostingClassifier(
        max_iter=5, min_samples_leaf=3, early_stopping=False, categorical_features=[0, 1]
    )
    pipeline = pieces(frame, y, *parts, model=hist)
    ensemble = check_reading(pipeline, frame, rng)
    assert ensemble.categories[1].tolist() == ["Aix", "Bonn", "Cork", "Delft"]
    lost = frame.assign(town="Paris")  # unknown: NaN, as a missing value is
    result = gpucf.Engine(pipeline, frame).query(lost)
    assert (result.counterfactuals["town"] == "Paris").all()
    assert set(result.status) <= {"optimal", "infeasible"}


NATIVE = [
    xgboost.XGBClassifier(n_estimators=4, max_depth=3, enable_categorical=True, n_jobs=1),
    lightgbm.LGBMClassifier(n_estimators=4, max_depth=3, min_child_samples=3, verbose=-1, n_jobs=1),
    HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3, categorical_features="from_dtype"),
]


@pytest.mark.parametrize("model", NATIVE, ids=lambda model: type(model).__name__)
def test_category_columns_that_pass_through(model: Any) -> None:
    """The library's own categories, behind a pipeline that hands frames on."""
    rng = np.random.default_rng(21)
    frame, y = random_frame(rng, holes=False)
    frame = frame.astype({"town": "category", "job": "category"})
    before = make_column_transformer(
        (StandardScaler(), ["age", "income"]), ("passthrough", ["town", "job"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(before, model).fit(frame, y)
    result = gpucf.Engine(pipeline, frame).query(frame)
    assert set(result.status) == {"optimal"}
    assert result.counterfactuals.dtypes.equals(frame.dtypes)
    assert (pipeline.predict(result.counterfactuals) != pipeline.predict(frame)).all()


MANY = [
    xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1),
    lightgbm.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1, n_jobs=1),
    RandomForestClassifier(5, max_depth=4, random_state=0),
    xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1),
    RandomForestRegressor(5, max_depth=4, random_state=0),
]


@pytest.mark.parametrize("model", MANY, ids=lambda model: type(model).__name__)
def test_three_classes_and_numbers(model: Any) -> None:
    rng = np.random.default_rng(22)
    frame, y = random_frame(rng, holes=True)
    y = y + (frame["age"] > 60)
    pipeline = pieces(
        frame, y, (make_pipeline(SimpleImputer(), MinMaxScaler()), ["age", "income"]), (OneHotEncoder(), ["town"]),
        model=model,
    )  # fmt: skip
    ensemble = check_reading(pipeline, frame, rng)
    assert ensemble.task == ("regression" if "Regressor" in type(model).__name__ else "multiclass")
    if ensemble.task == "multiclass":
        result = gpucf.Engine(pipeline, frame).query(frame.iloc[:20], target="any_other")
        assert (pipeline.predict(result.counterfactuals) != pipeline.predict(frame.iloc[:20])).all()


def test_frames_that_polars_made() -> None:
    """Fitted on a polars frame, and handing one on."""
    rng = np.random.default_rng(23)
    frame, y = random_frame(rng, holes=False)
    table = pl.from_pandas(frame)
    before = make_column_transformer(
        (RobustScaler(), ["age", "debt"]), (OneHotEncoder(sparse_output=False), ["town"])
    ).set_output(transform="polars")
    pipeline = make_pipeline(before, RandomForestClassifier(5, max_depth=4, random_state=0)).fit(table, y)
    result = gpucf.Engine(pipeline, table).query(table)
    assert (pipeline.predict(result.counterfactuals) != pipeline.predict(table)).all()


def test_numpy_pipelines_and_constant_columns() -> None:
    """Columns by position; a constant column has scale 1; a column without any value is dropped by the imputer."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=120) * 1e3, np.full(120, 7.25), rng.integers(0, 4, 120), np.full(120, np.nan)])
    X[rng.random(120) < 0.2, 0] = np.nan
    y = (np.nan_to_num(X[:, 0]) + X[:, 2] * 400 > 300).astype(int)
    for scaler in (StandardScaler(), MinMaxScaler((0.2, 0.7)), RobustScaler()):
        pipeline = make_pipeline(SimpleImputer(), scaler, RandomForestClassifier(5, max_depth=4, random_state=1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the imputer says that it drops a column
            pipeline.fit(X, y)
            ensemble = load_model(pipeline)
            assert not ensemble.has_names and ensemble.n_features == 4
            rows = rows_around_thresholds(ensemble, X, rng, 3)
            compare(ensemble, open_judge(pipeline, ensemble), rows, rows)
            result = gpucf.Engine(pipeline, X).query(X[:30])
        assert set(result.status) == {"optimal"}
        assert np.array_equal(np.isnan(result.counterfactuals), np.isnan(X[:30]))


def test_mixed_arrays_of_objects() -> None:
    rng = np.random.default_rng(5)
    frame, y = random_frame(rng, holes=False)
    X = frame[["town", "age", "job"]].to_numpy(dtype=object)
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), [0, 2]), (RobustScaler(), [1])),
        GradientBoostingClassifier(n_estimators=4, random_state=0),
    ).fit(X, y)
    result = gpucf.Engine(pipeline, X).query(X[:25])
    assert result.counterfactuals.dtype == object
    assert (pipeline.predict(result.counterfactuals) != pipeline.predict(X[:25])).all()


def test_frames_of_every_kind_keep_what_they_are() -> None:
    """Text, objects, categories, booleans; pandas, polars, pyarrow: the same answers, types and index kept."""
    rng = np.random.default_rng(6)
    frame, y = random_frame(rng, holes=True)
    frame.index = pd.Index(rng.permutation(len(frame)) + 1000, name="who")
    pipeline = pieces(
        frame, y, (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income", "debt"]),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["town", "job"]),
        ("passthrough", ["member"]), (OneHotEncoder(), ["rooms"]), ("drop", ["id"]),
        model=RandomForestClassifier(7, max_depth=4, random_state=0),
    )  # fmt: skip
    expected = gpucf.Engine(pipeline, frame).query(frame)
    assert set(expected.status) == {"optimal"}
    town = pd.CategoricalDtype(["Delft", "Bonn", "Oslo", "Aix", "Cork"])
    for given in (
        frame,
        frame.astype({"town": town, "job": "category"}),
        frame.astype({"town": object, "job": object}),
    ):
        result = gpucf.Engine(pipeline, given).query(given)
        assert np.array_equal(result.cost, expected.cost)
        out = result.counterfactuals
        assert out.index.equals(frame.index) and out.dtypes.equals(given.dtypes)
        assert list(out.columns) == list(frame.columns) and out["id"].equals(frame["id"])
        assert (pipeline.predict(out) != pipeline.predict(given)).all()
        assert out.astype(str).equals(expected.counterfactuals.astype(str))
    tables = [pl.from_pandas(frame), pl.from_pandas(frame).with_columns(pl.col("town").cast(pl.Categorical)),
              pa.Table.from_pandas(frame, preserve_index=False)]  # fmt: skip
    for given in tables:
        result = gpucf.Engine(pipeline, given).query(given)
        assert np.array_equal(result.cost, expected.cost)
        assert result.verified_by.startswith("scikit-learn") and result.verified_by.endswith("Pipeline")
        assert result.counterfactuals.schema == given.schema
    without = frame.drop(columns="id")
    assert np.array_equal(gpucf.Engine(pipeline, without).query(without).cost, expected.cost)


def test_adult_in_its_own_words() -> None:
    """Every answer of a boosted model on Adult's raw columns is confirmed by pipeline.predict."""
    adult = pd.read_csv(DATA / "adult.csv")
    X, y = adult.drop(columns="Class"), (adult["Class"] == ">50K").astype(int)
    text = ["NativeCountry", "WorkClass", "MaritalStatus", "Occupation", "Relationship", "Sex"]
    before = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), text), remainder="passthrough")
    for model in (
        xgboost.XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1),  # reads the sparse zeros as missing
        lightgbm.LGBMClassifier(n_estimators=15, max_depth=4, n_jobs=1, verbose=-1),
        RandomForestClassifier(10, max_depth=6, random_state=0),
    ):
        pipeline = make_pipeline(before, model).fit(X, y)
        rows = X[pipeline.predict(X) == 0]
        result = gpucf.Engine(pipeline, X).query(rows, target=1, immutable=["Sex"], increase_only=["Age"])
        assert set(result.status) == {"optimal"}
        assert (pipeline.predict(result.counterfactuals) == 1).all()
        assert result.counterfactuals["Sex"].equals(rows["Sex"])
        assert (result.counterfactuals["Age"] >= rows["Age"]).all()


def test_the_word_for_missing_is_missing() -> None:
    """The fill of a constant imputer is no level to move to; a row that holds it keeps it."""
    rng = np.random.default_rng(8)
    frame, y = random_frame(rng, holes=True)
    word = make_pipeline(SimpleImputer(strategy="constant", fill_value="no word"), OneHotEncoder())
    frame.loc[frame.index[:5], "job"] = "no word"
    pipeline = pieces(frame, y, (word, ["job", "town"]), (SimpleImputer(), ["income"]))
    ensemble = check_reading(pipeline, frame, rng)
    assert "no word" not in ensemble.categories[ensemble.feature_names.index("job")].tolist()
    result = gpucf.Engine(pipeline, frame).query(frame)
    assert not ((result.counterfactuals["job"] == "no word") & (frame["job"] != "no word")).any()
    assert (result.counterfactuals["job"].iloc[:5] == "no word").all()


class Shifted(StandardScaler):
    """A scaler that scikit-learn did not write."""


def test_what_is_not_read_is_refused_by_name() -> None:
    rng = np.random.default_rng(9)
    frame, y = random_frame(rng, holes=False)
    number = ["age", "income"]
    kept = ("passthrough", ["debt"])
    for part, words in [
        ((PolynomialFeatures(), number), "'before__part0' .*PolynomialFeatures.*gpucf reads"),
        ((KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), number), "KBinsDiscretizer"),
        ((PCA(), number), "PCA"),
        ((FunctionTransformer(np.log1p), number), "FunctionTransformer.*function"),
        ((Shifted(), number), "Shifted"),
        ((make_pipeline(StandardScaler(), OneHotEncoder(handle_unknown="ignore")), number), "behind a scaler.*'age'"),
        ((SimpleImputer(missing_values=0.0), number), "missing_values=0.0.*'age'"),
        ((QuantileTransformer(n_quantiles=9), number), "QuantileTransformer"),
    ]:
        with pytest.raises(ModelError, match=words):
            load_model(pieces(frame, y, part, kept))
    with pytest.raises(ModelError, match=r"pipeline step 'logisticregression'.*LogisticRegression"):
        load_model(make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[number], y))
    with pytest.raises(ModelError, match="without a model"):
        load_model(make_pipeline(StandardScaler()).fit(frame[number], y))
    dart = xgboost.XGBClassifier(n_estimators=2, booster="dart", n_jobs=1)
    with pytest.raises(ModelError, match="DART"):
        load_model(make_pipeline(StandardScaler(), dart).fit(frame[number], y))
    fitted = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)).fit(frame[number], y)
    with pytest.raises(OptionError, match="iterations is 3"):
        load_model(fitted, iterations=3)
    with pytest.raises(TableError, match=r"'income' is float32.*float64"):
        gpucf.Engine(fitted, frame[number]).query(frame[number].astype({"income": np.float32}))
    with pytest.raises(ModelError, match="fit"):
        load_model(make_pipeline(StandardScaler(), DecisionTreeClassifier()))


def test_rows_that_the_pipeline_refuses() -> None:
    """Unknown levels by name; a missing value that neither encoder nor model takes."""
    rng = np.random.default_rng(10)
    frame, y = random_frame(rng, holes=False)
    pipeline = pieces(frame, y, (OneHotEncoder(), ["town"]), (StandardScaler(), ["age"]),
                      model=GradientBoostingClassifier(n_estimators=2))  # fmt: skip
    engine = gpucf.Engine(pipeline, frame[["town", "age"]])
    with pytest.raises(TableError, match=r"'town', row 1: 'Paris' is not a category.*'Aix'"):
        engine.query(pd.DataFrame({"town": ["Aix", "Paris"], "age": [30, 40]}))
    with pytest.raises(TableError, match="'town', row 1: the value is missing"):
        engine.query(pd.DataFrame({"town": ["Aix", None], "age": [30, 40]}))
    with pytest.raises(TableError, match="'age', row 0: the value is missing"):
        engine.query(pd.DataFrame({"town": ["Aix", "Bonn"], "age": [np.nan, 40]}))


def test_command_line_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled pipeline needs trust; a skops file does not; both answer a CSV of words."""
    rng = np.random.default_rng(12)
    frame, y = random_frame(rng, holes=True)
    pipeline = pieces(
        frame, y, (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
        (make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder()), ["town", "job"]),
        model=RandomForestClassifier(5, max_depth=4, random_state=0),
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    joblib.dump(pipeline, "model.joblib")
    skops.io.dump(pipeline, "model.skops")
    frame["id"] = [f"{i:04}" for i in range(len(frame))]  # a column that the pipeline drops: kept as text
    frame.to_csv("people.csv", index=False)
    common = ["people.csv", "--background", "people.csv", "--quiet"]
    assert main(["query", "model.joblib", *common, "-o", "no.csv"]) == 1
    assert main(["query", "model.joblib", *common, "-o", "a.csv", "--trust-pickle"]) == 0
    assert main(["query", "model.skops", *common, "-o", "b.csv"]) == 0
    a, b = pd.read_csv("a.csv", dtype={"id": str}), pd.read_csv("b.csv", dtype={"id": str})
    assert a["id"].tolist() == frame["id"].tolist()
    assert a.equals(b) and set(a["gpucf_status"]) == {"optimal"}
    assert (pipeline.predict(a[frame.columns]) != pipeline.predict(frame)).all()


def test_levels_that_training_did_not_see() -> None:
    """Beside an imputer an ignored level is a state of its own: a row may keep it or leave it, nobody goes there."""
    rng = np.random.default_rng(14)
    frame, y = random_frame(rng, holes=True)
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    rooms = make_pipeline(SimpleImputer(strategy="most_frequent"), codes)
    for kind in ("tree", "xgb"):
        pipeline = pieces(
            frame, y, (text, ["job", "town"]), (rooms, ["rooms"]),
            (SimpleImputer(), ["age"]), model=final_model(kind, rng, 2, 3),
        )  # fmt: skip
        ensemble = check_reading(pipeline, frame, rng)
        assert ensemble.raw is not None and ensemble.raw.unknown == (False, True, True, True)
        people = frame.iloc[:12].copy()
        people["town"] = ["Paris", "Rome", *people["town"].iloc[2:]]
        people.loc[people.index[4:8], "rooms"] = 77
        people.loc[people.index[6:10], "job"] = "judge"
        result = check_query(gpucf.Engine(pipeline, frame, method="map"), people)
        assert set(result.status) <= {"optimal", "infeasible"}
        for name, unseen in (("town", ["Paris", "Rome"]), ("rooms", [77]), ("job", ["judge"])):
            moved = result.counterfactuals[name].isin(unseen)
            assert not (moved & ~people[name].isin(unseen)).any()
        asked = gpucf.Engine(pipeline, frame).query(people, immutable=["age", "rooms", "job"])
        left = [c for i in range(12) for c in asked.changes(i) if c["from"] == "(unknown level)"]
        assert all(c["feature"] == "town" and c["to"] in ("Aix", "Bonn", "Cork", "Delft") for c in left)
