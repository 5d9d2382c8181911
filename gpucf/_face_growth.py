"""The box around an answer on which everything still holds: "income at least 41,200 and debt at most 0.35".

A box grows face by face: features in index order, below before above, then categories by code, round after round. A
face tries to move by some cells, twice as many after each success and half as many after a failure, until it is at the
end or its next cell holds a counterexample. Whether all of the new slab meets the target is first asked of the
library's ordered sums over the worst leaves; where these leave it open, the search looks for a point of the slab that
does not. So a face is blocked by a point, not by a weak bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpucf._cells import ORDERED, Cells
from gpucf._costs import CostModel, make_cost_model
from gpucf._groups import Group
from gpucf._jit import njit
from gpucf._labels import MAY, MAY_NOT, outlook_of
from gpucf._planner import Limits, Planner
from gpucf._prices import price_tables
from gpucf._search import Searcher, search
from gpucf._search_bound import bound_node
from gpucf._targets import search_rule

_ROWS_AT_ONCE = 4096
_HOLDS, _FAILS, _OPEN = 1, 0, -1


@dataclass(frozen=True, eq=False)
class FaceBoxes:
    """Boxes in codes, one for each row of a table.

    Attributes
    ----------
    has_box : bool array of shape (n_rows,)
    lo, hi : int32 arrays of shape (n_rows, n_features)
        First and last code of ordered features; both "missing" where the answer is missing.
    members : bool array of shape (n_rows, n_codes)
        Codes of categorical features.
    blocked : bool array of shape (n_rows,)
        Every face is at its end or blocked by a counterexample; False where a limit ended the growth.
    """

    has_box: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    members: np.ndarray
    blocked: np.ndarray


def grow_boxes(
    planner: Planner, groups: Sequence[Group], cells: Cells, costs: CostModel, own_codes: np.ndarray,
    own_values: np.ndarray, codes: np.ndarray, values: np.ndarray, answered: np.ndarray, limits: Limits,
) -> FaceBoxes:  # fmt: skip
    """Grow a box around every answer, of cells that the row may have.

    Parameters
    ----------
    own_codes, own_values, codes, values :
        Of the rows and of their answers, from `code_rows`.
    answered : bool array of shape (n_rows,)
        Rows whose `codes` meet their target.
    limits : Limits
        Nodes that the search for one counterexample may take, and the time for all.
    """
    n = len(codes)
    boxes = FaceBoxes(
        answered, codes.copy(), codes.copy(), np.zeros((n, int(cells.code_start[-1])), bool), np.ones(n, bool)
    )
    start = time.perf_counter()
    searcher = planner.searcher(cells)
    for group in groups:
        rule, label = search_rule(planner.ensemble, group.target)
        own_label = np.zeros(n, np.int64)
        own_label[group.rows] = group.own if label is None else label
        rows = group.rows[answered[group.rows]]
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[begin : begin + _ROWS_AT_ONCE]
            permitted = _permitted(cells, costs, own_codes, own_values, codes, some)
            growth = _Growth(
                searcher, rule, own_label[some], label is None, codes[some], values[some], permitted,
                planner.n_threads, limits, start,
            )  # fmt: skip
            growth.run()
            boxes.lo[some], boxes.hi[some] = growth.lo, growth.hi
            boxes.members[some], boxes.blocked[some] = growth.members, growth.blocked
    return boxes


def _permitted(
    cells: Cells, costs: CostModel, codes: np.ndarray, values: np.ndarray, answers: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Codes that each row may have, its own among them, bool of shape (rows, n_codes).

    A row that stays outside of its limits stays at its very value: it has no other code.
    """
    n_codes = int(cells.code_start[-1])
    price, displacement = np.empty(n_codes), np.empty(n_codes)
    out = np.zeros((len(rows), n_codes), bool)
    for i, row in enumerate(rows.tolist()):
        price_tables(costs.prices, row, codes[row], values[row], cells.kind, cells.code_start, price, displacement)
        out[i] = np.isfinite(price)
        at = min(row, len(costs.prices.low) - 1)
        outside = (values[row] < costs.prices.low[at]) | (values[row] > costs.prices.high[at])
        for j in np.flatnonzero(outside & (answers[row] == codes[row])).tolist():
            out[i, cells.code_start[j] : cells.code_start[j + 1]] = False
        out[i, cells.code_start[:-1] + codes[row]] = True
    return out


def _run_around(permitted: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last column of the run of True that column `at` of each row lies in."""
    column = np.arange(permitted.shape[1])
    closed = ~permitted
    below = np.where(closed & (column < at[:, None]), column, -1).max(axis=1) + 1
    above = np.where(closed & (column > at[:, None]), column, permitted.shape[1]).min(axis=1) - 1
    return below, above


class _Work(NamedTuple):
    mask: Any
    low: Any
    high: Any
    spread: Any
    sum_low: Any
    sum_high: Any


class _Growth:
    """Rows of one rule, growing together."""

    def __init__(
        self, searcher: Searcher, rule: Any, label: np.ndarray, negate: bool, codes: np.ndarray, values: np.ndarray,
        permitted: np.ndarray, n_threads: int, limits: Limits, start: float,
    ) -> None:  # fmt: skip
        self.searcher, self.rule, self.label, self.negate = searcher, rule, label, negate
        self.cells = cells = searcher.cells
        self.codes, self.values, self.n_threads = codes, values, n_threads
        self.limits, self.start = limits, start
        n = len(codes)
        self.lo, self.hi = codes.copy(), codes.copy()
        missing = codes == cells.n_codes - 1
        self.least, self.most = codes.copy(), codes.copy()  # no face can get beyond
        for j in np.flatnonzero(cells.kind == ORDERED).tolist():
            block = permitted[:, int(cells.code_start[j]) : int(cells.code_start[j + 1]) - 1]
            least, most = _run_around(block, np.minimum(codes[:, j], block.shape[1] - 1))
            self.least[:, j] = np.where(missing[:, j], codes[:, j], least)
            self.most[:, j] = np.where(missing[:, j], codes[:, j], most)
        self.permitted, self.missing = permitted, missing
        self.members = np.zeros((n, int(cells.code_start[-1])), bool)
        np.put_along_axis(self.members, codes + cells.code_start[:-1], True, axis=1)
        self.blocked = np.ones(n, bool)
        names = tuple(str(c) for c in range(searcher.ensemble.n_features))
        # Only whether there is a point matters: every change at one price.
        self.costs = make_cost_model(cells, names, "l0", None, np.ones(len(names)), (), (), ())
        self.attainable = ~np.isnan(cells.cell_lo)

    def run(self) -> None:
        ordered = self.cells.kind == ORDERED
        step = np.ones((2, *self.codes.shape), np.int64)
        first = True
        while first or self._open(ordered).any():
            for j in range(self.cells.n_features):
                if ordered[j]:
                    for above in (False, True):
                        self._move_face(j, above, step[int(above), :, j])
                elif first:
                    for code in range(int(self.cells.n_codes[j]) - 1):
                        self._add_category(j, code)
            first = False

    def _open(self, ordered: np.ndarray) -> np.ndarray:
        return ((self.lo > self.least) | (self.hi < self.most))[:, ordered]

    def _move_face(self, j: int, above: bool, step: np.ndarray) -> None:
        rows = np.flatnonzero(self.hi[:, j] < self.most[:, j] if above else self.lo[:, j] > self.least[:, j])
        if not len(rows):
            return
        lo, hi = self.lo[rows].copy(), self.hi[rows].copy()
        if above:
            lo[:, j] = self.hi[rows, j] + 1
            hi[:, j] = np.minimum(self.hi[rows, j] + step[rows], self.most[rows, j])
        else:
            hi[:, j] = self.lo[rows, j] - 1
            lo[:, j] = np.maximum(self.lo[rows, j] - step[rows], self.least[rows, j])
        verdict, point = self._all_meet(rows, lo, hi, self.members[rows], j)
        good = verdict == _HOLDS
        step[rows] = np.where(good, 2 * step[rows], np.maximum(step[rows] // 2, 1))
        if above:
            self.hi[rows[good], j] = hi[good, j]
            self.most[rows[~good], j] = point[~good] - 1
        else:
            self.lo[rows[good], j] = lo[good, j]
            self.least[rows[~good], j] = point[~good] + 1

    def _add_category(self, j: int, code: int) -> None:
        at = int(self.cells.code_start[j]) + code
        rows = np.flatnonzero(~self.members[:, at] & self.permitted[:, at] & ~self.missing[:, j])
        if not len(rows):
            return
        members = self.members[rows].copy()
        members[:, self.cells.code_start[j] : self.cells.code_start[j + 1]] = False
        members[:, at] = True
        verdict, _ = self._all_meet(rows, self.lo[rows], self.hi[rows], members, j)
        self.members[rows[verdict == _HOLDS], at] = True

    def _all_meet(
        self, rows: np.ndarray, lo: np.ndarray, hi: np.ndarray, members: np.ndarray, j: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether all points of each slab meet the target; where not, the code of feature `j` at one that does not.

        A slab that fails throughout gives the code next to the box.
        """
        trees, ensemble = self.searcher.trees, self.searcher.ensemble
        dtype, n_leaf, n_out = ensemble.score_dtype, trees.value.shape[1], ensemble.n_outputs
        work = _Work(
            np.zeros((1, len(trees.full)), np.uint64), np.zeros(n_leaf, dtype), np.zeros(n_leaf, dtype),
            np.zeros(ensemble.n_trees), np.zeros(n_out, dtype), np.zeros(n_out, dtype),
        )  # fmt: skip
        outlook = np.empty(len(rows), np.int64)
        _outlooks(
            self.rule, self.label[rows], self.cells.kind, self.cells.code_start, trees, lo, hi, members, work,
            np.zeros(n_out), np.zeros(n_out), outlook,
        )  # fmt: skip
        good, bad = (MAY_NOT, MAY) if self.negate else (MAY, MAY_NOT)
        verdict = np.where(outlook & bad == 0, _HOLDS, np.where(outlook & good == 0, _FAILS, _OPEN))
        beside = np.where(lo[:, j] > self.hi[rows, j], lo[:, j], hi[:, j])  # of the slab's codes, the one at the box
        point = beside.copy()
        hard = np.flatnonzero(verdict == _OPEN)
        if len(hard):
            self._look(rows[hard], lo[hard], hi[hard], members[hard], j, hard, verdict, point)
        return verdict, point

    def _look(
        self, rows: np.ndarray, lo: np.ndarray, hi: np.ndarray, members: np.ndarray, j: int, place: np.ndarray,
        verdict: np.ndarray, point: np.ndarray,
    ) -> None:  # fmt: skip
        """Search slabs for counterexamples; writes `verdict` and `point` at `place`."""
        cells = self.cells
        codes, values = self.codes[rows].copy(), self.values[rows].copy()
        allowed = _allowed(cells, lo, hi, members)
        block = slice(int(cells.code_start[j]), int(cells.code_start[j + 1]))
        if cells.kind[j] == ORDERED:
            slab = allowed[:, block] & self.attainable[block]
            near = np.argmax(slab, axis=1)
            far = slab.shape[1] - 1 - np.argmax(slab[:, ::-1], axis=1)
            codes[:, j] = np.where(lo[:, j] > self.hi[rows, j], near, far)
            values[:, j] = cells.cell_lo[block.start + codes[:, j]]
            some = slab.any(axis=1)  # a slab without an attainable value holds nothing that could fail
        else:
            codes[:, j] = np.argmax(allowed[:, block], axis=1)
            values[:, j] = codes[:, j]
            some = np.ones(len(rows), bool)
        verdict[place[~some]] = _HOLDS
        prices = self.costs.prices._replace(barred=~allowed)
        limits = self.limits.after(self.start)
        answers = search(
            self.searcher, self.rule, replace(self.costs, prices=prices), codes, values, self.label[rows],
            np.full(len(rows), not self.negate), np.flatnonzero(some), self.n_threads, limits.nodes, limits.seconds,
        )  # fmt: skip
        found = np.isfinite(answers.cost)
        verdict[place[some & ~found & answers.proved]] = _HOLDS
        verdict[place[some & found]] = _FAILS
        point[place[found]] = answers.codes[found, j]
        unknown = some & ~found & ~answers.proved
        verdict[place[unknown]] = _FAILS  # taken for blocked
        self.blocked[rows[unknown]] = False


def _allowed(cells: Cells, lo: np.ndarray, hi: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Boxes as codes, bool of shape (n_boxes, n_codes)."""
    out = members.copy()
    for j in np.flatnonzero(cells.kind == ORDERED).tolist():
        code = np.arange(int(cells.n_codes[j]))
        out[:, cells.code_start[j] : cells.code_start[j + 1]] = (code >= lo[:, [j]]) & (code <= hi[:, [j]])
    return out


@njit
def _outlooks(rule, label, kind, code_start, trees, lo, hi, members, work, raw_low, raw_high, out):
    """MAY and MAY_NOT of each box's label, by sums over the worst and the best reachable leaves."""
    for i in range(len(lo)):
        for w in range(len(trees.full)):
            work.mask[0, w] = trees.full[w]
        for j in range(len(kind)):
            first = code_start[j]
            if kind[j] == ORDERED:
                for w in range(len(trees.full)):
                    work.mask[0, w] &= trees.at_least[first + lo[i, j], w] & trees.at_most[first + hi[i, j], w]
                continue
            for w in range(len(trees.full)):
                reachable = np.uint64(0)
                for code in range(first, code_start[j + 1]):
                    if members[i, code]:
                        reachable |= trees.at_least[code, w]
                work.mask[0, w] &= reachable
        bound_node(0, trees, work, work)
        out[i] = outlook_of(rule, label[i], work.sum_low, work.sum_high, raw_low, raw_high)
