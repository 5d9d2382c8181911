"""LightGBM's text format, taken apart and checked: a header, the trees, and what follows them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._errors import ModelError

_END = "end of trees"


@dataclass(frozen=True)
class TextModel:
    """Key-value pairs of the header and of each tree, the parameters, and the pandas categories."""

    source: str
    header: dict[str, str]
    trees: list[dict[str, str]]
    parameters: dict[str, str]
    pandas_categorical: list[list[Any]]

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 0 from the header."""
        return count(self.header, key, self.source, default)


def parse(text: str, source: str) -> TextModel:
    """Take the text of a model apart; a file cut short is refused."""
    # Only \n ends a line: names may hold the other characters that str.splitlines takes for line ends.
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if lines[0].strip() != "tree":
        raise ModelError.damaged(source, 'it does not begin with "tree"')
    if _END not in lines:
        raise ModelError.damaged(source, f'it ends before "{_END}"')
    end = lines.index(_END)
    header: dict[str, str] = {}
    trees: list[dict[str, str]] = []
    part = header
    for line in lines[1:end]:
        key, _, value = line.partition("=")
        if key == "Tree":
            trees.append(part := {})
        elif key:
            part[key] = value
    stated = len(header.get("tree_sizes", "").split())
    if stated != len(trees):
        raise ModelError.damaged(source, f"it has {len(trees)} trees, but sizes for {stated}")
    parameters, categories = _tail(lines[end + 1 :], source)
    return TextModel(source, header, trees, parameters, categories)


def _tail(lines: list[str], source: str) -> tuple[dict[str, str], list[list[Any]]]:
    parameters: dict[str, str] = {}
    categories: Any = None
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            key, _, value = line[1:-1].partition(":")
            parameters[key] = value.strip()
        elif line.startswith("pandas_categorical:"):
            try:
                categories = json.loads(line.partition(":")[2])
            except (ValueError, RecursionError):
                raise ModelError.damaged(source, "its pandas_categorical line is not JSON") from None
    categories = [] if categories is None else categories
    plain = (str, int, float, bool)
    if not isinstance(categories, list) or not all(
        isinstance(column, list) and all(isinstance(value, plain) for value in column) for column in categories
    ):
        raise ModelError.damaged(source, "its pandas_categorical line is not a list of lists of values")
    return parameters, categories


def count(part: dict[str, str], key: str, source: str, default: int | None = None) -> int:
    """A whole number of at least 0."""
    text = part.get(key, "" if default is None else str(default)).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelError.damaged(source, f"{key} is {text!r}")
    return int(text)


def ints(part: dict[str, str], key: str, source: str, length: int) -> np.ndarray:
    """`length` whole numbers, int64."""
    return _numbers(part, key, source, length, int, np.int64)


def floats(part: dict[str, str], key: str, source: str, length: int) -> np.ndarray:
    """`length` float64 numbers; LightGBM writes 17 digits, which give the same bits back."""
    return _numbers(part, key, source, length, float, np.float64)


def _numbers(part: dict[str, str], key: str, source: str, length: int, kind: Any, dtype: Any) -> np.ndarray:
    texts = part.get(key, "").split()
    if len(texts) != length:
        raise ModelError.damaged(source, f"{key} has {len(texts)} values, not {length}")
    try:
        return np.array([kind(text) for text in texts], dtype=dtype)
    except (ValueError, OverflowError):
        raise ModelError.damaged(source, f"{key} holds something that is no number") from None
