"""Boxes: per feature a range of codes, and where needed a set of codes.

An ordered feature keeps a range ``lo..hi`` (``lo > hi``: no ordered code). A categorical feature keeps a set of codes
as words, "missing" included; an ordered feature that may be missing keeps one word, whose bit 0 says that "missing" is
in the box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucf._cells import ORDERED, Cells

EMPTY_LO, EMPTY_HI = 1, 0


@dataclass(frozen=True, eq=False)
class BoxLayout:
    """Where the set words of each feature lie, and the box that holds everything.

    Attributes
    ----------
    kind : int8 array of shape (n_features,)
    code_start : int64 array of shape (n_features + 1,)
    set_start : int64 array of shape (n_features + 1,)
        Feature `j` has the set words ``set_start[j] .. set_start[j+1] - 1``, possibly none.
    nullable : bool array of shape (n_features,)
    """

    kind: np.ndarray
    code_start: np.ndarray
    set_start: np.ndarray
    nullable: np.ndarray

    @classmethod
    def of(cls, cells: Cells, nullable: np.ndarray) -> BoxLayout:
        words = np.where(cells.kind == ORDERED, nullable.astype(np.int64), (cells.n_codes + 63) // 64)
        return cls(cells.kind, cells.code_start, np.concatenate([[0], np.cumsum(words)]).astype(np.int64), nullable)

    @property
    def n_features(self) -> int:
        return len(self.kind)

    @property
    def n_set_words(self) -> int:
        return int(self.set_start[-1])

    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`lo`, `hi` and set words of the box that holds every code."""
        n_codes = np.diff(self.code_start)
        lo = np.zeros(self.n_features, np.uint16)
        hi = np.where(self.kind == ORDERED, n_codes - 2, 0).astype(np.uint16)
        sets = np.zeros(self.n_set_words, np.uint64)
        for j in np.flatnonzero(np.diff(self.set_start)):
            bits = 1
            if self.kind[j] != ORDERED:
                bits = (1 << (int(n_codes[j]) if self.nullable[j] else int(n_codes[j]) - 1)) - 1
            for w in range(int(self.set_start[j]), int(self.set_start[j + 1])):
                sets[w] = bits & 0xFFFFFFFFFFFFFFFF
                bits >>= 64
        return lo, hi, sets


def lower_corners(lo: np.ndarray, sets: np.ndarray, hi: np.ndarray, layout: BoxLayout) -> np.ndarray:
    """First point of each box, as codes: the lowest code of every feature, "missing" where there is no other."""
    codes = lo.astype(np.int64)
    missing = np.diff(layout.code_start) - 1
    for j in range(layout.n_features):
        if layout.kind[j] == ORDERED:
            codes[:, j] = np.where(lo[:, j] > hi[:, j], missing[j], codes[:, j])
        else:
            codes[:, j] = np.argmax(set_members(sets, layout, j), axis=1)
    return codes


def set_members(sets: np.ndarray, layout: BoxLayout, j: int) -> np.ndarray:
    """Set words of a categorical feature as a bool array of shape (n_boxes, n_codes)."""
    words = sets[:, layout.set_start[j] : layout.set_start[j + 1]]
    bits = (words[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    n_codes = int(layout.code_start[j + 1] - layout.code_start[j])
    return bits.reshape(len(sets), -1)[:, :n_codes].astype(bool)
