"""Numbers that callers give, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._errors import OptionError
from gpucf._planner import Limits


def read_count(option: str, value: Any, default: int) -> int:
    """A whole number of at least 1."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise OptionError(f"{option} is {value!r}; give a whole number of at least 1.")
    return int(value)


def read_limits(node_limit: Any, time_limit_s: Any) -> Limits:
    """Limits of nodes and seconds."""
    nodes = None if node_limit is None else read_count("node_limit", node_limit, 1)
    if time_limit_s is None:
        return Limits(nodes, None)
    real = isinstance(time_limit_s, int | float | np.number) and not isinstance(time_limit_s, bool)
    if not real or not float(time_limit_s) > 0.0:
        raise OptionError(f"time_limit_s is {time_limit_s!r}; give a number of seconds above 0.")
    return Limits(nodes, float(time_limit_s))


def read_margin(margin: Any) -> float:
    """By how much a score shall go beyond what just suffices."""
    real = isinstance(margin, int | float | np.number) and not isinstance(margin, bool)
    if not real or not np.isfinite(margin) or margin < 0:
        raise OptionError(f"margin is {margin!r}; give a finite number of at least 0.")
    return float(margin)
