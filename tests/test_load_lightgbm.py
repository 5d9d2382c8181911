"""LightGBM models give the library's own bits, from objects and from files; what cannot is refused with a reason."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from loader_checks import DEPTHS, SEEDS, check_bits, compare, judge_of
from sizes import count

from gpucf._errors import ModelError, OptionError, TableError
from gpucf._links import classes_from_raw
from gpucf._loaders import load_model, open_judge
from gpucf._predict import predict_raw, predict_sums

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
QUIET = {"verbose": -1, "n_jobs": 1}
SMALL = {"min_child_samples": 5, **QUIET}


def table(seed: int, n: int = 300, holes: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of several kinds with holes, two classes, three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(-1, 4, n)
    X[:, 3] *= 10.0 ** rng.integers(-6, 6, n)
    score = X[:, 0] + X[:, 1] ** 2 + 0.2 * X[:, 2] + rng.normal(size=n) / 3
    if holes:
        X[rng.random((n, 5)) < 0.05] = np.nan
    return X, (score > 1).astype(int), np.digitize(score, [0.6, 1.8])


def classifier(depth: int, rounds: int = 12, **param: Any) -> lgb.LGBMClassifier:
    return lgb.LGBMClassifier(n_estimators=rounds, max_depth=depth, num_leaves=2**depth, **SMALL, **param)


def regressor(depth: int, rounds: int = 12, **param: Any) -> lgb.LGBMRegressor:
    return lgb.LGBMRegressor(n_estimators=rounds, max_depth=depth, num_leaves=2**depth, **SMALL, **param)


FOREST = {"boosting_type": "rf", "subsample_freq": 1, "subsample": 0.6}
VARIETIES = {
    "binary": lambda s, d: classifier(d).fit(*table(s)[:2]),
    "labels": lambda s, d: classifier(d).fit(table(s)[0], np.array(["no", "a yes"])[table(s)[1]]),
    "sigmoid": lambda s, d: classifier(d, sigmoid=0.7).fit(*table(s)[:2]),
    "three": lambda s, d: classifier(d, 6).fit(table(s)[0], np.array(["b", "a", "c"])[table(s)[2]]),
    "ova": lambda s, d: classifier(d, 6, objective="multiclassova", sigmoid=1.7).fit(table(s)[0], table(s)[2]),
    "cross entropy": lambda s, d: classifier(d, objective="cross_entropy").fit(*table(s)[:2]),
    "forest": lambda s, d: classifier(d, 7, **FOREST).fit(*table(s)[:2]),
    "forest3": lambda s, d: classifier(d, 7, **FOREST).fit(table(s)[0], table(s)[2]),
    "forest regressor": lambda s, d: regressor(d, 7, **FOREST).fit(table(s)[0], table(s)[2]),
    "dart": lambda s, d: classifier(d, boosting_type="dart", drop_rate=0.3).fit(*table(s)[:2]),
    "dart3": lambda s, d: classifier(d, 6, boosting_type="dart", drop_rate=0.3).fit(table(s)[0], table(s)[2]),
    "regressor": lambda s, d: regressor(d).fit(table(s)[0], table(s)[2]),
    "no holes": lambda s, d: classifier(d).fit(*table(s, holes=False)[:2]),
    "use_missing off": lambda s, d: classifier(d, use_missing=False).fit(*table(s)[:2]),
    "ranker": lambda s, d: lgb.LGBMRanker(n_estimators=12, max_depth=d, **SMALL).fit(*table(s)[:2], group=[30] * 10),
    "booster": lambda s, d: lgb.train({"objective": "binary", "max_depth": d, **SMALL}, lgb.Dataset(*table(s)[:2]), 12),
    "booster3": lambda s, d: lgb.train(
        {"objective": "multiclass", "num_class": 3, "max_depth": d, **SMALL}, lgb.Dataset(table(s)[0], table(s)[2]), 6
    ),
}
TASKS = {"three": "multiclass", "ova": "multiclass", "regressor": "regression", "ranker": "regression"}


def booster_of(model: Any) -> lgb.Booster:
    return model if isinstance(model, lgb.Booster) else model.booster_


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("variety", VARIETIES)
def test_object_and_text_file_give_the_same_bits(variety: str, depth: int, seed: int, tmp_path: Path) -> None:
    model = VARIETIES[variety](seed, depth)
    X = table(seed)[0]
    ensemble = load_model(model)
    assert ensemble.task == TASKS.get(variety, ensemble.task)
    assert check_bits(model, X, ensemble=ensemble, max_rows=4000, seed=seed) > 300
    booster_of(model).save_model(tmp_path / "m.txt")
    read = load_model(tmp_path / "m.txt")
    assert np.array_equal(predict_raw(read, X), predict_raw(ensemble, X))
    check_bits(None, X, ensemble=read, judge=open_judge(tmp_path / "m.txt", read), max_rows=300)


@pytest.mark.parametrize(
    "objective",
    ["poisson", "quantile", "huber", "regression_l1", "gamma", "tweedie", "mape", "fair", "cross_entropy_lambda"],
)
def test_raw_scores_of_every_objective(objective: str) -> None:
    X, y, _ = table(3)
    model = regressor(3, 8, objective=objective).fit(X, y * 0.5 + 0.25)
    ensemble = load_model(model)
    assert (ensemble.task, ensemble.decision) == ("regression", "none")
    assert check_bits(model, X, ensemble=ensemble) > 300


def test_case_03_comparison_in_float64() -> None:
    X = np.array([[0.1], [0.2], [0.4], [0.5]] * 10)
    y = (X[:, 0] > 0.3).astype(int)
    model = lgb.LGBMClassifier(n_estimators=1, min_child_samples=1, **QUIET).fit(X, y)
    ensemble = load_model(model)
    t = ensemble.threshold[0]
    assert t == 0.3000000000000001
    above = np.nextafter(t, 1)
    raw = predict_raw(ensemble, np.array([[t], [above]]))[:, 0]
    assert raw[0] < raw[1]
    assert np.array_equal(raw, model.predict(np.array([[t], [above]]), raw_score=True))
    check_bits(model, X, ensemble=ensemble)


@pytest.mark.parametrize("scale", [1e-36, 3e-35, 1e-40, 1.0])
def test_values_near_zero_are_read_as_zero(scale: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], (200, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 0] >= 0)
    model = regressor(3, 3).fit(X, y)
    text = "\n".join(t for t in model.booster_.model_to_string().split("\n") if not t.startswith("tree_sizes="))
    ensemble = load_model(model)
    limit = float(np.float32(1e-35))
    assert set(np.abs(ensemble.threshold[ensemble.left >= 0])) & {limit, np.nextafter(limit, 1)}
    values = np.concatenate([scale * np.linspace(-3, 3, 41), [limit, -limit, 0.0, -0.0, 5e-324]])
    values = np.concatenate([values, np.nextafter(values, 1), np.nextafter(values, -1)])
    rows = np.column_stack([values, values])
    compare(ensemble, judge_of(model, ensemble), rows, rows)
    # The same trees with each threshold inside the zone that is read as zero.
    for new in (5e-36, -5e-36, limit, -limit, 0.0, -5e-324):
        moved = re.sub(
            "(?m)^threshold=(.*)$", lambda m, new=new: "threshold=" + " ".join([repr(new)] * len(m[1].split())), text
        )
        booster = lgb.Booster(model_str=moved)
        ensemble = load_model(booster)
        compare(ensemble, judge_of(booster, ensemble), rows, rows)


@pytest.mark.parametrize("holes", [False, True])
def test_case_42_missing_values(holes: bool) -> None:
    X, y, _ = table(1, holes=holes)
    model = classifier(4).fit(X, y)
    ensemble = load_model(model)
    rows = X.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.5] = np.nan
    compare(ensemble, judge_of(model, ensemble), rows, rows)
    if not holes:  # read as 0
        assert np.array_equal(predict_raw(ensemble, rows), predict_raw(ensemble, np.nan_to_num(rows)))


def test_case_55_best_iteration(tmp_path: Path) -> None:
    X, y, _ = table(0)
    stop = lgb.early_stopping(3, verbose=False)
    model = classifier(4, 60, learning_rate=0.5)
    model.fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], callbacks=[stop])
    assert 0 < model.best_iteration_ < 60
    assert load_model(model).n_trees == model.best_iteration_
    check_bits(model, X)
    data = lgb.Dataset(X[:150], y[:150])
    param = {"objective": "binary", "learning_rate": 0.5, **SMALL}
    booster = lgb.train(
        param, data, 60, valid_sets=[lgb.Dataset(X[150:], y[150:], reference=data)], callbacks=[stop],
        keep_training_booster=True,
    )  # fmt: skip
    best, all_rounds = booster.best_iteration, booster.num_trees()
    assert 0 < best < all_rounds
    # LightGBM's Booster follows best_iteration too, unlike XGBoost's.
    assert load_model(booster).n_trees == best
    assert load_model(booster, iterations="all").n_trees == all_rounds
    for iterations in (None, "all", 2):
        check_bits(booster, X, iterations=iterations, max_rows=500)
    assert np.array_equal(predict_raw(load_model(booster), X)[:, 0], booster.predict(X, raw_score=True))
    booster.save_model(tmp_path / "best.txt")
    assert load_model(tmp_path / "best.txt").n_trees == best
    booster.save_model(tmp_path / "all.txt", num_iteration=-1)
    assert load_model(tmp_path / "all.txt").n_trees == all_rounds
    with pytest.raises(OptionError, match=f"the model has {all_rounds} rounds"):
        load_model(booster, iterations=1000)


def test_case_57_single_leaf_trees() -> None:
    X, y, _ = table(0)
    model = lgb.LGBMRegressor(n_estimators=3, min_child_samples=1000, **QUIET).fit(X, y)
    ensemble = load_model(model)
    assert ensemble.n_nodes == ensemble.n_trees >= 1
    check_bits(model, X, ensemble=ensemble)
    rare = (np.arange(300) == 0).astype(int) + 2 * (np.arange(300) > 150)
    check_bits(classifier(3, 4).fit(X, rare), X)


def category_frame(seed: int = 0, n: int = 500) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "c": pd.Categorical(rng.choice(["x", "ßa", "z"], n), categories=["z", "ßa", "x", "never"]),
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


CATEGORICAL = {"min_data_per_group": 5, "cat_smooth": 1.0}


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_case_59_categories_of_a_frame(max_cat_to_onehot: int, tmp_path: Path) -> None:
    frame, coded, y = category_frame()
    model = classifier(4, max_cat_to_onehot=max_cat_to_onehot, **CATEGORICAL).fit(frame, y)
    ensemble = load_model(model)
    assert (ensemble.category_set >= 0).sum() > 5
    assert ensemble.categories[0] is None
    assert ensemble.categories[1].tolist() == ["z", "ßa", "x", "never"]
    assert ensemble.categories[2].tolist() == [10, 20, 30, 40, 50, 70, 90]
    assert check_bits(model, coded, ensemble=ensemble) > 500
    judge = judge_of(model, ensemble)
    values = frame.astype(object).where(frame.notna(), None).to_numpy()
    assert np.array_equal(judge.raw(values), judge.raw(frame))
    booster_of(model).save_model(tmp_path / "m.txt")
    read = load_model(tmp_path / "m.txt")
    assert np.array_equal(predict_raw(read, coded), predict_raw(ensemble, coded))
    check_bits(None, coded, ensemble=read, judge=open_judge(tmp_path / "m.txt", read))


def test_case_59_integer_codes() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([7 * rng.integers(0, 70, 900), rng.integers(0, 3, 900), rng.normal(size=900)]).astype(float)
    y = np.isin(X[:, 0] % 5, [1, 3]) ^ (X[:, 1] == 1)
    model = classifier(5, **CATEGORICAL).fit(X, y, categorical_feature=[0, 1])
    ensemble = load_model(model)
    known = ensemble.categories[0]
    assert set(known.tolist()) <= set(range(0, 490, 7))
    coded = X[np.isin(X[:, 0], known)]
    coded[:, 0] = np.searchsorted(known, coded[:, 0])
    assert len(coded) > 400
    assert check_bits(model, coded, ensemble=ensemble) > 400
    # NaN, negative and unseen codes go right, as the walk says of a code that is not in a set.
    unseen = coded[:50].copy()
    given = unseen.copy()
    unseen[:, 0], given[:, 0] = -1, 8
    judge = judge_of(model, ensemble)
    assert np.array_equal(predict_raw(ensemble, unseen), judge.raw(given))
    given[:, 0] = -3
    assert np.array_equal(predict_raw(ensemble, unseen), judge.raw(given))


def test_case_62_category_order_does_not_matter_and_an_unseen_one_is_named() -> None:
    frame, _, y = category_frame()
    model = classifier(4, **CATEGORICAL).fit(frame, y)
    judge = judge_of(model, load_model(model))
    turned = frame.assign(c=frame.c.cat.reorder_categories(["never", "x", "ßa", "z"]))
    assert np.array_equal(judge.raw(turned), judge.raw(frame))
    unseen = frame.astype(object).where(frame.notna(), None).to_numpy()
    unseen[0, 1] = "w"
    with pytest.raises(TableError, match="column 'c' has the category 'w'"):
        judge.raw(unseen)


def test_case_66_linear_trees_are_refused() -> None:
    with pytest.raises(ModelError, match="linear_tree"):
        load_model(regressor(3, linear_tree=True).fit(*table(0)[:2]))


def test_case_67_forests_are_averaged() -> None:
    model, X = VARIETIES["forest"](0, 3), table(0)[0]
    ensemble = load_model(model)
    assert (ensemble.post, ensemble.post_a) == ("divide", 7.0)
    assert np.array_equal(predict_sums(ensemble, X)[:, 0], model.predict(X, raw_score=True))
    check_bits(model, X, ensemble=ensemble)
    check_bits(model, X, iterations=3)
    regression = VARIETIES["forest regressor"](0, 3)
    assert np.array_equal(predict_raw(load_model(regression), X)[:, 0], regression.predict(X))


@pytest.mark.parametrize("seed", SEEDS)
def test_case_68_trees_belong_to_the_right_class(seed: int) -> None:
    model = VARIETIES["three"](seed, 3)
    ensemble = load_model(model)
    assert ensemble.classes.tolist() == ["a", "b", "c"]
    assert ensemble.tree_output.tolist() == [0, 1, 2] * 6
    check_bits(model, table(seed)[0], ensemble=ensemble)


def chain_text(values: np.ndarray, objective: str) -> str:
    """A model file whose tree c has leaf values[k, c] where column 0 lies in (k - 0.5, k + 0.5]."""
    n, n_class = len(values) - 1, values.shape[1]
    trees = []
    for c in range(n_class):
        fields = {
            "num_leaves": n + 1,
            "num_cat": 0,
            "split_feature": [0] * n,
            "split_gain": [1] * n,
            "threshold": [k + 0.5 for k in range(n)],
            "decision_type": [2] * n,
            "left_child": [~k for k in range(n)],
            "right_child": [*range(1, n), ~n],
            "leaf_value": [repr(float(v)) for v in values[:, c]],
            "leaf_weight": [1] * (n + 1),
            "leaf_count": [1] * (n + 1),
            "internal_value": [0] * n,
            "internal_weight": [0] * n,
            "internal_count": [1] * n,
            "is_linear": 0,
            "shrinkage": 1,
        }
        lines = [f"{k}={' '.join(map(str, v)) if isinstance(v, list) else v}" for k, v in fields.items()]
        trees.append(f"Tree={c}\n" + "\n".join(lines) + "\n\n\n")
    head = (
        f"tree\nversion=v4\nnum_class={n_class}\nnum_tree_per_iteration={n_class}\nlabel_index=0\nmax_feature_idx=0\n"
        f"objective={objective}\nfeature_names=Column_0\nfeature_infos=[0:{n}]\n"
        f"tree_sizes={' '.join(str(len(t)) for t in trees)}\n\n"
    )
    tail = "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"
    return head + "".join(trees) + tail


def compare_chain(values: np.ndarray, objective: str, folder: Path) -> Any:
    (folder / "m.txt").write_text(chain_text(values, objective))
    ensemble = load_model(folder / "m.txt")
    rows = np.arange(len(values), dtype=float)[:, None]
    assert np.array_equal(predict_raw(ensemble, rows), values)
    compare(ensemble, open_judge(folder / "m.txt", ensemble), rows, rows)
    return ensemble


@pytest.mark.parametrize("slope", [1.0, 0.3, 2.5])
def test_case_72_two_classes_near_zero(slope: float, tmp_path: Path) -> None:
    tiny = 10.0 ** np.linspace(-18, -14, 300)
    around = 2.2e-16 / slope + np.arange(-100, 100) * np.spacing(2.2e-16 / slope)
    values = np.concatenate([-tiny, tiny, around, [0.0, -0.0, 1.6e-16, 2.3e-16]])
    ensemble = compare_chain(values[:, None], f"binary sigmoid:{slope:g}", tmp_path)
    if slope == 1.0:
        assert classes_from_raw(ensemble, values[-2:, None]).tolist() == [0, 1]
    rng = np.random.default_rng(0)
    spread = np.concatenate([rng.uniform(-800, 800, 1000), rng.normal(size=1000)])
    compare_chain(spread[:, None], f"binary sigmoid:{slope:g}", tmp_path)


@pytest.mark.parametrize("n_class", [2, 3, 5])
@pytest.mark.parametrize("objective", ["multiclass num_class:{}", "multiclassova num_class:{} sigmoid:1.5"])
def test_case_72_multi_class_ties_of_a_few_ulp(objective: str, n_class: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(n_class)
    centre = (rng.choice([0.0, 1.0, -3.0, 20.0], 1500) + rng.normal(size=1500))[:, None]
    values = centre + rng.integers(-4, 5, (1500, n_class)) * np.spacing(centre)
    values[::5] = rng.normal(size=(300, n_class)) * 30
    ensemble = compare_chain(values, objective.format(n_class), tmp_path)
    found = classes_from_raw(ensemble, values)
    assert set(found.tolist()) == set(range(n_class))
    assert np.any(found != np.argmax(values, axis=1))  # rounded probabilities tie where raw scores do not


def test_files_are_read_without_lightgbm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = VARIETIES["three"](0, 3), table(0)[0]
    expected = predict_raw(load_model(model), X)
    booster_of(model).save_model(tmp_path / "m.txt")
    (tmp_path / "windows.txt").write_bytes((tmp_path / "m.txt").read_bytes().replace(b"\n", b"\r\n"))
    real = builtins.__import__

    def no_lightgbm(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "lightgbm":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_lightgbm)
    for name in ("m.txt", "windows.txt"):
        ensemble = load_model(tmp_path / name)
        assert np.array_equal(predict_raw(ensemble, X), expected)
        assert open_judge(tmp_path / name, ensemble) is None


def test_names() -> None:
    X, y, _ = table(0)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = classifier(3).fit(frame, y)
    ensemble = load_model(model)
    assert ensemble.feature_names == tuple("vwxyz")
    assert ensemble.has_names
    compare(ensemble, judge_of(model, ensemble), X, frame)
    compare(ensemble, judge_of(model, ensemble), X, X)
    assert not load_model(VARIETIES["binary"](0, 1)).has_names


def test_refused_with_a_reason() -> None:
    X, y, _ = table(0)
    with pytest.raises(ModelError, match="zero_as_missing"):
        load_model(classifier(3, zero_as_missing=True).fit(X, y))
    with pytest.raises(ModelError, match="has not been fitted"):
        load_model(lgb.LGBMClassifier())
    frame, _, yc = category_frame()
    constant = frame.assign(c=pd.Categorical(["x"] * len(frame)))
    with pytest.raises(ModelError, match="does not say which is which"):
        load_model(classifier(3).fit(constant, yc))
    with pytest.raises(ModelError, match="1 classes"):
        load_model(classifier(3).fit(X, np.zeros(len(X))))
    custom = {"objective": lambda p, d: (p - d.get_label(), np.ones_like(p)), "max_depth": 3, **SMALL}
    model = lgb.train(custom, lgb.Dataset(X, y), 5)
    assert load_model(model).task == "regression"
    assert "'custom'" in load_model(model).notes[0]
    check_bits(model, X)


def model_text() -> str:
    return VARIETIES["booster"](0, 3).model_to_string(num_iteration=2)


def load_text(folder: Path, text: str) -> Any:
    (folder / "m.txt").write_text(text)
    return load_model(folder / "m.txt")


def test_truncated_files(tmp_path: Path) -> None:
    text = model_text()
    for cut in np.linspace(0, text.index("end of trees") + 11, 80, dtype=int):
        with pytest.raises(ModelError):
            load_text(tmp_path, text[:cut])


def test_flipped_bytes_never_crash(tmp_path: Path) -> None:
    data = model_text().encode()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        bad = bytearray(data)
        for at in rng.integers(0, len(bad), 3):
            bad[at] = rng.integers(0, 256)
        (tmp_path / "m.txt").write_bytes(bad)
        try:
            predict_raw(load_model(tmp_path / "m.txt"), table(0)[0][:5])
        except ModelError:
            refused += 1
    assert refused > 50


HOSTILE = {
    "cycle": ("left_child", "0"),
    "child out of range": ("left_child", "99"),
    "huge child": ("right_child", "9" * 40),
    "leaf out of range": ("right_child", "-99"),
    "feature out of range": ("split_feature", "5"),
    "negative feature": ("split_feature", "-1"),
    "NaN threshold": ("threshold", "nan"),
    "text threshold": ("threshold", "abc"),
    "NaN leaf": ("leaf_value", "nan"),
    "infinite leaf": ("leaf_value", "inf"),
    "no leaves": ("num_leaves", "0"),
    "negative leaves": ("num_leaves", "-1"),
    "huge leaves": ("num_leaves", "999999999999"),
    "zero as missing": ("decision_type", "6"),
    "columns": ("max_feature_idx", "99999999999999"),
    "outputs": ("num_tree_per_iteration", "0"),
    "many outputs": ("num_tree_per_iteration", "3"),
    "sigmoid": ("objective", "binary sigmoid:nan"),
    "names": ("feature_names", "a b"),
    "infos": ("feature_infos", "[0:1]"),
    "info text": ("feature_infos", "none none none none x:y"),
    "sizes": ("tree_sizes", "1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path) -> None:
    key, value = HOSTILE[name]
    lines = model_text().split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{key}="))
    old = lines[at].partition("=")[2].split()
    whole = key in ("objective", "feature_names", "feature_infos", "tree_sizes")
    lines[at] = f"{key}={value}" if whole else f"{key}={' '.join([value, *old[1:]])}"
    with pytest.raises(ModelError):
        load_text(tmp_path, "\n".join(lines))


def test_hostile_categories(tmp_path: Path) -> None:
    X = np.column_stack([np.arange(300) % 7, np.arange(300) % 2]).astype(float)
    model = classifier(2, 1, **CATEGORICAL).fit(X, np.isin(X[:, 0], [1, 4]), categorical_feature=[0])
    text = model.booster_.model_to_string()
    load_text(tmp_path, text)
    for line in (
        "cat_boundaries=0 99",
        "cat_boundaries=0 -1",
        "cat_boundaries=1 1",
        "cat_threshold=-5",
        "num_cat=9" * 9,
    ):
        key = line.partition("=")[0]
        bad = [line if old.startswith(key + "=") else old for old in text.split("\n")]
        with pytest.raises(ModelError):
            load_text(tmp_path, "\n".join(bad))
    for tail in ("[" * 10**6, "[1]", "{}", '[["a", [1]]]', "[[0],[1]]"):
        bad = [f"pandas_categorical:{tail}" if old.startswith("pandas_cat") else old for old in text.split("\n")]
        with pytest.raises(ModelError):
            load_text(tmp_path, "\n".join(bad))


def test_chain_of_a_million_nodes_loads_and_predicts(tmp_path: Path) -> None:
    n = count(500_000)
    ensemble = load_text(tmp_path, chain_text(np.arange(n + 1, dtype=float)[:, None], "regression"))
    assert ensemble.n_nodes == 2 * n + 1
    assert predict_raw(ensemble, np.array([[-1.0], [1234.6], [1e7]]))[:, 0].tolist() == [0.0, 1235.0, n]
