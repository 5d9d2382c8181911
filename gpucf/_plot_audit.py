"""Pictures of an audit: curves of cost, mean costs with their intervals, features that carry the cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpucf._audit_result import Audit, GroupReport, PartitionReport
from gpucf._errors import OptionError
from gpucf._plot_style import COLOURS, LINES
from gpucf._result import Result

_MOST_CURVES = 8
_MOST_FEATURES = 7
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo")


def draw_curves(axes: Any, audit: Audit, part: PartitionReport) -> None:
    """Share of each group's refused rows with recourse for at most a cost; at most eight groups, the largest."""
    kept = _kept(part)
    shown = sorted(sorted(kept, key=lambda g: -g.n_refused)[:_MOST_CURVES], key=lambda g: g.name)
    x = audit.curve_costs
    for k, g in enumerate(shown):
        low, high = g.curve
        colour, line = COLOURS[k % len(COLOURS)], LINES[k % len(LINES)]
        axes.plot(x, 100 * low, drawstyle="steps-post", color=colour, linestyle=line, linewidth=1.8, label=g.name)
        if (high > low).any():
            axes.fill_between(x, 100 * low, 100 * high, step="post", color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="cost", ylabel="reach acceptance, %", ylim=(0, 101), xlim=(0, _right_end(x, shown)))
    axes.set_title("Recourse for at most this cost", loc="left")
    axes.grid(color="0.9")
    axes.legend(loc="lower right")


def draw_bars(axes: Any, audit: Audit, part: PartitionReport) -> None:
    """Mean cost of each group with its bootstrap interval."""
    kept = _kept(part)
    for k, g in enumerate(kept):
        burden = g.measures["burden"]
        if math.isnan(burden.low):
            axes.text(0, k, "  nobody has recourse", va="center", fontsize=8.5)
            continue
        if math.isinf(burden.high):  # open rows leave it without an upper bound
            axes.annotate(
                "", xy=(1.0, k), xycoords=("axes fraction", "data"), xytext=(burden.low, k), textcoords="data",
                arrowprops={"arrowstyle": "->", "color": COLOURS[0], "linewidth": 2},
            )  # fmt: skip
            axes.plot([burden.low], [k], "|", color=COLOURS[0], markersize=12)
            continue
        high = burden.high
        ends = [e if math.isfinite(e) else m for e, m in zip(burden.interval, (burden.low, high), strict=True)]
        axes.plot(ends, [k, k], color=COLOURS[0], linewidth=2, solid_capstyle="butt")
        axes.plot([burden.low, high], [k, k], "D-", color=COLOURS[0], markersize=6, linewidth=4)
    every = _all_burden(kept)
    if every is not None:
        axes.axvline(every, color="0.4", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(kept)), [g.name for g in kept])
    axes.set_ylim(len(kept) - 0.5, -0.5)
    if axes.get_xlim()[1] <= 0.0:  # nobody has recourse: nothing was drawn
        axes.set_xlim(0.0, 1.0)
    axes.set_xlim(0.0, 1.1 * axes.get_xlim()[1])
    axes.set(xlabel=f"mean cost, {100 * audit.settings['level']:g} % interval")
    axes.set_title("Mean cost of recourse", loc="left")
    axes.grid(axis="x", color="0.9")


def draw_features(axes: Any, part: PartitionReport) -> None:
    """Share of each group's cost that each feature carries, as stacked bars."""
    kept = [g for g in _kept(part) if g.features]
    total: dict[str, float] = {}
    for g in kept:
        for f in g.features:
            total[f.name] = total.get(f.name, 0.0) + f.cost
    names = sorted((n for n in total if total[n] > 0), key=lambda n: (-total[n], n))[:_MOST_FEATURES]
    start = np.zeros(len(kept))
    for k, name in enumerate([*names, "others"]):
        colour, hatch = (COLOURS[k], _HATCHES[k]) if k < len(names) else ("0.8", "")
        share = np.array([sum(f.cost for f in g.features if f.name == name) for g in kept])
        if k == len(names):
            share = np.array([sum(f.cost for f in g.features if f.name not in names) for g in kept])
            if share.max() < 1e-9:
                continue
        axes.barh(
            range(len(kept)), 100 * share, left=100 * start, height=0.7, color=colour, hatch=hatch, label=name,
            edgecolor="white", linewidth=0.6,
        )  # fmt: skip
        start = start + share
    axes.set_yticks(range(len(kept)), [g.name for g in kept])
    axes.set_ylim(len(kept) - 0.5, -0.5)
    axes.set(xlabel="share of the cost, %", xlim=(0, 100))
    axes.set_title("Which features carry the cost", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _kept(part: PartitionReport) -> list[GroupReport]:
    return [g for g in part.groups if g.sufficient]


def _right_end(x: np.ndarray, groups: Sequence[GroupReport]) -> float:
    """Where all curves have nearly ended: far outliers would press everything else to the left."""
    last = [np.searchsorted(g.curve[0], 0.99 * g.curve[0][-1]) for g in groups if len(g.curve[0])]
    end = float(x[min(int(max(last)), len(x) - 1)]) if last else 1.0
    return 1.05 * end or 1.0


def _all_burden(groups: Sequence[GroupReport]) -> float | None:
    """Mean over all groups, weighted by rows with recourse; None where open rows leave it open."""
    known = [(g.measures["burden"].low, g.n_optimal) for g in groups if not math.isnan(g.measures["burden"].low)]
    if not known or any(g.n_feasible + g.n_unknown for g in groups):
        return None
    return float(np.average([b for b, _ in known], weights=[n for _, n in known]))


def draw_costs(axes: Any, result: Result, groups: Any) -> None:
    """Curves of a result: exact steps; shaded where rows are open."""
    refused = result.status != "already"
    labels = np.full(len(result), "all rows", object) if groups is None else np.asarray(groups, dtype=object)
    names = sorted({str(v) for v in labels[refused].tolist()})
    if len(names) > _MOST_CURVES:
        raise OptionError(f"there are {len(names)} groups; at most {_MOST_CURVES} curves can be told apart.")
    ends = result.cost[refused & np.isfinite(result.cost)]
    x = np.unique(np.concatenate([[0.0], ends, result.lower_bound[refused & np.isfinite(result.lower_bound)]]))
    for k, name in enumerate(names):
        mine = refused & np.array([str(v) == name for v in labels.tolist()], bool)
        low, high = (100 * np.searchsorted(np.sort(side[mine]), x, side="right") / mine.sum()
                     for side in (result.cost, result.lower_bound))  # fmt: skip
        axes.plot(x, low, drawstyle="steps-post", color=COLOURS[k], linestyle=LINES[k], linewidth=1.8, label=name)
        if (high > low).any():
            axes.fill_between(x, low, high, step="post", color=COLOURS[k], alpha=0.2, linewidth=0)
    axes.set(xlabel="cost", ylabel="have an answer, %", ylim=(0, 101))
    axes.set_title("Answers for at most this cost", loc="left")
    axes.grid(color="0.9")
    if names:
        axes.legend(loc="lower right")
