"""One way to compile: numba without the GIL, without fast-math, cached on disk where that is possible.

Import this module only from code that is about to compute: `import gpucf` must not load numba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache


def _source_digest() -> str:
    h = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        h.update(path.read_bytes())
    return h.hexdigest()


_DIGEST = _source_digest()


class _Cache(FunctionCache):
    """numba's disk cache, good for one text of the whole package only.

    numba looks only at the time and size of the file that holds the function, not at the functions that it calls from
    other files; wheels carry fixed times, so that an upgrade could run stale machine code. An index of another text is
    not even unpickled, since it may name classes that are gone.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._version = (numba.__version__, _DIGEST)


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
