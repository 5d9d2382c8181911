"""Numbers that break careless code: zeros of both signs, denormals, neighbours one ulp apart, integers that floats
cannot hold, narrow columns, huge values. Crafted ensembles on them, the whole query against the oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_checks import check_query
from sizes import count

import gpucf
from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import TableError

DTYPES = ("float64", "float32", "float16", "int8", "uint8", "int16", "int64", "uint64", "bool")
COMPARE = (np.float32, np.float64)


def ensemble_of(builder: TreeBuilder, allows_missing: np.ndarray, n_outputs: int = 1) -> Ensemble:
    n = builder.n_features
    return builder.build(
        np.zeros(n_outputs), library="test", model_type="crafted", task="binary" if n_outputs < 3 else "multiclass",
        feature_names=tuple("abcdef"[:n]), has_names=True, classes=np.arange(max(2, n_outputs)),
        allows_missing=allows_missing, decision="above_0" if n_outputs == 1 else "argmax", probability="none",
    )  # fmt: skip


def chain(thresholds: Any, values: Any, compare: Any) -> Ensemble:
    """One column, one tree: value[k] up to thresholds[k], the last value above all."""
    n = len(thresholds)
    builder = TreeBuilder("test", 1, compare, compare)
    left = np.concatenate([np.arange(n) + n, np.full(n + 1, -1)])
    right = np.concatenate([np.arange(1, n), [2 * n], np.full(n + 1, -1)])
    leaves = np.concatenate([np.zeros(n), values])
    padded = np.concatenate([thresholds, np.zeros(n + 1)])
    builder.add_tree(np.zeros(2 * n + 1, int), padded, left, right, np.zeros(2 * n + 1, bool), leaves)
    return ensemble_of(builder, np.zeros(1, bool))


def pool_of(compare: Any) -> np.ndarray:
    """Thresholds: exact in the compare dtype."""
    f = np.dtype(compare).type
    seeds = [0.0, 1.0, -1.0, 0.5, 2.5, 100.0, 127.0, 128.0, 255.0, 65504.0, 2.0**24, -(2.0**24), 2.0**53, 2.0**63, 3e38]
    seeds += [float(np.finfo(f).tiny), float(np.finfo(f).smallest_subnormal)]
    if f is np.float64:
        seeds += [1e140, -1e140, 0.1, 1.4e-45]
    values = np.array(seeds, f)
    near = [np.nextafter(values, f(-np.inf)), values, np.nextafter(values, f(np.inf))]
    return np.unique(np.concatenate(near).astype(np.float64))


def column_values(rng: np.random.Generator, pool: np.ndarray, dtype: str, compare: Any, n: int) -> np.ndarray:
    """Values of a dtype on and around the pool; float64 columns also hold what float32 cannot."""
    picked = rng.choice(pool, n)
    if dtype == "float64":
        return np.where(rng.random(n) < 0.3, picked * (1 + 1e-12) + 1e-320, picked)
    if dtype == "bool":
        return rng.random(n) < 0.5
    with np.errstate(over="ignore"):
        if dtype.startswith("float"):
            narrow = picked.astype(dtype)
            return np.where(np.isfinite(narrow), narrow, np.finfo(dtype).max).astype(dtype)
    info = np.iinfo(dtype)
    top = np.nextafter(float(info.max), 0.0) if info.max > 2**53 else float(info.max)
    return np.clip(np.round(picked), info.min, top).astype(dtype)


def random_case(rng: np.random.Generator) -> tuple[gpucf.Engine, pd.DataFrame]:
    compare = COMPARE[rng.integers(2)]
    n_columns = int(rng.integers(1, 4))
    pool = pool_of(compare)
    cuts = [rng.choice(pool, int(rng.integers(1, 4))) for _ in range(n_columns)]
    dtypes = rng.choice(DTYPES, n_columns)
    missing = rng.random(n_columns) < 0.4
    builder = TreeBuilder("test", n_columns, compare, compare)
    for _ in range(int(rng.integers(1, 4))):
        feature = rng.integers(0, n_columns, 7)
        threshold = np.array([rng.choice(cuts[j]) for j in feature])
        left = np.array([1, 3, 5, -1, -1, -1, -1])
        builder.add_tree(feature, threshold, left, np.where(left < 0, -1, left + 1), rng.random(7) < 0.5,
                         rng.integers(-3, 4, 7) / 2)  # fmt: skip
    frame, background, features = {}, {}, {}
    for j, (dtype, name) in enumerate(zip(dtypes, "abc", strict=False)):
        x = column_values(rng, cuts[j] if rng.random() < 0.8 else pool, dtype, compare, 4)
        background[name] = x.copy()
        if dtype.startswith("float") and rng.random() < 0.3:
            features[name] = str(rng.choice(["integer", "boolean"]))
        if dtype.startswith("float") and missing[j]:
            x = np.where(rng.random(4) < 0.3, np.nan, x).astype(dtype)
        frame[name] = x.astype("float64") if dtype != "bool" and rng.random() < 0.2 else x
    engine = gpucf.Engine(
        ensemble_of(builder, missing), background=pd.DataFrame(background), features=features, n_threads=1
    )
    return engine, pd.DataFrame(frame)


@pytest.mark.parametrize("seed", range(4))
def test_hostile_numbers_equal_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    statuses = set()
    for _ in range(count(1000)):
        engine, X = random_case(rng)
        options = {
            "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
            "scale": [None, "range", "mad"][rng.integers(3)],
            "weights": None if rng.random() < 0.5 else rng.choice([0.0, 1.0, 1e-300], engine.n_features_in_).tolist(),
        }
        statuses |= set(check_query(engine, X, target=[0, 1, "opposite"][rng.integers(3)], **options).status.tolist())
    assert statuses == {"already", "optimal", "infeasible"}


def fitted(library: str, X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn import ensemble as sk

    if library == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=4, max_depth=3, learning_rate=0.5, n_jobs=1).fit(X, y)
    if library == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(
            n_estimators=4, max_depth=3, learning_rate=0.5, min_child_samples=3, verbose=-1, n_jobs=1
        ).fit(X, y)
    if library == "catboost":
        import catboost

        return catboost.CatBoostClassifier(
            iterations=4, depth=3, verbose=False, allow_writing_files=False, thread_count=1
        ).fit(X, y)
    if library == "hist":
        return sk.HistGradientBoostingClassifier(max_iter=4, max_depth=3, learning_rate=0.5, min_samples_leaf=3).fit(
            X, y
        )
    kind = sk.RandomForestClassifier if library == "forest" else sk.GradientBoostingClassifier
    return kind(n_estimators=4, max_depth=3, random_state=0).fit(X, y)


ZEROS = np.array([-1.0, -0.0, 0.0, 1.0])
TRAINED: dict[str, Any] = {
    "zeros": lambda X: ZEROS[X.astype(int)],
    "denormal float32": lambda X: X * 1e-44,
    "denormal float64": lambda X: X * 5e-324,
    "large": lambda X: (X - 1.5) * 1e30,
    "float16": lambda X: (X / 3).astype(np.float16),
    "float32": lambda X: (X / 3).astype(np.float32),
    "int16": lambda X: ((X - 1.5) * 20_000).astype(np.int16),
    "big integers": lambda X: (X * 4 + 2**24 - 5).astype(np.int64),
}


@pytest.mark.parametrize("numbers", TRAINED)
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost", "hist", "forest", "boosting"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_trained_models_on_odd_numbers_equal_the_oracle(library: str, numbers: str) -> None:
    """The library's own predict has the last word within the query."""
    rng = np.random.default_rng(0)
    grid = rng.integers(0, 4, (80, 3)).astype(float)
    y = (grid.sum(axis=1) + rng.normal(size=80) > 4.5).astype(int)
    if (library, numbers) == ("catboost", "denormal float64"):
        return  # all zero in float32: CatBoost does not train on that
    X = TRAINED[numbers](grid)
    engine = gpucf.Engine(fitted(library, X, y), background=X, n_threads=1)
    cost = ["l1", "l2", "linf", "l0"][len(library + numbers) % 4]
    result = check_query(engine, X[:6], cost=cost)
    check_query(engine, X[:6], target=1, cost=cost, weights=[0, 1, 2])
    assert result.counterfactuals.dtype == X.dtype and "reference" not in result.verified_by
    if X.dtype == np.float64:
        ulp = np.nextafter(X[:6], np.where(rng.random((6, 3)) < 0.5, -np.inf, np.inf))
        check_query(engine, np.concatenate([ulp, -X[:2]]), cost=cost)


@pytest.mark.parametrize("compare", COMPARE)
def test_the_first_value_above_zero_is_no_negative_zero(compare: Any) -> None:
    below = float(np.nextafter(np.dtype(compare).type(0), np.dtype(compare).type(-1)))  # as XGBoost's x < 0
    engine = gpucf.Engine(chain([below], [-1.0, 1.0], compare), background=np.array([[-2.0], [2.0]]))
    result = check_query(engine, np.array([[-1.0], [1.0], [-0.0], [0.0]]))
    assert result.counterfactuals[0, 0] == 0.0 and not np.signbit(result.counterfactuals[0, 0])
    assert result.counterfactuals[2, 0] == below and result.counterfactuals[3, 0] == below


def test_unchanged_negative_zeros_and_denormals_stay() -> None:
    X = np.array([[-0.0, -0.0], [5e-324, -5e-324]])
    builder = TreeBuilder("test", 2, np.float32, np.float32)
    builder.add_tree([1, 0, 0], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], np.zeros(3, bool), [0, -1, 1])
    engine = gpucf.Engine(ensemble_of(builder, np.zeros(2, bool)), background=X + 1)
    after = check_query(engine, X).counterfactuals
    assert np.array_equal(after[:, 0].view(np.int64), X[:, 0].view(np.int64))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "float64"])
def test_integers_beyond_the_reach_of_float32(dtype: str) -> None:
    """At 2**24 and above float32 knows even numbers only: 16777217 is 16777216 to the model."""
    big = 2**24
    engine = gpucf.Engine(
        chain([big, big + 4], [-1.0, 1.0, -1.0], np.float32), background=np.array([[0], [big]], dtype),
        features={"a": "integer"},
    )  # fmt: skip
    X = np.array([[big - 1], [big], [big + 1], [big + 3], [big + 7]], dtype)
    result = check_query(engine, X)
    assert result.counterfactuals.dtype == dtype
    assert result.counterfactuals[:3, 0].tolist() == [big + 2] * 3
    assert result.counterfactuals[4, 0] == big + 4


def test_integers_beyond_the_reach_of_float64() -> None:
    engine = gpucf.Engine(chain([2.0**53], [-1.0, 1.0], np.float64), background=np.array([[0], [1]]))
    assert check_query(engine, np.array([[2**53 - 1]])).counterfactuals[0, 0] == 2**53 + 2
    with pytest.raises(TableError, match="9007199254740993"):
        engine.query(np.array([[2**53 + 1]]))


def test_a_column_too_narrow_for_the_answers_is_refused() -> None:
    """int32 values up to 2**31 do not all fit in float32, although both have four bytes."""
    engine = gpucf.Engine(chain([16777217.0], [-1.0, 1.0], np.float64), background=np.array([[0], [1]], np.int32))
    with pytest.raises(TableError, match="float32 cannot hold"):
        engine.query(np.array([[5.0]], np.float32))
    assert check_query(engine, np.array([[5.0]])).counterfactuals[0, 0] == 16777218


def test_a_narrow_column_will_do_where_the_model_compares_narrowly() -> None:
    """Without a background columns are float64; a float32 model never asks for more than float32."""
    engine = gpucf.Engine(chain([0.1], [-1.0, 1.0], np.float32))
    assert check_query(engine, np.array([[0.0]], np.float32), scale=None).counterfactuals.dtype == np.float32
    wide = gpucf.Engine(chain([0.1], [-1.0, 1.0], np.float64))
    with pytest.raises(TableError, match="float32 cannot hold"):
        wide.query(np.array([[0.0]], np.float32), scale=None)


@pytest.mark.parametrize("compare", COMPARE)
def test_thresholds_one_ulp_apart(compare: Any) -> None:
    f = np.dtype(compare).type
    cuts = [f(1.0)]
    for _ in range(3):
        cuts.append(np.nextafter(cuts[-1], f(np.inf)))
    engine = gpucf.Engine(chain(np.array(cuts, float), [-1.0, 1.0, -1.0, 1.0, -1.0], compare),
                          background=np.array([[0.0], [2.0]]))  # fmt: skip
    rows = np.array([[0.0], *[[float(c)] for c in cuts], [1.0 + 1e-9], [2.0]])
    result = check_query(engine, rows)
    assert result.counterfactuals[0, 0] == float(cuts[1]) and result.counterfactuals[-1, 0] == float(cuts[3])
    narrow = gpucf.Engine(chain(np.array(cuts, float), [-1.0, 1.0, -1.0, 1.0, -1.0], compare),
                          background=np.array([[0.0], [2.0]], np.float16))  # fmt: skip
    # No float16 lies in the cells between: nothing to move to, but a row may stand there.
    assert (check_query(narrow, np.array([[0.0], [2.0]], np.float16)).status == "infeasible").all()
    assert set(check_query(narrow, rows).status.tolist()) == {"infeasible", "optimal"}


def test_a_cost_that_overflows_is_refused_not_wrong() -> None:
    engine = gpucf.Engine(chain([0.0], [-1.0, 1.0], np.float64))
    X = np.array([[-1.0], [1e200]])
    assert check_query(engine, X, cost="l1", scale=None).cost[1] == 1e200
    assert check_query(engine, X, cost="l0", scale=None).cost[1] == 1.0
    assert check_query(engine, X, cost="l2", scale=None, weights={"a": 0}).cost.tolist() == [0.0, 0.0]
    with pytest.raises(TableError, match=r"row 1: .* exceeds 1e\+300"):
        engine.query(X, cost="l2", scale=None)


def test_a_background_of_the_largest_numbers_warns_of_nothing() -> None:
    largest = np.finfo(np.float64).max
    engine = gpucf.Engine(chain([0.0], [-1.0, 1.0], np.float64), background=np.array([[-largest], [largest], [0.0]]))
    for scale in ("range", "std", "mad", "iqr"):
        check_query(engine, np.array([[-1.0], [1.0]]), scale=scale)
