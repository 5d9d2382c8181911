"""A picture of the answers: the model's regions in two features, people, and arrows to their counterfactuals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._cells import ORDERED

if TYPE_CHECKING:
    from gpucf._engine import Engine
    from gpucf._result import Result

# Okabe and Ito's colours, told apart with any kind of colour blindness.
_BLUE, _ORANGE, _VERMILION, _BLACK = "#0072B2", "#E69F00", "#D55E00", "#000000"
_MAX_ARROWS = 25


def draw_regions(path: Path, engine: Engine, result: Result, accepted: Any, numbers: np.ndarray) -> None:
    """Write a PNG: two much-moved features as axes, all others as they are for one applicant.

    Parameters
    ----------
    path : Path
    engine : Engine
    result : Result
        Of rows that do not meet the target.
    accepted : class label
        The target.
    numbers : int array of shape (n_rows,)
        What to call the rows.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    before, after = result._table.values, result._after
    a, b = _axes_features(engine, result)
    moved_only_here = _moved_only(result, (a, b))
    chosen = _chosen(before, after, result, moved_only_here, (a, b))
    figure = Figure(figsize=(9, 6.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = result._table.names
    limits = [_limits(before, after, column) for column in (a, b)]
    patches = _shade(axes, engine, before[chosen], (a, b), limits, accepted)
    shown = [i for i in moved_only_here if i != chosen][:_MAX_ARROWS]
    _people(axes, before, after, shown, chosen, (a, b), int(numbers[chosen]))
    axes.set(xlim=limits[0], ylim=limits[1], xlabel=names[a], ylabel=names[b])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    number = numbers[chosen]
    axes.set_title(
        f'The nearest way to "accepted" for applicant {number}, by {names[a]} and {names[b]}\n', loc="left", fontsize=12
    )
    axes.text(
        0, 1.015, f"Shading: what the model says with all else as for applicant {number}. The {len(shown)} others "
        "change the same two features; their borders differ.",
        transform=axes.transAxes, fontsize=8.5, color="0.25",
    )  # fmt: skip
    handles = [*patches, *axes.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": "gpucf"})


def _axes_features(engine: Engine, result: Result) -> tuple[int, int]:
    """The two ordered columns that are moved together most often (alone counts less than together)."""
    cells = engine.cells()
    columns = [group[0] for group, kind in zip(cells.columns, cells.kind, strict=True) if kind == ORDERED]
    moved = result.changed
    score = {
        (a, b): (len(_moved_both(result, (a, b))), int(moved[:, a].sum() + moved[:, b].sum()))
        for i, a in enumerate(columns)
        for b in columns[i + 1 :]
    }
    return max(score, key=lambda pair: (score[pair], -pair[0], -pair[1]))


def _moved_only(result: Result, pair: tuple[int, int]) -> list[int]:
    others = result.changed.copy()
    others[:, list(pair)] = False
    here = result.changed[:, list(pair)].any(axis=1) & ~others.any(axis=1) & np.isfinite(result.cost)
    return np.flatnonzero(here).tolist()


def _moved_both(result: Result, pair: tuple[int, int]) -> list[int]:
    return [i for i in _moved_only(result, pair) if result.changed[i, list(pair)].all()]


def _chosen(before: np.ndarray, after: np.ndarray, result: Result, here: list[int], pair: tuple[int, int]) -> int:
    """Who moves both features, and of these the one with the dearest way: the arrow that is seen best."""
    candidates = _moved_both(result, pair) or here or list(range(len(result)))
    cost = np.where(np.isfinite(result.cost[candidates]), result.cost[candidates], -1.0)
    return candidates[int(np.argmax(cost))]


def _limits(before: np.ndarray, after: np.ndarray, column: int) -> tuple[float, float]:
    values = np.concatenate([before[:, column], after[:, column]])
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    pad = 0.04 * (high - low or 1.0)
    return low - pad, high + pad


def _shade(
    axes: Any, engine: Engine, row: np.ndarray, pair: tuple[int, int], limits: list[tuple[float, float]], accepted: Any
) -> list[Any]:
    """Colour what the model says; returns patches for the legend."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    yes, edges = _regions(engine, row, pair, limits, accepted)
    colours = ["#F7D9B8", "#BBD9EE"]
    axes.pcolormesh(*edges, yes.astype(int), cmap=ListedColormap(colours), vmin=0, vmax=1, rasterized=True)
    return [
        Patch(facecolor=colour, edgecolor="0.5", label=f"model says {label}")
        for colour, label in zip(colours, ("declined", "accepted"), strict=True)
    ]


def _regions(
    engine: Engine, row: np.ndarray, pair: tuple[int, int], limits: list[tuple[float, float]], accepted: Any
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Whether the model accepts, for each cell (second feature, first feature), and the borders of the cells.

    Exact: the model is constant on a cell, so that one value of it speaks for all.
    """
    from gpucf._links import classes_from_raw
    from gpucf._predict import predict_raw

    first, second = (_cells_of(engine, column, limit) for column, limit in zip(pair, limits, strict=True))
    n_first, n_second = len(first[0]), len(second[0])
    grid = np.tile(row, (n_first * n_second, 1))
    grid[:, pair[0]] = np.tile(first[0], n_second)
    grid[:, pair[1]] = np.repeat(second[0], n_first)
    ensemble = engine.ensemble
    klass = classes_from_raw(ensemble, predict_raw(ensemble, grid))
    yes = np.asarray(ensemble.classes)[klass] == accepted
    return yes.reshape(n_second, n_first), (first[1], second[1])


def _cells_of(engine: Engine, column: int, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """An attainable value of every cell of a column, and the borders between the cells, cut to what is shown."""
    cells = engine.cells()
    j = next(k for k, group in enumerate(cells.columns) if group == (column,))
    span = slice(int(cells.code_start[j]), int(cells.code_start[j + 1]) - 1)
    low, high = cells.cell_lo[span], cells.cell_hi[span]
    between = high[:-1] / 2 + low[1:] / 2
    return low, np.clip(np.concatenate([[limits[0]], between, [limits[1]]]), *limits)


def _people(
    axes: Any, before: np.ndarray, after: np.ndarray, shown: list[int], chosen: int, pair: tuple[int, int], number: int
) -> None:
    a, b = pair
    for i, colour, width in [*((i, "0.45", 0.8) for i in shown), (chosen, _BLACK, 2.0)]:
        axes.annotate(
            "", xy=after[i, [a, b]], xytext=before[i, [a, b]], zorder=3 if i != chosen else 5,
            arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 3, "shrinkB": 2},
        )  # fmt: skip
    axes.scatter(
        before[shown, a], before[shown, b], s=20, color=_VERMILION, edgecolor="white", linewidth=0.6, zorder=4,
        label="other applicants, as they are",
    )  # fmt: skip
    axes.scatter(
        after[shown, a], after[shown, b], s=20, marker="s", color=_BLUE, edgecolor="white", linewidth=0.6, zorder=4,
        label="their counterfactuals",
    )  # fmt: skip
    axes.scatter(
        before[chosen, a], before[chosen, b], s=110, color=_VERMILION, edgecolor=_BLACK, linewidth=1.5, zorder=6,
        label=f"applicant {number}",
    )  # fmt: skip
    axes.scatter(
        after[chosen, a], after[chosen, b], s=150, marker="*", color=_ORANGE, edgecolor=_BLACK, linewidth=1.0, zorder=6,
        label=f"counterfactual of applicant {number}",
    )  # fmt: skip
