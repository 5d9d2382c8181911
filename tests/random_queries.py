"""Random questions about the models of `random_models`."""

from __future__ import annotations

import numpy as np

import gpucf


def random_engine(model, X, rng):
    """An engine with a random domain: continuous, integer or float32 columns."""
    whole = (np.floor(X) == X).all(axis=0)
    names = gpucf.load_model(model).feature_names
    features = {names[j]: "integer" for j in range(X.shape[1]) if whole[j] and rng.random() < 0.3}
    return gpucf.Engine(model, background=X, features=features, n_threads=1, method="map")


def random_query_rows(X, rng):
    """Rows of the data, some moved off the grid."""
    rows = X[rng.integers(len(X), size=3)].copy()
    if rng.random() < 0.5:
        rows[0] += rng.normal(size=X.shape[1])
    return rows


def random_options(engine, rng):
    names = list(engine.ensemble.feature_names)
    weights = dict(zip(names, rng.choice([0.0, 0.5, 1.0, 2.0], len(names)), strict=True))
    return {
        "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
        "weights": None if rng.random() < 0.5 else weights,
        "scale": [None, "range", "std", "mad", "iqr"][rng.integers(5)],
        "immutable": [n for n in names if rng.random() < 0.1],
        "increase_only": [n for n in names if rng.random() < 0.1],
    }  # fmt: skip


def random_target(engine, rng):
    classes = engine.ensemble.classes.tolist()
    choices = ["any_other", classes[rng.integers(len(classes))]]
    if len(classes) == 2:
        choices.append("opposite")
    if engine.ensemble.probability != "none":
        choices.append(gpucf.Probability(float(rng.choice([0.3, 0.5, 0.7])), classes[rng.integers(len(classes))]))
    return choices[rng.integers(len(choices))]
