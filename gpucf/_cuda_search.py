"""Ensemble search on a device: the launches of `kernels/search.cu`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucf._cuda_args import Arguments, pack
from gpucf._cuda_device import Device, DeviceMemoryError, chunks_of, price_values
from gpucf._ensemble import VECTOR_LEAF
from gpucf._search import Runner
from gpucf._search_kernel import GUESS, LIMIT, OPTIMAL
from gpucf._search_tables import Rows, Trees

_BLOCK = 128
_SHARE_OF_FREE = 0.4  # of the device's free memory: for one chunk of rows, and for the stacks
_SAMPLE = 2048  # rows from whose costs the first budget of all others follows
_TABLES = ("lo", "hi", "null", "sets", "mask", "node", "feature_price", "cost")


def runner_on(device: Device, kernel: str = "search", lanes: int = 32) -> Callable[..., DeviceRunner]:
    """Makes runners for `gpucf._search.search`; `kernel` and `lanes` name one of the kernels' forms."""
    return functools.partial(DeviceRunner, device, kernel, lanes)


class DeviceRunner(Runner):
    """Runs slices of rows on a device: a warp takes one row after another, each with a stack of its own."""

    def __init__(self, device: Device, kernel: str, lanes: int, *given: Any) -> None:
        super().__init__(*given)
        self.device, self.lanes = device, lanes
        score = self.searcher.ensemble.score_dtype
        self.function = device.kernel("search", f"{kernel}_{'f32' if score == np.float32 else 'f64'}")
        self.usual = 0.0
        self.fixed = self._fixed()

    def compile(self, rows: Rows) -> None:
        """Nothing: the kernel was built when the runner was made."""

    def _fixed(self) -> tuple[Arguments, ...]:
        """What is the same for all rows: rule, space and trees."""
        searcher, device, rule = self.searcher, self.device, self.rule
        ensemble, space, trees = searcher.ensemble, searcher.space, searcher.trees
        score = ensemble.score_dtype
        rule_values = {
            **rule._asdict(), "n_conditions": len(rule.mode), "n_outputs": ensemble.n_outputs,
            "width": rule.yes.shape[1],
        }  # fmt: skip
        space_values = {
            **space._asdict(), "n_features": len(space.kind), "n_codes": space.code_start[-1],
            "n_sets": space.set_start[-1], "n_splits": len(space.split_feature), "n_by_cut": len(space.by_cut),
            "set_width": space.set_words.shape[1],
        }  # fmt: skip
        tree_values = {
            **trees._asdict(), "left": ensemble.left, "right": ensemble.right, "n_trees": ensemble.n_trees,
            "n_words": len(trees.full),
            "n_leaf_outputs": trees.value.shape[1], "n_outputs": ensemble.n_outputs,
            "sorted_leaves": trees.sorted_leaves or trees.value.shape[1] == 1, "margin": sum_margin(trees),
        }  # fmt: skip
        return (
            pack("Rule", device.put_all("Rule", rule_values)),
            pack("Space", device.put_all("Space", space_values, keep=True)),
            pack("Trees", device.put_all("Trees", tree_values, score, keep=True), score),
        )

    def _run_once(self, rows: Rows, left: np.ndarray, slice_nodes: int) -> None:
        rows.status[left] = LIMIT
        if self.learn and self.usual == 0.0 and len(left) > _SAMPLE:
            self._run_rows(rows, left[:_SAMPLE], slice_nodes)
            cost = rows.cost[left[:_SAMPLE]][rows.status[left[:_SAMPLE]] == OPTIMAL]
            self.usual = float(cost.mean()) if len(cost) else 0.0
            left = left[_SAMPLE:]
        self._run_rows(rows, left, slice_nodes)

    def _run_rows(self, rows: Rows, left: np.ndarray, slice_nodes: int) -> None:
        row_bytes = 64 + 28 * rows.own.shape[1] + 32 * rows.own.shape[1] + len(self.prices.barred[:1].ravel())

        def action(some: np.ndarray) -> None:
            if not self.stop[0]:
                self._run_chunk(rows, some, slice_nodes)

        chunks_of(self.device, left, row_bytes, _SHARE_OF_FREE, action)

    def _run_chunk(self, rows: Rows, some: np.ndarray, slice_nodes: int) -> None:
        device = self.device
        prices = pack("Prices", device.put_all("Prices", price_values(self.prices, some)))
        work, n_workers = self._work(len(some))
        of_rows = ("own", "values", "label", "negate", "status", "codes", "cost", "bound", "nodes", "question")
        values = {name: getattr(rows, name)[some] for name in of_rows}
        values |= {"which": np.arange(len(some)), "next": np.zeros(1), "asked": rows.asked}
        values |= {"asked_label": rows.asked_label, "n_rows": len(some), "n_asked": len(rows.asked)}
        values |= {"node_limit": slice_nodes, "first_budget": GUESS * self.usual}
        put = device.put_all("Rows", values)
        structs = (prices, *self.fixed, work, pack("Rows", put))
        device.launch(self.function, -(-n_workers * self.lanes // _BLOCK), _BLOCK, *structs)
        for name in ("status", "codes", "cost", "bound", "nodes", "question"):
            getattr(rows, name)[some] = device.get(put[name])
        self.n_open -= int((rows.status[some] <= OPTIMAL).sum())
        if self.progress is not None:
            self.progress(self.n_total - self.n_open, self.n_total)

    def _work(self, n_rows: int) -> tuple[Arguments, int]:
        """Work space for as many workers as keep the device busy, or as fit."""
        offsets, size = self._layout()
        n = max(1, min(n_rows, self.device.n_threads // self.lanes))
        n = max(1, min(n, int(self.device.backend.free_bytes() * _SHARE_OF_FREE) // size))
        while True:
            try:
                arena = self.device.empty(n * size, np.uint8)
                break
            except DeviceMemoryError:
                if n == 1:
                    raise
                n //= 2
        numbers = {"n_workers": n, "worker_bytes": size, "depth": self.depth}
        return pack("Work", {**offsets, **numbers, "arena": arena}), n

    def _layout(self) -> tuple[dict[str, int], int]:
        """Where each array of one worker lies, in bytes, and how large all are."""
        space, trees, ensemble = self.searcher.space, self.searcher.trees, self.searcher.ensemble
        f, n_codes, t, score = len(space.kind), int(space.code_start[-1]), ensemble.n_trees, trees.value.itemsize
        sizes = {
            "lo": 4 * f, "hi": 4 * f, "null": f, "sets": 8 * int(space.set_start[-1]), "mask": 8 * len(trees.full),
            "node": 4 * t, "feature_price": 8 * f, "cost": 8, "price": 8 * n_codes, "displacement": 8 * n_codes,
            "irregular": f, "dearest": 8 * f, "cheapest": 8 * f, "change": 4 * f, "codes": 4 * f, "best": 4 * f,
            "tree_low": score * t * trees.value.shape[1], "tree_high": score * t * trees.value.shape[1],
            "spread": 8 * t, "picked": 4 * t, "weight": 8 * len(space.split_feature), "feature_weight": 8 * f,
            "sum_low": score * ensemble.n_outputs, "sum_high": score * ensemble.n_outputs,
            "relevance": 8 * ensemble.n_outputs,
        }  # fmt: skip
        offsets, end = {}, 0
        for name, size in sizes.items():
            offsets[name] = end
            end += -(-size * (self.depth if name in _TABLES else 1) // 16) * 16
        return offsets, end


def sum_margin(trees: Trees) -> float:
    """Any two orders of adding one leaf of each tree to the base differ by less than this, rounding included."""
    size = np.abs(trees.base.astype(np.float64))
    for t in range(len(trees.tree_output)):
        leaves = trees.value[64 * trees.word_start[t] : 64 * trees.word_start[t + 1]].astype(np.float64)
        largest = np.abs(leaves).max(axis=0)
        c = trees.tree_output[t]
        if c == VECTOR_LEAF:
            size += largest
        else:
            size[c] += largest[0]
    single = trees.value.dtype == np.float32 or bool(np.any(trees.rounds))
    if not size.max() < (1e37 if single else 1e300):
        return np.inf  # sums may overflow: only the ordered one is then sure
    return float(2 * (len(trees.tree_output) + 1) * np.finfo(np.float32 if single else np.float64).eps * size.max())
