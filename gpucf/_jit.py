"""One way to compile: numba without the GIL, without fast-math, cached on disk where that is possible.

Import this module only from code that is about to compute: `import gpucf` must not load numba.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(r"^[ \t]*(?:from gpucf\.([\w.]+) import|from gpucf import ([\w, ]+)$)", re.MULTILINE)


@functools.cache
def _text_and_imports(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    text = path.read_bytes()
    found = []
    for named, listed in _IMPORT.findall(text.decode()):
        for name in [named] if named else re.findall(r"\w+", listed):
            module = _PACKAGE.joinpath(*name.split("."))
            found.append(module / "__init__.py" if module.is_dir() else module.with_suffix(".py"))
    return text, tuple(found)


@functools.cache
def source_digest(path: Path) -> str:
    """A hash of the source file `path` and of all files of the package that it imports, directly or not."""
    reached, waiting = {path}, [path]
    while waiting:
        new = set(_text_and_imports(waiting.pop())[1]) - reached
        reached |= new
        waiting += new
    h = hashlib.sha256()
    for part in sorted(reached):
        h.update(_text_and_imports(part)[0])
    return h.hexdigest()


class _Cache(FunctionCache):
    """numba's disk cache, good for one text of the function's module and of all that this module imports.

    numba looks only at the time and size of the file that holds the function, not at the functions that it calls from
    other files; wheels carry fixed times, so that an upgrade could run stale machine code. An index of another text is
    not even unpickled, since it may name classes that are gone.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._version = (numba.__version__, source_digest(Path(function.__code__.co_filename)))


def njit(function: Callable[..., Any]) -> Any:
    """`numba.njit(nogil=True)` with exact IEEE arithmetic, and with a disk cache where one can be kept."""
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", fastmath=False, no_cfunc_wrapper=True)(function)
    try:
        dispatcher._cache = _Cache(function)
    except RuntimeError:  # neither the package folder nor a user cache folder can be written
        pass
    return dispatcher


# Wrappers that let Python and C call a function take as long to compile as the function itself.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}


def inline(function: Callable[..., Any]) -> Any:
    """A helper that only other compiled functions call: forced into its caller, never compiled or cached alone."""
    return numba.njit(error_model="numpy", fastmath=False, forceinline=True, **_NO_WRAPPERS)(function)


def helper(function: Callable[..., Any]) -> Any:
    """As `inline`, but called: for what is long and seldom needed, so that its callers stay quick to compile."""
    return numba.njit(error_model="numpy", fastmath=False, **_NO_WRAPPERS)(function)
