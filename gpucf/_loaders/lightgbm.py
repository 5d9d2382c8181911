"""LightGBM: Booster and scikit-learn wrapper objects, and text files (read without LightGBM).

LightGBM compares in float64, ``x <= t`` to the left, and adds float64 leaf values iteration by iteration from 0: where
training started from an average, that is part of the first tree's leaves.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import ModelError, OptionError, TableError
from gpucf._judge import Judge
from gpucf._loaders._lightgbm_text import TextModel, count, floats, ints, parse

_MOST_COLUMNS = 1 << 20
_MOST_CLASSES = 1 << 16
# Rows come to the trees without their near-zero entries, which are read as 0.
_ZERO = float(np.float32(1e-35))
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_NONE, _MISSING_ZERO, _MISSING_NAN = 0, 1, 2


def claims(obj: Any) -> bool:
    """Whether the object is a Booster or a wrapper of LightGBM, or derives from one (without importing LightGBM)."""
    return any(
        t.__module__.split(".")[0] == "lightgbm" and t.__qualname__ in ("Booster", "LGBMModel")
        for t in type(obj).__mro__
    )


def from_object(obj: Any, iterations: int | str | None = None) -> Ensemble:
    """A trained model as an `Ensemble`; None for `iterations` means ``best_iteration``, as in LightGBM's predict."""
    kind = type(obj).__qualname__
    booster = _booster(obj)
    model = parse(booster.model_to_string(num_iteration=-1), f"this {kind}")
    if iterations is None and booster.best_iteration > 0:
        iterations = min(int(booster.best_iteration), _n_rounds(model))
    return _ensemble(model, kind, iterations, obj if hasattr(obj, "classes_") else None)


def claims_file(head: bytes, path: Path) -> bool:
    """Whether the first bytes are those of LightGBM's text format."""
    return head.startswith((b"tree\n", b"tree\r\n"))


def is_pickle(head: bytes, path: Path) -> bool:
    """Never: pickles are opened by the scikit-learn module."""
    return False


def from_file(path: Path, iterations: int | str | None = None) -> Ensemble:
    """A text file as an `Ensemble`; the format has no ``best_iteration``, so None means all of its trees."""
    return _ensemble(parse(_text(Path(path)), str(path)), "Booster", iterations, None)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise ModelError.damaged(str(path), "it is not UTF-8 text") from None


def open_native(path: Path) -> Any | None:
    """The file as a `lightgbm.Booster`, or None where LightGBM is not installed."""
    try:
        import lightgbm
    except ImportError:
        return None
    text = _text(Path(path))
    _ensemble(parse(text, str(path)), "Booster", None, None)  # LightGBM trusts a file, and can crash on a bad one
    # It jumps by the stated sizes, and ends the process where an editor or a mail program has changed them.
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if not line.startswith("tree_sizes=")]
    return lightgbm.Booster(model_str="\n".join(lines))


def judge(obj: Any, ensemble: Ensemble) -> Judge:
    """LightGBM's own predict, over the rounds that `ensemble` was read from."""
    import lightgbm

    booster = _booster(obj)
    rounds = ensemble.n_trees // booster.num_model_per_iteration()
    classifier = obj if hasattr(obj, "classes_") and ensemble.task != "regression" else None

    def predict(rows: Any, **how: Any) -> np.ndarray:
        given = _library_rows(ensemble, booster, rows)
        return np.asarray(booster.predict(given, num_iteration=rounds, **how))

    def raw(rows: Any) -> np.ndarray:
        scores = predict(rows, raw_score=True).reshape(len(rows), ensemble.n_outputs)
        # With boosting=rf raw_score gives the sum; LightGBM's predict divides it by the rounds before anything else.
        return scores / ensemble.post_a if ensemble.post == "divide" else scores

    def probability(rows: Any) -> np.ndarray:
        p = predict(rows)
        return np.stack([1.0 - p, p], axis=1) if ensemble.n_outputs == 1 else p

    def class_index(rows: Any) -> np.ndarray:
        if classifier is None:
            return np.argmax(probability(rows), axis=1).astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wrapper warns of rows without column names
            labels = classifier.predict(_library_rows(ensemble, booster, rows), num_iteration=rounds)
        return np.searchsorted(classifier.classes_, labels).astype(np.int64)

    return Judge(f"lightgbm {lightgbm.__version__}", class_index, probability, raw)


def _booster(obj: Any) -> Any:
    if not hasattr(type(obj), "booster_"):
        return obj
    if not obj.__sklearn_is_fitted__():
        raise ModelError(f"this {type(obj).__qualname__} has not been fitted. Call fit first.")
    return obj.booster_


def _n_rounds(model: TextModel) -> int:
    per_round = model.count("num_tree_per_iteration", 1)
    if per_round == 0 or per_round > _MOST_CLASSES or len(model.trees) % per_round:
        raise ModelError.damaged(model.source, f"its {len(model.trees)} trees are not whole rounds of {per_round}")
    return len(model.trees) // per_round


def _ensemble(model: TextModel, model_type: str, iterations: int | str | None, classifier: Any) -> Ensemble:
    source = model.source
    n_features = model.count("max_feature_idx") + 1
    if n_features > _MOST_COLUMNS:
        raise ModelError.unsupported(source, f"{n_features} columns are over the limit of {_MOST_COLUMNS}")
    n_outputs = model.count("num_tree_per_iteration", 1)
    rounds = n_rounds = _n_rounds(model)
    if isinstance(iterations, int):
        if iterations > n_rounds:
            raise OptionError(f"iterations is {iterations}, but the model has {n_rounds} rounds; give at most that.")
        rounds = iterations
    trees = model.trees[: rounds * n_outputs]
    task, decision, probability, slope, notes = _rules(model, n_outputs, classifier is not None)
    codes, categories = _categories(model, n_features, trees)
    builder = TreeBuilder(source, n_features, np.float64, np.float64)
    for t, tree in enumerate(trees):
        _add_tree(builder, tree, f"{source}, tree {t}", codes, t % n_outputs)
    names = tuple(model.header.get("feature_names", "").split())
    if len(names) != n_features:
        raise ModelError.damaged(source, f"it has {len(names)} names for {n_features} columns")
    averaged = "average_output" in model.header and rounds > 0
    return builder.build(
        np.zeros(n_outputs),
        library="lightgbm",
        model_type=model_type,
        task=task,
        feature_names=names,
        # LightGBM names the columns of a table without names itself.
        has_names=names != tuple(f"Column_{j}" for j in range(n_features)),
        classes=_classes(task, n_outputs, classifier, source),
        allows_missing=np.ones(n_features, dtype=bool),
        categories=categories,
        decision=decision,
        probability=probability,
        link_a=slope,
        post="divide" if averaged else "none",
        post_a=float(rounds) if averaged else 1.0,
        notes=notes,
    )


def _rules(model: TextModel, n_outputs: int, classifier: bool) -> tuple[str, str, str, float, tuple[str, ...]]:
    words = model.header.get("objective", "").split() or [""]
    options = dict(word.partition(":")[::2] for word in words[1:])
    try:
        slope = float(options.get("sigmoid", "1"))
    except ValueError:
        slope = float("nan")
    if not 0 < slope < float("inf"):
        raise ModelError.damaged(model.source, f"sigmoid is {options.get('sigmoid')!r}")
    if n_outputs > 1 and words[0] in ("multiclass", "multiclassova"):
        rule = "lgb_softmax" if words[0] == "multiclass" else "lgb_ova"
        return "multiclass", rule, rule, slope, ()
    if n_outputs == 1 and words[0] == "binary":
        return "binary", "lgb_logistic", "lgb_logistic", slope, ()
    if n_outputs == 1 and classifier and words[0] == "cross_entropy":
        return "binary", "lgb_logistic", "lgb_logistic", 1.0, ()
    if n_outputs > 1:
        raise ModelError.unsupported(model.source, f"objective {words[0]!r} with {n_outputs} outputs is not known")
    if words[0] in ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg"):
        note = () if "sqrt" not in words else ("Scores are raw scores, before LightGBM squares them (reg_sqrt).",)
    else:
        note = (f"Scores are raw scores, before the link of objective {words[0] or 'custom'!r}.",)
    return "regression", "none", "none", 1.0, note


def _classes(task: str, n_outputs: int, classifier: Any, source: str) -> np.ndarray | None:
    if task == "regression":
        return None
    n = 2 if task == "binary" else n_outputs
    classes = np.arange(n) if classifier is None else np.asarray(classifier.classes_)
    if len(classes) != n:
        raise ModelError.unsupported(source, f"it has {len(classes)} classes for {n_outputs} outputs")
    return classes


def _categories(
    model: TextModel, n_features: int, trees: list[dict[str, str]]
) -> tuple[list[np.ndarray | None], tuple[np.ndarray | None, ...]]:
    """For each categorical column LightGBM's codes in ascending order, and the values that they stand for.

    Without pandas the codes are the values. With pandas the values of the columns of category dtype are listed in
    column order, without saying which columns; those are the ones whose range is written as a list of codes.
    """
    source = model.source
    infos = model.header.get("feature_infos", "").split()
    if len(infos) != n_features:
        raise ModelError.damaged(source, f"it has {len(infos)} feature_infos for {n_features} columns")
    found: dict[int, set[int]] = {}
    for j, info in enumerate(infos):
        if info != "none" and not info.startswith("["):
            found[j] = {code for code in _codes_of_info(info, source) if code >= 0}
    for t, tree in enumerate(trees):
        for j, left_codes in _split_members(tree, f"{source}, tree {t}", n_features):
            found.setdefault(j, set()).update(left_codes)
    codes: list[np.ndarray | None] = [None] * n_features
    values: list[np.ndarray | None] = [None] * n_features
    for j, members in found.items():
        codes[j] = values[j] = np.array(sorted(members), dtype=np.int64)
    if not model.pandas_categorical:
        return codes, tuple(values)
    if len(model.pandas_categorical) != len(found):
        raise ModelError.unsupported(
            source,
            f"it has {len(model.pandas_categorical)} pandas category columns, but {len(found)} categorical columns, "
            "and does not say which is which (constant or ordered category columns). Train on integer codes instead",
        )
    for j, known in zip(sorted(found), model.pandas_categorical, strict=True):
        largest = max(found[j], default=-1)
        if largest >= len(known):
            raise ModelError.damaged(source, f"column {j} has category code {largest} of {len(known)}")
        codes[j] = np.arange(len(known))
        values[j] = _as_array(known)
    return codes, tuple(values)


def _as_array(known: list[Any]) -> np.ndarray:
    array = np.array(known)
    if array.dtype.kind in "iufb" and len(set(map(type, known))) == 1:
        return array
    values = np.empty(len(known), dtype=object)
    values[:] = known
    return values


def _codes_of_info(info: str, source: str) -> list[int]:
    try:
        return [int(code) for code in info.split(":")]
    except ValueError:
        raise ModelError.damaged(source, f"feature_infos holds {info[:60]!r}") from None


def _split_members(tree: dict[str, str], where: str, n_features: int) -> list[tuple[int, list[int]]]:
    """Column and left-going codes of each categorical split, in the order of the splits."""
    if count(tree, "num_cat", where, 0) == 0:
        return []
    n = count(tree, "num_leaves", where) - 1
    feature = ints(tree, "split_feature", where, n)
    sets = _bit_sets(tree, where)
    threshold = floats(tree, "threshold", where, n)
    members = []
    for node in np.flatnonzero(ints(tree, "decision_type", where, n) & _CATEGORICAL).tolist():
        number = threshold[node]
        if not (0 <= number < len(sets) and number == int(number)) or not 0 <= feature[node] < n_features:
            raise ModelError.damaged(where, f"categorical split {node} has set {number} of {len(sets)}")
        members.append((int(feature[node]), sets[int(number)]))
    return members


def _bit_sets(tree: dict[str, str], where: str) -> list[list[int]]:
    n_sets = count(tree, "num_cat", where)
    starts = ints(tree, "cat_boundaries", where, n_sets + 1)
    words = ints(tree, "cat_threshold", where, int(starts[-1]) if 0 <= starts[-1] < 1 << 31 else -1)
    if starts[0] != 0 or np.any(np.diff(starts) < 0) or np.any(words < 0) or np.any(words >= 1 << 32):
        raise ModelError.damaged(where, "its category sets are not 32-bit words")
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    parts = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return [np.flatnonzero(bits[32 * a : 32 * b]).tolist() for a, b in parts]


def _add_tree(
    builder: TreeBuilder, tree: dict[str, str], where: str, codes: list[np.ndarray | None], output: int
) -> None:
    if count(tree, "is_linear", where, 0):
        raise ModelError.unsupported(where, "its leaves are linear functions (linear_tree)")
    n_leaves = count(tree, "num_leaves", where)
    n = n_leaves - 1
    if n < 0:
        raise ModelError.damaged(where, "it has no leaf")
    value = floats(tree, "leaf_value", where, n_leaves)
    if n == 0:
        nothing = np.full(1, -1)
        builder.add_tree(nothing, np.zeros(1), nothing, nothing, np.zeros(1, bool), value, output)
        return
    kind = ints(tree, "decision_type", where, n)
    # Without category sets LightGBM reads each split as numeric, whatever its type says.
    categorical = ((kind & _CATEGORICAL) != 0) & (count(tree, "num_cat", where, 0) > 0)
    missing = (kind >> 2) & 3
    if np.any((missing == _MISSING_ZERO) & ~categorical):
        raise ModelError.unsupported(where, "it takes 0 for a missing value (zero_as_missing)")
    threshold = _last_left(floats(tree, "threshold", where, n))
    # Where training saw no missing value, NaN is read as 0.
    nan_left = np.where(missing == _MISSING_NAN, (kind & _DEFAULT_LEFT) != 0, threshold >= 0)
    sets = np.full(n, -1, dtype=np.int32)
    members = _split_members(tree, where, builder.n_features)
    for node, (j, left_codes) in zip(np.flatnonzero(categorical).tolist(), members, strict=True):
        known = codes[j]
        if known is None:
            raise ModelError.damaged(where, f"column {j} is numeric, but split {node} is not")
        sets[node] = builder.add_category_set(np.searchsorted(known, left_codes))
    inner = np.zeros(n_leaves)
    builder.add_tree(
        feature=np.concatenate([ints(tree, "split_feature", where, n), np.full(n_leaves, -1)]),
        threshold=np.concatenate([threshold, inner]),
        left=_children(tree, "left_child", where, n),
        right=_children(tree, "right_child", where, n),
        # A categorical split sends NaN to the right.
        missing_left=np.concatenate([nan_left & ~categorical, inner != 0]),
        value=np.concatenate([np.zeros(n), value]),
        output=output,
        category_set=np.concatenate([sets, np.full(n_leaves, -1, dtype=np.int32)]),
    )


def _last_left(threshold: np.ndarray) -> np.ndarray:
    """The last number that goes left, given that all of [-_ZERO, _ZERO] is read as 0."""
    below_zero = (threshold >= -_ZERO) & (threshold < 0)
    at_zero = (threshold >= 0) & (threshold < _ZERO)
    return np.where(below_zero, np.nextafter(-_ZERO, -np.inf), np.where(at_zero, _ZERO, threshold))


def _children(tree: dict[str, str], key: str, where: str, n: int) -> np.ndarray:
    """Children as positions among the n inner nodes and, after them, the leaves (written as ~leaf)."""
    child = ints(tree, key, where, n)
    if np.any(child >= n) or np.any(~child > n):
        raise ModelError.damaged(where, f"{key} names a node that does not exist")
    return np.concatenate([np.where(child >= 0, child, n + ~child), np.full(n + 1, -1)])


def _library_rows(ensemble: Ensemble, booster: Any, rows: Any) -> Any:
    """Rows as the library takes them: as they are, or with category values turned into LightGBM's codes."""
    frame = hasattr(rows, "columns") and hasattr(rows, "iloc")
    if frame and booster.pandas_categorical:
        return rows
    if all(c is None for c in ensemble.categories):
        given = np.asarray(rows)
        return given.astype(np.float64) if given.dtype.kind == "O" else given
    coded = np.empty((len(rows), ensemble.n_features), np.float64)
    for j in range(ensemble.n_features):
        column = np.asarray(rows.iloc[:, j] if frame else np.asarray(rows)[:, j])
        known = ensemble.categories[j]
        if known is None or not booster.pandas_categorical:
            coded[:, j] = column.astype(np.float64)
        else:
            coded[:, j] = _codes(column, known, ensemble.feature_names[j])
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
