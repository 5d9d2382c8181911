"""Compression: from an ensemble to a partition of the code space into labelled boxes.

Branch from the whole space; bound the score of each box by the library's own sums over extreme reachable leaves; stop
as soon as the label is settled; otherwise split where the most leaf range is undecided. The method is the map
compression of the counterfactual-map paper with early label decision (design, section 6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros

from gpucf._boxes import EMPTY_HI, EMPTY_LO, BoxLayout
from gpucf._cells import ORDERED, Cells
from gpucf._ensemble import VECTOR_LEAF, Ensemble
from gpucf._jit import helper, inline, njit
from gpucf._labels import UNDECIDED, LabelRule, label_of_bounds, label_of_sums
from gpucf._masks import LeafMasks
from gpucf._merge import rounded_trees

_CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class Boxes:
    """Labelled boxes; `lo`, `hi` are uint16 (n, n_features), `sets` uint64 (n, n_set_words), `label` int16 (n,)."""

    lo: np.ndarray
    hi: np.ndarray
    sets: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def take(self, index: np.ndarray) -> Boxes:
        return Boxes(self.lo[index], self.hi[index], self.sets[index], self.label[index])


@dataclass(frozen=True)
class Compressed:
    """Outcome of a compression: `complete` is False where the budget or the caller stopped it."""

    boxes: Boxes
    complete: bool
    share_done: float


def compress(
    ensemble: Ensemble,
    cells: Cells,
    masks: LeafMasks,
    layout: BoxLayout,
    rule: LabelRule,
    max_boxes: int,
    keep_going: Callable[[int, float], bool] = lambda n_boxes, share: True,
) -> Compressed:
    """Partition the code space into boxes with one label each.

    Parameters
    ----------
    max_boxes : int
        Stop, incomplete, when more boxes than this appear.
    keep_going : callable
        Called now and then with the number of boxes and the share of the work done (by halving at each split);
        False stops the compression, incomplete.
    """
    state = _State.start(ensemble, cells, masks, layout)
    rounds = rounded_trees(ensemble)
    parts: list[Boxes] = []
    n, share = 0, 0.0
    while True:
        chunk = min(_CHUNK, max_boxes + 1 - n)
        out = Boxes(
            np.empty((chunk, layout.n_features), np.uint16),
            np.empty((chunk, layout.n_features), np.uint16),
            np.empty((chunk, layout.n_set_words), np.uint64),
            np.empty(chunk, np.int16),
        )
        got, state.depth, done = _run(
            rule, state.depth, state.lo, state.hi, state.sets, state.mask, state.node, state.low, state.high,
            state.share, ensemble.left, ensemble.right, cells.node_split, cells.split_feature, cells.split_cut,
            cells.split_set, cells.split_missing_left, cells.set_words, layout.kind, layout.code_start,
            layout.set_start, masks.word_start, masks.at_least, masks.at_most, masks.value, ensemble.tree_output,
            rounds, ensemble.base, out.lo, out.hi, out.sets, out.label,
        )  # fmt: skip
        parts.append(out.take(np.arange(got)))
        n += got
        share += done
        if state.depth < 0 and n <= max_boxes:
            return Compressed(_concatenate(parts), True, 1.0)
        if n > max_boxes or not keep_going(n, share):
            return Compressed(_concatenate(parts), False, share)
        if state.depth + 1 >= len(state.share):
            state.grow()


def _concatenate(parts: list[Boxes]) -> Boxes:
    return Boxes(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("lo", "hi", "sets", "label")))


@dataclass
class _State:
    """The stack of boxes still to be looked at; row 0 is the whole space."""

    depth: int
    lo: np.ndarray
    hi: np.ndarray
    sets: np.ndarray
    mask: np.ndarray
    node: np.ndarray
    low: np.ndarray
    high: np.ndarray
    share: np.ndarray

    @classmethod
    def start(cls, ensemble: Ensemble, cells: Cells, masks: LeafMasks, layout: BoxLayout) -> _State:
        rows = 64
        n_out = ensemble.leaf_value.shape[1]
        state = cls(
            depth=0,
            lo=np.zeros((rows, layout.n_features), np.int32),
            hi=np.zeros((rows, layout.n_features), np.int32),
            sets=np.zeros((rows, layout.n_set_words), np.uint64),
            mask=np.zeros((rows, len(masks.full)), np.uint64),
            node=np.zeros((rows, ensemble.n_trees), np.int32),
            low=np.zeros((rows, ensemble.n_trees, n_out), ensemble.score_dtype),
            high=np.zeros((rows, ensemble.n_trees, n_out), ensemble.score_dtype),
            share=np.ones(rows),
        )
        state.lo[0], state.hi[0], state.sets[0] = layout.whole()
        state.mask[0] = masks.full
        state.node[0] = ensemble.tree_start[:-1]
        _restrict_to_box(
            state.lo[0], state.hi[0], state.sets[0], layout.kind, layout.code_start, layout.set_start,
            masks.at_least, masks.at_most, state.mask[0],
        )  # fmt: skip
        _all_extremes(state.mask[0], masks.word_start, masks.value, state.low[0], state.high[0])
        return state

    def grow(self) -> None:
        for name in ("lo", "hi", "sets", "mask", "node", "low", "high", "share"):
            old = getattr(self, name)
            new = np.zeros((2 * len(old), *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


@helper
def _feature_mask(j, lo, hi, sets, kind, code_start, set_start, at_least, at_most, out):
    """Write to `out` the leaves that the box's codes of feature `j` leave reachable."""
    first = code_start[j]
    for w in range(len(out)):
        out[w] = np.uint64(0)
    if kind[j] == ORDERED:
        if lo[j] <= hi[j]:
            a = first + lo[j]
            b = first + hi[j]
            for w in range(len(out)):
                out[w] = at_least[a, w] & at_most[b, w]
        if set_start[j + 1] > set_start[j] and sets[set_start[j]] & np.uint64(1) != 0:
            a = code_start[j + 1] - 1
            for w in range(len(out)):
                out[w] |= at_least[a, w]
        return
    for s in range(set_start[j], set_start[j + 1]):
        members = sets[s]
        while members != 0:
            a = first + 64 * (s - set_start[j]) + np.int64(trailing_zeros(members))
            members &= members - np.uint64(1)
            for w in range(len(out)):
                out[w] |= at_least[a, w]


@njit
def _restrict_to_box(lo, hi, sets, kind, code_start, set_start, at_least, at_most, mask):
    allowed = np.empty(len(mask), np.uint64)
    for j in range(len(kind)):
        _feature_mask(j, lo, hi, sets, kind, code_start, set_start, at_least, at_most, allowed)
        for w in range(len(mask)):
            mask[w] &= allowed[w]


@helper
def _extremes(t, mask, word_start, value, low, high):
    """Smallest and largest reachable leaf value of tree `t`, output by output."""
    if value.shape[1] == 1:  # leaves lie by falling value: the first is the largest, the last the smallest
        for w in range(word_start[t], word_start[t + 1]):
            if mask[w] != 0:
                high[t, 0] = value[64 * w + trailing_zeros(mask[w]), 0]
                break
        for w in range(word_start[t + 1] - 1, word_start[t] - 1, -1):
            if mask[w] != 0:
                low[t, 0] = value[64 * w + 63 - leading_zeros(mask[w]), 0]
                break
        return
    first = True
    for w in range(word_start[t], word_start[t + 1]):
        members = mask[w]
        while members != 0:
            row = 64 * w + trailing_zeros(members)
            members &= members - np.uint64(1)
            for c in range(value.shape[1]):
                v = value[row, c]
                if first:
                    low[t, c] = v
                    high[t, c] = v
                else:
                    low[t, c] = min(low[t, c], v)
                    high[t, c] = max(high[t, c], v)
            first = False


@njit
def _all_extremes(mask, word_start, value, low, high):
    for t in range(len(word_start) - 1):
        _extremes(t, mask, word_start, value, low, high)


@inline
def _add(per_tree, tree_output, rounds, base, sums):
    """The library's own sum, in its dtype and order, over one chosen leaf of every tree (see `rounded_trees`)."""
    for c in range(len(base)):
        sums[c] = base[c]
    for t in range(len(tree_output)):
        c = tree_output[t]
        if rounds[t]:
            sums[c] = np.float32(sums[c] + per_tree[t, 0])
        elif c != VECTOR_LEAF:
            sums[c] = sums[c] + per_tree[t, 0]
        else:
            for k in range(len(base)):
                sums[k] = sums[k] + per_tree[t, k]


@inline
def split_sides(s, lo, hi, sets, kind, set_start, split_feature, split_cut, split_set, split_missing_left, set_words):
    """Which sides of split `s` the box reaches: bit 0 left, bit 1 right."""
    j = split_feature[s]
    sides = 0
    if kind[j] == ORDERED:
        if lo[j] <= hi[j]:
            if lo[j] <= split_cut[s]:
                sides |= 1
            if hi[j] > split_cut[s]:
                sides |= 2
        if set_start[j + 1] > set_start[j] and sets[set_start[j]] & np.uint64(1) != 0:
            sides |= 1 if split_missing_left[s] else 2
        return sides
    for w in range(set_start[j], set_start[j + 1]):
        goes_left = set_words[split_set[s], w - set_start[j]]
        if sets[w] & goes_left != 0:
            sides |= 1
        if sets[w] & ~goes_left != 0:
            sides |= 2
    return sides


@helper
def cut_box(
    s, is_left, lo, hi, sets, kind, set_start, split_feature, split_cut, split_set, split_missing_left, set_words
):
    """Keep of a box what goes to one side of split `s`."""
    j = split_feature[s]
    if kind[j] == ORDERED:
        if lo[j] <= hi[j]:
            if is_left:
                hi[j] = min(hi[j], split_cut[s])
            else:
                lo[j] = max(lo[j], split_cut[s] + 1)
            if lo[j] > hi[j]:
                lo[j] = EMPTY_LO
                hi[j] = EMPTY_HI
        if set_start[j + 1] > set_start[j] and split_missing_left[s] != is_left:
            sets[set_start[j]] = np.uint64(0)
        return
    for w in range(set_start[j], set_start[j + 1]):
        goes_left = set_words[split_set[s], w - set_start[j]]
        sets[w] &= goes_left if is_left else ~goes_left


@helper
def _pick_split(
    lo, hi, sets, node, low, high, left, right, node_split, kind, set_start, split_feature, split_cut, split_set,
    split_missing_left, set_words, weight, touched,
):  # fmt: skip
    """The undecided split with the largest leaf range summed over trees, or -1 where no tree has a range left.

    Moves each tree's `node` down to its first undecided split.
    """
    n_touched = 0
    best = -1
    best_weight = 0.0
    for t in range(len(node)):
        spread = 0.0
        for c in range(low.shape[1]):
            spread += np.float64(high[t, c]) - np.float64(low[t, c])
        if spread <= 0.0:
            continue
        v = node[t]
        while True:
            s = node_split[v]
            sides = split_sides(
                s, lo, hi, sets, kind, set_start, split_feature, split_cut, split_set, split_missing_left, set_words
            )
            if sides == 3:
                break
            v = left[v] if sides == 1 else right[v]
        node[t] = v
        if weight[s] == 0.0:
            touched[n_touched] = s
            n_touched += 1
        weight[s] += spread
        if weight[s] > best_weight:
            best_weight = weight[s]
            best = s
    for i in range(n_touched):
        weight[touched[i]] = 0.0
    return best


@inline
def _copy_row(source, row, target, to):
    # Spelled out: assigning whole rows takes numba ten times as long to compile.
    for i in range(source.shape[1]):
        target[to, i] = source[row, i]


@njit
def _run(
    rule, depth, lo, hi, sets, mask, node, low, high, share, left, right, node_split, split_feature, split_cut,
    split_set, split_missing_left, set_words, kind, code_start, set_start, word_start, at_least, at_most, value,
    tree_output, rounds, base, out_lo, out_hi, out_sets, out_label,
):  # fmt: skip
    """Work the stack until the output is full, the stack must grow, or nothing is left (depth -1)."""
    sum_low = np.empty(len(base), base.dtype)
    sum_high = np.empty(len(base), base.dtype)
    raw_low = np.empty(len(base), np.float64)
    raw_high = np.empty(len(base), np.float64)
    weight = np.zeros(len(split_feature), np.float64)
    touched = np.empty(len(tree_output), np.int64)
    allowed = np.empty(mask.shape[1], np.uint64)
    emitted = 0
    done = 0.0
    while depth >= 0 and emitted < len(out_label) and depth + 1 < len(share):
        _add(low[depth], tree_output, rounds, base, sum_low)
        _add(high[depth], tree_output, rounds, base, sum_high)
        label = label_of_bounds(rule, sum_low, sum_high, raw_low, raw_high)
        s = -1
        if label == UNDECIDED:
            s = _pick_split(
                lo[depth], hi[depth], sets[depth], node[depth], low[depth], high[depth], left, right, node_split,
                kind, set_start, split_feature, split_cut, split_set, split_missing_left, set_words, weight, touched,
            )  # fmt: skip
            if s < 0:
                label = label_of_sums(rule, sum_low, raw_low)
        if s < 0:
            _copy_row(lo, depth, out_lo, emitted)
            _copy_row(hi, depth, out_hi, emitted)
            _copy_row(sets, depth, out_sets, emitted)
            out_label[emitted] = label
            emitted += 1
            done += share[depth]
            depth -= 1
            continue
        j = split_feature[s]
        share[depth] *= 0.5
        for rows in (lo, hi, node):
            _copy_row(rows, depth, rows, depth + 1)
        for words in (sets, mask):
            _copy_row(words, depth, words, depth + 1)
        for extremes in (low, high):
            for t in range(extremes.shape[1]):
                for c in range(extremes.shape[2]):
                    extremes[depth + 1, t, c] = extremes[depth, t, c]
        share[depth + 1] = share[depth]
        for d in range(depth, depth + 2):
            cut_box(
                s, d > depth, lo[d], hi[d], sets[d], kind, set_start, split_feature, split_cut, split_set,
                split_missing_left, set_words,
            )  # fmt: skip
            _feature_mask(j, lo[d], hi[d], sets[d], kind, code_start, set_start, at_least, at_most, allowed)
            for t in range(len(word_start) - 1):
                changed = False
                for w in range(word_start[t], word_start[t + 1]):
                    new = mask[d, w] & allowed[w]
                    changed = changed or new != mask[d, w]
                    mask[d, w] = new
                if changed:
                    _extremes(t, mask[d], word_start, value, low[d], high[d])
        depth += 1
    return emitted, depth, done
