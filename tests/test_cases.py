"""Cases from public bug reports of other projects (numbers as in docs/design/cases.md), on whole queries.

What concerns only how a model is read stands with its loader.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_checks import check_query, coded, same_bits
from sizes import DEEP, count
from sklearn import ensemble as sk
from sklearn.tree import DecisionTreeClassifier

import gpucf
from gpucf import OptionError, TableError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def xgb(X: Any, y: Any, **param: Any) -> Any:
    import xgboost

    return xgboost.XGBClassifier(**{"n_estimators": 5, "max_depth": 3, "n_jobs": 1, **param}).fit(X, y)


def lgbm(X: Any, y: Any, **param: Any) -> Any:
    import lightgbm

    given = {"n_estimators": 5, "max_depth": 3, "min_child_samples": 5, "n_jobs": 1, "verbose": -1, **param}
    return lightgbm.LGBMClassifier(**given).fit(X, y)


def catb(X: Any, y: Any, **param: Any) -> Any:
    import catboost

    given = {"iterations": 5, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False, **param}
    return catboost.CatBoostClassifier(**given).fit(X, y)


def people(seed: int, n: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": rng.integers(20, 40, n), "income": np.round(rng.gamma(4, 10, n), 1), "debt": rng.integers(0, 5, n),
    })  # fmt: skip
    y = (0.1 * frame.age + 0.05 * frame.income - frame.debt + rng.normal(0, 0.5, n) > 3).to_numpy().astype(int)
    return frame, y


def stump(make: Any, low: float, high: float, **param: Any) -> Any:
    """A model that splits one column between two values."""
    X = np.repeat([low, high], 40).reshape(-1, 1)
    return make(X, (X[:, 0] > (low + high) / 2).astype(int), **param)


# --- numbers at the threshold ----------------------------------------------------------------------------------------


def test_case_01_the_threshold_itself_goes_right() -> None:
    """m2cgen#188, vespa#36121: at float32(0.671), read as a float64, the comparison is decided in float32."""
    import json

    import xgboost

    doc = json.loads(bytes(stump(xgb, 0.0, 1.0, n_estimators=1, max_depth=1).get_booster().save_raw("json")))
    (tree,) = doc["learner"]["gradient_booster"]["model"]["trees"]
    tree["split_conditions"][0] = 0.671
    booster = xgboost.Booster(model_file=bytearray(json.dumps(doc).encode()))
    for dtype in (np.float32, np.float64):
        engine = gpucf.Engine(booster, background=np.array([[0.0], [1.0]], dtype))
        result = check_query(engine, np.array([[0.5]], dtype), target=1)
        assert result.counterfactuals.dtype == dtype and result.counterfactuals[0, 0] == np.float32(0.671)
        assert booster.predict(xgboost.DMatrix(result.counterfactuals))[0] > 0.5
        assert result.verified_by.startswith("xgboost ")


def test_case_03_lightgbm_compares_in_float64() -> None:
    """sklearnex#3351, treelite#115: the threshold 0.3000000000000001 is no float32."""
    X = np.tile([0.1, 0.2, 0.4, 0.5], 30).reshape(-1, 1)
    model = lgbm(X, (X[:, 0] > 0.3).astype(int), min_child_samples=1, min_data_in_bin=1, max_depth=1, learning_rate=1.0)
    engine = gpucf.Engine(model, background=X)
    (t,) = np.unique(engine.ensemble.threshold[engine.ensemble.feature == 0])
    result = check_query(engine, np.array([[0.1]]), target=1)
    assert t < result.counterfactuals[0, 0] <= t + 1e-12 and t != np.float32(t)
    assert model.predict(result.counterfactuals).tolist() == [1] and model.predict([[t]]).tolist() == [0]


def test_case_06_catboost_borders_are_float32() -> None:
    """catboost#2105: a float64 just above the border is rounded to the border."""
    model = stump(catb, 0.1, 0.7, depth=1, learning_rate=0.5)
    engine = gpucf.Engine(model, background=np.array([[0.0], [1.0]]))
    b = float(engine.ensemble.threshold[engine.ensemble.feature == 0][0])
    result = check_query(engine, np.array([[b]]), target=1)
    assert result.counterfactuals[0, 0] == np.nextafter(np.float32(b), np.float32(np.inf))
    asked = np.array([[b], [np.nextafter(b, np.inf)], result.counterfactuals[0]])
    assert model.predict(asked).ravel().tolist() == [0, 0, 1]


def test_case_10_without_a_step_nothing_is_rounded() -> None:
    """DiCE#473: answers on 0-1 scaled data were rounded to two digits and no longer valid (steps: issue 4)."""
    frame, y = people(10)
    X = ((frame - frame.min()) / (frame.max() - frame.min())).to_numpy()
    model = lgbm(X, y, learning_rate=0.5)
    engine = gpucf.Engine(model, background=X)
    result = check_query(engine, X[:20])
    moved = result.counterfactuals[result.changed]
    assert (np.round(moved, 2) != moved).any()
    assert (model.predict(result.counterfactuals) != model.predict(X[:20])).all()


@pytest.mark.parametrize("make", [xgb, lgbm, catb])
def test_case_72_margins_next_to_zero(make: Any) -> None:
    """xgboost#6350, #8362: with a tiny learning rate every margin is within 1e-5 of 0; the library's word counts."""
    frame, y = people(72)
    X = frame.to_numpy(float)
    if make is xgb:
        model = xgb(X, y, learning_rate=3e-8, base_score=0.5)
    elif make is lgbm:
        model = lgbm(X, y, learning_rate=2e-16, boost_from_average=False)
    else:
        model = catb(X, y, learning_rate=1e-6, boost_from_average=False)
    engine = gpucf.Engine(model, background=X)
    assert 0 < np.abs(engine.judge.raw(X)).max() < 1e-5
    result = check_query(engine, X[:20], target="opposite")
    found = result.status == "optimal"
    assert found.any()
    said = [np.asarray(model.predict(rows)).ravel() for rows in (X[:20], result.counterfactuals)]
    assert np.array_equal(said[0] != said[1], found)


# --- targets ---------------------------------------------------------------------------------------------------------


def big_table(name: str, n: int) -> tuple[pd.DataFrame, np.ndarray, dict[str, list[str]]]:
    """German credit (ships with the package), resampled with noise."""
    from gpucf._demo import load_people, one_hot_columns

    table, groups = one_hot_columns(load_people())
    frame = table.to_pandas()
    y = load_people()["Accepted"].to_numpy()
    rng = np.random.default_rng(9)
    rows = frame.iloc[rng.integers(0, len(frame), n)].reset_index(drop=True)
    for column in ("Age", "Amount", "Months"):
        rows[column] += rng.integers(-3, 4, n)
    return frame, y, {"groups": groups, "rows": rows}  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["forest", "xgboost"])
def test_case_09_every_answer_is_valid(name: str) -> None:
    """DiCE#417, OCEAN#30: rows were marked as found whose counterfactual the model did not accept."""
    frame, y, more = big_table(name, count(10_000))
    rows = more["rows"]
    if name == "forest":
        model = sk.RandomForestClassifier(6, max_depth=3, random_state=0).fit(frame, y)
    else:
        model = xgb(frame, y, n_estimators=10, max_depth=2)
    engine = gpucf.Engine(model, background=frame, one_hot=more["groups"])
    before = model.predict(rows)
    for target in ("opposite", 1, gpucf.Probability(0.8)):
        result = engine.query(rows, target=target)
        after = model.predict(result.counterfactuals)
        found = np.isin(result.status, ["optimal", "already"])
        if isinstance(target, gpucf.Probability):
            meets = model.predict_proba(result.counterfactuals)[:, 1].astype(np.float64) >= 0.8
        else:
            meets = after != before if target == "opposite" else after == 1
            assert found.all()
        assert meets[found].all()
        assert np.isfinite(result.counterfactuals.to_numpy(float)).all()
        assert result.counterfactuals.dtypes.equals(rows.dtypes) and result.counterfactuals.index.equals(rows.index)


def test_case_11_opposite_is_resolved_row_by_row() -> None:
    """DiCE#314, #215: the target of the first row was used for all."""
    X, y = people(11)
    model = sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    before = model.predict(X[:40])
    assert 5 < before.sum() < 35
    result = check_query(gpucf.Engine(model, background=X), X[:40], target="opposite")
    assert np.array_equal(model.predict(result.counterfactuals), 1 - before)


def test_case_13_string_labels_and_three_classes() -> None:
    """DiCE#221: labels that are no numbers."""
    X, _ = people(13)
    y = np.array(["poor", "fair", "good"])[np.digitize(X.income, [35, 50])]
    model = sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    engine = gpucf.Engine(model, background=X)
    result = check_query(engine, X[:20], target="good")
    assert (model.predict(result.counterfactuals) == "good").all() and {"already", "optimal"} == set(result.status)
    other = check_query(engine, X[:20], target="any_other")
    assert (model.predict(other.counterfactuals) != model.predict(X[:20])).all()
    with pytest.raises(OptionError, match=r"model has 3 \('fair', 'good', 'poor'\); use target=\"any_other\""):
        engine.query(X[:2], target="opposite")


# --- what may change -------------------------------------------------------------------------------------------------


def test_case_19_other_columns_stay_bit_for_bit() -> None:
    """DiCE#260, CARLA#155: features outside the mutable set came back changed; NaN too must stay as it is."""
    rng = np.random.default_rng(19)
    n = count(10_000)
    X = rng.normal(size=(n, 4))
    payload = np.array([0x7FF8000000000123], np.uint64).view(np.float64)[0]
    X[rng.random(n) < 0.1, 2] = payload
    X[rng.random(n) < 0.1, 3] = -0.0
    y = (np.nan_to_num(X) @ [1, 1, 0.7, 0.7] > 0).astype(int)
    model = xgb(X, y)
    before = X.copy()
    result = gpucf.Engine(model, background=X).query(X, immutable=["f2", "f3"])
    assert same_bits(X, before) and (result.status == "optimal").sum() > n // 2
    assert same_bits(result.counterfactuals[:, 2:], X[:, 2:])
    assert same_bits(result.counterfactuals[~result.changed], X[~result.changed])


def test_case_22_no_immutable_features_and_all() -> None:
    """CARLA#202: an empty list of immutables failed."""
    X, y = people(22)
    engine = gpucf.Engine(sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), background=X)
    check_query(engine, X[:5], immutable=[])
    result = check_query(engine, X[:20], target=1, immutable=list(X))
    assert set(result.status) == {"infeasible", "already"} and result.counterfactuals.equals(X[:20])


@pytest.mark.parametrize("k", [2, 5, 70])
def test_case_23_a_switch_of_category_counts_once(k: int) -> None:
    """DiCE#186: none or two columns of a group were active, and a switch was counted twice."""
    rng = np.random.default_rng(k)
    job = rng.integers(0, k, 400)
    names = [f"job_{i}" for i in range(k)]
    X = pd.DataFrame(np.eye(k, dtype=np.int8)[job], columns=names).assign(x=rng.integers(0, 3, 400))
    model = sk.RandomForestClassifier(4, max_depth=4, random_state=0).fit(X, (job % 2 == 0) ^ (X.x == 2))
    engine = gpucf.Engine(model, background=X, one_hot={"job": names})
    for cost in ("l0", "l1"):
        result = check_query(engine, X[:15], cost=cost, immutable=["x"], target=bool(job[0] % 2))
        after = result.counterfactuals[names].to_numpy()
        assert ((after == 0) | (after == 1)).all() and (after.sum(axis=1) == 1).all()
        switched = (after != X[names][:15]).any(axis=1)
        assert switched.any() and np.array_equal(result.cost[switched], np.ones(switched.sum()))
        assert (result.n_changed[switched] == 1).all()


def test_case_25_age_may_only_rise() -> None:
    """CARLA#201, DiCE#186."""
    X, y = people(25)
    cheap = {"age": 0.01}  # so that age is what moves, if it may
    engine = gpucf.Engine(sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), background=X)
    for cost in ("l1", "l2", "linf", "l0"):
        result = check_query(engine, X[:40], cost=cost, increase_only=["age"], decrease_only=["debt"], weights=cheap)
        assert (result.counterfactuals.age >= X.age[:40]).all() and (result.counterfactuals.age > X.age[:40]).any()
        assert (result.counterfactuals.debt <= X.debt[:40]).all()


# --- dtypes, order, names --------------------------------------------------------------------------------------------


def test_case_28_a_whole_number_past_the_threshold() -> None:
    """DiCE#5, #407: int64 and a threshold of 2.5 give 3, not 2.5000001, and the column stays int64."""
    X = pd.DataFrame({"n": np.arange(6).repeat(5)})
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, X.n > 2)
    assert model.tree_.threshold[0] == 2.5
    result = gpucf.Engine(model, background=X).query(pd.DataFrame({"n": [0, 5]}))
    assert result.counterfactuals.n.tolist() == [3, 2] and result.counterfactuals.n.dtype == np.int64


@pytest.mark.parametrize("make", [xgb, lgbm])
def test_case_30_dtypes_come_back(make: Any) -> None:
    """DiCE#407, #222: narrow integers became floats, categories lost their list."""
    rng = np.random.default_rng(30)
    n = 300
    X = pd.DataFrame({
        "a": rng.integers(-3, 4, n).astype(np.int8), "b": rng.integers(0, 5, n).astype(np.uint8),
        "c": rng.random(n) < 0.5, "d": pd.Categorical.from_codes(rng.integers(0, 3, n), ["x", "y", "z"]),
        "e": rng.normal(size=n).astype(np.float32),
    })  # fmt: skip
    y = (X.a + X.b + 2 * X.c + 2 * (X.d == "y") + X.e > 3).to_numpy().astype(int)
    model = make(X, y, n_estimators=4, learning_rate=0.5, **({"enable_categorical": True} if make is xgb else {}))
    result = check_query(gpucf.Engine(model, background=X), X[:15])
    assert result.counterfactuals.dtypes.equals(X.dtypes)
    assert result.counterfactuals.d.cat.categories.tolist() == ["x", "y", "z"]
    assert (model.predict(result.counterfactuals) != model.predict(X[:15])).all()


def test_case_32_index_order_and_length_stay() -> None:
    """CARLA#157: rows were dropped and the index started at 0 again."""
    X, y = people(32)
    engine = gpucf.Engine(sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), background=X)
    rows = X[:60].set_axis(np.random.default_rng(0).permutation(1000)[:60], axis=0)
    result = engine.query(rows, target=1, immutable=["age", "income"])
    assert {"optimal", "infeasible"} <= set(result.status)
    assert result.counterfactuals.index.equals(rows.index) and result.to_frame().index.equals(rows.index)
    assert list(result.counterfactuals) == list(X)


def test_case_34_columns_are_matched_by_name() -> None:
    """DiCE#303: columns in another order gave other answers."""
    X, y = people(34)
    engine = gpucf.Engine(sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), background=X)
    turned = engine.query(X[:20][["debt", "age", "income"]])
    straight = engine.query(X[:20])
    assert list(turned.counterfactuals) == ["debt", "age", "income"]
    assert turned.counterfactuals[list(X)].equals(straight.counterfactuals) and same_bits(turned.cost, straight.cost)


def test_case_35_misspelt_words_are_named() -> None:
    """DiCE#284, #443: unknown keywords and features were ignored."""
    X, y = people(35)
    engine = gpucf.Engine(sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), background=X)
    with pytest.raises(TypeError, match="'imutable'"):
        engine.query(X[:2], imutable=["age"])  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="weights names 'aeg'"):
        engine.query(X[:2], weights={"aeg": 2})


def test_case_49_infinity_is_refused() -> None:
    """xgboost#7421, catboost#2696."""
    X, y = people(49)
    for make in (xgb, lgbm, catb):
        engine = gpucf.Engine(make(X, y), background=X)
        for bad in (np.inf, -np.inf):
            with pytest.raises(TableError, match=r"column 'income', row 1: -?inf is not a number"):
                engine.query(X[:3].assign(income=[1.0, bad, 2.0]))
    with pytest.raises(TableError, match=r"row 0: 1e\+39 is too large .* float32"):
        gpucf.Engine(xgb(X, y), background=X).query(X[:3].assign(income=[1e39, 1.0, 2.0]))


def test_case_62_categories_in_another_order_and_unseen_ones() -> None:
    """xgboost#11160, #11826."""
    rng = np.random.default_rng(62)
    X = pd.DataFrame({"job": pd.Categorical(rng.choice(list("abcd"), 300)), "x": rng.integers(0, 4, 300)})
    y = (X.job.isin(["b", "d"]) ^ (X.x > 2)).to_numpy().astype(int)
    engine = gpucf.Engine(xgb(X, y, enable_categorical=True), background=X)
    straight = check_query(engine, X[:20])
    turned = check_query(engine, X[:20].assign(job=X.job[:20].cat.reorder_categories(list("dcba"))))
    assert turned.counterfactuals.job.astype(str).equals(straight.counterfactuals.job.astype(str))
    assert turned.counterfactuals.job.cat.categories.tolist() == list("dcba") and same_bits(turned.cost, straight.cost)
    unseen = X[:3].assign(job=pd.Categorical(["a", "e", "b"]))
    with pytest.raises(TableError, match="column 'job', row 1: 'e' is not a category that the model was trained on"):
        engine.query(unseen)


# --- missing values --------------------------------------------------------------------------------------------------


def holes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (300, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] > 4).astype(int)
    X[rng.random(X.shape) < 0.15] = np.nan
    return X, y


def test_case_42_missing_values_follow_the_default_direction() -> None:
    """DiCE#224: NaN keeps its price of 0 and its place (filling is issue 4)."""
    X, y = holes(42)
    model = xgb(X, y)
    result = check_query(gpucf.Engine(model, background=X), X[:30])
    assert np.array_equal(np.isnan(result.counterfactuals), np.isnan(X[:30])) and np.isnan(X[:30]).any()
    found = result.status == "optimal"
    assert found.any() and (model.predict(result.counterfactuals) != model.predict(X[:30]))[found].all()


def test_case_45_forests_trained_with_missing_values() -> None:
    """treelite#690, #706: missing_go_to_left is followed."""
    X, y = holes(45)
    model = sk.RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, y)
    engine = gpucf.Engine(model, background=X)
    result = check_query(engine, X[:30], target=gpucf.Probability(0.6))
    found = np.isin(result.status, ["optimal", "already"])
    p = model.predict_proba(result.counterfactuals)
    assert found.any() and (p[found, 1] >= 0.6).all()
    assert np.isnan(X[:30][found]).any()


# --- structure -------------------------------------------------------------------------------------------------------


def test_case_37_work_depends_on_the_model_and_is_linear_in_rows() -> None:
    """DiCE#258, #218: time grew with the training data. Visits are counted, never seconds."""
    X, y = people(37)
    model = sk.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    small = gpucf.Engine(model, background=X, method="map")
    large = gpucf.Engine(model, background=pd.concat([X] * 500, ignore_index=True), method="map")
    alone, beside = small.query(X[:10]), large.query(X[:10])
    assert np.array_equal(alone.visits, beside.visits) and same_bits(alone.cost, beside.cost)
    assert small.region_map().n_regions == large.region_map().n_regions
    many = small.query(pd.concat([X[:10]] * 50, ignore_index=True))
    assert np.array_equal(many.visits, np.tile(alone.visits, 50))


def test_case_39_the_same_call_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """DiCE#206, xgboost#6350: again, in another row order, on other threads, in other chunks (devices: issue 5)."""
    X, y = people(39)
    model = xgb(X, y)
    rows = people(390, count(10_000))[0]
    engine = gpucf.Engine(model, background=X, n_threads=1, method="map")
    first = engine.query(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    others = {
        "again": engine.query(rows),
        "threads": gpucf.Engine(model, background=X, n_threads=3, method="map").query(rows),
    }
    monkeypatch.setattr("gpucf._query._ROWS_PER_TASK", 7)
    others["tasks"] = gpucf.Engine(model, background=X, n_threads=2, method="map").query(rows)
    for other in others.values():
        assert other.counterfactuals.equals(first.counterfactuals) and same_bits(other.cost, first.cost)
        assert np.array_equal(other.visits, first.visits) and np.array_equal(other.status, first.status)
    turned = engine.query(rows.iloc[order])
    assert turned.counterfactuals.equals(first.counterfactuals.iloc[order]) and same_bits(
        turned.cost, first.cost[order]
    )
    pieces = [engine.query(rows[i : i + 333]) for i in range(0, len(rows), 333)]
    assert pd.concat([p.counterfactuals for p in pieces]).equals(first.counterfactuals)
    assert same_bits(np.concatenate([p.cost for p in pieces]), first.cost)


def test_case_41_one_infeasible_row_among_many() -> None:
    """OmniXAI#108, DiCE#227: one row without an answer cost all the others theirs."""
    rng = np.random.default_rng(41)
    n = count(10_000)
    X = np.column_stack([rng.integers(18, 80, n), rng.integers(0, 100, n)]).astype(float)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, (X[:, 1] > 90) | (X[:, 0] > 50))
    rows = np.where(X[:, 1:] > 90, [[30.0, 50.0]], X)
    rows[17] = [30.0, 95.0]  # accepted for the second column, which may not change
    result = gpucf.Engine(model, background=X).query(rows, immutable=["f1"])
    assert np.flatnonzero(result.status == "infeasible").tolist() == [17]
    assert (np.delete(result.status, 17) == "optimal").all() and np.isinf(result.cost[17])
    assert same_bits(result.counterfactuals[17], rows[17]) and len(result) == n


# --- installation ----------------------------------------------------------------------------------------------------


def run_python(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A fresh process, without any of our settings but those given; an empty value removes a variable."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "CUDA", "PYTHON"))}
    clean |= {"PYTHONPATH": str(Path(gpucf.__file__).parents[1]), **env}
    clean = {k: v for k, v in clean.items() if v}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=600)


SMALL = """
import numpy as np, gpucf
from sklearn.tree import DecisionTreeClassifier
X = np.arange(20.0).reshape(-1, 1)
model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, X[:, 0] > 9)
"""
QUERY = (
    SMALL
    + """
print(gpucf.Engine(model, background=X).query(X[:1]).counterfactuals.tolist())
"""
)
PREDICT = (
    SMALL
    + """
from gpucf._predict import predict_raw
print(predict_raw(gpucf.load_model(model), X[[0, 19]]).tolist())
"""
)


def test_case_74_no_gpu_is_touched(tmp_path: Path) -> None:
    """cuml#2878, #6403: an import that needs a driver."""
    cache = os.environ.get("NUMBA_CACHE_DIR", "")
    code = (
        QUERY
        + """
import sys
print(sorted(m for m in ("cupy", "numba.cuda.cudadrv.driver", "pynvml") if m in sys.modules))
print([line for line in open("/proc/self/maps") if "libcuda" in line or "libnvrtc" in line])
"""
    )
    done = run_python(code, tmp_path, CUDA_VISIBLE_DEVICES="-1", NUMBA_CACHE_DIR=cache)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[[9.500000953674316]]" and lines[2] == "[]"
    assert "cupy" not in lines[1] and "pynvml" not in lines[1]


def test_case_79_no_cache_can_be_kept(tmp_path: Path) -> None:
    """numba#4032, #5566: a read-only install without a HOME. Root may write anywhere, so files stand in the way."""
    package = tmp_path / "site" / "gpucf"
    shutil.copytree(Path(gpucf.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("no folder")
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))
    done = run_python(
        QUERY if DEEP else PREDICT, tmp_path, PYTHONPATH=str(tmp_path / "site"), HOME="/dev/null",
        XDG_CACHE_HOME="/dev/null", PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("[[9.500000953674316]]" if DEEP else "[[1.0, 0.0], [0.0, 1.0]]")
    assert "cache" not in done.stderr.lower()
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before


def test_case_80_import_loads_nothing_that_compiles(tmp_path: Path) -> None:
    """stumpy#495, fast_hdbscan#26."""
    code = "import sys, gpucf; gpucf.Probability(0.5); print(sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = run_python(code.replace("gpucf.Probability(0.5); ", ""), tmp_path).stdout
    assert "'gpucf'" in loaded
    for heavy in ("numba", "llvmlite", "numpy", "pandas", "sklearn", "xgboost"):
        assert f"'{heavy}'" not in loaded


def test_answers_survive_a_csv_round_trip(tmp_path: Path) -> None:
    """Rule 7 of the design: written to CSV and read back, an answer is still one."""
    for make in (xgb, lgbm):
        frame, y = people(7)
        X = frame.assign(income=frame.income / 7)
        model = make(X, y, learning_rate=0.5)
        result = gpucf.Engine(model, background=X).query(X[:50])
        result.counterfactuals.to_csv(tmp_path / "answers.csv", index=False)
        back = pl.read_csv(tmp_path / "answers.csv").to_pandas()
        assert same_bits(back.to_numpy(float), coded(gpucf.Engine(model, background=X), result.counterfactuals))
        assert np.array_equal(model.predict(back), model.predict(result.counterfactuals))


def test_the_table_of_cases_is_true() -> None:
    """Each row of docs/design/cases.md names test files that have a test of that number, or an issue."""
    root = Path(__file__).parents[1]
    listed = set()
    for line in (root / "docs" / "design" / "cases.md").read_text().splitlines():
        row = re.match(r"\| (\d\d) \| .* \| (.*) \|$", line)
        if not row:
            continue
        number, where = row.groups()
        listed.add(number)
        files = re.findall(r"`(test_(?:cases|features|audit|load_\w+))`", where)
        assert files or "left for issue" in where, line
        for name in files:
            if name == "test_features" and len(files) > 1:
                continue  # more of the kind, under names of their own
            text = (root / "tests" / f"{name}.py").read_text()
            assert f"def test_case_{number}_" in text, (number, name)
    tests = "".join(path.read_text() for path in (root / "tests").glob("test_*.py"))
    assert set(re.findall(r"def test_case_(\d\d)_", tests)) <= listed
