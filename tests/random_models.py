"""Small random models of every supported library, on data where ties are likely."""

from __future__ import annotations

import numpy as np

KINDS = (
    "xgb", "xgb_rf", "xgb_dart", "lgbm", "lgbm_rf", "tree", "forest", "extra", "gb", "hist", "catboost", "xgb_multi",
    "lgbm_multi", "forest_multi", "hist_multi",
)  # fmt: skip


def random_data(rng, n_classes):
    """Rows on a small integer grid (ties), sometimes shifted or scaled; labels from a noisy rule."""
    n, d = int(rng.integers(40, 120)), int(rng.integers(2, 6))
    X = rng.integers(0, rng.integers(2, 6), (n, d)).astype(np.float64)
    if rng.random() < 0.4:
        X = X * rng.choice([0.5, 0.1, 3.0], d) + rng.choice([0.0, -1.0, 0.3], d)
    raw = X @ rng.normal(size=d) + rng.normal(size=n) * 0.3
    y = np.searchsorted(np.quantile(raw, np.linspace(0, 1, n_classes + 1)[1:-1]), raw)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def random_model(kind, rng):
    """A fitted model and its rows."""
    n_classes = 3 if kind.endswith("_multi") else 2
    X, y = random_data(rng, n_classes)
    trees, depth, seed = int(rng.integers(1, 13)), int(rng.integers(1, 4)), int(rng.integers(1 << 30))
    if n_classes == 3:
        trees = min(trees, 4)
    if kind.startswith("xgb"):
        import xgboost

        common = {"n_estimators": trees, "max_depth": depth, "random_state": seed, "n_jobs": 1}
        if kind == "xgb_rf":
            return xgboost.XGBRFClassifier(**common).fit(X, y), X
        booster = "dart" if kind == "xgb_dart" else "gbtree"
        extra = {"rate_drop": 0.3} if kind == "xgb_dart" else {}
        return xgboost.XGBClassifier(booster=booster, learning_rate=0.5, **extra, **common).fit(X, y), X
    if kind.startswith("lgbm"):
        import lightgbm

        extra = {"boosting_type": "rf", "subsample": 0.7, "subsample_freq": 1} if kind == "lgbm_rf" else {}
        model = lightgbm.LGBMClassifier(
            n_estimators=trees, max_depth=depth, min_child_samples=3, random_state=seed, n_jobs=1, verbose=-1, **extra
        )
        return model.fit(X, y), X
    if kind == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(
            iterations=trees, depth=depth, random_seed=seed, verbose=False, thread_count=1, allow_writing_files=False
        )
        return model.fit(X, y), X
    from sklearn import ensemble, tree

    kind = kind.removesuffix("_multi")
    if kind == "tree":
        return tree.DecisionTreeClassifier(max_depth=depth + 1, random_state=seed).fit(X, y), X
    if kind == "hist":
        return ensemble.HistGradientBoostingClassifier(
            max_iter=trees, max_depth=depth, min_samples_leaf=3, early_stopping=False, random_state=seed
        ).fit(X, y), X
    classes = {
        "forest": ensemble.RandomForestClassifier,
        "extra": ensemble.ExtraTreesClassifier,
        "gb": ensemble.GradientBoostingClassifier,
    }
    return classes[kind](n_estimators=trees, max_depth=depth, random_state=seed).fit(X, y), X
