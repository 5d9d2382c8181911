"""How much the tests do: a tenth by default, everything with GPUCF_DEEP=1 (`./run test deep`)."""

from __future__ import annotations

import os

DEEP = os.environ.get("GPUCF_DEEP") == "1"


def count(full: int) -> int:
    """`full` in a deep run, else a tenth of it, and at least 1."""
    return full if DEEP else max(1, full // 10)
