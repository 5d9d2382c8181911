"""What features declare, by brute force: the oracle's values and prices from the rules themselves, and a checker.

Nothing here knows of cells, codes or price tables: values are enumerated, prices computed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from oracle import inside, last_at_most, least_key, models, thresholds

import gpucf

TERMS = {"l1": (0, 1, 0), "linf": (0, 1, 0), "quantile": (0, 1, 0), "l2": (0, 0, 1), "l0": (1, 0, 0)}
LIMITS = ("low", "high", "max_change", "max_rise", "max_fall")


class Declared:
    """Rules of all features for one query; `given` and `options` as the caller passes them.

    `numbers` are those that further rules compare columns with.
    """

    def __init__(
        self, engine: gpucf.Engine, given: dict[str, Any], options: dict[str, Any], background: Any, numbers: Any = ()
    ) -> None:
        self.numbers = [v for t in numbers for v in (float(np.nextafter(t, -np.inf)), float(t))]
        self.engine, self.given, self.options, self.background = engine, given, options, background
        cost = options.get("cost", "l1")
        self.is_max = cost == "linf"
        self.quantile = cost == "quantile" or (isinstance(cost, dict) and "quantile" in cost)
        shares = cost if isinstance(cost, dict) else {cost: 1.0}
        self.terms = [sum(s * TERMS[t][k] for t, s in shares.items()) for k in range(3)]
        cells = engine.cells()
        self.names, self.columns, self.kinds = cells.names, cells.columns, cells.kind

    def entry(self, name: str) -> dict[str, Any]:
        wish = self.given.get(name, {})
        return {"kind": wish} if isinstance(wish, str) else wish

    def answer(self, goal: Any, x: np.ndarray, i: int) -> tuple[Any, float]:
        return least_key(self.engine, goal, x, self.columns, *self.moves(x, i), self.is_max)

    def moves(self, x: np.ndarray, i: int) -> tuple[list[Any], list[Any]]:
        """By feature: all values that row `i` may take, its own one first; and their prices, displacements, order."""
        lists, tables = [], []
        for j in range(len(self.columns)):
            values, prices = self._feature(j, x[list(self.columns[j])], i)
            lists.append(values)
            tables.append(prices)
        return lists, tables

    def _feature(self, j: int, own: np.ndarray, i: int) -> tuple[list[Any], Any]:
        name, entry = self.names[j], self.entry(self.names[j])
        weight = self.options.get("weights", {}).get(name, entry.get("weight", 1.0))
        frozen = self._flag("immutable", name, i) or (entry.get("immutable", False) and not self._freed(name))
        frozen = frozen or name not in self.options.get("only", self.names)
        missing = entry.get("missing", "keep")
        states = {} if missing == "keep" else missing
        if self.kinds[j] != 0:
            return self._category(j, tuple(own), entry, weight, frozen, states)
        return self._number(j, float(own[0]), entry, weight, frozen, states, i)

    def _flag(self, option: str, name: str, i: int) -> bool:
        wish = self.options.get(option, ())
        if isinstance(wish, dict):
            value = wish.get(name, False)
            return bool(value if isinstance(value, bool) else value[i])
        return name in wish

    def _freed(self, name: str) -> bool:
        wish = self.options.get("immutable", ())
        return isinstance(wish, dict) and wish.get(name) is False

    def _price(self, d: float, weight: float, fixed: float) -> float:
        flat, linear, square = (t * weight for t in self.terms)
        d = float(d)  # Python's floats become inf where numpy's warn
        p = flat + fixed
        if linear > 0:
            p += linear * d
        if square > 0:
            p += square * (d * d)
        return p

    def _category(self, j: int, own: tuple[float, ...], entry: dict[str, Any], weight: float, frozen: bool,
                  states: dict[str, Any]) -> Any:  # fmt: skip
        n, fixed = len(self.columns[j]), entry.get("fixed", 0.0)
        if n > 1:
            options = [tuple(np.eye(n)[k]) for k in range(n)] + [(0.0,) * n] * ("reference" in entry)
            labels = [self.engine.ensemble.feature_names[c] for c in self.columns[j]] + [entry.get("reference")]
        else:
            labels = list(self.engine.ensemble.categories[self.columns[j][0]])
            options = [(float(k),) for k in range(len(labels))]
        tie, plain = weight if weight > 0 else 1.0, not states and not ({"prices", "forbidden"} & set(entry))
        values, price, displacement, order = [own], [0.0], [0.0], [(-1.0, 0, 0.0)]
        is_missing = np.isnan(own[0])
        here = None if is_missing else labels[options.index(own)]
        for k, option in enumerate(options):
            p = self._price(1.0, weight, fixed)
            if is_missing:
                leave = states.get("leave", {"to": []})
                p = self._price(leave.get("price", 1.0), weight, fixed) if labels[k] in _listed(leave["to"]) else np.inf
            else:
                for start, row in entry.get("prices", {}).items():
                    if start == here and labels[k] in row:
                        p = np.inf if row[labels[k]] is None else self._price(row[labels[k]], weight, fixed)
                if [here, labels[k]] in [list(pair) for pair in entry.get("forbidden", [])]:
                    p = np.inf
            if option == own or frozen or not np.isfinite(p):
                continue
            values.append(option), price.append(p), displacement.append(tie if plain else p), order.append((p, 0, k))
        if "enter" in states and not is_missing and not frozen:
            p = self._price(states["enter"], weight, fixed)
            values.append((np.nan,)), price.append(p), displacement.append(p), order.append((p, 1, 0.0))
        return values, (np.array(price), np.array(displacement), order)

    def attainable(self, j: int, extra: list[float]) -> list[float]:
        """Every attainable value that could matter: the whole grid where it is declared, else those around cuts."""
        c = self.columns[j][0]
        column, entry = self.engine.domain.columns[c], self.entry(self.names[j])
        kind = column.dtype.type if column.dtype.kind == "f" else float
        values = entry.get("levels", entry.get("values"))
        low, high = entry.get("range") or [None, None]
        if values is not None:
            found = {float(kind(v)) for v in values}
        elif entry.get("step") is not None:
            step, origin = Fraction(repr(entry["step"])), Fraction(repr(entry.get("origin", 0)))
            start = math.floor((Fraction(low) - origin) / step) - 2  # tests declare a range beside a step
            end = math.ceil((Fraction(high) - origin) / step) + 2
            found = {float(kind(float(origin + k * step))) for k in range(start, end + 1)}
        else:
            dtype = min((m.compare_dtype for m, _ in models(self.engine)), key=lambda d: d.itemsize)
            near = [*thresholds(self.engine, c), *self.numbers] + [
                b for b in (*extra, low, high) if b is not None and np.isfinite(b)
            ]
            found = {v for t in near for v in last_at_most(t, column, dtype) if v is not None}
        bounds = [float(kind(b)) if b is not None else s * np.inf for b, s in ((low, -1), (high, 1))]
        if column.dtype.kind in "iu":
            info = np.iinfo(column.dtype)
            bounds[0] = max(bounds[0], inside(info.min, np.float64, np.inf))
            bounds[1] = min(bounds[1], inside(info.max, np.float64, -np.inf))
        return sorted(v for v in found if bounds[0] <= v <= bounds[1])

    def held(self, j: int, v: float) -> float:
        """What the column's dtype makes of a number."""
        dtype = self.engine.domain.columns[self.columns[j][0]].dtype
        return float(dtype.type(v)) if dtype.kind == "f" else float(v)

    def limits(self, j: int, x: float, i: int) -> tuple[float, float]:
        """Least and largest value that row `i` may move to."""
        name, column = self.names[j], self.engine.domain.columns[self.columns[j][0]]
        kind = column.dtype.type if column.dtype.kind == "f" else float
        wish = {k: self.entry(name)[k] for k in LIMITS if k in self.entry(name)}
        wish |= self.options.get("limits", {}).get(name, {})
        low, high = -np.inf, np.inf
        for key, value in wish.items():
            v = float(value if np.ndim(value) == 0 else value[i])
            if np.isnan(v):
                continue
            if key == "low":
                low = max(low, float(kind(v)))
            elif key == "high":
                high = min(high, float(kind(v)))
            elif not np.isnan(x):
                shown = Decimal(str(kind(x)))
                if key != "max_fall":
                    high = min(high, float(kind(float(shown + Decimal(repr(v))))))
                if key != "max_rise":
                    low = max(low, float(kind(float(shown - Decimal(repr(v))))))
        return low, high

    def position(self, j: int, v: float) -> tuple[float, float]:
        """Where a value lies on the measure of prices, and the unit of that."""
        table = self.entry(self.names[j]).get("table")
        if table is not None:
            x, y = [float(a) for a, _ in table], [float(b) for _, b in table]
            slope = [(y[k + 1] - y[k]) / (x[k + 1] - x[k]) for k in range(len(x) - 1)]
            if v > x[-1]:
                return y[-1] + (v - x[-1]) * slope[-1], 1.0
            if v < x[0]:
                return y[0] - (x[0] - v) * slope[0], 1.0
            k = min(max(k for k in range(len(x)) if x[k] <= v), len(x) - 2)
            return min(y[k] + (v - x[k]) * slope[k], y[k + 1]), 1.0
        if self.quantile:
            known = self.background[:, self.columns[j][0]]
            known = known[~np.isnan(known)]
            return float((known < v).sum() + (known <= v).sum()), 2.0 * max(len(known), 1)
        return v, self.scale(j)

    def scale(self, j: int) -> float:
        declared = self.entry(self.names[j]).get("scale")
        return declared or self.engine._unit(self.options.get("scale", "range"))[self.columns[j][0]]

    def _number(self, j: int, x: float, entry: dict[str, Any], weight: float, frozen: bool, states: dict[str, Any],
                i: int) -> Any:  # fmt: skip
        low, high = self.limits(j, x, i)
        fixed, tie = entry.get("fixed", 0.0), weight if weight > 0 else 1.0
        name, may = self.names[j], (entry.get("decrease_only", False), entry.get("increase_only", False))
        no_rise = may[0] or name in self.options.get("decrease_only", ())
        no_fall = may[1] or name in self.options.get("increase_only", ())
        values, price, displacement, order = [(x,)], [0.0], [0.0], [(-1.0, 0, 0.0)]
        if frozen or (no_rise and no_fall):
            return values, (np.array(price), np.array(displacement), order)
        if np.isnan(x):
            leave = states.get("leave", {"to": []})
            for v in (self.held(j, v) for v in sorted(_listed(leave["to"]), reverse=True)):
                p = self._price(leave.get("price", 1.0), weight, fixed)
                if low <= v <= high:
                    values.append((v,)), price.append(p), displacement.append(p), order.append((p, 0, -v))
            return values, (np.array(price), np.array(displacement), order)
        for v in self.attainable(j, [low, high]):
            if v == x or not low <= v <= high or (no_rise if v > x else no_fall):
                continue
            (a, unit), (b, _) = self.position(j, v), self.position(j, x)
            factor = entry.get("price_up", 1.0) if v > x else entry.get("price_down", 1.0)
            p = self._price(abs(a - b) / unit, factor * weight, fixed)
            d = p if states else tie * (abs(v - x) / self.scale(j))
            (
                values.append((v,)),
                price.append(p),
                displacement.append(d),
                order.append((d, int(v > x), v if v > x else -v)),
            )  # nearer first, exactly
        if "enter" in states:
            p = self._price(states["enter"], weight, fixed)
            values.append((np.nan,)), price.append(p), displacement.append(p), order.append((p, 2, 0.0))
        return values, (np.array(price), np.array(displacement), order)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


Check = Callable[[dict[str, float], dict[str, float]], bool]


def check_rules(declared: Declared, before: np.ndarray, after: np.ndarray, rules: Sequence[Check] = ()) -> int:
    """Everything that is declared and asked, on the numbers of a returned table, in plain Python.

    `rules` say of a row and its answer, as dicts by column, whether they keep a rule. Rows that did not change are
    looked at by rules only. Returns how many moves there were.
    """
    moves = 0
    names, only = declared.engine.ensemble.feature_names, declared.options.get("only")
    for i in range(len(before)):
        for j, columns in enumerate(declared.columns):
            a, b = before[i, list(columns)], after[i, list(columns)]
            if a.tobytes() == b.tobytes():
                continue
            moves += 1
            name, entry = declared.names[j], declared.entry(declared.names[j])
            assert only is None or name in only, (name, i)
            assert not declared._flag("immutable", name, i), (name, i)
            assert not entry.get("immutable", False) or declared._freed(name)
            if declared.kinds[j] != 0:
                _check_category(declared, j, a, b, entry)
            else:
                _check_number(declared, j, float(a[0]), float(b[0]), i, entry)
        points = [dict(zip(names, row.tolist(), strict=True)) for row in (before[i], after[i])]
        assert all(keeps(*points) for keeps in rules), (i, points)
    return moves


def _check_category(declared: Declared, j: int, a: np.ndarray, b: np.ndarray, entry: dict[str, Any]) -> None:
    states = {} if entry.get("missing", "keep") == "keep" else entry["missing"]
    if len(b) > 1:
        assert set(b) <= {0.0, 1.0} and b.sum() in ((0.0, 1.0) if "reference" in entry else (1.0,))
        labels = [declared.engine.ensemble.feature_names[c] for c in declared.columns[j]]
        start, end = (labels[int(np.argmax(v))] if v.any() else entry["reference"] for v in (a, b))
    else:
        labels = list(declared.engine.ensemble.categories[declared.columns[j][0]])
        if np.isnan(b[0]):
            assert "enter" in states
            return
        end = labels[int(b[0])]
        if np.isnan(a[0]):
            assert end in _listed(states["leave"]["to"])
            return
        start = labels[int(a[0])]
    assert entry.get("prices", {}).get(start, {}).get(end, 1.0) is not None
    assert [start, end] not in [list(pair) for pair in entry.get("forbidden", [])]


def _check_number(declared: Declared, j: int, a: float, b: float, i: int, entry: dict[str, Any]) -> None:
    name, column = declared.names[j], declared.engine.domain.columns[declared.columns[j][0]]
    kind = column.dtype.type if column.dtype.kind == "f" else float
    states = {} if entry.get("missing", "keep") == "keep" else entry["missing"]
    if np.isnan(b):
        assert "enter" in states
        return
    if np.isnan(a):
        assert b in [declared.held(j, v) for v in _listed(states["leave"]["to"])]
    else:
        for way, sign in (("increase_only", 1), ("decrease_only", -1)):
            if entry.get(way, False) or name in declared.options.get(way, ()):
                assert sign * b > sign * a, (name, a, b)
    low, high = entry.get("range") or [None, None]
    assert low is None or b >= float(kind(low))
    assert high is None or b <= float(kind(high))
    values = entry.get("levels", entry.get("values"))
    if values is not None:
        assert b in [float(kind(v)) for v in values]
    if "step" in entry:
        steps = (Decimal(str(kind(b))) - Decimal(repr(entry.get("origin", 0)))) / Decimal(repr(entry["step"]))
        assert steps == int(steps), (name, b)
    if column.kind != "continuous":
        assert b == int(b)
    least, largest = declared.limits(j, a, i)
    assert least <= b <= largest, (name, a, b)
