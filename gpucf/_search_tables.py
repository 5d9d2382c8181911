"""Ensemble search: the arrays that compiled code works on, in named groups."""

from __future__ import annotations

from typing import Any, NamedTuple


class Space(NamedTuple):
    """Features and splits (see `Cells`); `set_start` counts words of categorical features only.

    ``by_cut`` holds the splits of ordered features by feature and cut; for code `k` of feature `j`, those with cuts of
    at least `k` start at ``cut_start[code_start[j] + k]``. ``gapless``: every code of the feature, "missing" apart, has
    an attainable value.
    """

    kind: Any
    code_start: Any
    gapless: Any
    set_start: Any
    by_cut: Any
    cut_start: Any
    split_feature: Any
    split_cut: Any
    split_set: Any
    split_missing_left: Any
    set_words: Any


class Trees(NamedTuple):
    """Trees and leaf masks (see `Ensemble` and `LeafMasks`).

    ``non_missing`` holds, by feature, the leaves that some code other than "missing" leaves reachable, ``none_missing``
    those that are so for all features. ``sorted_leaves``: in every tree all outputs are monotone along the leaves, so
    that the first and the last reachable leaf hold the extremes of every output. ``flat`` is `value` in one dimension.
    ``step``: feature, cut, left and right child of each node, side by side. ``rounds``: see `rounded_trees`.
    ``margin``: of a forest of two classes, by leaf, the second score less the first in whole units (`margins`), else
    nothing. ``one_word``: one number per leaf, and no tree has more than 64 leaves.
    """

    tree_start: Any
    step: Any
    node_split: Any
    word_start: Any
    at_least: Any
    at_most: Any
    full: Any
    non_missing: Any
    none_missing: Any
    value: Any
    flat: Any
    tree_output: Any
    rounds: Any
    base: Any
    sorted_leaves: Any
    margin: Any
    one_word: Any


class Stack(NamedTuple):
    """Open nodes, one row each.

    An ordered feature has the codes ``lo..hi`` (none where ``lo > hi``), and "missing" where ``null`` is 1; a
    categorical one the codes in its words of ``sets``. ``mask``: reachable leaves. ``node``: in each tree, a node that
    all of them lie under. ``feature_price``: least price of each feature. ``clipped``: cost and budget of its clip.
    """

    lo: Any
    hi: Any
    null: Any
    sets: Any
    mask: Any
    node: Any
    feature_price: Any
    cost: Any
    clipped: Any


class Scratch(NamedTuple):
    """Work space of one thread.

    ``irregular``: ordered features in which prices or displacements do not rise away from the row's own code.
    ``dearest``, ``cheapest``: of the moves of each feature that are permitted; `dearest` of categorical ones only, and
    `cheapest` of ordered ones without those that cost nothing.
    """

    price: Any
    displacement: Any
    irregular: Any
    dearest: Any
    cheapest: Any
    low: Any
    high: Any
    spread: Any
    sum_low: Any
    sum_high: Any
    raw_low: Any
    raw_high: Any
    weight: Any
    factor: Any
    feature_weight: Any
    relevance: Any
    touched: Any
    codes: Any
    best: Any
    excluded: Any
    usual: Any


class Rows(NamedTuple):
    """What comes in and goes out, by row.

    ``label`` is the wanted label, or with ``negate`` the unwanted one; ``bound`` a certified lower bound to start
    from. ``question`` is the point whose label must be asked; ``asked`` and ``asked_label`` hold those that the
    library's arithmetic has told.
    """

    own: Any
    values: Any
    label: Any
    negate: Any
    status: Any
    codes: Any
    cost: Any
    bound: Any
    nodes: Any
    question: Any
    asked: Any
    asked_label: Any
