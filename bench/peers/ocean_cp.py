"""OCEAN's constraint programming back end (oceanpy; vidalt/OCEAN).

Numeric columns are continuous, as gpucf has them; one-hot groups are one feature each. OCEAN's own L1 counts 1 per
column and 1/2 per one-hot column: what gpucf is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

import numpy as np
import ocean
import pandas as pd
from job import Job
from ocean.abc import Mapper
from ocean.feature import Feature


def version() -> str:
    try:
        return f"oceanpy {installed('oceanpy')}, OR-Tools {installed('ortools')}"
    except PackageNotFoundError:
        return f"OCEAN {getattr(ocean, '__version__', 'of unknown version')}, OR-Tools {installed('ortools')}"


def prepare(job: Job) -> Callable[[np.ndarray, int], dict[str, Any]]:
    order, columns, features = _features(job)
    if job.kind == "xgb":
        names = [""] * len(order)
        for column, (name, code) in zip(order, columns, strict=True):
            names[column] = f"{name} {code}".strip()
        job.model.get_booster().feature_names = names
    elif order != sorted(order):
        raise ValueError("the columns of a one-hot group do not lie side by side")
    index = pd.MultiIndex.from_tuples(columns) if job.groups else pd.Index([name for name, _ in columns])
    explainer = ocean.ConstraintProgrammingExplainer(job.model, mapper=Mapper(features, columns=index))
    limit = max(1, round(job.row_limit_s))

    def ask(row: np.ndarray, wanted: int) -> dict[str, Any]:
        query = row[order].astype(float)
        found = explainer.explain(query, y=wanted, norm=1, max_time=limit, num_workers=job.workers)
        status = {"OPTIMAL": "optimal", "FEASIBLE": "feasible"}.get(explainer.Status, explainer.Status.lower())
        if found is None:
            return {"status": status}
        x = np.empty(len(order))
        x[order] = np.asarray(found.x, dtype=float)
        return {"status": status, "cost": float(explainer.get_objective_value()), "x": x.tolist()}

    return ask


def _features(job: Job) -> tuple[list[int], list[tuple[str, str]], dict[str, Any]]:
    """Our columns in OCEAN's order, their two-level names, and the features. Its codes are sorted as text."""
    group_of = {j: g for g, group in enumerate(job.groups) for j in group}
    order: list[int] = []
    columns: list[tuple[str, str]] = []
    features: dict[str, Any] = {}
    for j in range(job.rows.shape[1]):
        if j not in group_of:
            order.append(j)
            columns.append((f"f{j}", ""))
            # OCEAN's own domain for scaled columns: half a range beyond either end, past every threshold.
            features[f"f{j}"] = Feature(Feature.Type.CONTINUOUS, levels=(-0.5, 1.5))
        elif (name := f"g{group_of[j]}") not in features:
            members = job.groups[group_of[j]]
            codes = [f"c{k:04}" for k in range(len(members))]
            order += members
            columns += [(name, code) for code in codes]
            features[name] = Feature(Feature.Type.ONE_HOT_ENCODED, codes=codes)
    return order, columns, features
