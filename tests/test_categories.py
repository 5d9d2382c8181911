"""Native categorical columns with more categories than bits in a word, asked category by category of the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_checks import check_method

import gpucf

K = 150


def models() -> dict[str, Any]:
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    return {
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=6, min_child_samples=2, min_data_per_group=1, cat_smooth=0.1, max_cat_to_onehot=1, n_jobs=1,
            verbose=-1,
        ),
        "xgboost": xgboost.XGBClassifier(
            n_estimators=6, max_depth=3, enable_categorical=True, max_cat_to_onehot=1, tree_method="hist", n_jobs=1
        ),
        "hist": HistGradientBoostingClassifier(
            max_iter=6, min_samples_leaf=2, categorical_features="from_dtype", early_stopping=False
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "hist"])
def test_a_hundred_and_fifty_categories(name: str) -> None:
    rng = np.random.default_rng(0)
    towns = [f"town {i}" for i in range(K)]
    X = pd.DataFrame({"town": pd.Categorical(rng.choice(towns, 3000), categories=towns), "x": rng.integers(0, 4, 3000)})
    good = rng.random(K) < 0.3
    y = (good[X.town.cat.codes] ^ (X.x == 3)).astype(int)
    model = models()[name].fit(X, y)
    prices = {t: {u: float(rng.integers(1, 9)) / 4 for u in towns if rng.random() < 0.8} for t in towns[:40]}
    engine = gpucf.Engine(model, X, features={"town": {"prices": prices}}, n_threads=1)
    rows = X[:40]
    result = engine.query(rows, scale=None)
    for method in ("map", "search"):
        check_method(engine, rows, result, method, target="opposite", scale=None)
    every = pd.DataFrame(
        {"town": pd.Categorical(np.repeat(towns, 4), categories=towns), "x": np.tile(np.arange(4), K)}
    ).astype({"x": X.x.dtype})
    said, own = model.predict(every), model.predict(rows)
    assert len(np.unique(said)) == 2
    for i in range(len(rows)):
        town, x = rows.town.iloc[i], rows.x.iloc[i]
        move = np.array([0.0 if u == town else prices.get(town, {}).get(u, 1.0) for u in every.town])
        cost = (move + (every.x - x).abs().to_numpy())[said != own[i]]
        assert result.status[i] == "optimal" and result.cost[i] == cost.min()
