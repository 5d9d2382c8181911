"""The ensemble search on its own: what a limited search may say, and hard shapes of models.

That search, map and oracle agree is tested in `test_property.py` and, through `engine_checks.check_query`, wherever a
query is compared with the oracle. Here: certificates under random limits against the unlimited answer; that threads,
order and chunks change nothing; many words per tree, single leaves, softmax near-ties; and an independent checker, the
plain mixed-integer program of the ensemble, solved by HiGHS. A tolerance is used there only, since HiGHS has one.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from engine_checks import check_query, same_bits
from random_models import KINDS, random_model
from sizes import DEEP, count

import gpucf
from gpucf import _search
from gpucf._ensemble import VECTOR_LEAF, Ensemble, TreeBuilder
from gpucf._errors import OptionError
from gpucf._search import make_searcher

MIDDLE = ("xgb", "forest", "forest_multi", "xgb_multi", "hist", "integer")
PROVED = ("optimal", "infeasible", "already")


def middle_model(kind: str, seed: int) -> tuple[Any, np.ndarray, dict[str, str]]:
    """A model that takes hundreds of nodes a row, rows of its data, and kinds of columns."""
    rng = np.random.default_rng(seed)
    n_columns = 8
    X = rng.normal(size=(400, n_columns))
    if kind == "integer":
        X[:, ::2] = np.round(3 * X[:, ::2])
    raw = X @ rng.normal(size=n_columns) + 2 * np.sin(2 * X[:, 0]) * X[:, 1] + rng.normal(size=400) / 2
    cuts = np.quantile(raw, [1 / 3, 2 / 3] if kind.endswith("multi") else [0.5])
    y = np.searchsorted(cuts, raw)
    features = {f"x{j}": "integer" for j in range(0, n_columns, 2)} if kind == "integer" else {}
    if kind in ("xgb", "xgb_multi", "integer"):
        import xgboost

        trees = 6 if kind == "xgb_multi" else 30
        return xgboost.XGBClassifier(n_estimators=trees, max_depth=4, random_state=0, n_jobs=1).fit(X, y), X, features
    from sklearn import ensemble

    if kind == "hist":
        return ensemble.HistGradientBoostingClassifier(max_iter=20, max_depth=4, early_stopping=False).fit(X, y), X, {}
    trees, depth = (6, 4) if kind == "forest_multi" else (20, 5)
    return ensemble.RandomForestClassifier(trees, max_depth=depth, random_state=0).fit(X, y), X, features


def check_certificate(full: gpucf.Result, limited: gpucf.Result, before: np.ndarray) -> None:
    """What a limited search says is true, judged by the unlimited answer."""
    assert set(full.status) <= set(PROVED)
    assert (limited.lower_bound <= full.cost).all() and (limited.lower_bound >= 0.0).all()
    assert (limited.cost >= full.cost).all() and (limited.lower_bound <= limited.cost).all()
    proved = np.isin(limited.status, PROVED)
    assert np.array_equal(limited.status[proved], full.status[proved])
    assert same_bits(limited.cost[proved], full.cost[proved])
    assert same_bits(limited.lower_bound[proved], full.lower_bound[proved])
    assert same_bits(limited.counterfactuals[proved], full.counterfactuals[proved])
    feasible, unknown = limited.status == "feasible", limited.status == "unknown"
    assert (proved | feasible | unknown).all()
    assert np.isfinite(limited.cost[feasible]).all() and limited.changed[feasible].any(axis=1).all()
    assert np.isinf(limited.cost[unknown]).all() and np.isfinite(limited.lower_bound[unknown]).all()
    assert same_bits(limited.counterfactuals[unknown], before[unknown])


def check_limits(engine: gpucf.Engine, X: np.ndarray, rng: np.random.Generator, **options: Any) -> set[str]:
    """Answers under rising random limits: true, within the limit, and never worse than under a smaller one."""
    full, last = engine.query(X, **options), None
    seen: set[str] = set()
    for limit in sorted({*(2.0 ** rng.uniform(0, 11, 6)).astype(int).tolist(), 2000}):
        limited = engine.query(X, node_limit=limit, **options)
        assert limited.plan["method"] == ("none" if (full.status == "already").all() else "search")
        assert (limited.visits <= limit).all()
        check_certificate(full, limited, X)
        if last is not None:
            assert (limited.cost <= last.cost).all() and (limited.lower_bound >= last.lower_bound).all()
        seen |= set(limited.status.tolist())
        last = limited
    return seen


def search_engine(model: Any, X: np.ndarray | None, n_threads: int = 1, **options: Any) -> gpucf.Engine:
    return gpucf.Engine(model, background=X, n_threads=n_threads, method="search", **options)


@pytest.mark.parametrize("kind", MIDDLE)
def test_certificates_of_mid_size_models(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, seen, bounded = np.random.default_rng(len(kind)), set(), 0.0
    for seed in range(count(10)):
        model, X, features = middle_model(kind, seed)
        engine = search_engine(model, X, features={engine_name(model, n): k for n, k in features.items()})
        names = engine.feature_names_in_.tolist()
        for cost in ("l1", "l2", "linf", "l0"):
            # Short slices, so that rows are put off and taken up again within these limits.
            monkeypatch.setattr(_search, "FIRST_SLICE", int(rng.integers(1, 300)))
            rows = X[rng.integers(len(X), size=6)]
            if kind == "integer":
                rows[0, 0] += 0.5  # off its grid
            options = {"cost": cost, "target": "any_other", "immutable": names[:1] if rng.random() < 0.3 else []}
            seen |= check_limits(engine, rows, rng, **options)
            limited = engine.query(rows, node_limit=60, **options)
            feasible = limited.status == "feasible"
            said = np.asarray(model.predict(limited.counterfactuals))
            assert (said[feasible] != model.predict(rows)[feasible]).all()
            bounded += limited.lower_bound[~np.isin(limited.status, PROVED)].sum()
    assert {"optimal", "unknown"} <= seen and bounded > 0.0
    if kind in ("xgb", "integer", "hist"):
        assert "feasible" in seen


def engine_name(model: Any, name: str) -> str:
    return gpucf.load_model(model).feature_names[int(name[1:])]


@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_small_models(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(count(60)):
        model, X = random_model(kind, rng)
        engine = search_engine(model, X)
        rows = X[rng.integers(len(X), size=4)] + rng.choice([0.0, 0.25], (4, X.shape[1]))
        for target in ("any_other", engine.ensemble.classes.tolist()[0]):
            check_limits(engine, rows, rng, cost=str(rng.choice(["l1", "l2", "linf", "l0"])), target=target)


@pytest.mark.parametrize("node_limit", [None, 1, 40, 400])
@pytest.mark.parametrize("kind", ["xgb", "forest_multi"])
def test_threads_order_and_chunks_change_nothing(
    kind: str, node_limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_search, "FIRST_SLICE", 100)
    model, X, _ = middle_model(kind, 0)
    rows, options = X[:150], {"target": "any_other", "node_limit": node_limit}
    one = search_engine(model, X).query(rows, **options)
    order = np.random.default_rng(0).permutation(len(rows))
    engine = search_engine(model, X, n_threads=2)
    for at in (np.arange(150), order, order[:5], order[70:71]):
        monkeypatch.setattr(_search, "_ROWS_PER_TASK", 7)
        same_answers(engine.query(rows[at], **options), one, at)


def same_answers(result: gpucf.Result, expected: gpucf.Result, at: np.ndarray) -> None:
    assert np.array_equal(result.status, expected.status[at])
    assert same_bits(result.cost, expected.cost[at]) and same_bits(result.lower_bound, expected.lower_bound[at])
    assert same_bits(result.counterfactuals, expected.counterfactuals[at])


def test_the_depth_of_the_stack_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, _ = middle_model("xgb", 1)
    engine, depths = search_engine(model, X), []
    limits = (3, 30, 300, None)
    expected = [engine.query(X[:40], node_limit=limit) for limit in limits]
    made, run_once = _search.Runner.__init__, _search.Runner._run_once

    def shallow(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        self.depth = 2

    def noting(self: Any, *arguments: Any) -> None:
        depths.append(self.depth)
        run_once(self, *arguments)

    monkeypatch.setattr(_search.Runner, "__init__", shallow)
    monkeypatch.setattr(_search.Runner, "_run_once", noting)
    for limit, one in zip(limits, expected, strict=True):
        same_answers(engine.query(X[:40], node_limit=limit), one, np.arange(40))
    assert max(depths) > 8


def near_ties(seed: int) -> Ensemble:
    """Three classes whose float32 scores are mostly a few ulp apart: only XGBoost's own softmax tells them apart."""
    rng = np.random.default_rng(seed)
    builder = TreeBuilder("test", 2, np.float32, np.float32)
    for t in range(6):
        value = rng.choice([0.0, 1.0, -3.0], p=[0.6, 0.2, 0.2]) if t >= 3 else 1.0
        value = np.float32(value) + rng.integers(-3, 4, 7) * np.float32(2.0**-23)
        left = np.array([1, 3, 5, -1, -1, -1, -1])
        builder.add_tree(rng.integers(0, 2, 7), rng.integers(0, 6, 7).astype(np.float32), left,
                         np.where(left < 0, -1, left + 1), np.zeros(7, bool), value, t % 3)  # fmt: skip
    return builder.build(
        np.zeros(3), library="xgboost", model_type="near ties", task="multiclass", feature_names=("a", "b"),
        has_names=True, classes=np.arange(3), allows_missing=np.zeros(2, bool), decision="xgb_softmax",
        probability="xgb_softmax",
    )  # fmt: skip


def test_softmax_near_ties_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = [], _search.Runner._answer

    def counting(self: Any, rows: Any, at: np.ndarray) -> Any:
        asked.append(len(at))
        return answer(self, rows, at)

    monkeypatch.setattr(_search.Runner, "_answer", counting)
    monkeypatch.setattr(_search, "FIRST_SLICE", 3)
    rng = np.random.default_rng(0)
    for seed in range(count(300)):
        engine = search_engine(near_ties(seed), rng.normal(size=(5, 2)))
        X = rng.integers(-1, 7, (4, 2)) + 0.5
        for target in ("any_other", 2, gpucf.Probability(0.34, 1)):
            check_query(engine, X, target=target, scale=None)
        check_limits(engine, X, rng, target="any_other", scale=None)
        # The first row alone meets the questions that the table's other rows have asked for it before.
        full, alone = (engine.query(X[:k], target=2, scale=None, node_limit=8) for k in (4, 1))
        same_answers(alone, full, np.arange(1))
    assert sum(asked) > 20


def test_time_that_is_over_ends_questions_and_deep_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that had a question when the time ended were asked again and again, for ever."""

    def stop_and_answer(self: Any, rows: Any, at: np.ndarray) -> Any:
        self.stop[0] = 1
        return answer(self, rows, at)

    answer = _search.Runner._answer
    X, stopped = np.random.default_rng(1).integers(-1, 7, (30, 2)) + 0.5, 0
    for seed in range(5):
        engine = search_engine(near_ties(seed), X)
        full = engine.query(X, target="any_other", scale=None)
        with monkeypatch.context() as patch:
            patch.setattr(_search.Runner, "_answer", stop_and_answer)
            limited = engine.query(X, target="any_other", scale=None, time_limit_s=1e6)
        check_certificate(full, limited, X)
        stopped += int((limited.status == "unknown").sum())
    assert stopped > 0


@pytest.mark.parametrize("seconds", [1e-9, 0.003, 1e300, np.inf])
def test_short_and_long_times_give_true_bounds(seconds: float) -> None:
    model, X, _ = middle_model("xgb", 2)
    engine = search_engine(model, X, n_threads=2)
    limited = engine.query(X, time_limit_s=seconds)
    check_certificate(engine.query(X), limited, X)
    if seconds > 1:
        assert np.isin(limited.status, PROVED).all()


def test_time_ends_inside_a_row() -> None:
    """A row that would take hours; were the time looked at between rows only, this test would not end."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 40))
    model = RandomForestClassifier(60, max_depth=8, random_state=0).fit(X, (X.sum(axis=1) > 0).astype(int))
    far = X[np.argsort(X.sum(axis=1))[-2:]]
    result = search_engine(model, X).query(far, time_limit_s=0.5)
    assert not np.isin(result.status, PROVED).any() and (result.lower_bound > 0.0).all()


def test_many_words_per_tree_equal_the_map() -> None:
    from sklearn import ensemble, tree

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=300) > 0).astype(int) + (X[:, 2] > 1)
    models = [
        (tree.DecisionTreeClassifier(random_state=0), X, y), (tree.ExtraTreeClassifier(random_state=1), X, y),
        (ensemble.RandomForestClassifier(4, random_state=0), X[:, :2], y > 0),
        (ensemble.ExtraTreesClassifier(3, random_state=0), X[:, :2], y),
    ]  # fmt: skip
    for model, x, labels in models:
        model.fit(x, labels)
        by_map = gpucf.Engine(model, background=x, method="map", n_threads=1)
        by_search = search_engine(model, x)
        assert np.diff(by_search.ensemble.tree_start).max() > 2 * 64
        for cost in ("l1", "linf", "l0"):
            expected = by_map.query(x[:40], target="any_other", cost=cost)
            same_answers(by_search.query(x[:40], target="any_other", cost=cost), expected, np.arange(40))
        check_limits(by_search, x[:20], rng, target="any_other")


def test_models_of_single_leaves() -> None:
    import xgboost

    X = np.random.default_rng(0).normal(size=(60, 3))
    model = xgboost.XGBClassifier(n_estimators=3, gamma=1e9, n_jobs=1).fit(X, (X[:, 0] > 0).astype(int))
    engine = search_engine(model, X)
    assert engine.ensemble.n_nodes == 3
    result = engine.query(X, node_limit=1)
    assert set(result.status) == {"infeasible"} and np.isinf(result.lower_bound).all()
    own = int(model.predict(X)[0])
    assert set(engine.query(X, target=own).status) == {"already"}


def test_leaves_that_differ_by_a_denormal() -> None:
    """A split's weight underflowed to 0, so that no split was chosen and an undecided box passed for an answer."""
    tiny = np.float64(5e-324)
    builder = TreeBuilder("test", 1, np.float64, np.float64)
    for threshold in (1.0, 2.0):
        builder.add_tree(np.zeros(3, int), np.full(3, threshold), np.array([1, -1, -1]), np.array([2, -1, -1]),
                         np.zeros(3, bool), np.array([0.0, -tiny, tiny]))  # fmt: skip
    ensemble = builder.build(
        np.zeros(1), library="test", model_type="tiny", task="binary", feature_names=("a",), has_names=True,
        classes=np.arange(2), allows_missing=np.zeros(1, bool), decision="above_0", probability="none",
    )  # fmt: skip
    result = check_query(search_engine(ensemble, np.arange(4.0)[:, None]), np.array([[0.5], [1.5], [2.5]]), scale=None)
    assert result.status.tolist() == ["optimal"] * 3


@pytest.mark.parametrize(("options", "word"), [
    ({"node_limit": 0}, "node_limit"), ({"node_limit": -1}, "node_limit"), ({"node_limit": 1.5}, "node_limit"),
    ({"node_limit": True}, "node_limit"), ({"node_limit": "9"}, "node_limit"), ({"time_limit_s": 0}, "time_limit_s"),
    ({"time_limit_s": -1.0}, "time_limit_s"), ({"time_limit_s": float("nan")}, "time_limit_s"),
    ({"time_limit_s": "1"}, "time_limit_s"), ({"time_limit_s": True}, "time_limit_s"),
])  # fmt: skip
def test_bad_limits_are_refused(options: dict[str, Any], word: str) -> None:
    X = np.arange(8.0)[:, None]
    engine = search_engine(near_ties(0), np.zeros((2, 2)))
    with pytest.raises(OptionError, match=f"^{word} is {next(iter(options.values()))!r}; give"):
        engine.query(np.repeat(X, 2, axis=1), target=1, **options)


@pytest.mark.parametrize("method", ["best", "", None, "MAP", 1])
def test_unknown_methods_are_refused(method: Any) -> None:
    with pytest.raises(OptionError, match=r"^method is .*'auto', 'map', 'search'"):
        gpucf.Engine(near_ties(0), method=method)


def test_limits_of_any_size_are_taken() -> None:
    model, X, _ = middle_model("xgb", 0)
    engine = search_engine(model, X)
    same_answers(engine.query(X[:5], node_limit=10**30), engine.query(X[:5], node_limit=np.int64(10**9)), np.arange(5))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupted_search_leaves_the_engine_usable(n_threads: int) -> None:
    model, X, _ = middle_model("xgb", 3)
    engine, calls = search_engine(model, X, n_threads=n_threads), []

    def interrupt(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.query(X, progress=interrupt)
    assert len(calls) == 2
    same_answers(engine.query(X[:50]), search_engine(model, X).query(X[:50]), np.arange(50))


@pytest.mark.parametrize("limits", [{}, {"node_limit": 30}, {"time_limit_s": 1e-9}])
def test_progress_rises_to_the_number_of_rows(limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_search, "FIRST_SLICE", 10)
    model, X, _ = middle_model("xgb", 3)
    engine = search_engine(model, X)
    for target in ("opposite", 1):
        calls: list[tuple[int, int]] = []
        engine.query(X, target=target, progress=lambda done, total, calls=calls: calls.append((done, total)), **limits)
        done = [d for d, _ in calls]
        assert done == sorted(done) and {total for _, total in calls} == {len(X)} and done[-1] == len(X)


def milp_cost(booster: Any, base: float, x: np.ndarray, want_above: bool) -> float:
    """Least L1 move of `x` over the plain mixed-integer program of an XGBoost model, by HiGHS.

    A binary per feature and threshold says whether the value lies above it; a leaf weight per leaf is at most what
    each split on its path lets through. Nothing of gpucf is used: trees come from XGBoost's dump.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    trees = [json.loads(t) for t in booster.get_dump(dump_format="json")]
    cuts: list[set[np.float32]] = [set() for _ in x]

    def collect(node: dict[str, Any]) -> None:
        if "leaf" not in node:
            cuts[int(node["split"][1:])].add(np.float32(node["split_condition"]))
            for child in node["children"]:
                collect(child)

    for tree in trees:
        collect(tree)
    where = {key: i for i, key in enumerate((j, t) for j, c in enumerate(cuts) for t in sorted(c))}
    price, constant = np.zeros(len(where)), 0.0
    rows: list[tuple[dict[int, float], float, float]] = []  # coefficients, lower and upper bound
    for j, c in enumerate(cuts):
        above = [t for t in sorted(c) if t > x[j]]
        below = [t for t in sorted(c, reverse=True) if t <= x[j]]
        paid = 0.0
        for t in above:  # values from t on lie above it
            price[where[j, t]], paid = float(t - x[j]) - paid, float(t - x[j])
        paid = 0.0
        for t in below:
            reached = float(x[j] - np.nextafter(t, np.float32(-np.inf)))
            price[where[j, t]], constant, paid = -(reached - paid), constant + reached - paid, reached
        rows += [({where[j, a]: 1.0, where[j, b]: -1.0}, 0.0, np.inf) for a, b in pairwise(sorted(c))]
    n, score = len(where), {}

    def leaves(node: dict[str, Any]) -> list[int]:
        nonlocal n
        if "leaf" in node:
            score[n] = float(node["leaf"])
            n += 1
            return [n - 1]
        sides = {child["nodeid"]: leaves(child) for child in node["children"]}
        left, right = sides[node["yes"]], sides[node["no"]]
        at = where[int(node["split"][1:]), np.float32(node["split_condition"])]
        rows.append(({**dict.fromkeys(left, 1.0), at: 1.0}, -np.inf, 1.0))
        rows.append(({**dict.fromkeys(right, 1.0), at: -1.0}, -np.inf, 0.0))
        return left + right

    for tree in trees:
        rows.append((dict.fromkeys(leaves(tree), 1.0), 1.0, 1.0))
    rows.append((score, -base, np.inf) if want_above else (score, -np.inf, -base))
    entries = [(i, k, v) for i, (row, _, _) in enumerate(rows) for k, v in row.items()]
    i, k, v = (np.array(e) for e in zip(*entries, strict=True))
    matrix = coo_array((v, (i, k)), shape=(len(rows), n)).tocsr()
    found = milp(
        np.concatenate([price, np.zeros(n - len(where))]), integrality=np.arange(n) < len(where), bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    assert found.status == 0, found.message
    return float(found.fun) + constant


def test_highs_finds_the_same_costs() -> None:
    """Mid-size queries against the plain MILP: equal costs within the solver's feasibility tolerance (1e-6)."""
    import xgboost

    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    y = (X @ rng.normal(size=5) + np.sin(3 * X[:, 0]) + rng.normal(size=400) > 0).astype(int)
    compared = 0
    for seed in range(20 if DEEP else 2):
        model = xgboost.XGBClassifier(n_estimators=20, max_depth=3, random_state=seed, subsample=0.7, n_jobs=1)
        booster = model.fit(X, y).get_booster()
        margin = model.predict(X, output_margin=True)
        leaf = booster.predict(xgboost.DMatrix(X), pred_leaf=True).astype(int)
        tables = [dict(zip(d["Node"], d["Gain"], strict=True)) for _, d in booster.trees_to_dataframe().groupby("Tree")]
        base = float(margin[0]) - sum(tables[t][leaf[0, t]] for t in range(20))
        at = rng.integers(len(X), size=10)
        result = search_engine(model, X).query(X[at], scale=None)
        for i, cost in zip(at, result.cost, strict=True):
            assert abs(milp_cost(booster, base, X[i], margin[i] <= 0) - cost) <= 1e-5, (seed, i)
            compared += 1
    assert compared >= 20


def test_a_leaf_range_of_the_smallest_number() -> None:
    """A share of it rounds to 0; a tree without a range has no open split and must not be walked for one."""
    builder = TreeBuilder("test", 2, np.float64, np.float64, 1)
    leaves = np.array([[0.0], [0.0], [5e-324]])
    builder.add_tree([0, 0, 0], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [True] * 3, leaves)
    builder.add_tree([0], [0.0], [-1], [-1], [True], np.zeros((1, 1)))
    builder.add_tree([1, 0, 0], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [True] * 3, np.zeros((3, 1)))
    model = builder.build(
        np.zeros(1), library="test", model_type="denormal", task="binary", feature_names=("a", "b"), has_names=True,
        classes=np.arange(2), allows_missing=np.full(2, True), decision="above_0", probability="none",
    )  # fmt: skip
    engine = gpucf.Engine(model, method="search", n_threads=1)
    result = engine.query(np.zeros((1, 2)), scale=None, immutable=["b"])
    assert result.status.tolist() == ["optimal"] and result.counterfactuals[0, 0] == np.nextafter(0.5, 1.0)


def tied_forest(seed: int, scale: float) -> Ensemble:
    """Two classes whose summed scores are often equal, or a few roundings apart."""
    rng = np.random.default_rng(seed)
    n_trees = int(rng.integers(2, 10))
    builder = TreeBuilder("test", 2, np.float32, np.float64, 2)
    for _ in range(n_trees):
        # Parts of a unit, so that whole numbers add up to the wrong side of 0; or less than a rounding.
        first = (
            rng.choice([0.25, 0.5, 0.75], 7, p=[0.15, 0.7, 0.15])
            + rng.integers(-3, 4, 7) * [2.0**-32, 2.0**-54][seed % 5 == 0]
        )
        left = np.array([1, 3, 5, -1, -1, -1, -1])
        builder.add_tree(rng.integers(0, 2, 7), rng.integers(0, 6, 7).astype(np.float32), left,
                         np.where(left < 0, -1, left + 1), np.zeros(7, bool),
                         np.stack([first, 1.0 - first], axis=1) * scale, VECTOR_LEAF)  # fmt: skip
    return builder.build(
        np.zeros(2), library="sklearn", model_type="tied forest", task="binary", feature_names=("a", "b"),
        has_names=True, classes=np.arange(2), allows_missing=np.zeros(2, bool), decision="argmax", probability="raw",
        post="divide", post_a=float(n_trees),
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 3e-5, 1e-281, 1e-300, 5e-324, 1e281, 1.5e308])
def test_forests_whose_votes_tie(scale: float) -> None:
    """Whole numbers decide most nodes of such forests (`margin_outlook`), but not those near a tie."""
    rng = np.random.default_rng(7)
    in_units = 0
    for seed in range(count(60)):
        forest = tied_forest(seed, scale)
        X = rng.integers(-1, 7, (8, 2)) + 0.5
        engine = search_engine(forest, X)
        check_query(engine, X, target=[0, 1, "opposite"][seed % 3], scale=None)
        in_units += len(make_searcher(forest, engine.cells()).trees.margin) > 0
    assert (in_units > 0) == (1e-280 < scale < 1e280)
