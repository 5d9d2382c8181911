"""``gpucf.audit``: whether recourse is equally within reach of all groups."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._audit_flips import held, sensitivity
from gpucf._audit_groups import Attribute, partitions, read_attributes
from gpucf._audit_outcomes import Outcomes
from gpucf._audit_result import Audit
from gpucf._audit_stats import Chance, Statistics
from gpucf._errors import OptionError
from gpucf._result import ALREADY, OPTIMAL, STATUSES, Result
from gpucf._table import column_names, kind_of
from gpucf._version import __version__

if TYPE_CHECKING:
    from gpucf._engine import Engine

_NOT_ASKED = ("carry", "region", "progress")


def audit(
    engine: Engine,
    X: Any,
    groups: Sequence[str] | Mapping[str, Any],
    *,
    target: Any = None,
    bins: Mapping[str, Sequence[float]] | None = None,
    labels: Mapping[str, Mapping[Any, str]] | None = None,
    may_change: Sequence[str] = (),
    budgets: Sequence[float] | None = None,
    order: int = 3,
    min_group: int = 30,
    n_bootstrap: int = 1000,
    n_permutations: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    sensitivity_to: Sequence[str] | None = None,
    small_change: float | None = None,
    **query: Any,
) -> Audit:
    """Compare the recourse of groups, among the rows that the model refuses.

    Parameters
    ----------
    engine : Engine
    X : table
        The rows to audit; true labels are not needed. Columns of `groups` that the model does not know may be in it.
    groups : list of names, or dict
        Attributes: columns of `X` or one-hot groups. In a dict, the values by name, or the name of a column.
    target : target, optional
        The outcome that people want, see `Engine.query`; rows that do not meet it are "refused". For two classes the
        second one where nothing is given.
    bins : dict, optional
        Inner borders of numeric attributes: ``{"age": [25, 45, 65]}``.
    labels : dict, optional
        What values are called: ``{"sex": {0: "male", 1: "female"}}``.
    may_change : list of names
        Attributes that recourse may change. All others stay as they are: nobody is told to change their sex.
    budgets : list of float, optional
        Costs for "share with recourse within a budget"; the quartiles of all costs where not given.
    order : int
        Intersections of up to so many attributes.
    min_group : int
        Groups with fewer refused rows are listed with their counts only.
    n_bootstrap, n_permutations : int
    level : float
        Of the bootstrap intervals.
    seed : int
        The numbers depend on nothing but the data, the options and this.
    sensitivity_to : list of names, optional
        Attributes to be changed alone; all where not given.
    small_change : float, optional
        Cost of a "small other change"; the least budget where not given.
    **query :
        Options of `Engine.query`: cost, scale, immutable, node_limit, options and so on.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np, gpucf
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 3))
    >>> engine = gpucf.Engine(DecisionTreeClassifier(max_depth=3).fit(X, X[:, 0] > 0.5), background=X)
    >>> found = gpucf.audit(engine, X, {"side": np.where(X[:, 1] > 0.5, "left", "right")}, n_bootstrap=99)
    >>> [(g.name, g.n_refused) for g in found.partition("side").groups]
    [('side left', 114), ('side right', 73)]
    """
    start = time.perf_counter()
    settings = _settings(
        order=order, min_group=min_group, n_bootstrap=n_bootstrap, n_permutations=n_permutations, level=level, seed=seed
    )
    for name in _NOT_ASKED:
        if name in query:
            raise OptionError(f"{name} is no option of an audit.")
    attributes = read_attributes(engine, X, groups, bins, labels)
    names = [a.name for a in attributes]
    tested = _some_of(names, sensitivity_to, "sensitivity_to") if sensitivity_to is not None else names
    target = _target(engine, target)
    asked = {**query, "target": target, "carry": _beside(engine, X, groups)}
    asked["immutable"] = _held(engine, attributes, _some_of(names, may_change, "may_change"), query)
    result = engine.query(X, **asked)
    searched = time.perf_counter()
    refused = result.status != ALREADY
    outcomes = Outcomes.of(result, int(query.get("options", 1)))
    costs = _budgets(budgets, outcomes)
    small = float(small_change) if small_change is not None else (costs[0] if costs else 0.0)
    flips = [sensitivity(engine, result._table, a, result, asked, small) for a in attributes if a.name in tested]
    flipped = time.perf_counter()
    parts = partitions(attributes, order)
    features, moved, prices = _moves(result, np.flatnonzero(refused))
    statistics = Statistics(
        parts, refused, outcomes, costs, features, moved, prices,
        Chance(min_group, n_bootstrap, n_permutations, float(level), seed, engine.n_threads),
        partitions(attributes, len(attributes))[-1],
    )  # fmt: skip
    reports, subgroups = statistics.reports(), statistics.subgroups()
    settings |= {
        "attributes": names,
        "bins": {a.name: list(a.bins) for a in attributes if a.bins is not None},
        "labels": {name: {str(k): str(v) for k, v in of.items()} for name, of in (labels or {}).items()},
        "target": str(target),
        "may_change": list(may_change),
        "budgets": list(costs),
        "small_change": small,
        "query": {name: _plain(value) for name, value in query.items()},
        "held": [a.name for a in attributes if a.columns and a.name not in may_change],
    }
    return Audit(
        settings=settings,
        n=len(refused),
        n_refused=int(refused.sum()),
        counts={s: int((result.status == s).sum()) for s in STATUSES if s != ALREADY},
        partitions=reports,
        subgroups=subgroups,
        sensitivity=flips,
        curve_costs=statistics.costs,
        rows=_rows(attributes, result),
        seconds={
            "search": searched - start,
            "sensitivity": flipped - searched,
            "statistics": time.perf_counter() - flipped,
        },
        about=_about(engine, result),
    )


def _settings(**given: Any) -> dict[str, Any]:
    for name, least in [("order", 1), ("min_group", 1), ("n_bootstrap", 0), ("n_permutations", 0), ("seed", 0)]:
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise OptionError(f"{name} is {value!r}; give a whole number of at least {least}.")
    level = given["level"]
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise OptionError(f"level is {level!r}; give a number between 0 and 1, such as 0.95.")
    return given


def _some_of(names: Sequence[str], given: Sequence[str], option: str) -> list[str]:
    given = [given] if isinstance(given, str) else list(given)
    for name in given:
        if name not in names:
            raise OptionError(f"{option} names {name!r}, which is not among the attributes {list(names)}.")
    return given


def _target(engine: Engine, target: Any) -> Any:
    """What people want."""
    if target is not None:
        if isinstance(target, str) and target in ("opposite", "any_other"):
            raise OptionError(f"target={target!r} is no outcome that people want; give a class, or limits.")
        return target
    classes = engine.ensemble.classes
    if classes is None or len(classes) != 2:
        raise OptionError("say which outcome people want: target=..., a class or limits such as 'score >= 2'.")
    return np.asarray(classes).tolist()[1]


def _beside(engine: Engine, X: Any, groups: Any) -> list[str]:
    """Columns of `X` that only the audit reads."""
    kind = kind_of(X, "X")
    if kind == "numpy":
        return []
    given = groups.values() if isinstance(groups, Mapping) else [groups] if isinstance(groups, str) else groups
    names = [str(n) for n in column_names(kind, X)]
    wanted = dict.fromkeys(g for g in given if isinstance(g, str))
    known = {str(g.name) for g in engine.domain.groups} | set(engine.ensemble.feature_names)
    return [n for n in wanted if n in names and n not in known]


def _held(engine: Engine, attributes: Sequence[Attribute], may_change: Sequence[str], query: Mapping[str, Any]) -> Any:
    immutable = query.get("immutable", ())
    groups = {c: str(g.name) for g in engine.domain.groups for c in g.columns}
    for a in attributes:
        if a.columns and a.name not in may_change:
            name = groups.get(a.columns[0], str(engine.ensemble.feature_names[a.columns[0]]))
            immutable = held(immutable, name)
    return immutable


def _budgets(given: Sequence[float] | None, outcomes: Outcomes) -> list[float]:
    if given is None:
        finite = np.sort(outcomes.high[np.isfinite(outcomes.high)])
        if not len(finite):
            return []
        given = [float(finite[(len(finite) - 1) * k // 4]) for k in (1, 2, 3)]
    entries: Sequence[Any] = given
    for b in entries:
        real = isinstance(b, int | float | np.number) and not isinstance(b, bool)
        if not (real and 0.0 <= b < np.inf):
            raise OptionError(f"budgets has {b!r}; give finite costs of at least 0.")
    return list({f"{b:g}": float(b) for b in sorted(float(b) for b in given)}.values())


def _moves(result: Result, rows: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Which features each row's answer changes, and what each of these moves costs (proved answers only)."""
    names = [name for name, _ in result._features]
    moved = np.stack([result.changed[rows][:, list(c)].any(axis=1) for _, c in result._features], axis=1)
    prices = np.zeros(moved.shape)
    proved = np.flatnonzero(result.status[rows] == OPTIMAL)
    prices[proved] = result._feature_cost.of_rows(rows[proved])
    return names, moved, np.where(moved, prices, 0.0)


def _rows(attributes: Sequence[Attribute], result: Result) -> dict[str, np.ndarray]:
    columns = {f"by_{a.name}": np.array(a.levels, dtype=object)[a.codes] for a in attributes}
    return {
        **columns,
        "status": result.status.astype(object),
        "cost": result.cost,
        "lower_bound": result.lower_bound,
        "n_changed": result.n_changed,
    }


def _about(engine: Engine, result: Result) -> dict[str, Any]:
    values = np.ascontiguousarray(result._table.values)
    return {
        "gpucf": __version__,
        "numpy": np.__version__,
        "model": engine.ensemble.model_type,
        "trees": engine.ensemble.n_trees,
        "model_digest": engine.ensemble.digest(),
        "data_digest": hashlib.sha256(values.tobytes() + repr(result._table.names).encode()).hexdigest(),
        "verified_by": result.verified_by,
        "answered_by": result.plan["method"],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"array of {len(value)} values"
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)
