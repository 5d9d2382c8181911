"""The decision tree of a rule: 0 where it is kept, less where it is broken, with equal neighbours joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._ensemble import TreeBuilder
from gpucf._errors import OptionError
from gpucf._rule_text import Variable

if TYPE_CHECKING:
    from gpucf._rules import Rule

MOST_LEAVES = 4_096


class RuleTree:
    """The decision tree of one rule; `arrays` are those of `TreeBuilder.add_tree`."""

    def __init__(self, rule: Rule, builder: TreeBuilder, allows_missing: np.ndarray, broken: float) -> None:
        self.rule, self.builder, self.allows_missing, self.broken = rule, builder, allows_missing, broken
        self.nodes: list[list[Any]] = []  # feature, threshold, left, right, missing_left, value, category set
        self.n_leaves = 0
        self._missing(0)

    def arrays(self) -> tuple[Any, ...]:
        feature, threshold, left, right, missing_left, value, sets = zip(*self.nodes, strict=True)
        return (
            np.array(feature), np.array(threshold), np.array(left), np.array(right), np.array(missing_left, bool),
            np.array(value), 0, np.array(sets),
        )  # fmt: skip

    def _missing(self, k: int) -> int:
        """First of all, rows in which something is missing keep the rule."""
        if k == len(self.rule.pieces):
            return self._below(self.rule.holds, 0)
        variable = self.rule.pieces[k].variable
        if len(variable.columns) > 1 or not self.allows_missing[variable.columns[0]]:
            return self._missing(k + 1)
        node = self._split(variable, np.inf, range(len(variable.labels or ())))
        self._link(node, self._missing(k + 1), self._leaf(0.0))
        return node

    def _below(self, holds: np.ndarray, k: int) -> int:
        if holds.all() or not holds.any():
            return self._leaf(0.0 if holds.all() else self.broken)
        pieces = self.rule.pieces[k]
        if pieces.variable.labels is not None:
            return self._categories(holds, k)
        flat = holds.reshape(len(holds), -1)
        starts = np.flatnonzero(np.concatenate([[True], (flat[1:] != flat[:-1]).any(axis=1)]))
        return self._runs(holds, k, starts)

    def _runs(self, holds: np.ndarray, k: int, starts: np.ndarray) -> int:
        """A balanced tree over runs of equal pieces."""
        if len(starts) == 1:
            return self._below(holds[starts[0]], k + 1)
        middle = len(starts) // 2
        node = self._split(self.rule.pieces[k].variable, self.rule.pieces[k].high[starts[middle] - 1])
        self._link(node, self._runs(holds, k, starts[:middle]), self._runs(holds, k, starts[middle:]))
        return node

    def _categories(self, holds: np.ndarray, k: int) -> int:
        """Categories with the same rest one after another, the largest such set last, where it needs no test."""
        variable = self.rule.pieces[k].variable
        _, of = np.unique(holds.reshape(len(holds), -1), axis=0, return_inverse=True)
        of = of.reshape(-1)
        has_reference = len(of) > len(variable.columns) > 1  # the last category has no column to test
        last = int(of[-1]) if has_reference else int(np.argmax(np.bincount(of)))
        tests: list[tuple[list[int], int]] = []
        for c in sorted(set(of.tolist()) - {last}):
            codes = np.flatnonzero(of == c).tolist()
            tests += [(codes, codes[0])] if len(variable.columns) == 1 else [([code], code) for code in codes]
        return self._chain(holds, k, tests, int(np.flatnonzero(of == last)[0]))

    def _chain(self, holds: np.ndarray, k: int, tests: list[tuple[list[int], int]], rest: int) -> int:
        if not tests:
            return self._below(holds[rest], k + 1)
        variable = self.rule.pieces[k].variable
        (codes, one), more = tests[0], tests[1:]
        if len(variable.columns) == 1:
            node = self._split(variable, 0.0, codes)
            self._link(node, self._below(holds[one], k + 1), self._chain(holds, k, more, rest))
        else:
            node = self._split(Variable(variable.name, (variable.columns[one],), None), 0.5)
            self._link(node, self._chain(holds, k, more, rest), self._below(holds[one], k + 1))
        return node

    def _split(self, variable: Variable, threshold: float, codes: Sequence[int] = ()) -> int:
        is_set = variable.labels is not None
        number = self.builder.add_category_set(np.asarray(codes)) if is_set else -1
        self.nodes.append([variable.columns[0], 0.0 if is_set else threshold, -1, -1, False, 0.0, number])
        return len(self.nodes) - 1

    def _leaf(self, value: float) -> int:
        self.n_leaves += 1
        if self.n_leaves > MOST_LEAVES:
            raise OptionError(
                f"rule {self.rule.text!r} needs a tree of more than {MOST_LEAVES:,} leaves. Give its columns coarser "
                "steps or narrower ranges, or split the rule."
            )
        self.nodes.append([0, 0.0, -1, -1, False, value, -1])
        return len(self.nodes) - 1

    def _link(self, node: int, left: int, right: int) -> None:
        self.nodes[node][2:4] = left, right
