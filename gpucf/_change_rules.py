"""Rules about moves: "if degree changes then age rises", which hold of a row and its answer together.

Such a rule is brought into alternatives, each of *moves* (a feature stays, changes, rises, falls, or not) and of
conditions on the answer alone. The moves become codes that a row may not have, the conditions trees like those of other
rules, with an output of their own, of which an alternative demands that it is 0. Which alternative a row takes is found
by `gpucf._options`: neither map nor search learns anything.

A feature that has to move needs a grid, and every value of it a cell of its own: the least rise is to the next value,
whether or not the model can tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpucf._domain import Domain
from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError
from gpucf._rule_text import CHANGES, RISES, Names, Node, Variable, has_moves
from gpucf._rules import Rules, as_model, grid_of, need_grid, new_builder, pieces_of, static_rule

MOST_ALTERNATIVES = 64


class Move(NamedTuple):
    """Whether a feature, by its position, moves in a way ("changes", "rises", "falls"), or does not."""

    feature: int
    way: str
    so: bool


class Alternative(NamedTuple):
    """One way to keep a rule: all these moves, and all these conditions, by their position in `ChangeRules`."""

    moves: frozenset[Move]
    demands: frozenset[int]


@dataclass(frozen=True, eq=False)
class ChangeRule:
    text: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, eq=False)
class ChangeRules:
    """All rules about moves of an engine.

    Attributes
    ----------
    columns : tuple of tuples of int
        Columns of each feature.
    conditions : tuple of Rules
        What alternatives demand of the answer, one rule each.
    grids : dict
        By column, the ends of the pieces that need cells of their own.
    """

    rules: tuple[ChangeRule, ...]
    columns: tuple[tuple[int, ...], ...]
    conditions: tuple[Rules, ...]
    grids: Mapping[int, np.ndarray]

    def kept(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Whether each row keeps each rule, from the numbers themselves, bool of shape (n_rules, n_rows)."""
        meets = [condition.kept(after) for condition in self.conditions]
        out = np.zeros((len(self.rules), len(before)), bool)
        for number, rule in enumerate(self.rules):
            for moves, demands in rule.alternatives:
                holds = np.ones(len(before), bool)
                for move in moves:
                    holds &= self._moved(move, before, after) == move.so
                for demand in demands:
                    holds &= meets[demand]
                out[number] |= holds
        return out

    def _moved(self, move: Move, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        a, b = (x[:, list(self.columns[move.feature])] for x in (before, after))
        if move.way == CHANGES:
            return ~((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)
        found: np.ndarray = (a < b if move.way == RISES else a > b)[:, 0]
        return found

    def check_rows(self, X: np.ndarray) -> None:
        """Refuse rows that some condition cannot tell apart."""
        for condition in self.conditions:
            condition.check_rows(X)

    def ensembles(self, main: Ensemble) -> list[Ensemble]:
        """One for each condition; then, where features have to move, one that only cuts their grids."""
        out = [condition.ensemble(main, -_typical_leaf(main)) for condition in self.conditions]
        if self.grids:
            builder = new_builder(main)
            for column, ends in self.grids.items():
                builder.add_tree(*_cutting(column, ends))
            out.append(as_model(builder, main))
        return out


def _typical_leaf(main: Ensemble) -> float:
    """A leaf value like the model's own, so that maps, which split where most is open, look at both alike."""
    value = np.abs(main.leaf_value).max(axis=1).astype(np.float64)
    return float(np.median(value[value > 0])) if (value > 0).any() else 1.0


def _cutting(column: int, ends: np.ndarray) -> tuple[Any, ...]:
    """A balanced tree with a leaf between all neighbouring ends, all leaves 0: arguments of `TreeBuilder.add_tree`."""
    nodes: list[list[Any]] = []

    def grow(first: int, last: int) -> int:
        place, middle = len(nodes), (first + last) // 2
        nodes.append([column, float(ends[middle]), -1, -1] if first < last else [0, 0.0, -1, -1])
        if first < last:
            nodes[place][2:] = grow(first, middle), grow(middle + 1, last)
        return place

    grow(0, len(ends))
    feature, threshold, left, right = map(np.array, zip(*nodes, strict=True))
    n = len(nodes)
    return feature, threshold, left, right, np.zeros(n, bool), np.zeros(n), 0, np.full(n, -1)


def make_change_rules(
    rules: Sequence[tuple[str, Node]], names: Names, domain: Domain, dtype: np.dtype[Any]
) -> ChangeRules:
    """Bring rules into alternatives.

    Raises
    ------
    OptionError
        If a rule forbids a row to stay as it is, has too many alternatives, or moves a column that is on no grid.
    """
    place = {name: j for j, name in enumerate(names.variables)}
    known: dict[Node, int] = {}
    conditions: list[Rules] = []
    grids: dict[int, np.ndarray] = {}
    out = []
    for text, node in rules:
        found: list[Alternative] = []
        for moves, demands in _merged(_alternatives(text, node, False)):
            for condition in demands:
                if condition not in known:
                    known[condition] = len(conditions)
                    conditions.append(Rules((static_rule(text, condition, names, domain, dtype),)))
            for name in (name for name, _, so in moves if so):
                _add_grid(text, names.variables[name], domain, dtype, grids)
            found.append(
                Alternative(
                    frozenset(Move(place[name], way, so) for name, way, so in moves),
                    frozenset(known[condition] for condition in demands),
                )
            )
        if not any(not demands and not any(m.so for m in moves) for moves, demands in found):
            raise OptionError(
                f"rule {text!r} says something of rows of which nothing moves. Say it of moves only: "
                "'if ... changes then ...'."
            )
        out.append(ChangeRule(text, tuple(found)))
    columns = tuple(variable.columns for variable in names.variables.values())
    return ChangeRules(tuple(out), columns, tuple(conditions), grids)


def _add_grid(
    text: str, variable: Variable, domain: Domain, dtype: np.dtype[Any], grids: dict[int, np.ndarray]
) -> None:
    if variable.labels is not None:
        return
    values = grid_of(variable, domain, dtype)
    need_grid(text, variable.name, values)
    ends = pieces_of(variable, values, set()).high
    grids[variable.columns[0]] = ends[np.isfinite(ends) & (ends < np.finfo(np.float64).max)]


_Wish = tuple[frozenset[tuple[str, str, bool]], tuple[Node, ...]]


def _alternatives(text: str, node: Node, negated: bool) -> list[_Wish]:
    """Disjunctive form: each alternative holds moves, and conditions that speak of no move."""
    if not has_moves(node):
        return [(frozenset(), (("not", node) if negated else node,))]
    if node[0] == "not":
        return _alternatives(text, node[1], not negated)
    if node[0] == "moves":
        return [(frozenset([(node[1], node[2], not negated)]), ())]
    parts = [_alternatives(text, part, negated) for part in node[1:]]
    if (node[0] == "or") != negated:
        return [wish for part in parts for wish in part]
    if np.prod([len(part) for part in parts]) > MOST_ALTERNATIVES:
        raise OptionError(f"rule {text!r} has more than {MOST_ALTERNATIVES} alternatives; split it.")
    return [
        (frozenset().union(*(moves for moves, _ in picked)), tuple(c for _, some in picked for c in some))
        for picked in product(*parts)
    ]


def _merged(wishes: list[_Wish]) -> list[_Wish]:
    """Alternatives without any move as one."""
    alone = [
        ("and", *conditions) if len(conditions) > 1 else conditions[0] for moves, conditions in wishes if not moves
    ]
    moving = list(dict.fromkeys(wish for wish in wishes if wish[0]))
    if not alone:
        return moving
    return [*moving, (frozenset(), (("or", *alone) if len(alone) > 1 else alone[0],))]
