"""The benchmark's comparison with other tools: its own models are right, and it explains differences rightly.

Our own mixed-integer program of the benchmark is a second independent checker, with one-hot groups and forests.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sizes import count

import gpucf

PEERS = Path(__file__).parents[1] / "bench" / "peers"
SOLVER_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def peers() -> Any:
    """Import modules of the peers' folder, which is no package where they run."""
    sys.path.insert(0, str(PEERS))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(PEERS))


def small_model(kind: str, seed: int) -> tuple[Any, np.ndarray]:
    """Two numeric columns and one group of three one-hot columns."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random((200, 2)), np.eye(3)[rng.integers(0, 3, 200)]]).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * X[:, 3] + 0.2 * rng.normal(size=200) > 0.8).astype(int)
    if kind == "xgb":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=8, max_depth=3, random_state=seed, n_jobs=1).fit(X, y), X
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(9, max_depth=4, random_state=seed).fit(X, y), X


@pytest.mark.parametrize("kind", ["xgb", "rf"])
def test_the_milp_of_the_benchmark_finds_the_same_costs(kind: str, peers: Any, tmp_path: Path) -> None:
    job, own_milp = peers("job"), peers("own_milp")
    for seed in range(count(3)):
        model, X = small_model(kind, seed)
        rows = X[:6]
        wanted = 1 - model.predict(rows).astype(int)
        asked = job.Job(kind, model, rows, wanted, [[2, 3, 4]], 60.0, 60.0, 1)
        job.write_job(tmp_path / str(seed), asked)
        read = job.read_job(tmp_path / str(seed))
        assert np.array_equal(read.model.predict(X), model.predict(X))
        names = gpucf.load_model(model).feature_names
        engine = gpucf.Engine(model, one_hot={"kind": list(names[2:])}, n_threads=1)
        result = engine.query(rows, scale=None)
        ask = own_milp.prepare(read)
        for i, row in enumerate(rows):
            found = ask(row, int(wanted[i]))
            assert found["status"] == result.status[i] == "optimal"
            assert abs(found["cost"] - result.cost[i]) <= SOLVER_TOLERANCE, (seed, i)
            x = np.array([found["x"]])
            assert model.predict(x)[0] == wanted[i] and x[0, 2:].sum() == 1
            moved = np.abs(x[0] - row)
            assert abs(moved[:2].sum() + moved[2:].sum() / 2 - found["cost"]) <= SOLVER_TOLERANCE


def test_differences_are_explained() -> None:
    spec = importlib.util.spec_from_file_location("bench_compare", PEERS / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    model, X = small_model("xgb", 0)
    names = gpucf.load_model(model).feature_names
    result = gpucf.Engine(model, one_hot={"kind": list(names[2:])}, n_threads=1).query(X[:2], scale=None)
    ours = compare.Ours.__new__(compare.Ours)
    ours.model, ours.rows, ours.cost, ours.status = model, X[:2], result.cost.copy(), result.status
    ours.points, ours.wanted = result.counterfactuals, 1 - model.predict(X[:2])
    ours.valid, ours.weight = np.ones(2, bool), np.array([1.0, 1.0, 0.5, 0.5, 0.5])

    def why(cost: float, x: np.ndarray = ours.points[0], status: str = "optimal") -> str | None:
        return ours.difference({"row": 0, "status": status, "cost": cost, "x": x.tolist()})

    own = float(ours.cost[0])
    assert why(own) is None and why(own + 1e-9) is None
    assert "missed gpucf's point" in why(own + 0.1)
    assert "there is none" in why(own, status="infeasible")
    assert "keeps the class" in why(own - 0.1, X[0])
    assert "not what it says" in why(own - 0.1)
    ours.cost[0] += 0.1  # as if gpucf had missed its own point
    assert why(own).startswith("GPUCF is dearer")
    ours.valid[0] = False
    assert why(own + 0.2).startswith("GPUCF's point keeps the class")
