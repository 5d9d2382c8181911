"""Bootstrap and permutations of the refused rows, as sums by cell: the finest groups that the attributes make.

Both draw whole rows, so that all measures, and all groups that a row belongs to, are drawn together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Strata:
    """Refused rows by cell.

    Attributes
    ----------
    V : float64 array of shape (n, n_columns)
    cells : int64 array of shape (n,)
    n_cells : int
    """

    V: np.ndarray
    cells: np.ndarray
    n_cells: int

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.cells, minlength=self.n_cells)

    def sums(self) -> np.ndarray:
        """Sums as observed, of shape (n_cells, n_columns)."""
        out = np.zeros((self.n_cells, self.V.shape[1]))
        np.add.at(out, self.cells, self.V)
        return out


def bootstrap(
    strata: Strata, groups: Sequence[tuple[np.ndarray, np.ndarray]], q: float, n_draws: int, seed: Sequence[int],
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Sums by cell of each resample of the refused rows, and a quantile of each of some groups.

    Parameters
    ----------
    strata : Strata
    groups : list of pairs
        Rows of a group, ascending by value, and these values.
    q : float
        Which quantile.
    seed : list of int
        The draws depend on it alone.

    Returns
    -------
    sums : float64 array of shape (n_draws, n_cells, n_columns)
    quantiles : float64 array of shape (n_draws, n_groups)
        NaN where a resample has no row of the group.
    """
    sums = np.zeros((n_draws, strata.n_cells, strata.V.shape[1]))
    found = np.full((n_draws, len(groups)), np.nan)
    if len(strata.V) and n_draws:
        from gpucf._audit_kernels import resample

        starts = np.cumsum([0, *(len(rows) for rows, _ in groups)]).astype(np.int64)
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in groups)])
        values = np.concatenate([np.zeros(0), *(values for _, values in groups)])
        _in_parts(
            lambda part, seeds: resample(
                strata.V, strata.cells, seeds, rows, values, starts, q, sums[part], found[part]
            ),
            n_draws, seed, n_threads,
        )  # fmt: skip
    return sums, found


def permutations(strata: Strata, n_draws: int, seed: Sequence[int], n_threads: int = 1) -> np.ndarray:
    """Sums by cell after the rows were dealt out anew to cells of the same sizes.

    Returns
    -------
    float64 array of shape (n_draws, n_cells, n_columns)
    """
    sums = np.zeros((n_draws, strata.n_cells, strata.V.shape[1]))
    if len(strata.V) and n_draws:
        from gpucf._audit_kernels import deal

        _in_parts(lambda part, seeds: deal(strata.V, strata.cells, seeds, sums[part]), n_draws, seed, n_threads)
    return sums


def _in_parts(work: Callable[[slice, np.ndarray], None], n: int, seed: Sequence[int], n_threads: int) -> None:
    """Each draw has a seed of its own, so that it does not matter which thread makes it."""
    seeds = np.random.SeedSequence(list(seed)).generate_state(n, np.uint64)
    each = -(-n // max(n_threads, 1))
    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        parts = [slice(start, min(start + each, n)) for start in range(0, n, each)]
        for done in [pool.submit(work, part, seeds[part]) for part in parts]:
            done.result()


def bootstrap_counts(
    sizes: np.ndarray, refused: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and refused rows by cell when all rows are resampled: counts are all that a share needs."""
    share = np.stack([refused, sizes - refused]).ravel() / max(int(sizes.sum()), 1)
    if not sizes.sum():
        return np.zeros((n_resamples, len(sizes))), np.zeros((n_resamples, len(sizes)))
    drawn = rng.multinomial(int(sizes.sum()), share, size=n_resamples).reshape(n_resamples, 2, -1)
    return drawn.sum(axis=1).astype(np.float64), drawn[:, 0].astype(np.float64)


def permuted_counts(
    sizes: np.ndarray, refused: np.ndarray, n_permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """Refused rows by cell when the decisions are dealt out anew among all rows."""
    if not sizes.sum():
        return np.zeros((n_permutations, len(sizes)))
    # The other method counts rows one by one.
    drawn = rng.multivariate_hypergeometric(sizes, int(refused.sum()), size=n_permutations, method="marginals")
    return drawn.astype(np.float64)


def percentile_interval(draws_low: np.ndarray, draws_high: np.ndarray, level: float) -> tuple[float, float]:
    """Percentiles of bootstrap draws (Efron and Tibshirani 1993, chapter 13); infinite draws are ordinary ones.

    Where draws are intervals, the lower end is taken from lower ends and the upper from upper ends. NaN where a
    twentieth of the draws or more have no value.
    """
    ok = ~np.isnan(draws_low) & ~np.isnan(draws_high)
    n = int(ok.sum())
    if n < 0.95 * len(ok) or not n:
        return float("nan"), float("nan")
    tail = (1.0 - level) / 2.0
    low, high = np.sort(draws_low[ok]), np.sort(draws_high[ok])
    return float(low[int(np.floor(tail * (n - 1)))]), float(high[int(np.ceil((1.0 - tail) * (n - 1)))])


def p_value(observed: tuple[float, float], drawn: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Share of permutations at least as extreme, the observed one among them (Phipson and Smyth 2010), as an interval.

    For intervals the ends are those of all that the open rows could be.
    """
    if np.isnan(observed[0]) or not len(drawn[0]):
        return float("nan"), float("nan")
    # Sums in another order differ in the last digits; what is equal but for that counts as equal.
    slack = 1e-9 * max(abs(observed[0]) if np.isfinite(observed[0]) else 0.0, 1e-300)
    surely = int((drawn[0] >= observed[1] - slack).sum())
    perhaps = int((drawn[1] >= observed[0] - slack).sum())
    n = len(drawn[0]) + 1
    return (1 + surely) / n, (1 + perhaps) / n


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's step-down adjustment (Holm 1979); NaN entries are no test and stay."""
    given = np.asarray(p, np.float64)
    out = np.full(given.shape, np.nan)
    at = np.flatnonzero(~np.isnan(given))
    ranked = at[np.argsort(given[at], kind="stable")]
    out[ranked] = np.minimum(np.maximum.accumulate(given[ranked] * np.arange(len(ranked), 0, -1)), 1.0)
    return out
