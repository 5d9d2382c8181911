"""A flat KD-tree over the boxes of one label, in blocks of eight.

Boxes are halved again and again at the median of the feature in which their centres spread most; three halvings make
one block, whose slots hold the tight bounding boxes of up to eight parts. The last blocks hold the boxes themselves. A
block keeps each feature's bounds slot by slot, side by side, so that the eight are priced at once, and inner blocks and
leaves are priced by the same code. Blocks lie breadth first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucf._boxes import EMPTY_HI, EMPTY_LO, BoxLayout, set_members
from gpucf._cells import ORDERED
from gpucf._compress import Boxes

SLOTS = 8
_HALVINGS = 3
# Every level has less than a quarter of the boxes per block of the level above: 4**16 boxes fit no memory.
MAX_DEPTH = 16
MAX_STACK = (SLOTS - 1) * MAX_DEPTH + SLOTS


@dataclass(frozen=True, eq=False)
class KdTree:
    """One tree; block 0 is the root.

    Attributes
    ----------
    lo, hi : uint16 arrays of shape (n_blocks, n_features, SLOTS)
    sets : uint64 array of shape (n_blocks, n_set_words, SLOTS)
        Bounding box of each slot: smallest range and union of sets.
    size : int32 array of shape (n_blocks,)
        Slots in use.
    child : int32 array of shape (n_blocks, SLOTS)
        Block of each slot, or ``~box`` (index in the map) in the last blocks.
    """

    lo: np.ndarray
    hi: np.ndarray
    sets: np.ndarray
    size: np.ndarray
    child: np.ndarray


def build_kdtree(boxes: Boxes, layout: BoxLayout, members: np.ndarray) -> KdTree:
    """KD-tree over the boxes `members` (indices, at least one)."""
    order = np.asarray(members, np.int64)
    centre = _centres(boxes, layout)
    begin, end = np.zeros(1, np.int64), np.full(1, len(order), np.int64)  # blocks of the level, as slices of `order`
    levels: list[tuple[np.ndarray, ...]] = []
    while len(begin):
        owner = np.arange(len(begin))
        part_begin, part_end = begin, end
        for _ in range(_HALVINGS):
            order, part_begin, part_end, owner = _halve(order, part_begin, part_end, owner, centre)
        inner = (end - begin > SLOTS)[owner]
        levels.append((begin, end, part_begin[inner], part_end[inner], owner[inner]))
        begin, end = part_begin[inner], part_end[inner]
    return _assemble(boxes, layout, order, levels)


def _centres(boxes: Boxes, layout: BoxLayout) -> np.ndarray:
    """Centre of each box in each feature, float32; one unit is the whole feature.

    Counted in codes, not in values: thresholds lie where boxes are small, and halving these evenly took a half to two
    thirds of the visits that halving values took (German credit).
    """
    out = (boxes.lo.astype(np.float32) + boxes.hi) * np.float32(0.5)
    for j in np.flatnonzero(layout.kind != ORDERED):
        member = set_members(boxes.sets, layout, int(j))
        out[:, j] = member @ np.arange(member.shape[1]) / member.sum(axis=1)
    return out / np.diff(layout.code_start).astype(np.float32)


def _halve(
    order: np.ndarray, begin: np.ndarray, end: np.ndarray, owner: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut each slice of more than SLOTS boxes at about its median, so that full blocks result."""
    length = end - begin
    large = length > SLOTS
    if not large.any():
        return order, begin, end, owner
    order = _sort_slices(order, begin[large], end[large], centre)
    middle = np.where(large, begin + SLOTS * ((length + SLOTS) // (2 * SLOTS)), end)
    begins, ends = np.stack([begin, middle], 1).ravel(), np.stack([middle, end], 1).ravel()
    filled = begins < ends
    return order, begins[filled], ends[filled], np.repeat(owner, 2)[filled]


def _sort_slices(order: np.ndarray, begin: np.ndarray, end: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Order the boxes of each slice by their centres in the feature in which these spread most."""
    length = end - begin
    owner = np.repeat(np.arange(len(begin)), length)
    first = np.cumsum(length) - length
    at = np.arange(len(owner)) + np.repeat(begin - first, length)
    inside = order[at]
    spread = np.zeros((len(begin), max(centre.shape[1], 1)), np.float32)
    for j in range(centre.shape[1]):
        c = centre[inside, j]
        spread[:, j] = np.maximum.reduceat(c, first) - np.minimum.reduceat(c, first)
    key = centre[inside, spread.argmax(axis=1)[owner]]
    out = order.copy()
    out[at] = inside[np.lexsort((key, owner))]
    return out


def _assemble(boxes: Boxes, layout: BoxLayout, order: np.ndarray, levels: list[tuple[np.ndarray, ...]]) -> KdTree:
    if len(levels) > MAX_DEPTH:
        raise RuntimeError(f"the KD-tree has {len(levels)} levels; at most {MAX_DEPTH} were thought possible")
    n_blocks = sum(len(level[0]) for level in levels)
    tree = KdTree(
        np.full((n_blocks, layout.n_features, SLOTS), EMPTY_LO, np.uint16),
        np.full((n_blocks, layout.n_features, SLOTS), EMPTY_HI, np.uint16),
        np.zeros((n_blocks, layout.n_set_words, SLOTS), np.uint64),
        np.zeros(n_blocks, np.int32),
        np.zeros((n_blocks, SLOTS), np.int32),
    )
    stop = n_blocks
    for begin, end, parts, _, owner in reversed(levels):
        start = stop - len(begin)
        last = np.flatnonzero(end - begin <= SLOTS)
        slot = np.arange(SLOTS)
        used = slot < (end - begin)[last][:, None]
        box = order[np.where(used, begin[last][:, None] + slot, 0)]
        _put(tree, start + np.repeat(last, SLOTS)[used.ravel()], np.tile(slot, len(last))[used.ravel()],
             boxes.lo[box[used]], boxes.hi[box[used]], boxes.sets[box[used]], ~box[used])  # fmt: skip
        if len(parts):
            children = np.arange(stop, stop + len(parts))
            number = np.arange(len(parts)) - np.searchsorted(owner, owner)
            _put(tree, start + owner, number, *_bounds(tree, children), children)
        stop = start
    return tree


def _put(tree: KdTree, block: np.ndarray, slot: np.ndarray, lo: np.ndarray, hi: np.ndarray, sets: np.ndarray,
         child: np.ndarray) -> None:  # fmt: skip
    tree.lo[block, :, slot] = lo
    tree.hi[block, :, slot] = hi
    tree.sets[block, :, slot] = sets
    tree.child[block, slot] = child
    np.add.at(tree.size, block, 1)


def _bounds(tree: KdTree, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounding box of each block; an empty range widens nothing (unused slots are empty)."""
    lo, hi = tree.lo[blocks], tree.hi[blocks]
    empty = lo > hi
    low = np.where(empty, np.uint16(65535), lo).min(axis=2)
    high = np.where(empty, np.uint16(0), hi).max(axis=2)
    nothing = low > high
    low[nothing], high[nothing] = EMPTY_LO, EMPTY_HI
    return low, high, np.bitwise_or.reduce(tree.sets[blocks], axis=2)
