"""Features: what people can and cannot change, as declared by name, checked without a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from gpucf._errors import OptionError

KIND_NAMES = ("continuous", "integer", "ordinal", "binary", "boolean", "categorical")
MISSING_KEYS = ("leave", "enter")
# Keys that say nothing about the values of a column: they may stand in an entry for a one-hot group as well.
GROUP_KEYS = (
    "kind", "one_hot", "reference", "immutable", "immutable_from", "weight", "fixed", "prices", "forbidden", "missing",
)  # fmt: skip


@dataclass(frozen=True)
class Feature:
    """One entry of `Features`, checked; None where nothing is said.

    Attributes are the keys of the entry, see `Features`; ``levels`` is folded into ``values``.
    """

    kind: str | None = None
    values: tuple[float, ...] | None = None
    step: Fraction | None = None
    origin: Fraction = Fraction(0)
    range: tuple[float, float] = (-np.inf, np.inf)
    immutable: bool = False
    increase_only: bool = False
    decrease_only: bool = False
    max_change: float | None = None
    max_rise: float | None = None
    max_fall: float | None = None
    weight: float | None = None
    price_up: float = 1.0
    price_down: float = 1.0
    fixed: float = 0.0
    scale: float | None = None
    one_hot: tuple[str, ...] | None = None
    reference: str | None = None
    prices: tuple[tuple[Any, Any, float | None], ...] = ()
    missing: tuple[tuple[str, Any], ...] = ()
    table: Any = None
    low_from: str | None = None
    high_from: str | None = None
    immutable_from: str | None = None
    given: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Features:
    """What each column, or one-hot group, may become, and at what price.

    Parameters
    ----------
    given : dict
        By name of column or group: a kind, or a dict of the keys below. What is not named stays as the background's
        dtypes say, free to move.

        ``kind`` : "continuous", "integer", "ordinal", "binary" (or "boolean"), "categorical"
        ``levels`` : the levels of an ordinal column, ascending numbers
        ``values`` : numbers that a move may land on
        ``step``, ``origin`` : a move lands on ``origin + k * step`` (origin 0 if not given)
        ``range`` : [low, high] that a move lands in, null for an open end
        ``immutable``, ``increase_only``, ``decrease_only`` : true or false
        ``max_change``, ``max_rise``, ``max_fall`` : largest distance of a move
        ``weight`` : factor of the price; ``price_up``, ``price_down`` : further factors of rises and falls
        ``fixed`` : charge for changing at all, in cost units, added to the price
        ``scale`` : unit of a move, a number
        ``table`` : [[value, price up to it], ...], rising, or a function of an array of values that rises: a move from
        x to v has the length |table(v) - table(x)|. Between the values prices run straight, beyond them as at the end.
        ``one_hot`` : columns of a one-hot group; ``reference`` : the name of the category whose column was left out
        ``prices`` : {from: {to: price}}, a price of 1 where nothing is said, null for a move that is forbidden
        ``forbidden`` : [[from, to], ...]
        ``missing`` : "keep", or {"leave": {"to": value or list, "price": 1}, "enter": 1}: whether a missing value may
        be filled, with what, and whether one may become missing
        ``low_from``, ``high_from``, ``immutable_from`` : columns of the table that hold these for each row

        The name ``rules`` with a list of texts says what must hold between columns, as ``Engine(..., rules=...)``.
    notes : dict, optional
        Lines about an entry, by its name: comments in a YAML file.

    Raises
    ------
    OptionError
        If an entry has an unknown key or a value that cannot be used; the message names both.

    Examples
    --------
    >>> import gpucf
    >>> features = gpucf.Features({"age": {"increase_only": True}, "income": {"step": 100, "range": [0, None]}})
    >>> features.names
    ('age', 'income')
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    entries: Mapping[str, Feature] = field(init=False, repr=False, compare=False)
    rules: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.given, Mapping):
            raise OptionError(
                f"features is a {type(self.given).__name__}; give a dict from column name to kind, or to a dict of "
                "what may change."
            )
        has_rules = isinstance(self.given.get("rules"), list | tuple)  # else "rules" is the name of a column
        rules = _rules(self.given["rules"]) if has_rules else ()
        entries = {str(n): _entry(n, wish) for n, wish in self.given.items() if not (has_rules and n == "rules")}
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "entries", entries)

    @classmethod
    def of(cls, features: Any) -> Features:
        """`Features` from what callers give: itself, a dict, the path of a file, or None."""
        if isinstance(features, cls):
            return features
        if isinstance(features, str | os.PathLike):
            return cls.from_file(features)
        return cls({} if features is None else features)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Features:
        """Read a ``.yaml``, ``.yml`` or ``.json`` file that holds a mapping as for the constructor."""
        from gpucf._features_file import read_features

        return cls(read_features(path))

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.yaml`` or ``.yml`` file, with the notes as comments, or a ``.json`` file, without them."""
        from gpucf._features_file import write_features

        write_features(self, path)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of columns and groups that are declared."""
        return tuple(self.entries)

    @property
    def row_columns(self) -> tuple[str, ...]:
        """Columns of the table that hold limits of each row."""
        found = [
            name for e in self.entries.values() for name in (e.low_from, e.high_from, e.immutable_from) if name
        ]  # fmt: skip
        return tuple(dict.fromkeys(found))

    def __getitem__(self, name: str) -> Feature:
        return self.entries[name]


def _rules(texts: list[Any] | tuple[Any, ...]) -> tuple[str, ...]:
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"features['rules'] holds {text!r}; give texts such as 'a <= b'.")
    return tuple(texts)


def _entry(name: Any, wish: Any) -> Feature:
    if isinstance(wish, str):
        wish = {"kind": wish}
    at = f"features[{name!r}]"
    if not isinstance(wish, Mapping):
        raise OptionError(f"{at} is {wish!r}; give a kind ({', '.join(map(repr, KIND_NAMES))}) or a dict.")
    unknown = [key for key in wish if key not in _READERS]
    if unknown:
        raise OptionError(f"{at} has the unknown key {unknown[0]!r}; known are {', '.join(map(repr, _READERS))}.")
    read = {key: _READERS[key](f"{at}[{key!r}]", value) for key, value in wish.items() if value is not None}
    if "kind" in read and read["kind"] not in KIND_NAMES:
        raise OptionError(f"{at} is {read['kind']!r}; give one of {', '.join(map(repr, KIND_NAMES))}.")
    kind = read.get("kind")
    if "levels" in read and kind not in (None, "ordinal"):
        raise OptionError(f"{at} has levels, but is {kind!r}; only ordinal columns have levels.")
    if kind == "ordinal" and "levels" not in read and "values" not in read:
        raise OptionError(f"{at} is 'ordinal'; give its levels in order, such as levels: [1, 2, 3].")
    grids = [key for key in ("levels", "values", "step") if key in read]
    if len(grids) > 1 or ("origin" in read and "step" not in read):
        raise OptionError(f"{at} has {' and '.join(grids) or 'an origin'}; give one of levels, values, or step.")
    if "reference" in read and "one_hot" not in read:
        raise OptionError(f"{at} has a reference, but no one_hot columns.")
    given = tuple(read)
    if "levels" in read:
        read["kind"], read["values"] = "ordinal", read.pop("levels")
    read["prices"] = read.pop("prices", ()) + read.pop("forbidden", ())
    return Feature(given=given, **read)


def _number(at: str, value: Any, least: float = -np.inf, above: float = -np.inf, what: str = "a number") -> float:
    """A finite number from `least` on and above `above`."""
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not real or not np.isfinite(float(value)) or float(value) < least or not float(value) > above:
        raise OptionError(f"{at} is {value!r}; give {what}.")
    if abs(float(value)) > 1e100 and least >= 0:
        raise OptionError(f"{at} is {value!r}; give at most 1e100.")
    return float(value)


def _exact(at: str, value: Any, above: float = -np.inf) -> Fraction:
    """The number that a person wrote: 0.1 is a tenth, not the float next to it."""
    _number(at, value, above=above, what="a number" if above < 0 else "a number above 0")
    return Fraction(value if isinstance(value, int) else repr(float(value)))


def _kind(at: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(f"{at} is {value!r}; give one of {', '.join(map(repr, KIND_NAMES))}.")
    return "boolean" if value == "binary" else value


def _flag(at: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{at} is {value!r}; give true or false.")
    return bool(value)


def _positive(at: str, value: Any) -> float:
    return _number(at, value, above=0.0, least=1e-100, what="a number above 0")


def _not_negative(at: str, value: Any) -> float:
    return _number(at, value, least=0.0, what="a number >= 0")


def _numbers(at: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise OptionError(f"{at} is {value!r}; give a list of numbers.")
    # + 0.0: no negative zeros
    found = tuple(_number(f"{at}[{i}]", v) + 0.0 for i, v in enumerate(value))
    if not found or len(set(found)) < len(found):
        raise OptionError(f"{at} is {list(found)}; give at least one number, and each once.")
    return found


def _levels(at: str, value: Any) -> tuple[float, ...]:
    found = _numbers(at, value)
    if list(found) != sorted(found):
        raise OptionError(f"{at} is {list(found)}; the model compares numbers, so that levels must ascend.")
    return found


def _range(at: str, value: Any) -> tuple[float, float]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable) or len(list(value)) != 2:
        raise OptionError(f"{at} is {value!r}; give [low, high], with null for an open end.")
    low, high = value
    low = -np.inf if low is None or low == -np.inf else _number(f"{at}[0]", low)
    high = np.inf if high is None or high == np.inf else _number(f"{at}[1]", high)
    if low > high:
        raise OptionError(f"{at} is {list(value)!r}, whose low end is above its high end.")
    return low, high


def _name(at: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise OptionError(f"{at} is {value!r}; give a name.")
    return value


def _one_hot(at: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise OptionError(f"{at} is {value!r}; give a list of columns.")
    return tuple(_name(f"{at}[{i}]", v) for i, v in enumerate(value))


def _prices(at: str, value: Any) -> tuple[tuple[Any, Any, float | None], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(to, Mapping) for to in value.values()):
        raise OptionError(f"{at} is {value!r}; give {{from: {{to: price}}}}, with null where a move is forbidden.")
    return tuple(
        (start, end, None if price is None else _not_negative(f"{at}[{start!r}][{end!r}]", price))
        for start, row in value.items()
        for end, price in row.items()
    )


def _forbidden(at: str, value: Any) -> tuple[tuple[Any, Any, None], ...]:
    pairs: list[Any] = list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else [None]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise OptionError(f"{at} is {value!r}; give a list of [from, to].")
    return tuple((start, end, None) for start, end in pairs)


def _missing(at: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """("enter", price) and ("leave", ((value, price), ...))."""
    if value == "keep":
        return ()
    if not isinstance(value, Mapping) or not value or any(key not in MISSING_KEYS for key in value):
        raise OptionError(
            f'{at} is {value!r}; give "keep", or a dict with "leave" (to, price) and "enter" (a price), or one of them.'
        )
    out: list[tuple[str, Any]] = []
    if "enter" in value:
        out.append(("enter", _not_negative(f"{at}['enter']", value["enter"])))
    if "leave" in value:
        leave = value["leave"]
        if not isinstance(leave, Mapping) or "to" not in leave or any(key not in ("to", "price") for key in leave):
            raise OptionError(f'{at}[\'leave\'] is {leave!r}; give {{"to": value or list of values, "price": 1}}.')
        to = leave["to"]
        targets = to if isinstance(to, list | tuple) else [to]
        price = _not_negative(f"{at}['leave']['price']", leave.get("price", 1.0))
        out.append(("leave", tuple((target, price) for target in targets)))
    return tuple(out)


def _table(at: str, value: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | Callable[..., Any]:
    if callable(value):
        return value
    rows = list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else []
    if len(rows) < 2 or not all(isinstance(row, list | tuple) and len(row) == 2 for row in rows):
        raise OptionError(f"{at} is {value!r}; give at least two pairs [value, price up to it], or a function.")
    x = tuple(_number(f"{at}[{i}][0]", row[0]) for i, row in enumerate(rows))
    y = tuple(_number(f"{at}[{i}][1]", row[1]) for i, row in enumerate(rows))
    if any(b <= a for a, b in pairwise(x)) or any(b < a for a, b in pairwise(y)):
        raise OptionError(f"{at} is {rows!r}; values must rise from pair to pair, and prices must not fall.")
    return x, y


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "kind": _kind, "levels": _levels, "values": lambda at, v: tuple(sorted(_numbers(at, v))),
    "step": lambda at, v: _exact(at, v, above=0.0), "origin": _exact, "range": _range,
    "immutable": _flag, "increase_only": _flag, "decrease_only": _flag,
    "max_change": _not_negative, "max_rise": _not_negative, "max_fall": _not_negative,
    "weight": _not_negative, "price_up": _not_negative, "price_down": _not_negative, "fixed": _not_negative,
    "scale": _positive, "one_hot": _one_hot, "reference": _name, "prices": _prices, "forbidden": _forbidden,
    "missing": _missing, "table": _table, "low_from": _name, "high_from": _name, "immutable_from": _name,
}  # fmt: skip
