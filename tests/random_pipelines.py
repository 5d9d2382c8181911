"""Small random scikit-learn pipelines over frames with numbers, whole numbers, text, booleans and missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import ensemble, tree
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, RobustScaler, StandardScaler

FINALS = ("tree", "forest", "gb", "hist", "xgb", "lgbm", "catboost")
TEXT, NUMBERS = ["town", "job"], ["age", "income", "debt"]


def random_frame(rng: np.random.Generator, holes: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """A frame and two classes that depend on it; with `holes`, some cells are missing."""
    n = int(rng.integers(60, 120))
    frame = pd.DataFrame(
        {
            "id": [f"person {i}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "town": rng.choice(["Aix", "Bonn", "Cork", "Delft"], n),
            "income": np.round(rng.gamma(2.0, 15.0, n), 1),
            "member": rng.random(n) < 0.5,
            "debt": rng.choice([0.0, 0.0, 0.5, 1.5, 7.25], n),
            "rooms": rng.choice([1, 2, 5], n),
            "job": rng.choice(["clerk", "cook", "none"], n),
        }
    )
    score = frame["age"] / 20 + (frame["town"] == "Bonn") + frame["income"] / 30 - frame["debt"] + frame["rooms"] * 0.3
    score += (frame["job"] == "cook") * 1.5 + frame["member"] * 0.7 + rng.normal(size=n) * 0.4
    y = (score > score.median()).to_numpy().astype(int)
    if holes:
        for name in ("income", "job"):
            frame.loc[rng.random(n) < 0.15, name] = np.nan
    return frame, y


def _scaler(rng: np.random.Generator) -> Any:
    return [
        StandardScaler(),
        StandardScaler(with_std=False),
        MinMaxScaler((0, 1), clip=bool(rng.random() < 0.5)),
        MinMaxScaler((-2, 3)),
        RobustScaler(),
        RobustScaler(with_centering=False),
        make_pipeline(MinMaxScaler(), StandardScaler()),
        "passthrough",
    ][rng.integers(8)]


def _text_encoder(rng: np.random.Generator) -> Any:
    return [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(drop="first", handle_unknown="error"),
        OneHotEncoder(sparse_output=False, dtype=np.float32),
        OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"),
        OrdinalEncoder(),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        make_pipeline(OrdinalEncoder(), StandardScaler()),
        make_pipeline(OneHotEncoder(), StandardScaler(with_mean=False)),
    ][rng.integers(8)]


def random_preprocessing(rng: np.random.Generator, holes: bool) -> Any:
    """A ColumnTransformer over `random_frame`, one or two pipelines deep."""
    numbers, text = _scaler(rng), _text_encoder(rng)
    if holes:
        fill = [SimpleImputer(strategy="median"), SimpleImputer(strategy="mean", add_indicator=True),
                SimpleImputer(strategy="constant", fill_value=0.0)][rng.integers(3)]  # fmt: skip
        numbers = make_pipeline(fill, numbers) if rng.random() < 0.7 else make_pipeline(numbers, fill)
        word = [SimpleImputer(strategy="constant", fill_value="no word"), SimpleImputer(strategy="most_frequent")]
        text = make_pipeline(word[rng.integers(2)], text)
    parts = [
        ("numbers", numbers, NUMBERS),
        ("text", text, TEXT),
        ("flag", OneHotEncoder(drop="if_binary") if rng.random() < 0.5 else "passthrough", ["member"]),
        ("rooms", OneHotEncoder() if rng.random() < 0.5 else "passthrough", ["rooms"]),
        ("id", "drop", ["id"]),
    ]
    order = rng.permutation(len(parts))
    return ColumnTransformer([parts[i] for i in order], sparse_threshold=float(rng.choice([0.0, 1.0, 0.3])))


def final_model(kind: str, rng: np.random.Generator, trees: int, depth: int) -> Any:
    """An unfitted classifier."""
    seed = int(rng.integers(1 << 30))
    if kind == "xgb":
        import xgboost

        return xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, learning_rate=0.5, random_state=seed, n_jobs=1
        )
    if kind == "lgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(
            n_estimators=trees, max_depth=depth, min_child_samples=3, random_state=seed, n_jobs=1, verbose=-1
        )
    if kind == "catboost":
        import catboost

        return catboost.CatBoostClassifier(
            iterations=trees, depth=depth, random_seed=seed, verbose=False, thread_count=1, allow_writing_files=False
        )
    if kind == "tree":
        return tree.DecisionTreeClassifier(max_depth=depth + 1, random_state=seed)
    if kind == "hist":
        return ensemble.HistGradientBoostingClassifier(
            max_iter=trees, max_depth=depth, min_samples_leaf=3, early_stopping=False, random_state=seed
        )
    if kind == "gb":
        return ensemble.GradientBoostingClassifier(n_estimators=trees, max_depth=depth, random_state=seed)
    return ensemble.RandomForestClassifier(n_estimators=trees, max_depth=depth, random_state=seed, n_jobs=1)


def random_pipeline(kind: str, rng: np.random.Generator, trees: int = 8, depth: int = 3) -> tuple[Any, pd.DataFrame]:
    """A fitted pipeline of at most so many trees of such a depth, and its rows."""
    holes = bool(rng.random() < 0.5)
    frame, y = random_frame(rng, holes)
    before = random_preprocessing(rng, holes)
    if kind == "hist":
        before.sparse_threshold = 0.0  # it takes no sparse tables
    model = final_model(kind, rng, int(rng.integers(1, trees + 1)), int(rng.integers(1, depth + 1)))
    return Pipeline([("before", before), ("model", model)]).fit(frame, y), frame
