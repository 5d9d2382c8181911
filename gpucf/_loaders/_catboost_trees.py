"""The trees of CatBoost's JSON export, symmetric or not, one-hot or numeric, as `TreeBuilder` wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpucf._ensemble import TreeBuilder
from gpucf._errors import ModelError
from gpucf._loaders._catboost_json import Columns, get, integer, number, typed

_MAX_DEPTH = 40


def tree_list(model: dict[str, Any], source: str) -> list[Any]:
    """All trees, symmetric or not."""
    trees = model.get("oblivious_trees")
    if trees is None:
        trees = model.get("trees")
    if trees is None:
        raise ModelError.damaged(source, 'it has neither "oblivious_trees" nor "trees"')
    return list(typed(trees, list, "the list of trees", source))


def leaf_values(model: dict[str, Any], source: str) -> list[float]:
    """All leaf values in the file's order, trees one after another, left children first."""
    values: list[float] = []
    for tree in tree_list(model, source):
        typed(tree, dict, "a tree", source)
        if "leaf_values" in tree:
            values += [number(v, "a leaf", source) for v in typed(tree["leaf_values"], list, "leaf_values", source)]
            continue
        stack = [tree]
        while stack:
            node = typed(stack.pop(), dict, "a node", source)
            if "value" in node:
                found = node["value"] if isinstance(node["value"], list) else [node["value"]]
                values += [number(v, "a leaf", source) for v in found]
            else:
                stack += [node.get("right"), node.get("left")]
    return values


def count_outputs(model: dict[str, Any], source: str) -> int:
    """Values per leaf."""
    trees = tree_list(model, source)
    if not trees:
        pair = get(model, "scale_and_bias", list, source, [1, [0.0]])
        return max(1, len(pair[1])) if len(pair) == 2 and isinstance(pair[1], list) else 1
    first = typed(trees[0], dict, "a tree", source)
    if "leaf_values" in first:
        n_leaves = 1 << min(len(get(first, "splits", list, source, [])), _MAX_DEPTH)
        return max(1, len(typed(first["leaf_values"], list, "leaf_values", source)) // n_leaves)
    for _ in range(1_000_000):
        if "value" in first:
            return len(first["value"]) if isinstance(first["value"], list) else 1
        first = typed(first.get("left"), dict, "a node", source)
    raise ModelError.damaged(source, "a tree has no leaf")


def builder(columns: Columns, source: str, n_outputs: int) -> TreeBuilder:
    return TreeBuilder(source, columns.n_features, np.float32, np.float64, n_outputs)


@dataclass
class _Nodes:
    """Nodes of one tree in the making."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    category_set: list[int] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)

    def add(self, n_outputs: int) -> int:
        """A new leaf of value 0; returns its number."""
        self.feature.append(-1)
        self.threshold.append(0.0)
        self.left.append(-1)
        self.right.append(-1)
        self.missing_left.append(False)
        self.category_set.append(-1)
        self.value.append([0.0] * n_outputs)
        return len(self.left) - 1


def add_tree(builder: TreeBuilder, tree: Any, columns: Columns, source: str, n_outputs: int, output: int) -> None:
    """Add one symmetric or non-symmetric tree."""
    typed(tree, dict, "a tree", source)
    nodes = _Nodes()
    if "leaf_values" in tree:
        _symmetric(nodes, builder, tree, columns, source, n_outputs)
    else:
        _non_symmetric(nodes, builder, tree, columns, source, n_outputs)
    builder.add_tree(
        feature=np.asarray(nodes.feature),
        threshold=np.asarray(nodes.threshold),
        left=np.asarray(nodes.left),
        right=np.asarray(nodes.right),
        missing_left=np.asarray(nodes.missing_left),
        value=np.asarray(nodes.value, dtype=np.float64),
        output=output,
        category_set=np.asarray(nodes.category_set),
    )


def _symmetric(
    nodes: _Nodes, builder: TreeBuilder, tree: dict[str, Any], columns: Columns, source: str, n_outputs: int
) -> None:
    """One split per level: bit ``i`` of a leaf's number is the answer to split ``i``, so the last split is the root."""
    splits = get(tree, "splits", list, source, [])
    values = typed(tree["leaf_values"], list, "leaf_values", source)
    if len(splits) > _MAX_DEPTH or len(values) != n_outputs << len(splits):
        raise ModelError.damaged(
            source, f"a tree with {len(splits)} splits and {n_outputs} outputs has {len(values)} leaf values"
        )
    rules = [_rule(split, builder, columns, source) for split in reversed(splits)]
    level = [nodes.add(n_outputs)]
    for rule in rules:
        below = []
        for node in level:
            _split(nodes, node, rule, n_outputs)
            below += [nodes.left[node], nodes.right[node]]
        level = below
    for i, node in enumerate(level):
        nodes.value[node] = [number(v, "a leaf", source) for v in values[i * n_outputs : (i + 1) * n_outputs]]


def _non_symmetric(
    nodes: _Nodes, builder: TreeBuilder, tree: dict[str, Any], columns: Columns, source: str, n_outputs: int
) -> None:
    stack = [(nodes.add(n_outputs), tree)]
    while stack:
        node, found = stack.pop()
        if "value" in found:
            value = found["value"] if isinstance(found["value"], list) else [found["value"]]
            if len(value) != n_outputs:
                raise ModelError.damaged(source, f"a leaf has {len(value)} values, not {n_outputs}")
            nodes.value[node] = [number(v, "a leaf", source) for v in value]
            continue
        _split(nodes, node, _rule(found.get("split"), builder, columns, source), n_outputs)
        for child, key in ((nodes.right[node], "right"), (nodes.left[node], "left")):
            stack.append((child, typed(found.get(key), dict, f"the {key} child of a node", source)))


_Rule = tuple[int, float, bool, int]


def _split(nodes: _Nodes, node: int, rule: _Rule, n_outputs: int) -> None:
    nodes.feature[node], nodes.threshold[node], nodes.missing_left[node], nodes.category_set[node] = rule
    nodes.left[node] = nodes.add(n_outputs)
    nodes.right[node] = nodes.add(n_outputs)


def _rule(split: Any, builder: TreeBuilder, columns: Columns, source: str) -> _Rule:
    """Column, threshold, whether missing goes left, and category set of one split."""
    typed(split, dict, "a split", source)
    kind = split.get("split_type")
    if kind == "FloatFeature":
        index = integer(split.get("float_feature_index"), "float_feature_index", source)
        if index not in columns.float_column:
            raise ModelError.damaged(source, f"a split names numeric feature {index}, which the model does not have")
        column = columns.float_column[index]
        # The file writes a float32 in decimal; CatBoost goes right on x > border, so the border itself goes left.
        with np.errstate(over="ignore"):
            border = float(np.float32(number(split.get("border"), "a border", source)))
        # NaN compares as false ("AsIs"), or is put below or above all borders.
        return column, border, column not in columns.missing_right, -1
    if kind == "OneHotFeature":
        index = integer(split.get("cat_feature_index"), "cat_feature_index", source)
        if index not in columns.cat_column:
            raise ModelError.damaged(source, f"a split names category feature {index}, which the model does not have")
        column = columns.cat_column[index]
        position = columns.position_of_hash[column]
        code = integer(split.get("value"), "a category hash", source) & 0xFFFFFFFF
        if code not in position:
            raise ModelError.damaged(source, f"a split names category hash {code}, which column {column} does not list")
        left = np.asarray([i for i in range(len(position)) if i != position[code]], dtype=np.int64)
        return column, 0.0, False, builder.add_category_set(left)
    raise ModelError.unsupported(
        f"{source} with splits of type {str(kind)[:40]!r}",
        "only numeric and one-hot splits can be read exactly. Train with one_hot_max_size at least the number of "
        "categories, or encode the columns yourself",
    )
