"""Wrong answers that other tools were seen to give (`shared/peers.md`, last section): each asked here.

Those about declared levels, whole numbers and ranges are in `test_features` (`test_peers_...`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from engine_checks import check_query, same_bits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import gpucf
from gpucf import OptionError, TableError


def table(n: int = 200, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(n, 3)), 2).astype(dtype)
    return X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n) / 3 > 1.2).astype(int)


def test_peers_the_intercept_counts() -> None:
    """OCEAN MaxSAT left XGBoost's intercept out: 107 of 218 "optimal" points did not flip the model."""
    X, y = table()
    for base in (0.02, 0.5, 0.97):
        model = xgboost.XGBClassifier(n_estimators=4, max_depth=3, base_score=base, n_jobs=1).fit(X, y)
        result = check_query(gpucf.Engine(model, X), X[:20])
        found = result.status == "optimal"
        assert (model.predict(result.counterfactuals)[found] != model.predict(X[:20])[found]).all()


def test_peers_a_forest_whose_votes_tie() -> None:
    """treecf summed 0.5000000000000002 where scikit-learn's sum is exactly 0.5, which is the first class."""
    X, y = table()
    seen = 0
    for seed in range(5):
        model = RandomForestClassifier(10, max_depth=2, random_state=seed, n_jobs=1).fit(X, y)
        engine = gpucf.Engine(model, X)
        for target in (0, 1):
            result = check_query(engine, X[:15], target)
            found = result.status == "optimal"
            assert (model.predict(result.counterfactuals)[found] == target).all()
        leaves = RandomForestClassifier(10, max_leaf_nodes=2, random_state=seed, n_jobs=1).fit(X[:8], [0, 1] * 4)
        grid = np.round(np.random.default_rng(seed).normal(size=(300, 3)), 1)
        p = leaves.predict_proba(grid)
        seen += int((p[:, 0] == p[:, 1]).sum())
        check_query(gpucf.Engine(leaves, X), grid[:30])
    assert seen  # rows on which both classes have the same sum


def test_peers_float64_rows_next_to_a_float32_threshold() -> None:
    """OCEAN CP and MaxSAT were wrong for float64 rows within a float32 ulp of a forest's threshold."""
    X, y = table()
    model = RandomForestClassifier(3, max_depth=3, random_state=0, n_jobs=1).fit(X, y)
    engine = gpucf.Engine(model, X)
    cuts = [t for tree in model.estimators_ for t in tree.tree_.threshold[tree.tree_.feature == 0]]
    rows = np.tile(X[0], (5 * len(cuts), 1))
    for i, t in enumerate(cuts):
        near = [t, np.nextafter(t, -np.inf), np.nextafter(t, np.inf)]
        near += [float(np.nextafter(np.float32(t), np.float32(s))) for s in (-np.inf, np.inf)]
        rows[5 * i : 5 * i + 5, 0] = near
    result = check_query(engine, rows)
    assert (model.predict(result.counterfactuals) != model.predict(rows)).all()


def test_peers_margins_are_float32() -> None:
    """Sums in float64 put 98 of 9,045 margins of an Adult model on other bits than XGBoost's."""
    X, y = table(dtype=np.float32)
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=3, n_jobs=1).fit(X, y)
    margins = model.predict(X, output_margin=True)
    engine = gpucf.Engine(model, X)
    for i in (0, 7, 19):  # the very score of another row, and one bit above
        for bound in (float(margins[i]), float(np.nextafter(margins[i], np.float32(np.inf)))):
            result = engine.query(X[:10], gpucf.Score(at_least=bound), node_limit=3000)
            found = np.isin(result.status, ["optimal", "already", "feasible"])
            after = model.predict(result.counterfactuals, output_margin=True)
            assert found.any() and (after[found] >= bound).all()
            assert ((margins[:10] >= bound) == (result.status == "already")).all()


def test_peers_strictly_above_is_the_next_number() -> None:
    """OCEAN MILP wrote "> 0.5" as "0.5 + 1e-6", and called a dearer point optimal."""
    X, y = table()
    model = RandomForestClassifier(4, max_depth=2, random_state=0, n_jobs=1).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    engine = gpucf.Engine(model, X)
    for bound in np.unique(p)[1:-1][::3]:
        below = float(np.nextafter(bound, 0.0))
        just, above = (check_query(engine, X[:10], gpucf.Probability(above=b)) for b in (below, float(bound)))
        assert (just.cost <= above.cost).all()
        assert (model.predict_proba(above.counterfactuals)[above.status == "optimal", 1] > bound).all()
        at_least = engine.query(X[:10], gpucf.Probability(at_least=float(bound)))
        assert same_bits(at_least.cost, just.cost)


def test_peers_infinity_and_missing_values() -> None:
    """OCEAN raised OverflowError for inf and answered NaN with a distance of NaN; treecf took inf."""
    X, y = table()
    engine = gpucf.Engine(xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(X, y), X)
    rows = X[:4].copy()
    rows[1, 2] = np.inf
    with pytest.raises(TableError, match="row 1"):
        engine.query(rows)
    rows[1, 2] = np.nan
    result = check_query(engine, rows)
    assert not np.isnan(result.cost).any()
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)  # scikit-learn takes it, untrained on it
    assert not np.isnan(check_query(gpucf.Engine(forest, X), rows).cost).any()
    boosted = gpucf.Engine(GradientBoostingClassifier(n_estimators=3, max_depth=2).fit(X, y), X)
    with pytest.raises(TableError, match="row 1"):
        boosted.query(rows)


def test_peers_an_earlier_answer_stays() -> None:
    """In OCEAN an answer object changed when another query was solved."""
    X, y = table()
    engine = gpucf.Engine(xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X, y), X)
    first = engine.query(X[:10], options=2, region=True)
    kept = [first.counterfactuals.copy(), first.cost.copy(), first.status.copy(), str(first.explain(0)),
            str(first.region(0)), first.changes(0)]  # fmt: skip
    engine.query(X[50:80], "p >= 0.9", cost="l0")
    again = [first.counterfactuals, first.cost, first.status, str(first.explain(0)), str(first.region(0)),
             first.changes(0)]  # fmt: skip
    assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True))


def test_peers_what_cannot_be_meant_is_refused() -> None:
    """treecf: a short row panicked, weights below 0 gave a cost of -70.6, unknown names and a time of -1 were taken."""
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abc"))
    engine = gpucf.Engine(xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(frame, y), frame)
    with pytest.raises(TableError, match=r"2 columns|'c'"):
        engine.query(X[:1, :2])
    for options, message in [
        ({"weights": {"a": -1.0}}, "-1"),
        ({"weights": {"d": 1.0}}, "'d'"),
        ({"time_limit_s": -1}, "time_limit_s is -1"),
        ({"node_limit": 0}, "node_limit is 0"),
    ]:
        with pytest.raises(OptionError, match=message):
            engine.query(frame[:1], **options)


def test_peers_no_answer_says_so() -> None:
    """Veritas, started with too small a radius, returned without an example and without a word."""
    X, y = table()
    engine = gpucf.Engine(xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(X, y), X)
    none = engine.query(X[:20], "p >= 0.9999999")
    assert (none.status == "infeasible").all() and np.isinf(none.cost).all() and np.isinf(none.lower_bound).all()
    cut = engine.query(X[:20], node_limit=1)
    assert np.isin(cut.status, ["unknown", "feasible", "optimal"]).all() and np.isfinite(cut.lower_bound).all()
