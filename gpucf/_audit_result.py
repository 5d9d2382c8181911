"""What an audit found: groups, gaps, tests, subgroups, sensitivity."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._audit_flips import Sensitivity
from gpucf._audit_subgroups import Subgroup

if TYPE_CHECKING:
    from gpucf._audit_gate import Verdict

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Estimate:
    """A number, between what bounds it lies while rows are open, and how far chance may move it.

    Attributes
    ----------
    low, high : float
        Equal where no row is open. NaN where the number has no meaning, inf where it has no bound.
    interval : pair of float
        Bootstrap interval; NaN where it was not computed.
    """

    low: float
    high: float
    interval: tuple[float, float] = (float("nan"), float("nan"))


@dataclass(frozen=True)
class FeatureShare:
    """How one feature takes part in the answers of a group.

    Attributes
    ----------
    name : str
    changed : pair of float
        Share of those with recourse whose nearest answer changes it.
    cost : float
        Its share of the cost of all proved answers.
    """

    name: str
    changed: tuple[float, float]
    cost: float


@dataclass(frozen=True, eq=False)
class GroupReport:
    """One group: its counts, and, where it is large enough, its recourse.

    Attributes
    ----------
    name : str
    values : tuple of str
    n, n_refused, n_optimal, n_feasible, n_unknown, n_infeasible : int
    sufficient : bool
        Whether enough of its rows are refused; if not, the rest is empty.
    measures : dict of Estimate
        "refused" (share of all rows of the group; its own condition: enough rows), "no_recourse", "burden", "median",
        "changes", "within:B", "options".
    quantiles : dict
        Share to a pair: the least cost at which that share of the refused reach the target.
    curve : pair of float64 arrays
        Share of the refused that reach the target for at most `Audit.curve_costs`, lower and upper.
    change_counts : dict
        Number of changed features to count of proved answers.
    features : list of FeatureShare
    against_rest : dict of Estimate
        Difference to all other refused rows, for measures that are means or shares.
    """

    name: str
    values: tuple[str, ...]
    n: int
    n_refused: int
    n_optimal: int
    n_feasible: int
    n_unknown: int
    n_infeasible: int
    sufficient: bool
    measures: dict[str, Estimate] = field(default_factory=dict)
    quantiles: dict[float, tuple[float, float]] = field(default_factory=dict)
    curve: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    change_counts: dict[int, int] = field(default_factory=dict)
    features: list[FeatureShare] = field(default_factory=list)
    against_rest: dict[str, Estimate] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Why a group has no numbers."""
        if self.sufficient:
            return ""
        return "nobody refused" if not self.n_refused else f"insufficient: {self.n_refused} refused"


@dataclass(frozen=True)
class Gap:
    """The largest difference and ratio between the groups of a partition, and whether chance explains them.

    Attributes
    ----------
    measure : str
    gap, ratio : Estimate
    p : pair of float
        Permutation test of the gap; two numbers where open rows leave it open.
    p_holm : float
        The larger of them, adjusted for all gaps that the audit tests.
    """

    measure: str
    gap: Estimate
    ratio: Estimate
    p: tuple[float, float]
    p_holm: float = float("nan")


@dataclass(frozen=True, eq=False)
class PartitionReport:
    """All groups that some attributes make.

    Attributes
    ----------
    attributes : tuple of str
    groups : list of GroupReport
    gaps : dict of Gap
        By measure; empty where fewer than two groups are sufficient.
    cost_test : tuple (statistic, p)
        Do the costs of the groups differ at all: Kruskal and Wallis' statistic on Gehan's scores, by permutation.
    curve_gap : Estimate
        The largest difference between two groups' curves at any cost.
    """

    attributes: tuple[str, ...]
    groups: list[GroupReport]
    gaps: dict[str, Gap]
    cost_test: tuple[float, float]
    curve_gap: Estimate

    @property
    def name(self) -> str:
        return " x ".join(self.attributes)


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What `gpucf.audit` found; ``str`` gives one screen of text.

    Attributes
    ----------
    settings : dict
        All that decides the numbers.
    n, n_refused : int
    counts : dict
        Refused rows by status.
    partitions : list of PartitionReport
        Each attribute, then the intersections.
    subgroups : list of Subgroup
        Those with support, worst first.
    sensitivity : list of Sensitivity
    curve_costs : float64 array
    rows : dict of arrays
        One entry for each row of the table: the attributes, status, cost, lower bound, number of changed features.
    seconds : dict
        Time by stage.
    about : dict
        Versions, digests, who checked the answers.
    """

    settings: dict[str, Any]
    n: int
    n_refused: int
    counts: dict[str, int]
    partitions: list[PartitionReport]
    subgroups: list[Subgroup]
    sensitivity: list[Sensitivity]
    curve_costs: np.ndarray
    rows: dict[str, np.ndarray]
    seconds: dict[str, float]
    about: dict[str, Any]

    def __repr__(self) -> str:
        names = ", ".join(self.settings["attributes"])
        return f"<gpucf.Audit: {self.n:,} rows, {self.n_refused:,} refused, by {names}>"

    def __str__(self) -> str:
        from gpucf._audit_text import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from gpucf._audit_text import notebook

        return notebook(self)

    def partition(self, *attributes: str) -> PartitionReport:
        """The partition by these attributes."""
        for part in self.partitions:
            if set(part.attributes) == set(attributes):
                return part
        from gpucf._errors import OptionError

        raise OptionError(
            f"the audit has no partition by {', '.join(attributes)}; "
            f"it has {', '.join(p.name for p in self.partitions)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, in what JSON can hold (infinite and undefined numbers as text)."""
        from gpucf._audit_text import as_json

        return as_json(self)

    def check(self, thresholds: Any) -> list[Verdict]:
        """Put thresholds to the numbers; see the documentation of ``audit.yaml``.

        Parameters
        ----------
        thresholds : list of dict
            ``{"measure": "burden", "by": "sex", "max_gap": 0.05}`` and the like.

        Returns
        -------
        list of Verdict
            Each "held", "violated" or "undecided".
        """
        from gpucf._audit_gate import check

        return check(self, thresholds)

    def write(self, folder: str | os.PathLike[str], thresholds: Any = (), about: Any = None) -> list[Verdict]:
        """Write ``index.html``, ``audit.json``, ``junit.xml``, ``summary.txt``, ``rows.csv`` and ``flips.csv``.

        Parameters
        ----------
        folder : path
            Made where it does not exist.
        thresholds : list of dict
            As for `check`.
        about : dict, optional
            What else the report shall say of where the numbers come from.

        Returns
        -------
        list of Verdict
        """
        from gpucf._report import write_report

        return write_report(self, folder, thresholds, about)
