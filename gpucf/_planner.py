"""The planner: which exact method answers, and the maps and search tables that were built on the way.

Both methods give the same points, bit for bit. "auto" starts from the search, which needs no preparation. Where so many
rows are asked that a region map might pay, it tries to build one within a small budget of regions and time, measures
both methods on a sample of the rows, and keeps to the faster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpucf._answers import Answers
from gpucf._cells import Cells, make_cells
from gpucf._costs import CostModel
from gpucf._cuda_device import Device
from gpucf._cuda_map import nearest_boxes_on_device
from gpucf._cuda_search import runner_on
from gpucf._domain import Domain
from gpucf._ensemble import Ensemble
from gpucf._errors import MapTooLargeError
from gpucf._labels import LabelRule
from gpucf._query import nearest_boxes
from gpucf._regionmap import RegionMap, build_region_map
from gpucf._search import Searcher, make_searcher, search
from gpucf._targets import Target, search_rule

_log = logging.getLogger("gpucf")

METHODS = ("auto", "map", "search")
SMALL_MAP = 30_000  # regions up to which "auto" builds a map
SAMPLE = 64  # rows on which the methods are measured
SAMPLE_NODES = 2_000  # nodes that a row of the sample may take
WORTH_A_MAP_S = 0.5  # search time from which on a map is tried
LONGEST_BUILD_S = 5.0
FEW_ROWS = 10_000  # up to which a small map that is there is taken unmeasured: measuring may have to compile the search


@dataclass(frozen=True, eq=False)
class Question:
    """Rows that are asked for one target.

    Attributes
    ----------
    target : Target
    cells : Cells
    costs : CostModel
    codes, values :
        Of all rows of the table, from `code_rows`.
    own : int64 array of shape (n_rows,)
        Each row's label under the target's rule.
    open_rows : int64 array
        Rows to answer.
    """

    target: Target
    cells: Cells
    costs: CostModel
    codes: np.ndarray
    values: np.ndarray
    own: np.ndarray
    open_rows: np.ndarray

    @property
    def nullable(self) -> np.ndarray:
        """Features in which some row is missing, or may become so."""
        return (self.codes == self.cells.n_codes - 1).any(axis=0) | np.isfinite(self.costs.prices.enter_price)

    def wanted(self, rows: np.ndarray) -> np.ndarray:
        """Labels that each row may go to; none for all but `rows`."""
        wanted, _ = self.target.wanted(self.own)
        taken = np.zeros(len(self.own), bool)
        taken[rows] = True
        return wanted & taken[:, None]


@dataclass(frozen=True)
class Limits:
    """Nodes that a row may take, and the time for all rows."""

    nodes: int | None
    seconds: float | None

    @property
    def given(self) -> bool:
        return self.nodes is not None or self.seconds is not None

    def after(self, start: float) -> Limits:
        """With what is left of the time, for work that began at `start` (`time.perf_counter`)."""
        if self.seconds is None:
            return self
        return Limits(self.nodes, max(self.seconds - (time.perf_counter() - start), 1e-3))


@dataclass
class _Experience:
    """What is known of one rule on one space."""

    searched_s: float = 0.0
    by_search: float = 0.0  # seconds a row on a sample; 0: not measured yet
    no_map: str = ""  # why there is none
    choice: str = ""
    why: str = ""


@dataclass
class Planner:
    """Answers questions about one ensemble over one domain."""

    ensemble: Ensemble
    domain: Domain
    method: str
    n_threads: int
    max_regions: int
    device: Device | None = None
    maps: list[RegionMap] = field(default_factory=list)
    _cells: dict[bool, Cells] = field(default_factory=dict)
    _searchers: dict[bool, Searcher] = field(default_factory=dict)
    _known: dict[tuple[Any, ...], _Experience] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def cells(self, keep_empty: bool = False) -> Cells:
        """What the ensemble can tell apart."""
        with self._lock:
            if keep_empty not in self._cells:
                self._cells[keep_empty] = make_cells(self.ensemble, self.domain, keep_empty)
            return self._cells[keep_empty]

    def answer(
        self, question: Question, limits: Limits, progress: Callable[[int, int], None] | None
    ) -> tuple[Answers, dict[str, Any]]:
        """The best point of every open row, and how it was found: "method", "why", "n_regions"."""
        if not len(question.open_rows):
            return Answers.none_yet(question.codes), {"method": "none", "why": "no row to answer", "n_regions": None}
        region_map, why = self._choose(question, limits)
        started = time.perf_counter()
        if region_map is None:
            out = self._search(question, question.open_rows, limits, progress)
            if self.method == "auto" and not limits.given:
                self._experience(question).searched_s += time.perf_counter() - started
            return out, {"method": "search", "why": why, "n_regions": None}
        out = self._ask_map(region_map, question, question.open_rows, progress)
        return out, {"method": "map", "why": why, "n_regions": region_map.n_regions}

    def map_for(
        self, rule: LabelRule, cells: Cells, nullable: np.ndarray, max_regions: int,
        keep_going: Callable[[int, float], bool] = lambda n_regions, share: True,
    ) -> RegionMap:  # fmt: skip
        """The region map of a rule, built if need be."""
        with self._lock:
            if (ready := self._ready_map(rule, cells, nullable)) is not None:
                return ready
            region_map = build_region_map(self.ensemble, cells, nullable, rule, max_regions, keep_going)
            _log.info(
                "region map: %d regions (%d before joining), %s", region_map.n_regions, region_map.n_compressed,
                region_map.seconds,
            )  # fmt: skip
            self.maps.append(region_map)
            return region_map

    def _ready_map(self, rule: LabelRule, cells: Cells, nullable: np.ndarray) -> RegionMap | None:
        for region_map in self.maps:
            fits = region_map.rule.key == rule.key and region_map.cells is cells
            if fits and not (nullable & ~region_map.layout.nullable).any():
                return region_map
        return None

    def _choose(self, question: Question, limits: Limits) -> tuple[RegionMap | None, str]:
        """The map to answer from, or None where the search shall; and why."""
        if self.method == "search":
            return None, "method='search'"
        if limits.given:
            return None, "only the search keeps to limits"
        rule, nullable = question.target.rule, question.nullable
        if self.method == "map":
            return self.map_for(rule, question.cells, nullable, self.max_regions), "method='map'"
        known = self._experience(question)
        if not known.choice and not known.no_map:
            ready = self._ready_map(rule, question.cells, nullable)
            if ready is not None and ready.n_regions <= SMALL_MAP and len(question.open_rows) <= FEW_ROWS:
                return ready, f"a map of {ready.n_regions:,} regions is there"
            self._measure(question, known)
        if known.choice == "map":
            return self.map_for(rule, question.cells, nullable, self.max_regions), known.why
        return None, known.no_map or known.why

    def _measure(self, question: Question, known: _Experience) -> None:
        """Try a map where it might pay, and compare; leaves `known` open where the search is quick enough anyway."""
        rows = question.open_rows[:: max(1, len(question.open_rows) // SAMPLE)][:SAMPLE]
        limits = Limits(SAMPLE_NODES, None)
        if not known.by_search:
            known.by_search = _seconds_per_row(rows, lambda some: self._search(question, some, limits, None))
            known.why = f"the search takes about {known.by_search * 1e6:.0f} us a row on {len(rows)} rows"
        expected = known.searched_s + known.by_search * len(question.open_rows)
        if expected < WORTH_A_MAP_S:
            return
        deadline = time.perf_counter() + min(LONGEST_BUILD_S, expected)

        def keep_going(n_regions: int, share: float) -> bool:
            return time.perf_counter() < deadline

        try:
            region_map = self.map_for(
                question.target.rule, question.cells, question.nullable, min(self.max_regions, SMALL_MAP), keep_going
            )
        except MapTooLargeError as error:
            known.no_map = f"{known.why}; no small map: {error.n_regions:,} regions after {error.share_done:.1%}"
            _log.info("search: %s", known.no_map)
            return
        by_map = _seconds_per_row(rows, lambda some: self._ask_map(region_map, question, some, None))
        known.choice = "map" if by_map < known.by_search else "search"
        known.why += f", the map of {region_map.n_regions:,} regions about {by_map * 1e6:.0f} us"
        _log.info("%s: %s", known.choice, known.why)

    def _experience(self, question: Question) -> _Experience:
        target = question.target
        labels = None if target.labels is None else target.labels.tobytes()
        key = (target.rule.key, labels, question.cells is self._cells.get(True), question.nullable.tobytes())
        return self._known.setdefault(key, _Experience())

    def _ask_map(
        self, region_map: RegionMap, question: Question, rows: np.ndarray,
        progress: Callable[[int, int], None] | None,
    ) -> Answers:  # fmt: skip
        asked = (
            list(region_map.trees), question.cells, region_map.layout, question.costs, question.codes, question.values,
            question.wanted(rows),
        )  # fmt: skip
        if self.device is not None:
            return nearest_boxes_on_device(self.device, *asked)
        return nearest_boxes(*asked, self.n_threads, progress)

    def searcher(self, cells: Cells) -> Searcher:
        """Search tables over cells of this planner, made when first needed."""
        with self._lock:
            kept = cells is not self._cells.get(False)
            if kept not in self._searchers:
                self._searchers[kept] = make_searcher(self.ensemble, cells)
            return self._searchers[kept]

    def _search(
        self, question: Question, rows: np.ndarray, limits: Limits, progress: Callable[[int, int], None] | None
    ) -> Answers:
        searcher = self.searcher(question.cells)
        rule, label = search_rule(self.ensemble, question.target)
        n = len(question.own)
        return search(
            searcher, rule, question.costs, question.codes, question.values,
            question.own if label is None else np.full(n, label), np.full(n, label is None), rows, self.n_threads,
            limits.nodes, limits.seconds, progress, None if self.device is None else runner_on(self.device),
        )  # fmt: skip


def _seconds_per_row(rows: np.ndarray, action: Callable[[np.ndarray], Any]) -> float:
    """Time of an action on some rows, without what it takes on none; compiling is kept out."""
    action(rows[:1])
    times = []
    for some in (rows[:0], rows):
        started = time.perf_counter()
        action(some)
        times.append(time.perf_counter() - started)
    return max(times[1] - times[0], 1e-9) / len(rows)
