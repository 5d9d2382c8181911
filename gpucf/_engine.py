"""The engine: a model read once, ready to answer tables of rows."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpucf._answers import Answers
from gpucf._cells import Cells, code_rows, make_cells
from gpucf._costs import CostModel, make_cost_model
from gpucf._declare import check_dtypes, check_may_be_missing, make_domain
from gpucf._ensemble import Ensemble
from gpucf._errors import MapTooLargeError, ModelError, OptionError, TableError
from gpucf._features import Features
from gpucf._labels import LabelRule, labels_from_sums
from gpucf._limits import named_columns, row_bounds
from gpucf._loaders import load_model, open_judge
from gpucf._measures import Population, column_scales
from gpucf._moves import FeatureCost, moved_values
from gpucf._predict import predict_sums
from gpucf._prices import LARGEST_PRICE
from gpucf._query import nearest_boxes
from gpucf._regionmap import RegionMap, build_region_map, load_region_map
from gpucf._result import ALREADY, FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Result
from gpucf._search import Searcher, make_searcher, search
from gpucf._special import with_special
from gpucf._table import Table, read_table, with_values
from gpucf._targets import Target, resolve_target
from gpucf._verify import verify

_log = logging.getLogger("gpucf")

METHODS = ("auto", "map", "search")
SMALL_MAP = 30_000  # regions up to which "auto" answers from a map


class Engine:
    """Exact nearest counterfactuals of one model.

    Parameters
    ----------
    model : model object, path or Ensemble
        See `load_model`.
    background : table, optional
        Rows like those the model was trained on. Its dtypes say which columns are whole numbers or booleans, and its
        values give the units of `scale` and the percentiles of the cost "quantile".
    features : Features, dict, or path of a YAML or JSON file, optional
        What each column may become, and at what price (see `Features`); it comes before the background's dtypes.
    one_hot : dict, optional
        Group name to the columns of which exactly one is 1: moved as one categorical feature.
    iterations, trust_pickle :
        See `load_model`.
    n_threads : int, optional
        Threads for queries; all cores if not given. Answers do not depend on it.
    method : {"auto", "map", "search"}
        "map" answers from a region map of the whole model, "search" searches the trees for each row; both give the
        same points, bit for bit. "auto" takes the map where it has few regions, else the search.
    max_regions : int
        Largest region map to build.

    Examples
    --------
    >>> import gpucf
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> engine = gpucf.Engine(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y), background=X)
    >>> result = engine.query(X[:2])
    >>> result.status.tolist()
    ['optimal', 'optimal']
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        features: Features | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        one_hot: Mapping[str, Sequence[str]] | None = None,
        iterations: int | str | None = None,
        trust_pickle: bool = False,
        n_threads: int | None = None,
        method: str = "auto",
        max_regions: int = 2_000_000,
    ) -> None:
        if method not in METHODS:
            raise OptionError(f"method is {method!r}; give one of {', '.join(map(repr, METHODS))}.")
        self.method = method
        self.n_threads = _count("n_threads", n_threads, os.cpu_count() or 1)
        self.max_regions = _count("max_regions", max_regions, 1)
        ensemble = load_model(model, iterations=iterations, trust_pickle=trust_pickle, background=background)
        self._as_read = ensemble
        self._model = model
        self._trust_pickle = trust_pickle
        self._lock = threading.Lock()
        self.judge = open_judge(model, ensemble, trust_pickle)
        table = None if background is None else read_table(background, ensemble, "background")
        self.ensemble = ensemble if table is None else _named_by(ensemble, table)
        self.features = Features.of(features)
        self.domain = make_domain(self.ensemble, table, self.features, one_hot)
        self._population = None if table is None else Population(table.values)
        self._scales = None if table is None else {
            name: column_scales(table.values, name, self.ensemble.n_features) for name in ("range", "std", "mad", "iqr")
        }  # fmt: skip
        self._cells: dict[bool, Cells] = {}
        self._maps: list[RegionMap] = []
        self._too_large: set[tuple[Any, ...]] = set()  # rules for which a small map was tried in vain
        self._searchers: dict[bool, Searcher] = {}
        _log.info(
            "%s: %d trees, %d columns, %d features after folding", self.ensemble.model_type, self.ensemble.n_trees,
            self.ensemble.n_features, self.cells().n_features,
        )  # fmt: skip

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Columns of the model, in order."""
        return np.asarray(self.ensemble.feature_names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        return self.ensemble.n_features

    def cells(self, keep_empty: bool = False) -> Cells:
        """What the model can tell apart (see `Cells`)."""
        with self._lock:
            if keep_empty not in self._cells:
                self._cells[keep_empty] = make_cells(self.ensemble, self.domain, keep_empty)
            return self._cells[keep_empty]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock and the judge, which holds the library's own functions."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "judge")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
        try:
            self.judge = open_judge(self._model, self._as_read, self._trust_pickle)
        except (ModelError, ImportError) as error:  # `Result.verified_by` will name the reference predictor
            _log.warning("the model cannot be opened here (%s); the reference predictor will check answers", error)
            self.judge = None

    def query(
        self,
        X: Any,
        target: Any = "opposite",
        cost: str | Mapping[str, float] = "l1",
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        scale: str | None = "range",
        immutable: Sequence[str] | Mapping[str, Any] = (),
        increase_only: Sequence[str] = (),
        decrease_only: Sequence[str] = (),
        limits: Mapping[str, Mapping[str, Any]] | None = None,
        carry: Sequence[str] = (),
        node_limit: int | None = None,
        time_limit_s: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """The nearest counterfactual of every row, proved.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns), or pandas, polars or pyarrow table
            Frames are matched by column name.
        target : "opposite", "any_other", a class label, "probability >= p", or Probability
            What the model should say.
        cost : {"l1", "l2", "linf", "l0", "quantile"} or dict
            See `CostModel`; a change of category counts 1. A dict is a mixture: ``{"l1": 1, "l0": 0.1}`` adds 0.1 for
            each changed feature.
        weights : dict by name, or one number per column
            Finite and >= 0; 1 where not given. A one-hot group has one weight.
        scale : {"range", "std", "mad", "iqr"} or None
            Unit of each column's displacement, from the background; without a background there is none, and a
            warning says so.
        immutable : list of column or group names, or dict
            In a dict, True and False come before what the features say; an array of booleans, or the name of a column
            of X that holds them, says it for each row.
        increase_only, decrease_only : lists of column names
        limits : dict, optional
            ``{"age": {"low": ..., "high": ..., "max_change": ..., "max_rise": ..., "max_fall": ...}}``: what a move may
            land on. Each is a number, an array with one number per row, or the name of a column of X; a limit that is
            missing (NaN) does not limit. A row outside its limits may stay where it is.
        carry : list of names
            Columns of X that the model does not know and that ride along unchanged. Columns that hold limits do so
            without being named.
        node_limit : int, optional
            Search nodes that a row may take. A row that meets its limit has the status "feasible" (its cost and a
            certified lower bound are given) or "unknown". A region map needs no limit and ignores none: with one, the
            search is used.
        time_limit_s : float, optional
            As `node_limit`, for the time of the whole call.
        progress : callable, optional
            Called with rows done and rows in all.

        Returns
        -------
        Result

        Raises
        ------
        MapTooLargeError
            With ``method="map"``, if the region map of the model exceeds `max_regions`.
        TableError, OptionError
            If the rows or the options do not fit the model.
        """
        start = time.perf_counter()
        carry = self._carried(carry, limits, immutable)
        table = read_table(X, self.ensemble, "X", carry)
        check_dtypes(self.ensemble, self.domain, table)
        goal = resolve_target(self.ensemble, target)
        cells, own_codes, values = self._codes(table)
        costs = make_cost_model(
            cells,
            self.ensemble.feature_names,
            cost,
            weights,
            self._unit(scale),
            immutable,
            increase_only,
            decrease_only,
            self.features,
        )
        bounds = row_bounds(self.ensemble, self.domain, cells, self.features, limits, immutable, table, values)
        costs = with_special(
            costs, self.ensemble, self.domain, cells, self.features, self._population, values, bounds
        )  # fmt: skip
        check_may_be_missing(cells, table, costs.prices.enter_price)
        own = labels_from_sums(self.ensemble, goal.rule, predict_sums(self.ensemble, table.values))
        wanted, already = goal.wanted(own)
        budget = _budget(node_limit, time_limit_s)
        nullable = _nullable(cells, own_codes) | np.isfinite(costs.prices.enter_price)
        region_map = self._choose_map(goal.rule, cells, nullable, budget) if len(own) else None
        mapped = time.perf_counter()
        if not len(own):
            nearest = Answers.none_yet(own_codes)
        elif region_map is None:
            nearest = self._search(goal, cells, costs, own_codes, values, own, already, budget, progress)
        else:
            nearest = nearest_boxes(
                list(region_map.trees), cells, region_map.layout, costs, own_codes, values, wanted, self.n_threads,
                progress,
            )  # fmt: skip
        searched = time.perf_counter()
        result = self._result(table, goal, own, already, cells, costs, nearest, own_codes, values, X, carry)
        result.plan.update(
            method="search" if region_map is None else "map",
            target=goal.text,
            n_regions=None if region_map is None else region_map.n_regions,
            n_threads=self.n_threads,
            seconds={
                "prepare": mapped - start,
                "search": searched - mapped,
                "verify": time.perf_counter() - searched,
            },
        )
        _log.info("%d rows: %s", len(own), result.plan)
        return result

    def _carried(self, carry: Sequence[str], limits: Any, immutable: Any) -> tuple[str, ...]:
        """Columns that ride along: those named, and those that hold limits."""
        more = named_columns(self.features, limits, immutable)
        return (*carry, *(n for n in more if n not in carry and n not in self.ensemble.feature_names))

    def _choose_map(self, rule: LabelRule, cells: Cells, nullable: np.ndarray, budget: _Budget) -> RegionMap | None:
        """The map to answer from, or None where the search shall."""
        if self.method == "search" or budget != _Budget(None, None):
            return None
        if self.method == "map":
            return self._map_for(rule, cells, nullable, self.max_regions)
        key = (rule.key, cells is self._cells.get(True), nullable.tobytes())
        if key in self._too_large:
            return None
        try:
            return self._map_for(rule, cells, nullable, min(self.max_regions, SMALL_MAP))
        except MapTooLargeError as error:
            _log.info("search instead of a map: %s", error)
            self._too_large.add(key)
            return None

    def _search(
        self, goal: Target, cells: Cells, costs: CostModel, own_codes: np.ndarray, values: np.ndarray,
        own: np.ndarray, already: np.ndarray, budget: _Budget, progress: Callable[[int, int], None] | None,
    ) -> Answers:  # fmt: skip
        if np.isfinite(costs.prices.enter_price).any() or np.isfinite(costs.prices.leave_price).any():
            raise OptionError(
                "features let values go missing or be filled, which the search cannot do yet; use method='map' (and a "
                "larger max_regions), no node_limit and no time_limit_s."
            )
        with self._lock:
            kept = cells is not self._cells.get(False)
            if kept not in self._searchers:
                self._searchers[kept] = make_searcher(self.ensemble, cells)
            searcher = self._searchers[kept]
        negate = np.full(len(own), goal.labels is None)
        label = own if goal.labels is None else np.full(len(own), int(np.flatnonzero(goal.labels)[0]))
        return search(
            searcher, goal.rule, costs, own_codes, values, label, negate, np.flatnonzero(~already), self.n_threads,
            budget.nodes, budget.seconds, progress,
        )  # fmt: skip

    def region_map(self, target: Any = "opposite") -> RegionMap:
        """The region map that answers a target, built if need be."""
        cells = self.cells()
        rule = resolve_target(self.ensemble, target).rule
        return self._map_for(rule, cells, np.zeros(cells.n_features, bool), self.max_regions)

    def load_map(self, path: str | os.PathLike[str]) -> RegionMap:
        """Read a map written by `RegionMap.save`, so that it need not be built again."""
        region_map = load_region_map(path, self.ensemble, self.cells())
        self._maps.append(region_map)
        return region_map

    def _unit(self, scale: str | None) -> np.ndarray:
        if scale is not None and self._scales is None:
            column_scales(np.zeros((0, 0)), scale, 0)  # refuses an unknown name
            if scale == "range":
                warnings.warn(
                    "the engine has no background table, so displacements are not scaled; pass background=, or "
                    "scale=None to say that this is meant.",
                    stacklevel=3,
                )
                return np.ones(self.ensemble.n_features)
            raise OptionError(f"scale={scale!r} needs a background table: build the engine with background=.")
        if scale is None or self._scales is None:
            return np.ones(self.ensemble.n_features)
        column_scales(np.zeros((0, 0)), scale, 0)  # refuses an unknown name
        return self._scales[scale]

    def _codes(self, table: Table) -> tuple[Cells, np.ndarray, np.ndarray]:
        """Codes of the rows; rows with unattainable values need the cells in which those lie as well."""
        for keep_empty in (False, True):
            cells = self.cells(keep_empty)
            codes, values = code_rows(self.ensemble, cells, table.values, self.ensemble.feature_names)
            if not (codes < 0).any():
                break
        return cells, codes, values

    def _map_for(self, rule: LabelRule, cells: Cells, nullable: np.ndarray, max_regions: int) -> RegionMap:
        with self._lock:
            for region_map in self._maps:
                fits = region_map.rule.key == rule.key and region_map.cells is cells
                if fits and not (nullable & ~region_map.layout.nullable).any():
                    return region_map
            region_map = build_region_map(self.ensemble, cells, nullable, rule, max_regions)
            _log.info(
                "region map: %d regions (%d before joining), %s", region_map.n_regions, region_map.n_compressed,
                region_map.seconds,
            )  # fmt: skip
            self._maps.append(region_map)
            return region_map

    def _result(
        self, table: Table, goal: Target, own: np.ndarray, already: np.ndarray, cells: Cells, costs: CostModel,
        nearest: Answers, own_codes: np.ndarray, values: np.ndarray, X: Any, carry: tuple[str, ...],
    ) -> Result:  # fmt: skip
        _check_costs(nearest.cost)
        found = np.isfinite(nearest.cost)
        after, changed = moved_values(table.values, cells, costs.prices, own_codes, nearest.codes)
        counterfactuals = with_values(table, self.ensemble, after, changed)
        verified_by = verify(self.ensemble, self.judge, goal, table, own, counterfactuals, found | already, carry)
        cost = np.where(already, 0.0, costs.report(nearest.cost))
        bound = np.where(already, 0.0, costs.report(nearest.lower_bound))
        ended = np.where(found, OPTIMAL, INFEASIBLE)
        status = np.where(already, ALREADY, np.where(nearest.proved, ended, np.where(found, FEASIBLE, UNKNOWN)))
        return Result(
            counterfactuals=counterfactuals,
            cost=cost,
            lower_bound=bound,
            status=status,
            verified_by=verified_by,
            changed=changed,
            visits=nearest.visits,
            plan={},
            _table=table,
            _after=after,
            _features=tuple(zip(cells.names, cells.columns, strict=True)),
            _references=cells.references,
            _categories=self.ensemble.categories,
            _feature_cost=FeatureCost(cells, costs, own_codes, values, nearest.codes),
        )


def _named_by(ensemble: Ensemble, table: Table) -> Ensemble:
    """The ensemble with the column names of a background frame, where the model has none of its own.

    From then on frames are matched by name: by position, a frame with its columns in another order would be answered
    for the wrong features.
    """
    if ensemble.has_names or table.kind == "numpy":
        return ensemble
    return replace(ensemble, feature_names=table.names, has_names=True)


def _check_costs(cost: np.ndarray) -> None:
    """Prices are capped so that they stay finite; a cost that reaches the cap is no longer the true one."""
    over = np.flatnonzero(np.isfinite(cost) & (cost >= LARGEST_PRICE))
    if len(over):
        raise TableError(
            f"row {over[0]}: the cost of its nearest counterfactual exceeds {LARGEST_PRICE:g} and cannot be "
            "computed in float64. Use a larger scale, smaller weights or another cost, or drop the row."
        )


def _count(option: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise OptionError(f"{option} is {value!r}; give a whole number of at least 1.")
    return int(value)


def _nullable(cells: Cells, codes: np.ndarray) -> np.ndarray:
    """Features in which some row holds "missing"."""
    return (codes == cells.n_codes - 1).any(axis=0)


@dataclass(frozen=True)
class _Budget:
    nodes: int | None
    seconds: float | None


def _budget(node_limit: Any, time_limit_s: Any) -> _Budget:
    nodes = None if node_limit is None else _count("node_limit", node_limit, 1)
    if time_limit_s is None:
        return _Budget(nodes, None)
    real = isinstance(time_limit_s, int | float | np.number) and not isinstance(time_limit_s, bool)
    if not real or not float(time_limit_s) > 0.0:
        raise OptionError(f"time_limit_s is {time_limit_s!r}; give a number of seconds above 0.")
    return _Budget(nodes, float(time_limit_s))
