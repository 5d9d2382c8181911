"""Ensemble search, compiled: a first answer made cheaper, feature by feature.

A search under a budget says nothing about answers beyond it, and its last pass is the shorter the better the answer is
that it starts from. Rows that turn out hard therefore look for some answer first, whatever it costs, and move each of
its features back towards the row as far as the answer still holds. This decides nothing: it only saves work.
"""

from __future__ import annotations

import numpy as np

from gpucf._cells import ORDERED
from gpucf._jit import helper
from gpucf._labels import label_of_sums
from gpucf._search_bound import bound_node


@helper
def _holds(rule, label, negate, space, trees, stack, scratch):
    """Whether the point ``scratch.best`` surely has the wanted label; row 0 of the stack is work space."""
    for w in range(len(trees.full)):
        stack.mask[0, w] = trees.full[w]
    for j in range(len(space.kind)):
        row = space.code_start[j] + np.int64(scratch.best[j])
        for w in range(len(trees.full)):
            stack.mask[0, w] &= trees.at_least[row, w]
        if space.kind[j] == ORDERED:
            for w in range(len(trees.full)):
                stack.mask[0, w] &= trees.at_most[row, w]
    bound_node(0, trees, stack, scratch)
    found = label_of_sums(rule, scratch.sum_low, scratch.raw_low)
    return found >= 0 and (found == label) != negate


@helper
def polish(rule, label, negate, own, space, trees, stack, scratch):
    """Move every feature of the answer ``scratch.best`` back towards the row where the answer still holds."""
    for j in range(len(space.kind)):
        first = space.code_start[j]
        mine = np.int64(own[j])
        far = np.int64(scratch.best[j])
        if far == mine or scratch.price[first + mine] > 0.0:  # the feature must change
            continue
        scratch.best[j] = mine
        if _holds(rule, label, negate, space, trees, stack, scratch):
            continue
        missing = space.code_start[j + 1] - first - 1
        if space.kind[j] != ORDERED or far == missing or mine == missing or scratch.irregular[j]:
            scratch.best[j] = far
            continue
        near = mine  # does not hold; `far` does
        while abs(far - near) > 1:
            middle = (near + far) >> 1
            scratch.best[j] = middle
            if _holds(rule, label, negate, space, trees, stack, scratch):
                far = middle
            else:
                near = middle
        scratch.best[j] = far
