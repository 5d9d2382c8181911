"""XGBoost's model document (JSON or UBJSON, one schema) as an `Ensemble`.

XGBoost casts a row to float32, sends ``x < t`` to the left, and adds float32 leaf values tree by tree from the base
score. The base score is written as a probability (or a mean) and held as a margin: see `base_margin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import ModelError, OptionError

_MODEL_KEYS = ("cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees", "weight_drop")
_MOST_COLUMNS = 1 << 20
_MOST_CLASSES = 1 << 16
_MOST_CATEGORIES = 1_000_000

# How the written base score becomes a margin.
_IDENTITY = (
    "reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror",
    "reg:quantileerror", "reg:expectileerror", "rank:pairwise", "rank:ndcg", "rank:map", "binary:hinge",
    "multi:softmax", "multi:softprob", "binary:logitraw",
)  # fmt: skip
_LOGIT = ("reg:logistic", "binary:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")

# objective -> (task, decision, probability)
_CLASS_RULES = {
    "binary:logistic": ("binary", "xgb_logistic", "xgb_logistic"),
    "binary:logitraw": ("binary", "above_0", "none"),
    "binary:hinge": ("binary", "above_0", "none"),
    "multi:softprob": ("multiclass", "xgb_softmax", "xgb_softmax"),
    # Decided on the raw scores; its probabilities come from SciPy, or, from a Booster, not at all.
    "multi:softmax": ("multiclass", "argmax", "none"),
}


@dataclass(frozen=True)
class Document:
    """The parts of a model document that loaders and judges ask for, checked for presence and type."""

    source: str
    learner: dict[str, Any]
    model: dict[str, Any]
    weight_drop: np.ndarray | None
    round_start: list[int]
    version: tuple[int, ...]

    @property
    def objective(self) -> str:
        return str(_get(_get(self.learner, "objective", dict, self.source), "name", str, self.source))

    @property
    def best_iteration(self) -> int | None:
        attributes = self.learner.get("attributes")
        text = attributes.get("best_iteration") if isinstance(attributes, dict) else None
        return None if text is None else _count(text, "best_iteration", self.source)

    @property
    def has_stored_categories(self) -> bool:
        cats = self.model.get("cats")
        return isinstance(cats, dict) and isinstance(cats.get("enc"), list) and len(cats["enc"]) > 0


def check_document(document: Any, source: str) -> Document:
    """Find the booster in a parsed document; refuse what is not a tree booster."""
    learner = _get(document, "learner", dict, source)
    booster = _get(learner, "gradient_booster", dict, source)
    name = _get(booster, "name", str, source)
    if name not in ("gbtree", "dart"):
        raise ModelError.unsupported(f"{source} (booster {name!r})", "it is not made of trees")
    # DART's weights lie beside the trees from 3.4 on, where it is a tree booster like any other; before, around them.
    weights = _floats(booster, "weight_drop", source) if "weight_drop" in booster else None
    _refuse_unknown(booster, ("name", "model", "gbtree", "weight_drop"), source)
    booster = _get(booster, "gbtree", dict, source) if name == "dart" else booster
    model = _get(booster, "model", dict, source)
    _refuse_unknown(model, _MODEL_KEYS, source)
    weights = _floats(model, "weight_drop", source) if "weight_drop" in model else weights
    if name == "dart" and weights is None:
        raise ModelError.damaged(source, "its DART weights are missing")
    trees = _get(model, "trees", list, source)
    if weights is not None and len(weights) != len(trees):
        raise ModelError.damaged(source, f"it has {len(trees)} trees, but {len(weights)} DART weights")
    version = tuple(_ints(document, "version", source).tolist())
    return Document(source, learner, model, weights, _round_start(learner, model, len(trees), source), version)


def _refuse_unknown(part: dict[str, Any], known: tuple[str, ...], source: str) -> None:
    """A part that a later XGBoost adds could change every score, as 3.4's DART weights would if overlooked."""
    if unknown := sorted(set(part) - set(known)):
        raise ModelError.unsupported(source, f"it has a part {unknown[0]!r}, which this version of gpucf does not know")


def to_ensemble(
    document: Document, model_type: str, iterations: int | str | None, follow_best: bool, classifier: bool
) -> Ensemble:
    """The `Ensemble` of a document.

    Parameters
    ----------
    document : Document
    model_type : str
    iterations : "all", int or None
    follow_best : bool
        Whether None means the rounds up to ``best_iteration`` (wrappers and files) or all (a Booster object).
    classifier : bool
        Whether the model's own ``predict`` is that of `XGBClassifier`.
    """
    source = document.source
    param = _get(document.learner, "learner_model_param", dict, source)
    n_features = _count(param.get("num_feature"), "num_feature", source)
    n_class = _count(param.get("num_class", 0), "num_class", source)
    if _count(param.get("num_target", 1), "num_target", source) > 1:
        raise ModelError.unsupported(source, "it has several targets")
    if n_features > _MOST_COLUMNS or n_class > _MOST_CLASSES:
        raise ModelError.unsupported(
            source, f"{n_features} columns or {n_class} classes are over the limits {_MOST_COLUMNS} and {_MOST_CLASSES}"
        )
    n_outputs = max(n_class, 1)
    task, decision, probability, link_a, notes = _rules(document.objective, classifier, source)
    if task == "multiclass" and n_class < 2:
        raise ModelError.damaged(source, f"a multi-class objective with {n_class} classes")
    rounds = _rounds(document, iterations, follow_best)
    if document.objective == "binary:logitraw" and document.version < (2,):
        raise ModelError.unsupported(source, "before 2.0, XGBoost read the base score of binary:logitraw differently")
    names = _names(document.learner, n_features, source)
    n_trees = document.round_start[rounds]
    trees = document.model["trees"][:n_trees]
    listed = [_listed_categories(tree, f"{source}, tree {t}") for t, tree in enumerate(trees)]
    categories = _categories(document, trees, listed, n_features)
    builder = TreeBuilder(source, n_features, np.float32, np.float32)
    groups = _ints(document.model, "tree_info", source, len(document.model["trees"]))
    for t, tree in enumerate(trees):
        weight = None if document.weight_drop is None else document.weight_drop[t]
        if groups[t] < 0:
            raise ModelError.damaged(source, f"tree {t} adds to output {groups[t]}")
        _add_tree(builder, tree, f"{source}, tree {t}", listed[t], categories, weight, int(groups[t]))
    classes = None if task == "regression" else np.arange(n_class if task == "multiclass" else 2)
    return builder.build(
        base_margin(param.get("base_score"), document, n_outputs),
        library="xgboost",
        model_type=model_type,
        task=task,
        feature_names=names or tuple(f"f{j}" for j in range(n_features)),
        has_names=bool(names),
        classes=classes,
        allows_missing=np.ones(n_features, dtype=bool),
        categories=categories,
        decision=decision,
        probability=probability,
        link_a=link_a,
        notes=notes + _category_notes(document, categories),
    )


def _category_notes(document: Document, categories: tuple[np.ndarray | None, ...]) -> tuple[str, ...]:
    columns = [str(j) for j, known in enumerate(categories) if known is not None]
    if document.has_stored_categories or not columns:
        return ()
    return (
        f"The model stores no list of categories; columns {', '.join(columns[:20])} have the codes up to the largest "
        "that a split lists.",
    )


def base_margin(written: Any, document: Document, n_outputs: int) -> np.ndarray:
    """The base score as XGBoost holds it: float32 margins of shape (n_outputs,), from any form that it writes.

    "5E-1" until 3.0, "[5E-1]" or one number a class from 3.1 on. The conversions are float32 throughout, with the C
    library's logarithm, which NumPy's float32 logarithm does not equal in its last bit.
    """
    objective, source = document.objective, document.source
    try:
        texts = str(written).strip().removeprefix("[").removesuffix("]").split(",")
        score = _to_float32(np.array([float(text) for text in texts]), "base_score", source)
    except (ValueError, OverflowError):
        raise ModelError.damaged(source, f"the base score is {written!r}") from None
    if len(score) not in (1, n_outputs):
        raise ModelError.damaged(source, f"it has {len(score)} base scores for {n_outputs} outputs")
    if objective in _LOGIT and not np.all((score >= 0) & (score <= 1)):
        raise ModelError.damaged(source, f"the base score {written} of {objective} is not between 0 and 1")
    if objective in _LOG and not np.all(score > 0):
        raise ModelError.damaged(source, f"the base score {written} of {objective} is not above 0")
    if objective in _LOGIT or objective in _LOG:
        from gpucf._libm import logarithms_f32

        if objective in _LOGIT:
            one, least = np.float32(1), np.float32(1e-6)
            # 0 and 1 stand there where all training labels were of one class.
            clipped = np.clip(score, least, one - least)
            if document.version < (3, 2) and np.any(clipped != score):
                raise ModelError.unsupported(
                    source, f"XGBoost reads its base score {written} differently from 3.2 on. Save it anew with that"
                )
            score = clipped
            score = -logarithms_f32(one / score - one)
        else:
            score = logarithms_f32(score)
    return np.broadcast_to(score, (n_outputs,))


def _rules(objective: str, classifier: bool, source: str) -> tuple[str, str, str, float, tuple[str, ...]]:
    if objective not in _IDENTITY + _LOGIT + _LOG:
        raise ModelError.unsupported(source, f"its objective {objective!r} is not known")
    if classifier and objective == "reg:logistic":
        objective = "binary:logistic"
    if objective not in _CLASS_RULES:
        note = (f"Scores are raw scores, before the link of {objective}.",) if objective not in _IDENTITY else ()
        return "regression", "none", "none", 1.0, note
    task, decision, probability = _CLASS_RULES[objective]
    if objective != "binary:logitraw":
        return task, decision, probability, 1.0, ()
    if classifier:
        # XGBClassifier.predict compares whatever the objective puts out with 0.5, here the raw score.
        return task, "above", probability, 0.5, ("As in XGBClassifier.predict, class 1 means a raw score above 0.5.",)
    return task, decision, probability, 1.0, ("XGBoost names no class for a raw score; class 1 means one above 0.",)


def _rounds(document: Document, iterations: int | str | None, follow_best: bool) -> int:
    n_rounds = len(document.round_start) - 1
    if isinstance(iterations, int):
        if iterations > n_rounds:
            raise OptionError(f"iterations is {iterations}, but the model has {n_rounds} rounds; give at most that.")
        return iterations
    best = document.best_iteration if follow_best and iterations is None else None
    if best is None:
        return n_rounds
    if best >= n_rounds:
        raise ModelError.damaged(
            document.source,
            f'best_iteration is {best}, but it has {n_rounds} rounds. Pass iterations="all" to use those',
        )
    return best + 1


def _round_start(learner: dict[str, Any], model: dict[str, Any], n_trees: int, source: str) -> list[int]:
    """First tree of each round, and the number of trees; older files only say how many trees a round has."""
    if "iteration_indptr" in model:
        start = _ints(model, "iteration_indptr", source)
        if len(start) == 0 or start[0] != 0 or start[-1] != n_trees or np.any(np.diff(start) < 0):
            raise ModelError.damaged(source, f"iteration_indptr does not divide its {n_trees} trees into rounds")
        return [int(s) for s in start]
    param = _get(model, "gbtree_model_param", dict, source)
    n_class = _count(_get(learner, "learner_model_param", dict, source).get("num_class", 0), "num_class", source)
    step = max(_count(param.get("num_parallel_tree", 1), "num_parallel_tree", source), 1) * max(n_class, 1)
    if n_trees % step:
        raise ModelError.damaged(source, f"its {n_trees} trees are not whole rounds of {step}")
    return list(range(0, n_trees + 1, step))


def _names(learner: dict[str, Any], n_features: int, source: str) -> tuple[str, ...]:
    names = learner.get("feature_names")
    names = [] if names is None else list(names) if isinstance(names, list | np.ndarray) else [None]
    if not all(isinstance(name, str) for name in names) or len(names) not in (0, n_features):
        raise ModelError.damaged(source, f"feature_names are not {n_features} names")
    return tuple(names)


def _listed_categories(tree: Any, where: str) -> dict[int, np.ndarray]:
    """Node -> the categories listed there, which go right."""
    if not isinstance(tree, dict):
        raise ModelError.damaged(where, "it is not an object")
    if "categories_nodes" not in tree:
        return {}
    nodes = _ints(tree, "categories_nodes", where)
    values = _ints(tree, "categories", where)
    starts = _ints(tree, "categories_segments", where, len(nodes))
    sizes = _ints(tree, "categories_sizes", where, len(nodes))
    if np.any(values < 0) or np.any(values >= _MOST_CATEGORIES):
        raise ModelError.damaged(where, f"a category is not between 0 and {_MOST_CATEGORIES - 1}")
    if np.any(starts < 0) or np.any(sizes < 0) or np.any(starts > len(values)) or np.any(sizes > len(values) - starts):
        raise ModelError.damaged(where, "the categories of a split lie outside its list")
    parts = zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    return {node: values[start : start + size] for node, start, size in parts}


def _categories(
    document: Document, trees: list[Any], listed: list[dict[int, np.ndarray]], n_features: int
) -> tuple[np.ndarray | None, ...]:
    """Category values of each column: those stored with the model, else the codes 0 to the largest that a split lists.

    A larger code than any listed goes left at every split, as does each code that is never listed.
    """
    source = document.source
    found: list[np.ndarray | None] = [None] * n_features
    if document.has_stored_categories:
        stored = document.model["cats"]["enc"]
        if len(stored) != n_features:
            raise ModelError.damaged(source, f"it stores categories for {len(stored)} of {n_features} columns")
        found = [_stored_categories(column, document.version, source) for column in stored]
    largest = np.full(n_features, -1, dtype=np.int64)
    for t, (tree, by_node) in enumerate(zip(trees, listed, strict=True)):
        feature = _ints(tree, "split_indices", f"{source}, tree {t}") if by_node else np.zeros(0, np.int64)
        for node, values in by_node.items():
            if not 0 <= node < len(feature) or not 0 <= feature[node] < n_features:
                raise ModelError.damaged(f"{source}, tree {t}", f"its categorical split {node} does not exist")
            largest[feature[node]] = max(largest[feature[node]], values.max(initial=0))
    for j in np.flatnonzero(largest >= 0):
        known = found[j]
        if known is None:
            found[j] = np.arange(largest[j] + 1)
        elif largest[j] >= len(known):
            raise ModelError.damaged(source, f"a split lists category {largest[j]} of {len(known)} of column {j}")
    return tuple(found)


def _stored_categories(column: Any, version: tuple[int, ...], source: str) -> np.ndarray | None:
    if not isinstance(column, dict):
        raise ModelError.damaged(source, "the stored categories of a column are not an object")
    if "offsets" not in column:
        values = np.asarray(column.get("values"))
        if values.ndim != 1 or values.dtype.kind not in "iuf":
            raise ModelError.damaged(source, "stored categories are neither numbers nor texts")
        return values if len(values) else None
    offsets = _ints(column, "offsets", source)
    values = _ints(column, "values", source)
    if len(offsets) < 2:
        return None
    if np.any(np.diff(offsets) < 0) or offsets[0] < 0 or offsets[-1] > len(values):
        raise ModelError.damaged(source, "a stored category lies outside its text")
    text = (values & 0xFF).astype(np.uint8).tobytes()
    if version < (3, 4) and not text.isascii():
        raise ModelError.unsupported(
            source,
            "XGBoost before 3.4 cuts stored categories with letters outside ASCII short. Train with a later version, "
            "or on integer codes",
        )
    pieces = [text[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    try:
        return np.array([piece.decode() for piece in pieces], dtype=object)
    except UnicodeDecodeError:
        raise ModelError.damaged(source, "a stored category is not UTF-8") from None


def _add_tree(
    builder: TreeBuilder,
    tree: dict[str, Any],
    where: str,
    listed: dict[int, np.ndarray],
    categories: tuple[np.ndarray | None, ...],
    weight: np.float32 | None,
    output: int,
) -> None:
    if _count(_get(tree, "tree_param", dict, where).get("size_leaf_vector", 1), "size_leaf_vector", where) > 1:
        raise ModelError.unsupported(where, "its leaves are vectors (multi_strategy multi_output_tree)")
    left = _ints(tree, "left_children", where)
    n = len(left)
    right = _ints(tree, "right_children", where, n)
    # XGBoost goes to left + 1 where a comparison fails, and to the stored child only where a value is missing.
    if np.any((left >= 0) & (right != left + 1)):
        raise ModelError.damaged(where, "a right child does not follow the left one")
    feature = _ints(tree, "split_indices", where, n)
    condition = _floats(tree, "split_conditions", where, n)
    kind = _ints(tree, "split_type", where, n) if "split_type" in tree else np.zeros(n, np.int64)
    sets = np.full(n, -1, dtype=np.int32)
    for node in np.flatnonzero((kind == 1) & (left >= 0)).tolist():
        known = categories[feature[node]] if 0 <= feature[node] < builder.n_features else None
        goes_left = np.ones(0 if known is None else len(known), dtype=bool)
        goes_left[listed.get(node, np.zeros(0, np.int64))] = False
        sets[node] = builder.add_category_set(np.flatnonzero(goes_left))
    if np.any((kind != 0) & (kind != 1)):
        raise ModelError.damaged(where, "a split is neither numeric nor categorical")
    # Leaf values lie among the split conditions. DART multiplies them, in float32, at every prediction.
    value = condition if weight is None else condition * weight
    builder.add_tree(
        feature=feature,
        # x < t is x <= the float32 before t; the smallest number is -inf, where nothing goes left.
        threshold=np.nextafter(condition, np.float32(-np.inf)),
        left=left,
        right=right,
        missing_left=_ints(tree, "default_left", where, n) != 0,
        value=value,
        output=output,
        category_set=sets,
    )


def _get(holder: Any, key: str, kind: type, source: str) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        raise ModelError.damaged(source, f"{key!r} is missing or has the wrong type")
    return value


def _count(value: Any, key: str, source: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ModelError.damaged(source, f"{key} is {value!r}")
    return number


def _array(holder: dict[str, Any], key: str, source: str, length: int | None) -> np.ndarray:
    value = holder.get(key)
    array = np.asarray(value if isinstance(value, list | np.ndarray) else None)
    if array.size == 0:
        array = array.astype(np.int64) if array.ndim == 1 else array
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ModelError.damaged(source, f"{key!r} is missing or is not an array of numbers")
    if length is not None and len(array) != length:
        raise ModelError.damaged(source, f"{key!r} has {len(array)} items, not {length}")
    return array


def _ints(holder: dict[str, Any], key: str, source: str, length: int | None = None) -> np.ndarray:
    array = _array(holder, key, source, length)
    if array.dtype.kind == "f":
        raise ModelError.damaged(source, f"{key!r} is not an array of whole numbers")
    return array.astype(np.int64)


def _floats(holder: dict[str, Any], key: str, source: str, length: int | None = None) -> np.ndarray:
    return _to_float32(_array(holder, key, source, length), key, source)


def _to_float32(numbers: np.ndarray, key: str, source: str) -> np.ndarray:
    """Numbers rounded once: XGBoost goes from decimal digits to float32, JSON readers to float64 first.

    The second rounding can only do harm where the first one hit the middle between two float32 numbers. XGBoost writes
    the shortest digits that identify a number, which never lie there.
    """
    if numbers.dtype == np.float32:
        return numbers
    wide = numbers.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(np.float32)
        other = np.nextafter(narrow, np.where(wide > narrow, np.inf, -np.inf).astype(np.float32))
        if np.any((wide != narrow) & ((narrow.astype(np.float64) + other) / 2 == wide)):
            raise ModelError.unsupported(source, f"a number in {key!r} lies halfway between two float32 numbers")
    return narrow
