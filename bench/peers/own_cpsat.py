"""Own CP-SAT model, not a product: one literal per leaf, one per cut, costs and scores in whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import ortools
from job import Job
from ortools.sat.python import cp_model
from trees import Trees, point, prices, read_trees

SCORE = 2.0**36  # 500 leaves of rounding error stay below 4e-9
COST = 1e9


def version() -> str:
    return f"OR-Tools {ortools.__version__}"


def prepare(job: Job) -> Callable[[np.ndarray, int], dict[str, Any]]:
    trees = read_trees(job)
    return lambda row, wanted: _Query(trees, row, wanted).solve(job)


class _Query:
    """The model of one row. Building it is a part of its time, a small one."""

    def __init__(self, trees: Trees, row: np.ndarray, wanted: int) -> None:
        self.trees, self.row = trees, row
        self.model = cp_model.CpModel()
        self.literal: dict[Any, Any] = {}
        score = self._leaves()
        self._order()
        least = int(np.ceil((trees.least - trees.base) * SCORE)) + (trees.least == 0.0)
        self.model.add(score >= least if wanted else score <= least - 1)
        self.model.minimize(self._cost())

    def _leaves(self) -> Any:
        """Literals and the score: the leaf that is reached takes all sides of its path."""
        model, terms, weights = self.model, [], []
        for leaves, splits in zip(self.trees.leaves, self.trees.splits, strict=True):
            reached = [model.new_bool_var("") for _ in leaves]
            model.add_exactly_one(reached)
            for key, below, above in splits:
                at = self._at(key)
                model.add_at_most_one([reached[i] for i in below] + [at])
                model.add_at_most_one([reached[i] for i in above] + [~at])
            terms += reached
            weights += [round(value * SCORE) for value, _ in leaves]
        return cp_model.LinearExpr.weighted_sum(terms, weights)

    def _at(self, key: Any) -> Any:
        if key not in self.literal:
            self.literal[key] = self.model.new_bool_var("")
        return self.literal[key]

    def _order(self) -> None:
        for j, cuts in enumerate(self.trees.cuts):
            for k, above in pairwise(range(len(cuts))):
                self.model.add_implication(self._at(("cut", j, above)), self._at(("cut", j, k)))
        for group in self.trees.groups:
            self.model.add_exactly_one([self._at(("hot", j)) for j in group])

    def _cost(self) -> Any:
        """Sum over cuts of what passing that one adds, and 1 for another category."""
        total: Any = 0
        for j, cuts in enumerate(self.trees.cuts):
            paid = np.rint(prices(cuts, float(self.row[j])) * COST).astype(np.int64)
            total += int(paid[0])
            total += sum(self._at(("cut", j, k)) * int(paid[k + 1] - paid[k]) for k in range(len(cuts)))
        for group in self.trees.groups:
            total += sum(~self._at(("hot", j)) * int(COST) for j in group if self.row[j] == 1)
        return total

    def solve(self, job: Job) -> dict[str, Any]:
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = job.row_limit_s
        solver.parameters.num_workers = job.workers
        solver.parameters.random_seed = 0
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return {"status": "infeasible" if status == cp_model.INFEASIBLE else "unknown"}
        above = {key for key, at in self.literal.items() if solver.boolean_value(at)}
        cell = {j: sum(("cut", j, k) in above for k in range(len(c))) for j, c in enumerate(self.trees.cuts)}
        hot = {key[1] for key in above if key[0] == "hot"}
        x, cost = point(self.trees, self.row, cell, hot)
        return {"status": "optimal" if status == cp_model.OPTIMAL else "feasible", "cost": cost, "x": x}
