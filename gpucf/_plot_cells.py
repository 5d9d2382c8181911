"""The counterfactual map over two features: what the model says, which region answers for whom, and at what cost.

Nothing is interpolated: each point of the grid is a row that the engine was asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._cells import ORDERED, code_rows
from gpucf._domain import Grid
from gpucf._errors import OptionError
from gpucf._result import ALREADY, Result
from gpucf._table import Table, read_table, take_rows, with_values

if TYPE_CHECKING:
    from gpucf._engine import Engine

_MOST_POINTS = 400
INSIDE, NOTHING = -1, -2


@dataclass(frozen=True, eq=False)
class CellMap:
    """The map over two features, all others being those of one row.

    Attributes
    ----------
    features : tuple of str
        Horizontal, vertical.
    x, y : float64 arrays
        Values of the two features, all of which a row can hold.
    cost : float64 array of shape (len(y), len(x))
        Least cost from each point; 0 where the target is met, inf where it is out of reach.
    proved : bool array of the same shape
    answer : float64 array of shape (len(y), len(x), 2)
        Where each point's answer lies.
    region : int64 array of shape (len(y), len(x))
        Which region answers: a position in `labels`; -1 where the point meets the target, -2 where nothing was found.
    labels : tuple
        Regions: with ``move="these"`` the rectangles (x low, x high, y low, y high) into which the part that meets the
        target is cut; with ``move="all"`` the features that the answers change.
    accepted : bool array of shape (len(y), len(x))
    point : pair of float
        The row itself.
    result : Result
        Answers of all points, row by row.
    """

    features: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    proved: np.ndarray
    answer: np.ndarray
    region: np.ndarray
    labels: tuple[Any, ...]
    accepted: np.ndarray
    point: tuple[float, float]
    result: Result


def cell_map(
    engine: Engine, row: Any, features: Sequence[str], *, target: Any = "opposite", move: str = "these",
    limits: Sequence[Sequence[float]] | None = None, resolution: int = 120, **query: Any,
) -> CellMap:  # fmt: skip
    """Ask the engine about a grid of values of two features.

    Parameters
    ----------
    engine : Engine
    row : table of one row
        Gives all other features.
    features : two names
        Ordered columns of the model.
    target : target
        "opposite": the other class than that of the row.
    move : {"these", "all"}
        Whether only the two features may change, or all that the engine permits.
    limits : two pairs, optional
        What to show; from the model's thresholds and the row where not given.
    resolution : int
        Values on each axis at most; whole numbers and declared steps are shown one by one where they are fewer.
    **query :
        Further options of `Engine.query`.
    """
    if move not in ("these", "all"):
        raise OptionError(f"move is {move!r}; give 'these' or 'all'.")
    if isinstance(resolution, bool) or not (2 <= resolution <= _MOST_POINTS):
        raise OptionError(f"resolution is {resolution!r}; give a whole number from 2 to {_MOST_POINTS}.")
    table = read_table(row, engine.ensemble, "row")
    if len(table.values) != 1:
        raise OptionError(f"the row is a table of {len(table.values)} rows; give one row, such as X.iloc[[0]].")
    if len(features) != 2 or features[0] == features[1]:
        raise OptionError(f"features is {list(features)!r}; give the names of two columns.")
    target = _fixed_target(engine, table, target)
    first, second = (_axis(engine, table, name) for name in features)
    x, y = (
        _values(engine, table, j, resolution, None if limits is None else limits[k])
        for k, j in enumerate((first, second))
    )
    grid = _points(engine, table, (first, second), x, y)
    if move == "these":
        query = {**query, "only": list(features)}
    result = engine.query(grid, target, **query)
    shape = (len(y), len(x))
    columns = [engine.cells().columns[j][0] for j in (first, second)]
    own = table.values[0, columns]
    region, labels = (_rectangles if move == "these" else _changed_sets)(engine, table, result, (first, second), target)
    return CellMap(
        (str(features[0]), str(features[1])), x, y, result.cost.reshape(shape),
        np.isin(result.status, ("optimal", "already", "infeasible")).reshape(shape),
        result._after[:, columns].reshape(*shape, 2), region.reshape(shape), labels,
        (result.status == ALREADY).reshape(shape), (float(own[0]), float(own[1])), result,
    )  # fmt: skip


def _axis(engine: Engine, table: Table, name: str) -> int:
    cells = engine.cells()
    if name not in cells.names or cells.kind[cells.names.index(name)] != ORDERED:
        known = [n for n, kind in zip(cells.names, cells.kind, strict=True) if kind == ORDERED]
        raise OptionError(f"{name!r} is no ordered feature of the model; these are: {', '.join(known)}.")
    return cells.names.index(name)


def _fixed_target(engine: Engine, table: Table, target: Any) -> Any:
    """Take "opposite" and "any_other" for the row's own class: that of a point changes over the picture."""
    if not (isinstance(target, str) and target in ("opposite", "any_other")):
        return target
    from gpucf._links import classes_from_raw
    from gpucf._predict import predict_raw

    classes = np.asarray(engine.ensemble.classes).tolist()
    own = int(classes_from_raw(engine.ensemble, predict_raw(engine.ensemble, table.values))[0])
    return [c for k, c in enumerate(classes) if k != own]


def _values(engine: Engine, table: Table, j: int, n: int, limits: Sequence[float] | None) -> np.ndarray:
    """Attainable values of a feature, evenly spread over what is shown."""
    cells = engine.cells()
    column = cells.columns[j][0]
    if limits is None:
        cuts = cells.raw_cut[cells.raw_start[j] : cells.raw_start[j + 1]]
        own = table.values[0, column]
        seen = np.append(cuts, own) if np.isfinite(own) else cuts
        if not len(seen):
            seen = np.zeros(1)
        pad = 0.08 * float(np.ptp(seen)) or max(abs(float(seen[0])), 1.0)
        low, high = float(seen.min()) - pad, float(seen.max()) + pad
    else:
        low, high = (float(v) for v in limits)
    grid = Grid.of(engine.domain.columns[column], engine.ensemble.attainable_dtype)
    low, high = max(low, grid.low), min(high, grid.high)
    if not low < high:
        raise OptionError(f"there is nothing between {low!r} and {high!r} that {cells.names[j]!r} could be.")
    values = np.unique(grid.floor(np.linspace(low, high, n)))
    return values[np.isfinite(values) & (values >= grid.low)]


def _points(engine: Engine, table: Table, pair: tuple[int, int], x: np.ndarray, y: np.ndarray) -> Any:
    """The row once for each point, in the kind of table it came in."""
    values = np.repeat(table.values, len(x) * len(y), axis=0)
    columns = [engine.cells().columns[j][0] for j in pair]
    values[:, columns[0]], values[:, columns[1]] = np.tile(x, len(y)), np.repeat(y, len(x))
    many = np.zeros(len(values), np.int64)
    before = Table(
        table.kind, take_rows(table, many), table.names, np.repeat(table.values, len(values), axis=0), table.dtypes,
        table.positions,
    )  # fmt: skip
    return with_values(before, engine.ensemble, values, values != before.values)


def _rectangles(
    engine: Engine, table: Table, result: Result, pair: tuple[int, int], target: Any
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Cut what meets the target into rectangles of cells, and say in which one each answer lies."""
    cells = engine.cells(keep_empty=True)
    n = [int(cells.n_codes[j]) - 1 for j in pair]
    span = [slice(int(cells.code_start[j]), int(cells.code_start[j]) + n[k]) for k, j in enumerate(pair)]
    probe = [cells.cell_probe[s] for s in span]
    values = np.repeat(table.values, n[0] * n[1], axis=0)
    columns = [cells.columns[j][0] for j in pair]
    values[:, columns[0]], values[:, columns[1]] = np.tile(probe[0], n[1]), np.repeat(probe[1], n[0])
    every = Table(table.kind, None, table.names, values, table.dtypes, table.positions)
    meets = np.zeros(len(values), bool)
    for group in engine._groups(target, 0.0, every):
        meets[group.rows] = group.already
    owner, boxes = cut_into_rectangles(meets.reshape(n[1], n[0]))
    codes = code_rows(engine._space, cells, result._after, engine.ensemble.feature_names)[0][:, list(pair)]
    region = np.full(len(result), NOTHING, np.int64)
    found = result.changed.any(axis=1) & np.isfinite(result.cost) & (codes < n).all(axis=1)
    region[found] = owner[codes[found, 1], codes[found, 0]]
    region[result.status == ALREADY] = INSIDE
    ends = [_cell_ends(cells.raw_cut[cells.raw_start[j] : cells.raw_start[j + 1]]) for j in pair]
    labels = tuple((ends[0][a], ends[0][b + 1], ends[1][c], ends[1][d + 1]) for a, b, c, d in boxes)
    return region, labels


def _cell_ends(cuts: np.ndarray) -> list[float]:
    return [-np.inf, *cuts.tolist(), np.inf]


def cut_into_rectangles(meets: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int, int, int]]]:
    """Greedy cut of the marked cells: the first free one grows to the right, then up, as far as cells are free.

    Returns
    -------
    owner : int64 array
        Rectangle of each cell; -2 where it is not marked.
    boxes : list of (first column, last column, first row, last row)
    """
    owner = np.full(meets.shape, NOTHING, np.int64)
    boxes: list[tuple[int, int, int, int]] = []
    for r, c in zip(*np.nonzero(meets), strict=True):
        if owner[r, c] != NOTHING:
            continue
        free = meets[r, c:] & (owner[r, c:] == NOTHING)
        width = len(free) if free.all() else int(np.argmin(free))
        height = 1
        while r + height < len(meets):
            row = slice(c, c + width)
            if not (meets[r + height, row] & (owner[r + height, row] == NOTHING)).all():
                break
            height += 1
        owner[r : r + height, c : c + width] = len(boxes)
        boxes.append((int(c), int(c) + width - 1, int(r), int(r) + height - 1))
    return owner, boxes


def _changed_sets(
    engine: Engine, table: Table, result: Result, pair: tuple[int, int], target: Any
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Which features each answer changes."""
    moved = np.stack([result.changed[:, list(c)].any(axis=1) for _, c in result._features], axis=1)
    names = [name for name, _ in result._features]
    sets, region = np.unique(moved, axis=0, return_inverse=True)
    labels = [tuple(n for n, m in zip(names, row, strict=True) if m) for row in sets.tolist()]
    region = region.reshape(-1).astype(np.int64)
    if () in labels:  # met already, or nothing found
        none = labels.index(())
        kept = [k for k in range(len(labels)) if k != none]
        place = np.full(len(labels), NOTHING)
        place[kept] = np.arange(len(kept))
        region, labels = place[region], [labels[k] for k in kept]
    region[result.status == ALREADY] = INSIDE
    return region, tuple(labels)
