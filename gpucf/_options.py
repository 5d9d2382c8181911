"""Answers that depend on what they change: further options of a row, and rules about moves.

Answer m + 1 is the point of least key that keeps the rules, and of which the set of changed features neither contains
that of an earlier answer nor is contained in it. The best point of all open parts of a row is looked at: where it
breaks a rule, its part is cut into the alternatives of that rule; where its set contains an earlier one S, into parts
in each of which one of S stays; where it is contained in S, into parts in each of which a feature outside S changes.
Else it is the next answer, proved.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from gpucf._answers import Answers
from gpucf._cells import Cells
from gpucf._change_rules import Alternative, ChangeRules
from gpucf._costs import CostModel
from gpucf._errors import OptionError
from gpucf._groups import Group
from gpucf._moves import moved_values
from gpucf._parts import STILL, Part, RowState, Solved, Space, leave_open, of_rows, write_found
from gpucf._planner import Limits


@dataclass(eq=False)
class Answering:
    """Rows on their way to answers.

    Attributes
    ----------
    space : Space
    groups : list of Group
    X : float64 array of shape (n_rows, n_columns)
        The rows' values, for the rules.
    changes : ChangeRules, optional
    """

    space: Space
    groups: Sequence[Group]
    X: np.ndarray
    changes: ChangeRules | None

    def keeping_rules(self, first: Answers, limits: Limits) -> Answers:
        """The nearest answers that keep the rules about moves, from those that need not."""
        if self.changes is None:
            return first
        out = first.copy()
        after = moved_values(
            self.X, self.space.cells, self.space.costs.prices, self.space.own_codes, first.codes
        )[0]  # fmt: skip
        broken = ~self.changes.kept(self.X, after).all(axis=0) & np.isfinite(first.cost)
        rows = np.flatnonzero(broken)
        for name, nothing in (("cost", np.inf), ("lower_bound", np.inf), ("proved", True)):
            getattr(out, name)[rows] = nothing
        out.codes[rows] = self.space.own_codes[rows]

        def start(row: int) -> RowState:
            state = self.space.start(row)
            bound = float(first.lower_bound[row])
            everything = Solved(Part(), first.codes[row], float(first.cost[row]), bound, bool(first.proved[row]))
            state.solved.append(everything)
            return state

        self._answer([out], rows, start, limits)
        return out

    def further(self, first: Answers, k: int, limits: Limits) -> list[Answers]:
        """The second to the `k`-th answer of every row, given the first.

        Parameters
        ----------
        first : Answers
            The nearest counterfactuals.
        limits : Limits
            Nodes for each part of a row, and the time for all.

        Returns
        -------
        list of Answers
            A row without a further answer has the cost inf; `proved` then says whether there is none.
        """
        out = [Answers.none_yet(self.space.own_codes) for _ in range(k - 1)]
        for row in np.flatnonzero(~first.proved).tolist():
            leave_open(out, row, 0, float(first.lower_bound[row]))

        def start(row: int) -> RowState:
            state = self.space.start(row)
            state.sets.append(_changed(first.codes[row], state.own))
            self._split_containing(state, Part(), state.sets[0], float(first.cost[row]))
            return state

        self._answer(out, np.flatnonzero(first.proved & np.isfinite(first.cost)), start, limits)
        return out

    def _answer(self, out: list[Answers], rows: np.ndarray, start: Any, limits: Limits) -> None:
        """As many answers of each row as there is room for."""
        begun = time.perf_counter()
        for group in self.groups:
            states = [start(row) for row in np.intersect1d(group.rows[~group.already], rows).tolist()]
            while True:
                wishes = [
                    (state, part) for state in states if not state.done for part in self._advance(state, len(out))
                ]
                if not wishes:
                    break
                self.space.solve(wishes, group, lambda: limits.after(begun))
            for state in states:
                write_found(out, state)

    def _advance(self, state: RowState, k: int) -> list[Part]:
        """Take answers as long as no part has to be solved first; returns the parts to solve."""
        while not state.done:
            best = self.space.best(state)
            wanted = [part for part, bound in state.waiting.items() if best is None or bound <= best.bound]
            if wanted:
                return wanted
            if best is None:
                state.done = True  # nothing is left: proved
                state.visits.append(state.since)
                continue
            state.solved.remove(best)
            split = self._what_splits(state, best)
            if not best.proved:
                self._end(state, best)
            elif split is not None:
                split()
            else:
                state.found.append(best)
                state.sets.append(_changed(best.codes, state.own))
                state.visits.append(state.since)
                state.since = 0
                state.done = len(state.found) == k
                self._split_containing(state, best.part, state.sets[-1], best.cost)
        return []

    def _what_splits(self, state: RowState, best: Solved) -> Any:
        """Why the best point of a part is no answer, as what splits the part; None where it is one."""
        if not np.isfinite(best.cost):
            return lambda: None
        broken = self._broken_rule(state, best)
        if broken is not None:
            return lambda: self._split_by_rule(state, best.part, broken, best.cost)
        changed = _changed(best.codes, state.own)
        above = next((s for s in state.sets if s <= changed), None)
        if above is not None:
            return lambda: self._split_containing(state, best.part, above, best.cost)
        around = next((s for s in state.sets if changed <= s), None)
        if around is not None:
            return lambda: self._split_contained(state, best.part, around, best.cost)
        return None

    def _broken_rule(self, state: RowState, best: Solved) -> Sequence[Alternative] | None:
        if self.changes is None:
            return None
        at, prices = np.array([state.row]), of_rows(self.space.costs.prices, np.array([state.row]))
        before = self.X[at]
        after = moved_values(before, self.space.cells, prices, state.own[None], best.codes[None])[0]
        broken = np.flatnonzero(~self.changes.kept(before, after)[:, 0])
        return self.changes.rules[int(broken[0])].alternatives if len(broken) else None

    def _end(self, state: RowState, left_open: Solved) -> None:
        """A limit has left the best part open: the cheapest point that is an answer, none if there is none."""
        known = [s for s in (left_open, *state.solved) if self._what_splits(state, s) is None]
        point = min(known, key=lambda s: s.cost, default=replace(left_open, cost=np.inf))
        state.found.append(replace(left_open, codes=point.codes, cost=point.cost))
        state.visits.append(state.since)
        state.done = True

    def _split_by_rule(self, state: RowState, part: Part, rule: Sequence[Alternative], cost: float) -> None:
        """Of a part, the points that keep a rule."""
        for moves, demands in rule:
            choices = [[(j, way) for way in self.space.ways_of(state, j, way, so)] for j, way, so in sorted(moves)]
            for ways in product(*choices):
                self.space.open(state, part.also(*ways)._replace(demands=part.demands | demands), cost)

    def _split_containing(self, state: RowState, part: Part, changed: frozenset[int], cost: float) -> None:
        """Of a part, the points of which the changed features do not contain a set."""
        for j in sorted(changed - part.changing):
            self.space.open(state, part.also((j, STILL)), cost)

    def _split_contained(self, state: RowState, part: Part, changed: frozenset[int], cost: float) -> None:
        """Of a part, the points of which the changed features are not contained in a set."""
        for j in range(self.space.cells.n_features):
            if j in changed or (j, STILL) in part.ways:
                continue
            ways = list(self.space.ways(state, j))
            for way in ways:
                self.space.open(state, part.also((j, way)), cost)
            if ways:
                part = part.also((j, STILL))


def only_these(costs: CostModel, cells: Cells, column_names: Sequence[str], names: Any) -> CostModel:
    """Costs by which no other feature than those named may change."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise OptionError(f"only is {names!r}; give a list of names.")
    where = {column_names[c]: j for j, columns in enumerate(cells.columns) for c in columns}
    where.update({name: j for j, name in enumerate(cells.names)})
    names = list(names)
    unknown = [str(n) for n in names if n not in where]
    if unknown:
        raise OptionError.unknown_names("only", unknown, list(where))
    free = np.isin(np.arange(cells.n_features), [where[n] for n in names])
    rise, fall = costs.may_rise & free, costs.may_fall & free
    return replace(
        costs, may_rise=rise, may_fall=fall, prices=costs.prices._replace(may_rise=rise, may_fall=fall)
    )  # fmt: skip


def _changed(codes: np.ndarray, own: np.ndarray) -> frozenset[int]:
    return frozenset(np.flatnonzero(codes != own).tolist())
