"""Pictures of answers, of the counterfactual map, and of audits; needs matplotlib (``pip install 'gpucf[plot]'``).

Every function returns a matplotlib figure, sized for a notebook, in colours that everybody can tell apart, or draws
into the axes that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpucf._errors import OptionError
from gpucf._plot_style import new_figure

if TYPE_CHECKING:
    from gpucf._audit_result import Audit
    from gpucf._engine import Engine
    from gpucf._plot_cells import CellMap
    from gpucf._result import Result

__all__ = ["burden", "card", "cells", "costs", "curves", "features", "map", "options"]


def cells(engine: Engine, row: Any, features: Sequence[str], **options: Any) -> CellMap:
    """The counterfactual map over two features as arrays: every point of it is an answer of the engine.

    Parameters
    ----------
    engine : Engine
    row : table of one row
        Gives all other features.
    features : two names
        Ordered columns of the model: horizontal, vertical.
    **options :
        ``target``, ``move`` ("these": only the two features may change; "all"), ``limits`` (two pairs: what to show),
        ``resolution`` (points on each axis), and options of `Engine.query`.

    Returns
    -------
    CellMap
        ``x``, ``y``, ``cost``, ``answer``, ``region``, ``accepted``.
    """
    from gpucf._plot_cells import cell_map

    return cell_map(engine, row, features, **options)


def map(engine: Engine, row: Any, features: Sequence[str], *, axes: Any = None, **options: Any) -> Any:
    """The counterfactual map over two features: which region answers for whom, and contours of cost.

    Parameters
    ----------
    engine, row, features, **options :
        See `cells`.
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib figure, or the axes that were given

    Examples
    --------
    >>> import numpy as np, gpucf, gpucf.plot
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> engine = gpucf.Engine(DecisionTreeClassifier(max_depth=4).fit(X, X.sum(axis=1) > 1), background=X)
    >>> figure = gpucf.plot.map(engine, X[:1], ["f0", "f1"], resolution=20)
    """
    from gpucf._plot_draw import draw_map

    found = cells(engine, row, features, **options)
    return _drawn(axes, 8.4, 4.8, lambda a: draw_map(a, found))


def options(result: Result, i: int, *, axes: Any = None) -> Any:
    """Features against options of row `i`, after a query with ``options=k``."""
    from gpucf._plot_draw import draw_options

    found = result.options(i)
    n = len({c["feature"] for option in found for c in option.changes})
    return _drawn(axes, 2.2 + 1.5 * max(len(found), 1), 1.2 + 0.6 * max(n, 1), lambda a: draw_options(a, result, i))


def card(result: Result, i: int, *, axes: Any = None) -> Any:
    """One person's card: from what to what, the region in which the answer holds, and further options."""
    from gpucf._plot_draw import draw_card

    return _drawn(axes, 7.6, 4.2, lambda a: draw_card(a, result, i))


def costs(result: Result, groups: Any = None, *, axes: Any = None) -> Any:
    """Share of the rows that do not meet the target with an answer for at most a cost, by group.

    Parameters
    ----------
    result : Result
    groups : sequence with one label for each row, optional
    axes : matplotlib axes, optional
    """
    from gpucf._plot_audit import draw_costs

    if groups is not None and len(groups) != len(result):
        raise OptionError(f"groups has {len(groups)} entries for {len(result)} rows; give one for each row.")
    return _drawn(axes, 7.6, 3.8, lambda a: draw_costs(a, result, groups))


def curves(audit: Audit, *attributes: str, axes: Any = None) -> Any:
    """Share of each group's refused rows with recourse for at most a cost."""
    from gpucf._plot_audit import draw_curves

    part = audit.partition(*attributes) if attributes else audit.partitions[0]
    return _drawn(axes, 7.6, 3.8, lambda a: draw_curves(a, audit, part))


def burden(audit: Audit, *attributes: str, axes: Any = None) -> Any:
    """Mean cost of recourse of each group, with its bootstrap interval."""
    from gpucf._plot_audit import draw_bars

    part = audit.partition(*attributes) if attributes else audit.partitions[0]
    return _drawn(axes, 7.6, 1.2 + 0.36 * len(part.groups), lambda a: draw_bars(a, audit, part))


def features(audit: Audit, *attributes: str, axes: Any = None) -> Any:
    """Share of each group's cost of recourse that each feature carries."""
    from gpucf._plot_audit import draw_features

    part = audit.partition(*attributes) if attributes else audit.partitions[0]
    return _drawn(axes, 7.6, 1.7 + 0.34 * len(part.groups), lambda a: draw_features(a, part))


def _drawn(axes: Any, width: float, height: float, draw: Any) -> Any:
    if axes is not None:
        draw(axes)
        return axes
    figure, own = new_figure(width, height)
    draw(own)
    return figure
