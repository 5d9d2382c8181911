"""A plain view of a binary model for our own CP-SAT and MILP models, read without gpucf.

Every numeric column has its cuts: the float32 numbers after which some split goes right. A leaf is a list of literals
(key, side): ``(("cut", j, k), True)`` says that column j lies above its cut k, ``(("hot", j), True)`` that the one-hot
column j is 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from job import Job

Key = tuple[Any, ...]
# XGBoost calls a row positive when its rounded probability exceeds 0.5: from this margin on.
XGB_LEAST = 9e-8


@dataclass(frozen=True)
class Trees:
    cuts: list[np.ndarray]  # per column, ascending, as float64
    groups: list[list[int]]
    leaves: list[list[tuple[float, list[tuple[Key, bool]]]]]  # per tree: score and literals
    splits: list[list[tuple[Key, list[int], list[int]]]]  # per tree: literal, leaves on its False and True side
    base: float  # added to the leaves' scores
    least: float  # score from which a row has class 1


def read_trees(job: Job) -> Trees:
    raw, base = _xgb(job.model) if job.kind == "xgb" else _forest(job.model)
    hot = {j for group in job.groups for j in group}
    n = job.rows.shape[1]
    cuts: list[set[float]] = [set() for _ in range(n)]
    for tree in raw:
        _collect(tree, hot, cuts)
    sorted_cuts = [np.array(sorted(c)) for c in cuts]
    leaves, splits = [], []
    for tree in raw:
        its_leaves: list[Any] = []
        its_splits: list[Any] = []
        _walk(tree, hot, sorted_cuts, [], its_leaves, its_splits)
        leaves.append(its_leaves)
        splits.append(its_splits)
    return Trees(sorted_cuts, job.groups, leaves, splits, base, XGB_LEAST if job.kind == "xgb" else 0.0)


def _xgb(model: Any) -> tuple[list[Any], float]:
    """Trees as (column, last value that goes left, left, right) or a leaf's score; the margin before any tree."""
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    base = float(np.ravel(json.loads(learner["learner_model_param"]["base_score"]))[0])

    def node(t: dict[str, Any], i: int) -> Any:
        value = np.float32(t["split_conditions"][i])
        if t["left_children"][i] < 0:
            return float(value)
        left, right = node(t, t["left_children"][i]), node(t, t["right_children"][i])
        return t["split_indices"][i], float(np.nextafter(value, np.float32(-np.inf))), left, right

    return [node(t, 0) for t in learner["gradient_booster"]["model"]["trees"]], float(np.log(base / (1 - base)))


def _forest(model: Any) -> tuple[list[Any], float]:
    """A leaf's score is the probability of class 1 less that of class 0."""

    def node(t: Any, i: int) -> Any:
        if t.children_left[i] < 0:
            share = t.value[i, 0] / t.value[i, 0].sum()
            return float(share[1] - share[0])
        last = np.float32(t.threshold[i])
        if float(last) > t.threshold[i]:
            last = np.nextafter(last, np.float32(-np.inf))
        return int(t.feature[i]), float(last), node(t, t.children_left[i]), node(t, t.children_right[i])

    return [node(e.tree_, 0) for e in model.estimators_], 0.0


def _collect(node: Any, hot: set[int], cuts: list[set[float]]) -> None:
    if isinstance(node, float):
        return
    j, last, left, right = node
    if j not in hot:
        cuts[j].add(last)
    _collect(left, hot, cuts)
    _collect(right, hot, cuts)


def _walk(node: Any, hot: set[int], cuts: list[np.ndarray], path: list[Any], leaves: list[Any], splits: list[Any]):
    """Number the leaves from left to right; return which lie below this node."""
    if isinstance(node, float):
        leaves.append((node, list(path)))
        return [len(leaves) - 1]
    j, last, left, right = node
    key: Key = ("hot", j) if j in hot else ("cut", j, int(np.searchsorted(cuts[j], last)))
    below = _walk(left, hot, cuts, [*path, (key, False)], leaves, splits)
    above = _walk(right, hot, cuts, [*path, (key, True)], leaves, splits)
    splits.append((key, below, above))
    return below + above


def prices(cuts: np.ndarray, x: float) -> np.ndarray:
    """Least move of `x` into each cell between the cuts: L1, one unit of a column costs 1."""
    first = np.r_[-np.inf, np.nextafter(cuts.astype(np.float32), np.float32(np.inf)).astype(float)]
    last = np.r_[cuts, np.inf]
    return np.maximum(np.maximum(first - x, x - last), 0.0)


def point(trees: Trees, row: np.ndarray, cell: dict[int, int], chosen: set[int]) -> tuple[list[float], float]:
    """The nearest point of the chosen cells and one-hot columns, and its cost (a category switch costs 1)."""
    out, cost = row.astype(float), 0.0
    for j, k in cell.items():
        cuts, x = trees.cuts[j], out[j]
        cost += float(prices(cuts, x)[k])
        if k < len(cuts) and x > cuts[k]:
            out[j] = cuts[k]
        elif k > 0 and x <= cuts[k - 1]:
            out[j] = np.nextafter(np.float32(cuts[k - 1]), np.float32(np.inf))
    for group in trees.groups:
        for j in group:
            cost += 0.5 * abs(float(j in chosen) - out[j])
            out[j] = float(j in chosen)
    return out.tolist(), cost
