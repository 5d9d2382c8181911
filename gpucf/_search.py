"""Ensemble search: exact answers for ensembles of any size, without a map."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._answers import Answers
from gpucf._boxes import BoxLayout
from gpucf._cells import ORDERED, Cells
from gpucf._costs import CostModel
from gpucf._ensemble import VECTOR_LEAF, Ensemble
from gpucf._errors import ModelTooLargeError
from gpucf._labels import LabelRule
from gpucf._masks import LeafMasks, make_masks
from gpucf._merge import rounded_trees
from gpucf._regionmap import model_labels
from gpucf._search_kernel import ASKED, INFEASIBLE, LIMIT, OPTIMAL, TOO_DEEP, search_rows
from gpucf._search_tables import Rows, Scratch, Space, Stack, Trees

FIRST_SLICE = 20_000  # nodes that a row may take before it is put off
SLICE_GROWTH = 8
_ROWS_PER_TASK = 256
_ORDERED_BY = 4  # features
_MASK_BYTES_LIMIT = 4 << 30


@dataclass(frozen=True, eq=False)
class Searcher:
    """Tables of one ensemble over its cells, ready to be searched."""

    ensemble: Ensemble
    cells: Cells
    space: Space
    trees: Trees


def make_searcher(ensemble: Ensemble, cells: Cells) -> Searcher:
    """Leaf masks and flat trees for the search.

    Raises
    ------
    ModelTooLargeError
        If the leaf masks would need more than 4 GiB.
    """
    n_words = int(np.sum((_leaves_per_tree(ensemble) + 63) // 64))
    size = 16 * int(cells.code_start[-1]) * n_words
    if size > _MASK_BYTES_LIMIT:
        raise ModelTooLargeError(
            f"the leaf masks of this model would take {size / 2**30:.1f} GiB ({len(ensemble.leaf_value):,} leaves "
            f"over {int(cells.code_start[-1]):,} cells); at most {_MASK_BYTES_LIMIT >> 30} GiB are used. Use a smaller "
            "model."
        )
    masks = make_masks(ensemble, cells)
    layout = BoxLayout.of(cells, np.zeros(cells.n_features, bool))
    space = Space(
        cells.kind, cells.code_start, _gapless(cells), layout.set_start, *_splits_by_cut(cells), cells.split_feature,
        cells.split_cut, cells.split_set, cells.split_missing_left, cells.set_words,
    )  # fmt: skip
    non_missing = _non_missing(cells, masks)
    is_sorted = _sorted_leaves(masks)
    trees = Trees(
        ensemble.tree_start, _steps(ensemble, cells), cells.node_split, masks.word_start, masks.at_least,
        masks.at_most, masks.full, non_missing, masks.full & np.bitwise_and.reduce(non_missing, axis=0),
        masks.value, masks.value.reshape(-1),
        ensemble.tree_output, rounded_trees(ensemble), ensemble.base, is_sorted,
        _margins(ensemble, masks) if is_sorted else np.zeros(0, np.int32), _one_word(masks),
    )  # fmt: skip
    return Searcher(ensemble, cells, space, trees)


def _leaves_per_tree(ensemble: Ensemble) -> np.ndarray:
    owner = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.tree_start))
    return np.bincount(owner[ensemble.leaf >= 0], minlength=ensemble.n_trees)


def _gapless(cells: Cells) -> np.ndarray:
    unattainable = np.isnan(cells.cell_lo) | np.isnan(cells.cell_hi)
    unattainable[cells.code_start[1:] - 1] = False
    return np.logical_or.reduceat(unattainable, cells.code_start[:-1]) == 0


def _steps(ensemble: Ensemble, cells: Cells) -> np.ndarray:
    out = np.zeros((len(cells.node_split), 4), np.int32)
    inner = np.flatnonzero(cells.node_split >= 0)
    split = cells.node_split[inner]
    for column, values in enumerate((cells.split_feature[split], cells.split_cut[split])):
        out[inner, column] = values
    out[:, 2], out[:, 3] = ensemble.left, ensemble.right
    return out


def _non_missing(cells: Cells, masks: LeafMasks) -> np.ndarray:
    out = np.empty((cells.n_features, len(masks.full)), np.uint64)
    for j in range(cells.n_features):
        begin, last = int(cells.code_start[j]), int(cells.code_start[j + 1]) - 1
        if cells.kind[j] == ORDERED:
            out[j] = masks.at_least[begin] & masks.at_most[last - 1]
        else:
            out[j] = np.bitwise_or.reduce(masks.at_least[begin:last], axis=0)
    return out


def _splits_by_cut(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Splits of ordered features by feature and cut, and where those of each code start (see `Space`)."""
    ordered = np.flatnonzero(cells.kind[cells.split_feature] == ORDERED)
    by_cut = ordered[np.lexsort((cells.split_cut[ordered], cells.split_feature[ordered]))]
    # A cut of -1 (everything goes right) lies before the feature's first code.
    place = cells.code_start[cells.split_feature[by_cut]] + np.maximum(cells.split_cut[by_cut], 0)
    return by_cut.astype(np.int64), np.searchsorted(place, np.arange(int(cells.code_start[-1]) + 1)).astype(np.int64)


def _margins(ensemble: Ensemble, masks: LeafMasks) -> np.ndarray:
    """Second less first score of every leaf, rounded to units of a 2**29th of the largest score; see `Trees`."""
    value = masks.value.astype(np.float64)
    if value.shape[1] != 2 or ensemble.base.any() or rounded_trees(ensemble).any():
        return np.zeros(0, np.int32)
    margin = value[:, 1] - value[:, 0]
    # Sums of n terms are off by less than n * n rounding errors of the largest score; a unit has to be more than that.
    largest = float(np.abs(value).max(initial=0.0))
    rounding = float(np.finfo(ensemble.score_dtype).eps) * ensemble.n_trees**2
    # Far from the ends of the number range, so that no sum or mean becomes infinite or denormal.
    if not 1e-280 < largest < 1e280 or rounding > 2.0**-31 or not np.all(ensemble.tree_output == VECTOR_LEAF):
        return np.zeros(0, np.int32)
    return np.rint(margin * (2.0**29 / largest)).astype(np.int32)


def _one_word(masks: LeafMasks) -> bool:
    return masks.value.shape[1] == 1 and bool(np.all(np.diff(masks.word_start) == 1))


def _sorted_leaves(masks: LeafMasks) -> bool:
    """Whether every output is monotone along the leaves of every tree (the last output falls by construction)."""
    value = masks.value
    if value.shape[1] == 1:
        return True
    if value.shape[1] > 2:
        return False
    leaf = np.flatnonzero((masks.full[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1))
    tree = np.searchsorted(masks.word_start, leaf // 64, side="right")
    rises = np.diff(value[leaf, 0]) >= 0
    return bool(np.all(rises | (np.diff(tree) > 0)))


def search(
    searcher: Searcher,
    rule: LabelRule,
    costs: CostModel,
    own: np.ndarray,
    values: np.ndarray,
    label: np.ndarray,
    negate: np.ndarray,
    which: np.ndarray,
    n_threads: int,
    node_limit: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    device: Any = None,
) -> Answers:
    """The point of least key that has (or, with `negate`, has not) a label, for the rows `which`.

    Parameters
    ----------
    own, values :
        From `code_rows`.
    label : int64 array of shape (n_rows,)
    negate : bool array of shape (n_rows,)
    node_limit : int, optional
        Nodes that a row may take; then its best answer so far is returned with a certified bound.
    time_limit_s : float, optional
        Time for the whole call.
    device : callable, optional
        Makes a runner that launches kernels, from what `Runner` is made from; threads of this machine if not given.
    """
    n = len(own)
    rows = Rows(
        own, values, label, negate, np.full(n, LIMIT, np.int8), own.copy(), np.full(n, np.inf), np.zeros(n),
        np.zeros(n, np.int64), own.copy(), np.zeros((0, own.shape[1]), np.int32), np.zeros(0, np.int64),
    )  # fmt: skip
    # With a node limit a row's status must not depend on the rows before it.
    runner = (device or Runner)(searcher, rule, costs, n_threads, node_limit is None, progress, n, len(which))
    largest = np.iinfo(np.int64).max if node_limit is None else min(node_limit, np.iinfo(np.int64).max)
    pending, slice_nodes = _neighbours_together(searcher.space, own, which), min(FIRST_SLICE, largest)
    if time_limit_s is not None:
        runner.compile(rows)
    with _deadline(runner.stop, time_limit_s):
        while len(pending):
            rows = runner.run(rows, pending, slice_nodes)
            pending = pending[rows.status[pending] == LIMIT]
            if slice_nodes >= largest or runner.stop[0]:
                break
            slice_nodes = min(slice_nodes * SLICE_GROWTH, largest)
    if progress is not None:
        progress(n, n)
    proved = np.isin(rows.status, (OPTIMAL, INFEASIBLE))
    return Answers(rows.codes, rows.cost, np.minimum(rows.bound, rows.cost), proved, rows.nodes)


def _neighbours_together(space: Space, own: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Rows ordered by the features that the model asks most: the costs of earlier rows then tell more of the next."""
    asked = np.bincount(space.split_feature, minlength=own.shape[1])
    most = np.argsort(asked, kind="stable")[-_ORDERED_BY:]
    return which[np.lexsort(own[np.ix_(which, most)].T)] if len(most) else which


@contextmanager
def _deadline(stop: np.ndarray, time_limit_s: float | None) -> Iterator[None]:
    """Raise ``stop[0]`` when the time is over; the kernels look at it at every node."""
    if time_limit_s is None or time_limit_s > threading.TIMEOUT_MAX:
        yield
        return
    timer = threading.Timer(time_limit_s, stop.__setitem__, (0, 1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Runner:
    """Runs slices of rows on threads, each with a stack and a work space of its own."""

    def __init__(
        self, searcher: Searcher, rule: LabelRule, costs: CostModel, n_threads: int, learn: bool,
        progress: Callable[[int, int], None] | None, n_total: int, n_open: int,
    ) -> None:  # fmt: skip
        self.searcher, self.rule, self.n_threads, self.learn = searcher, rule, n_threads, learn
        self.progress, self.n_total, self.n_open = progress, n_total, n_open
        self.prices = costs.prices
        self.depth = 64
        self.stop = np.zeros(1, np.int64)

    def compile(self, rows: Rows) -> None:
        """Have the kernel compiled, or loaded, so that this takes nothing from a time limit."""
        self._search_rows(np.zeros(0, np.int64), 0, *self._work_space(), rows)

    def _search_rows(self, task: np.ndarray, slice_nodes: int, stack: Stack, scratch: Scratch, rows: Rows) -> None:
        search_rows(
            task, slice_nodes, self.learn, self.stop, self.rule, self.searcher.space, self.searcher.trees, self.prices,
            stack, scratch, rows,
        )  # fmt: skip

    def run(self, rows: Rows, pending: np.ndarray, slice_nodes: int) -> Rows:
        """Give every pending row one slice; questions to the library's arithmetic and deep stacks are seen to."""
        left = pending
        while len(left):
            self._run_once(rows, left, slice_nodes)
            asked = left[rows.status[left] == ASKED]
            deep = left[rows.status[left] == TOO_DEEP]
            if len(deep):
                self.depth *= 2
            if len(asked):
                rows = self._answer(rows, asked)
            left = np.concatenate([asked, deep])
        return rows

    def _answer(self, rows: Rows, asked: np.ndarray) -> Rows:
        """Add the labels of the asked points to the known ones."""
        points = np.unique(rows.question[asked], axis=0)
        ensemble, cells = self.searcher.ensemble, self.searcher.cells
        labels = model_labels(ensemble, cells, self.rule, points, np.zeros(points.shape, bool))
        return rows._replace(
            asked=np.concatenate([rows.asked, points]), asked_label=np.concatenate([rows.asked_label, labels])
        )

    def _run_once(self, rows: Rows, left: np.ndarray, slice_nodes: int) -> None:
        tasks = [left[i : i + _ROWS_PER_TASK] for i in range(0, len(left), _ROWS_PER_TASK)]
        free = [self._work_space() for _ in range(self.n_threads)]
        rows.status[left] = LIMIT  # a row that is not reached any more has no question either

        def work(task: np.ndarray) -> int:
            stack, scratch = free.pop()
            self._search_rows(task, slice_nodes, stack, scratch, rows)
            free.append((stack, scratch))
            return int(np.isin(rows.status[task], (OPTIMAL, INFEASIBLE)).sum())

        with ThreadPoolExecutor(self.n_threads) as pool:
            try:
                for finished in pool.map(work, tasks):
                    self.n_open -= finished
                    if self.progress is not None:
                        self.progress(self.n_total - self.n_open, self.n_total)
            except BaseException:
                self.stop[0] = 1
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _work_space(self) -> tuple[Stack, Scratch]:
        space, trees, ensemble = self.searcher.space, self.searcher.trees, self.searcher.ensemble
        f, rows = len(space.kind), self.depth
        stack = Stack(
            np.zeros((rows, f), np.int32), np.zeros((rows, f), np.int32), np.zeros((rows, f), np.uint8),
            np.zeros((rows, int(space.set_start[-1])), np.uint64), np.zeros((rows, len(trees.full)), np.uint64),
            np.zeros((rows, ensemble.n_trees), np.int32), np.zeros((rows, f)), np.zeros(rows), np.zeros((rows, 2)),
        )  # fmt: skip
        n_codes, n_out, leaf_out = int(space.code_start[-1]), ensemble.n_outputs, trees.value.shape[1]
        dtype, n_splits, t = ensemble.score_dtype, len(space.split_feature), ensemble.n_trees
        scratch = Scratch(
            price=np.zeros(n_codes), displacement=np.zeros(n_codes), irregular=np.zeros(f, np.bool_),
            dearest=np.zeros(f), cheapest=np.zeros(f), low=np.zeros(leaf_out, dtype), high=np.zeros(leaf_out, dtype),
            spread=np.zeros(t), sum_low=np.zeros(n_out, dtype),
            sum_high=np.zeros(n_out, dtype), raw_low=np.zeros(n_out), raw_high=np.zeros(n_out),
            weight=np.zeros(n_splits), factor=np.zeros(n_splits), feature_weight=np.zeros(f), relevance=np.zeros(n_out),
            touched=np.zeros(t, np.int64), codes=np.zeros(f, np.int32), best=np.zeros(f, np.int32),
            excluded=np.zeros(1), usual=np.zeros(1),
        )  # fmt: skip
        return stack, scratch
