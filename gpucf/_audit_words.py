"""Numbers and names of an audit in words."""

from __future__ import annotations

import math

_TITLES = {
    "refused": "share refused",
    "no_recourse": "share without recourse",
    "burden": "mean cost of recourse",
    "median": "median cost of recourse",
    "changes": "mean number of changes",
    "options": "mean number of options",
    "curve": "largest distance between the cost curves",
    "cost_test": "p-value of the cost test",
    "subgroups": "adjusted p-value of the worst subgroup",
    "flips": "decisions that turn when only the attribute changes",
    "small_unlocked": "refused rows that a small change helps only with another value of the attribute",
    "unresolved": "rows left open by a limit",
}
_SHARES = ("refused", "no_recourse", "curve")
_COUNTS = ("flips", "small_unlocked", "unresolved")


def measure_title(key: str) -> str:
    """What a measure is called."""
    name, _, budget = key.partition(":")
    return f"share with recourse for at most {budget}" if name == "within" else _TITLES.get(key, key)


def is_share(key: str) -> bool:
    """Whether the measure is shown in percent."""
    return key.startswith("within:") or key in _SHARES


def number(key: str, value: float) -> str:
    """One number of a measure."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "without bound" if value > 0 else "below any bound"
    if is_share(key):
        return f"{100 * value:.1f} %"
    if key in _COUNTS:
        return f"{value:,.0f}"
    if key in ("p", "cost_test", "subgroups"):
        return f"{value:.3f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def value_text(key: str, low: float, high: float) -> str:
    """A number that may be an interval."""
    a, b = number(key, low), number(key, high)
    if a == b:
        return a
    return f"at least {a}" if math.isinf(high) else f"between {a} and {b}"


def short_text(key: str, low: float, high: float) -> str:
    """As `value_text`, for narrow tables."""
    a, b = number(key, low), number(key, high)
    if a == b:
        return a
    return f">= {a}" if math.isinf(high) else f"{a} .. {b}"


def interval_text(key: str, interval: tuple[float, float]) -> str:
    """A bootstrap interval in brackets, or nothing."""
    if math.isnan(interval[0]):
        return ""
    return f"[{number(key, interval[0])}, {number(key, interval[1])}]"
