"""XGBoost models give the library's own bits, from objects and from files; what cannot is refused with a reason."""

from __future__ import annotations

import builtins
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from loader_checks import DEPTHS, SEEDS, check_bits, compare, decoded_rows, judge_of
from sizes import count

from gpucf._errors import ModelError, OptionError, TableError
from gpucf._links import classes_from_raw
from gpucf._loaders import load_model, open_judge
from gpucf._loaders import xgboost as loader
from gpucf._loaders._ubjson import read_ubjson
from gpucf._predict import predict_raw

# XGBoost warns of parameters that an objective does not use, and of its own deprecations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])


def table(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of several kinds with holes, two classes, three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(0, 5, n)
    X[:, 3] *= 10.0 ** rng.integers(-6, 6, n)
    score = X[:, 0] + X[:, 1] ** 2 + 0.2 * X[:, 2] + rng.normal(size=n) / 3
    X[rng.random((n, 5)) < 0.05] = np.nan
    return X, (score > 1).astype(int), np.digitize(score, [0.6, 1.8])


def train(seed: int, depth: int, y: np.ndarray | None = None, rounds: int = 12, **param: Any) -> xgb.Booster:
    X, y2, _ = table(seed)
    param = {"max_depth": depth, "seed": seed, "nthread": 1, **param}
    return xgb.train(param, xgb.DMatrix(X, y2 if y is None else y), rounds)


def document(booster: xgb.Booster) -> dict[str, Any]:
    return json.loads(bytes(booster.save_raw("json")))


def rebuilt(doc: dict[str, Any]) -> xgb.Booster:
    return xgb.Booster(model_file=bytearray(json.dumps(doc).encode()))


VARIETIES = {
    "binary": lambda s, d: xgb.XGBClassifier(n_estimators=12, max_depth=d, seed=s).fit(*table(s)[:2]),
    "three": lambda s, d: xgb.XGBClassifier(n_estimators=6, max_depth=d, seed=s).fit(table(s)[0], table(s)[2]),
    "softmax": lambda s, d: xgb.XGBClassifier(n_estimators=6, max_depth=d, objective="multi:softmax").fit(
        table(s)[0], table(s)[2]
    ),
    "logitraw": lambda s, d: xgb.XGBClassifier(n_estimators=12, max_depth=d, objective="binary:logitraw").fit(
        *table(s)[:2]
    ),
    "hinge": lambda s, d: xgb.XGBClassifier(n_estimators=12, max_depth=d, objective="binary:hinge").fit(*table(s)[:2]),
    "forest": lambda s, d: xgb.XGBRFClassifier(n_estimators=12, max_depth=d, seed=s).fit(*table(s)[:2]),
    "forest3": lambda s, d: xgb.XGBClassifier(n_estimators=3, num_parallel_tree=3, max_depth=d, subsample=0.7).fit(
        table(s)[0], table(s)[2]
    ),
    "forest regressor": lambda s, d: xgb.XGBRFRegressor(n_estimators=12, max_depth=d).fit(*table(s)[:2]),
    "regressor": lambda s, d: xgb.XGBRegressor(n_estimators=12, max_depth=d).fit(table(s)[0], table(s)[2]),
    "ranker": lambda s, d: xgb.XGBRanker(n_estimators=12, max_depth=d).fit(
        *table(s)[:2], qid=np.repeat(np.arange(30), 10)
    ),
    "dart": lambda s, d: xgb.XGBClassifier(booster="dart", rate_drop=0.3, n_estimators=12, max_depth=d).fit(
        *table(s)[:2]
    ),
    "dart3": lambda s, d: train(
        s, d, table(s)[2], objective="multi:softprob", num_class=3, booster="dart", rate_drop=0.3
    ),
    "booster": lambda s, d: train(s, d, objective="binary:logistic"),
    "booster softmax": lambda s, d: train(s, d, table(s)[2], objective="multi:softmax", num_class=3),
    "booster hinge": lambda s, d: train(s, d, objective="binary:hinge"),
    "booster logitraw": lambda s, d: train(s, d, objective="binary:logitraw"),
}
EXPECTED = {"binary": "binary", "three": "multiclass", "regressor": "regression", "ranker": "regression"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("variety", VARIETIES)
def test_object_json_and_ubjson_give_the_same_bits(variety: str, depth: int, seed: int, tmp_path: Path) -> None:
    model = VARIETIES[variety](seed, depth)
    X = table(seed)[0]
    ensemble = load_model(model)
    assert ensemble.task == EXPECTED.get(variety, ensemble.task)
    assert check_bits(model, X, ensemble=ensemble, max_rows=4000, seed=seed) > 300
    booster = model if isinstance(model, xgb.Booster) else model.get_booster()
    for name in ("m.json", "m.ubj"):
        model.save_model(tmp_path / name)
        read = load_model(tmp_path / name)
        assert np.array_equal(predict_raw(read, X), predict_raw(ensemble, X))
        check_bits(booster, X, ensemble=read, judge=open_judge(tmp_path / name, read), max_rows=300)


@pytest.mark.parametrize(
    "objective",
    [
        "reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "reg:absoluteerror",
        "reg:quantileerror", "count:poisson", "reg:gamma", "reg:tweedie", "rank:pairwise", "rank:ndcg", "survival:cox",
        "survival:aft", *(["reg:expectileerror"] if VERSION >= (3, 3) else []),
    ],
)  # fmt: skip
def test_raw_scores_of_every_objective(objective: str) -> None:
    X, y, _ = table(3)
    data = xgb.DMatrix(X, y + (0.5 if objective in ("reg:gamma", "survival:aft") else 0.0))
    data.set_float_info("label_lower_bound", y + 0.5)
    data.set_float_info("label_upper_bound", y + 0.75)
    alpha = {"reg:quantileerror": "quantile_alpha", "reg:expectileerror": "expectile_alpha"}.get(objective)
    model = xgb.train({"objective": objective, "max_depth": 3, **({alpha: 0.3} if alpha else {})}, data, 8)
    ensemble = load_model(model)
    assert ensemble.task == "regression"
    assert ensemble.decision == "none"
    assert check_bits(model, X, ensemble=ensemble) > 300


def test_case_01_value_equal_to_the_threshold_goes_right() -> None:
    t = np.float32(0.671)
    X = np.array([[0.5], [np.nextafter(t, np.float32(0))], [t], [0.9]], dtype=np.float32)
    model = xgb.XGBClassifier(n_estimators=1, max_depth=1, min_child_weight=0, tree_method="exact").fit(X, [0, 0, 1, 1])
    doc = document(model.get_booster())
    doc["learner"]["gradient_booster"]["model"]["trees"][0]["split_conditions"][0] = float(t)
    booster = rebuilt(doc)
    ensemble = load_model(booster)
    assert ensemble.threshold[0] == np.nextafter(t, np.float32(-1)) < t
    assert check_bits(booster, X, ensemble=ensemble) > 10
    assert classes_from_raw(ensemble, predict_raw(ensemble, np.array([[0.5], [float(t)], [0.671]]))).tolist() == [
        0,
        1,
        1,
    ]


def test_case_42_missing_values_follow_the_default_direction() -> None:
    X, y, _ = table(5)
    X[::2, 0] = np.nan
    model = xgb.XGBClassifier(n_estimators=10, max_depth=4).fit(X, y)
    ensemble = load_model(model)
    inner = ensemble.left >= 0
    assert 0 < ensemble.missing_left[inner].sum() < inner.sum()  # both directions occur
    rows = np.full((1, 5), np.nan)
    compare(ensemble, judge_of(model, ensemble), rows, rows)
    check_bits(model, X, ensemble=ensemble)


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_case_50_every_form_of_base_score(form: str, tmp_path: Path) -> None:
    if form == "[{}]" and VERSION < (3, 1):
        pytest.skip("older versions write no list")
    X = table(0)[0]
    doc = document(train(0, 3, objective="binary:logistic"))
    for score in (
        "5E-1",
        "3.3333334E-1",
        "9.999999E-1",
        "1.1E-6",
        "0.25",
        *(["0E0", "1E0"] if VERSION >= (3, 2) else []),
    ):
        doc["learner"]["learner_model_param"]["base_score"] = form.format(score)
        check_bits(rebuilt(doc), X, ensemble=None, max_rows=200)


@pytest.mark.skipif(VERSION < (3, 1), reason="older versions hold one base score")
def test_case_50_one_base_score_a_class() -> None:
    X, _, y3 = table(0)
    model = train(0, 3, y3, objective="multi:softprob", num_class=3)
    ensemble = load_model(model)
    assert len(set(ensemble.base.tolist())) == 3
    assert check_bits(model, X, ensemble=ensemble) > 300


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_case_51_base_margins_have_the_bits_of_the_library(objective: str) -> None:
    rng = np.random.default_rng(1)
    doc = document(train(0, 1, objective=objective, eta=0.0, rounds=1))
    scores = np.concatenate([rng.random(count(500)), 10.0 ** rng.uniform(-5.9, -0.01, count(500))]).astype(np.float32)
    for score in scores:
        doc["learner"]["learner_model_param"]["base_score"] = str(score)
        expected = rebuilt(doc).predict(xgb.DMatrix(np.zeros((1, 5))), output_margin=True)[0]
        ours = load_model(rebuilt(doc)).base[0]
        assert ours == expected, score


def test_case_51_estimated_base_score() -> None:
    X, y, _ = table(4, n=1000)
    model = xgb.XGBClassifier(n_estimators=15, max_depth=4, base_score=None).fit(X, y)
    assert check_bits(model, X) > 1000


def test_case_54_dart_weights_multiply_the_leaves() -> None:
    model = VARIETIES["dart"](0, 3)
    booster = document(model.get_booster())["learner"]["gradient_booster"]
    weights = booster["weight_drop"] if "weight_drop" in booster else booster["model"]["weight_drop"]
    assert len(set(weights)) > 1  # otherwise the test would show nothing
    check_bits(model, table(0)[0])


def early_stopped() -> xgb.XGBClassifier:
    X, y, _ = table(0)
    model = xgb.XGBClassifier(n_estimators=60, max_depth=4, early_stopping_rounds=3, learning_rate=0.5)
    model.fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model


def test_case_55_wrapper_uses_the_best_iteration_and_booster_all(tmp_path: Path) -> None:
    model, X = early_stopped(), table(0)[0]
    booster = model.get_booster()
    best, all_rounds = model.best_iteration + 1, booster.num_boosted_rounds()
    assert load_model(model).n_trees == best
    assert load_model(booster).n_trees == all_rounds
    assert load_model(model, iterations="all").n_trees == all_rounds
    assert load_model(model, iterations=2).n_trees == 2
    check_bits(model, X)
    check_bits(booster, X)
    check_bits(model, X, iterations=2)
    check_bits(model, X, iterations="all")
    margin = model.predict(X, output_margin=True)
    assert np.array_equal(predict_raw(load_model(model), X)[:, 0], margin)
    for name in ("m.json", "m.ubj"):
        model.save_model(tmp_path / name)
        read = load_model(tmp_path / name)
        assert np.array_equal(predict_raw(read, X)[:, 0], margin)
        check_bits(None, X, ensemble=read, judge=open_judge(tmp_path / name, read))
        assert load_model(tmp_path / name, iterations="all").n_trees == all_rounds
    with pytest.raises(OptionError, match=f"the model has {all_rounds} rounds"):
        load_model(model, iterations=all_rounds + 1)


def test_case_57_single_leaf_trees() -> None:
    X, y, y3 = table(0)
    model = xgb.XGBClassifier(n_estimators=4, gamma=1e6).fit(X, y)
    ensemble = load_model(model)
    assert ensemble.n_nodes == ensemble.n_trees == 4
    check_bits(model, X, ensemble=ensemble)
    check_bits(xgb.XGBClassifier(n_estimators=9, gamma=9).fit(X, y3), X)


# XGBoost before 3.4 spoils letters outside ASCII.
SHARP = "ß" if VERSION >= (3, 4) else "ss"


def category_frame(seed: int = 0, n: int = 400) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A frame with category columns of texts and numbers, its coded rows, and a class."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "c": pd.Categorical(rng.choice(["x", SHARP, "z"], n), categories=["z", SHARP, "x", "never"]),
            "i": pd.Categorical(rng.choice([10, 20, 30, 40, 50, 70, 90], n)),
            "b": rng.integers(0, 2, n),
        }
    )
    y = ((frame.a > 0) ^ (frame.c == "x") ^ frame.i.isin([10, 40, 90])).astype(int).to_numpy()
    frame.loc[3:9, "c"] = None
    coded = frame.copy()
    for name in "ci":
        coded[name] = frame[name].cat.codes.where(frame[name].cat.codes >= 0)
    return frame, coded.to_numpy(float), y


@pytest.mark.skipif(VERSION < (3, 1), reason="older versions store no categories")
@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_case_59_categories_of_a_frame(max_cat_to_onehot: int, tmp_path: Path) -> None:
    frame, coded, y = category_frame()
    model = xgb.XGBClassifier(
        n_estimators=10, max_depth=4, enable_categorical=True, max_cat_to_onehot=max_cat_to_onehot
    ).fit(frame, y)
    ensemble = load_model(model)
    assert (ensemble.category_set >= 0).sum() > 10
    assert ensemble.categories[0] is None
    assert ensemble.categories[1].tolist() == ["z", SHARP, "x", "never"]
    assert ensemble.categories[2].tolist() == [10, 20, 30, 40, 50, 70, 90]
    assert check_bits(model, coded, ensemble=ensemble) > 400
    # The judge takes an array of values too.
    judge = judge_of(model, ensemble)
    values = frame.astype(object).where(frame.notna(), None).to_numpy()
    assert np.array_equal(judge.raw(values), judge.raw(frame))
    for name in ("m.json", "m.ubj"):
        model.save_model(tmp_path / name)
        read = load_model(tmp_path / name)
        assert [c if c is None else c.tolist() for c in read.categories] == [
            c if c is None else c.tolist() for c in ensemble.categories
        ]
        check_bits(None, coded, ensemble=read, judge=open_judge(tmp_path / name, read))


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_case_59_integer_codes(max_cat_to_onehot: int) -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 70, 600), rng.integers(0, 3, 600), rng.normal(size=600)]).astype(float)
    y = np.isin(X[:, 0] % 7, [1, 3, 4]) ^ (X[:, 1] == 1)
    data = xgb.DMatrix(X, y, feature_types=["c", "c", "q"], enable_categorical=True)
    param = {"objective": "binary:logistic", "max_depth": 5, "max_cat_to_onehot": max_cat_to_onehot}
    model = xgb.train(param, data, 10)
    ensemble = load_model(model)
    listed = len(ensemble.categories[0])
    assert ensemble.categories[0].tolist() == list(range(listed))
    known = X[X[:, 0] < listed]
    assert len(known) > 300
    assert check_bits(model, known, ensemble=ensemble) > 300
    assert "codes" in ensemble.notes[0]


@pytest.mark.skipif(VERSION < (3, 1), reason="older versions store no categories")
def test_case_62_category_order_does_not_matter_and_an_unseen_one_is_named() -> None:
    frame, _, y = category_frame()
    model = xgb.XGBClassifier(n_estimators=10, max_depth=4, enable_categorical=True).fit(frame, y)
    ensemble = load_model(model)
    judge = judge_of(model, ensemble)
    turned = frame.assign(c=frame.c.cat.reorder_categories(["never", "x", SHARP, "z"]))
    assert np.array_equal(judge.raw(turned), judge.raw(frame))
    unseen = frame.astype(object).where(frame.notna(), None).to_numpy()
    unseen[0, 1] = "w"
    with pytest.raises(TableError, match="column 'c' has the category 'w'"):
        judge.raw(unseen)


@pytest.mark.parametrize("seed", SEEDS)
def test_case_68_trees_belong_to_the_right_class(seed: int) -> None:
    X, _, y3 = table(seed)
    param = {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2}
    model = train(seed, 3, y3, rounds=4, **param)
    ensemble = load_model(model)
    assert ensemble.n_trees == 24
    assert sorted(np.bincount(ensemble.tree_output).tolist()) == [8, 8, 8]
    check_bits(model, X, ensemble=ensemble)


def write_chain(tree: dict[str, Any], values: np.ndarray) -> None:
    """Make a tree a chain of splits at 0.5, 1.5, ... on column 0, whose leaf k has the given float32 value."""
    n = len(values) - 1
    inner = 2 * np.arange(n)
    size = 2 * n + 1
    left, right, condition = np.full(size, -1), np.full(size, -1), np.zeros(size, np.float32)
    left[inner], right[inner] = inner + 1, inner + 2
    condition[inner] = np.arange(n) + 0.5
    condition[np.r_[inner + 1, size - 1]] = values
    parents = np.full(size, 2147483647)
    parents[left[inner]] = parents[right[inner]] = inner
    zeros = [0] * size
    tree.update(
        base_weights=[0.0] * size, default_left=zeros, left_children=left.tolist(), right_children=right.tolist(),
        loss_changes=[0.0] * size, parents=parents.tolist(), split_indices=zeros, split_type=zeros,
        split_conditions=condition.astype(float).tolist(), sum_hessian=[1.0] * size,
    )  # fmt: skip
    tree["tree_param"]["num_nodes"] = str(size)


def chains(values: np.ndarray, base: str = "5E-1", **param: Any) -> tuple[xgb.Booster, np.ndarray]:
    """A model whose leaf (k, c) is ``values[k, c]``, and the rows that reach these leaves."""
    n_class = values.shape[1]
    y = np.arange(300) % max(n_class, 2)
    doc = document(train(0, 1, y, rounds=1, **(param or {"objective": "binary:logistic"})))
    for tree, column in zip(doc["learner"]["gradient_booster"]["model"]["trees"], values.T, strict=True):
        write_chain(tree, column.astype(np.float32))
    doc["learner"]["learner_model_param"]["base_score"] = base
    rows = np.zeros((len(values), 5))
    rows[:, 0] = np.arange(len(values))
    return rebuilt(doc), rows


def test_case_72_two_classes_near_zero() -> None:
    tiny = 10.0 ** np.linspace(-9, -5, 200)
    around = np.float32(8.9e-8) + np.arange(-100, 100) * np.spacing(np.float32(8.9e-8))
    values = np.concatenate([-tiny, tiny, around, [0.0, -0.0, 8.9e-8, 9e-8]]).astype(np.float32)
    model, rows = chains(values[:, None])
    ensemble = load_model(model)
    assert np.array_equal(predict_raw(ensemble, rows)[:, 0], values)
    compare(ensemble, judge_of(model, ensemble), rows, rows)
    assert classes_from_raw(ensemble, values[-2:, None]).tolist() == [0, 1]


def test_probabilities_over_the_whole_range() -> None:
    rng = np.random.default_rng(0)
    model, rows = chains(np.concatenate([rng.uniform(-110, 110, 1500), rng.normal(size=1500)])[:, None])
    ensemble = load_model(model)
    compare(ensemble, judge_of(model, ensemble), rows, rows)


@pytest.mark.parametrize("n_class", [2, 3, 5])
@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_case_72_multi_class_ties_of_a_few_ulp(objective: str, n_class: int) -> None:
    rng = np.random.default_rng(n_class)
    centre = (rng.choice([0.0, 1.0, -3.0, 20.0], 1500) + rng.normal(size=1500)).astype(np.float32)[:, None]
    values = centre + rng.integers(-4, 5, (1500, n_class)) * np.spacing(centre)
    values[::5] = rng.normal(size=(300, n_class)) * 30
    model, rows = chains(values, "0E0", objective=objective, num_class=n_class)
    ensemble = load_model(model)
    compare(ensemble, judge_of(model, ensemble), rows, rows)
    raw = predict_raw(ensemble, rows)
    found = classes_from_raw(ensemble, raw)
    assert set(found.tolist()) == set(range(n_class))
    ties = np.count_nonzero(found != np.argmax(raw, axis=1))
    assert (ties > 0) == (objective == "multi:softprob")  # rounded probabilities tie where raw scores do not


def test_leaf_far_from_the_base_is_added_in_float32() -> None:
    model, rows = chains(np.array([[1e8], [3.0], [-1e8], [1e-8]]), "9.9E-1")
    ensemble = load_model(model)
    compare(ensemble, judge_of(model, ensemble), rows, rows)


def test_files_are_read_without_xgboost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = VARIETIES["three"](0, 3), table(0)[0]
    expected = predict_raw(load_model(model), X)
    model.save_model(tmp_path / "m.ubj")
    real = builtins.__import__

    def no_xgboost(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "xgboost":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_xgboost)
    ensemble = load_model(tmp_path / "m.ubj")
    assert np.array_equal(predict_raw(ensemble, X), expected)
    assert open_judge(tmp_path / "m.ubj", ensemble) is None


def test_names_and_saved_classifier(tmp_path: Path) -> None:
    X, y, _ = table(0)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = xgb.XGBClassifier(n_estimators=3, objective="binary:logitraw").fit(frame, y)
    ensemble = load_model(model)
    assert ensemble.feature_names == tuple("vwxyz")
    assert ensemble.has_names
    assert ensemble.link_a == 0.5
    assert np.array_equal(judge_of(model, ensemble).raw(frame), judge_of(model, ensemble).raw(X))
    model.save_model(tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").decision == ensemble.decision == "above"
    assert load_model(model.get_booster()).decision == "above_0"
    assert not load_model(VARIETIES["binary"](0, 1)).has_names


def test_refused_with_a_reason(tmp_path: Path) -> None:
    X, y, y3 = table(0)
    with pytest.raises(ModelError, match="gblinear"):
        load_model(train(0, 1, booster="gblinear"))
    with pytest.raises(ModelError, match="missing=-1"):
        load_model(xgb.XGBClassifier(n_estimators=1, missing=-1.0).fit(X, y))
    with pytest.raises(ModelError, match="has not been fitted"):
        load_model(xgb.XGBClassifier())
    two = np.stack([y, y3], axis=1)
    with pytest.raises(ModelError, match="several targets"):
        load_model(xgb.XGBRegressor(n_estimators=1).fit(X, two))
    with pytest.raises(ModelError, match=r"several targets|vectors"):
        load_model(xgb.XGBRegressor(n_estimators=1, multi_strategy="multi_output_tree", tree_method="hist").fit(X, two))
    doc = document(train(0, 1))
    doc["learner"]["objective"]["name"] = "reg:mine"
    with pytest.raises(ModelError, match="'reg:mine' is not known"):
        load_text(tmp_path, doc)
    (tmp_path / "old.bin").write_bytes(b"binf" + bytes(100))
    with pytest.raises(ModelError, match="old binary format"):
        load_model(tmp_path / "old.bin")
    if VERSION >= (3, 1):
        frame = pd.DataFrame({"c": pd.Categorical(["x", "ßa", "z"] * 20)})
        model = xgb.XGBClassifier(n_estimators=1, enable_categorical=True).fit(frame, [0, 1, 1] * 20)
        if VERSION < (3, 4):
            with pytest.raises(ModelError, match="outside ASCII"):
                load_model(model)
        else:
            assert "ßa" in load_model(model).categories[0]
    doc = document(train(0, 1, objective="binary:logitraw"))
    doc["version"] = [1, 7, 6]
    with pytest.raises(ModelError, match=r"before 2\.0"):
        load_text(tmp_path, doc)


def load_text(folder: Path, doc: Any) -> Any:
    path = folder / "model.json"
    path.write_text(doc if isinstance(doc, str) else json.dumps(doc))
    return load_model(path)


def test_truncated_files(tmp_path: Path) -> None:
    booster = train(0, 3, rounds=3)
    for form in ("json", "ubj"):
        data = bytes(booster.save_raw(form))
        path = tmp_path / f"m.{form}"
        for cut in np.linspace(0, len(data) - 1, 60, dtype=int):
            path.write_bytes(data[:cut])
            with pytest.raises(ModelError):
                load_model(path)


def test_flipped_bytes_never_crash(tmp_path: Path) -> None:
    booster = train(0, 3, rounds=2)
    rng = np.random.default_rng(0)
    X = table(0)[0][:5]
    refused = 0
    for form in ("json", "ubj"):
        data = bytes(booster.save_raw(form))
        for _ in range(200):
            bad = bytearray(data)
            for at in rng.integers(0, len(bad), 3):
                bad[at] = rng.integers(0, 256)
            path = tmp_path / "m"
            path.write_bytes(bad)
            try:
                predict_raw(load_model(path), X)
            except ModelError:
                refused += 1
    assert refused > 50


def hostile(change: Any) -> dict[str, Any]:
    doc = document(train(0, 3, rounds=2))
    change(doc["learner"], doc["learner"]["gradient_booster"]["model"]["trees"][1])
    return doc


HOSTILE = {
    "cycle": lambda _, t: t["left_children"].__setitem__(1, 0),
    "own child": lambda _, t: t["left_children"].__setitem__(1, 1),
    "shared child": lambda _, t: t["left_children"].__setitem__(0, t["right_children"][0]),
    "child out of range": lambda _, t: t["right_children"].__setitem__(0, 10**6),
    "huge child": lambda _, t: t["right_children"].__setitem__(0, 10**30),
    "children apart": lambda _, t: t["right_children"].__setitem__(0, t["right_children"][0] + 1),
    "one child": lambda _, t: t["right_children"].__setitem__(0, -1),
    "feature out of range": lambda _, t: t["split_indices"].__setitem__(0, 99),
    "negative feature": lambda _, t: t["split_indices"].__setitem__(0, -3),
    "NaN threshold": lambda _, t: t["split_conditions"].__setitem__(0, float("nan")),
    "NaN leaf": lambda _, t: t.__setitem__("split_conditions", [float("nan")] * len(t["left_children"])),
    "infinite leaf": lambda _, t: t["split_conditions"].__setitem__(-1, float("inf")),
    "huge leaf": lambda _, t: t["split_conditions"].__setitem__(-1, 1e300),
    "text leaf": lambda _, t: t["split_conditions"].__setitem__(-1, "1"),
    "null leaf": lambda _, t: t["split_conditions"].__setitem__(-1, None),
    "short array": lambda _, t: t["split_conditions"].pop(),
    "no nodes": lambda _, t: [t.__setitem__(k, []) for k in t if isinstance(t[k], list)],
    "float children": lambda _, t: t["left_children"].__setitem__(0, 1.5),
    "nested children": lambda _, t: t.__setitem__("left_children", [[1]]),
    "unknown split type": lambda _, t: t["split_type"].__setitem__(0, 7),
    "category out of range": lambda _, t: t.update(
        categories=[10**9], categories_nodes=[0], categories_segments=[0], categories_sizes=[1]
    ),
    "category segment": lambda _, t: t.update(
        categories=[1], categories_nodes=[0], categories_segments=[5], categories_sizes=[1]
    ),
    "category size": lambda _, t: t.update(
        categories=[1], categories_nodes=[0], categories_segments=[0], categories_sizes=[2**62]
    ),
    "category node": lambda _, t: t.update(
        categories=[1], categories_nodes=[10**6], categories_segments=[0], categories_sizes=[1]
    ),
    "vector leaf": lambda _, t: t["tree_param"].__setitem__("size_leaf_vector", "3"),
    "columns": lambda n, _: n["learner_model_param"].__setitem__("num_feature", "1000000000000"),
    "negative columns": lambda n, _: n["learner_model_param"].__setitem__("num_feature", "-1"),
    "classes": lambda n, _: n["learner_model_param"].__setitem__("num_class", "100000000000"),
    "base score": lambda n, _: n["learner_model_param"].__setitem__("base_score", "[1,2"),
    "base scores": lambda n, _: n["learner_model_param"].__setitem__("base_score", "[1,2,3,4]"),
    "base text": lambda n, _: n["learner_model_param"].__setitem__("base_score", "half"),
    "base NaN": lambda n, _: n["learner_model_param"].__setitem__("base_score", "nan"),
    "no objective": lambda n, _: n.pop("objective"),
    "no booster": lambda n, _: n.pop("gradient_booster"),
    "booster text": lambda n, _: n.__setitem__("gradient_booster", "gbtree"),
    "names": lambda n, _: n.__setitem__("feature_names", ["a"]),
    "no names": lambda n, _: n.__setitem__("feature_names", [1, 2, 3, 4, 5]),
    "best": lambda n, _: n.__setitem__("attributes", {"best_iteration": "77"}),
    "best text": lambda n, _: n.__setitem__("attributes", {"best_iteration": "first"}),
    "group": lambda n, _: n["gradient_booster"]["model"].__setitem__("tree_info", [0, 5]),
    "negative group": lambda n, _: n["gradient_booster"]["model"].__setitem__("tree_info", [0, -1]),
    "rounds": lambda n, _: n["gradient_booster"]["model"].__setitem__("iteration_indptr", [0, 9, 2]),
    "unknown part": lambda n, _: n["gradient_booster"]["model"].__setitem__("tree_scale", [2, 2]),
    "DART weights": lambda n, _: n["gradient_booster"]["model"].__setitem__("weight_drop", [1.0]),
    "tree text": lambda n, _: n["gradient_booster"]["model"]["trees"].__setitem__(0, "oak"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        load_text(tmp_path, hostile(HOSTILE[name]))


def test_nesting_without_end(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nested too deep"):
        load_text(tmp_path, '{"learner":' + "[" * 10**6)
    (tmp_path / "m.ubj").write_bytes(loader._UBJSON_HEAD + b"[" * 10**6)
    with pytest.raises(ModelError, match="nested more than"):
        load_model(tmp_path / "m.ubj")
    for bomb in (b"[$Z#L" + struct.pack(">q", 2**40), b"[$d#L" + struct.pack(">q", 2**40), b"[#l\xff\xff\xff\xff"):
        with pytest.raises(ModelError):
            read_ubjson(bomb, "a bomb")


def test_chain_of_a_million_nodes_loads_and_predicts(tmp_path: Path) -> None:
    n = count(500_000)
    doc = document(train(0, 1, rounds=1))
    write_chain(doc["learner"]["gradient_booster"]["model"]["trees"][0], np.arange(n + 1).astype(np.float32))
    doc["learner"]["learner_model_param"]["base_score"] = "0E0"
    ensemble = load_text(tmp_path, doc)
    assert ensemble.n_nodes == 2 * n + 1
    rows = np.zeros((3, 5))
    rows[:, 0] = [-1, 1234.6, 1e7]
    assert predict_raw(ensemble, rows)[:, 0].tolist() == [0.0, 1235.0, n]


@pytest.mark.parametrize("text", ["0.1", "0.10000000149011612", "1.0000000596046499", "3.4e38", "1e-44"])
def test_decimal_numbers_round_as_in_the_library(text: str, tmp_path: Path) -> None:
    written = json.dumps(document(chains(np.array([[7.0], [7.0]]))[0])).replace(" 7.0", f" {text}")
    (tmp_path / "m.json").write_text(written)
    ensemble = load_model(tmp_path / "m.json")
    assert ensemble.leaf_value[0, 0] == np.float32(text)
    rows = np.zeros((1, 5))
    compare(ensemble, open_judge(tmp_path / "m.json", ensemble), rows, rows)


@pytest.mark.parametrize(
    "text", ["1.00000005960464477539062500001", "1.000000059604644775390625", "7.006492321624085e-46"]
)
def test_numbers_that_would_be_rounded_twice_are_refused(text: str, tmp_path: Path) -> None:
    written = json.dumps(document(chains(np.array([[7.0], [7.0]]))[0])).replace(" 7.0", f" {text}")
    (tmp_path / "m.json").write_text(written)
    with pytest.raises(ModelError, match="halfway between two float32"):
        load_model(tmp_path / "m.json")


def test_pandas_rows_reach_the_judge() -> None:
    X, y, _ = table(0)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = xgb.XGBClassifier(n_estimators=3).fit(frame, y)
    ensemble = load_model(model)
    compare(ensemble, judge_of(model, ensemble), X, frame)
    compare(ensemble, judge_of(model, ensemble), X.astype(np.float32), frame.astype(np.float32))
    assert decoded_rows(ensemble, X) is X
