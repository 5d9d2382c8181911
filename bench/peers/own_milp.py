"""Own mixed-integer program, not a product, solved by HiGHS: a binary per cut, a weight per leaf."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from job import Job
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from trees import Trees, point, prices, read_trees


def version() -> str:
    return f"HiGHS of SciPy {scipy.__version__}"


def prepare(job: Job) -> Callable[[np.ndarray, int], dict[str, Any]]:
    program = _Program(read_trees(job))
    return lambda row, wanted: program.solve(row, wanted, job.row_limit_s)


class _Program:
    """Variables: cuts and one-hot columns (binary), then leaves (they follow). Rows do not depend on the query."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        keys = [("cut", j, k) for j, cuts in enumerate(trees.cuts) for k in range(len(cuts))]
        keys += [("hot", j) for group in trees.groups for j in group]
        self.at = {key: i for i, key in enumerate(keys)}
        self.n = len(keys)
        self.rows: list[tuple[dict[int, float], float, float]] = []
        for j, cuts in enumerate(trees.cuts):
            for k, above in pairwise(range(len(cuts))):
                self.rows.append(({self.at["cut", j, k]: 1.0, self.at["cut", j, above]: -1.0}, 0.0, np.inf))
        for group in trees.groups:
            self.rows.append(({self.at["hot", j]: 1.0 for j in group}, 1.0, 1.0))
        score: dict[int, float] = {}
        for leaves, splits in zip(trees.leaves, trees.splits, strict=True):
            first = self.n
            self.n += len(leaves)
            score |= {first + i: value for i, (value, _) in enumerate(leaves)}
            self.rows.append(({first + i: 1.0 for i in range(len(leaves))}, 1.0, 1.0))
            for key, below, above in splits:
                self.rows.append(({**{first + i: 1.0 for i in below}, self.at[key]: 1.0}, -np.inf, 1.0))
                self.rows.append(({**{first + i: 1.0 for i in above}, self.at[key]: -1.0}, -np.inf, 0.0))
        self.rows.append((score, -np.inf, np.inf))
        entries = [(i, k, v) for i, (row, _, _) in enumerate(self.rows) for k, v in row.items()]
        i, k, v = (np.array(e) for e in zip(*entries, strict=True))
        self.matrix = coo_array((v, (i, k)), shape=(len(self.rows), self.n)).tocsr()

    def solve(self, row: np.ndarray, wanted: int, limit_s: float) -> dict[str, Any]:
        trees, price = self.trees, np.zeros(self.n)
        for j, cuts in enumerate(trees.cuts):
            paid = prices(cuts, float(row[j]))
            for k in range(len(cuts)):
                price[self.at["cut", j, k]] = paid[k + 1] - paid[k]
        for group in trees.groups:
            for j in group:
                price[self.at["hot", j]] = 0.5 - row[j]
        low, high = np.array([r[1] for r in self.rows]), np.array([r[2] for r in self.rows])
        least = trees.least - trees.base
        # HiGHS takes a row as met within 1e-7: a forest's ties must lie on the right side of that.
        slack = 1e-6 if trees.least == 0.0 else 0.0
        low[-1], high[-1] = (least + slack, np.inf) if wanted else (-np.inf, least)
        binary = np.arange(self.n) < len(self.at)
        found = milp(
            price, integrality=binary, bounds=Bounds(0, 1), constraints=LinearConstraint(self.matrix, low, high),
            options={"mip_rel_gap": 0.0, "time_limit": limit_s},
        )  # fmt: skip
        if found.x is None:
            return {"status": "infeasible" if found.status == 2 else "unknown"}
        above = {key for key, i in self.at.items() if found.x[i] > 0.5}
        cell = {j: sum(("cut", j, k) in above for k in range(len(c))) for j, c in enumerate(trees.cuts)}
        x, cost = point(trees, row, cell, {key[1] for key in above if key[0] == "hot"})
        return {"status": "optimal" if found.status == 0 else "feasible", "cost": cost, "x": x}
