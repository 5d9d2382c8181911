"""A flat KD-tree over the boxes of one label: tight bounding boxes, breadth first, a depth known in advance.

Splits are at the median, so that a tree over n boxes is never deeper than ``ceil(log2(n / LEAF_SLOTS))`` and a stack of
`MAX_DEPTH` entries cannot overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucf._boxes import EMPTY_HI, EMPTY_LO, BoxLayout, set_members
from gpucf._cells import ORDERED
from gpucf._compress import Boxes

LEAF_SLOTS = 8
MAX_DEPTH = 48  # halving more than 2**48 boxes is impossible in memory
_NONE_LO = np.uint16(65535)


@dataclass(frozen=True, eq=False)
class KdTree:
    """One tree.

    Attributes
    ----------
    node_lo, node_hi : uint16 arrays of shape (n_nodes, n_features)
    node_sets : uint64 array of shape (n_nodes, n_set_words)
        Bounding box of each node: smallest range and union of sets.
    child : int32 array of shape (n_nodes,)
        First child (the second follows it), or ``~leaf`` for a leaf.
    leaf_lo, leaf_hi : uint16 arrays of shape (n_leaves, n_features, LEAF_SLOTS)
    leaf_sets : uint64 array of shape (n_leaves, n_set_words, LEAF_SLOTS)
        Boxes, slot by slot, so that neighbouring slots lie side by side.
    leaf_size : int32 array of shape (n_leaves,)
    leaf_box : int32 array of shape (n_leaves, LEAF_SLOTS)
        Index of each box in the map.
    """

    node_lo: np.ndarray
    node_hi: np.ndarray
    node_sets: np.ndarray
    child: np.ndarray
    leaf_lo: np.ndarray
    leaf_hi: np.ndarray
    leaf_sets: np.ndarray
    leaf_size: np.ndarray
    leaf_box: np.ndarray


def build_kdtree(boxes: Boxes, layout: BoxLayout, members: np.ndarray) -> KdTree:
    """KD-tree over the boxes `members` (indices, at least one), level by level.

    Every node is halved at the median of the feature in which the centres of its boxes spread most; a node of at most
    LEAF_SLOTS boxes is a leaf.
    """
    order = np.asarray(members, np.int64)
    centre = _centres(boxes, layout)
    begin, end = np.zeros(1, np.int64), np.full(1, len(order), np.int64)  # nodes of the level, as slices of `order`
    levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(begin):
        splits = end - begin > LEAF_SLOTS
        levels.append((begin, end, splits))
        begin, end = begin[splits], end[splits]
        if not len(begin):
            break
        order = _sort_slices(order, begin, end, centre)
        middle = begin + (end - begin + 1) // 2
        begin, end = np.stack([begin, middle], 1).ravel(), np.stack([middle, end], 1).ravel()
    return _assemble(boxes, layout, order, levels)


def _centres(boxes: Boxes, layout: BoxLayout) -> np.ndarray:
    """Centre of each box in each feature, float32; one unit is the whole feature."""
    out = (boxes.lo.astype(np.float32) + boxes.hi) * np.float32(0.5)
    for j in np.flatnonzero(layout.kind != ORDERED):
        member = set_members(boxes.sets, layout, int(j))
        out[:, j] = member @ np.arange(member.shape[1]) / member.sum(axis=1)
    return out / np.diff(layout.code_start).astype(np.float32)


def _sort_slices(order: np.ndarray, begin: np.ndarray, end: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Order the boxes of each slice by their centres in the feature in which these spread most."""
    length = end - begin
    owner = np.repeat(np.arange(len(begin)), length)
    first = np.cumsum(length) - length
    at = np.arange(len(owner)) - np.repeat(first - begin, length)
    inside = order[at]
    spread = np.empty((len(begin), centre.shape[1]), np.float32)
    for j in range(centre.shape[1]):
        c = centre[inside, j]
        spread[:, j] = np.maximum.reduceat(c, first) - np.minimum.reduceat(c, first)
    axis = spread.argmax(axis=1) if centre.shape[1] else np.zeros(len(begin), np.int64)
    key = centre[inside, axis[owner]] if centre.shape[1] else np.zeros(len(inside))
    out = order.copy()
    out[at] = inside[np.lexsort((key, owner))]
    return out


def _assemble(
    boxes: Boxes, layout: BoxLayout, order: np.ndarray, levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> KdTree:
    begin, end, splits = (np.concatenate([level[i] for level in levels]) for i in range(3))
    n_nodes = len(begin)
    child = np.empty(n_nodes, np.int32)
    child[splits] = 1 + 2 * np.arange(splits.sum())
    child[~splits] = ~np.arange(n_nodes - splits.sum())
    at = begin[~splits][:, None] + np.arange(LEAF_SLOTS)
    used = at < end[~splits][:, None]
    leaf_box = np.where(used, order[np.where(used, at, 0)], -1)
    lo, hi, sets = (a[leaf_box].swapaxes(1, 2).copy() for a in (boxes.lo, boxes.hi, boxes.sets))
    for array, unused in ((lo, EMPTY_LO), (hi, EMPTY_HI), (sets, 0)):
        array[np.broadcast_to(~used[:, None, :], array.shape)] = unused
    empty = lo > hi
    node_lo = np.empty((n_nodes, layout.n_features), np.uint16)
    node_hi, node_sets = np.empty_like(node_lo), np.empty((n_nodes, layout.n_set_words), np.uint64)
    # An empty range must not widen the bounding range: it counts as (largest, 0) until all are joined.
    node_lo[~splits] = np.where(empty, _NONE_LO, lo).min(axis=2)
    node_hi[~splits] = np.where(empty, 0, hi).max(axis=2)
    node_sets[~splits] = np.bitwise_or.reduce(sets, axis=2)
    inner, stop = np.flatnonzero(splits), n_nodes
    for _, _, level_splits in reversed(levels):
        start = stop - len(level_splits)
        nodes = inner[(inner >= start) & (inner < stop)]
        a, b = child[nodes], child[nodes] + 1
        node_lo[nodes] = np.minimum(node_lo[a], node_lo[b])
        node_hi[nodes] = np.maximum(node_hi[a], node_hi[b])
        node_sets[nodes] = node_sets[a] | node_sets[b]
        stop = start
    nothing = node_lo > node_hi
    node_lo[nothing], node_hi[nothing] = EMPTY_LO, EMPTY_HI
    return KdTree(
        node_lo, node_hi, node_sets, child, lo, hi, sets, used.sum(axis=1).astype(np.int32), leaf_box.astype(np.int32)
    )
