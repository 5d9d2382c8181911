"""The definition of the answer: brute force in plain numpy, independent of cells, boxes and maps.

Every feature has a short list of values that could matter: the row's own value, and around each threshold the last
attainable value that goes left and the first that goes right. Of all combinations on which the model says what is
wanted, the answer is the one with the least key: cost; then the sum of displacements; then feature by feature the
displacement, below before above, the nearer value (for categories: own first, then the lower code).
"""

from __future__ import annotations

import itertools

import numpy as np

from gpucf._labels import labels_from_sums
from gpucf._predict import predict_sums


def last_at_most(t, column, compare_dtype):
    """Largest attainable value <= t, and the smallest attainable value > t; None where there is none."""
    dtypes = [d for d in (column.dtype, compare_dtype) if d.kind == "f"]
    dtype = min(dtypes, key=lambda d: d.itemsize).type
    low, high = -float(np.finfo(dtype).max), float(np.finfo(dtype).max)
    if column.kind == "boolean":
        low, high = 0.0, 1.0
    elif column.dtype.kind in "iu":
        info = np.iinfo(column.dtype)
        low, high = inside(info.min, dtype, np.inf), inside(info.max, dtype, -np.inf)
    whole = column.kind != "continuous"
    with np.errstate(over="ignore"):
        below = float(dtype(t))
    while below > t or (whole and below != np.floor(below)):
        below = float(np.floor(below)) if whole and below <= t else float(np.nextafter(dtype(below), dtype(-np.inf)))
    with np.errstate(over="ignore"):
        above = float(np.nextafter(dtype(below), dtype(np.inf)))
    if whole:  # floats beyond 2**24 or 2**53 are whole numbers two or more apart
        above = max(below + 1.0, above)
    below, above = min(below, high), max(above, low)
    return (below if below >= low else None), (above if above <= high else None)


def inside(bound, dtype, towards):
    """The integer `bound`, or the next value of `dtype` in the given direction where it is not representable."""
    value = dtype(bound)
    if int(value) != bound and (int(value) > bound) == (towards < 0):
        value = np.nextafter(value, dtype(towards))
    return float(value)


def models(engine):
    """Each model that an answer must satisfy, with the table's column for each of its own."""
    members = engine._space.members
    return [(m.ensemble, m.columns) for m in members] or [(engine.ensemble, np.arange(engine.ensemble.n_features))]


def thresholds(engine, column):
    """Every number that some model compares a column with."""
    found = set()
    for ensemble, columns in models(engine):
        at = (ensemble.feature >= 0) & (ensemble.category_set < 0)
        mine = at & (columns[np.maximum(ensemble.feature, 0)] == column)
        found |= set(ensemble.threshold[mine].tolist())
    return sorted(found)


def candidates(engine, j, columns, x, numbers=()):
    """Values (tuples over the feature's columns) that feature j may take from x, own value first."""
    ensemble, domain = engine.ensemble, engine.domain
    if len(columns) > 1:
        options = [tuple(np.eye(len(columns))[k]) for k in range(len(columns))]
    elif ensemble.categories[columns[0]] is not None:
        # The last level of a pipeline may stand for those that training did not know: no move lands there.
        beyond = ensemble.raw is not None and ensemble.raw.unknown[columns[0]]
        options = [(float(k),) for k in range(len(ensemble.categories[columns[0]]) - int(beyond))]
    else:
        column = domain.columns[columns[0]]
        dtype = min((m.compare_dtype for m, _ in models(engine)), key=lambda d: d.itemsize)
        around = [v for t in numbers for v in (np.nextafter(t, -np.inf), t)]
        found = {v for t in (*thresholds(engine, columns[0]), *around) for v in last_at_most(t, column, dtype)}
        options = [(v,) for v in sorted(found - {None})]
    own = tuple(x)
    if any(np.isnan(own)):
        return [own]
    return [own] + [o for o in options if o != own]


def moves(values, own, kind, weight, scale, may_rise, may_fall, cost):
    """Price, displacement and order of each candidate of one feature."""
    price, displacement, order = [], [], []
    tie_weight = weight if weight > 0 else 1.0
    for code, v in enumerate(values):
        if v == own or code == 0:
            price.append(0.0), displacement.append(0.0), order.append((0.0, -1, 0.0))
            continue
        if kind == "ordered":
            above = v[0] > own[0]
            d = ((v[0] - own[0]) if above else (own[0] - v[0])) / scale
            allowed = may_rise if above else may_fall
            place = (tie_weight * d, int(above), v[0] if above else -v[0])
        else:
            d, allowed = 1.0, may_rise
            place = (tie_weight, 0, float(np.argmax(v)) if len(v) > 1 else v[0])
        p = 0.0 if weight == 0 else weight * (d * d) if cost == "l2" else weight if cost == "l0" else weight * d
        price.append(p if allowed else np.inf)
        displacement.append(tie_weight * d)
        order.append(place)
    return np.asarray(price), np.asarray(displacement), order


def answer(engine, goal, x, costs, keeps=None, grids=None, numbers=()):
    """The nearest counterfactual of row `x` (float64, the model's columns): (point, inner cost), or (None, inf).

    `keeps` says for a point in plain Python what else must hold of it; `grids` gives all values of the columns that it
    looks at, where the model alone would let fewer matter; `numbers` those that it compares ungridded columns with.
    """
    cells = engine.cells()
    lists = [candidates(engine, j, c, x[list(c)], numbers) for j, c in enumerate(cells.columns)]
    for j, columns in enumerate(cells.columns):
        if grids is not None and columns[0] in grids and not np.isnan(x[columns[0]]):
            own = (x[columns[0]],)
            lists[j] = [own] + [(v,) for v in grids[columns[0]] if (v,) != own]
    tables = [
        moves(lists[j], tuple(x[list(c)]), "ordered" if cells.kind[j] == 0 else "set", costs.weight[j], costs.scale[j],
              costs.may_rise[j], costs.may_fall[j], costs.name)
        for j, c in enumerate(cells.columns)
    ]  # fmt: skip
    return least_key(engine, goal, x, cells.columns, lists, tables, costs.name == "linf", keeps)


def least_key(engine, goal, x, features, lists, tables, is_max, keeps=None):
    """The point of least key among all combinations of the features' values: (point, inner cost), or (None, inf)."""
    picks = np.array(list(itertools.product(*(range(len(v)) for v in lists))), dtype=np.int64)
    rows = np.empty((len(picks), engine.ensemble.n_features))
    total, displacement = np.zeros(len(picks)), np.zeros(len(picks))
    for j, columns in enumerate(features):
        rows[:, list(columns)] = np.asarray(lists[j]).reshape(len(lists[j]), -1)[picks[:, j]]
        price = tables[j][0][picks[:, j]]
        total = np.maximum(total, price) if is_max else total + price
        displacement = displacement + tables[j][1][picks[:, j]]
    labels = labels_from_sums(engine._space, goal.rule, predict_sums(engine._space, rows))
    own = labels_from_sums(engine._space, goal.rule, predict_sums(engine._space, x[None]))[0]
    good = labels != own if goal.labels is None else goal.labels[labels]
    good &= np.isfinite(total)
    if keeps is not None:
        good &= np.array([keeps(row) for row in rows.tolist()], bool)
    if not good.any():
        return None, np.inf
    at = np.flatnonzero(good & (total == total[good].min()))
    at = at[displacement[at] == displacement[at].min()]
    best = min(at, key=lambda i: [tables[j][2][picks[i, j]] for j in range(len(lists))])
    return rows[best], float(total[best])


def visible(engine, columns, values):
    """For each value whether some model can tell it from the row's own one, the first: else it is no change."""
    out = np.ones(len(values), bool)
    if len(columns) > 1 or engine.ensemble.categories[columns[0]] is not None:
        return out
    own, cuts = values[0][0], np.array(thresholds(engine, columns[0]))
    for n, (v,) in enumerate(values):
        told = ((cuts >= min(own, v)) & (cuts < max(own, v))).any()
        out[n] = n == 0 or np.isnan(v) or np.isnan(own) or told
    return out


def options_by_key(engine, goal, features, lists, tables, is_max, k, keeps=None):
    """All qualifying points by key, each taken if its set of features fits to those before it: (point, inner cost).

    `features`, `lists`, `tables` and `keeps` as for `least_key`; the first value of each feature is the row's own.
    """
    seen = [np.flatnonzero(visible(engine, c, values)) for c, values in zip(features, lists, strict=True)]
    picks = np.array(list(itertools.product(*seen)), np.int64)
    rows = np.empty((len(picks), engine.ensemble.n_features))
    total, displacement = np.zeros(len(picks)), np.zeros(len(picks))
    for j, columns in enumerate(features):
        rows[:, list(columns)] = np.asarray(lists[j]).reshape(len(lists[j]), -1)[picks[:, j]]
        price = tables[j][0][picks[:, j]]
        total = np.maximum(total, price) if is_max else total + price
        displacement = displacement + tables[j][1][picks[:, j]]
    labels = labels_from_sums(engine._space, goal.rule, predict_sums(engine._space, rows))
    good = labels != labels[0] if goal.labels is None else goal.labels[labels]  # the first point is the row itself
    at = np.flatnonzero(good & np.isfinite(total))
    order = sorted(
        at, key=lambda i: (total[i], displacement[i], [tables[j][2][picks[i, j]] for j in range(len(lists))])
    )
    out, sets = [], []
    for i in order:
        changed = frozenset(np.flatnonzero(picks[i]).tolist())
        if any(s <= changed or changed <= s for s in sets) or (keeps is not None and not keeps(rows[i])):
            continue
        out.append((rows[i], float(total[i])))
        sets.append(changed)
        if len(out) == k:
            break
    return out
