"""Which raw column feeds which column of the trees, through scikit-learn's transformers.

Only transformers that treat each column by itself are read, so that every transformed column comes from one raw
column. What it holds for a level of a raw column, or for a missing value, is asked of the fitted transformers
themselves (`gpucf._loaders._raw_probe`); for numbers the scalers' arithmetic is copied here, one rounding after
another, and the copy is compared with them where it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpucf._errors import ModelError
from gpucf._table_read import is_missing

READ = (
    "ColumnTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler, RobustScaler, SimpleImputer, "
    '"passthrough" and "drop"'
)


@dataclass(frozen=True)
class Signal:
    """One column on its way from the raw table to the trees.

    Attributes
    ----------
    source : int
        Raw column that it comes from.
    is_level : bool
        It has gone through an encoder: a number for each level.
    is_value : bool
        It still is the raw value itself, or what an imputer puts in for a missing one.
    ops : tuple of (name, number, number)
        Arithmetic on numbers so far.
    fill : tuple
        What imputers put in for missing values as a constant: a word for "missing", not a level to move to.
    """

    source: int
    is_level: bool = False
    is_value: bool = True
    ops: tuple[tuple[str, float, float], ...] = ()
    fill: tuple[Any, ...] = ()

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """What raw numbers become (float64); monotone, as every step is."""
        out = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            for name, a, b in self.ops:
                out = _OPERATIONS[name](out, a, b)
        return out


_OPERATIONS: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "subtract": lambda x, a, b: x - a,
    "divide": lambda x, a, b: x / a,
    "multiply": lambda x, a, b: x * a,
    "add": lambda x, a, b: x + a,
    "clip": lambda x, a, b: np.clip(x, a, b),
    "constant": lambda x, a, b: np.full(len(x), a),
}


@dataclass
class Trace:
    """What is found out about the raw columns on the way."""

    names: tuple[str, ...]
    levels: dict[int, list[Any]] = field(default_factory=dict)
    marker: dict[int, Any] = field(default_factory=dict)  # what stands for a missing value where it is not NaN
    fills: dict[int, list[Any]] = field(default_factory=dict)
    no_float32: set[int] = field(default_factory=set)
    is_sparse: bool = False

    def add_levels(self, source: int, values: list[Any], fill: tuple[Any, ...] = ()) -> None:
        """Levels that something behind can read; of a column read twice, those that both know."""
        known = [v for v in values if not is_missing(v)]
        if source in self.levels:
            known = [v for v in self.levels[source] if v in known]
        self.levels[source] = known
        self.fills.setdefault(source, []).extend(fill)


def trace(transformer: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    """The columns that a fitted transformer makes of `inputs`; `where` names it in messages."""
    if transformer is None or isinstance(transformer, str):
        if transformer not in (None, "passthrough"):
            raise ModelError.unsupported(f"pipeline step {where!r} ({transformer!r})", f"gpucf reads {READ}")
        return inputs
    kind = type(transformer).__qualname__
    reader = _READERS.get(kind) if type(transformer).__module__.split(".")[0] == "sklearn" else None
    if reader is None:
        raise ModelError.unsupported(
            f"pipeline step {where!r} ({type(transformer).__module__}.{kind})",
            f"in front of the model gpucf reads {READ}; transform that column before the pipeline, or leave it out",
        )
    expected = getattr(transformer, "n_features_in_", len(inputs))
    if expected != len(inputs):
        raise ModelError.damaged(f"pipeline step {where!r} ({kind})", f"it takes {expected} columns, not {len(inputs)}")
    return reader(transformer, inputs, where, found)


def flat_steps(pipeline: Any, where: str = "") -> list[tuple[str, Any]]:
    """Steps of a pipeline, those of pipelines within it in their place."""
    steps: list[tuple[str, Any]] = []
    for name, step in pipeline.steps:
        path = f"{where}{name}"
        if type(step).__qualname__ == "Pipeline" and type(step).__module__.startswith("sklearn."):
            steps += flat_steps(step, f"{path}__")
        else:
            steps.append((path, step))
    return steps


def _pipeline(pipeline: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    for name, step in flat_steps(pipeline, f"{where}__"):
        inputs = trace(step, inputs, name, found)
    return inputs


def _column_transformer(ct: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    _need(ct, "transformers_", where)
    before = found.is_sparse
    outputs: dict[int, Signal] = {}
    for name, part, _ in ct.transformers_:
        at = ct.output_indices_[name]
        columns = ct._transformer_to_input_indices[name]
        if (isinstance(part, str) and part == "drop") or not len(columns):
            continue
        found.is_sparse = before
        made = trace(part, [inputs[i] for i in columns], f"{where}__{name}", found)
        if len(made) != at.stop - at.start:
            raise ModelError.damaged(
                f"pipeline step '{where}__{name}'",
                f"it makes {at.stop - at.start} columns, where {len(made)} were read",
            )
        outputs.update(zip(range(at.start, at.stop), made, strict=True))
    found.is_sparse = bool(ct.sparse_output_)
    return [outputs[i] for i in range(len(outputs))]


def _function(transformer: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    if transformer.func is not None:  # scikit-learn writes "passthrough" as one without a function
        raise ModelError.unsupported(
            f"pipeline step {where!r} (FunctionTransformer)",
            f"its function may do anything; gpucf reads {READ}. Apply it before the pipeline",
        )
    return inputs


def _encoder(encoder: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    _need(encoder, "categories_", where)
    one_hot = type(encoder).__qualname__ == "OneHotEncoder"
    out: list[Signal] = []
    for i, (signal, values) in enumerate(zip(inputs, encoder.categories_, strict=True)):
        if not signal.is_level:
            if not signal.is_value:
                raise ModelError.unsupported(
                    f"pipeline step {where!r} ({type(encoder).__qualname__}) behind a scaler of column "
                    f"{found.names[signal.source]!r}",
                    "its categories are scaled numbers, not levels of the raw column. Encode the raw column",
                )
            found.add_levels(signal.source, np.asarray(values).tolist(), signal.fill)
        n = int(encoder._n_features_outs[i]) if one_hot else 1
        out += [replace(signal, is_level=True, is_value=False, ops=())] * n
    found.is_sparse = bool(one_hot and encoder.sparse_output)
    return out


def _imputer(imputer: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
    _need(imputer, "statistics_", where)
    statistics = list(np.asarray(imputer.statistics_, dtype=object).tolist())
    marker = imputer.missing_values
    out = []
    for signal, value in zip(inputs, statistics, strict=True):
        if not imputer.keep_empty_features and is_missing(value):
            continue  # scikit-learn drops a column without any value
        if not is_missing(marker) and not signal.is_level:
            found.marker[signal.source] = marker
        fill = (*signal.fill, value) if imputer.strategy == "constant" and not signal.is_level else signal.fill
        found.no_float32.add(signal.source)
        out.append(replace(signal, fill=fill))
    if imputer.add_indicator:
        for i in imputer.indicator_.features_.tolist():
            out.append(replace(inputs[i], is_value=False, ops=(("constant", 0.0, 0.0),), fill=()))
    return out


def _scaler(steps: Callable[[Any, int, bool], list[tuple[str, Any, Any]]], fitted: str) -> Callable[..., list[Signal]]:
    def read(scaler: Any, inputs: list[Signal], where: str, found: Trace) -> list[Signal]:
        _need(scaler, fitted, where)
        out = []
        for i, signal in enumerate(inputs):
            found.no_float32.add(signal.source)
            ops = tuple((name, float(a), float(b)) for name, a, b in steps(scaler, i, found.is_sparse))
            for name, a, _ in ops:
                if not np.isfinite(a) or (name in ("divide", "multiply") and a <= 0.0):
                    raise ModelError.damaged(
                        f"pipeline step {where!r} ({type(scaler).__qualname__})", f"it scales column {i} by {a!r}"
                    )
            out.append(signal if signal.is_level else replace(signal, is_value=False, ops=(*signal.ops, *ops)))
        return out

    return read


def _standard(scaler: Any, i: int, is_sparse: bool) -> list[tuple[str, Any, Any]]:
    ops = [("subtract", scaler.mean_[i], 0.0)] if scaler.with_mean else []
    return ops + (_divided(scaler.scale_[i], is_sparse) if scaler.with_std else [])


def _min_max(scaler: Any, i: int, is_sparse: bool) -> list[tuple[str, Any, Any]]:
    ops = [("multiply", scaler.scale_[i], 0.0), ("add", scaler.min_[i], 0.0)]
    return [*ops, ("clip", *scaler.feature_range)] if scaler.clip else ops


def _robust(scaler: Any, i: int, is_sparse: bool) -> list[tuple[str, Any, Any]]:
    ops = [("subtract", scaler.center_[i], 0.0)] if scaler.with_centering else []
    return ops + (_divided(scaler.scale_[i], is_sparse) if scaler.with_scaling else [])


def _divided(scale: Any, is_sparse: bool) -> list[tuple[str, Any, Any]]:
    # Sparse columns are multiplied by the reciprocal, which rounds twice.
    return [("multiply", 1.0 / np.float64(scale), 0.0)] if is_sparse else [("divide", scale, 0.0)]


def _need(transformer: Any, attribute: str, where: str) -> None:
    if not hasattr(transformer, attribute):
        raise ModelError(
            f"pipeline step {where!r} ({type(transformer).__qualname__}) has not been fitted: it has no {attribute}. "
            "Call fit first."
        )


_READERS: dict[str, Callable[[Any, list[Signal], str, Trace], list[Signal]]] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FunctionTransformer": _function,
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "SimpleImputer": _imputer,
    "StandardScaler": _scaler(_standard, "scale_"),
    "MinMaxScaler": _scaler(_min_max, "scale_"),
    "RobustScaler": _scaler(_robust, "scale_"),
}
