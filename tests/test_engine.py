"""The engine's one door for bad input, each with its own message; and what a query gives back."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engine_checks import check_query, coded, same_bits
from sizes import count
from sklearn import ensemble as sk
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpucf
from gpucf import FileFormatError, MapTooLargeError, ModelError, OptionError, TableError, VerificationError
from gpucf._ensemble import Ensemble

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def data(seed: int = 0, n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """People: whole years, an income, a flag, and a region as three columns of which one is 1."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": rng.integers(18, 30, n),
        "income": np.round(rng.gamma(4, 0.5, n), 1),
        "own": rng.random(n) < 0.5,
    })  # fmt: skip
    region = rng.integers(0, 3, n)
    for k, name in enumerate(("north", "south", "west")):
        frame[name] = (region == k).astype(np.int8)
    score = 0.2 * (frame.age - 24) + frame.income + 0.6 * frame.own + 0.5 * (region == 1) - 2.5
    return frame, (score + rng.normal(0, 0.3, n) > 0).to_numpy().astype(int)


GROUPS = {"region": ["north", "south", "west"]}


def forest(seed: int = 0, **param: Any) -> Any:
    X, y = data(seed)
    return sk.RandomForestClassifier(**{"n_estimators": 3, "max_depth": 3, "random_state": seed, **param}).fit(X, y)


@pytest.fixture(scope="module")
def engine() -> gpucf.Engine:
    return gpucf.Engine(forest(), background=data()[0], one_hot=GROUPS, n_threads=1, method="map")


@pytest.fixture
def rows() -> pd.DataFrame:
    return data(1, 12)[0]


# --- rows that do not fit --------------------------------------------------------------------------------------------

BAD_ROWS: dict[str, tuple[Callable[[pd.DataFrame], Any], str]] = {
    "a column too few": (lambda X: X.drop(columns="own"), "lacks 'own'"),
    "a column too many": (lambda X: X.assign(iq=1.0), "has 'iq', which the model does not know"),
    "an array too narrow": (lambda X: X.to_numpy(float)[:, :5], "X has 5 columns, but the model was trained on 6"),
    "another name": (lambda X: X.rename(columns={"age": "Age"}), "lacks 'age'"),
    "a name twice": (lambda X: X.set_axis(["age", "age", *X.columns[2:]], axis=1), "more than one column named 'age'"),
    "inf": (lambda X: X.assign(income=[1.0, -np.inf, *X.income[2:]]), "column 'income', row 1: -inf"),
    "text": (lambda X: X.assign(age="young"), "column 'age' holds .*'young'"),
    "one row": (lambda X: X.iloc[0], "is one column"),
    "a list": (lambda X: X.to_numpy(float).tolist(), "X is a builtins.list"),
    "one dimension": (lambda X: X.to_numpy(float)[0], r"1 dimension.*reshape\(1, -1\)"),
    "wide floats in a column of integers": (lambda X: X.assign(income=X.income.astype(np.float16)), "float16"),
    "integers in a column of floats": (lambda X: X.assign(income=X.income.astype(int)), "'income' is int64"),
    "narrow integers": (lambda X: X.assign(age=X.age.astype(np.int8)), "'age' is int8, .* int64, which int8 cannot"),
    "no active category": (lambda X: X.assign(north=0, south=0, west=0), r"row 0: .*'region'.*\(0, 0, 0\)"),
    "two active categories": (
        lambda X: X.assign(**{c: np.where(np.arange(12) == 3, c != "north", X[c]) for c in GROUPS["region"]}),
        r"row 3: .*\(0, 1, 1\)",
    ),
    "half a category": (lambda X: X.assign(north=X.north * 0.5 + 0.25), "row 0: one-hot group 'region'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_do_not_fit_are_refused(engine: gpucf.Engine, rows: pd.DataFrame, name: str) -> None:
    change, message = BAD_ROWS[name]
    with pytest.raises(TableError, match=message):
        engine.query(change(rows))


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown weight": ({"weights": {"agee": 1.0}}, "weights names 'agee'.*it has 'age', 'income'"),
    "negative weight": ({"weights": {"age": -1.0}}, "weight of 'age' is -1.0"),
    "NaN weight": ({"weights": {"age": np.nan}}, "weight of 'age' is nan"),
    "infinite weight": ({"weights": [np.inf, 1, 1, 1, 1, 1]}, "weight of 'age' is inf"),
    "weight of words": ({"weights": {"age": "much"}}, "weight of 'age' is 'much'"),
    "ragged weights": ({"weights": [1, [2]]}, "weights has shape"),
    "too few weights": ({"weights": [1, 2]}, r"shape \(2,\), but the model has 6 columns"),
    "two weights of one group": ({"weights": {"north": 1, "south": 2}}, "'region' have different weights"),
    "unknown immutable": ({"immutable": ["sex"]}, "immutable names 'sex'"),
    "immutable text": ({"immutable": "age"}, "immutable is 'age'; give a list"),
    "immutable None": ({"immutable": None}, "immutable is None; give a list"),
    "nested names": ({"immutable": [["age"]]}, r"immutable names \"\['age'\]\""),
    "unknown increase_only": ({"increase_only": ["sex"]}, "increase_only names 'sex'"),
    "unknown decrease_only": ({"decrease_only": ["sex"]}, "decrease_only names 'sex'"),
    "a category with a direction": ({"increase_only": ["region"]}, "increase_only names 'region'.*no order"),
    "unknown cost": ({"cost": "l3"}, "cost is 'l3'; give one of 'l1', 'l2', 'linf', 'l0'"),
    "unknown scale": ({"scale": "zscore"}, "scale is 'zscore'; give one of 'range'"),
    "scale of another type": ({"scale": ["range"]}, r"scale is \['range'\]"),
    "unknown class": ({"target": 2}, r"target 2 is not a class of the model \(0, 1\)"),
    "unknown class as text": ({"target": "yes"}, "target 'yes' is not a class"),
    "a boolean for a number": ({"target": True}, "target True is not a class"),
    "classes for other rows": ({"target": np.array([0, 1])}, "target has 2 entries for"),
    "an array of an unknown class": ({"target": np.array([[0, 1]])}, "is not a class of the model"),
    "no target": ({"target": None}, "target None is not a class"),
    "probability 0": ({"target": "probability >= 0"}, "probability is 0.0; give a number above 0 and at most 1"),
    "probability 1.5": ({"target": gpucf.Probability(1.5)}, "probability is 1.5"),
    "probability nan": ({"target": "probability >= nan"}, "at_least=nan.: give a finite number"),
    "probability of words": ({"target": "probability >= x"}, "no number behind >="),
    "no comparison": ({"target": "probability ~ 0.5"}, "is not a class of the model"),
    "probability of no class": ({"target": gpucf.Probability(0.5, "yes")}, "target label 'yes' is not a class"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_cannot_be_used_are_refused(engine: gpucf.Engine, rows: pd.DataFrame, name: str) -> None:
    options, message = BAD_OPTIONS[name]
    with pytest.raises(OptionError, match=message):
        engine.query(rows, **options)


def test_missing_values_are_refused_where_the_model_takes_none(rows: pd.DataFrame) -> None:
    X, y = data()
    engine = gpucf.Engine(sk.GradientBoostingClassifier(n_estimators=2, max_depth=2).fit(X, y), background=X)
    with pytest.raises(TableError, match="X, column 'income', row 3: the value is missing, and the model takes no"):
        engine.query(rows.assign(income=[*rows.income[:3], np.nan, *rows.income[4:]]))


def test_names_to_carry_must_exist_and_be_unknown_to_the_model(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    with pytest.raises(TableError, match="carry names 'id', which X does not have"):
        engine.query(rows, carry=["id"])
    with pytest.raises(OptionError, match="carry names 'age', which the model uses"):
        engine.query(rows, carry=["age"])
    named = rows.assign(id=[f"p{i}" for i in range(len(rows))])
    after = engine.query(named, carry=["id"]).counterfactuals
    assert after.id.tolist() == named.id.tolist() and list(after) == list(named)


BAD_ENGINES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no threads": ({"n_threads": 0}, OptionError, "n_threads is 0; give a whole number of at least 1"),
    "half a thread": ({"n_threads": 1.5}, OptionError, "n_threads is 1.5"),
    "no regions": ({"max_regions": 0}, OptionError, "max_regions is 0"),
    "iterations": ({"iterations": 0}, OptionError, "iterations is 0"),
    "features of no column": ({"features": {"agee": "integer"}}, OptionError, "features names 'agee'"),
    "features of no kind": (
        {"features": {"age": "ordinal"}},
        OptionError,
        "features.'age'. is 'ordinal'; give its levels",
    ),
    "features as a list": ({"features": ["age"]}, OptionError, "features is a list"),
    "an unknown key": ({"features": {"age": {"stepp": 1}}}, OptionError, "unknown key 'stepp'; known are"),
    "continuous integers": ({"features": {"age": "continuous"}}, OptionError, "'continuous', but .* is int64"),
    "categorical numbers": ({"features": {"age": "categorical"}}, OptionError, "'categorical', but the model"),
    "one_hot of no column": ({"one_hot": {"r": ["north", "east"]}}, OptionError, "one_hot.'r'.*'east'"),
    "one_hot of one column": ({"one_hot": {"r": ["north"]}}, OptionError, "at least two columns"),
    "one_hot as a list": ({"one_hot": [["north", "south"]]}, OptionError, "one_hot is a list"),
    "one_hot twice": ({"one_hot": {"r": ["north", "south"], "s": ["south", "west"]}}, OptionError, "'south' is in"),
    "one_hot named as a column": ({"one_hot": {"age": ["north", "south"]}}, OptionError, "name of a column outside"),
    "a group with one left out": (
        {"one_hot": {"r": ["north", "south"]}},
        TableError,
        "If a reference column was left out",
    ),
}


@pytest.mark.parametrize("name", BAD_ENGINES)
def test_engines_that_cannot_be_built_are_refused(name: str) -> None:
    options, error, message = BAD_ENGINES[name]
    with pytest.raises(error, match=message):
        gpucf.Engine(forest(), background=data()[0], **options)


def test_models_of_other_kinds_are_refused() -> None:
    X, y = data()
    with pytest.raises(ModelError, match="LogisticRegression is not supported"):
        gpucf.Engine(LogisticRegression().fit(X, y))
    with pytest.raises(ModelError):
        gpucf.Engine(object())
    with pytest.raises(ModelError, match="cannot read the model file"):
        gpucf.Engine("/nowhere/model.json")
    engine = gpucf.Engine(DecisionTreeRegressor(max_depth=2).fit(X, y), background=X)
    with pytest.raises(OptionError, match=r"DecisionTreeRegressor.* predicts numbers"):
        engine.query(X[:2])


def test_a_background_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TableError, match="background lacks 'age'"):
        gpucf.Engine(forest(), background=data()[0].drop(columns="age"))


def test_a_map_that_does_not_fit_says_how_far_it_got(rows: pd.DataFrame) -> None:
    engine = gpucf.Engine(forest(n_estimators=10, max_depth=5), background=data()[0], method="map", max_regions=20)
    with pytest.raises(MapTooLargeError, match=r"regions after [0-9.]+% of the space \(max_regions=20\)") as caught:
        engine.query(rows)
    assert caught.value.n_regions >= 20 and 0 <= caught.value.share_done < 1
    assert len(engine.query(rows[:0])) == 0  # the engine is still usable


def test_scale_without_a_background(rows: pd.DataFrame) -> None:
    engine = gpucf.Engine(forest(), features={c: "integer" for c in ("age", "north", "south", "west")})
    X = rows.astype({"own": float, **dict.fromkeys(GROUPS["region"], int)})
    with pytest.raises(TableError, match="'north' is int8"):
        engine.query(rows.astype({"own": float}))
    with pytest.warns(UserWarning, match="no background table, so displacements are not scaled"):
        default = engine.query(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert np.array_equal(engine.query(X, scale=None).cost, default.cost)
    with pytest.raises(OptionError, match="scale='std' needs a background table"):
        engine.query(X, scale="std")
    with pytest.raises(OptionError, match="scale is 'bogus'"):
        engine.query(X, scale="bogus")


def test_one_hot_columns_take_any_dtype_without_a_background(rows: pd.DataFrame) -> None:
    engine = gpucf.Engine(forest(), one_hot=GROUPS, features={"age": "integer", "own": "boolean"})
    assert engine.query(rows, scale=None).counterfactuals.dtypes.equals(rows.dtypes)


# --- what comes back -------------------------------------------------------------------------------------------------

TO = {
    "numpy": lambda X: X.to_numpy(float),
    "pandas": lambda X: X,
    "polars": pl.from_pandas,
    "pyarrow": lambda X: pa.Table.from_pandas(X, preserve_index=False),
}


@pytest.mark.parametrize("target", ["opposite", "any_other", 0, 1, "probability >= 0.9"])
@pytest.mark.parametrize("kind", TO)
def test_empty_tables_come_back_empty(engine: gpucf.Engine, rows: pd.DataFrame, kind: str, target: Any) -> None:
    X = TO[kind](rows)[:0]
    result = engine.query(X, target=target)
    assert type(result.counterfactuals) is type(X) and result.counterfactuals.shape == X.shape
    assert len(result) == 0 and result.cost.shape == result.status.shape == result.visits.shape == (0,)
    assert result.changed.shape == (0, 6)
    assert result.summary()["rows"] == 0 and result.summary()["median_cost"] is None
    assert type(result.to_frame()) is (dict if kind == "numpy" else type(X))


@pytest.mark.parametrize("kind", TO)
def test_every_kind_of_table_has_the_same_answers(engine: gpucf.Engine, rows: pd.DataFrame, kind: str) -> None:
    X = TO[kind](rows)
    result, other = engine.query(X, target=1), engine.query(rows, target=1)
    assert same_bits(coded(engine, result.counterfactuals), coded(engine, other.counterfactuals))
    assert same_bits(result.cost, other.cost)
    frame = result.to_frame()
    columns = {"status", "cost", "lower_bound", "n_changed"}
    assert set(frame if kind == "numpy" else frame.column_names if kind == "pyarrow" else frame.columns) == columns
    assert np.array_equal(np.asarray(frame["cost"]), result.cost)


def test_statuses_changes_and_summary(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    result = engine.query(rows, target=1, increase_only=["age"])
    assert set(result.status.tolist()) == {"already", "optimal"}
    for i in range(len(rows)):
        moves = result.changes(i)
        assert result.n_changed[i] == len(moves) and (result.status[i] == "already") == (not moves)
        after, before = result.counterfactuals.iloc[i], rows.iloc[i]
        for move in moves:
            if move["feature"] == "region":
                assert before[move["from"]] == 1 and after[move["to"]] == 1 and move["cost"] == 1.0
            else:
                assert move["from"] == before[move["feature"]] and move["to"] == after[move["feature"]]
            if move["feature"] == "age":
                assert type(move["to"]) is int and move["to"] > move["from"]
            if move["feature"] == "own":
                assert type(move["to"]) is bool
        assert sum(m["cost"] for m in moves) == pytest.approx(result.cost[i], rel=1e-12, abs=0)
    summary = result.summary()
    assert summary["rows"] == 12 == sum(summary[s] for s in ("already", "optimal", "feasible", "infeasible", "unknown"))
    assert summary["median_cost"] == np.median(result.cost[result.status == "optimal"])
    assert summary["verified_by"].startswith("scikit-learn ")
    stuck = engine.query(rows, immutable=list(rows.columns))
    assert (stuck.status == "infeasible").all() and np.isinf(stuck.cost).all() and np.isinf(stuck.lower_bound).all()
    assert stuck.counterfactuals.equals(rows) and not stuck.changed.any()
    assert stuck.summary()["median_cost"] is None and stuck.summary()["infeasible"] == 12


@pytest.mark.parametrize("cost", ["l1", "l2", "linf", "l0"])
@pytest.mark.parametrize("target", ["opposite", 0, gpucf.Probability(0.7), gpucf.Probability(1.0, 0)])
def test_one_hot_groups_equal_the_oracle(engine: gpucf.Engine, rows: pd.DataFrame, cost: str, target: Any) -> None:
    check_query(engine, rows, target=target, cost=cost)
    check_query(engine, rows, target=target, cost=cost, weights={"region": 0.1, "own": 3, "age": 0}, scale="mad",
                decrease_only=["income"])  # fmt: skip


def test_a_column_of_a_group_stands_for_the_group(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    by_group, by_column = (engine.query(rows, immutable=[name]) for name in ("region", "south"))
    assert by_group.counterfactuals.equals(by_column.counterfactuals)
    assert by_group.counterfactuals[GROUPS["region"]].equals(rows[GROUPS["region"]])


def test_weights_of_a_series_go_by_name(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    weights = {"income": 0.01, "age": 5.0, "own": 2.0}
    by_name = engine.query(rows, weights=weights)
    assert same_bits(by_name.cost, engine.query(rows, weights=pd.Series(weights)).cost)
    assert not same_bits(by_name.cost, engine.query(rows).cost)
    full = [5.0, 0.01, 2.0, 1.0, 1.0, 1.0]
    assert same_bits(by_name.cost, engine.query(rows, weights=np.array(full)).cost)


def test_weights_of_zero_still_have_one_answer(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    for cost in ("l1", "l2", "linf", "l0"):
        result = check_query(engine, rows, cost=cost, weights=[0] * 6)
        assert (result.cost == 0).all() and (result.status == "optimal").all() and result.changed.any(axis=1).all()


# --- rows off the grid -----------------------------------------------------------------------------------------------


def test_rows_off_the_grid(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    """2.5 years in a column of whole years, a flag of 2: allowed to stay, never moved to."""
    off = rows.astype({"age": float, "own": float})
    off.loc[0, "age"] = 23.5
    off.loc[1, "own"] = 2.0
    off.loc[2, "own"] = 0.25
    off.loc[3, ["age", "own"]] = [22.000001, -1.0]
    for cost in ("l1", "l0"):
        result = check_query(engine, off, cost=cost)
        moved = result.counterfactuals.age[result.changed[:, 0]]
        assert (moved == np.floor(moved)).all()
        assert set(result.counterfactuals.own[result.changed[:, 2]].tolist()) <= {0.0, 1.0}
        # Rows on the grid have the same answers with and without the others beside them.
        alone = engine.query(off[4:], cost=cost)
        assert same_bits(coded(engine, alone.counterfactuals), coded(engine, result.counterfactuals[4:]))
        assert same_bits(alone.cost, result.cost[4:])


# --- missing values and native categories ----------------------------------------------------------------------------


def with_holes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (150, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] * (X[:, 2] > 1) + rng.normal(0, 0.3, 150) > 3).astype(int)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, y


def boosted(library: str, X: Any, y: np.ndarray, **param: Any) -> Any:
    if library == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=4, max_depth=3, learning_rate=0.5, n_jobs=1, **param).fit(X, y)
    if library == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(
            n_estimators=4, max_depth=3, learning_rate=0.5, min_child_samples=5, n_jobs=1, verbose=-1, cat_smooth=1,
            cat_l2=1, min_data_per_group=5,
        ).fit(X, y)  # fmt: skip
    return sk.HistGradientBoostingClassifier(
        max_iter=4,
        max_depth=3,
        learning_rate=0.5,
        min_samples_leaf=5,
        early_stopping=False,
        categorical_features="from_dtype",
    ).fit(X, y)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "hist"])
@pytest.mark.parametrize("cost", ["l1", "linf", "l0"])
def test_missing_values_stay_missing_and_the_rest_is_optimal(library: str, cost: str) -> None:
    X, y = with_holes(3)
    engine = gpucf.Engine(boosted(library, X, y), background=X, n_threads=1)
    for target in ("opposite", 1):
        result = check_query(engine, X[:25], target=target, cost=cost)
        assert np.array_equal(np.isnan(result.counterfactuals), np.isnan(X[:25]))
        assert "optimal" in result.status


def category_frame(seed: int = 0, n: int = 200, missing: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 6, n)
    frame = pd.DataFrame({
        "job": pd.Categorical.from_codes(np.where(rng.random(n) < missing, -1, job), list("uvwxyz")),
        "years": rng.integers(0, 5, n),
        "pay": rng.integers(0, 8, n) / 4,
    })  # fmt: skip
    score = np.array([1.0, -1.0, 0.5, -0.5, 2.0, 0.0])[job] + frame.years * 0.3 + frame.pay - 1.5
    return frame, (score + rng.normal(0, 0.2, n) > 0).to_numpy().astype(int)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "hist"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_native_categories_equal_the_oracle(library: str, missing: float) -> None:
    X, y = category_frame(1, missing=missing)
    extra = {"enable_categorical": True, "max_cat_to_onehot": 1} if library == "xgboost" else {}
    engine = gpucf.Engine(boosted(library, X, y, **extra), background=X, n_threads=1)
    used = engine.ensemble.category_set >= 0
    assert used.any()  # else the test shows nothing
    for cost in ("l1", "l0"):
        for target in ("opposite", 0):
            result = check_query(engine, X[:20], target=target, cost=cost, weights={"job": 0.4})
            assert result.counterfactuals.dtypes.equals(X.dtypes)
            assert np.array_equal(result.counterfactuals.job.isna(), X.job[:20].isna())
    assert check_query(engine, X[:20], immutable=["job"]).counterfactuals.job.equals(X.job[:20])
    moved = engine.query(X[:20], immutable=["years", "pay"], target=1)
    for i in np.flatnonzero(moved.status == "optimal"):
        (move,) = moved.changes(i)
        assert move["feature"] == "job" and move["from"] == X.job[i] and move["to"] == moved.counterfactuals.job[i]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "hist"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_native_categories_in_every_kind_of_table(library: str, missing: float) -> None:
    """The library is asked about every kind, also about those that it cannot read itself."""
    X, y = category_frame(1, missing=missing)
    model = boosted(library, X, y, **({"enable_categorical": True} if library == "xgboost" else {}))
    expected = gpucf.Engine(model, background=X).query(X[:20])
    kinds = {
        "polars": pl.from_pandas, "pyarrow": lambda X: pa.Table.from_pandas(X, preserve_index=False),
        "object": lambda X: X.astype({"job": object}), "string": lambda X: X.astype({"job": "string"}),
        "numpy": lambda X: X.astype(object).where(X.notna(), None).to_numpy(),
    }  # fmt: skip
    for kind, to in kinds.items():
        engine = gpucf.Engine(model, background=to(X))
        result = engine.query(to(X[:20]))
        assert result.verified_by == expected.verified_by and "reference" not in result.verified_by
        assert type(result.counterfactuals) is type(to(X[:20])), kind
        assert same_bits(result.cost, expected.cost)
        assert same_bits(coded(engine, result.counterfactuals), coded(engine, expected.counterfactuals))


# --- odd models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "hist", "forest", "tree"])
def test_models_that_cannot_be_moved(library: str) -> None:
    """One class only, or features that tell nothing: single leaves."""
    X, y = np.zeros((40, 2)), np.arange(40) % 3 == 0
    if library == "forest":
        model = sk.RandomForestClassifier(3, random_state=0).fit(X, y)
    elif library == "tree":
        model = DecisionTreeClassifier().fit(X, y)
    else:
        model = boosted(library, X, y.astype(int))
    engine = gpucf.Engine(model, background=X)
    result = engine.query(X[:3])
    assert (result.status == "infeasible").all()
    assert (engine.query(X[:3], target=engine.ensemble.classes[0]).status == "already").all()
    assert (engine.query(X[:3], target=engine.ensemble.classes[1]).status == "infeasible").all()
    assert engine.region_map().n_regions == 1
    engine.region_map().check()


def test_a_class_that_never_wins() -> None:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 5, (200, 2)).astype(float)
    y = np.where(X[:, 0] > 2, "b", "a").astype(object)
    y[rng.integers(0, 200, 4)] = "c"
    engine = gpucf.Engine(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y), background=X)
    assert (check_query(engine, X[:4], target="c").status == "infeasible").all()
    assert (check_query(engine, X[:4], target="any_other").status == "optimal").all()


def test_unused_and_constant_columns_never_move() -> None:
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.integers(0, 5, 100), np.full(100, 7), rng.normal(size=100)]).astype(float)
    engine = gpucf.Engine(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, X[:, 0] > 2), background=X)
    for scale in ("range", "std", "mad", "iqr", None):
        result = check_query(engine, X[:6], scale=scale)
        assert not result.changed[:, 1:].any() and (result.status == "optimal").all()


def test_frames_of_a_model_without_names_go_by_the_names_of_the_background() -> None:
    """By position, a frame with its columns in another order would be answered for the wrong features."""
    X, y = data()
    model = sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X.to_numpy(float), y)
    engine = gpucf.Engine(model, background=X)
    assert engine.feature_names_in_.tolist() == list(X)
    result = engine.query(X[:5], immutable=["age"])
    turned = engine.query(X[:5][list(X)[::-1]], immutable=["age"])
    assert turned.counterfactuals[list(X)].equals(result.counterfactuals)
    assert list(turned.counterfactuals) == list(X)[::-1]
    with pytest.raises(TableError, match="lacks 'age'"):
        engine.query(X[:5].rename(columns={"age": "years"}))


# --- maps: proof and file --------------------------------------------------------------------------------------------


def test_the_check_of_a_map_passes(engine: gpucf.Engine) -> None:
    for target in ("opposite", gpucf.Probability(0.8)):
        region_map = engine.region_map(target)
        assert region_map.check()["regions"] == region_map.n_regions > 3


@pytest.mark.parametrize("fault", ["label", "bound", "box", "twice"])
def test_the_check_of_a_map_can_fail(engine: gpucf.Engine, fault: str) -> None:
    from dataclasses import replace

    good = engine.region_map()
    boxes = good.boxes
    if fault == "label":
        label = boxes.label.copy()
        label[3] = 1 - label[3]
        bad, message = replace(boxes, label=label), "region 3 has label"
    elif fault == "bound":
        hi = boxes.hi.copy()
        box, feature = np.argwhere(boxes.hi[:, :2] > boxes.lo[:, :2])[0]
        hi[box, feature] -= 1
        bad, message = replace(boxes, hi=hi), "points"
    elif fault == "box":
        bad, message = boxes.take(np.arange(1, len(boxes))), "points"
    else:
        bad, message = boxes.take(np.append(np.arange(1, len(boxes)), 5)), "overlap"
    with pytest.raises(AssertionError, match=message):
        replace(good, boxes=bad).check()


@pytest.fixture(scope="module")
def map_file(engine: gpucf.Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "forest.map"
    engine.region_map().save(path)
    return path


def fresh() -> gpucf.Engine:
    return gpucf.Engine(forest(), background=data()[0], one_hot=GROUPS, n_threads=1, method="map")


def test_a_loaded_map_answers_alike(engine: gpucf.Engine, map_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = data(2, 50)[0]
    loaded = fresh()
    region_map = loaded.load_map(map_file)
    monkeypatch.setattr("gpucf._planner.build_region_map", None)  # it must not be built again
    result = loaded.query(rows)
    monkeypatch.undo()
    expected = engine.query(rows)
    assert region_map.n_regions == engine.region_map().n_regions
    assert result.counterfactuals.equals(expected.counterfactuals)
    assert same_bits(result.cost, expected.cost) and np.array_equal(result.visits, expected.visits)
    region_map.check()


def test_damaged_maps_are_refused(map_file: Path, tmp_path: Path) -> None:
    loaded, raw = fresh(), map_file.read_bytes()
    path = tmp_path / "damaged"
    rng = np.random.default_rng(0)
    head = raw.index(b"PK")
    places = [*range(0, head, 7), *rng.integers(0, len(raw), count(300)).tolist()]
    for place in places:
        flipped = bytearray(raw)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(FileFormatError):
            loaded.load_map(path)
    for length in (0, 5, len(b"gpucf region map\n"), 60, head - 1, head + 10, len(raw) - 1):
        path.write_bytes(raw[:length])
        with pytest.raises(FileFormatError):
            loaded.load_map(path)
    assert not loaded._planner.maps


def test_foreign_maps_are_refused(engine: gpucf.Engine, map_file: Path, tmp_path: Path) -> None:
    import hashlib

    loaded, raw = fresh(), map_file.read_bytes()
    path = tmp_path / "foreign"
    path.write_bytes(b"PK\x03\x04 not a map")
    with pytest.raises(FileFormatError, match="is not a gpucf region map"):
        loaded.load_map(path)
    with pytest.raises(FileFormatError, match=r"cannot read .*: No such file"):
        loaded.load_map(tmp_path / "nowhere")
    with pytest.raises(FileFormatError, match="cannot write"):
        engine.region_map().save(tmp_path / "no" / "folder")
    other = gpucf.Engine(forest(seed=1), background=data()[0], one_hot=GROUPS)
    with pytest.raises(FileFormatError, match="the map of another model"):
        other.load_map(map_file)
    undeclared = gpucf.Engine(forest(), background=data()[0])
    with pytest.raises(FileFormatError, match="or of other feature declarations"):
        undeclared.load_map(map_file)
    magic, _, rest = raw.partition(b"\n")
    newer = rest.partition(b"\n")[2].replace(b'"version": ', b'"version": 9', 1)
    path.write_bytes(b"\n".join([magic, hashlib.sha256(newer).hexdigest().encode(), newer]))
    with pytest.raises(FileFormatError, match=r"format version 9[0-9]*; this gpucf reads"):
        loaded.load_map(path)
    assert not list(tmp_path.glob("*.part"))


# --- pickles, threads, faults ----------------------------------------------------------------------------------------


def test_an_engine_pickles(engine: gpucf.Engine) -> None:
    rows = data(3, 30)[0]
    expected = engine.query(rows)
    twin = pickle.loads(pickle.dumps(engine))
    result = twin.query(rows)
    assert result.counterfactuals.equals(expected.counterfactuals) and result.verified_by == expected.verified_by
    assert len(twin._planner.maps) == len(engine._planner.maps)  # the maps came along


def test_an_engine_of_a_file_pickles_and_says_who_verified(tmp_path: Path) -> None:
    import xgboost

    X, y = data()
    path = tmp_path / "model.json"
    xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y).save_model(path)
    engine = gpucf.Engine(path, background=X)
    pickled = pickle.dumps(engine)
    expected = engine.query(X[:10])
    assert expected.verified_by.startswith("xgboost ")
    assert pickle.loads(pickled).query(X[:10]).verified_by == expected.verified_by
    path.unlink()
    elsewhere = pickle.loads(pickled).query(X[:10])
    assert elsewhere.counterfactuals.equals(expected.counterfactuals)
    assert elsewhere.verified_by == "gpucf reference predictor"


def test_a_result_pickles(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    result = engine.query(rows)
    twin = pickle.loads(pickle.dumps(result))
    assert twin.counterfactuals.equals(result.counterfactuals) and same_bits(twin.cost, result.cost)
    assert [twin.changes(i) for i in range(12)] == [result.changes(i) for i in range(12)]


def test_an_ensemble_is_a_model_of_its_own(engine: gpucf.Engine, rows: pd.DataFrame) -> None:
    alone = gpucf.Engine(engine.ensemble, background=data()[0], one_hot=GROUPS)
    result = alone.query(rows)
    assert isinstance(engine.ensemble, Ensemble) and result.verified_by == "gpucf reference predictor"
    assert result.counterfactuals.equals(engine.query(rows).counterfactuals)


def test_threads_change_nothing() -> None:
    rows = data(4, 3000)[0]
    results = [
        gpucf.Engine(forest(), background=data()[0], one_hot=GROUPS, n_threads=n, method="map").query(rows)
        for n in (1, 2, 5)
    ]
    for other in results[1:]:
        assert other.counterfactuals.equals(results[0].counterfactuals)
        assert same_bits(other.cost, results[0].cost) and np.array_equal(other.visits, results[0].visits)


def test_one_engine_in_two_threads_at_once() -> None:
    shared = fresh()
    tables = [data(seed, 400)[0] for seed in (5, 6, 7, 8)]
    targets = ["opposite", 1, gpucf.Probability(0.6), "opposite"]
    got: dict[int, Any] = {}

    def ask(i: int) -> None:
        got[i] = shared.query(tables[i], target=targets[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(shared._planner.maps) == 2  # class and probability, each built once
    for i in range(4):
        alone = fresh().query(tables[i], target=targets[i])
        assert got[i].counterfactuals.equals(alone.counterfactuals) and same_bits(got[i].cost, alone.cost)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupted_query_leaves_the_engine_usable(n_threads: int) -> None:
    engine = gpucf.Engine(forest(), background=data()[0], one_hot=GROUPS, n_threads=n_threads)
    rows = data(9, 4000)[0]
    calls = []

    def interrupt(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.query(rows, progress=interrupt)
    assert len(calls) == 2
    after, expected = engine.query(rows), fresh().query(rows)
    assert after.counterfactuals.equals(expected.counterfactuals) and same_bits(after.cost, expected.cost)


def test_progress_rises_to_the_number_of_rows(engine: gpucf.Engine) -> None:
    rows = data(9, 3000)[0]
    for target in ("opposite", "any_other", 1):
        calls: list[tuple[int, int]] = []
        engine.query(rows, target=target, progress=lambda done, total, calls=calls: calls.append((done, total)))
        done = [d for d, _ in calls]
        assert done == sorted(done) and done[-1] == calls[-1][1]


@pytest.mark.parametrize("judged", [True, False])
def test_a_wrong_answer_is_raised_not_returned(
    judged: bool, monkeypatch: pytest.MonkeyPatch, rows: pd.DataFrame
) -> None:
    """A broken kernel says that a row's own place is its counterfactual."""
    from gpucf import _planner

    engine = fresh()
    if not judged:
        engine.judge = None
    real = _planner.nearest_boxes

    def broken(*args: Any) -> Any:
        nearest = real(*args)
        nearest.codes[4] = args[4][4]
        return nearest

    monkeypatch.setattr(_planner, "nearest_boxes", broken)
    with pytest.raises(VerificationError, match="row 4 does not meet the target"):
        engine.query(rows)


def test_the_users_model_is_asked_and_has_the_last_word(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that says no to what our own predictor accepts."""
    from dataclasses import replace

    engine = fresh()
    judge, asked = engine.judge, []

    def contrary(given: Any) -> np.ndarray:
        asked.append(given)
        said = judge.class_index(given)
        return said if len(asked) == 1 else 1 - said

    engine.judge = replace(judge, class_index=contrary)
    with pytest.raises(VerificationError, match="by scikit-learn"):
        engine.query(rows)
    assert len(asked) == 2 and isinstance(asked[1], pd.DataFrame)
    engine.judge = replace(judge, class_index=lambda given: 1 - judge.class_index(given))
    with pytest.raises(ModelError, match="disagree on row 0 as it came in"):
        engine.query(rows)
