"""Answers in words, for people: what changes, what it costs, and what is proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

ALREADY, OPTIMAL, FEASIBLE, INFEASIBLE = "already", "optimal", "feasible", "infeasible"


@dataclass(frozen=True)
class Explanation:
    """One row's answer in words; ``str`` gives the text.

    Attributes
    ----------
    sentence : str
    table : str
        The changes, one a line; empty where nothing changes.
    """

    sentence: str
    table: str

    def __str__(self) -> str:
        return self.sentence + ("\n\n" + self.table if self.table else "")


def explain(
    changes: Sequence[dict[str, Any]], dtypes: Sequence[Any], status: str, cost: float, bound: float
) -> Explanation:
    """Put the moves of one row into words; `dtypes` are those of the changed columns (None: not a number)."""
    if status == ALREADY:
        return Explanation("Nothing to change: the row meets the target already.", "")
    if status == INFEASIBLE:
        return Explanation("Impossible, proved: no permitted change meets the target.", "")
    if status not in (OPTIMAL, FEASIBLE):
        return Explanation(f"Not found so far; any answer costs at least {number_text(bound)}.", "")
    moves = "; ".join(_move_text(change, dtype) for change, dtype in zip(changes, dtypes, strict=True))
    proof = "proved the least"
    if status == FEASIBLE:
        proof = f"not proved the least: none costs less than {number_text(bound)}"
    rows: list[tuple[str, ...]] = [("feature", "from", "to", "cost")]
    for change, dtype in zip(changes, dtypes, strict=True):
        values = [value_text(change[side], dtype) for side in ("from", "to")]
        rows.append((str(change["feature"]), *values, number_text(change["cost"])))
    return Explanation(f"{moves}; cost {number_text(cost)}, {proof}.", _aligned(rows))


def _move_text(change: dict[str, Any], dtype: Any) -> str:
    before, after = change["from"], change["to"]
    text = f"{change['feature']} from {value_text(before, dtype)} to {value_text(after, dtype)}"
    if not (_is_number(before) and _is_number(after)) or before != before or after != after:
        return text
    return f"{text} ({difference_text(before, after, dtype)})"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def difference_text(before: Any, after: Any, dtype: Any = None) -> str:
    """The difference of two numbers as they are shown, with its sign: people subtract what they read."""
    shown = [Decimal(number_text(value, dtype).replace(",", "")) for value in (before, after)]
    with localcontext(prec=40):
        difference = (shown[1] - shown[0]).normalize()
    plain = -20 < difference.adjusted() < 20
    return f"{difference:+,f}" if plain else f"{difference:+}"


def value_text(value: Any, dtype: Any = None) -> str:
    """A value as short as it reads back equal; text in quotes."""
    if value is None or (isinstance(value, float) and value != value):
        return "missing"
    return number_text(value, dtype) if _is_number(value) else repr(value)


def number_text(value: Any, dtype: Any = None) -> str:
    """A number as short as it reads back equal in its dtype, with commas between thousands."""
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    value = float(value)
    if not np.isfinite(value):
        return str(value)
    if value == np.floor(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    kind = np.dtype(np.float64) if dtype is None or np.dtype(dtype).kind != "f" else np.dtype(dtype)
    text = str(kind.type(value)) if kind.itemsize < 8 else repr(value)
    if "e" in text or "." not in text:
        return text
    whole, _, rest = text.partition(".")
    sign, whole = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(whole):,}.{rest}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
