"""XGBoost: Booster and scikit-learn wrapper objects, and JSON and UBJSON files (read without XGBoost)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, TableError
from gpucf._judge import Judge
from gpucf._loaders._ubjson import read_ubjson
from gpucf._loaders._xgboost_model import Document, check_document, to_ensemble

_UBJSON_HEAD = b"{L\0\0\0\0\0\0\0\x07learner"
_OLD_BINARY_HEADS = (b"binf", b"bs64")


def claims(obj: Any) -> bool:
    """Whether the object is a Booster or a wrapper of XGBoost, or derives from one (without importing XGBoost)."""
    return any(
        t.__module__.split(".")[0] == "xgboost" and t.__qualname__ in ("Booster", "XGBModel") for t in type(obj).__mro__
    )


def from_object(obj: Any, iterations: int | str | None = None) -> Ensemble:
    """A trained model as an `Ensemble`; wrappers follow ``best_iteration`` as their ``predict`` does, a Booster not."""
    kind = type(obj).__qualname__
    booster = _booster(obj)
    wrapper = booster is not obj
    if wrapper:
        missing = obj.missing
        if not (isinstance(missing, float | np.floating) and math.isnan(missing)):
            raise ModelError.unsupported(
                f"this {kind} with missing={missing!r}",
                "only NaN can stand for a missing value. Train with missing=nan",
            )
    return to_ensemble(_document_of(booster, f"this {kind}"), kind, iterations, wrapper, _is_classifier(obj))


def claims_file(head: bytes, path: Path) -> bool:
    """Whether the first bytes are those of an XGBoost file: JSON, UBJSON, or the old binary format (refused)."""
    if head.startswith((_UBJSON_HEAD, *_OLD_BINARY_HEADS)):
        return True
    return head.lstrip().startswith(b"{") and (b'"learner"' in head or b"learner" in head[:64])


def is_pickle(head: bytes, path: Path) -> bool:
    """Never: pickles are opened by the scikit-learn module."""
    return False


def from_file(path: Path, iterations: int | str | None = None) -> Ensemble:
    """A JSON or UBJSON file as an `Ensemble`, up to the file's ``best_iteration`` where it has one."""
    data = Path(path).read_bytes()
    if data.startswith(_OLD_BINARY_HEADS):
        raise ModelError.unsupported(
            f"{path} (XGBoost's old binary format)", 'load it with XGBoost up to 3.0 and save it as "model.ubj"'
        )
    document = check_document(_parse(data, str(path)), str(path))
    return to_ensemble(document, "Booster", iterations, follow_best=True, classifier=_saved_by_classifier(document))


def open_native(path: Path) -> Any | None:
    """The file as an `xgboost.Booster`, or None where XGBoost is not installed."""
    try:
        import xgboost
    except ImportError:
        return None
    try:
        return xgboost.Booster(model_file=str(path))
    except xgboost.core.XGBoostError as error:
        raise ModelError(f"XGBoost cannot open {path}: {str(error).splitlines()[0]}") from error


def judge(obj: Any, ensemble: Ensemble) -> Judge:
    """XGBoost's own predict, over the rounds that `ensemble` was read from.

    Raw scores and probabilities are those of ``Booster.predict`` with a DMatrix, which defines XGBoost here: its other
    path (inplace_predict) can differ in the last bit with DART. Classes are those of the wrapper's ``predict``, else
    the decision of `ensemble` on the library's numbers.
    """
    import xgboost

    booster = _booster(obj)
    document = _document_of(booster, "the model")
    rounds = document.round_start.index(ensemble.n_trees)
    use = {"iteration_range": (0, rounds), "validate_features": False}

    def predict(rows: Any, margin: bool) -> np.ndarray:
        data = xgboost.DMatrix(
            _library_rows(ensemble, document, rows),
            feature_types=None if _is_frame(rows) and document.has_stored_categories else booster.feature_types,
            enable_categorical=True,
        )
        return np.asarray(booster.predict(data, output_margin=margin, **use))

    def raw(rows: Any) -> np.ndarray:
        return predict(rows, True).reshape(len(rows), ensemble.n_outputs)

    def probability(rows: Any) -> np.ndarray:
        p = predict(rows, False)
        if ensemble.n_outputs == 1:
            p = np.stack([np.float32(1) - p, p], axis=1)
        return p.astype(np.float64)

    def class_index(rows: Any) -> np.ndarray:
        # With two softmax outputs XGBClassifier.predict takes them for two labels of one row.
        if _is_classifier(obj) and document.weight_drop is None and ensemble.n_outputs != 2:
            return np.asarray(obj.predict(_library_rows(ensemble, document, rows), **use)).astype(np.int64)
        if ensemble.decision == "above_0" and document.objective == "binary:logitraw":
            return (predict(rows, True) > 0).astype(np.int64)
        if ensemble.decision == "above":
            return (predict(rows, True) > np.float32(ensemble.link_a)).astype(np.int64)
        p = predict(rows, False)
        if ensemble.decision == "xgb_softmax":
            return np.argmax(p, axis=1).astype(np.int64)
        # multi:softmax and binary:hinge put out the class itself.
        return (p > 0.5 if ensemble.decision == "xgb_logistic" else p).astype(np.int64)

    return Judge(f"xgboost {xgboost.__version__}", class_index, probability, raw)


def _booster(obj: Any) -> Any:
    if not hasattr(obj, "get_booster"):
        return obj
    if not obj.__sklearn_is_fitted__():
        raise ModelError(f"this {type(obj).__qualname__} has not been fitted. Call fit first.")
    return obj.get_booster()


def _is_classifier(obj: Any) -> bool:
    return any(t.__module__.split(".")[0] == "xgboost" and t.__qualname__ == "XGBClassifier" for t in type(obj).__mro__)


def _saved_by_classifier(document: Document) -> bool:
    attributes = document.learner.get("attributes")
    note = attributes.get("scikit_learn") if isinstance(attributes, dict) else None
    return isinstance(note, str) and '"classifier"' in note


def _document_of(booster: Any, source: str) -> Document:
    return check_document(read_ubjson(bytes(booster.save_raw("ubj")), source), source)


def _parse(data: bytes, source: str) -> Any:
    if data.startswith(_UBJSON_HEAD):
        return read_ubjson(data, source)
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError.damaged(source, "its values are nested too deep") from None
    except ValueError as error:
        raise ModelError.damaged(source, f"it is not JSON ({error})") from None


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def _library_rows(ensemble: Ensemble, document: Document, rows: Any) -> Any:
    """Rows as the library takes them: as they are, or with category values turned into codes."""
    if _is_frame(rows) and document.has_stored_categories:
        return rows
    if all(c is None for c in ensemble.categories):
        given = np.asarray(rows)
        return given.astype(np.float64) if given.dtype.kind == "O" else given
    columns = [rows.iloc[:, j] if _is_frame(rows) else np.asarray(rows)[:, j] for j in range(ensemble.n_features)]
    coded = np.empty((len(rows), ensemble.n_features), np.float64)
    for j, column in enumerate(columns):
        known = ensemble.categories[j]
        coded[:, j] = column if known is None else _codes(column, known, ensemble.feature_names[j])
    return coded


def _codes(column: Any, known: np.ndarray, name: str) -> np.ndarray:
    index = {value: i for i, value in enumerate(known.tolist())}
    codes = np.empty(len(column), np.float64)
    for i, value in enumerate(np.asarray(column, dtype=object)):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            codes[i] = np.nan
        elif value in index:
            codes[i] = index[value]
        else:
            raise TableError(f"column {name!r} has the category {value!r}, which the model does not know.")
    return codes
