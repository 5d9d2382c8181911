"""Joining: boxes of one label that share a whole face become one box; small partitions are then cut anew."""

from __future__ import annotations

import numpy as np

from gpucf._boxes import BoxLayout
from gpucf._cells import ORDERED
from gpucf._compress import Boxes
from gpucf._jit import inline, njit
from gpucf._recut import n_steps, recut


def join(boxes: Boxes, layout: BoxLayout) -> Boxes:
    """Fewer boxes with the same union of each label.

    Parameters
    ----------
    boxes : Boxes
        Disjoint. Where they leave nothing out, as the outcome of a complete compression does, a partition that is small
        enough is also cut anew (see `gpucf._recut`): that is decided by counts, never by time.

    Returns
    -------
    Boxes
        Never more than were given.
    """
    joined = join_faces(boxes, layout)
    steps = n_steps(len(joined), layout)
    return join_faces(recut(joined, layout, steps), layout) if steps else joined


def join_faces(boxes: Boxes, layout: BoxLayout) -> Boxes:
    """Join boxes feature by feature until nothing more joins; the union and the labels stay the same."""
    idle = 0
    n_features = layout.n_features
    j = 0
    while idle < n_features and len(boxes) > 1:
        before = len(boxes)
        boxes = _join_along(boxes, layout, j)
        idle = 0 if len(boxes) < before else idle + 1
        j = (j + 1) % n_features
    return boxes


def _join_along(boxes: Boxes, layout: BoxLayout, j: int) -> Boxes:
    rest = np.empty(len(boxes), np.uint64)
    _hash_without(j, boxes.lo, boxes.hi, boxes.sets, boxes.label, layout.set_start, rest)
    order = np.lexsort((boxes.lo[:, j], rest)).astype(np.int64)
    joined = Boxes(boxes.lo.copy(), boxes.hi.copy(), boxes.sets.copy(), boxes.label)
    keep = np.ones(len(boxes), np.bool_)
    _sweep(j, order, rest, joined.lo, joined.hi, joined.sets, joined.label, layout.kind, layout.set_start, keep)
    return joined.take(np.flatnonzero(keep))


@inline
def _mix(h, v):
    h = (h ^ v) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(29))


@njit
def _hash_without(j, lo, hi, sets, label, set_start, out):
    for i in range(len(lo)):
        h = np.uint64(label[i] + 1)
        for f in range(lo.shape[1]):
            if f == j:
                continue
            h = _mix(h, (np.uint64(lo[i, f]) << np.uint64(16)) | np.uint64(hi[i, f]))
            for w in range(set_start[f], set_start[f + 1]):
                h = _mix(h, sets[i, w])
        out[i] = h


@inline
def _same_but(j, a, b, lo, hi, sets, label, set_start):
    if label[a] != label[b]:
        return False
    for f in range(lo.shape[1]):
        if f == j:
            continue
        if lo[a, f] != lo[b, f] or hi[a, f] != hi[b, f]:
            return False
        for w in range(set_start[f], set_start[f + 1]):
            if sets[a, w] != sets[b, w]:
                return False
    return True


@njit
def _sweep(j, order, rest, lo, hi, sets, label, kind, set_start, keep):
    """Join runs of boxes that are equal but for feature j: sets always, ranges where they touch."""
    current = -1
    for i in order:
        if current < 0 or rest[i] != rest[current] or not _same_but(j, current, i, lo, hi, sets, label, set_start):
            current = i
            continue
        if kind[j] == ORDERED:
            empty_current = lo[current, j] > hi[current, j]
            empty_i = lo[i, j] > hi[i, j]
            if not empty_current and not empty_i and hi[current, j] + 1 != lo[i, j]:
                current = i
                continue
            if empty_current:
                lo[current, j] = lo[i, j]
                hi[current, j] = hi[i, j]
            elif not empty_i:
                hi[current, j] = hi[i, j]
        for w in range(set_start[j], set_start[j + 1]):
            sets[current, w] |= sets[i, w]
        keep[i] = False
