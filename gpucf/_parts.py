"""Parts of a row's space: what must change, what must not, and what else must hold there.

What an answer of a row may be can depend on what it changes: further options change other features than the first,
rules ask that one thing moves if another does. The space of a row is then cut into *parts*, each with ways in which
features move or stay, and conditions that hold beside the target. Ways live in the price tables only, as codes that are
barred, so that map and search answer a part as they answer any row. All rows' open parts go to the planner together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gpucf._answers import Answers
from gpucf._cells import ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._groups import Group
from gpucf._jit import njit
from gpucf._keys import key_precedes
from gpucf._planner import Limits, Planner, Question
from gpucf._prices import Prices, price_tables
from gpucf._rule_text import CHANGES, RISES
from gpucf._targets import Condition, Target, target_of

_MOST_BARRED = 1 << 26  # entries of the table of barred codes in one question

# How a feature must change (at all, to lower or higher values, to "missing"), or must not (at all, up, down).
ANY, DOWN, UP, AWAY, STILL, NO_RISE, NO_FALL = range(7)
CHANGING = (ANY, DOWN, UP, AWAY)


class Part(NamedTuple):
    """Points of which features move, or do not, in these `ways`, and that meet these `demands` by position."""

    ways: frozenset[tuple[int, int]] = frozenset()
    demands: frozenset[int] = frozenset()

    def also(self, *ways: tuple[int, int]) -> Part:
        return self._replace(ways=self.ways.union(ways))

    @property
    def changing(self) -> frozenset[int]:
        return frozenset(j for j, way in self.ways if way in CHANGING)


@dataclass(eq=False)
class Solved:
    """A part with its best point; inf where none is found, `proved` then says whether there is none."""

    part: Part
    codes: np.ndarray
    cost: float
    bound: float
    proved: bool


@dataclass(eq=False)
class RowState:
    """One row on its way to its answers.

    Attributes
    ----------
    price, displacement : float64 arrays over codes
    sets : list of frozensets
        Changed features of the answers so far.
    solved, waiting :
        Parts with their best points; parts without, and what a point of theirs costs at least.
    found : list
        Answers; the last may be what is left open.
    """

    row: int
    own: np.ndarray
    price: np.ndarray
    displacement: np.ndarray
    sets: list[frozenset[int]] = field(default_factory=list)
    solved: list[Solved] = field(default_factory=list)
    waiting: dict[Part, float] = field(default_factory=dict)
    seen: set[Part] = field(default_factory=set)
    found: list[Solved] = field(default_factory=list)
    visits: list[int] = field(default_factory=list)
    since: int = 0
    done: bool = False


@dataclass(eq=False)
class Space:
    """What all rows have in common.

    Attributes
    ----------
    demands : tuple of Condition
        What parts may demand beside the target.
    """

    planner: Planner
    cells: Cells
    costs: CostModel
    own_codes: np.ndarray
    values: np.ndarray
    demands: tuple[Condition, ...] = ()

    def start(self, row: int) -> RowState:
        """A row of which nothing is known."""
        n_codes = int(self.cells.code_start[-1])
        price, displacement = np.empty(n_codes), np.empty(n_codes)
        own = self.own_codes[row]
        price_tables(self.costs.prices, row, own, self.values[row], self.cells.kind, self.cells.code_start, price,
                     displacement)  # fmt: skip
        return RowState(row, own, price, displacement)

    def best(self, state: RowState) -> Solved | None:
        """The part whose point stands first; those that a limit has left open count by their bounds."""
        best: Solved | None = None
        for other in state.solved:
            if (
                best is None
                or other.bound < best.bound
                or (other.bound == best.bound and self._before(state, other, best))
            ):
                best = other
        return best

    def _before(self, state: RowState, a: Solved, b: Solved) -> bool:
        if not (a.proved and b.proved):
            return not a.proved
        kind, code_start = self.cells.kind, self.cells.code_start
        return bool(_precedes(a.codes, b.codes, state.own, kind, code_start, state.price, state.displacement))

    def ways(self, state: RowState, j: int) -> Iterator[int]:
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

    def ways_of(self, state: RowState, j: int, way: str, so: bool) -> list[int]:
        """Ways that together say that a feature "changes", "rises" or "falls", or does not."""
        if way == CHANGES:
            return list(self.ways(state, j)) if so else [STILL]
        if so:
            return [UP if way == RISES else DOWN]
        return [NO_RISE if way == RISES else NO_FALL]

    def open(self, state: RowState, part: Part, cost: float) -> None:
        """Have a part looked at, of which no point costs less than `cost`."""
        if part in state.seen:
            return
        state.seen.add(part)
        least = np.zeros(self.cells.n_features)
        barred = self._barred(state.own, part)
        for j in part.changing:
            codes = slice(int(self.cells.code_start[j]), int(self.cells.code_start[j + 1]))
            least[j] = np.min(np.where(barred[codes], np.inf, state.price[codes]))
        bound = 0.0
        for p in least.tolist():  # in feature order, one rounding after another: below every sum of such prices
            bound = max(bound, p) if self.costs.prices.is_max else bound + p
        if bound < np.inf:
            state.waiting[part] = max(bound, cost)

    def _barred(self, own: np.ndarray, part: Part) -> np.ndarray:
        """Codes that a part bars, its own ones among them where a feature has to change."""
        out = np.zeros(int(self.cells.code_start[-1]), bool)
        for j, way in part.ways:
            code, mine, missing = np.arange(int(self.cells.n_codes[j])), int(own[j]), int(self.cells.n_codes[j]) - 1
            barred = {
                ANY: code == mine,
                DOWN: (code >= mine) | (mine == missing),  # what is missing neither falls nor rises
                UP: (code <= mine) | (code == missing),
                AWAY: code != missing,
                STILL: code != mine,
                NO_RISE: (code > mine) & (code != missing),
                NO_FALL: (code < mine) & (mine != missing),
            }[way]
            out[self.cells.code_start[j] : self.cells.code_start[j + 1]] |= barred
        return out

    def solve(self, wishes: list[tuple[RowState, Part]], group: Group, limits: Callable[[], Limits]) -> None:
        """Answer parts of rows of one target, as rows of one table for each set of demands."""
        by_demands: dict[frozenset[int], list[tuple[RowState, Part]]] = defaultdict(list)
        for state, part in wishes:
            by_demands[part.demands].append((state, part))
        own = group.labels(len(self.own_codes))
        at_once = max(1, _MOST_BARRED // int(self.cells.code_start[-1]))
        for demands, some in by_demands.items():
            target = self._target(group.target, demands)
            # A row that does not meet the target does not meet more than that either.
            labels = own if not demands else np.zeros(len(own), np.int64)
            for begin in range(0, len(some), at_once):
                self._solve(some[begin : begin + at_once], target, labels, limits())

    def _target(self, target: Target, demands: frozenset[int]) -> Target:
        if not demands:
            return target
        more = [self.demands[number] for number in sorted(demands)]
        return target_of(
            self.planner.ensemble, [[*conditions, *more] for conditions in target.alternatives], target.text
        )

    def _solve(self, some: list[tuple[RowState, Part]], target: Target, own: np.ndarray, limits: Limits) -> None:
        rows = np.array([state.row for state, _ in some])
        barred = np.stack([self._barred(state.own, part) for state, part in some])
        changing = np.zeros(self.cells.n_features, bool)
        for _, part in some:
            changing[list(part.changing)] = True
        prices = of_rows(self.costs.prices, rows)
        prices = prices._replace(barred=barred, irregular=prices.irregular | changing)
        question = Question(
            target, self.cells, replace(self.costs, prices=prices), self.own_codes[rows], self.values[rows], own[rows],
            np.arange(len(rows)),
        )  # fmt: skip
        answers, _ = self.planner.answer(question, limits, None)
        for i, (state, part) in enumerate(some):
            parent = state.waiting.pop(part)
            state.since += int(answers.visits[i])
            cost, proved = float(answers.cost[i]), bool(answers.proved[i])
            if proved and cost == np.inf:
                continue  # nothing in this part
            bound = cost if proved else max(parent, float(answers.lower_bound[i]))
            state.solved.append(Solved(part, answers.codes[i].copy(), cost, bound, proved))


def of_rows(prices: Prices, rows: np.ndarray) -> Prices:
    """Prices for a table that is made of some rows of another."""
    by_row = {name: getattr(prices, name) for name in ("at", "low", "high", "at_low", "at_high")}
    return prices._replace(**{name: a[rows] if len(a) > 1 else a for name, a in by_row.items()})


def write_found(out: list[Answers], state: RowState) -> None:
    """Write what was found for a row, by rank."""
    for rank, answer in enumerate(state.found):
        if not answer.proved:
            leave_open(out, state.row, rank, answer.bound)
        if np.isfinite(answer.cost):
            out[rank].codes[state.row] = answer.codes
            out[rank].cost[state.row] = answer.cost
            out[rank].lower_bound[state.row] = answer.bound
    for rank, visits in enumerate(state.visits[: len(out)]):
        out[rank].visits[state.row] += visits


def leave_open(out: list[Answers], row: int, rank: int, bound: float) -> None:
    """From a rank on nothing is proved but that answers cost at least `bound`."""
    for answers in out[rank:]:
        answers.proved[row] = False
        answers.lower_bound[row] = bound


@njit
def _precedes(a, b, own, kind, code_start, price, displacement):
    """Whether the key of point `a` stands before that of point `b`, which costs the same."""
    total_a = 0.0
    total_b = 0.0
    for j in range(len(kind)):
        total_a += displacement[code_start[j] + a[j]]
        total_b += displacement[code_start[j] + b[j]]
    return key_precedes(a, total_a, b, total_b, own, kind, code_start, price, displacement)
