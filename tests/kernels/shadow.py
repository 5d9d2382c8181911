"""Every question that a test asks, asked of the kernels as well: their answers must have the bits of the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from engine_checks import same_bits

from gpucf import _search
from gpucf._answers import Answers
from gpucf._cuda_device import Backend, Device
from gpucf._cuda_map import nearest_boxes_on_device
from gpucf._cuda_search import runner_on
from gpucf._planner import Planner
from gpucf._targets import search_rule


@contextmanager
def shadowed(
    backend: Backend, naive: bool = False, kernels: tuple[tuple[str, int], ...] = (("search", 32),)
) -> Iterator[dict[str, int]]:
    """While this is open, each answer of a map or a search is compared with the kernels'; counts rows by kind."""
    seen = {"map": 0, "search": 0, "nodes": 0}
    by_map, by_search = Planner._ask_map, Planner._search

    def ask_map(self: Planner, region_map: Any, question: Any, rows: np.ndarray, progress: Any) -> Answers:
        expected = by_map(self, region_map, question, rows, progress)
        asked = (
            region_map.trees, question.cells, region_map.layout, question.costs, question.codes, question.values,
            question.wanted(rows),
        )  # fmt: skip
        device = Device(backend)
        found = nearest_boxes_on_device(device, *asked)
        check_answers(found, expected, rows)
        assert np.array_equal(found.visits, expected.visits)  # the kernel takes the very same way
        if naive:
            check_answers(nearest_boxes_on_device(device, *asked, kernel="map_rows_naive"), expected, rows)
        seen["map"] += len(rows)
        return found

    def search(self: Planner, question: Any, rows: np.ndarray, limits: Any, progress: Any) -> Answers:
        expected = by_search(self, question, rows, limits, progress)
        searcher = self.searcher(question.cells)
        rule, label = search_rule(self.ensemble, question.target)
        n = len(question.own)
        for kernel, lanes in kernels:
            found = _search.search(
                searcher, rule, question.costs, question.codes, question.values,
                question.own if label is None else np.full(n, label), np.full(n, label is None), rows, 1,
                limits.nodes, None, None, runner_on(Device(backend), kernel, lanes),
            )  # fmt: skip
            if limits.given:
                check_certificates(found, expected, rows, limits.nodes)
            else:
                check_answers(found, expected, rows)
            seen["nodes"] += int(found.visits[rows].sum())
        seen["search"] += len(rows)
        return expected

    Planner._ask_map, Planner._search = ask_map, search  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Planner._ask_map, Planner._search = by_map, by_search  # type: ignore[method-assign]


def check_answers(found: Answers, expected: Answers, rows: np.ndarray) -> None:
    """Equal bits in all that is proved."""
    assert np.array_equal(found.codes[rows], expected.codes[rows])
    assert same_bits(found.cost[rows], expected.cost[rows])
    assert same_bits(found.lower_bound[rows], expected.lower_bound[rows])
    assert np.array_equal(found.proved[rows], expected.proved[rows])


def check_certificates(found: Answers, expected: Answers, rows: np.ndarray, limit: int | None) -> None:
    """Limited runs may stop at different places: what both prove is equal, and no bound contradicts an answer."""
    both = rows[found.proved[rows] & expected.proved[rows]]
    check_answers(found, expected, both)
    assert (found.lower_bound[rows] <= expected.cost[rows]).all() and (
        expected.lower_bound[rows] <= found.cost[rows]
    ).all()
    assert limit is None or (found.visits[rows] <= limit).all()
