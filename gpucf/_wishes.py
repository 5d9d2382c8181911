"""What a caller can ask for: targets as values, before any model is known."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpucf._errors import OptionError

OPPOSITE, ANY_OTHER = "opposite", "any_other"


@dataclass(frozen=True, repr=False)
class _Limits:
    at_least: float | None = None
    label: Any = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        for option in ("at_least", "above", "at_most", "below"):
            number: Any = getattr(self, option)
            if number is None:
                continue
            real = isinstance(number, int | float | np.number) and not isinstance(number, bool | np.bool_)
            if not real or not np.isfinite(number):
                raise OptionError(f"{name}({option}={number!r}): give a finite number.")
        if self.at_least is not None and self.above is not None:
            raise OptionError(f"{name} has both at_least and above; give one of them.")
        if self.at_most is not None and self.below is not None:
            raise OptionError(f"{name} has both at_most and below; give one of them.")
        if self.from_ is None and self.before is None:
            raise OptionError(f"{name} has no limit; give at_least, above, at_most or below.")
        if self.from_ is not None and self.before is not None and not self.from_ < self.before:
            raise OptionError(f"{self!r} holds of no number: the lower limit lies above the upper one.")

    @property
    def from_(self) -> float | None:
        """Least float64 number that is allowed; None: no limit."""
        if self.above is not None:
            return float(np.nextafter(np.float64(self.above), np.inf))
        return None if self.at_least is None else float(self.at_least)

    @property
    def before(self) -> float | None:
        """Least float64 number that is too large; None: no limit."""
        if self.at_most is not None:
            return float(np.nextafter(np.float64(self.at_most), np.inf))
        return None if self.below is None else float(self.below)

    def __repr__(self) -> str:
        given = ", ".join(f"{f.name}={v!r}" for f in fields(self) if (v := getattr(self, f.name)) is not None)
        return f"{type(self).__name__}({given})"

    def shown(self, what: str) -> str:
        """In words, for messages and plans."""
        signs = (("at_least", ">="), ("above", ">"), ("at_most", "<="), ("below", "<"))
        return " and ".join(f"{what} {s} {float(v)!r}" for n, s in signs if (v := getattr(self, n)) is not None)


class Probability(_Limits):
    """Target: limits on the library's probability of a class.

    Parameters
    ----------
    at_least, above, at_most, below : float, optional
        Compared with the library's probability, widened to float64, as real numbers.
    label : optional
        The class, as in ``classes_``; the second class of a binary model if not given.

    Examples
    --------
    >>> import gpucf
    >>> gpucf.Probability(0.8)
    Probability(at_least=0.8)
    >>> gpucf.Probability(above=0.4, at_most=0.6, label="yes")
    Probability(label='yes', above=0.4, at_most=0.6)
    """


class Score(_Limits):
    """Target: limits on the model's raw score; for a regression, on the number that it predicts.

    Parameters
    ----------
    at_least, above, at_most, below : float, optional
        Compared with the library's raw score (margin), widened to float64, as real numbers.
    label : optional
        The class whose score is meant, where the model has one for each class.

    Examples
    --------
    >>> import gpucf
    >>> gpucf.Score(at_least=10.0, below=12.5)
    Score(at_least=10.0, below=12.5)
    """


@dataclass(frozen=True, init=False, repr=False)
class _Several:
    targets: tuple[Any, ...]

    def __init__(self, *targets: Any) -> None:
        if not targets:
            raise OptionError(f"{type(self).__name__} is empty; give at least one target.")
        object.__setattr__(self, "targets", tuple(targets))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.targets))})"


class AnyOf(_Several):
    """Target: at least one of several targets holds.

    Examples
    --------
    >>> import gpucf
    >>> gpucf.AnyOf("low", gpucf.Probability(below=0.2, label="high"))
    AnyOf('low', Probability(label='high', below=0.2))
    """


class AllOf(_Several):
    """Target: all of several targets hold.

    Examples
    --------
    >>> import gpucf
    >>> gpucf.AllOf("accepted", gpucf.Probability(0.8))
    AllOf('accepted', Probability(at_least=0.8))
    """


_COMPARISON = re.compile(
    r"\s*(?P<what>probability|p|score)\s*(\[(?P<label>[^\]]+)\])?\s*(?P<sign>>=|<=|>|<)\s*(?P<number>\S+)\s*\Z"
)
_SIGNS = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}


def read_text(text: str) -> Any:
    """A target written out: ``p >= 0.7``, ``probability[yes] > 0.5 and p[yes] <= 0.9``, ``score < 2``; else None."""
    parts = re.split(r"\s+and\s+", text.strip())
    found = [_COMPARISON.match(part) for part in parts]
    if not all(found):
        return None
    wishes = []
    for part, match in zip(parts, found, strict=True):
        assert match is not None
        try:
            number = float(match["number"])
        except ValueError:
            raise OptionError(f"target {text!r} has no number behind {match['sign']} in {part!r}.") from None
        kind = Score if match["what"] == "score" else Probability
        wishes.append(kind(label=match["label"], **{_SIGNS[match["sign"]]: number}))
    return wishes[0] if len(wishes) == 1 else AllOf(*wishes)
