"""The published forests of `bench/data/forests`, read from their text form."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.datasets import DATA
from gpucf._ensemble import VECTOR_LEAF, Ensemble, TreeBuilder


def paths() -> list[Path]:
    return sorted((DATA / "forests").glob("*.txt"))


def load(path: Path) -> Ensemble:
    """Hard votes, the first of the most voted classes: a leaf adds 1 to its majority class."""
    lines = path.read_text().splitlines()
    head = dict(line.split(": ", 1) for line in lines if line.startswith("NB_") and not line.startswith("NB_NODES"))
    n_features, n_classes = int(head["NB_FEATURES"]), int(head["NB_CLASSES"])
    builder = TreeBuilder(str(path), n_features, "float64", "float64", n_leaf_outputs=n_classes)
    for i, line in enumerate(lines):
        if line.startswith("NB_NODES: "):
            _add_tree(builder, [node.split() for node in lines[i + 1 : i + 1 + int(line.split()[1])]], n_classes)
    return builder.build(
        np.zeros(n_classes), library="text", model_type="born-again forest",
        task="binary" if n_classes == 2 else "multiclass", feature_names=tuple(f"f{j}" for j in range(n_features)),
        has_names=False, classes=np.arange(n_classes), allows_missing=np.zeros(n_features, bool), decision="argmax",
        probability="raw", post="divide", post_a=float(head["NB_TREES"]),
    )  # fmt: skip


def _add_tree(builder: TreeBuilder, nodes: list[list[str]], n_classes: int) -> None:
    """Columns: index, IN or LN, left, right, feature, threshold (``<=`` goes left), depth, majority class."""
    left, right, feature, majority = (np.array([int(node[k]) for node in nodes]) for k in (2, 3, 4, 7))
    threshold = np.array([float(node[5]) for node in nodes])
    votes = np.eye(n_classes)[np.maximum(majority, 0)]
    builder.add_tree(feature, threshold, left, right, np.zeros(len(nodes), bool), votes, VECTOR_LEAF)
