"""Drawing: the counterfactual map over two features, a person's card, the matrix of features and options."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._errors import OptionError
from gpucf._explain import value_text
from gpucf._plot_cells import NOTHING, CellMap
from gpucf._plot_style import ACCEPTED, COLOURS
from gpucf._result import Result

_PALE = ("#CDE3F2", "#F6D9C6", "#C9E8DD", "#F2DDE9", "#F9E7C4", "#DDEFFA", "#DADADA", "#E6DDCB")
_MOST_LABELS = 10
_MOST_TEXT = 26


def draw_map(axes: Any, cells: CellMap, contours: int = 8) -> None:
    """The map: borders between regions in black, so that no colour has to be told apart, contours of equal cost."""
    from matplotlib.colors import to_rgb

    x_edges, y_edges = _edges(cells.x), _edges(cells.y)
    order = _by_size(cells.region)
    image = np.ones((*cells.region.shape, 3))
    for k, region in enumerate(order):
        image[cells.region == region] = to_rgb(_PALE[k % len(_PALE)])
    image[cells.accepted] = to_rgb(ACCEPTED)
    image[cells.accepted] *= 0.86
    axes.pcolormesh(x_edges, y_edges, image, rasterized=True)
    _borders(axes, cells.region, x_edges, y_edges)
    finite = np.where(np.isfinite(cells.cost) & ~cells.accepted, cells.cost, np.nan)
    if min(finite.shape) > 1 and np.isfinite(finite).sum() > 3 and np.nanmax(finite) > np.nanmin(finite):
        lines = axes.contour(cells.x, cells.y, finite, levels=contours, colors="0.35", linewidths=0.7)
        axes.clabel(lines, fontsize=7, fmt="%.3g")
    _arrow(axes, cells)
    axes.set(xlabel=cells.features[0], ylabel=cells.features[1], xlim=x_edges[[0, -1]], ylim=y_edges[[0, -1]])
    axes.set_title(f"Who is answered by which region: {cells.features[0]} and {cells.features[1]}", loc="left")
    _map_legend(axes, cells, order)


def _edges(values: np.ndarray) -> np.ndarray:
    """Borders half-way between neighbours."""
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    middle = values[:-1] / 2 + values[1:] / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])


def _by_size(region: np.ndarray) -> list[int]:
    found, counts = np.unique(region[region >= 0], return_counts=True)
    return found[np.argsort(-counts, kind="stable")].tolist()


def _borders(axes: Any, region: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    from matplotlib.collections import LineCollection

    lines = []
    for r, c in zip(*np.nonzero(region[:, 1:] != region[:, :-1]), strict=True):
        lines.append([(x[c + 1], y[r]), (x[c + 1], y[r + 1])])
    for r, c in zip(*np.nonzero(region[1:] != region[:-1]), strict=True):
        lines.append([(x[c], y[r + 1]), (x[c + 1], y[r + 1])])
    axes.add_collection(LineCollection(lines, colors="black", linewidths=0.9))


def _arrow(axes: Any, cells: CellMap) -> None:
    """The row, and from the point nearest to it the way to its answer."""
    px, py = cells.point
    if not (np.isfinite(px) and np.isfinite(py)):
        return
    at = np.argmin(np.abs(cells.y - py)), np.argmin(np.abs(cells.x - px))
    if np.isfinite(cells.cost[at]) and not cells.accepted[at]:
        axes.annotate(
            "", xy=cells.answer[at], xytext=(cells.x[at[1]], cells.y[at[0]]),
            arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.8, "shrinkA": 4, "shrinkB": 0},
        )  # fmt: skip
    axes.plot([px], [py], "o", markersize=8, color=COLOURS[1], markeredgecolor="black")


def _map_legend(axes: Any, cells: CellMap, order: list[int]) -> None:
    from matplotlib.patches import Patch

    handles = []
    for k, region in enumerate(order[:_MOST_LABELS]):
        label = cells.labels[region]
        rectangle = isinstance(label[0], float)
        text = _rectangle_text(cells, label) if rectangle else "changes " + ", ".join(label)
        handles.append(Patch(facecolor=_PALE[k % len(_PALE)], edgecolor="black", label=text))
    handles.append(Patch(facecolor="#A1BACC", edgecolor="black", label="(meets the target)"))
    if (cells.region == NOTHING).any():
        handles.append(Patch(facecolor="white", edgecolor="black", label="(no answer)"))
    if len(order) > _MOST_LABELS:
        handles.append(Patch(facecolor="none", label=f"and {len(order) - _MOST_LABELS} more"))
    title = "answered by" if order and isinstance(cells.labels[order[0]][0], float) else None
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=title, alignment="left")


def _rectangle_text(cells: CellMap, label: tuple[float, ...]) -> str:
    parts = []
    for name, ends in zip(cells.features, (label[:2], label[2:]), strict=True):
        sides = [f"{v:.4g}" if np.isfinite(v) else None for v in ends]
        if sides[0] and sides[1]:
            parts.append(f"{name} {sides[0]} to {sides[1]}")
        elif sides[0] or sides[1]:
            parts.append(f"{name} {'from ' + str(sides[0]) if sides[0] else 'up to ' + str(sides[1])}")
    return "; ".join(parts) or "everything"


def draw_options(axes: Any, result: Result, i: int) -> None:
    """Features against options of one row: from what to what, and what each option costs."""
    options = result.options(i)
    if not options:
        raise OptionError(f"row {i} has no options: its status is {result.status[i]}.")
    names = list(dict.fromkeys(c["feature"] for option in options for c in option.changes))
    largest = max((c["cost"] for option in options for c in option.changes), default=1.0) or 1.0
    for k, option in enumerate(options):
        for change in option.changes:
            j = names.index(change["feature"])
            strength = 0.15 + 0.6 * change["cost"] / largest
            axes.add_patch(_cell(k, j, COLOURS[5], strength))
            text = f"{_short(change['from'])}\n→ {_short(change['to'])}"
            axes.text(k, j, text, ha="center", va="center", fontsize=8)
    head = [f"option {k}\ncost {o.cost:.3g}" for k, o in enumerate(options, 1)]
    axes.set_xticks(range(len(options)), head)
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(options) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.tick_params(which="both", length=0)
    axes.set_xticks(np.arange(0.5, len(options) - 0.5), minor=True)
    axes.set_yticks(np.arange(0.5, len(names) - 0.5), minor=True)
    axes.grid(which="minor", color="0.85")
    for side in axes.spines.values():
        side.set_visible(False)


def _cell(k: int, j: int, colour: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((k - 0.46, j - 0.42), 0.92, 0.84, facecolor=colour, alpha=alpha, edgecolor="none")


def _short(value: Any) -> str:
    text = value_text(value).strip("'")
    if isinstance(value, float):
        text = f"{value:.4g}"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def card_lines(result: Result, i: int) -> list[tuple[str, str]]:
    """One person's answer in words: what each line of a card says, and its weight ("title", "text", "mono")."""
    explanation = result.explain(i)
    lines = [(f"Row {i}: {result.status[i]}", "title"), (explanation.sentence, "text")]
    if explanation.table:
        lines.append((explanation.table, "mono"))
    if result._regions is not None and result.region(i) is not None:
        lines.append((f"The answer holds as long as: {result.region(i)}.", "text"))
    others = result.options(i)[1:]
    for k, option in enumerate(others, 2):
        lines.append((f"Option {k}: {option.explanation.sentence}", "text"))
    if result._further and result.no_more_options(i):
        lines.append(("It is proved that there are no further options.", "text"))
    lines.append((f"Checked by {result.verified_by}.", "text"))
    return lines


def draw_card(axes: Any, result: Result, i: int, width: int = 84) -> None:
    """One person's card as a picture: see `card_lines`."""
    from textwrap import wrap

    axes.set_axis_off()
    y = 1.0
    for text, kind in card_lines(result, i):
        shown = text.splitlines() if kind == "mono" else wrap(text, width)
        for line in shown:
            size = 12 if kind == "title" else 9
            family = "monospace" if kind == "mono" else None
            axes.text(0, y, line, fontsize=size, family=family, va="top", transform=axes.transAxes,
                      weight="bold" if kind == "title" else "normal")  # fmt: skip
            y -= 0.085 if kind == "title" else 0.055
        y -= 0.025
