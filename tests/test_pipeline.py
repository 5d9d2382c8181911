"""Pipelines: read in raw columns with the library's bits, and answered there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from loader_checks import compare, probe_values, rows_around_thresholds
from random_pipelines import FINALS, random_pipeline
from sizes import count

from gpucf._ensemble import Ensemble
from gpucf._loaders import load_model, open_judge
from gpucf._table import read_table


def raw_frame(ensemble: Ensemble, rows: np.ndarray) -> pd.DataFrame:
    """Coded rows as a frame of raw values."""
    columns: dict[str, Any] = {}
    for j, name in enumerate(ensemble.feature_names):
        known = ensemble.categories[j]
        if known is None:
            columns[name] = rows[:, j]
            continue
        cells = np.append(known.astype(object), np.nan)[np.where(np.isnan(rows[:, j]), -1, rows[:, j]).astype(int)]
        is_text = any(isinstance(v, str) for v in known)
        columns[name] = cells if is_text or np.isnan(rows[:, j]).any() else cells.astype(known.dtype)
    return pd.DataFrame(columns)


def check_reading(pipeline: Any, frame: Any, rng: np.random.Generator) -> Ensemble:
    """Scores, classes and probabilities equal the pipeline's on rows around all thresholds, levels and holes."""
    ensemble = load_model(pipeline)
    X = read_table(frame, ensemble).values
    rows = rows_around_thresholds(ensemble, X, rng, 2)
    mixed = np.column_stack([rng.choice(probe_values(ensemble, j), 400) for j in range(ensemble.n_features)])
    rows = np.concatenate([rows, mixed])
    compare(ensemble, open_judge(pipeline, ensemble), rows, raw_frame(ensemble, rows))
    return ensemble


@pytest.mark.parametrize("kind", FINALS)
def test_random_pipelines_are_read_bit_for_bit(kind: str) -> None:
    for seed in range(count(60)):
        rng = np.random.default_rng([seed, FINALS.index(kind)])
        pipeline, frame = random_pipeline(kind, rng)
        check_reading(pipeline, frame, rng)
