"""Map queries on a device: the launches of `kernels/map.cu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._answers import Answers
from gpucf._boxes import BoxLayout
from gpucf._cells import Cells, ordered_gaps
from gpucf._costs import CostModel
from gpucf._cuda_args import pack
from gpucf._cuda_device import Device, chunks_of, price_values
from gpucf._kdtree import KdTree

_BLOCK = 128
_SHARE_OF_FREE = 0.5  # of the device's free memory, for one chunk of rows
_LEAST_THREADS = 1024  # worth having before rows are counted


def nearest_boxes_on_device(
    device: Device, trees: Sequence[KdTree | None], cells: Cells, layout: BoxLayout, costs: CostModel,
    own: np.ndarray, values: np.ndarray, wanted: np.ndarray, kernel: str = "map_rows",
) -> Answers:  # fmt: skip
    """As `gpucf._query.nearest_boxes`, with the same bits."""
    out = Answers.none_yet(own)
    rows = np.flatnonzero(wanted.any(axis=1))
    row_bytes = _row_bytes(cells, costs)

    def answer(some: np.ndarray) -> None:
        _answer_chunk(device, trees, cells, layout, costs, own, values, wanted, kernel, some, out)

    chunks_of(device, rows, row_bytes, _SHARE_OF_FREE, answer)
    return replace(out, lower_bound=out.cost.copy())  # every answer of a map is proved


def _row_bytes(cells: Cells, costs: CostModel) -> int:
    """Device memory that one row takes, its share of the threads' tables included."""
    n_codes = int(cells.code_start[-1])
    by_row = sum(len(a) > 1 for a in (costs.prices.low, costs.prices.at)) * 4 * 8 * cells.n_features
    return 40 + 24 * cells.n_features + by_row + 16 * n_codes + (n_codes if len(costs.prices.barred) else 0)


def _answer_chunk(
    device: Device, trees: Sequence[KdTree | None], cells: Cells, layout: BoxLayout, costs: CostModel,
    own: np.ndarray, values: np.ndarray, wanted: np.ndarray, kernel: str, rows: np.ndarray, out: Answers,
) -> None:  # fmt: skip
    n, n_codes = len(rows), int(cells.code_start[-1])
    n_threads = max(1, min(n, max(device.n_threads, _LEAST_THREADS)))
    prices = pack("Prices", device.put_all("Prices", price_values(costs.prices, rows)))
    codes = device.put(own[rows])
    mutable: dict[str, Any] = {
        "price": device.empty(n_codes * n_threads, np.float64),
        "displacement": device.empty(n_codes * n_threads, np.float64),
        "out_codes": device.put(own[rows]),
        "out_cost": device.put(out.cost[rows]),
        "out_visits": device.put(out.visits[rows]),
    }
    put_values = device.put(values[rows])
    function = device.kernel("map", kernel)
    for label, tree in enumerate(trees):
        which = np.flatnonzero(wanted[rows, label])
        if tree is None or not len(which):
            continue
        fixed = {
            "kind": cells.kind, "code_start": cells.code_start, "set_start": layout.set_start,
            "has_gaps": ordered_gaps(cells) | costs.prices.irregular, "lo": tree.lo, "hi": tree.hi, "sets": tree.sets,
            "size": tree.size, "child": tree.child,
        }  # fmt: skip
        numbers = {
            "n_rows": len(which), "n_features": cells.n_features, "n_set_words": tree.sets.shape[1],
            "n_blocks": len(tree.size), "n_threads": n_threads,
        }  # fmt: skip
        arrays = {"rows": device.put(which.astype(np.int64)), "own": codes, "values": put_values, **mutable}
        arguments = pack("Map", {**numbers, **device.put_all("Map", fixed), **arrays})
        device.launch(function, -(-n_threads // _BLOCK), _BLOCK, prices, arguments)
    out.codes[rows] = device.get(mutable["out_codes"])
    out.cost[rows] = device.get(mutable["out_cost"])
    out.visits[rows] = device.get(mutable["out_visits"])
