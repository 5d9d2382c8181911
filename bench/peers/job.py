"""What a peer is asked: a model as its own library wrote it, rows, the classes wanted, one-hot groups, and limits."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    kind: str  # "xgb" or "rf"
    model: Any  # XGBClassifier or RandomForestClassifier
    rows: np.ndarray  # float32
    wanted: np.ndarray  # class of each answer
    groups: list[list[int]]  # columns of which exactly one is 1
    row_limit_s: float
    budget_s: float  # no row is begun after it, except the first
    workers: int


def write_job(folder: Path, job: Job) -> None:
    folder.mkdir(parents=True)
    if job.kind == "xgb":
        job.model.save_model(folder / "model.json")
    else:
        (folder / "model.pickle").write_bytes(pickle.dumps(job.model))
    np.save(folder / "rows.npy", job.rows)
    np.save(folder / "wanted.npy", job.wanted)
    rest = {name: getattr(job, name) for name in ("kind", "groups", "row_limit_s", "budget_s", "workers")}
    (folder / "job.json").write_text(json.dumps(rest))


def read_job(folder: Path) -> Job:
    rest = json.loads((folder / "job.json").read_text())
    if rest["kind"] == "xgb":
        import xgboost

        model = xgboost.XGBClassifier()
        model.load_model(folder / "model.json")
    else:
        model = pickle.loads((folder / "model.pickle").read_bytes())  # written by this benchmark a moment ago
    return Job(model=model, rows=np.load(folder / "rows.npy"), wanted=np.load(folder / "wanted.npy"), **rest)
