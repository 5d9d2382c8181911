"""What people can and cannot change, on German credit and Adult in their own units: what folding and constraints cost.

The third row of each file says what a person may change (FIXED, INC: only upwards); one-hot groups move as one feature.
``GPUCF_BENCH_RECOURSE_MODELS`` holds words, separated by commas, of which a model's name must contain one;
``GPUCF_BENCH_RECOURSE_ROWS`` is the most rows that are taken of a table.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pandas as pd

import gpucf
from bench import datasets
from bench.datasets import Raw
from bench.harness import Rows, case

MAPPED = [("german", "xgb", 20, 3), ("german", "rf", 10, 4), ("adult", "xgb", 20, 3), ("adult", "rf", 10, 4)]
SEARCHED = [("german", "xgb", 100, 6), ("german", "rf", 100, 7), ("adult", "xgb", 100, 6), ("adult", "rf", 100, 7)]
MOST_REGIONS = 2_000_000
TIMED = 2_000  # rows of each timing; the least of ROUNDS counts
ROUNDS = 3
PROOFS = 500
MIXED = 10_000


@case("recourse", "German and Adult with actionability and one-hot groups folded: boxes, rows a second, proofs of no")
def recourse() -> Rows:
    for name, kind, n_trees, depth in MAPPED:
        if _wanted(label := f"{name} {kind} {n_trees}x{depth}"):
            raw, frame = _table(name)
            model = _train(frame, raw, kind, n_trees, depth)
            _map(model, frame, raw, True)  # compiles
            for folded in (False, True):
                yield {"model": label, "what": "map", "folded": folded, **_map(model, frame, raw, folded)}
    for name, kind, n_trees, depth in SEARCHED:
        if _wanted(label := f"{name} {kind} {n_trees}x{depth}"):
            raw, frame = _table(name)
            model = _train(frame, raw, kind, n_trees, depth)
            for row in _searched(model, frame, raw):
                yield {"model": label, **row}


def _wanted(label: str) -> bool:
    return any(word in label for word in os.environ.get("GPUCF_BENCH_RECOURSE_MODELS", "").split(","))


def _table(name: str) -> tuple[Raw, pd.DataFrame]:
    raw = datasets.load_raw(name)
    return raw, pd.DataFrame(raw.columns)


def _asked(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.head(int(os.environ.get("GPUCF_BENCH_RECOURSE_ROWS", len(frame))))


def _train(frame: pd.DataFrame, raw: Raw, kind: str, n_trees: int, depth: int) -> Any:
    if kind == "rf":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(frame, raw.y)
    import xgboost

    rate = 0.1 if n_trees >= 50 else 0.3
    return xgboost.XGBClassifier(n_estimators=n_trees, max_depth=depth, learning_rate=rate).fit(frame, raw.y)


def _engine(
    model: Any, frame: pd.DataFrame, raw: Raw, method: str, folded: bool = True, rules: list[str] | None = None
) -> gpucf.Engine:
    groups = raw.one_hot if folded else None
    return gpucf.Engine(
        model, frame, one_hot=groups, method=method, n_threads=1, max_regions=MOST_REGIONS, rules=rules,
        features={"Age": {"kind": "integer", "range": [0, 120]}} if rules else None,
    )  # fmt: skip


def _rules(raw: Raw, folded: bool = True) -> dict[str, list[str]]:
    """The options that the file's third row asks for; without folding a group's columns are named one by one."""

    def columns(action: str) -> list[str]:
        named = [name for name, said in raw.actions.items() if said == action]
        return [c for name in named for c in ([name] if folded else raw.one_hot.get(name, [name]))]

    return {"immutable": columns("FIXED"), "increase_only": columns("INC")}


def _map(model: Any, frame: pd.DataFrame, raw: Raw, folded: bool) -> dict[str, Any]:
    engine = _engine(model, frame, raw, "map", folded)
    rows = _asked(frame).head(TIMED)
    try:
        region_map = engine.region_map()
    except gpucf.MapTooLargeError as error:
        return {"boxes": None, "boxes_when_it_stopped": error.n_regions, "share_done": error.share_done}
    return {
        "boxes": region_map.n_regions,
        "boxes_before_joining": region_map.n_compressed,
        "build_s": sum(region_map.seconds.values()),
        **_timed(engine, rows, _rules(raw, folded)),
    }


def _timed(engine: gpucf.Engine, rows: pd.DataFrame, options: dict[str, Any], target: Any = "opposite") -> Any:
    """Rows a second of the whole call and of the answering in it, and what was found."""
    result = engine.query(rows, target, **options)  # compiles, and builds what is kept
    whole, inner = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = engine.query(rows, target, **options)
        whole.append(time.perf_counter() - start)
        inner.append(result.plan["seconds"]["search"])
    return {
        **_counts(result),
        "rows_per_s_whole_call": len(rows) / min(whole),
        "rows_per_s_answering": len(rows) / min(inner),
        "us_per_row": min(inner) / len(rows) * 1e6,
        "visits_median": float(np.median(result.visits)),
        "visits_p95": float(np.percentile(result.visits, 95)),
    }


def _counts(result: gpucf.Result) -> dict[str, Any]:
    statuses, n = np.unique(result.status, return_counts=True)
    return {"rows": len(result), **dict(zip(statuses.tolist(), n.tolist(), strict=True))}


def _searched(model: Any, frame: pd.DataFrame, raw: Raw) -> Rows:
    engine = _engine(model, frame, raw, "search")
    options, everybody = _rules(raw), _asked(frame)
    some = everybody.sample(min(TIMED, len(everybody)), random_state=0)
    for folded in (False, True):
        asked = engine if folded else _engine(model, frame, raw, "search", folded=False)
        yield {"what": "folding", "folded": folded, **_timed(asked, some, _rules(raw, folded))}
    yield {"what": "constraints", "constrained": False, **_timed(engine, some, {})}
    yield {"what": "constraints", "constrained": True, **_timed(engine, some, options)}
    learned = "Job" if "Job" in frame else "EducationNumber"
    for rule in (f"{learned} <= Age", f"if {learned} changes then Age rises"):
        ruled = _engine(model, frame, raw, "search", rules=[rule])
        yield {"what": "rules", "rule": rule, **_timed(ruled, some, options)}
    start = time.perf_counter()
    result = engine.query(everybody, **options)
    time_s = time.perf_counter() - start
    _check_actions(result, everybody, raw)
    yield {"what": "all rows", "whole_call_s": time_s, **_counts(result), **_proved(result)}
    yield from _proofs(engine, everybody.head(PROOFS))
    yield {"what": "mixed", **_mixed(engine, everybody, options)}


def _proved(result: gpucf.Result) -> dict[str, bool]:
    proved = bool(np.isin(result.status, ["optimal", "infeasible", "already"]).all())
    if not proved:
        raise AssertionError("a row was left open, without any limit")
    return {"all_proved": proved}


def _check_actions(result: gpucf.Result, before: pd.DataFrame, raw: Raw) -> None:
    """What the file's third row says, on the returned frame."""
    after = result.counterfactuals
    for name, action in raw.actions.items():
        for column in raw.one_hot.get(name, [name]):
            if action == "FIXED" and not after[column].equals(before[column]):
                raise AssertionError(f"{column} is fixed, and has changed")
            if action == "INC" and (after[column] < before[column]).any():
                raise AssertionError(f"{column} may only rise, and has fallen")
    for members in raw.one_hot.values():
        if (after[members].sum(axis=1) != 1).any():
            raise AssertionError(f"{members[0]} ...: not exactly one is 1")


def _proofs(engine: gpucf.Engine, rows: pd.DataFrame) -> Rows:
    """Features freeze, those that help most rows alone first, until one is left: the rows that are then proved no."""
    names = list(engine.cells().names)
    helped = {name: int((engine.query(rows, only=[name]).status == "optimal").sum()) for name in names}
    names.sort(key=lambda name: helped[name])
    for n_free in sorted({1, 2, 3, len(names) // 2, len(names) - 1}):
        free = names[:n_free]
        no = rows[engine.query(rows, only=free).status == "infeasible"]
        if len(no):
            yield {"what": "proofs of no", "free": n_free, "of": len(names), **_timed(engine, no, {"only": free})}


def _mixed(engine: gpucf.Engine, frame: pd.DataFrame, options: dict[str, list[str]]) -> dict[str, Any]:
    """Ten thousand rows in an order and with an index of their own, half of them frozen; then under a limit."""
    rng = np.random.default_rng(0)
    n = min(MIXED, 10 * len(frame))
    rows = frame.iloc[rng.integers(len(frame), size=n)]
    rows = rows.set_index(pd.Index([f"person {i}" for i in rng.permutation(n)], name="who"))
    still = rng.random(n) < 0.5
    immutable = {**dict.fromkeys(engine.cells().names, still), **dict.fromkeys(options["immutable"], True)}
    given: dict[str, Any] = {"immutable": immutable, "increase_only": options["increase_only"]}
    result = engine.query(rows, 1, **given)
    _check_same_frame(result, rows)
    back = engine.query(rows[::-1], 1, **{**given, "immutable": {
        name: said[::-1] if isinstance(said, np.ndarray) else said for name, said in immutable.items()
    }})  # fmt: skip
    if not back.counterfactuals[::-1].equals(result.counterfactuals):
        raise AssertionError("the answers depend on the order of the rows")
    if not set(result.status[still]) <= {"already", "infeasible"}:
        raise AssertionError("a frozen row has moved")
    limited = engine.query(rows, 1, **given, node_limit=20)
    _check_same_frame(limited, rows)
    return {
        **_counts(result), "order_index_dtypes_kept": True,
        **{f"limited_{status}": n for status, n in _counts(limited).items() if status != "rows"},
    }  # fmt: skip


def _check_same_frame(result: gpucf.Result, rows: pd.DataFrame) -> None:
    after = result.counterfactuals
    same = after.index.equals(rows.index) and after.columns.equals(rows.columns) and after.dtypes.equals(rows.dtypes)
    stays = np.isin(result.status, ["already", "infeasible", "unknown"])
    if not same or not after[stays].equals(rows[stays]):
        raise AssertionError("the frame came back with another order, index or dtypes")
