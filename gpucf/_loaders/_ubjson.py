"""A reader for UBJSON, the binary form in which XGBoost stores models.

Python's registries have readers, but none that a hostile file could not make recurse or allocate without end. Typed
arrays become NumPy arrays, so that the float32 numbers of a model arrive with their bits untouched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpucf._errors import ModelError

_DEEPEST = 64  # XGBoost nests 8 levels
_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def read_ubjson(data: bytes, source: str) -> Any:
    """The value that `data` holds: dict, list, ndarray, str, int, float, bool or None.

    Raises
    ------
    ModelError
        If the data is truncated, nested more than 64 deep, or no UBJSON; `source` names it in the message.
    """
    return _Reader(data, source).value(_DEEPEST)


class _Reader:
    def __init__(self, data: bytes, source: str):
        self.data = data
        self.source = source
        self.at = 0

    def damaged(self, why: str) -> ModelError:
        return ModelError.damaged(self.source, f"{why} at byte {self.at}")

    def take(self, n: int) -> bytes:
        if n < 0 or n > len(self.data) - self.at:
            raise self.damaged(f"a value of {n} bytes runs past the end")
        self.at += n
        return self.data[self.at - n : self.at]

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def marker(self) -> bytes:
        while (mark := self.take(1)) == b"N":  # no-op
            pass
        return mark

    def number(self, mark: bytes) -> int | float:
        kind = np.dtype(_NUMBERS[mark])
        number: int | float = np.frombuffer(self.take(kind.itemsize), kind)[0].item()
        return number

    def length(self) -> int:
        mark = self.marker()
        if mark not in b"iUIlL" or not isinstance(n := self.number(mark), int) or n < 0:
            raise self.damaged("a length is not a count")
        return n

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError:
            raise self.damaged("a text is not UTF-8") from None

    def value(self, depth: int, mark: bytes | None = None) -> Any:
        if depth == 0:
            raise self.damaged(f"values are nested more than {_DEEPEST} deep")
        mark = self.marker() if mark is None else mark
        if mark in _NUMBERS:
            return self.number(mark)
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark == b"S":
            return self.text()
        if mark == b"C":
            return chr(self.take(1)[0])
        if mark == b"[":
            return self.array(depth)
        if mark == b"{":
            return self.object(depth)
        raise self.damaged(f"unknown marker {mark!r}")

    def typed(self) -> tuple[bytes | None, int | None]:
        """Type and count of a container, where it states them."""
        mark = count = None
        if self.peek() == b"$":
            self.take(1)
            mark = self.take(1)
            if self.peek() != b"#":
                raise self.damaged("a typed container has no count")
        if self.peek() == b"#":
            self.take(1)
            count = self.length()
        return mark, count

    def array(self, depth: int) -> Any:
        mark, count = self.typed()
        if mark in _NUMBERS and count is not None:
            kind = np.dtype(_NUMBERS[mark])
            return np.frombuffer(self.take(count * kind.itemsize), kind).astype(kind.newbyteorder("="))
        if mark in _CONSTANTS:
            raise self.damaged("an array of constants")  # takes no bytes an item: a bomb
        if count is not None:
            return [self.value(depth - 1, mark) for _ in range(count)]
        items = []
        while self.peek() != b"]":
            items.append(self.value(depth - 1))
        self.take(1)
        return items

    def object(self, depth: int) -> dict[str, Any]:
        mark, count = self.typed()
        items: dict[str, Any] = {}
        if count is not None:
            for _ in range(count):
                key = self.text()
                items[key] = self.value(depth - 1, mark)
            return items
        while self.peek() != b"}":
            key = self.text()
            items[key] = self.value(depth - 1)
        self.take(1)
        return items
