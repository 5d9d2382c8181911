"""What the launches need of a device, whoever runs it: CuPy, or the tests' host-run kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from gpucf._cuda_args import DTYPES, Arguments, struct_fields
from gpucf._prices import Prices


class DeviceMemoryError(MemoryError):
    """The device has not enough free memory."""


class Backend(Protocol):
    """One device: arrays, kernels, launches."""

    n_threads: int  # that keep the device busy

    def put(self, array: np.ndarray) -> Any:
        """A copy on the device."""

    def empty(self, n: int, dtype: Any) -> Any:
        """An array on the device that holds anything; `DeviceMemoryError` where it does not fit."""

    def get(self, array: Any) -> np.ndarray:
        """A copy on the host."""

    def kernel(self, module: str, name: str) -> Callable[..., None]:
        """A kernel of ``kernels/MODULE.cu``."""

    def free_bytes(self) -> int:
        """Memory that can still be taken."""


class Device:
    """A backend, and what has been put there for good."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._kept: dict[tuple[int, str], tuple[np.ndarray, Any]] = {}

    @property
    def n_threads(self) -> int:
        return self.backend.n_threads

    def put(self, array: np.ndarray) -> Any:
        """A contiguous copy on the device; the smallest arrays have one element, so that they have an address."""
        array = np.ascontiguousarray(array)
        return self.backend.put(array if array.size else np.zeros(1, array.dtype))

    def keep(self, array: np.ndarray, dtype: Any) -> Any:
        """As `put`, once for all calls with this very array, which must not change."""
        key = (id(array), np.dtype(dtype).str)
        if key not in self._kept:
            self._kept[key] = (array, self.put(np.asarray(array).astype(dtype, copy=False)))
        return self._kept[key][1]

    def put_all(
        self, struct: str, values: Mapping[str, Any], score: Any = np.float64, keep: bool = False
    ) -> dict[str, Any]:
        """Those `values` that are pointers in the struct, on the device in the declared dtypes; numbers as they are."""
        out = {}
        declared = {f.name: f for f in struct_fields(struct)}
        for name, value in values.items():
            if name not in declared or not declared[name].is_pointer:
                out[name] = value
                continue
            dtype = score if declared[name].dtype == "Score" else DTYPES[declared[name].dtype]
            out[name] = self.keep(value, dtype) if keep else self.put(np.asarray(value).astype(dtype, copy=False))
        return out

    def empty(self, n: int, dtype: Any) -> Any:
        return self.backend.empty(max(n, 1), dtype)

    def get(self, array: Any) -> np.ndarray:
        return self.backend.get(array)

    def kernel(self, module: str, name: str) -> Callable[..., None]:
        return self.backend.kernel(module, name)

    def launch(self, kernel: Callable[..., None], n_blocks: int, n_threads: int, *structs: Arguments) -> None:
        kernel((n_blocks,), (n_threads,), tuple(s.words for s in structs))


def price_values(prices: Prices, rows: np.ndarray) -> dict[str, Any]:
    """The fields of the kernels' `Prices` for some rows of the table; what differs by row is taken for these."""
    values = prices._asdict()
    for name in ("low", "high", "at_low", "at_high", "at", "barred"):
        if len(values[name]) > 1 or (name == "barred" and len(values[name])):
            values[name] = values[name][np.minimum(rows, len(values[name]) - 1)]
    return {**values, "n_limits": len(values["low"]), "n_at": len(values["at"]), "n_barred": len(values["barred"])}


def chunks_of(
    device: Device, rows: np.ndarray, row_bytes: int, share: float, action: Callable[[np.ndarray], None]
) -> None:
    """`action` on chunks of rows that fit the device; where one does not, it is tried again in smaller ones."""
    size = max(1, min(len(rows), int(device.backend.free_bytes() * share) // max(row_bytes, 1)))
    begin = 0
    while begin < len(rows):
        try:
            action(rows[begin : begin + size])
        except DeviceMemoryError:
            if size == 1:
                raise
            size = max(1, size // 2)
            continue
        begin += size
