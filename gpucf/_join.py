"""Joining: boxes of one label that share a whole face become one box; small partitions are then cut anew."""

from __future__ import annotations

import numpy as np

from gpucf._boxes import BoxLayout
from gpucf._cells import ORDERED
from gpucf._compress import Boxes
from gpucf._jit import inline, njit
from gpucf._recut import n_steps, recut

_LEAST_SHARE = 0.02  # the first round finds nearly all; a large partition is not worth a tenth one


def join(boxes: Boxes, layout: BoxLayout) -> Boxes:
    """Fewer boxes with the same union of each label.

    Parameters
    ----------
    boxes : Boxes
        Disjoint, and together the whole space, as the outcome of a complete compression is. A partition that is small
        enough is also cut anew (see `gpucf._recut`); that is decided by counts, never by time.

    Returns
    -------
    Boxes
        Never more than were given.
    """
    joined = join_faces(boxes, layout, least_share=_LEAST_SHARE)
    steps = n_steps(len(joined), layout)
    return join_faces(recut(joined, layout, steps), layout) if steps else joined


def join_faces(boxes: Boxes, layout: BoxLayout, least_share: float = 0.0) -> Boxes:
    """Join boxes feature by feature; the union and the labels stay the same.

    Ends when a round over all features joins nothing, or no more than the share `least_share` of the boxes.
    """
    n = len(boxes)
    if n < 2:
        return boxes
    joined = Boxes(boxes.lo.copy(), boxes.hi.copy(), boxes.sets.copy(), boxes.label)
    left = np.arange(n)
    n_left = _join(
        joined.lo, joined.hi, joined.sets, joined.label, layout.kind, layout.set_start,
        least_share, left, np.empty(4 << n.bit_length(), np.bool_), np.full(1 << n.bit_length(), -1),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.uint64),
        np.ones(n, np.bool_),
    )  # fmt: skip
    return joined.take(left[:n_left]) if n_left < n else boxes


@njit
def _join(
    lo, hi, sets, label, kind, set_start, least_share, left, seen, head, following, group, whole, rest, keep
):  # fmt: skip
    """Feature by feature, gather the boxes that are equal but for that feature by their hashes, and join them.

    `left` lists the boxes that are left. A box's hash is the sum of its features' hashes, so that leaving one out is a
    subtraction. Returns the number of boxes left.
    """
    n_features = len(kind)
    n = len(left)
    for i in range(n):
        whole[i] = np.uint64(label[i])
        for j in range(n_features):
            whole[i] += _feature_hash(i, j, lo, hi, sets, set_start)
    idle = 0  # features since the last join
    j = 0
    at_start = n  # of the round
    while idle < n_features and n > 1:
        for x in range(n):
            rest[left[x]] = whole[left[x]] - _feature_hash(left[x], j, lo, hi, sets, set_start)
        _gather(n, left, rest, seen, head, following)
        for x in range(n):
            b = _bucket(rest[left[x]], head)
            while head[b] >= 0:
                n_group = _take_group(b, j, lo, hi, sets, label, set_start, head, following, group, rest)
                if n_group > 1:
                    _join_group(j, n_group, lo, hi, sets, kind, set_start, group, whole, rest, keep)
        before = n
        n = 0
        for x in range(before):
            if keep[left[x]]:
                left[n] = left[x]
                n += 1
        idle = 0 if n < before else idle + 1
        j += 1
        if j == n_features:
            if at_start - n <= least_share * at_start:
                break
            at_start = n
            j = 0
    return n


@inline
def _bucket(h, table):
    return np.int64(_mix(h) & np.uint64(len(table) - 1))


@inline
def _gather(n, left, rest, seen, head, following):
    """Chain the boxes whose hash some other box may share: most share it with none, and are left out cheaply."""
    for b in range(len(seen)):
        seen[b] = False
    for x in range(n):
        i = left[x]
        b = _bucket(rest[i], seen)
        following[i] = 1 if seen[b] else 0
        seen[b] = True
    for b in range(len(seen)):
        seen[b] = False
    for x in range(n - 1, -1, -1):
        i = left[x]
        b = _bucket(rest[i], seen)
        alone = following[i] == 0 and not seen[b]
        seen[b] = True
        if not alone:
            b = _bucket(rest[i], head)
            following[i] = head[b]
            head[b] = i


@inline
def _mix(v):
    v = (v ^ (v >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    v = (v ^ (v >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return v ^ (v >> np.uint64(32))


@inline
def _feature_hash(i, j, lo, hi, sets, set_start):
    h = _mix((np.uint64(j + 1) << np.uint64(32)) | (np.uint64(lo[i, j]) << np.uint64(16)) | np.uint64(hi[i, j]))
    for w in range(set_start[j], set_start[j + 1]):
        h = _mix(h + sets[i, w])
    return h


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


@inline
def _take_group(b, j, lo, hi, sets, label, set_start, head, following, group, rest):
    """Move the first box of a bucket, and all that equal it but for feature j, to `group`, by rising `lo`."""
    first = head[b]
    n_group = 0
    previous = -1
    i = first
    while i >= 0:
        behind = following[i]
        if rest[i] == rest[first] and _same_but(j, first, i, lo, hi, sets, label, set_start):
            if previous < 0:
                head[b] = behind
            else:
                following[previous] = behind
            at = n_group
            while at > 0 and lo[group[at - 1], j] > lo[i, j]:
                group[at] = group[at - 1]
                at -= 1
            group[at] = i
            n_group += 1
        else:
            previous = i
        i = behind
    return n_group


@inline
def _join_group(j, n_group, lo, hi, sets, kind, set_start, group, whole, rest, keep):
    """Join boxes that are equal but for feature j: sets always, ranges where they touch."""
    current = group[0]
    for x in range(1, n_group):
        i = group[x]
        if kind[j] == ORDERED and lo[current, j] <= hi[current, j] and lo[i, j] <= hi[i, j]:
            if np.int64(hi[current, j]) + 1 != np.int64(lo[i, j]):
                whole[current] = rest[current] + _feature_hash(current, j, lo, hi, sets, set_start)
                current = i
                continue
            hi[current, j] = hi[i, j]
        elif lo[current, j] > hi[current, j]:
            lo[current, j] = lo[i, j]
            hi[current, j] = hi[i, j]
        for w in range(set_start[j], set_start[j + 1]):
            sets[current, w] |= sets[i, w]
        keep[i] = False
    whole[current] = rest[current] + _feature_hash(current, j, lo, hi, sets, set_start)
