"""Further answers of a row, that a person may choose from: the next best ones that change other features.

Answer m + 1 is the point of least key of which the set of changed features neither contains that of an earlier answer
nor is contained in it. What is left of a row's space after some answers is kept as *parts*, each with features that
must not change and features that must: a set that does not contain S leaves one of S unchanged, and one that is not
contained in S changes a feature outside S. Both live in the price tables only, as codes that are barred, so that map
and search answer a part as they answer any row. All rows' open parts go to the planner together, round by round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gpucf._answers import Answers
from gpucf._cells import ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._errors import OptionError
from gpucf._groups import Group
from gpucf._jit import njit
from gpucf._keys import key_precedes
from gpucf._planner import Limits, Planner, Question
from gpucf._prices import Prices, price_tables

_MOST_BARRED = 1 << 26  # entries of the table of barred codes in one question

ANY, DOWN, UP, AWAY = 0, 1, 2, 3  # how a feature must change: at all, to lower or higher values, to "missing"


class Part(NamedTuple):
    """Points that leave the features `still` unchanged and change those of `must`, each in its way."""

    still: frozenset[int]
    must: frozenset[tuple[int, int]]


@dataclass(eq=False)
class _Solved:
    part: Part
    codes: np.ndarray
    cost: float
    bound: float
    proved: bool


@dataclass(eq=False)
class _RowState:
    """One row on its way to its answers.

    Attributes
    ----------
    price, displacement : float64 arrays over codes
    sets : list of frozensets
        Changed features of the answers so far.
    solved, waiting :
        Parts with their best points; parts without, and what a point of theirs costs at least.
    found : list
        Further answers; the last may be what is left open.
    """

    row: int
    own: np.ndarray
    price: np.ndarray
    displacement: np.ndarray
    sets: list[frozenset[int]]
    solved: list[_Solved]
    waiting: dict[Part, float] = field(default_factory=dict)
    seen: set[Part] = field(default_factory=set)
    found: list[_Solved] = field(default_factory=list)
    visits: list[int] = field(default_factory=list)
    since: int = 0
    done: bool = False


def further_answers(
    planner: Planner, groups: Sequence[Group], cells: Cells, costs: CostModel, own_codes: np.ndarray,
    values: np.ndarray, first: Answers, k: int, limits: Limits,
) -> list[Answers]:  # fmt: skip
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
    out = [Answers.none_yet(own_codes) for _ in range(k - 1)]
    start = time.perf_counter()
    space = _Space(planner, cells, costs, own_codes, values)
    for group in groups:
        states = []
        for row in group.rows[~group.already].tolist():
            if not first.proved[row]:
                _leave_open(out, row, 0, float(first.lower_bound[row]))
            elif np.isfinite(first.cost[row]):
                states.append(space.start(row, first))
        own = group.labels(len(own_codes))
        while True:
            wishes = [(state, part) for state in states if not state.done for part in space.advance(state, k)]
            if not wishes:
                break
            space.solve(wishes, group, own, limits.after(start))
        for state in states:
            _write(out, state)
    return out


def _write(out: list[Answers], state: _RowState) -> None:
    for rank, answer in enumerate(state.found):
        if not answer.proved:
            _leave_open(out, state.row, rank, answer.bound)
        if np.isfinite(answer.cost):
            out[rank].codes[state.row] = answer.codes
            out[rank].cost[state.row] = answer.cost
            out[rank].lower_bound[state.row] = answer.bound
    for rank, visits in enumerate(state.visits[: len(out)]):
        out[rank].visits[state.row] = visits


def _leave_open(out: list[Answers], row: int, rank: int, bound: float) -> None:
    for answers in out[rank:]:
        answers.proved[row] = False
        answers.lower_bound[row] = bound


@dataclass(eq=False)
class _Space:
    """What all rows have in common."""

    planner: Planner
    cells: Cells
    costs: CostModel
    own_codes: np.ndarray
    values: np.ndarray

    def start(self, row: int, first: Answers) -> _RowState:
        """A row that has its nearest answer; all else is open."""
        n_codes = int(self.cells.code_start[-1])
        price, displacement = np.empty(n_codes), np.empty(n_codes)
        own = self.own_codes[row]
        price_tables(self.costs.prices, row, own, self.values[row], self.cells.kind, self.cells.code_start, price,
                     displacement)  # fmt: skip
        state = _RowState(row, own, price, displacement, [], [])
        changed = _changed(first.codes[row], own)
        state.sets.append(changed)
        everything = Part(frozenset(), frozenset())
        cost = float(first.cost[row])
        self._split_containing(state, everything, changed, cost)
        return state

    def advance(self, state: _RowState, k: int) -> list[Part]:
        """Take answers as long as no part has to be solved first; returns the parts to solve."""
        while not state.done:
            best = self._best(state)
            wanted = [part for part, bound in state.waiting.items() if best is None or bound <= best.bound]
            if wanted:
                return wanted
            if best is None:
                state.done = True  # nothing is left: proved
                state.visits.append(state.since)
                continue
            state.solved.remove(best)
            changed = _changed(best.codes, state.own) if np.isfinite(best.cost) else frozenset()
            if not best.proved:
                valid = changed and not any(s <= changed or changed <= s for s in state.sets)
                self._end(state, best if valid else replace(best, cost=np.inf))
                continue
            above = next((s for s in state.sets if s <= changed), None)
            if above is not None:
                self._split_containing(state, best.part, above, best.cost)
                continue
            around = next((s for s in state.sets if changed <= s), None)
            if around is not None:
                self._split_contained(state, best.part, around, best.cost)
                continue
            state.found.append(best)
            state.sets.append(changed)
            state.visits.append(state.since)
            state.since = 0
            state.done = len(state.found) == k - 1
            self._split_containing(state, best.part, changed, best.cost)
        return []

    def _end(self, state: _RowState, last: _Solved) -> None:
        state.found.append(last)
        state.visits.append(state.since)
        state.done = True

    def _best(self, state: _RowState) -> _Solved | None:
        """The part whose point stands first; those that a limit has left open count by their bounds."""
        best: _Solved | None = None
        for other in state.solved:
            if (
                best is None
                or other.bound < best.bound
                or (other.bound == best.bound and self._before(state, other, best))
            ):
                best = other
        return best

    def _before(self, state: _RowState, a: _Solved, b: _Solved) -> bool:
        if not (a.proved and b.proved):
            return not a.proved
        kind, code_start = self.cells.kind, self.cells.code_start
        return bool(_precedes(a.codes, b.codes, state.own, kind, code_start, state.price, state.displacement))

    def _split_containing(self, state: _RowState, part: Part, changed: frozenset[int], cost: float) -> None:
        """Of a part, the points of which the changed features do not contain a set."""
        fixed = {j for j, _ in part.must}
        for j in sorted(changed - fixed):
            self._open(state, Part(part.still | {j}, part.must), cost)

    def _split_contained(self, state: _RowState, part: Part, changed: frozenset[int], cost: float) -> None:
        """Of a part, the points of which the changed features are not contained in a set."""
        still = part.still
        for j in range(self.cells.n_features):
            if j in changed or j in part.still:
                continue
            ways = list(self._ways(state, j))
            for way in ways:
                self._open(state, Part(still, part.must | {(j, way)}), cost)
            if ways:
                still = still | {j}

    def _ways(self, state: _RowState, j: int) -> Iterator[int]:
        """Ways in which a feature of the row can change that have to be looked at one by one.

        What is cheaper must not be the farther in one part, or the answer would depend on how the space is cut: rises
        and falls at unlike prices are parts of their own (see `Prices.by_price`).
        """
        prices = self.costs.prices
        first, last = int(self.cells.code_start[j]), int(self.cells.code_start[j + 1]) - 1
        mine = first + int(state.own[j])
        free = np.isfinite(state.price)
        even = all(bool(np.all(term[0, j] == term[1, j])) for term in (prices.flat, prices.linear, prices.square))
        if self.cells.kind[j] != ORDERED or prices.by_price[j] or (even and not prices.special[j]) or mine == last:
            if free[first:mine].any() or free[mine + 1 : last + 1].any():
                yield ANY
            return
        if free[first:mine].any():
            yield DOWN
        if free[mine + 1 : last].any():
            yield UP
        if free[last]:
            yield AWAY

    def _open(self, state: _RowState, part: Part, cost: float) -> None:
        if part in state.seen:
            return
        state.seen.add(part)
        least = np.zeros(self.cells.n_features)
        for j, way in part.must:
            first, last = int(self.cells.code_start[j]), int(self.cells.code_start[j + 1])
            least[j] = np.min(np.where(self._bars(state.own, j, way), np.inf, state.price[first:last]))
        bound = 0.0
        for p in least.tolist():  # in feature order, one rounding after another: below every sum of such prices
            bound = max(bound, p) if self.costs.prices.is_max else bound + p
        if bound < np.inf:
            state.waiting[part] = max(bound, cost)

    def _bars(self, own: np.ndarray, j: int, way: int) -> np.ndarray:
        """Codes of a feature that do not change it in a way."""
        n = int(self.cells.n_codes[j])
        code, mine = np.arange(n), int(own[j])
        barred = code == mine
        if way in (DOWN, UP):
            barred |= (code > mine) if way == DOWN else (code < mine)
        if way == AWAY:
            barred |= code != n - 1
        if way == UP:
            barred |= code == n - 1
        return barred

    def solve(self, wishes: list[tuple[_RowState, Part]], group: Group, own: np.ndarray, limits: Limits) -> None:
        """Answer parts of rows, as rows of one table."""
        at_once = max(1, _MOST_BARRED // int(self.cells.code_start[-1]))
        for begin in range(0, len(wishes), at_once):
            some = wishes[begin : begin + at_once]
            rows = np.array([state.row for state, _ in some])
            barred = np.zeros((len(some), int(self.cells.code_start[-1])), bool)
            changing = np.zeros(self.cells.n_features, bool)
            for i, (state, part) in enumerate(some):
                for j in part.still:
                    first = int(self.cells.code_start[j])
                    barred[i, first : int(self.cells.code_start[j + 1])] = True
                    barred[i, first + int(state.own[j])] = False
                for j, way in part.must:
                    barred[i, int(self.cells.code_start[j]) : int(self.cells.code_start[j + 1])] = self._bars(
                        state.own, j, way
                    )
                    changing[j] = True
            prices = of_rows(self.costs.prices, rows)
            prices = prices._replace(barred=barred, irregular=prices.irregular | changing)
            question = Question(
                group.target, self.cells, replace(self.costs, prices=prices), self.own_codes[rows],
                self.values[rows], own[rows], np.arange(len(rows)),
            )  # fmt: skip
            answers, _ = self.planner.answer(question, limits, None)
            for i, (state, part) in enumerate(some):
                parent = state.waiting.pop(part)
                state.since += int(answers.visits[i])
                cost, proved = float(answers.cost[i]), bool(answers.proved[i])
                if proved and cost == np.inf:
                    continue  # nothing in this part
                bound = cost if proved else max(parent, float(answers.lower_bound[i]))
                state.solved.append(_Solved(part, answers.codes[i].copy(), cost, bound, proved))


def of_rows(prices: Prices, rows: np.ndarray) -> Prices:
    """Prices for a table that is made of some rows of another."""
    by_row = {name: getattr(prices, name) for name in ("at", "low", "high", "at_low", "at_high")}
    return prices._replace(**{name: a[rows] if len(a) > 1 else a for name, a in by_row.items()})


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


@njit
def _precedes(a, b, own, kind, code_start, price, displacement):
    """Whether the key of point `a` stands before that of point `b`, which costs the same."""
    total_a = 0.0
    total_b = 0.0
    for j in range(len(kind)):
        total_a += displacement[code_start[j] + a[j]]
        total_b += displacement[code_start[j] + b[j]]
    return key_precedes(a, total_a, b, total_b, own, kind, code_start, price, displacement)
