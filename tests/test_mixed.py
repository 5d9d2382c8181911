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
from mixed_models import random_ensemble, random_rows
from sizes import count

import gpucf


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
            for region_map in engine._planner.maps:
                region_map.check()
    assert compared > 10
