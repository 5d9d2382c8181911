"""The CUDA kernels, run on the CPU, against numba: equal bits for every question (numba itself is held to the oracle).

Warp kernels run with one fiber a lane, in shuffled orders of lanes and blocks; forms with one lane, plainly. No GPU has
run them yet (docs/design/cuda.md says what that leaves open).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_checks import check_query, same_bits
from host_device import HostBackend
from mixed_models import random_ensemble, random_rows
from random_models import KINDS, random_model
from random_queries import random_engine, random_options, random_query_rows, random_target
from shadow import shadowed
from sizes import DEEP, count

import gpucf
from gpucf._cuda_args import pack, struct_fields
from gpucf._cuda_device import Device, DeviceMemoryError, chunks_of

pytestmark = pytest.mark.compiler

ONE_LANE = (("search_one_lane", 1),)
WARP = (("search", 32),)


def backend(fibers: bool, seed: int = 0, **options: Any) -> HostBackend:
    return HostBackend(mode="fibers" if fibers else "plain", seed=seed, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_random_models(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)) + 1)
    rows_seen = {"map": 0, "search": 0}
    for i in range(count(80)):
        model, X = random_model(kind, rng)
        engine = random_engine(model, X, rng)
        rows, options, target = random_query_rows(X, rng), random_options(engine, rng), random_target(engine, rng)
        fibers = i % 2 == 1
        with shadowed(backend(fibers, seed=i), not fibers, WARP if fibers else ONE_LANE) as seen:
            for method in ("map", "search"):
                engine.method = method
                engine.query(rows, target=target, **options)
        rows_seen = {name: n + seen[name] for name, n in rows_seen.items()}
    assert min(rows_seen.values()) > 0


@pytest.mark.parametrize("space", ["xi", "cx", "oi", "xco", "ico"])
def test_mixed_features_and_the_oracle(space: str) -> None:
    rng = np.random.default_rng([ord(c) for c in space])
    for i in range(count(60)):
        nullable = bool(rng.random() < 0.5)
        ensemble, groups = random_ensemble(rng, space, nullable)
        names = ensemble.feature_names
        whole = {n: "integer" for n in names if n[0] == "i"}
        engine = gpucf.Engine(
            ensemble, background=random_rows(rng, names, 10, False), features=whole, one_hot=groups, n_threads=1
        )
        engine._planner.device = Device(backend(True, seed=i))  # the oracle judges what the kernels say, both methods
        options = {
            "cost": str(rng.choice(["l1", "l2", "linf", "l0"])),
            "immutable": [n for n in names if n[0] != "o" and rng.random() < 0.1],
            "weights": {n: rng.choice([0.0, 0.5, 1.0, 2.0]) for n in (*groups, *names) if n[0] != "o"},
        }  # fmt: skip
        check_query(
            engine, random_rows(rng, names, 4, nullable), target=["any_other", 0, 1][rng.integers(3)], **options
        )


def wider_model(rng: np.random.Generator, kind: str) -> tuple[Any, np.ndarray]:
    """A model with several words a tree, or many trees, on continuous columns."""
    X = rng.normal(size=(300, 6))
    y = (X @ rng.normal(size=6) + rng.normal(size=300) > 0).astype(int)
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(15, random_state=0).fit(X, y), X  # about 40 to 90 leaves a tree
    if kind == "classes":
        from sklearn.ensemble import RandomForestClassifier

        y = y + (X[:, 0] > 0.5)
        return RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, y), X
    import xgboost

    return xgboost.XGBClassifier(n_estimators=60, max_depth=3, random_state=0, n_jobs=1).fit(X, y), X


@pytest.mark.parametrize("kind", ["xgb", "forest", "classes"])
def test_harder_rows_limits_and_lanes(kind: str) -> None:
    """Rows that dive and polish; limited ones; and the same nodes whatever the number and order of lanes."""
    rng = np.random.default_rng(5)
    model, X = wider_model(rng, kind)
    engine = gpucf.Engine(model, background=X, n_threads=1, method="search")
    visits = []
    for run, (kernel, fibers) in enumerate([(ONE_LANE, False), (WARP, True), (WARP, True)]):
        with shadowed(backend(fibers, seed=3 * run), kernels=kernel) as seen:
            for cost in ("l1", "l2", "linf", "l0") if DEEP else ("l1", "linf"):
                engine.query(X[:4], target="any_other", cost=cost)
            for limit in (1, 20, 200, 400):
                engine.query(X[:4], target="any_other", node_limit=limit)
        assert seen["search"] > 0
        visits.append(seen["nodes"])
    assert visits[0] == visits[1] == visits[2] > 100


def test_targets_of_several_conditions() -> None:
    rng, rows_seen = np.random.default_rng(11), 0
    for i in range(count(20)):
        kind = KINDS[i % len(KINDS)]
        model, X = random_model(kind, rng)
        second = random_model("forest", np.random.default_rng(i))[0]
        wish = gpucf.AnyOf(gpucf.Probability(0.6, 0), gpucf.Probability(0.55, 1)) if kind != "tree" else 1
        fibers = i % 3 == 0
        agree = [second] if second.n_features_in_ <= X.shape[1] and kind.startswith("xgb") else None
        try:
            engine = gpucf.Engine(model, background=X, n_threads=1, method="search", agree=agree)
        except gpucf.GpucfError:
            engine = gpucf.Engine(model, background=X, n_threads=1, method="search")
        with shadowed(backend(fibers, seed=i), kernels=WARP if fibers else ONE_LANE) as seen:
            engine.query(X[:5], target=wish)
            engine.query(X[:5], target="any_other")
        rows_seen += seen["search"]
    assert rows_seen > 0


def test_chunks_and_full_memory_change_nothing() -> None:
    model, X = random_model("xgb", np.random.default_rng(3))
    limits = {gpucf.load_model(model).feature_names[0]: {"max_change": np.linspace(0.5, 3.0, len(X))}}
    for method in ("map", "search"):
        engine = gpucf.Engine(model, background=X, n_threads=1, method=method)
        expected = engine.query(X, target="any_other", limits=limits)
        for memory, n_threads in ((1 << 30, 64), (60_000, 64), (200_000, 4096)):
            small = backend(True, memory=memory, n_threads=n_threads)
            engine._planner.device = Device(small)
            found = engine.query(X, target="any_other", limits=limits)
            engine._planner.device = None
            assert same_bits(found.cost, expected.cost) and same_bits(found._after, expected._after)
            assert np.array_equal(found.status, expected.status) and small.largest <= memory


def test_chunks_shrink_until_they_fit() -> None:
    seen: list[int] = []

    def action(rows: np.ndarray) -> None:
        if len(rows) > 3:
            raise DeviceMemoryError
        seen.extend(rows.tolist())

    device = Device(backend(False, memory=1000))
    chunks_of(device, np.arange(20), 10, 1.0, action)
    assert seen == list(range(20))
    with pytest.raises(DeviceMemoryError):
        chunks_of(device, np.arange(2), 10, 1.0, lambda rows: (_ for _ in ()).throw(DeviceMemoryError()))


def test_arguments_are_checked_against_the_source() -> None:
    fields = {f.name: f for f in struct_fields("Map")}
    values = {n: np.zeros(1, np.int64) if f.is_pointer else 0 for n, f in fields.items()}
    with pytest.raises(TypeError, match=r"Map\.own is an array of int64; the kernel reads int32"):
        pack("Map", values)
    with pytest.raises(KeyError):
        pack("Map", {})
    with pytest.raises(RuntimeError, match="no struct Nothing"):
        struct_fields("Nothing")
