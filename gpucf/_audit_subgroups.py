"""Which combination of attributes carries the worst burden, corrected for looking at many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._audit_groups import Partition


@dataclass(frozen=True)
class Subgroup:
    """One combination of attribute values among those that were looked at.

    Attributes
    ----------
    name : str
    support : int
        Refused rows in it.
    z : float
        How much dearer its recourse is than that of all refused rows, in standard deviations of what chance does.
    p_adjusted : float
        Chance that any of the subgroups looked at would show so large a z if the attributes did not matter.
    burden, burden_rest, no_recourse, no_recourse_rest : pairs of float
        Inside it and outside of it.
    """

    name: str
    support: int
    z: float
    p_adjusted: float
    burden: tuple[float, float]
    burden_rest: tuple[float, float]
    no_recourse: tuple[float, float]
    no_recourse_rest: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def z_scores(sums: np.ndarray, sizes: np.ndarray, n: int, squares: float) -> np.ndarray:
    """Sums of scores that add up to 0 over all rows, in their standard deviations when rows are dealt out by chance.

    Parameters
    ----------
    sums : float64 array of shape (..., n_groups)
    sizes : int array of shape (n_groups,)
    n : int
        Rows in all.
    squares : float
        Sum of the squared scores of all rows.
    """
    variance = sizes * (n - sizes) / max(n * (n - 1.0), 1.0) * squares
    return np.divide(sums, np.sqrt(variance), out=np.zeros(sums.shape), where=np.broadcast_to(variance > 0, sums.shape))


def kruskal(sums: np.ndarray, sizes: np.ndarray, n: int, squares: float) -> np.ndarray:
    """Kruskal and Wallis' statistic (corrected for ties) of sums of centred scores by group."""
    shares = np.divide(sums**2, sizes, out=np.zeros(sums.shape), where=np.broadcast_to(sizes > 0, sums.shape))
    return (n - 1.0) * shares.sum(axis=-1) / squares if squares > 0 else np.zeros(sums.shape[:-1])


def adjusted_p(z: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """One-sided p-values of all subgroups by the largest z of each permutation (Westfall and Young 1993)."""
    if not z.size or not len(drawn):
        return np.full(z.shape, np.nan)
    largest = drawn.max(axis=-1)
    slack = 1e-9  # what is equal but for the order of its sums counts as equal
    return (1 + (largest[:, None] >= z[None, :] - slack).sum(axis=0)) / (len(drawn) + 1)


def candidates(
    parts: Sequence[Partition], members: Sequence[np.ndarray], sizes: Sequence[np.ndarray], least: int
) -> list[tuple[int, int, np.ndarray]]:
    """Groups with enough refused rows, but not all, each set of rows once: (partition, group, membership by cell)."""
    seen: set[bytes] = set()
    out = []
    for p, (part, member, size) in enumerate(zip(parts, members, sizes, strict=True)):
        for g in range(len(part.groups)):
            key = member[g].tobytes()
            if least <= size[g] < size.sum() and key not in seen:
                seen.add(key)
                out.append((p, g, member[g]))
    return out
