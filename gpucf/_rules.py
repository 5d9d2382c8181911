"""Rules between features as one more model: a tree for each rule, with leaves 0 and -1, whose sum must be 0.

A rule is evaluated once for all combinations of what its columns can hold: the values of their grids, and the numbers
that they are compared with. Equal neighbours are joined, and what is left is a decision tree with cuts at those values.
One tree, not one for each value: whether a box holds a point that keeps the rule is then answered exactly by the tree's
best reachable leaf, with two leaves or so a value.

A row's own value may lie off its grid, in a gap between two values, and may stay there. Where a rule says the same of
all numbers in the gap nothing is lost; where it does not, the row is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._cells import folded
from gpucf._domain import BOOLEAN, CATEGORICAL, INTEGER, Domain, Grid
from gpucf._ensemble import Ensemble, TreeBuilder
from gpucf._errors import OptionError, TableError
from gpucf._judge import Judge
from gpucf._rule_text import Names, Node, Variable, truth, walk
from gpucf._rule_tree import RuleTree

if TYPE_CHECKING:
    from gpucf._table import Table

RULES = "the rules as written"  # who checks them, in `Result.verified_by`
MOST_VALUES = 2_000  # of one column's grid
MOST_COMBINATIONS = 1 << 22


@dataclass(frozen=True, eq=False)
class Pieces:
    """What one feature can hold: the codes of its categories, or intervals of numbers that follow each other.

    Attributes
    ----------
    low, high : float64 arrays of shape (n_pieces,)
        First and last number; equal for the values of a grid, for categories (their codes), and for constants.
    landing : bool array of shape (n_pieces,)
        Whether a move may land there; elsewhere only a row's own value lies.
    """

    variable: Variable
    low: np.ndarray
    high: np.ndarray
    landing: np.ndarray

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Piece in which each row lies, -1 where it is missing."""
        x = _held(self.variable, X)
        return np.where(np.isnan(x), -1, np.searchsorted(self.high, np.where(np.isnan(x), 0.0, x)))


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule, what its columns can hold, and where in a gap it depends on the number."""

    text: str
    node: Node
    pieces: tuple[Pieces, ...]
    holds: np.ndarray
    unsure: np.ndarray

    def kept(self, X: np.ndarray) -> np.ndarray:
        """Whether each row keeps the rule, from the numbers themselves; missing values break no rule."""
        values = {p.variable.name: _held(p.variable, X) for p in self.pieces}
        missing = np.any([np.isnan(v) for v in values.values()], axis=0)
        yes, _ = truth(self.node, {name: (v, v) for name, v in values.items()})
        return missing | yes

    def check_rows(self, X: np.ndarray) -> None:
        """Refuse rows off the grid on which the rule depends on where in a gap they lie."""
        codes = np.stack([p.codes(X) for p in self.pieces], axis=1)
        off = np.stack([~p.landing[c] for p, c in zip(self.pieces, codes.T, strict=True)], axis=1) & (codes >= 0)
        rows = np.flatnonzero(off.any(axis=1) & (codes >= 0).all(axis=1))
        if not len(rows) or not self.unsure.any():
            return
        gaps, first = np.unique(np.where(off, codes, -1)[rows], axis=0, return_index=True)
        for gap, row in zip(gaps.tolist(), rows[first].tolist(), strict=True):
            choices = [
                np.flatnonzero(p.landing | (np.arange(len(p.low)) == g)) for p, g in zip(self.pieces, gap, strict=True)
            ]
            if self.unsure[np.ix_(*choices)].any():
                p, g = next((p, g) for p, g in zip(self.pieces, gap, strict=True) if g >= 0)
                raise TableError(
                    f"row {row}: {p.variable.name!r} holds {float(_held(p.variable, X)[row])!r}, which is not on its "
                    f"grid, and rule {self.text!r} depends on where between {p.low[g]:g} and {p.high[g]:g} it lies. "
                    "Round the value, give the column a finer step or a wider range, or drop the rule."
                )


@dataclass(frozen=True, eq=False)
class Rules:
    """All rules of an engine."""

    rules: tuple[Rule, ...]

    def ensemble(self, main: Ensemble, broken: float = -1.0) -> Ensemble:
        """A tree for each rule: 0 where it is kept, `broken` where it is not."""
        builder = new_builder(main)
        for rule in self.rules:
            builder.add_tree(*RuleTree(rule, builder, main.allows_missing, broken).arrays())
        return as_model(builder, main)

    def kept(self, X: np.ndarray) -> np.ndarray:
        """Whether each row keeps all rules."""
        out: np.ndarray = np.all([rule.kept(X) for rule in self.rules], axis=0)
        return out

    def judge(self) -> Judge:
        """Rules evaluated on the numbers of a table, without trees."""
        return Judge(RULES, self._broken, self._broken, self._broken, rows=_numbers_of)

    def _broken(self, X: np.ndarray) -> np.ndarray:
        broken = np.array([~rule.kept(X) for rule in self.rules])
        return -broken.sum(axis=0, dtype=np.float64).reshape(-1, 1)

    def check_rows(self, X: np.ndarray) -> None:
        """Refuse rows that some rule cannot tell apart."""
        for rule in self.rules:
            rule.check_rows(X)


def new_builder(main: Ensemble) -> TreeBuilder:
    """For trees over the columns of a model."""
    return TreeBuilder("rules", main.n_features, np.float64, np.float64)


def as_model(builder: TreeBuilder, main: Ensemble) -> Ensemble:
    """Trees as a further member of a merged ensemble."""
    return builder.build(
        0.0, library="gpucf", model_type="rules", task="regression", feature_names=main.feature_names,
        has_names=main.has_names, classes=None, allows_missing=main.allows_missing, decision="none",
        probability="none", categories=main.categories,
    )  # fmt: skip


def _numbers_of(table: Table) -> np.ndarray:
    return table.values


def _held(variable: Variable, X: np.ndarray) -> np.ndarray:
    """What a feature holds in each row: a number, or the code of its category; NaN where it is missing."""
    block: np.ndarray = X[:, list(variable.columns)]
    if len(variable.columns) == 1:
        alone: np.ndarray = block[:, 0]
        return alone
    return np.where((block == 1.0).any(axis=1), np.argmax(block == 1.0, axis=1), len(variable.columns)).astype(float)


def checked_rules(rules: Any) -> Sequence[Any]:
    """What a caller gives as rules, which must be a list."""
    if isinstance(rules, str) or not isinstance(rules, Sequence) or not len(rules):
        raise OptionError(f"rules is {rules!r}; give a list of texts such as 'a <= b'.")
    return rules


def make_rules(rules: Sequence[tuple[str, Node]], names: Names, domain: Domain, dtype: np.dtype[Any]) -> Rules:
    """Lay rules out on the grids of their columns; `dtype` is the narrowest in which a model compares.

    Raises
    ------
    OptionError
        If a rule holds nowhere, is too large, or computes with a column that is on no finite grid.
    """
    return Rules(tuple(static_rule(text, node, names, domain, dtype) for text, node in rules))


def names_of(main: Ensemble, domain: Domain) -> Names:
    """What rules may name."""
    variables: dict[str, Variable] = {}
    members: dict[str, tuple[str, int]] = {}
    references = {g.name: g.reference for g in domain.groups}
    for name, columns in folded(domain):
        labels: Any = None
        if len(columns) > 1:
            full = [main.feature_names[c] for c in columns]
            short = [n.removeprefix(name).lstrip("_=-.: ") if n.startswith(name) else n for n in full]
            labels = list(zip(full, short, strict=True))
            labels += [(references[name],)] if references[name] is not None else []
            members.update({n: (name, k) for k, n in enumerate(full)})
        elif domain.columns[columns[0]].kind == CATEGORICAL:
            labels = [(v,) for v in np.asarray(main.categories[columns[0]]).tolist()]
        variables[name] = Variable(name, columns, None if labels is None else tuple(labels))
    return Names(variables, members)


def static_rule(text: str, node: Node, names: Names, domain: Domain, dtype: np.dtype[Any]) -> Rule:
    """A condition on a row, laid out on the grids of its columns."""
    used = [names.variables[n] for n in dict.fromkeys(n[1] for n in walk(node) if n[0] in ("column", "member"))]
    if not used:
        raise OptionError(f"rule {text!r} names no column.")
    grids = {v.name: grid_of(v, domain, dtype) for v in used if v.labels is None}
    _need_held(text, node, used, domain)
    constants, computed = _compared(node, grids)
    for name in computed:
        need_grid(text, name, grids[name])
    pieces = [pieces_of(v, grids.get(v.name), constants.get(v.name, set())) for v in used]
    pieces.sort(key=lambda p: len(p.low))  # the longest last: it becomes the thresholds under all others
    n_combinations = int(np.prod([float(len(p.low)) for p in pieces]))
    if n_combinations > MOST_COMBINATIONS:
        shown = ", ".join(f"{p.variable.name!r} {len(p.low):,}" for p in pieces)
        raise OptionError(
            f"rule {text!r} is about {n_combinations:,} combinations of values ({shown}); at most "
            f"{MOST_COMBINATIONS:,} are taken. Give the columns coarser steps or narrower ranges."
        )
    shape = tuple(len(p.low) for p in pieces)
    env = {}
    for axis, p in enumerate(pieces):
        along = [-1 if a == axis else 1 for a in range(len(pieces))]
        env[p.variable.name] = (p.low.reshape(along), p.high.reshape(along))
    with np.errstate(over="ignore", invalid="ignore"):
        yes, no = truth(node, env)
    holds: np.ndarray = np.broadcast_to(yes, shape)
    unsure: np.ndarray = np.broadcast_to(~(yes | no), shape)
    landing = np.ix_(*(np.flatnonzero(p.landing) for p in pieces))
    if not (holds | unsure)[landing].any():
        raise OptionError(f"rule {text!r} holds for no values that its columns can take.")
    if unsure[landing].any():
        name = next(iter(n for n in grids if grids[n] is None), pieces[0].variable.name)
        need_grid(text, name, grids.get(name))
    return Rule(text, node, tuple(pieces), holds, unsure)


def _compared(node: Node, grids: Mapping[str, np.ndarray | None]) -> tuple[dict[str, set[float]], set[str]]:
    """Numbers that each column is compared with, and columns that rules compute with.

    In a comparison of two bare columns, each is compared with all values of the other's grid.
    """
    constants: dict[str, set[float]] = {}
    computed: set[str] = set()
    for part in walk(node):
        if part[0] == "in" and part[1][0] == "column":
            constants.setdefault(part[1][1], set()).update(part[2])
        elif part[0] in ("<=", "<", ">=", ">", "=", "!=", "in"):
            sides = part[1:] if part[0] != "in" else (part[1],)
            inside = {n[1] for side in sides for n in walk(side) if n[0] == "column"} & grids.keys()
            if not {side[0] for side in sides} <= {"column", "number"}:
                computed |= inside
                continue
            for one, other in (sides, sides[::-1]):
                if one[0] != "column":
                    continue
                known = constants.setdefault(one[1], set())
                if other[0] == "number":
                    known.add(other[1])
                elif grids[other[1]] is not None:
                    known.update(grids[other[1]].tolist())  # type: ignore[union-attr]
                elif grids[one[1]] is None:
                    computed |= inside
    return constants, computed


def _need_held(text: str, node: Node, used: Sequence[Variable], domain: Domain) -> None:
    """Refuse equality with numbers that a column cannot hold: 2.5 among whole numbers, 0.1 in float32."""
    columns = {v.name: domain.columns[v.columns[0]] for v in used if v.labels is None}
    for part in walk(node):
        if part[0] not in ("=", "!=", "in"):
            continue
        asked = [(part[1], part[2])] if part[0] == "in" else [(a, b[1:]) for a, b in (part[1:], part[:0:-1])]
        for one, values in asked:
            column = columns.get(one[1]) if one[0] == "column" else None
            if column is None or not isinstance(values[0], float):
                continue
            for value in values:
                kept = float(column.dtype.type(value)) if column.dtype.kind == "f" else value
                if kept != value or (column.kind in (INTEGER, BOOLEAN) and value != np.floor(value)):
                    raise OptionError(
                        f"rule {text!r} asks whether {one[1]!r} equals {value!r}, which no value of a {column.kind} "
                        f"column of {column.dtype} does" + (f" (the nearest is {kept!r})." if kept != value else ".")
                    )


def need_grid(text: str, name: str, grid: np.ndarray | None) -> None:
    """Refuse a rule for whose column there is no grid."""
    if grid is None:
        raise OptionError(
            f"rule {text!r} needs column {name!r} on a grid of at most {MOST_VALUES:,} values, which it is not: give "
            "it a step or a list of values, and a range."
        )


def grid_of(variable: Variable, domain: Domain, dtype: np.dtype[Any]) -> np.ndarray | None:
    """All values of a column's grid, ascending; None where it has none, or more than `MOST_VALUES`."""
    column = domain.columns[variable.columns[0]]
    grid = Grid.of(column, dtype)
    if not grid.low <= grid.high:
        return np.zeros(0)
    if not (grid.whole or grid.is_declared):
        return None
    found = [grid.low]
    while len(found) <= MOST_VALUES:
        above = float(grid.next_above(np.array([found[-1]]))[0])
        if above > grid.high:
            return np.array(found)
        found.append(above)
    return None


def pieces_of(variable: Variable, grid: np.ndarray | None, constants: set[float]) -> Pieces:
    """What a feature can hold: the values of its grid, the numbers it is compared with, and the gaps between."""
    if variable.labels is not None:
        codes = np.arange(len(variable.labels), dtype=np.float64)
        return Pieces(variable, codes, codes, np.ones(len(codes), bool))
    points = np.unique(np.concatenate([[] if grid is None else grid, sorted(constants)])) + 0.0
    ends: list[tuple[float, float]] = []
    for below, above in pairwise([-np.inf, *points.tolist(), np.inf]):
        if np.isfinite(below):
            ends.append((below, below))
        first = below if below == -np.inf else float(np.nextafter(below, np.inf))
        last = above if above == np.inf else float(np.nextafter(above, -np.inf))
        if first <= last:
            ends.append((first, last))
    low, high = np.array(ends).T
    landing = np.ones(len(low), bool) if grid is None else np.isin(low, grid) & (low == high)
    return Pieces(variable, low, high, landing)
