"""``gpucf info``: versions, devices and caches; what was found, and why not."""

from __future__ import annotations

import ctypes
import os
import platform
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpucf._version import __version__

_CORE = ("numpy", "numba", "llvmlite", "pyarrow", "pyyaml", "rich")
# Distribution names that bring each optional part, and what it is for.
_OPTIONAL = (
    (("xgboost", "xgboost-cpu"), "judge of XGBoost models", "gpucf[xgboost]"),
    (("lightgbm",), "judge of LightGBM models", "gpucf[lightgbm]"),
    (("scikit-learn",), "scikit-learn models", "gpucf[sklearn]"),
    (("skops",), "scikit-learn files that are not pickles", "gpucf[sklearn]"),
    (("catboost",), "judge of CatBoost models", "gpucf[catboost]"),
    (("pandas",), "pandas tables", "pandas"),
    (("polars",), "polars tables", "polars"),
    (("matplotlib",), "pictures", "gpucf[plot]"),
)


def print_info() -> None:
    """Print what `information` finds."""
    for title, rows in information().items():
        print(title)
        for name, text in rows:
            print(f"  {name:<14} {text}")


def information() -> dict[str, list[tuple[str, str]]]:
    """Sections of (name, text)."""
    return {
        "gpucf": [
            ("version", __version__),
            ("installed at", str(Path(__file__).parent)),
            ("Python", f"{platform.python_version()} ({platform.machine()}, {platform.system()})"),
        ],
        "core packages": [(name, _version(name) or "not found: reinstall gpucf") for name in _CORE],
        "optional packages": list(_optional()),
        "devices": [("CPU", f"{_usable_cores()} of {os.cpu_count()} cores usable: computes"), ("CUDA", _cuda())],
        "caches": [("machine code", _code_cache())],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _optional() -> Iterator[tuple[str, str]]:
    for names, purpose, remedy in _OPTIONAL:
        found = [(name, _version(name)) for name in names]
        name, number = next((f for f in found if f[1] is not None), (names[0], None))
        yield name, f"{number} ({purpose})" if number else f"not installed ({purpose}: pip install '{remedy}')"


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cuda() -> str:
    """Whether there is a driver: its library is opened, but no CUDA call is made."""
    name = "nvcuda.dll" if platform.system() == "Windows" else "libcuda.so.1"
    try:
        # By its own name, not by ctypes.util.find_library, which starts compilers to look for it.
        ctypes.CDLL(name)
    except OSError:
        return "not used: no driver found, and this release computes on the CPU only"
    return f"not used: driver library {name} found, but GPUs are not yet supported; this release computes on the CPU"


def _code_cache() -> str:
    from gpucf._predict import leaf_rows

    path = getattr(getattr(leaf_rows, "_cache", None), "cache_path", None)
    if not path:
        return "none can be kept: neither the package folder nor a user cache can be written (set NUMBA_CACHE_DIR)"
    return f"{path} ({'writable' if _can_write(Path(path)) else 'NOT writable: set NUMBA_CACHE_DIR'})"


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
