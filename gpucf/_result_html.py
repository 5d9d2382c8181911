"""A result in a notebook: counts, and the first answers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from gpucf._explain import number_text

if TYPE_CHECKING:
    from gpucf._result import Result

_SHOWN = 5


def notebook(result: Result) -> str:
    """Counts by status, and what the first few rows that have to change should change."""
    head = escape(repr(result)[1:-1])
    lines = []
    shown = [i for i in range(len(result)) if result.status[i] != "already"][:_SHOWN]
    for i in shown:
        cells = (str(i), str(result.status[i]), number_text(float(f"{result.cost[i]:.4g}")), result.explain(i).sentence)
        lines.append("<tr>" + "".join(f'<td style="text-align:left">{escape(c)}</td>' for c in cells) + "</tr>")
    if not lines:
        return f"<div><strong>{head}</strong></div>"
    titles = "".join(f'<th scope="col" style="text-align:left">{t}</th>' for t in ("row", "status", "cost", "answer"))
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div><strong>{head}</strong>{table}</div>"
