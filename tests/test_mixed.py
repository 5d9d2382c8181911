"""Crafted ensembles over every kind of feature at once, whole queries against the oracle.

Ordered columns with and without a grid, native categories, one-hot groups, missing values, rows off the grid (cells in
which nothing attainable lies), one to three outputs, scalar and vector leaves, every cost, weights of 0, features that
may not move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_checks import check_query
from sizes import count

import gpucf
from gpucf._ensemble import VECTOR_LEAF, Ensemble, TreeBuilder

N_CATEGORIES, N_ONE_HOT = 4, 3


def random_ensemble(rng: np.random.Generator, space: str, nullable: bool) -> tuple[Ensemble, dict[str, list[str]]]:
    dtype = (np.float32, np.float64)[rng.integers(2)]
    names: list[str] = []
    groups: dict[str, list[str]] = {}
    for kind in space:
        if kind == "o":
            groups[f"g{len(names)}"] = [f"o{len(names) + i}" for i in range(N_ONE_HOT)]
            names += groups[f"g{len(names)}"]
        else:
            names.append(f"{kind}{len(names)}")
    n_outputs = int(rng.integers(1, 4))
    vector = bool(rng.random() < 0.4)
    builder = TreeBuilder("test", len(names), dtype, dtype, n_outputs if vector else 1)
    for t in range(int(rng.integers(2, 7))):
        n = 7
        feature = rng.integers(0, len(names), n)
        sets = np.full(n, -1)
        for node in range(3):
            if names[feature[node]][0] == "c":
                sets[node] = builder.add_category_set(np.flatnonzero(rng.random(N_CATEGORIES) < 0.5))
        threshold = np.where([names[f][0] == "o" for f in feature], 0.5, rng.integers(0, 5, n) * 0.4).astype(dtype)
        left = np.array([1, 3, 5, -1, -1, -1, -1])
        shape = (n, builder.n_leaf_outputs)
        value = rng.integers(-3, 4, shape) / 4 if rng.random() < 0.7 else rng.normal(size=shape)
        builder.add_tree(feature, threshold, left, np.where(left < 0, -1, left + 1), rng.random(n) < 0.5, value,
                         VECTOR_LEAF if vector else t % n_outputs, sets)  # fmt: skip
    ensemble = builder.build(
        (rng.normal(size=n_outputs) / 4).round(1), library="test", model_type="mixed",
        task="binary" if n_outputs < 3 else "multiclass", feature_names=tuple(names), has_names=True,
        classes=np.arange(max(2, n_outputs)), allows_missing=np.array([nullable and n[0] != "o" for n in names]),
        decision="argmax" if n_outputs > 1 else ["above_0", "at_least_0"][rng.integers(2)],
        probability="none", post="divide" if rng.random() < 0.3 else "none", post_a=3.0,
        categories=tuple(np.arange(N_CATEGORIES) if n[0] == "c" else None for n in names),
    )  # fmt: skip
    return ensemble, groups


def random_rows(rng: np.random.Generator, names: tuple[str, ...], n: int, nullable: bool) -> np.ndarray:
    X = np.empty((n, len(names)))
    for j, name in enumerate(names):
        if name[0] == "x":
            X[:, j] = rng.choice([0.4, 0.2, 1.0, 0.8000000001], n) * rng.integers(-1, 6, n)
        elif name[0] == "i":
            X[:, j] = rng.integers(-1, 4, n) + np.where(rng.random(n) < 0.4, rng.choice([0.5, 0.7, 0.05]), 0.0)
        elif name[0] == "c":
            X[:, j] = rng.integers(0, N_CATEGORIES, n)
        if nullable and name[0] != "o":
            X[rng.random(n) < 0.25, j] = np.nan
    j = 0
    while j < len(names):
        if names[j][0] == "o":
            X[:, j : j + N_ONE_HOT] = np.eye(N_ONE_HOT)[rng.integers(0, N_ONE_HOT, n)]
            j += N_ONE_HOT - 1
        j += 1
    return X


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("space", ["xi", "ii", "cx", "oi", "cc", "xco", "ico", "iix"])
def test_mixed_features_equal_the_oracle(space: str, nullable: bool) -> None:
    rng = np.random.default_rng([ord(c) for c in space] + [nullable])
    compared = 0
    for _ in range(count(400)):
        ensemble, groups = random_ensemble(rng, space, nullable)
        names = ensemble.feature_names
        background = random_rows(rng, names, 10, False)
        whole = {n: str(rng.choice(["integer", "boolean"], p=[0.8, 0.2])) for n in names if n[0] == "i"}
        engine = gpucf.Engine(ensemble, background=background, features=whole, one_hot=groups, n_threads=1)
        X = random_rows(rng, names, 5, nullable)
        movable = [n for n in names if n[0] in "xi"]
        options: dict[str, Any] = {
            "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
            "scale": [None, "range", "std"][rng.integers(3)],
            "weights": {n: rng.choice([0.0, 0.5, 1.0, 2.0]) for n in (*groups, *names) if n[0] != "o"},
            "immutable": [n for n in names if n[0] != "o" and rng.random() < 0.1],
            "increase_only": [n for n in movable if rng.random() < 0.15],
            "decrease_only": [n for n in movable if rng.random() < 0.15],
        }
        target = ["any_other", 0, 1][rng.integers(3)]
        result = check_query(engine, X, target=target, **options)
        compared += int((result.status == "optimal").sum())
        backwards = engine.query(X[::-1], target=target, **options)
        assert np.array_equal(backwards.counterfactuals[::-1], result.counterfactuals, equal_nan=True)
        if rng.random() < 0.2:
            for region_map in engine._maps:
                region_map.check()
    assert compared > 10
