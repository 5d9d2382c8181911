"""Options, regions and rules of pipelines: in raw columns, with text, and confirmed by `pipeline.predict`."""

from __future__ import annotations

import itertools

import numpy as np
import oracle
import pandas as pd
import pytest
from oracle import moves, options_by_key
from random_pipelines import FINALS, random_pipeline
from sizes import count
from test_pipeline import oracle_by_predict, raw_frame

import gpucf
from gpucf._table import read_table


@pytest.mark.parametrize("kind", FINALS)
def test_options_of_pipelines_are_those_of_the_definition(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force in raw space, where the pipeline itself labels every candidate."""
    asked = second = 0
    for seed in range(count(60)):
        rng = np.random.default_rng([seed, 78, FINALS.index(kind)])
        pipeline, frame = random_pipeline(kind, rng, trees=2, depth=2)
        engine = gpucf.Engine(pipeline, frame, n_threads=1)
        cells = engine.cells()
        rows = frame.iloc[rng.choice(len(frame), 2, replace=False)]
        lists = [oracle.candidates(engine, j, c, np.full(len(c), np.inf)) for j, c in enumerate(cells.columns)]
        if np.prod([len(found) for found in lists], dtype=float) > 10_000:
            continue
        result = engine.query(rows, options=3, scale=None)
        with monkeypatch.context() as patch:
            oracle_by_predict(pipeline, patch)
            for i, x in enumerate(read_table(rows, engine.ensemble).values):
                values = [oracle.candidates(engine, j, c, x[list(c)]) for j, c in enumerate(cells.columns)]
                tables = [
                    moves(values[j], tuple(x[list(c)]), "ordered" if cells.kind[j] == 0 else "set", 1.0, 1.0, True,
                          True, "l1")
                    for j, c in enumerate(cells.columns)
                ]  # fmt: skip
                goal = engine._groups("opposite", 0.0, read_table(rows, engine.ensemble))[0].target
                expected = options_by_key(engine, goal, cells.columns, values, tables, False, 3)
                for m, rank in enumerate(result.ranks):
                    if m >= len(expected):
                        assert rank.status[i] == "infeasible"
                        continue
                    assert rank.status[i] == "optimal" and rank.cost[i] == expected[m][1]
                    assert np.array_equal(rank._after[i], expected[m][0], equal_nan=True)
                    second += m > 0
        asked += 1
    assert asked >= count(60) // 2 and (second or kind == "lgbm")  # whose small trees move few columns


def people(rng: np.random.Generator) -> tuple[object, pd.DataFrame]:
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    n = 200
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 30, n),
            "job": rng.choice(["clerk", "cook", "none"], n),
            "income": rng.integers(0, 20, n) * 100.0,
        }
    )
    y = np.where(frame.income / 100 + 5 * (frame.job == "clerk") > 14, "yes", "no")
    before = ColumnTransformer([("text", OneHotEncoder(), ["job"]), ("rest", StandardScaler(), ["age", "income"])])
    return Pipeline([("before", before), ("model", RandomForestClassifier(8, max_depth=4, random_state=0))]).fit(
        frame, y
    ), frame


FEATURES = {
    "age": {"kind": "integer", "range": [18, 40]},
    "income": {"step": 100, "range": [0, 2000]},
}
RULES = ["if job = none then income <= 500", "if job changes then age rises"]


def test_rules_in_raw_columns() -> None:
    """The nearest of all raw rows that keep the rules, by asking the pipeline for every one."""
    pipeline, frame = people(np.random.default_rng(1))
    engine = gpucf.Engine(pipeline, frame, features=FEATURES, rules=RULES, n_threads=1)
    rows = frame[pipeline.predict(frame) == "no"].head(12)
    result = engine.query(rows, "yes", scale=None, weights={"income": 0.01}, options=2, limits={"age": {"max_rise": 3}})
    assert "scikit-learn" in result.verified_by and "the rules as written" in result.verified_by
    grid = pd.DataFrame(
        list(itertools.product(range(18, 34), ["clerk", "cook", "none"], np.arange(21) * 100.0)),
        columns=list(frame),
    )
    good = grid[(pipeline.predict(grid) == "yes") & ((grid.job != "none") | (grid.income <= 500))]
    for i in range(len(rows)):
        x = rows.iloc[i]
        moved = good.job != x.job
        fine = good[(~moved | (good.age > x.age)) & (good.age <= x.age + 3)]
        cost = (fine.age - x.age).abs() + 0.01 * (fine.income - x.income).abs() + (fine.job != x.job)
        assert (result.status[i] == "optimal") == (len(fine) > 0)
        assert not len(fine) or result.cost[i] == pytest.approx(cost.min(), rel=1e-12)  # sums in another order
        for option in result.options(i):
            after = option.counterfactual.iloc[0]
            assert pipeline.predict(option.counterfactual)[0] == "yes"
            assert after.job == x.job or after.age > x.age
            assert after.job != "none" or after.income <= 500
    assert (result.n_options > 1).any()


def test_regions_in_raw_columns() -> None:
    pipeline, frame = people(np.random.default_rng(1))
    engine = gpucf.Engine(pipeline, frame, features=FEATURES, rules=RULES[:1], n_threads=1)
    rows = frame[pipeline.predict(frame) == "no"].head(8)
    result = engine.query(rows, "yes", region=True)
    grown = 0
    for i in range(len(rows)):
        region = result.region(i)
        assert region is not None and region.blocked
        (age_low, age_high), (low, high) = region.limits["age"], region.limits["income"]
        jobs = region.limits["job"] or ["clerk", "cook", "none"]
        inside = pd.DataFrame(
            list(
                itertools.product(
                    range(age_low or 18, (age_high or 40) + 1),
                    jobs,
                    np.arange((low or 0) // 100, (2000 if high is None else high) // 100 + 1) * 100.0,
                )
            ),
            columns=list(frame),
        )
        assert (pipeline.predict(inside) == "yes").all()
        assert ((inside.job != "none") | (inside.income <= 500)).all()
        grown += len(inside) > 1
    assert grown


def test_raw_frames_are_made_of_codes() -> None:
    """What the brute force asks the pipeline is what people have: text, not codes."""
    pipeline, frame = people(np.random.default_rng(1))
    engine = gpucf.Engine(pipeline, frame)
    assert raw_frame(engine.ensemble, read_table(frame, engine.ensemble).values)["job"].tolist() == frame.job.tolist()
