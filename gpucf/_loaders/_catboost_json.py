"""The parts of CatBoost's JSON export, read with suspicion: every index, type and length is checked.

Only the keys that decide a prediction are read. Categorical columns hold hashes of strings; the strings themselves are
in the file when it was saved with ``pool=``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpucf._errors import ModelError

_MAX_COLUMNS = 10_000_000
_SINGLE_ANSWER = "one model must answer one question"
_REFUSED_LOSSES = {
    "MultiLogloss": "it answers several questions at once; " + _SINGLE_ANSWER,
    "MultiCrossEntropy": "it answers several questions at once; " + _SINGLE_ANSWER,
    "MultiRMSE": "it answers several questions at once; " + _SINGLE_ANSWER,
    "MultiRMSEWithMissingValues": "it answers several questions at once; " + _SINGLE_ANSWER,
    "RMSEWithUncertainty": "it answers with a mean and a variance; " + _SINGLE_ANSWER,
    "MultiQuantile": "it answers with several quantiles; " + _SINGLE_ANSWER,
}


@dataclass(frozen=True)
class Columns:
    """The table that the model reads."""

    n_features: int
    names: tuple[str, ...]
    has_names: bool
    float_column: dict[int, int]  # CatBoost numbers numeric and categorical features apart
    cat_column: dict[int, int]
    missing_right: frozenset[int]
    categories: tuple[np.ndarray | None, ...]
    position_of_hash: dict[int, dict[int, int]] = field(default_factory=dict)  # column -> hash -> category index
    notes: tuple[str, ...] = ()


def read_json(path: Path, source: str) -> dict[str, Any]:
    """The file's top-level object."""
    try:
        with open(path, encoding="utf-8") as f:
            model = json.load(f)
    except OSError as error:
        raise ModelError(f"cannot read the model file {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError.damaged(source, f"it is not complete JSON ({error})") from error
    return typed(model, dict, "the file", source)


def typed(value: Any, wanted: type, what: str, source: str) -> Any:
    if not isinstance(value, wanted):
        raise ModelError.damaged(source, f"{what} is a {type(value).__name__}, not a {wanted.__name__}")
    return value


def integer(value: Any, what: str, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise ModelError.damaged(source, f"{what} is {str(value)[:40]!r}, not a whole number of 64 bits")
    return value


def number(value: Any, what: str, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError.damaged(source, f"{what} is {str(value)[:40]!r}, not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ModelError.damaged(source, f"{what} is too large for a number") from error


def get(owner: dict[str, Any], key: str, wanted: type, source: str, default: Any = None) -> Any:
    value = owner.get(key)
    return default if value is None else typed(value, wanted, key, source)


def _info(model: dict[str, Any], source: str) -> dict[str, Any]:
    info = model.get("features_info")
    if info is None:
        raise ModelError.damaged(source, 'it has no "features_info"; is it a CatBoost JSON export?')
    return dict(typed(info, dict, "features_info", source))


def refuse_features(model: dict[str, Any], source: str) -> None:
    """Refuse text and embedding columns, CTRs and losses with several answers, by name."""
    info = _info(model, source)
    for key, what in (("text_features", "text"), ("embedding_features", "embedding")):
        if info.get(key):
            raise ModelError.unsupported(
                f"{source} with {what} features", "they are turned into numbers outside the trees"
            )
    if info.get("ctrs") or model.get("ctr_data"):
        raise ModelError.unsupported(
            f"{source} with target statistics (CTR) of categorical columns",
            "a split then compares a number computed from a hash table of the training rows. Train with "
            "one_hot_max_size at least the number of categories, or encode the columns yourself",
        )
    loss = loss_name(model)
    if loss in _REFUSED_LOSSES:
        raise ModelError.unsupported(f"{source} with loss {loss}", _REFUSED_LOSSES[loss])


def loss_name(model: dict[str, Any]) -> str:
    """Name of the training loss, "" where the file does not say."""
    owner: Any = model
    for key in ("model_info", "params", "loss_function", "type"):
        owner = owner.get(key) if isinstance(owner, dict) else None
    return owner if isinstance(owner, str) else ""


def class_labels(model: dict[str, Any], source: str) -> np.ndarray | None:
    """Labels in CatBoost's order; None for a regression or ranking model."""
    params = get(get(model, "model_info", dict, source, {}), "class_params", dict, source)
    if params is None:
        return None
    names = get(params, "class_names", list, source, []) or get(params, "class_to_label", list, source, [])
    order = get(params, "class_to_label", list, source, [])
    if len(order) == len(names) and order != list(range(len(names))) and params.get("class_names"):
        raise ModelError.unsupported(source, f"its classes are numbered {order[:20]}, not in the order of their labels")
    if len(names) < 2:
        raise ModelError.unsupported(f"{source} with {len(names)} class", "there is no other class to move to")
    kinds = {
        "Integer": (int, np.int64),
        "Float": (float, np.float64),
        "String": (str, object),
        "Boolean": (bool, np.bool_),
    }
    kind = params.get("class_label_type")
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelError.damaged(source, f"class_label_type is {kind!r}")
    convert, dtype = kinds[kind]
    for name in names:
        accepted = (int, float) if convert is float else convert
        if not isinstance(name, accepted) or (convert in (int, float) and isinstance(name, bool)):
            raise ModelError.damaged(source, f"class label {str(name)[:40]!r} is not of type {kind}")
    try:
        labels: np.ndarray = np.asarray([convert(name) for name in names], dtype=dtype)
    except OverflowError as error:
        raise ModelError.damaged(source, "a class label is too large") from error
    if len(set(labels.tolist())) != len(labels):
        raise ModelError.damaged(source, "two classes have the same label")
    return labels


def probability_threshold(model: dict[str, Any], source: str) -> float | None:
    """The probability above which class 1 is answered, where the user has set one."""
    text = get(model, "model_info", dict, source, {}).get("binclass_probability_threshold")
    if text is None:
        return None
    try:
        threshold = float(text)
    except (TypeError, ValueError) as error:
        raise ModelError.damaged(source, f"binclass_probability_threshold is {str(text)[:40]!r}") from error
    if not 0.0 < threshold < 1.0:
        raise ModelError.unsupported(source, f"its probability threshold {threshold} leaves one class only")
    return threshold


def read_columns(model: dict[str, Any], source: str) -> Columns:
    """Which column of the table each feature of the model is, and the categories of categorical columns."""
    info = _info(model, source)
    floats = get(info, "float_features", list, source, [])
    cats = get(info, "categorical_features", list, source, [])
    float_column: dict[int, int] = {}
    cat_column: dict[int, int] = {}
    named: dict[int, str] = {}
    missing_right = set()
    for found, features in ((float_column, floats), (cat_column, cats)):
        for feature in features:
            typed(feature, dict, "a feature", source)
            index = integer(feature.get("feature_index"), "feature_index", source)
            column = integer(feature.get("flat_feature_index"), "flat_feature_index", source)
            if not 0 <= column < _MAX_COLUMNS:
                raise ModelError.damaged(source, f"flat_feature_index {column} is out of range")
            if index in found or column in named:
                raise ModelError.damaged(source, f"feature {index} or column {column} is there twice")
            found[index] = column
            named[column] = str(feature.get("feature_name") or feature.get("feature_id") or "")
            treatment = feature.get("nan_value_treatment", "AsIs")
            if treatment not in ("AsIs", "AsFalse", "AsTrue"):
                raise ModelError.damaged(source, f"nan_value_treatment is {str(treatment)[:40]!r}")
            if treatment == "AsTrue":
                missing_right.add(column)
    if not named:
        raise ModelError.damaged(source, "it has no features")
    n_features = max(named) + 1
    has_names = any(name not in ("", str(column)) for column, name in named.items())
    names = tuple(named.get(j) or (str(j) if has_names else f"f{j}") for j in range(n_features))
    if not has_names:
        names = tuple(f"f{j}" for j in range(n_features))
    categories, position, notes = _categories(info, cats, n_features, source)
    return Columns(
        n_features, names, has_names, float_column, cat_column, frozenset(missing_right), categories, position, notes
    )


def _categories(
    info: dict[str, Any], cats: list[Any], n_features: int, source: str
) -> tuple[tuple[np.ndarray | None, ...], dict[int, dict[int, int]], tuple[str, ...]]:
    """Category strings of each categorical column, and where each hash stands among them.

    The file lists the strings of all categorical columns together. A value that no split names acts like every other
    such value, so that offering a column the strings of another column as well changes no prediction.
    """
    categories: list[np.ndarray | None] = [None] * n_features
    position: dict[int, dict[int, int]] = {}
    if not cats:
        return tuple(categories), position, ()
    table = info.get("cat_features_hash")
    if not table:
        raise ModelError.unsupported(
            f"{source} with categorical columns",
            "the file holds only hashes of its categories. Save it with the training rows: "
            'model.save_model("m.json", format="json", pool=train_pool)',
        )
    text_of: dict[int, str] = {}
    for entry in typed(table, list, "cat_features_hash", source):
        typed(entry, dict, "an entry of cat_features_hash", source)
        text = typed(entry.get("value"), str, "a category", source)
        code = integer(entry.get("hash"), "a hash", source) & 0xFFFFFFFF
        if text_of.setdefault(code, text) != text:
            raise ModelError.unsupported(source, f"categories {text_of[code]!r} and {text!r} have the same hash")
    for feature in cats:
        column = feature["flat_feature_index"]
        split_on = [
            integer(v, "a category hash", source) & 0xFFFFFFFF for v in get(feature, "values", list, source, [])
        ]
        unknown = [code for code in split_on if code not in text_of]
        if unknown:
            raise ModelError.unsupported(
                f"{source}, whose column {column} splits on a category with hash {unknown[0]},",
                "the pool that it was saved with does not hold that category. Save it with all training rows",
            )
        own = dict.fromkeys(split_on)  # the column's own first, then the rest in the file's order
        codes = list(own) + [code for code in text_of if code not in own]
        categories[column] = np.asarray([text_of[code] for code in codes], dtype=object)
        position[column] = {code: i for i, code in enumerate(codes)}
    note = "CatBoost's JSON lists the categories of all columns together: declare which ones each column may take"
    return tuple(categories), position, (note,) if len(cats) > 1 else ()


def scale_and_bias(model: dict[str, Any], source: str, n_outputs: int) -> tuple[float, float]:
    """What the sum is multiplied with, and what is added then."""
    pair = get(model, "scale_and_bias", list, source, [1, [0.0]])
    if len(pair) != 2:
        raise ModelError.damaged(source, "scale_and_bias is not a pair")
    scale = number(pair[0], "the scale", source)
    biases = pair[1] if isinstance(pair[1], list) else [pair[1]]
    values = {number(b, "a bias", source) for b in biases} or {0.0}
    if not np.all(np.isfinite([scale, *values])) or scale <= 0.0:
        raise ModelError.unsupported(source, f"its scale {scale} is not positive, or a bias is not finite")
    if len(values) > 1:
        raise ModelError.unsupported(source, "it adds a different bias to each class; set equal biases, or fit without")
    return scale, values.pop()
