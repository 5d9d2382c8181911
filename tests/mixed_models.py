"""Crafted ensembles over every kind of feature, and rows for them. The first letter of a column's name is its kind:
x real, i whole numbers, c native categories, o one column of a one-hot group.
"""

from __future__ import annotations

import numpy as np

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


def random_rows(
    rng: np.random.Generator, names: tuple[str, ...], n: int, nullable: bool, left_out: tuple[str, ...] = ()
) -> np.ndarray:
    """Rows for these columns; groups whose first column is in `left_out` may be all 0."""
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
            codes = rng.integers(0, N_ONE_HOT + (names[j] in left_out), n)
            X[:, j : j + N_ONE_HOT] = np.eye(N_ONE_HOT + 1)[codes, :N_ONE_HOT]
            j += N_ONE_HOT - 1
        j += 1
    return X
