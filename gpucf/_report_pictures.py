"""The pictures of a report, as inline SVG with a text that says what they show."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

from gpucf._audit_result import Audit, PartitionReport
from gpucf._plot_audit import draw_bars, draw_curves, draw_features
from gpucf._plot_style import new_figure


def pictures(audit: Audit, part: PartitionReport, number: int) -> list[tuple[str, str]]:
    """SVG and caption of each picture of a partition; none where no group is large enough."""
    kept = [g for g in part.groups if g.sufficient]
    if not kept:
        return []
    names = ", ".join(g.name for g in kept)
    drawings: list[tuple[str, str, Callable[[Any], None], float]] = [
        (
            f"Curves by {part.name}",
            f"Share of the refused rows of each group ({names}) with recourse for at most the cost below. A curve "
            "further "
            "left and higher means cheaper recourse. Shaded: what rows left open by a limit leave open.",
            lambda axes: draw_curves(axes, audit, part), 3.6,
        ),
        (
            f"Mean cost by {part.name}",
            "Mean cost of recourse of each group with its bootstrap interval (an arrow: only a lower bound is "
            "certain); the dashed line is the mean of all.",
            lambda axes: draw_bars(axes, audit, part), 1.2 + 0.36 * len(kept),
        ),
    ]  # fmt: skip
    if any(g.features for g in kept):
        drawings.append(
            (
                f"Features by {part.name}",
                "Share of each group's cost of recourse that each feature carries, over its proved answers.",
                lambda axes: draw_features(axes, part), 1.7 + 0.34 * len(kept),
            )
        )  # fmt: skip
    out = []
    for k, (title, caption, draw, height) in enumerate(drawings):
        figure, axes = new_figure(7.6, height)
        draw(axes)
        out.append((svg(figure, f"p{number}-{k}", f"{title}. {caption}"), caption))
    return out


def svg(figure: Any, prefix: str, alt: str) -> str:
    """A figure as an SVG element whose ids are its own, with a text for those who do not see it."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": prefix, "svg.fonttype": "none"}), io.StringIO() as out:
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Several pictures stand in one page: ids, and what points to them, get the picture's own name before them.
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", text)
    head = f'<svg role="img" aria-label="{escape(alt, quote=True)}" '
    return head + text[len("<svg ") :].strip()
