"""Runs CUDA source on the CPU: `HostModule` looks like `cupy.RawModule`, over numpy arrays and g++.

`cuda_cpu.h` gives every CUDA thread a fiber, so that warp collectives, shared memory and races behave as on a device.
Built libraries are cached by the text of everything that went in.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("GPUCF_HOST_KERNELS", Path(tempfile.gettempdir()) / f"gpucf-host-kernels-{os.getuid()}"))
BASE = (
    "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-gnu-unique", "-w", "-pthread",
    "-x", "c++",
)  # fmt: skip
FAST = ("-O2",)
SANITIZE = (
    "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ftrivial-auto-var-init=pattern",
    "-DCUDA_CPU_CHECK", "-fsanitize-sections=cudashm",
)  # fmt: skip
_ENTRY = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(')


class KernelError(RuntimeError):
    """A kernel misused a warp collective, hung, or left its shared memory."""


class HostModule:
    """One .cu file, compiled for the host.

    `mode` is "fibers" or "plain" (threads one after another, for kernels without collectives); a non-zero `seed`
    shuffles the order of lanes and blocks.
    """

    def __init__(self, source: Path, flags: tuple[str, ...] = FAST, mode: str = "fibers", seed: int = 0) -> None:
        self.mode, self.seed = mode, seed
        self.library = ctypes.CDLL(str(build(source, flags)))

    def get_function(self, name: str) -> HostKernel:
        return HostKernel(self, name)


def build(source: Path, flags: tuple[str, ...] = FAST) -> Path:
    """The shared library of a .cu file."""
    text = source.read_text()
    text += "\n" + "".join(f"CUDA_CPU_EXPORT({name})\n" for name in _ENTRY.findall(text))
    shim = HERE / "cuda_cpu.h"
    parts = [text, shim.read_text(), *(p.read_text() for p in sorted(source.parent.glob("*.cuh"))), *BASE, *flags]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    library = CACHE / f"{key}.so"
    if not library.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unit = CACHE / f"{key}.{os.getpid()}.cu"
        unit.write_text(f'#line 1 "{source.name}"\n{text}')
        built = unit.with_suffix(".so")
        command = ["g++", *BASE, *flags, "-I", str(source.parent), "-include", str(shim), str(unit), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True)
        unit.unlink()
        if done.returncode:
            raise KernelError(f"{source.name} does not compile:\n{done.stderr}")
        os.replace(built, library)
    return library


class HostKernel:
    """Called as a CuPy kernel is: ``kernel(grid, block, args)``."""

    def __init__(self, module: HostModule, name: str) -> None:
        self.module, self.name = module, name
        signature = getattr(module.library, f"{name}__sig")
        signature.restype = ctypes.c_char_p
        self.signature = signature().decode().rstrip(",").split(",")
        self.function = getattr(module.library, f"{name}__cpu")

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        if len(args) != len(self.signature):
            raise TypeError(f"{self.name}: {len(args)} arguments for {len(self.signature)} parameters")
        pointers = (ctypes.c_void_p * len(args))()
        for i, (value, kind) in enumerate(zip(args, self.signature, strict=True)):
            # Structs only: CuPy passes the bytes of a numpy array by value.
            if not kind.startswith("S") or not isinstance(value, np.ndarray) or value.nbytes != int(kind[1:]):
                raise TypeError(f"{self.name}, argument {i}: {getattr(value, 'nbytes', value)} bytes for {kind}")
            pointers[i] = value.ctypes.data
        sizes = [(ctypes.c_uint * 3)(*(*x, 1, 1)[:3]) for x in (grid, block)]
        error = ctypes.create_string_buffer(500)
        mode = {"plain": 0, "fibers": 1}[self.module.mode]
        seed = ctypes.c_uint64(self.module.seed)
        if self.function(*sizes, pointers, mode, 1, seed, error, len(error)):
            raise KernelError(f"{self.name}: {error.value.decode()}")
