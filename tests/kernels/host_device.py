"""The CPU in the place of a GPU: kernels run by `host.HostModule`, arrays are numpy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import host
import numpy as np

from gpucf._cuda_args import kernel_folder
from gpucf._cuda_device import DeviceMemoryError


class HostBackend:
    """A `gpucf._cuda_device.Backend` without a device.

    Arrays are copies with poisoned rests, so that a kernel that reads what was never written is found out.
    """

    def __init__(
        self, mode: str = "plain", seed: int = 0, flags: tuple[str, ...] = host.FAST, folder: Path | None = None,
        n_threads: int = 64, memory: int = 1 << 30,
    ) -> None:  # fmt: skip
        self.mode, self.seed, self.flags = mode, seed, flags
        self.folder = kernel_folder() if folder is None else folder
        self.n_threads, self.memory = n_threads, memory
        self.modules: dict[str, host.HostModule] = {}
        self.largest = 0

    def put(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def empty(self, n: int, dtype: Any) -> np.ndarray:
        size = n * np.dtype(dtype).itemsize
        self.largest = max(self.largest, size)
        if size > self.memory:
            raise DeviceMemoryError(f"{size} bytes of {self.memory}")
        return np.full(size, 0xFF, np.uint8).view(dtype)

    def get(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def free_bytes(self) -> int:
        return self.memory

    def kernel(self, module: str, name: str) -> Any:
        if module not in self.modules:
            self.modules[module] = host.HostModule(self.folder / f"{module}.cu", self.flags, self.mode, self.seed)
        return self.modules[module].get_function(name)
