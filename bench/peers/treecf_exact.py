"""treecf's exact back end (wlazlod/treecf), one thread, by its documented interface."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version as installed
from typing import Any

import numpy as np
from job import Job
from treecf import Counterfactual, Explainer, OneHot, Target
from trees import XGB_LEAST


def version() -> str:
    return f"treecf {installed('treecf')}"


def prepare(job: Job) -> Callable[[np.ndarray, int], dict[str, Any]]:
    plain = Explainer(job.model, normalizers=np.ones(job.rows.shape[1]))
    names = list(plain.ir.feature_names)
    groups = [tuple(names[j] for j in group) for group in job.groups]
    half = {name: 0.5 for group in groups for name in group}
    # Its columns are continuous unless declared otherwise, which keeps clear of its fault with integer columns.
    explainer = Explainer(
        job.model, normalizers=np.ones(len(names)), constraints=[OneHot(group) for group in groups], weights=half
    )
    # Its own link is not the library's: ask for the raw scores that the library's predict turns into each class.
    least = XGB_LEAST if job.kind == "xgb" else float(np.nextafter(0.5, 1.0))
    targets = [Target.raw(range=(-1e9, float(np.nextafter(least, -1.0)))), Target.raw(range=(least, 1e9))]

    def ask(row: np.ndarray, wanted: int) -> dict[str, Any]:
        found = explainer.explain(
            row.astype(float), target=targets[wanted], backend="exact", seed=0, time_budget_s=job.row_limit_s,
            node_budget=2**62,
        )  # fmt: skip
        if not isinstance(found, Counterfactual):
            return {"status": "infeasible" if getattr(found, "proof", "") == "certified" else "unknown"}
        status = "optimal" if found.proof == "optimal" else "feasible"
        return {"status": status, "cost": float(found.distance), "x": np.asarray(found.x_cf, dtype=float).tolist()}

    return ask
