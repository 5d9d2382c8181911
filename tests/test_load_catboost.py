"""CatBoost models, read from the object and from the JSON export, against the installed library, bit for bit."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import loader_checks
import numpy as np
import pandas as pd
import pytest
from loader_checks import DEPTHS, SEEDS, compare
from sizes import count

import gpucf
from gpucf._errors import ModelError
from gpucf._fast_exp import fast_exp
from gpucf._jit import njit
from gpucf._links import classes_from_raw
from gpucf._loaders import catboost as loader
from gpucf._loaders import load_model, open_judge
from gpucf._predict import predict_raw
from gpucf._table import read_table

catboost = pytest.importorskip("catboost")
COMMON = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0, "learning_rate": 0.3}
POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]


def make_table(seed: int, n: int = 400, n_features: int = 4) -> np.ndarray:
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


def train(X: Any, y: np.ndarray, **options: Any) -> Any:
    kind = (
        catboost.CatBoostRegressor
        if options.get("loss_function") in ("RMSE", "Poisson")
        else catboost.CatBoostClassifier
    )
    return kind(**{"iterations": 10, "depth": 3, **COMMON, **options}).fit(X, y)


def check_bits(model: Any, X: np.ndarray, **options: Any) -> int:
    with np.errstate(over="ignore"):  # nan_mode="Min" puts a border at the least float32, and below it is -inf
        return loader_checks.check_bits(model, X, **options)


def check(model: Any, X: np.ndarray, **options: Any) -> int:
    return check_bits(model, X, ensemble=loader.from_object(model), **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "MultiClassOneVsAll", "RMSE"])
def test_case_07_every_kind(loss: str, policy: str, depth: int, seed: int) -> None:
    X = make_table(seed)
    y = make_classes(X, 2 if loss == "Logloss" else 4, seed)
    model = train(X, y, loss_function=loss, grow_policy=policy, depth=depth)
    assert check(model, X) > 400


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 8, 11])
def test_softmax_is_catboosts_own(n_classes: int, tmp_path: Any) -> None:
    """Its exponential works on groups of four, and is not the C library's; scaled so that it underflows."""
    X = make_table(1)
    model = train(X, make_classes(X, n_classes, 1), loss_function="MultiClass")
    for scale in (1.0, 30.0, 4000.0):
        model.set_scale_and_bias(scale, [0.0] * n_classes)
        check(model, X)


def test_the_exponential_differs_from_the_c_library() -> None:
    """Else the copy would not be needed, and its test could not fail."""

    @njit
    def both(x, out):  # type: ignore[no-untyped-def]
        for i in range(len(x)):
            out[i, 0] = fast_exp(x[i], True)
            out[i, 1] = math.exp(x[i])

    x = -np.random.default_rng(0).exponential(size=1000) * 5
    out = np.empty((1000, 2))
    both(x, out)
    assert (out[:, 0] != out[:, 1]).any()
    assert np.all(np.abs(out[:, 0] / out[:, 1] - 1) < 1e-14)


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_alone_and_in_blocks_add_up_alike(policy: str) -> None:
    X = make_table(0, 700)
    model = train(X, make_classes(X, 2, 0), iterations=90, depth=5, grow_policy=policy)
    whole = model.predict(X, prediction_type="RawFormulaVal")
    raw = predict_raw(loader.from_object(model), X)[:, 0]
    assert np.array_equal(raw, whole)
    for size in (1, 7, 16, 129):
        parts = [model.predict(X[i : i + size], prediction_type="RawFormulaVal") for i in range(0, 4 * size, size)]
        assert np.array_equal(np.concatenate([np.atleast_1d(p) for p in parts]), whole[: 4 * size])


def test_case_06_border_float32_and_ulps() -> None:
    """The border itself is low, the next float32 is high, and a float64 just above the border is still low."""
    X = make_table(0)
    model = train(X, (X[:, 1] > 0.3).astype(int), iterations=1, depth=1)
    read = loader.from_object(model)
    j = int(read.feature[0])
    border = read.threshold[0]
    assert border == np.float64(np.float32(border))
    rows = np.zeros((5, 4))
    above = np.float64(np.nextafter(np.float32(border), np.float32(np.inf)))
    rows[:, j] = [
        border,
        np.nextafter(border, np.inf),
        above,
        (border + above) / 2,
        np.nextafter((border + above) / 2, 9),
    ]
    low, high = model.predict(np.where(np.arange(4) == j, border - 1, 0.0)), model.predict(rows[2])
    assert low != high
    assert model.predict(rows)[[0, 1]].tolist() == [low, low]
    compare(read, loader.judge(model, read), rows, rows)
    check(model, X)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["Min", "Max", "Forbidden"])
def test_case_42_missing_values(mode: str, seed: int) -> None:
    X = make_table(seed)
    y = make_classes(X, 2, seed)
    holes = X if mode == "Forbidden" else with_holes(X, seed)
    for policy in POLICIES:
        model = train(holes, y, nan_mode=mode, grow_policy=policy)
        read = loader.from_object(model)
        assert read.allows_missing.all()
        inner = read.left >= 0
        assert read.missing_left[inner].all() == (mode != "Max")
        check(model, holes)
        extremes = np.array([np.nan, 3.4028235e38, -3.4028235e38, 0.0, -0.0, 1e-45])
        rows = np.stack(np.meshgrid(*[extremes] * 4), axis=-1).reshape(-1, 4)
        compare(read, loader.judge(model, read), rows, rows)


def test_case_57_single_leaf_trees(tmp_path: Any) -> None:
    X = make_table(0)
    y = make_classes(X, 2, 0)
    model = train(X, y, grow_policy="Lossguide", min_data_in_leaf=10_000, iterations=4)
    read = loader.from_object(model)
    assert read.n_nodes == read.n_trees
    check(model, X)
    exported = export(train(X, y, iterations=2), tmp_path)
    exported["oblivious_trees"][0] = {"leaf_values": [0.25], "leaf_weights": [1], "splits": []}
    assert read_back(exported, tmp_path).n_trees == 2
    exported["oblivious_trees"][0]["splits"] = None
    assert read_back(exported, tmp_path).n_nodes > 1


@pytest.mark.parametrize("policy", POLICIES)
def test_case_68_multi_class_with_labels_of_each_type(policy: str) -> None:
    X = make_table(0)
    y = make_classes(X, 3, 0)
    for labels in (np.array(["low", "mid", "top"]), np.array([4, 7, -9]), np.array([0.5, 1.5, 9.0])):
        model = train(X, labels[y], grow_policy=policy)
        read = loader.from_object(model)
        assert read.classes is not None and read.classes.tolist() == model.classes_.tolist()
        check(model, X)
    two = make_classes(X, 2, 0)
    for labels in (np.array([False, True]), np.array(["no", "yes"]), np.array([3, 1])):
        check(train(X, labels[two], grow_policy=policy), X)
    half = train(X, two * 0.5, loss_function="CrossEntropy", grow_policy=policy)
    assert loader.from_object(half).classes.tolist() == [0, 1]  # type: ignore[union-attr]
    check(half, X)


@pytest.mark.parametrize("seed", SEEDS)
def test_case_72_margins_next_to_the_decision(seed: int) -> None:
    """The bias is moved so that a row lands on 0, on the user's threshold, and within an ulp of them."""
    X = make_table(seed)
    y = make_classes(X, 2, seed)
    on_the_edge = 0
    for threshold in (None, 0.3, 0.9):
        model = train(X, y)
        if threshold is not None:
            model.set_probability_threshold(threshold)
        edge = 0.0 if threshold is None else -math.log(1 / threshold - 1)
        start = model.predict(X, prediction_type="RawFormulaVal")
        for row in range(3):
            bias = edge - start[row]
            for value in (bias, np.nextafter(bias, 9), np.nextafter(bias, -9), bias + 1e-5, bias - 1e-5):
                model.set_scale_and_bias(1.0, [float(value)])
                read = loader.from_object(model)
                on_the_edge += int((predict_raw(read, X) == edge).sum())
                check_bits(model, X, ensemble=read, max_rows=1500)
    assert on_the_edge > 0


def test_scale_and_bias_threshold_and_iterations() -> None:
    X = make_table(0)
    y = make_classes(X, 3, 0)
    for loss, biases in (("Logloss", [0.1]), ("MultiClass", [0.1] * 3), ("RMSE", [0.7])):
        model = train(X, np.minimum(y, 1) if loss == "Logloss" else y, loss_function=loss)
        for scale in (1.0, 1.7, 1e-3):
            model.set_scale_and_bias(scale, biases)
            assert loader.from_object(model).post == "affine"
            check(model, X)
            for n in (1, 4):
                check_bits(model, X, ensemble=loader.from_object(model, n))
    model = train(X, y, loss_function="MultiClass")
    model.set_scale_and_bias(1.0, [0.1, 0.2, 0.3])
    with pytest.raises(ModelError, match="different bias"):
        loader.from_object(model)


def test_names_and_dtypes() -> None:
    X = make_table(0)
    y = make_classes(X, 2, 0)
    plain = loader.from_object(train(X, y))
    assert not plain.has_names and plain.feature_names == ("f0", "f1", "f2", "f3")
    named = loader.from_object(train(pd.DataFrame(X, columns=list("abcd")), y))
    assert named.has_names and named.feature_names == ("a", "b", "c", "d")
    assert plain.compare_dtype == np.float32 and plain.score_dtype == np.float64


# ------------------------------------------------------------------------------------------------ files


def export(model: Any, folder: Path, pool: Any = None) -> dict[str, Any]:
    model.save_model(str(folder / "m.json"), format="json", pool=pool)
    return dict(json.loads((folder / "m.json").read_text()))


def read_back(exported: Any, folder: Path) -> Any:
    path = folder / "changed.json"
    path.write_text(exported if isinstance(exported, str) else json.dumps(exported))
    return loader.from_file(path)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "RMSE"])
def test_the_json_export_is_the_model(loss: str, policy: str, tmp_path: Any) -> None:
    """CatBoost misreads digits of its own export; the judge of a file must not."""
    X = with_holes(make_table(0), 0)
    y = make_classes(np.nan_to_num(X), 2 if loss == "Logloss" else 3, 0)
    model = train(X, y, loss_function=loss, grow_policy=policy, iterations=30)
    export(model, tmp_path)
    path = tmp_path / "m.json"
    read = load_model(path)
    assert read.model_type == "CatBoost"
    check_bits(model, X, ensemble=read)
    check_bits(model, X, ensemble=read, judge=open_judge(path, read))
    raw = open_judge(path, read).raw(X)  # type: ignore[union-attr]
    assert np.array_equal(raw, np.asarray(model.predict(X, prediction_type="RawFormulaVal")).reshape(raw.shape))


@pytest.mark.parametrize("labels", [[False, True], ["no", "yes"], [3, 1], [0.5, 2.0]], ids=str)
def test_files_keep_labels_and_threshold(labels: list[Any], tmp_path: Any) -> None:
    X = make_table(0)
    model = train(X, np.array(labels)[make_classes(X, 2, 0)])
    model.set_probability_threshold(0.35)
    model.set_scale_and_bias(1.3, [0.01])
    export(model, tmp_path)
    path = tmp_path / "m.json"
    read = load_model(path)
    assert read.decision == "above" and read.post == "affine"
    assert read.classes.tolist() == model.classes_.tolist()  # type: ignore[union-attr]
    check_bits(model, X, ensemble=read)
    check_bits(model, X, ensemble=read, judge=open_judge(path, read))


def test_the_binary_format_is_refused_with_advice(tmp_path: Any) -> None:
    X = make_table(0)
    train(X, make_classes(X, 2, 0)).save_model(str(tmp_path / "m.cbm"))
    with pytest.raises(ModelError, match=r'format="json"'):
        load_model(tmp_path / "m.cbm")


# ------------------------------------------------------------------------------------------------ categories


def category_frame(seed: int, n: int = 500) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.round(rng.normal(size=n), 1),
            "job": rng.choice(["clerk", "cook", "pilot", "żona", ""], n),
            "pay": rng.normal(size=n),
            "code": rng.integers(0, 4, n),
        }
    )
    y = (frame["job"].isin(["cook", "żona"]).astype(int) + (frame["code"] == 2) + (frame["age"] > 0) > 1).to_numpy()
    return frame, y.astype(int)


def decode_strings(read: Any, rows: np.ndarray) -> pd.DataFrame:
    columns = {}
    for j, name in enumerate(read.feature_names):
        values = read.categories[j]
        columns[name] = rows[:, j] if values is None else values[rows[:, j].astype(int)]
    return pd.DataFrame(columns)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", POLICIES)
def test_case_65_one_hot_is_supported(policy: str, seed: int, tmp_path: Any) -> None:
    frame, y = category_frame(seed)
    for cats in (["job"], ["job", "code"]):
        used = frame if "code" in cats else frame.drop(columns="code")
        pool = catboost.Pool(used, y, cat_features=cats)
        for loss, labels in (("Logloss", y), ("MultiClass", y + (frame["pay"] > 1).to_numpy())):
            pool = catboost.Pool(used, labels, cat_features=cats)
            model = catboost.CatBoostClassifier(
                iterations=20, depth=4, one_hot_max_size=20, loss_function=loss, grow_policy=policy, **COMMON
            ).fit(pool)
            export(model, tmp_path, pool)
            read = load_model(tmp_path / "m.json")
            assert (read.category_set >= 0).any()
            assert set(read.categories[1].tolist()) >= set(frame["job"])
            assert len(read.categories[1]) == (5 if len(cats) == 1 else 9)
            assert bool(read.notes) == (len(cats) > 1)
            assert read.allows_missing.tolist() == [c not in cats for c in used.columns]
            coded = np.column_stack(
                [
                    used[c] if c not in cats else [list(read.categories[j]).index(str(v)) for v in used[c]]
                    for j, c in enumerate(used.columns)
                ]
            ).astype(float)
            check_bits(model, coded, ensemble=read, decode=decode_strings)
            check_bits(model, coded, ensemble=read, decode=decode_strings, judge=open_judge(tmp_path / "m.json", read))
    with pytest.raises(ModelError, match="pool=train_pool"):
        loader.from_object(model)
    model.save_model(str(tmp_path / "bare.json"), format="json")
    with pytest.raises(ModelError, match="pool=train_pool"):
        load_model(tmp_path / "bare.json")
    small = catboost.Pool(used.iloc[:1], y[:1], cat_features=cats)
    export(model, tmp_path, small)
    with pytest.raises(ModelError, match="does not hold that category"):
        load_model(tmp_path / "m.json")


def test_case_65_ctr_is_refused(tmp_path: Any) -> None:
    frame, y = category_frame(0)
    pool = catboost.Pool(frame, y, cat_features=["job", "code"])
    model = catboost.CatBoostClassifier(iterations=10, one_hot_max_size=1, **COMMON).fit(pool)
    with pytest.raises(ModelError, match="CTR"):
        loader.from_object(model)
    export(model, tmp_path, pool)
    with pytest.raises(ModelError, match="one_hot_max_size"):
        load_model(tmp_path / "m.json")


def test_refusals_say_why() -> None:
    X = make_table(0)
    y = make_classes(X, 2, 0)
    with pytest.raises(ModelError, match="not been fitted"):
        loader.from_object(catboost.CatBoostClassifier())
    for loss, target in (("MultiRMSE", X[:, :2]), ("RMSEWithUncertainty", X[:, 0])):
        model = catboost.CatBoostRegressor(iterations=2, loss_function=loss, **COMMON).fit(X, target)
        with pytest.raises(ModelError, match=loss):
            loader.from_object(model)
    many = catboost.CatBoostClassifier(iterations=2, loss_function="MultiLogloss", **COMMON).fit(X, np.c_[y, 1 - y])
    with pytest.raises(ModelError, match="MultiLogloss"):
        loader.from_object(many)
    assert loader.claims(many) and not loader.claims(object())


# ------------------------------------------------------------------------------------------------ hostile files


def small_exports(folder: Path) -> list[dict[str, Any]]:
    X = make_table(0)
    frame, y = category_frame(0)
    pool = catboost.Pool(frame, y, cat_features=["job", "code"])
    one_hot = catboost.CatBoostClassifier(iterations=2, depth=2, one_hot_max_size=20, **COMMON).fit(pool)
    return [
        export(train(X, make_classes(X, 2, 0), iterations=2, depth=2), folder),
        export(train(X, make_classes(X, 3, 0), iterations=2, depth=2, grow_policy="Lossguide"), folder),
        export(one_hot, folder, pool),
    ]


def test_truncated_files(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    for exported in small_exports(tmp_path):
        text = json.dumps(exported)
        for n in [1, 2, len(text) - 1, *rng.integers(3, len(text) - 1, 60).tolist()]:
            with pytest.raises(ModelError):
                read_back(text[:n], tmp_path)
            (tmp_path / "cut.json").write_text(text[:n])
            with pytest.raises(ModelError):
                load_model(tmp_path / "cut.json")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything inside the parts that decide a prediction."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in ("params", "training", "output_options"):
            found += places(inner, (*path, key))
    return found


WRONG = [
    None,
    True,
    -1,
    3,
    10**30,
    2**62,
    1.5,
    float("nan"),
    float("inf"),
    -1e308,
    "x",
    [],
    {},
    [[]],
    [None],
    {"value": 1},
]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_wrong_types_and_indices_anywhere(which: int, tmp_path: Any) -> None:
    """Whatever is put in place of any part: a valid ensemble or a ModelError, and nothing else."""
    rng = np.random.default_rng(which)
    tries = count(2000)
    whole = small_exports(tmp_path)[which]
    spots = places(whole)[1:]
    refused = 0
    for _ in range(tries):
        changed = copy.deepcopy(whole)
        spot = spots[rng.integers(len(spots))]
        owner = changed
        for key in spot[:-1]:
            owner = owner[key]
        owner[spot[-1]] = WRONG[rng.integers(len(WRONG))]
        try:
            read = read_back(changed, tmp_path)
            predict_raw(read, np.zeros((2, read.n_features)))
        except ModelError:
            refused += 1
    assert refused > tries // 4


def test_deep_nesting_and_foreign_json(tmp_path: Any) -> None:
    for text in (
        '{"features_info":' * 100_000,
        '{"features_info":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"features_info": {}}',
        '{"features_info": {"float_features": []}, "oblivious_trees": []}',
        '{"features_info": 1' + "1" * 10_000 + "}",
        '["features_info"]',
    ):
        path = tmp_path / "m.json"
        path.write_text(text)
        with pytest.raises(ModelError):
            load_model(path)
        with pytest.raises(ModelError):
            loader.from_file(path)
    leaf = '{"value": 1.0, "weight": 1}'
    split = '"split": {"split_type": "FloatFeature", "float_feature_index": 0, "border": 0.5}'
    chain = ("{" + split + ', "right": ' + leaf + ', "left": ') * 300 + leaf + "}" * 300
    head = '{"features_info": {"float_features": [{"feature_index": 0, "flat_feature_index": 0}]}, "trees": ['
    (tmp_path / "m.json").write_text(head + chain + "]}")
    assert loader.from_file(tmp_path / "m.json").n_nodes == 601


def test_a_million_columns_are_not_built(tmp_path: Any) -> None:
    X = make_table(0)
    exported = export(train(X, make_classes(X, 2, 0), iterations=1), tmp_path)
    exported["features_info"]["float_features"][0]["flat_feature_index"] = 10**12
    with pytest.raises(ModelError, match="out of range"):
        read_back(exported, tmp_path)


def test_single_class_decision_matches_raw() -> None:
    """Two classes with MultiClass have two scores, and a tie is the first class."""
    X = make_table(0)
    y = make_classes(X, 2, 0)
    model = train(X, y, loss_function="MultiClass")
    model.set_scale_and_bias(1e-300, [0.0, 0.0])
    read = loader.from_object(model)
    assert read.task == "binary" and read.n_outputs == 2
    check(model, X)
    model = train(X, y, loss_function="MultiClass")  # anew: CatBoost keeps old leaf values once it has predicted
    model.set_leaf_values(np.zeros(len(model.get_leaf_values())))
    read = loader.from_object(model)
    assert np.all(classes_from_raw(read, predict_raw(read, X)) == 0)
    check(model, X)


def test_an_object_learns_its_words_from_the_background() -> None:
    """One-hot columns of an object that knows hashes only: text, whole numbers and category columns."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Aix", "Bonn", "Cork"], 120),
            "age": rng.integers(18, 80, 120),
            "rooms": rng.choice([1, 2, 5], 120),
        }
    )
    y = ((frame["town"] == "Bonn") * 20 + frame["age"] + frame["rooms"] * 4 + rng.normal(size=120) > 60).astype(int)
    model = catboost.CatBoostClassifier(
        iterations=5, depth=3, one_hot_max_size=9, cat_features=["town", "rooms"], verbose=False, random_seed=0,
        thread_count=1, allow_writing_files=False,
    ).fit(frame, y)  # fmt: skip
    with pytest.raises(ModelError, match="background table"):
        load_model(model)
    for given in (frame, frame.astype({"town": "category"}), frame.astype({"town": object})):
        engine = gpucf.Engine(model, given)
        assert sorted(engine.ensemble.categories[0]) == ["Aix", "Bonn", "Cork"]
        assert sorted(engine.ensemble.categories[2]) == [1, 2, 5]
        result = engine.query(given)
        assert (result.status == "optimal").all() and result.verified_by.startswith("catboost")
        assert result.counterfactuals.dtypes.equals(given.dtypes)
        assert (model.predict(result.counterfactuals) != model.predict(given)).all()
        coded = read_table(given, engine.ensemble).values
        judged = [cell.tolist() for cell in given.to_numpy(dtype=object)]
        assert np.array_equal(predict_raw(engine.ensemble, coded)[:, 0], model.predict(judged, "RawFormulaVal"))
    with pytest.raises(ModelError, match="does not hold that category"):
        gpucf.Engine(model, frame[frame["town"] == "Aix"])
