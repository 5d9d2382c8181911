"""Costs: what a caller wishes, laid out by feature for the price tables (see `gpucf._prices`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._cells import ORDERED, Cells
from gpucf._errors import OptionError
from gpucf._features import Feature, Features
from gpucf._prices import Prices

COSTS = ("l1", "l2", "linf", "l0", "quantile")
_TERMS = ("l1", "l2", "l0", "quantile")


@dataclass(frozen=True)
class Terms:
    """What one changed feature of weight 1 costs: ``flat + linear * d + square * d * d`` for a move by `d` units."""

    name: str
    flat: float
    linear: float
    square: float
    quantile: bool

    @classmethod
    def of(cls, cost: Any) -> Terms:
        """A name of `COSTS`, or a mixture such as ``{"l1": 1, "l0": 0.1}``."""
        if isinstance(cost, Mapping):
            return cls._mixture(cost)
        name = str(cost).lower()
        if name not in COSTS:
            raise OptionError(
                f"cost is {cost!r}; give one of {', '.join(map(repr, COSTS))}, or a mixture such as "
                '{"l1": 1, "l0": 0.1}.'
            )
        linear = name in ("l1", "linf", "quantile")
        return cls(name, float(name == "l0"), float(linear), float(name == "l2"), name == "quantile")

    @classmethod
    def _mixture(cls, cost: Mapping[Any, Any]) -> Terms:
        share = {str(term).lower(): value for term, value in cost.items()}
        unknown = [term for term in share if term not in _TERMS]
        if unknown or len(share) < len(cost):
            why = "; the largest price cannot be added to a sum" if "linf" in unknown else ""
            raise OptionError(f"cost is {dict(cost)!r}{why}; a mixture takes {', '.join(map(repr, _TERMS))}.")
        if "quantile" in share and ("l1" in share or "l2" in share):
            raise OptionError(
                f"cost is {dict(cost)!r}, but a move is measured either in units of the column (l1, l2) or in shares "
                'of the population (quantile). Mix either with "l0".'
            )
        share = {term: checked_number(f"cost[{term!r}]", value) for term, value in share.items()}
        if not any(share.values()):
            raise OptionError(f"cost is {dict(cost)!r}, by which every change is free; give a number above 0.")
        linear = share.get("l1", 0.0) + share.get("quantile", 0.0)
        return cls("mixture", share.get("l0", 0.0), linear, share.get("l2", 0.0), "quantile" in share)


@dataclass(frozen=True, eq=False)
class CostModel:
    """How moves are priced, per feature.

    With ``d = |v - x| / scale`` (1 for a change of category): L1 sums ``weight * d``, L2 sums ``weight * d * d``
    (reported as the root), Linf takes the largest ``weight * d``, L0 sums the weights of changed features. "quantile"
    is L1 with ``d`` the share of the background between `x` and `v` (see `Population`). A mixture sums its terms, times
    their factors, and takes no root.

    Attributes
    ----------
    terms : Terms
    weight, scale : float64 arrays of shape (n_features,)
    may_rise, may_fall : bool arrays of shape (n_features,)
        Both False: immutable.
    prices : Prices
    """

    terms: Terms
    weight: np.ndarray
    scale: np.ndarray
    may_rise: np.ndarray
    may_fall: np.ndarray
    prices: Prices

    @property
    def name(self) -> str:
        """One of `COSTS`, or "mixture"."""
        return self.terms.name

    def report(self, inner: np.ndarray) -> np.ndarray:
        """The cost as users see it, from the sum or maximum that is minimised."""
        return np.sqrt(inner) if self.name == "l2" else inner


def make_cost_model(
    cells: Cells,
    column_names: Sequence[str],
    cost: str | Mapping[str, float],
    weights: Mapping[str, float] | Sequence[float] | np.ndarray | None,
    scale: np.ndarray,
    immutable: Sequence[str] | Mapping[str, Any],
    increase_only: Sequence[str],
    decrease_only: Sequence[str],
    features: Features | None = None,
) -> CostModel:
    """Check the caller's wishes and lay them out by feature.

    `scale` is the displacement unit of each column, float64 of shape (n_columns,). What is said here comes before what
    `features` say. Limits, measures, price tables and missing values are added by `gpucf._special`.
    """
    terms = Terms.of(cost)
    entries = entries_of(cells, features)
    may_rise = np.array([not (e.immutable or e.decrease_only) for e in entries], bool)
    may_fall = np.array([not (e.immutable or e.increase_only) for e in entries], bool)
    for j, frozen in _immutable(immutable, cells, column_names):
        may_rise[j] = not frozen and not entries[j].decrease_only
        may_fall[j] = not frozen and not entries[j].increase_only
    up_at = features_named("increase_only", increase_only, cells, column_names)
    down_at = features_named("decrease_only", decrease_only, cells, column_names)
    for option, at in (("increase_only", up_at), ("decrease_only", down_at)):
        wrong = [cells.names[j] for j in at if cells.kind[j] != ORDERED]
        if wrong:
            raise OptionError(f"{option} names {wrong[0]!r}, whose categories have no order; use immutable instead.")
    may_rise[down_at] = False
    may_fall[up_at] = False
    unit = np.ones(cells.n_features)
    for j in np.flatnonzero(cells.kind == ORDERED).tolist():
        declared = entries[j].scale
        unit[j] = scale[cells.columns[j][0]] if declared is None else declared
    weight = np.array([1.0 if e.weight is None else e.weight for e in entries], np.float64)
    weight = _weights(weights, cells, column_names, weight)
    prices = _plain_prices(cells, terms, weight, unit, may_rise, may_fall, entries)
    return CostModel(terms, weight, unit, may_rise, may_fall, prices)


def entries_of(cells: Cells, features: Features | None) -> list[Feature]:
    """What is declared of each feature."""
    declared = {} if features is None else features.entries
    return [declared.get(name, Feature()) for name in cells.names]


def _immutable(immutable: Any, cells: Cells, column_names: Sequence[str]) -> list[tuple[int, bool]]:
    """Features that may, or may not, move, by a list of names or by a dict of booleans.

    Entries of a dict that are arrays or columns are limits of single rows, see `gpucf._limits`.
    """
    names = list(immutable) if isinstance(immutable, Mapping) else immutable
    at = features_named("immutable", names, cells, column_names)
    if not isinstance(immutable, Mapping):
        return [(j, True) for j in at]
    return [(j, bool(v)) for j, v in zip(at, immutable.values(), strict=True) if isinstance(v, bool | np.bool_)]


def _plain_prices(
    cells: Cells, terms: Terms, weight: np.ndarray, scale: np.ndarray, may_rise: np.ndarray, may_fall: np.ndarray,
    entries: list[Feature],
) -> Prices:  # fmt: skip
    """Prices without anything special: no limits, no measure but the values, missing stays missing."""
    n, n_codes = cells.n_features, int(cells.code_start[-1])
    nothing = np.zeros((1, n))
    sides = np.array([[e.price_down for e in entries], [e.price_up for e in entries]]).reshape(2, n) * weight
    fixed = np.array([e.fixed for e in entries], np.float64)
    return Prices(
        is_max=terms.name == "linf",
        cell_lo=cells.cell_lo,
        cell_hi=cells.cell_hi,
        flat=terms.flat * sides + fixed,
        linear=terms.linear * sides,
        square=terms.square * sides,
        far=np.where(weight > 0.0, weight, 1.0),  # 0 would not order points of equal cost
        scale=scale,
        may_rise=may_rise,
        may_fall=may_fall,
        special=np.zeros(n, bool),
        at=nothing,
        at_lo=cells.cell_lo,
        at_hi=cells.cell_hi,
        unit=scale,
        low=np.full((1, n), -np.inf),
        high=np.full((1, n), np.inf),
        at_low=nothing,
        at_high=nothing,
        matrix_start=np.full(n, -1, np.int64),
        matrix_price=np.zeros(0),
        enter_price=np.full(n, np.inf),
        leave_price=np.full(n_codes, np.inf),
        leave_value=np.full(n_codes, np.nan),
        by_price=np.zeros(n, bool),
        irregular=np.zeros(n, bool),
    )


def checked_number(what: str, value: Any) -> float:
    """A finite number >= 0, small enough for sums and products of prices."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise OptionError(f"{what} is {value!r}; give a number >= 0.") from None
    if isinstance(value, bool) or not np.isfinite(number) or number < 0 or number > 1e100:
        raise OptionError(f"{what} is {value!r}; give a finite number >= 0, at most 1e100.")
    return number


def features_named(option: str, names: Any, cells: Cells, column_names: Sequence[str]) -> list[int]:
    """Features of columns and groups given by name."""
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


def _weights(weights: Any, cells: Cells, column_names: Sequence[str], declared: np.ndarray) -> np.ndarray:
    out = declared.copy()
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
        number = checked_number(f"the weight of {name!r}", value)
        j = where[name]
        if seen.setdefault(j, number) != number:
            raise OptionError(
                f"the columns of one-hot group {cells.names[j]!r} have different weights ({seen[j]:g} and {number:g}); "
                "a change of category is one move: give the group one weight."
            )
    for j, number in seen.items():
        out[j] = number
    return out
