"""The engine: a model read once, ready to answer tables of rows."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._agree import agreements
from gpucf._answers import Answers
from gpucf._cells import Cells, code_rows
from gpucf._change_rules import make_change_rules
from gpucf._costs import CostModel, make_cost_model
from gpucf._declare import check_dtypes, check_may_be_missing, make_domain
from gpucf._ensemble import Ensemble, Member
from gpucf._errors import ModelError, OptionError, TableError
from gpucf._face_growth import grow_boxes
from gpucf._features import Features
from gpucf._given import read_count, read_limits, read_margin
from gpucf._groups import Group, part_of, wishes_by_row
from gpucf._judge import Judge
from gpucf._labels import labels_from_sums
from gpucf._limits import named_columns, row_bounds
from gpucf._loaders import load_model, open_judge
from gpucf._measures import Population, column_scales
from gpucf._merge import merge
from gpucf._moves import FeatureCost, moved_values
from gpucf._options import Answering, only_these
from gpucf._parts import Space
from gpucf._planner import METHODS, Limits, Planner, Question
from gpucf._predict import predict_sums
from gpucf._prices import LARGEST_PRICE
from gpucf._region import Regions, moving_limits
from gpucf._regionmap import RegionMap, load_region_map
from gpucf._result import ALREADY, FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Result
from gpucf._rule_text import has_moves, read_rule
from gpucf._rules import checked_rules, make_rules, names_of
from gpucf._special import with_special
from gpucf._table import Table, read_table, with_values
from gpucf._targets import class_target, own_label_targets, resolve_target
from gpucf._verify import verify

_log = logging.getLogger("gpucf")


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
    agree : list of models or of pairs (model, target), optional
        Further models, on columns of the first one, that must agree on every answer: give the class that was asked
        for, or meet a target of their own.
    plausible : IsolationForest or pair (IsolationForest, float), optional
        Answers have a `decision_function` of at least this number (0 where not given: what scikit-learn calls an
        inlier).
    min_support : int, optional
        Every tree's leaf at an answer holds at least so many background rows.
    rules : list of str, optional
        What must hold between the columns of every answer: comparisons, with ``and``, ``or``, ``not``, such as
        ``"a <= b"``, ``"2*a + b <= 10"``, ``"if a = 1 then b in {2, 3}"``, ``"if job != none then hours >= 1"``; names
        that are no single word stand in backticks. Columns that are computed with, or compared with each other, need a
        grid. A row that breaks a rule as it came in is moved until it holds; a missing value breaks none. Rules may
        also say what has to move, or must not, if something else does: ``"if degree changes then age rises"``, ``"if
        income falls then not debt rises"``; what has to move needs a grid.
    iterations, trust_pickle :
        See `load_model`.
    n_threads : int, optional
        Threads for queries; all cores if not given. Answers do not depend on it.
    method : {"auto", "map", "search"}
        "map" answers from a region map of the whole model, "search" searches the trees for each row; both give the
        same points, bit for bit. "auto" measures both where a small map might pay; ``result.plan`` says what was chosen
        and why.
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
        agree: Sequence[Any] | None = None,
        plausible: Any = None,
        min_support: int | None = None,
        rules: Sequence[str] | None = None,
        iterations: int | str | None = None,
        trust_pickle: bool = False,
        n_threads: int | None = None,
        method: str = "auto",
        max_regions: int = 2_000_000,
    ) -> None:
        if method not in METHODS:
            raise OptionError(f"method is {method!r}; give one of {', '.join(map(repr, METHODS))}.")
        ensemble = load_model(model, iterations=iterations, trust_pickle=trust_pickle, background=background)
        self._as_read = ensemble
        self._model = model
        self._trust_pickle = trust_pickle
        self.judge = open_judge(model, ensemble, trust_pickle)
        table = None if background is None else read_table(background, ensemble, "background")
        self.ensemble = ensemble if table is None else _named_by(ensemble, table)
        # The space of all that the user's model, and those that must agree, can tell apart.
        self._agreed = agreements(self.ensemble, table, agree, plausible, min_support, trust_pickle)
        self._space = self._merged()
        self.features = Features.of(features)
        self.domain = make_domain(self._space, table, self.features, one_hot)
        if rules is not None or self.features.rules:
            self._add_rules((*self.features.rules, *([] if rules is None else checked_rules(rules))))
        self._population = None if table is None else Population(table.values)
        self._scales = None if table is None else {
            name: column_scales(table.values, name, self.ensemble.n_features) for name in ("range", "std", "mad", "iqr")
        }  # fmt: skip
        self._planner = Planner(
            self._space, self.domain, method, read_count("n_threads", n_threads, os.cpu_count() or 1),
            read_count("max_regions", max_regions, 1),
        )  # fmt: skip
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

    @property
    def method(self) -> str:
        """How rows are answered; may be set."""
        return self._planner.method

    @method.setter
    def method(self, method: str) -> None:
        if method not in METHODS:
            raise OptionError(f"method is {method!r}; give one of {', '.join(map(repr, METHODS))}.")
        self._planner.method = method

    @property
    def n_threads(self) -> int:
        return self._planner.n_threads

    @property
    def max_regions(self) -> int:
        return self._planner.max_regions

    def cells(self, keep_empty: bool = False) -> Cells:
        """What the model, and those that must agree, can tell apart (see `Cells`)."""
        return self._planner.cells(keep_empty)

    def _merged(self) -> Ensemble:
        return merge([Member(self.ensemble, np.arange(self.ensemble.n_features)), *self._agreed.members])

    def _add_rules(self, texts: Sequence[str]) -> None:
        names, dtype = names_of(self.ensemble, self.domain), self._space.attainable_dtype
        read = [(text, read_rule(text, names)) for text in texts]
        static = [rule for rule in read if not has_moves(rule[1])]
        moving = [rule for rule in read if has_moves(rule[1])]
        if static:
            self._agreed = self._agreed.with_rules(make_rules(static, names, self.domain, dtype), self.ensemble)
        if moving:
            changes = make_change_rules(moving, names, self.domain, dtype)
            self._agreed = self._agreed.with_changes(changes, self.ensemble)
        self._space = self._merged()

    def _judges(self) -> list[Judge | None]:
        return [self.judge, *self._agreed.judges]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the judge, which holds the library's own functions."""
        return {k: v for k, v in self.__dict__.items() if k != "judge"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
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
        margin: float = 0.0,
        immutable: Sequence[str] | Mapping[str, Any] = (),
        increase_only: Sequence[str] = (),
        decrease_only: Sequence[str] = (),
        limits: Mapping[str, Mapping[str, Any]] | None = None,
        only: Sequence[str] | None = None,
        carry: Sequence[str] = (),
        options: int = 1,
        region: bool = False,
        node_limit: int | None = None,
        time_limit_s: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """The nearest counterfactual of every row, proved.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns), or pandas, polars or pyarrow table
            Frames are matched by column name.
        target : target, or array or column with one target for each row
            What the model should say: "opposite" (two classes), "any_other", a class label, text such as
            ``"probability > 0.7"`` or ``"score >= 2 and score < 3"``, `Probability`, `Score`, `AnyOf`, `AllOf`; a list
            means any of its members.
        cost : {"l1", "l2", "linf", "l0", "quantile"} or dict
            See `CostModel`; a change of category counts 1. A dict is a mixture: ``{"l1": 1, "l0": 0.1}`` adds 0.1 for
            each changed feature.
        weights : dict by name, or one number per column
            Finite and >= 0; 1 where not given. A one-hot group has one weight.
        scale : {"range", "std", "mad", "iqr"} or None
            Unit of each column's displacement, from the background; without a background there is none, and a
            warning says so.
        margin : float
            Safety: how far the score of a class target goes beyond what just suffices, in units of the raw score; where
            each class has a score, beyond that of every other class.
        immutable : list of column or group names, or dict
            In a dict, True and False come before what the features say; an array of booleans, or the name of a column
            of X that holds them, says it for each row.
        increase_only, decrease_only : lists of column names
        limits : dict, optional
            ``{"age": {"low": ..., "high": ..., "max_change": ..., "max_rise": ..., "max_fall": ...}}``: what a move may
            land on. Each is a number, an array with one number per row, or the name of a column of X; a limit that is
            missing (NaN) does not limit. A row outside its limits may stay where it is.
        only : list of column or group names, optional
            The only features that may change. Rows for which these cannot do it are "infeasible": a proof that this
            set of features does not work alone.
        options : int
            Answers for each row, see `Result.options`: each the nearest of those of which the set of changed features
            neither contains that of an earlier one nor is contained in it.
        region : bool
            Also the box around each answer on which everything still holds, see `Result.region`.
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
        check_dtypes(self._space, self.domain, table)
        self._agreed.check_rows(table.values)
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
        bounds = row_bounds(self._space, self.domain, cells, self.features, limits, immutable, table, values)
        costs = with_special(
            costs, self._space, self.domain, cells, self.features, self._population, values, bounds
        )  # fmt: skip
        check_may_be_missing(cells, table, costs.prices.enter_price)
        if only is not None:
            costs = only_these(costs, cells, self.ensemble.feature_names, only)
        n_options = read_count("options", options, 1)
        if region and self._agreed.changes is not None:
            raise OptionError(
                "region=True is not for engines with rules about moves: what may move in a box would depend on what "
                "else does. Drop those rules, or ask for options."
            )
        budget = read_limits(node_limit, time_limit_s)
        groups = self._groups(target, margin, table)
        prepared = time.perf_counter()
        nearest, how = self._answer(groups, cells, costs, own_codes, values, budget, progress)
        space = Space(self._planner, cells, costs, own_codes, values, self._agreed.demands)
        answering = Answering(space, groups, table.values, self._agreed.changes)
        nearest = answering.keeping_rules(nearest, budget.after(start))
        searched = time.perf_counter()
        result = self._result(table, groups, cells, costs, nearest, own_codes, values, carry)
        if n_options > 1:
            further = answering.further(nearest, n_options, budget.after(start))
            ranks = [self._result(table, groups, cells, costs, a, own_codes, values, carry) for a in further]
            result = replace(result, _further=tuple(ranks))
        if region:
            found = np.isfinite(nearest.cost) | (result.status == ALREADY)
            after = code_rows(self._space, cells, result._after, self.ensemble.feature_names)[1]
            boxes = grow_boxes(
                self._planner, groups, cells, costs, own_codes, values, nearest.codes, after, found,
                budget.after(start),
            )  # fmt: skip
            regions = Regions(
                boxes, cells, result._after, table, self.ensemble.categories, *moving_limits(values, costs)
            )
            result = replace(result, _regions=regions)
        result.plan.update(
            how,
            target=", ".join(dict.fromkeys(g.target.text for g in groups)),
            n_threads=self.n_threads,
            seconds={
                "prepare": prepared - start,
                "search": searched - prepared,
                "verify": time.perf_counter() - searched,
            },
        )
        _log.info("%d rows: %s", len(result), result.plan)
        return result

    def _carried(self, carry: Sequence[str], limits: Any, immutable: Any) -> tuple[str, ...]:
        """Columns that ride along: those named, and those that hold limits."""
        more = named_columns(self.features, limits, immutable)
        return (*carry, *(n for n in more if n not in carry and n not in self.ensemble.feature_names))

    def _groups(self, target: Any, margin: Any, table: Table) -> list[Group]:
        """Rows by what is wanted of them."""
        sums = predict_sums(self._space, table.values)
        margin = read_margin(margin)
        groups = []
        for wish, rows in wishes_by_row(target, len(table.values)):
            if own_label_targets(self.ensemble, wish) and (self._agreed or margin):
                # What else must hold does not depend on the row, but "another class" does: one target per class.
                rule = resolve_target(self.ensemble, wish).rule
                classes = labels_from_sums(self.ensemble, rule, sums[rows, : self.ensemble.n_outputs])
                for k in np.unique(classes):
                    others = np.arange(rule.n_labels) != k
                    goal = class_target(self.ensemble, self._space, others, self._agreed.conditions, str(wish), margin)
                    groups.append(Group.of(self._space, goal, rows[classes == k], sums))
            else:
                goal = resolve_target(self.ensemble, wish, self._space, self._agreed.conditions, margin)
                groups.append(Group.of(self._space, goal, rows, sums))
        return groups

    def _answer(
        self, groups: list[Group], cells: Cells, costs: CostModel, own_codes: np.ndarray, values: np.ndarray,
        budget: Limits, progress: Callable[[int, int], None] | None,
    ) -> tuple[Answers, dict[str, Any]]:  # fmt: skip
        """Ask the planner group by group."""
        out, n = Answers.none_yet(own_codes), len(own_codes)
        plans: list[dict[str, Any]] = []
        start, done = time.perf_counter(), 0
        for group in groups:
            open_rows = group.rows[~group.already]
            question = Question(group.target, cells, costs, own_codes, values, group.labels(n), open_rows)
            share = None if progress is None else part_of(progress, done, len(group.rows), n)
            answers, how = self._planner.answer(question, budget.after(start), share)
            out.take(answers, question.open_rows)
            plans.append(how)
            done += len(group.rows)
        if len(plans) == 1:
            return out, plans[0]
        methods = dict.fromkeys(p["method"] for p in plans if p["method"] != "none")
        why = "; ".join(dict.fromkeys(p["why"] for p in plans))
        return out, {"method": "+".join(methods) or "none", "why": why, "n_regions": None}

    def region_map(self, target: Any = "opposite") -> RegionMap:
        """The region map that answers a target, built if need be."""
        if self._agreed and own_label_targets(self.ensemble, target):
            raise OptionError(
                f"target {target!r} has a region map for each class where further models or rules must agree; give a "
                "class as target."
            )
        cells = self.cells()
        rule = resolve_target(self.ensemble, target, self._space, self._agreed.conditions).rule
        return self._planner.map_for(rule, cells, np.zeros(cells.n_features, bool), self.max_regions)

    def load_map(self, path: str | os.PathLike[str]) -> RegionMap:
        """Read a map written by `RegionMap.save`, so that it need not be built again."""
        region_map = load_region_map(path, self._space, self.cells())
        self._planner.maps.append(region_map)
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
            codes, values = code_rows(self._space, cells, table.values, self.ensemble.feature_names)
            if not (codes < 0).any():
                break
        return cells, codes, values

    def _result(
        self, table: Table, groups: list[Group], cells: Cells, costs: CostModel, nearest: Answers,
        own_codes: np.ndarray, values: np.ndarray, carry: tuple[str, ...],
    ) -> Result:  # fmt: skip
        _check_costs(nearest.cost)
        found = np.isfinite(nearest.cost)
        already = np.zeros(len(found), bool)
        for group in groups:
            already[group.rows] = group.already
        after, changed = moved_values(table.values, cells, costs.prices, own_codes, nearest.codes)
        counterfactuals = with_values(table, self.ensemble, after, changed)
        verified_by = verify(
            self._space, self._judges(), groups, table, counterfactuals, found | already, carry, self._agreed.changes
        )
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
