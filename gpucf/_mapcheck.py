"""Proof that a region map is a partition with the model's labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._boxes import BoxLayout, set_members
from gpucf._cells import ORDERED
from gpucf._compress import Boxes
from gpucf._jit import inline, njit
from gpucf._kdtree import MAX_STACK, build_kdtree
from gpucf._regionmap import RegionMap, model_labels


def check_map(region_map: RegionMap, samples_per_region: int, seed: int) -> dict[str, Any]:
    """See `RegionMap.check`."""
    boxes, layout = region_map.boxes, region_map.layout
    overlap = find_overlap(boxes, layout)
    if overlap is not None:
        raise AssertionError(f"regions {overlap[0]} and {overlap[1]} overlap")
    lo, hi, sets = layout.whole()
    space = Boxes(lo[None], hi[None], sets[None], np.zeros(1, np.int16))
    held, whole = sum(box_sizes(boxes, layout)), box_sizes(space, layout)[0]
    if held != whole:
        raise AssertionError(f"the regions hold {held} of {whole} points")
    return {"regions": len(boxes), "points_checked": _check_labels(region_map, samples_per_region, seed)}


def box_sizes(boxes: Boxes, layout: BoxLayout) -> list[int]:
    """Number of points (code combinations) in each box, exactly."""
    per_feature = np.empty((len(boxes), layout.n_features), np.int64)
    for j in range(layout.n_features):
        words = boxes.sets[:, layout.set_start[j] : layout.set_start[j + 1]]
        if layout.kind[j] == ORDERED:
            width = boxes.hi[:, j].astype(np.int64) - boxes.lo[:, j] + 1
            null = (words & np.uint64(1)).sum(axis=1) if words.shape[1] else 0
            per_feature[:, j] = width + null
        else:
            per_feature[:, j] = np.bitwise_count(words).sum(axis=1)
    sizes = []
    for row in per_feature.tolist():
        product = 1
        for n in row:
            product *= n
        sizes.append(product)
    return sizes


def find_overlap(boxes: Boxes, layout: BoxLayout) -> tuple[int, int] | None:
    """Two boxes that share a point, or None: the proof of disjointness."""
    tree = build_kdtree(boxes, layout, np.arange(len(boxes)))
    a, b = _find_overlap(
        boxes.lo, boxes.hi, boxes.sets, layout.kind, layout.set_start, tree.lo, tree.hi, tree.sets, tree.size,
        tree.child,
    )  # fmt: skip
    return None if a < 0 else (int(a), int(b))


@inline
def _meets(i, lo, hi, sets, block, slot, block_lo, block_hi, block_sets, kind, set_start):
    """Whether box `i` shares a point with the box in a slot."""
    for j in range(len(kind)):
        shared = False
        if kind[j] == ORDERED and lo[i, j] <= hi[i, j] and block_lo[block, j, slot] <= block_hi[block, j, slot]:
            shared = max(lo[i, j], block_lo[block, j, slot]) <= min(hi[i, j], block_hi[block, j, slot])
        for w in range(set_start[j], set_start[j + 1]):
            shared = shared or sets[i, w] & block_sets[block, w, slot] != 0
        if not shared:
            return False
    return True


@njit
def _find_overlap(lo, hi, sets, kind, set_start, block_lo, block_hi, block_sets, size, child):
    stack = np.empty(MAX_STACK, np.int64)
    for i in range(len(lo)):
        top = 0
        stack[0] = 0
        while top >= 0:
            block = stack[top]
            top -= 1
            for slot in range(size[block]):
                below = np.int64(child[block, slot])
                if below < 0 and ~below <= i:
                    continue
                if _meets(i, lo, hi, sets, block, slot, block_lo, block_hi, block_sets, kind, set_start):
                    if below < 0:
                        return i, ~below
                    top += 1
                    stack[top] = below
    return -1, -1


def _check_labels(region_map: RegionMap, samples: int, seed: int) -> int:
    """Labels at both corners and at random points of every region, each at the first and last value of its cells."""
    rng = np.random.default_rng(seed)
    checked = 0
    for number in range(samples + 2):
        codes = _points(region_map, number, rng)
        upper = np.full(codes.shape, number == 1) if number < 2 else rng.random(codes.shape) < 0.5
        labels = model_labels(region_map.ensemble, region_map.cells, region_map.rule, codes, upper)
        wrong = np.flatnonzero(labels != region_map.boxes.label)
        if len(wrong):
            at = int(wrong[0])
            raise AssertionError(f"region {at} has label {region_map.boxes.label[at]}, but the model says {labels[at]}")
        checked += len(codes)
    return checked


def _points(region_map: RegionMap, number: int, rng: np.random.Generator) -> np.ndarray:
    """One point of every region: number 0 the lower corner, 1 the upper corner, others random."""
    boxes, layout = region_map.boxes, region_map.layout
    n_codes = region_map.cells.n_codes
    codes = np.empty((len(boxes), layout.n_features), np.int64)
    for j in range(layout.n_features):
        words = boxes.sets[:, layout.set_start[j] : layout.set_start[j + 1]]
        lo, hi = boxes.lo[:, j].astype(np.int64), boxes.hi[:, j].astype(np.int64)
        if layout.kind[j] == ORDERED:
            codes[:, j] = lo if number == 0 else hi if number == 1 else rng.integers(lo, np.maximum(hi, lo) + 1)
            if words.shape[1]:
                null = (words[:, 0] & np.uint64(1)) != 0
                pick = (lo > hi) | (null & (rng.random(len(boxes)) < 0.3 if number > 1 else False))
                codes[pick, j] = n_codes[j] - 1
            continue
        member = set_members(boxes.sets, layout, j)
        if number < 2:
            codes[:, j] = (
                np.argmax(member, axis=1) if number == 0 else n_codes[j] - 1 - np.argmax(member[:, ::-1], axis=1)
            )
        else:
            codes[:, j] = np.argmax(member * rng.random(member.shape), axis=1)
    return codes
