"""CatBoost: model objects and the JSON export (``model.save_model("m.json", format="json")``).

CatBoost casts a row to float32 and sends ``x > border`` to the right. Its evaluator adds float64 leaf values tree by
tree from zero, for single rows and for blocks of rows alike, then multiplies by the scale and adds the bias.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpucf._ensemble import VECTOR_LEAF, Ensemble
from gpucf._errors import ModelError, TableError
from gpucf._judge import Judge
from gpucf._loaders import _catboost_json as parts
from gpucf._loaders import _catboost_trees as trees_of
from gpucf._table import column_at, column_names, kind_of
from gpucf._table_read import is_missing

_BINARY_HEAD = b"CBM1"
_JSON_KEYS = (b'"features_info"', b'"float_features"', b'"ctr_data"', b'"cat_features_hash"', b'"oblivious_trees"')


def claims(obj: Any) -> bool:
    """Whether the object is a CatBoost model or derives from one (found out without importing CatBoost)."""
    return any(t.__module__.split(".")[0] == "catboost" and t.__qualname__ == "CatBoost" for t in type(obj).__mro__)


def from_object(obj: Any, iterations: int | str | None = None) -> Ensemble:
    """A trained CatBoost model as an `Ensemble`, by way of its JSON export."""
    if not obj.is_fitted():
        raise ModelError(f"this {type(obj).__qualname__} has not been fitted. Call fit first.")
    if obj.get_cat_feature_indices() or obj.get_text_feature_indices() or obj.get_embedding_feature_indices():
        return _read_without_pool(obj, iterations)
    return _ensemble(_export(obj), f"this {type(obj).__qualname__}", type(obj).__qualname__, iterations, obj)


def _read_without_pool(obj: Any, iterations: int | str | None) -> Ensemble:
    kind = type(obj).__qualname__
    model = _export(obj)
    parts.refuse_features(model, f"this {kind}")
    raise ModelError.unsupported(
        f"this {kind} with categorical columns",
        "the object knows its categories only as hashes. Build the engine with a background table that holds them all; "
        'or save the model with the training rows, model.save_model("m.json", format="json", pool=train_pool), and '
        "load that file",
    )


def from_object_with(obj: Any, iterations: int | str | None, background: Any) -> Ensemble:
    """As `from_object`; a model with categorical columns learns their categories from the background table."""
    if not obj.is_fitted() or not obj.get_cat_feature_indices():
        return from_object(obj, iterations)
    kind = type(obj).__qualname__
    columns = _background_columns(obj, background)
    seen = {
        j: dict.fromkeys(v for v in columns[j].tolist() if not is_missing(v)) for j in obj.get_cat_feature_indices()
    }
    # Only the categories matter; what stands in the other columns of the pool is not read.
    rows = {str(j): np.array([*map(str, seen.get(j, ("0",)))], dtype=object) for j in range(len(columns))}
    parts.refuse_features(_export(obj), f"this {kind}")
    read = _ensemble(_export(obj, rows, sorted(seen)), f"this {kind}", kind, iterations, obj)
    categories = list(read.categories)
    for j, values in seen.items():
        value_of = {str(v): v for v in values}
        known = categories[j]
        if known is None:
            continue
        # Categories that splits name come first; the others act alike, so that only those of this column need stay.
        named = _split_categories(read, j)
        kept = [value_of.get(text, text) for i, text in enumerate(known.tolist()) if i < named or text in value_of]
        array = np.empty(len(kept), object)
        array[:] = kept
        categories[j] = array
    return replace(read, categories=tuple(categories), notes=())


def _split_categories(read: Ensemble, column: int) -> int:
    """How many categories of a column, from the first, the splits tell apart."""
    used = np.unique(read.category_set[(read.feature == column) & (read.category_set >= 0)])
    named = 0
    n = len(read.categories[column])  # type: ignore[arg-type]
    for s in used.tolist():
        words = read.category_words[read.category_start[s] : read.category_start[s + 1]]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:n]
        bits = np.concatenate([bits, np.zeros(n - len(bits), bits.dtype)])
        differs = np.flatnonzero(bits != bits[-1])
        named = max(named, int(differs[-1]) + 1 if len(differs) else 0)
    return named


def _background_columns(obj: Any, background: Any) -> list[np.ndarray]:
    """Columns of the background in the model's order, as objects."""
    kind = kind_of(background, "background")
    names = [str(name) for name in column_names(kind, background)] if kind != "numpy" else []
    own = [str(name) for name in obj.feature_names_]
    places = [names.index(name) for name in own] if set(own) <= set(names) else list(range(len(own)))
    width = background.shape[1] if kind == "numpy" else len(names)
    if width < len(own):
        raise TableError(f"background has {width} columns, but the model was trained on {len(own)}.")
    columns = [column_at(kind, background, place) for place in places]
    if kind == "pyarrow":
        columns = [column.to_pylist() for column in columns]
    out = []
    for column in columns:
        cells = np.empty(len(column), object)
        cells[:] = column.to_list() if hasattr(column, "to_list") else list(column)
        out.append(cells)
    return out


def _export(obj: Any, rows: dict[str, np.ndarray] | None = None, cats: list[int] | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        obj.save_model(str(path), format="json", pool=None if rows is None else _pool(rows, cats))
        return parts.read_json(path, "the JSON export of the model")


def _pool(rows: dict[str, np.ndarray], cats: list[int] | None) -> Any:
    import catboost

    n = max(len(column) for column in rows.values())
    table = np.empty((n, len(rows)), object)
    for j, column in enumerate(rows.values()):
        table[:, j] = np.resize(column, n) if len(column) else "0"
        if cats is not None and j not in cats:
            table[:, j] = 0.0
    return catboost.Pool(table, cat_features=cats)


def claims_file(head: bytes, path: Path) -> bool:
    """Whether the file looks like CatBoost's JSON export, or its binary format (refused with advice)."""
    if head.startswith(_BINARY_HEAD):
        return True
    return head.lstrip().startswith(b"{") and b'"learner"' not in head and any(key in head for key in _JSON_KEYS)


def is_pickle(head: bytes, path: Path) -> bool:
    return False


def from_file(path: Path, iterations: int | str | None = None) -> Ensemble:
    """The JSON export as an `Ensemble`; CatBoost itself is not needed."""
    path = Path(path)
    _refuse_binary(path)
    return _ensemble(parts.read_json(path, str(path)), str(path), "CatBoost", iterations, None)


def _refuse_binary(path: Path) -> None:
    with open(path, "rb") as f:
        if f.read(len(_BINARY_HEAD)) == _BINARY_HEAD:
            raise ModelError.unsupported(
                f"{path} (CatBoost's binary format)",
                "it has no published layout. Load it with CatBoost and pass the model, or export it with "
                'model.save_model("m.json", format="json")',
            )


def open_native(path: Path) -> Any | None:
    """CatBoost's own object for a JSON export, or None where CatBoost is not installed.

    CatBoost writes all digits of a leaf value but rounds some of them wrongly when it reads them back (up to four in
    ten were off in the last bit), so that the object it makes of its own export is not quite the model that was
    saved. The leaf values are put right from the file; the object then predicts as the saved model did, bit for bit.
    """
    path = Path(path)
    _refuse_binary(path)
    try:
        import catboost
    except ImportError:
        return None
    exported = parts.read_json(path, str(path))
    is_regression = parts.class_labels(exported, str(path)) is None
    model = catboost.CatBoost() if is_regression else catboost.CatBoostClassifier()
    try:
        model.load_model(str(path), format="json")
        _restore_numbers(model, exported, str(path))
    except catboost.CatBoostError as error:
        raise ModelError.damaged(str(path), f"CatBoost cannot load it ({error})") from error
    return model


def _restore_numbers(model: Any, exported: dict[str, Any], source: str) -> None:
    """Give the object that CatBoost loaded the leaf values, scale and bias as the file has them."""
    exact = np.asarray(trees_of.leaf_values(exported, source), dtype=np.float64)
    loaded = np.asarray(model.get_leaf_values(), dtype=np.float64)
    if exact.shape != loaded.shape or not np.allclose(exact, loaded, rtol=1e-12, atol=1e-300):
        raise ModelError.damaged(source, "CatBoost reads other leaf values from it than are written there")
    if len(exact):
        model.set_leaf_values(exact)
    scale, bias = parts.scale_and_bias(exported, source, trees_of.count_outputs(exported, source))
    model.set_scale_and_bias(scale, [bias] * len(np.atleast_1d(model.get_scale_and_bias()[1])))


def _ensemble(
    model: dict[str, Any], source: str, model_type: str, iterations: int | str | None, obj: Any | None
) -> Ensemble:
    parts.refuse_features(model, source)
    columns = parts.read_columns(model, source)
    labels = parts.class_labels(model, source)
    trees = trees_of.tree_list(model, source)
    if isinstance(iterations, int):
        trees = trees[:iterations]
    n_outputs = trees_of.count_outputs(model, source)
    if labels is None and n_outputs > 1:
        raise ModelError.unsupported(f"{source} with {n_outputs} outputs", "one model must answer one question")
    if labels is not None and n_outputs not in (1, len(labels)):
        raise ModelError.damaged(source, f"it has {n_outputs} outputs for {len(labels)} classes")
    if labels is not None and n_outputs == 1 and len(labels) != 2:
        raise ModelError.damaged(source, f"it has one output for {len(labels)} classes")
    builder = trees_of.builder(columns, source, n_outputs)
    for tree in trees:
        trees_of.add_tree(builder, tree, columns, source, n_outputs, VECTOR_LEAF if n_outputs > 1 else 0)
    scale, bias = parts.scale_and_bias(model, source, n_outputs)
    names, has_names = columns.names, columns.has_names
    if obj is not None and not has_names:
        own_names = tuple(str(name) for name in obj.feature_names_)
        if len(own_names) == len(names) and own_names != tuple(str(j) for j in range(len(names))):
            names, has_names = own_names, True
    decision, link_a, probability = _rules(model, labels, n_outputs, source)
    return builder.build(
        base=np.zeros(n_outputs),
        library="catboost",
        model_type=model_type,
        task="regression" if labels is None else ("binary" if len(labels) == 2 else "multiclass"),
        feature_names=names,
        has_names=has_names,
        classes=labels,
        categories=columns.categories,
        allows_missing=np.asarray([c is None for c in columns.categories], dtype=bool),
        decision=decision,
        probability=probability,
        link_a=link_a,
        post="none" if (scale, bias) == (1.0, 0.0) else "affine",
        post_a=scale,
        post_b=bias,
        notes=columns.notes,
    )


def _rules(model: dict[str, Any], labels: np.ndarray | None, n_outputs: int, source: str) -> tuple[str, float, str]:
    """Decision rule, its parameter, and probability rule."""
    if labels is None:
        return "none", 1.0, "none"
    if n_outputs > 1:
        return "argmax", 1.0, "cat_ova" if parts.loss_name(model) == "MultiClassOneVsAll" else "cat_softmax"
    threshold = parts.probability_threshold(model, source)
    if threshold is None:
        return "above_0", 1.0, "cat_logistic"
    # CatBoost turns the threshold into a raw score once, and compares raw scores.
    return "above", -math.log(1.0 / threshold - 1.0), "cat_logistic"


def judge(obj: Any, ensemble: Ensemble) -> Judge:
    """CatBoost's own predict, on one thread, with as many trees as were read."""
    import catboost

    def ask(rows: Any, answer: str) -> np.ndarray:
        # CatBoost's own: the predict of its rankers is this one with fewer arguments.
        said = catboost.CatBoost.predict(
            obj, rows, prediction_type=answer, ntree_end=ensemble.n_trees, thread_count=1
        )  # fmt: skip
        return np.asarray(said)

    def class_index(rows: Any) -> np.ndarray:
        if ensemble.classes is None:
            raise ModelError("a regression model has no classes; ask for raw scores")
        order = {label: i for i, label in enumerate(ensemble.classes.tolist())}
        return np.asarray([order[label] for label in ask(rows, "Class").ravel().tolist()], dtype=np.int64)

    return Judge(
        f"catboost {catboost.__version__}",
        class_index=class_index,
        probability=lambda rows: ask(rows, "Probability").reshape(len(rows), -1),
        raw=lambda rows: ask(rows, "RawFormulaVal").reshape(len(rows), -1),
    )
