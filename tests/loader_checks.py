"""What every loader test demands: raw scores, classes and probabilities equal the library's own, bit for bit."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._links import classes_from_raw, probabilities_from_raw
from gpucf._loaders import load_model
from gpucf._predict import predict_raw

DEEP = os.environ.get("GPUCF_DEEP") == "1"
SEEDS = (0, 1, 2) if DEEP else (0,)
DEPTHS = (1, 3, 6)


def judge_of(model: Any, ensemble: Ensemble) -> Any:
    """The judge that the ensemble's own loader module makes for a model object."""
    return importlib.import_module(f"gpucf._loaders.{ensemble.library}").judge(model, ensemble)


def check_bits(
    model: Any,
    X: np.ndarray,
    *,
    ensemble: Ensemble | None = None,
    judge: Any = None,
    iterations: int | str | None = None,
    decode: Callable[[Ensemble, np.ndarray], Any] | None = None,
    max_rows: int = 20_000,
    base_rows: int = 3,
    seed: int = 0,
) -> int:
    """Compare an ensemble with its library on rows at, and one ulp around, every threshold; returns how many rows.

    Parameters
    ----------
    model : model object (or path, with `judge` given)
    X : float array of shape (n_rows, n_features)
        Training rows; native categorical columns hold category *indices* (see `Ensemble`).
    ensemble : Ensemble, optional
        Compared instead of ``load_model(model, iterations=iterations)``; e.g. read from the file of `model`.
    judge : Judge, optional
        Default: the judge of the loader module for `model`.
    decode : callable, optional
        Turns coded rows into what the judge takes; default `decoded_rows`.
    max_rows, base_rows, seed : int
        At most `max_rows` rows are compared (drawn at random); `base_rows` rows of X carry each threshold.
    """
    if ensemble is None:
        ensemble = load_model(model, iterations=iterations)
    if judge is None:
        judge = judge_of(model, ensemble)
    rng = np.random.default_rng(seed)
    rows = rows_around_thresholds(ensemble, X, rng, base_rows)
    if len(rows) > max_rows:
        rows = rows[np.sort(rng.choice(len(rows), max_rows, replace=False))]
    compare(ensemble, judge, rows, (decode or decoded_rows)(ensemble, rows))
    return len(rows)


def compare(ensemble: Ensemble, judge: Any, rows: np.ndarray, given: Any) -> None:
    """Demand equal bits for coded `rows`, which the judge takes as `given`."""
    raw = predict_raw(ensemble, rows)
    expected = np.asarray(judge.raw(given))
    assert expected.dtype == raw.dtype == ensemble.score_dtype, (expected.dtype, raw.dtype)
    assert_same_bits(raw, expected.reshape(raw.shape), "raw score", rows)
    if ensemble.decision != "none":
        classes = np.asarray(judge.class_index(given))
        assert classes.dtype == np.int64
        assert_same_bits(classes_from_raw(ensemble, raw), classes, "class", rows)
    if ensemble.probability != "none":
        probability = np.asarray(judge.probability(given))
        assert probability.dtype == np.float64
        assert_same_bits(probabilities_from_raw(ensemble, raw), probability, "probability", rows)


def assert_same_bits(got: np.ndarray, expected: np.ndarray, what: str, rows: np.ndarray) -> None:
    """Equality of values (0.0 and -0.0 are the same number; NaN is never equal)."""
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, the library gives {expected.shape}"
    wrong = np.flatnonzero(~np.all((got == expected).reshape(len(got), -1), axis=1))
    if len(wrong):
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {len(wrong)} of {len(got)} rows; first row {i}: got {got[i]!r}, the library says "
            f"{expected[i]!r}; the row is {rows[i].tolist()}"
        )


def rows_around_thresholds(ensemble: Ensemble, X: np.ndarray, rng: np.random.Generator, base_rows: int) -> np.ndarray:
    """Rows of X, and copies with one column on, under and over each threshold, each category, and missing."""
    X = np.asarray(X, dtype=np.float64)
    parts = [X]
    for j in range(ensemble.n_features):
        values = probe_values(ensemble, j)
        block = np.repeat(X[rng.integers(0, len(X), base_rows)], len(values), axis=0)
        block[:, j] = np.tile(values, base_rows)
        parts.append(block)
    allowed = np.flatnonzero(ensemble.allows_missing)
    if len(allowed):
        some = X[rng.integers(0, len(X), min(200, len(X)))].copy()
        holes = rng.random((len(some), len(allowed))) < 0.3
        some[:, allowed] = np.where(holes, np.nan, some[:, allowed])
        some[0, allowed] = np.nan
        parts.append(some)
    return np.concatenate(parts)


def probe_values(ensemble: Ensemble, j: int) -> np.ndarray:
    """Values of column `j` where the library could decide otherwise than we do."""
    missing = [np.nan] if ensemble.allows_missing[j] else []
    categories = ensemble.categories[j]
    if categories is not None:
        return np.concatenate([np.arange(len(categories)), missing])
    numeric = (ensemble.feature == j) & (ensemble.category_set < 0)
    threshold = np.unique(ensemble.threshold[numeric])
    threshold = threshold[np.isfinite(threshold)]
    narrow = threshold.astype(ensemble.compare_dtype)
    parts = [narrow]
    for toward in (-np.inf, np.inf):
        one = np.nextafter(narrow, narrow.dtype.type(toward))
        parts += [one, np.nextafter(one, one.dtype.type(toward))]
    values = np.concatenate([p.astype(np.float64) for p in parts]) if len(threshold) else np.zeros(0)
    # Values between two neighbours of a narrow dtype are rounded by the library: probe the middle and beside it.
    middles = [(narrow.astype(np.float64) + p.astype(np.float64)) / 2 for p in parts[1:]]
    values = np.concatenate([values, *middles])
    around = [values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)]
    values = np.unique(np.concatenate([*around, [0.0, 5e-324, 1e-40, -1e-40]]))
    with np.errstate(over="ignore"):
        in_range = np.isfinite(values.astype(ensemble.compare_dtype))
    return np.concatenate([values[in_range], missing])


def decoded_rows(ensemble: Ensemble, rows: np.ndarray) -> Any:
    """Coded rows as the user has them: an array, or a DataFrame with category columns where the model has some."""
    if all(c is None for c in ensemble.categories):
        return rows
    import pandas as pd

    columns: dict[str, Any] = {}
    for j, name in enumerate(ensemble.feature_names):
        categories = ensemble.categories[j]
        if categories is None:
            columns[name] = rows[:, j]
        else:
            codes = np.where(np.isnan(rows[:, j]), -1, rows[:, j]).astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, categories=pd.Index(categories))
    return pd.DataFrame(columns)
