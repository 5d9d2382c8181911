"""Regions under what a row may do: one-way features, limits of rows, values, rules, agreeing models.

Every value in a box is asked of the models; beyond each side lies what the row may not have, or a row that fails.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from random_models import random_model
from sizes import count

import gpucf

HIGH = 6


def whole_frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(rng.integers(0, HIGH + 1, (n, 3)), columns=list("abc"))


def in_box(region: Any) -> list[tuple[int, ...]]:
    """All whole-number points of a region that has three ordered features."""
    ranges = []
    for low, high in region.limits.values():
        ranges.append(range(0 if low is None else int(low), (HIGH if high is None else int(high)) + 1))
    return list(itertools.product(*ranges))


@pytest.mark.parametrize("kind", ["xgb", "forest", "hist", "lgbm"])
def test_regions_keep_to_what_a_row_may_do(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)) + 1)
    sides = 0
    for _ in range(count(60)):
        model, _ = random_model(kind, rng)
        frame = whole_frame(rng, 80)
        y = (frame.a + rng.integers(0, 3, 80) > frame.b + frame.c * rng.random()).astype(int)
        if y.nunique() < 2:
            continue
        model = type(model)(**model.get_params()).fit(frame, y)
        features = {n: {"kind": "integer", "range": [0, HIGH]} for n in "abc"}
        rules = ["a + b <= 9"] if rng.random() < 0.5 else None
        agree = None
        if rng.random() < 0.3:
            agree = [(type(model)(**model.get_params()).fit(frame, (frame.a + frame.b > 4).astype(int)), 1)]
        engine = gpucf.Engine(model, frame, features=features, rules=rules, agree=agree, n_threads=1)
        rows = frame.iloc[:5]
        limit = rng.integers(3, HIGH + 1, len(rows))
        still = ["c"] if rng.random() < 0.5 else []
        given: dict[str, Any] = {"increase_only": ["a"], "limits": {"b": {"high": limit}}, "immutable": still}
        result = engine.query(rows, 1, region=True, **given)
        judges = [model, *(other for other, _ in agree or [])]

        def fine(
            i: int, point: tuple[int, ...], rows: Any = rows, limit: Any = limit, rules: Any = rules,
            still: Any = still, judges: Any = judges,
        ) -> bool:  # fmt: skip
            x, (a, b, c) = rows.iloc[i], point
            may = a >= x.a and (b <= limit[i] or b == x.b) and (c == x.c or not still)
            row = pd.DataFrame([point], columns=list("abc"))
            return bool(may and (rules is None or a + b <= 9) and all(judge.predict(row)[0] == 1 for judge in judges))

        for i in range(len(rows)):
            region = result.region(i)
            if region is None:
                continue
            assert region.blocked
            points = in_box(region)
            assert tuple(result.counterfactuals.iloc[i].tolist()) in points
            if still:  # it stays in its cell, of which all values are alike to the models
                points = [p for p in points if p[2] == rows.c.iloc[i]]
            assert all(fine(i, p) for p in points), (region, given, rows.iloc[i])
            for j, name in enumerate("abc"):
                if (name == "c" and still) or (name == "b" and rows.b.iloc[i] > limit[i]):
                    continue
                column = [p[j] for p in points]
                for value in (min(column) - 1, max(column) + 1):
                    if not 0 <= value <= HIGH:
                        continue
                    beyond = {(*p[:j], value, *p[j + 1 :]) for p in points}
                    assert not all(fine(i, p) for p in beyond), (name, value, region, given)
                    sides += 1
    assert sides
