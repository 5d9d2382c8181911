"""Leaf masks: for each tree, which leaves a range of codes leaves reachable, as 64-bit words.

The leaves of a tree are numbered by falling value, so that with scalar leaves the first set bit of a reachable mask is
the largest reachable value and the last set bit the smallest. Cutting a box is then an AND over words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucf._cells import ORDERED, Cells
from gpucf._ensemble import Ensemble
from gpucf._jit import inline, njit


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Tables of reachable leaves.

    A box that holds the codes ``lo..hi`` of an ordered feature keeps the leaves ``at_least[lo] & at_most[hi]``; one
    that holds "missing", or a category, keeps those of that code's row (equal in both tables); several are ORed. Over
    features, masks are ANDed.

    Attributes
    ----------
    word_start : int64 array of shape (n_trees + 1,)
        Words of each tree within a mask.
    at_least, at_most : uint64 arrays of shape (n_codes, n_words)
        Row ``code_start[j] + k`` of feature `j`, code `k`.
    full : uint64 array of shape (n_words,)
        All leaves.
    value : score dtype array of shape (n_words * 64, n_leaf_outputs)
        Leaf values by bit: row ``64 * word_start[t] + bit``.
    """

    word_start: np.ndarray
    at_least: np.ndarray
    at_most: np.ndarray
    full: np.ndarray
    value: np.ndarray


def make_masks(ensemble: Ensemble, cells: Cells) -> LeafMasks:
    """Leaf masks of an ensemble over its cells."""
    e = ensemble
    tree_of_node = np.repeat(np.arange(e.n_trees), np.diff(e.tree_start))
    is_leaf = e.leaf >= 0
    n_leaves = np.bincount(tree_of_node[is_leaf], minlength=e.n_trees)
    word_start = np.concatenate([[0], np.cumsum((n_leaves + 63) // 64)]).astype(np.int64)
    n_words = int(word_start[-1])
    bit = np.full(e.n_nodes, -1, np.int64)
    value = np.zeros((n_words * 64, e.leaf_value.shape[1]), e.score_dtype)
    leaf_nodes = np.flatnonzero(is_leaf)
    key = e.leaf_value[e.leaf[leaf_nodes], -1]
    # Leaves of equal value in the order of the first output: two outputs that mirror each other are then both sorted.
    mirror = e.leaf_value[e.leaf[leaf_nodes], 0]
    order = leaf_nodes[np.lexsort((mirror, -key, tree_of_node[leaf_nodes]))]
    first = np.concatenate([[0], np.cumsum(n_leaves)])
    bit[order] = np.arange(len(order)) - first[tree_of_node[order]] + 64 * word_start[tree_of_node[order]]
    value[bit[order]] = e.leaf_value[e.leaf[order]]
    full = np.zeros(n_words, np.uint64)
    np.bitwise_or.at(full, bit[order] >> 6, np.uint64(1) << (bit[order] & 63).astype(np.uint64))
    at_least = np.tile(full, (int(cells.code_start[-1]), 1))
    at_most = at_least.copy()
    _fill(
        e.tree_start, e.left, e.right, cells.node_split, bit, cells.kind, cells.code_start, cells.split_feature,
        cells.split_cut, cells.split_set, cells.split_missing_left, cells.set_words, at_least, at_most,
    )  # fmt: skip
    return LeafMasks(word_start, at_least, at_most, full, value)


@njit
def _fill(
    tree_start, left, right, node_split, bit, kind, code_start, split_feature, split_cut, split_set,
    split_missing_left, set_words, at_least, at_most,
):  # fmt: skip
    """Clear, for every leaf and every feature on its path, the bits of the codes that the path forbids.

    One walk per tree with an undo list, so that the time is bounded by nodes plus leaves times features, however deep
    the tree. `lo`, `hi`, `null` and `words` hold what the path to the current node allows.
    """
    n_features = len(kind)
    n_words = set_words.shape[1]
    lo = np.zeros(n_features, np.int64)
    hi = np.empty(n_features, np.int64)
    for j in range(n_features):
        hi[j] = code_start[j + 1] - code_start[j] - 2
    null = np.ones(n_features, np.bool_)
    words = ~np.zeros((n_features, n_words), np.uint64)
    depth = np.empty(len(left), np.int64)
    on_path = np.zeros(n_features, np.int64)  # splits of each feature on the path
    for t in range(len(tree_start) - 1):
        depth_max = _depth(tree_start[t], tree_start[t + 1], left, right, depth)
        path = np.empty(depth_max + 1, np.int64)
        side = np.empty(depth_max + 1, np.int8)  # 0: nothing done yet, 1: in the left subtree, 2: in the right
        old_lo = np.empty(depth_max + 1, np.int64)
        old_hi = np.empty(depth_max + 1, np.int64)
        old_null = np.empty(depth_max + 1, np.bool_)
        old_words = np.empty((depth_max + 1, n_words), np.uint64)
        path[0] = tree_start[t]
        side[0] = 0
        d = 0
        while d >= 0:
            node = path[d]
            if left[node] < 0:
                _forbid(bit[node], kind, code_start, on_path, lo, hi, null, words, at_least, at_most)
                d -= 1
                continue
            s = node_split[node]
            j = split_feature[s]
            if side[d] == 0:
                old_lo[d], old_hi[d], old_null[d] = lo[j], hi[j], null[j]
                for w in range(n_words):
                    old_words[d, w] = words[j, w]
                on_path[j] += 1
            else:
                lo[j], hi[j], null[j] = old_lo[d], old_hi[d], old_null[d]
                for w in range(n_words):
                    words[j, w] = old_words[d, w]
            if side[d] == 2:
                on_path[j] -= 1
                d -= 1
                continue
            side[d] += 1
            is_left = side[d] == 1
            if kind[j] == ORDERED:
                if is_left:
                    hi[j] = min(hi[j], split_cut[s])
                else:
                    lo[j] = max(lo[j], split_cut[s] + 1)
            else:
                for w in range(n_words):
                    members = set_words[split_set[s], w]
                    words[j, w] &= members if is_left else ~members
            null[j] = null[j] and split_missing_left[s] == is_left
            d += 1
            path[d] = left[node] if is_left else right[node]
            side[d] = 0


@inline
def _depth(first, last, left, right, depth):
    """Depth of a tree whose nodes lie each child behind its parent; `depth` is scratch by node."""
    deepest = 0
    depth[first] = 0
    for node in range(first, last):
        deepest = max(deepest, depth[node])
        if left[node] >= 0:
            depth[left[node]] = depth[node] + 1
            depth[right[node]] = depth[node] + 1
    return deepest


@inline
def _forbid(leaf_bit, kind, code_start, on_path, lo, hi, null, words, at_least, at_most):
    """Clear one leaf's bit wherever a code, or a range that starts or ends there, excludes the leaf."""
    word = leaf_bit >> 6
    keep = ~(np.uint64(1) << np.uint64(leaf_bit & 63))
    for j in range(len(kind)):
        if on_path[j] == 0:
            continue
        first = code_start[j]
        last = code_start[j + 1] - 1
        if kind[j] == ORDERED:
            empty = lo[j] > hi[j]
            for k in range(last - first):
                if empty or k > hi[j]:
                    at_least[first + k, word] &= keep
                if empty or k < lo[j]:
                    at_most[first + k, word] &= keep
        else:
            for k in range(last - first):
                if (words[j, k >> 6] >> np.uint64(k & 63)) & np.uint64(1) == 0:
                    at_least[first + k, word] &= keep
                    at_most[first + k, word] &= keep
        if not null[j]:
            at_least[last, word] &= keep
            at_most[last, word] &= keep
