"""Arguments of CUDA kernels: structs of 8-byte words, laid out as the kernels' own source defines them.

A kernel takes structs by value. Their fields are pointers, 64-bit integers and doubles; names and types are read from
the struct definitions in `kernels/*.cuh`, so that host and device cannot disagree, and every array's dtype is checked
against the declared one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DTYPES: dict[str, Any] = {
    "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "i32": np.int32, "i64": np.int64,
    "u64": np.uint64, "double": np.float64, "float": np.float32, "char": np.uint8,
}  # fmt: skip
_FIELD = re.compile(r"^\s*(const\s+)?(\w+)\s+(\*?)(\w+);")


def kernel_folder() -> Path:
    """Where the kernels' sources lie: inside the installed package, or beside it in a source tree."""
    here = Path(__file__).parent
    return here / "_kernels" if (here / "_kernels").is_dir() else here.parent / "kernels"


@dataclass(frozen=True)
class ArgumentField:
    """One word of a struct: a pointer to an array of `dtype`, or a number of that type."""

    name: str
    dtype: str
    is_pointer: bool
    is_const: bool


@functools.cache
def struct_fields(struct: str) -> tuple[ArgumentField, ...]:
    """Fields of a struct that kernels take, in order."""
    for path in sorted(kernel_folder().glob("*.cuh")):
        found = re.search(rf"^struct {struct} {{\n(.*?)^}};", path.read_text(), re.DOTALL | re.MULTILINE)
        if found:
            fields = []
            for line in found[1].splitlines():
                text = line.split("//")[0].strip()
                if not text:
                    continue
                match = _FIELD.match(text)
                if match is None:
                    raise RuntimeError(f"{path.name}: struct {struct} has the line {text!r}, which is no plain field")
                fields.append(ArgumentField(match[4], match[2], match[3] == "*", match[1] is not None))
            return tuple(fields)
    raise RuntimeError(f"no struct {struct} in {kernel_folder()}")


@dataclass(frozen=True)
class Arguments:
    """A struct as words, and the arrays that its pointers need alive."""

    words: np.ndarray
    arrays: tuple[Any, ...]


def pack(struct: str, values: Mapping[str, Any], score: Any = np.float64) -> Arguments:
    """Lay out a struct; arrays are numpy's or CuPy's, `score` is the dtype of fields declared as Score."""
    words, arrays = [], []
    for field in struct_fields(struct):
        value = values[field.name]
        if not field.is_pointer:
            words.append(np.float64(value).view(np.uint64) if field.dtype == "double" else np.int64(value))
            continue
        want = np.dtype(score if field.dtype == "Score" else DTYPES[field.dtype])
        if value.dtype != want:
            raise TypeError(f"{struct}.{field.name} is an array of {value.dtype}; the kernel reads {want}")
        if not value.flags.c_contiguous:
            raise TypeError(f"{struct}.{field.name} is not contiguous")
        arrays.append(value)
        words.append(np.uint64(_pointer(value)))
    return Arguments(np.array([np.asarray(w).astype(np.uint64) if w.dtype != np.int64 else w.view(np.uint64)
                               for w in words], np.uint64), tuple(arrays))  # fmt: skip


def _pointer(array: Any) -> int:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data.ptr)
