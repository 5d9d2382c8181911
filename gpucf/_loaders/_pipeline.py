"""scikit-learn pipelines: the ensemble at their end, written in the raw columns at their beginning.

Scaled numbers: each threshold goes back to the last raw float64 that goes left. Encoded columns become categorical
features over their raw levels: "level in set" for whatever the trees ask of the encoded columns. Missing values and
unknown levels go where what the transformers make of them goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, OptionError
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders._nesting import innermost
from gpucf._loaders._raw_probe import Probe
from gpucf._loaders._raw_trees import RawTrees
from gpucf._loaders._transformers import Signal, Trace, flat_steps, trace


def from_pipeline(obj: Any, iterations: int | str | None) -> Ensemble:
    """A fitted Pipeline with a supported model at its end as an `Ensemble` over its raw columns."""
    from gpucf import _loaders

    if iterations is not None:
        raise OptionError(
            f"iterations is {iterations!r}, but a Pipeline always predicts with what its last step uses; leave "
            "iterations out, or cut that model itself."
        )
    *steps, (name, final) = flat_steps(obj)
    if final is None or isinstance(final, str) or hasattr(final, "transform"):
        raise ModelError.unsupported("a Pipeline without a model at its end", "there is nothing to predict with")
    _refuse_dart(final)
    try:
        inner = _loaders.load_model(final)
    except ModelError as error:
        raise ModelError(f"pipeline step {name!r}: {error}") from error
    n_raw, names, has_names = common.columns(obj)
    found = Trace(names)
    signals = [Signal(source=j) for j in range(n_raw)]
    for step_name, step in steps:
        signals = trace(step, signals, step_name, found)
    if len(signals) != inner.n_features:
        raise ModelError.damaged(
            f"this Pipeline, whose step {name!r} takes {inner.n_features} columns", f"the others make {len(signals)}"
        )
    if found.is_sparse and _library(final) == "sklearn":  # its trees take missing values in dense tables only
        inner = replace(inner, allows_missing=np.zeros(inner.n_features, bool))
    _native_levels(inner, signals, found)
    _refuse_markers(found)
    probe = Probe(
        steps=[step for _, step in steps],
        names=names if has_names else None,
        n_raw=n_raw,
        found=found,
        inner_categories=inner.categories,
        # XGBoost takes what a sparse table leaves out for missing.
        zero_is_missing=found.is_sparse and _library(final) == "xgboost",
    )
    reading = RawTrees(inner, _library(final), signals, probe)
    return reading.ensemble(f"{common.kind(obj)} with {inner.model_type}")


def _library(final: Any) -> str:
    return type(innermost(final)).__module__.split(".")[0]


def _refuse_dart(final: Any) -> None:
    model = innermost(final)
    if _library(final) == "xgboost" and getattr(model, "booster", None) == "dart":
        raise ModelError.unsupported(
            "a Pipeline that ends in XGBoost's DART booster",
            "its wrapper then predicts in place, which can differ from Booster.predict in the last bit. Pass the "
            "model alone, with rows as it sees them",
        )


def _native_levels(inner: Ensemble, signals: list[Signal], found: Trace) -> None:
    """Columns that the trees themselves split by category, and that come to them as they are."""
    for signal, known in zip(signals, inner.categories, strict=True):
        if known is None or signal.is_level:
            continue
        if not signal.is_value:
            raise ModelError.unsupported(
                f"column {found.names[signal.source]!r}",
                "the model splits it by category, but the pipeline scales it before. Leave it out of the scaler",
            )
        found.add_levels(signal.source, known.tolist(), signal.fill)


def _refuse_markers(found: Trace) -> None:
    for source, marker in found.marker.items():
        if source not in found.levels:
            raise ModelError.unsupported(
                f"a SimpleImputer with missing_values={marker!r} on the numeric column {found.names[source]!r}",
                "a number in the middle of a scale would mean something else than its neighbours. Use NaN for missing "
                "values",
            )
