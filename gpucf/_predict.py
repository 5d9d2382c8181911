"""The reference predictor: the library's own sum (its dtype, its order, from its base) for coded rows."""

from __future__ import annotations

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._jit import inline, njit


@inline
def category_goes_left(words, start, stop, value):
    """Whether category index `value` is in the set; indices past the last word, or negative, are not."""
    if value < 0:
        return False
    word = start + (value >> 6)
    if word >= stop:
        return False
    return (words[word] >> np.uint64(value & 63)) & np.uint64(1) != 0


@njit
def leaf_rows(
    X, tree_start, feature, threshold, left, right, missing_left, category_set, category_start, words, leaf, out
):
    """Leaf (row of leaf_value) of every row of X in every tree; X holds values already rounded to the compare dtype."""
    for i in range(X.shape[0]):
        for t in range(len(tree_start) - 1):
            node = tree_start[t]
            while left[node] >= 0:
                v = X[i, feature[node]]
                if np.isnan(v):
                    go_left = missing_left[node]
                elif category_set[node] >= 0:
                    s = category_set[node]
                    go_left = category_goes_left(words, category_start[s], category_start[s + 1], np.int64(v))
                else:
                    go_left = v <= threshold[node]
                node = np.int64(left[node] if go_left else right[node])
            out[i, t] = leaf[node]


@njit
def add_leaves(leaves, leaf_value, tree_output, base, out):
    """Sums of the library: base first, then tree by tree, each addition rounded to the dtype of `out`."""
    n_outputs = out.shape[1]
    for i in range(out.shape[0]):
        for c in range(n_outputs):
            out[i, c] = base[c]
        for t in range(leaves.shape[1]):
            c = tree_output[t]
            if c >= 0:
                out[i, c] = out[i, c] + leaf_value[leaves[i, t], 0]
            else:
                for k in range(n_outputs):
                    out[i, k] = out[i, k] + leaf_value[leaves[i, t], k]


def leaf_indices(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Leaf that each row reaches in each tree, as int32 rows of ``ensemble.leaf_value``, shape (n_rows, n_trees)."""
    e = ensemble
    with np.errstate(over="ignore"):
        rounded = np.asarray(X).astype(e.compare_dtype).astype(np.float64)
    out = np.zeros((len(rounded), e.n_trees), np.int32)
    leaf_rows(
        rounded, e.tree_start, e.feature, e.threshold, e.left, e.right, e.missing_left, e.category_set,
        e.category_start, e.category_words, e.leaf, out,
    )  # fmt: skip
    return out


def predict_sums(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """The library's sum for each row and output.

    Parameters
    ----------
    ensemble : Ensemble
    X : float array of shape (n_rows, n_features)
        Native categorical columns hold category indices (see `Ensemble`); NaN is missing.

    Returns
    -------
    score_dtype array of shape (n_rows, n_outputs)
        Equal bit for bit to the library's own sum, before `Ensemble.post`.
    """
    if ensemble.members:
        sums = [predict_sums(m.ensemble, X[:, m.columns]) for m in ensemble.members]
        return np.concatenate(sums, axis=1, dtype=np.float64)
    out = np.empty((len(X), ensemble.n_outputs), ensemble.score_dtype)
    add_leaves(leaf_indices(ensemble, X), ensemble.leaf_value, ensemble.tree_output, ensemble.base, out)
    return out


def raw_from_sums(ensemble: Ensemble, sums: np.ndarray) -> np.ndarray:
    """`Ensemble.post` applied to sums: the library's raw score, in its dtype."""
    dtype = ensemble.score_dtype
    if ensemble.post == "divide":
        return (sums / dtype.type(ensemble.post_a)).astype(dtype)
    if ensemble.post == "affine":
        scaled = (sums * dtype.type(ensemble.post_a)).astype(dtype)
        return (scaled + dtype.type(ensemble.post_b)).astype(dtype)
    return sums


def predict_raw(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """The library's raw scores (margins, or class fractions of a forest), shape (n_rows, n_outputs)."""
    return raw_from_sums(ensemble, predict_sums(ensemble, X))
