"""Costs: what moving to each code costs each row (design, section 5).

For one row and one feature, `price[code]` is the least price of any attainable, permitted value with that code: 0 for
the row's own code, inf where forbidden. `displacement[code]` orders points of equal cost; its scale is strictly
positive even where a weight is 0. Map, search, oracle and kernels see only these tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._cells import ORDERED, Cells
from gpucf._errors import OptionError
from gpucf._jit import inline

COSTS = {"l1": 0, "l2": 1, "linf": 2, "l0": 3}
SCALES = ("range", "std", "mad", "iqr")
# Prices stay below this, so that no sum of finite prices overflows to inf, which means "forbidden".
LARGEST_PRICE = 1e300


@dataclass(frozen=True, eq=False)
class CostModel:
    """How moves are priced, per feature.

    With displacement ``d = |v - x| / scale`` (1 for a change of category): L1 sums ``weight * d``, L2 sums
    ``weight * d * d`` (reported as the root), Linf takes the largest ``weight * d``, L0 sums the weights of changed
    features.

    Attributes
    ----------
    name : {"l1", "l2", "linf", "l0"}
    weight, scale : float64 arrays of shape (n_features,)
    may_rise, may_fall : bool arrays of shape (n_features,)
        Both False: immutable.
    """

    name: str
    weight: np.ndarray
    scale: np.ndarray
    may_rise: np.ndarray
    may_fall: np.ndarray

    @property
    def code(self) -> int:
        return COSTS[self.name]

    @property
    def is_max(self) -> bool:
        return self.name == "linf"

    def report(self, inner: np.ndarray) -> np.ndarray:
        """The cost as users see it, from the sum or maximum that is minimised."""
        return np.sqrt(inner) if self.name == "l2" else inner


def make_cost_model(
    cells: Cells,
    column_names: Sequence[str],
    cost: str,
    weights: Mapping[str, float] | Sequence[float] | np.ndarray | None,
    scale: np.ndarray,
    immutable: Sequence[str],
    increase_only: Sequence[str],
    decrease_only: Sequence[str],
) -> CostModel:
    """Check the caller's wishes and lay them out by feature.

    `scale` is the displacement unit of each column, float64 of shape (n_columns,).
    """
    name = str(cost).lower()
    if name not in COSTS:
        raise OptionError(f"cost is {cost!r}; give one of {', '.join(map(repr, COSTS))}.")
    immutable_at = _features_named("immutable", immutable, cells, column_names)
    up_at = _features_named("increase_only", increase_only, cells, column_names)
    down_at = _features_named("decrease_only", decrease_only, cells, column_names)
    for option, at in (("increase_only", up_at), ("decrease_only", down_at)):
        wrong = [cells.names[j] for j in at if cells.kind[j] != ORDERED]
        if wrong:
            raise OptionError(f"{option} names {wrong[0]!r}, whose categories have no order; use immutable instead.")
    may_rise, may_fall = np.ones(cells.n_features, bool), np.ones(cells.n_features, bool)
    may_rise[immutable_at + down_at] = False
    may_fall[immutable_at + up_at] = False
    ordered = cells.kind == ORDERED
    units = np.asarray([scale[c[0]] for c in cells.columns]) if cells.n_features else np.zeros(0)
    return CostModel(name, _weights(weights, cells, column_names), np.where(ordered, units, 1.0), may_rise, may_fall)


def _features_named(option: str, names: Any, cells: Cells, column_names: Sequence[str]) -> list[int]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise OptionError(f"{option} is {names!r}; give a list of names.")
    names = list(names)
    where = _positions(cells, column_names)
    unknown = [n for n in names if not isinstance(n, Hashable) or n not in where]
    if unknown:
        raise OptionError.unknown_names(option, [str(n) for n in unknown], list(where))
    return [where[n] for n in names]


def _positions(cells: Cells, column_names: Sequence[str]) -> dict[str, int]:
    """Feature of every column name and every group name."""
    where = {column_names[c]: j for j, columns in enumerate(cells.columns) for c in columns}
    return {**where, **{name: j for j, name in enumerate(cells.names)}}


def _weights(weights: Any, cells: Cells, column_names: Sequence[str]) -> np.ndarray:
    out = np.ones(cells.n_features)
    if weights is None:
        return out
    if hasattr(weights, "to_dict"):  # a pandas Series: by name, whatever its order
        weights = weights.to_dict()
    if isinstance(weights, Mapping):
        given = dict(weights)
    else:
        array = np.asarray(weights, dtype=object)
        if array.shape != (len(column_names),):
            raise OptionError(
                f"weights has shape {array.shape}, but the model has {len(column_names)} columns; give one number per "
                "column in the model's order, or a dict by name."
            )
        given = dict(zip(column_names, array.tolist(), strict=True))
    where = _positions(cells, column_names)
    unknown = [n for n in given if n not in where]
    if unknown:
        raise OptionError.unknown_names("weights", [str(n) for n in unknown], list(where))
    seen: dict[int, float] = {}
    for name, value in given.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise OptionError(f"the weight of {name!r} is {value!r}; give a number >= 0.") from None
        if not np.isfinite(number) or number < 0 or number > 1e100:
            raise OptionError(f"the weight of {name!r} is {number!r}; give a finite number >= 0, at most 1e100.")
        j = where[name]
        if seen.setdefault(j, number) != number:
            raise OptionError(
                f"the columns of one-hot group {cells.names[j]!r} have different weights ({seen[j]:g} and {number:g}); "
                "a change of category is one move: give the group one weight."
            )
    for j, number in seen.items():
        out[j] = number
    return out


def column_scales(values: np.ndarray, scale: str | None, n_columns: int) -> np.ndarray:
    """Displacement unit of each column from background rows (float64, NaN ignored).

    A unit that would be 0 or not finite (a constant column; a MAD of 0) falls back to the range, and for a constant
    column to 1, so that every displacement stays finite and positive.
    """
    if scale is None:
        return np.ones(n_columns)
    if scale not in SCALES:
        raise OptionError(f"scale is {scale!r}; give one of {', '.join(map(repr, SCALES))}, or None.")
    out = np.ones(n_columns)
    for j in range(n_columns):
        x = values[:, j]
        x = x[~np.isnan(x)]
        if not len(x):
            continue
        spread = float(x.max()) - float(x.min())
        with np.errstate(over="ignore", invalid="ignore"):  # the largest numbers: what is not finite falls back
            if scale == "std":
                unit = float(x.std())
            elif scale == "mad":
                unit = float(np.median(np.abs(x - np.median(x))))
            elif scale == "iqr":
                unit = float(np.subtract(*np.percentile(x, [75, 25])))
            else:
                unit = spread
        for candidate in (unit, spread, 1.0):
            if np.isfinite(candidate) and candidate > 1e-290:
                out[j] = candidate
                break
    return out


@inline
def fill_tables(
    cost, own, x, kind, code_start, cell_lo, cell_hi, weight, scale, may_rise, may_fall, price, displacement
):  # fmt: skip
    """Prices and displacements of every code for one row; `own` and `x` are its codes and values by feature."""
    for j in range(len(kind)):
        first = code_start[j]
        last = code_start[j + 1] - 1
        mine = first + own[j]
        if kind[j] != ORDERED:
            other = weight[j] if may_rise[j] and mine != last else np.inf
            far = tie_weight(weight[j]) if may_rise[j] and mine != last else np.inf
            for code in range(first, last):
                price[code] = other
                displacement[code] = far
        else:
            falls = may_fall[j] and mine != last  # a missing value stays missing
            rises = may_rise[j] and mine != last
            _price_moves(cost, falls, -1.0, x[j], cell_hi, first, mine, weight[j], scale[j], price, displacement)
            _price_moves(cost, rises, 1.0, x[j], cell_lo, mine + 1, last, weight[j], scale[j], price, displacement)
        price[last] = np.inf
        displacement[last] = np.inf
        price[mine] = 0.0
        displacement[mine] = 0.0


@inline
def tie_weight(weight):
    """Weight of a displacement where it only orders points of equal cost: never 0."""
    return weight if weight > 0.0 else 1.0


@inline
def _price_moves(cost, allowed, direction, x, ends, begin, end, weight, scale, price, displacement):
    """Prices of moving to the near ends of cells on one side.

    Each expression is one rounding after another in a fixed order, hence monotone in the distance. A cell without an
    attainable value has a NaN end and is forbidden. The division has a loop of its own, which is vectorised.
    """
    if not allowed:
        for code in range(begin, end):
            price[code] = np.inf
            displacement[code] = np.inf
        return
    far = tie_weight(weight)
    for code in range(begin, end):
        price[code] = (ends[code] - x) * direction / scale
    for code in range(begin, end):
        d = price[code]
        displacement[code] = min(far * d, LARGEST_PRICE) if d == d else np.inf
        if weight == 0.0:  # also where the displacement overflows: 0 * inf would be NaN
            p = 0.0
        elif cost == 1:
            p = weight * (d * d)
        elif cost == 3:
            p = weight
        else:
            p = weight * d
        price[code] = min(p, LARGEST_PRICE) if d == d else np.inf
