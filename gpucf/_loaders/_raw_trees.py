"""Trees over transformed columns, rewritten as trees over the raw columns that feed them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpucf._ensemble import NO_CATEGORY_SET, Ensemble
from gpucf._errors import ModelError
from gpucf._loaders._raw_probe import Probe, check_copies, last_left, zero_range
from gpucf._loaders._transformers import Signal
from gpucf._loaders._zero_missing import send_zeros_the_missing_way
from gpucf._raw import UNKNOWN, RawColumns


class RawTrees:
    """One reading: the model's ensemble, what feeds each of its columns, and the transformers to ask.

    ``becomes[m]`` holds what transformed column `m` is for each level of its raw column (nothing for numbers), and
    ``absent[m]`` what it is for a missing value there.
    """

    def __init__(self, inner: Ensemble, library: str, signals: list[Signal], probe: Probe) -> None:
        self.inner, self.library, self.signals, self.probe = inner, library, signals, probe
        self.found = probe.found
        used = {s.source for s in signals} if probe.names is not None else range(probe.n_raw)
        self.columns = sorted(used)
        self.position = {source: j for j, source in enumerate(self.columns)}
        self.levels: dict[int, list[Any]] = {}
        self.absent = np.full(len(signals), np.nan)
        self.allows_missing = np.zeros(len(self.columns), bool)
        self.missing_levels: list[tuple[Any, ...] | None] = [()] * len(self.columns)
        for source in self.columns:
            self._missing_values(source)
        self.becomes = self._levels()

    def ensemble(self, model_type: str) -> Ensemble:
        """The ensemble over the raw columns."""
        inner, names = self.inner, self.found.names
        split = inner.left >= 0
        m_of = np.where(split, inner.feature, 0)
        source = np.asarray([s.source for s in self.signals], np.int64)
        feature = np.asarray([self.position[s] for s in source], np.int32)
        leveled = split & np.isin(source[m_of], list(self.levels))
        threshold, missing_left = self._numeric(split & ~leveled)
        sets, set_of = self._sets(leveled, missing_left)
        lengths = [len(s) for s in sets]
        categories = [_category_array(self.levels[s]) if s in self.levels else None for s in self.columns]
        is_used = set(self.columns)
        out = replace(
            inner,
            library="sklearn",
            model_type=model_type,
            n_features=len(self.columns),
            feature_names=tuple(names[s] for s in self.columns),
            has_names=self.probe.names is not None,
            # Raw numbers are compared as they are: the transformers compute in float64.
            compare_dtype=np.dtype(np.float64),
            allows_missing=self.allows_missing,
            categories=tuple(categories),
            feature=np.where(split, feature[m_of], -1).astype(np.int32),
            threshold=threshold,
            missing_left=missing_left,
            category_set=set_of,
            category_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            category_words=np.concatenate([*sets, np.zeros(0, np.uint64)]),
            raw=RawColumns(
                ignored=tuple(names[j] for j in range(self.probe.n_raw) if j not in is_used),
                missing_levels=tuple(self.missing_levels),
                unknown=tuple(self.levels.get(s, [])[-1:] == [UNKNOWN] for s in self.columns),
                no_float32=tuple(s in self.found.no_float32 for s in self.columns),
            ),
        )
        if self.probe.zero_is_missing:
            low, high = zip(*(zero_range(signal) for signal in self.signals), strict=True)
            numeric = split & ~leveled
            out = send_zeros_the_missing_way(
                out, np.where(numeric, m_of, -1), np.asarray(low), np.asarray(high), inner.missing_left
            )
        return out

    def _of(self, source: int) -> list[int]:
        return [m for m, s in enumerate(self.signals) if s.source == source]

    def _missing_values(self, source: int) -> None:
        """What a missing value, and a level that training never saw, become."""
        own, j = self._of(source), self.position[source]
        gone = self._accepted(own, self.probe.missing(source))
        same: list[Any] = [v for v in (self.found.marker.get(source),) if v is not None]
        if source in self.found.levels:
            lost = None
            if all(self.signals[m].is_level or self.inner.categories[m] is not None for m in own):
                lost = self._accepted(own, self.probe.unknown(source))
            if lost is not None and (gone is None or np.array_equal(lost, gone, equal_nan=True)):
                gone, lost = lost, None
                self.missing_levels[j] = None
            self.levels[source] = [v for v in self.found.levels[source] if not self._means_missing(source, v, gone)]
            same += [v for v in self.found.levels[source] if v not in self.levels[source]]
            if lost is not None:
                self.levels[source].append(UNKNOWN)
        if gone is None:
            return
        self.absent[own] = gone
        self.allows_missing[j] = True
        if self.missing_levels[j] is not None:
            self.missing_levels[j] = tuple(same)

    def _accepted(self, own: list[int], column: Any) -> np.ndarray | None:
        """Values of the own columns, or None where the trees' library would refuse them."""
        if column is None:
            return None
        values = np.asarray([column(m)[0] for m in own], dtype=np.float64)
        return values if all(self._takes(m, v) for m, v in zip(own, values, strict=True)) else None

    def _takes(self, m: int, value: float) -> bool:
        if np.isnan(value):
            return bool(self.inner.allows_missing[m])
        return not (self.inner.categories[m] is not None and value < 0.0 and self.library == "xgboost")

    def _means_missing(self, source: int, level: Any, gone: np.ndarray | None) -> bool:
        """Whether a level is the word that a constant imputer puts in for a missing value."""
        if gone is None or level not in self.found.fills[source]:
            return False
        own = self._of(source)
        got = self._accepted(own, self.probe.ask(1, {source: [level]}))
        return got is not None and np.array_equal(got, gone, equal_nan=True)

    def _levels(self) -> list[np.ndarray]:
        """For every transformed column its value at each raw level; levels that the trees refuse are dropped."""
        n = max((len(v) for v in self.levels.values()), default=0)
        if not n:
            return [np.zeros(0)] * len(self.signals)
        given = {}
        for source, levels in self.levels.items():
            values = [self.probe.made_up(source) if v is UNKNOWN else v for v in levels]
            given[source] = values + [self.probe.neutral(source)] * (n - len(values))
        try:
            column = self.probe.ask(n, given)
            becomes = [column(m) if s.source in self.levels else np.zeros(0) for m, s in enumerate(self.signals)]
        except (ValueError, TypeError) as error:
            raise ModelError(f"the pipeline cannot transform the levels that it was fitted on: {error}") from error
        for source, levels in self.levels.items():
            own = self._of(source)
            good = np.asarray([all(self._takes(m, becomes[m][i]) for m in own) for i in range(len(levels))], bool)
            self.levels[source] = [v for v, g in zip(levels, good, strict=True) if g]
            for m in own:
                becomes[m] = becomes[m][: len(levels)][good]
        return becomes

    def _numeric(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Raw thresholds and missing directions of the numeric splits in `nodes`."""
        inner, dtype = self.inner, self.inner.compare_dtype
        threshold, missing_left = np.zeros(inner.n_nodes), np.zeros(inner.n_nodes, bool)
        cuts: dict[int, np.ndarray] = {}
        for m, signal in enumerate(self.signals):
            at = np.flatnonzero(nodes & (inner.feature == m))
            if not len(at):
                continue
            distinct, which = np.unique(inner.threshold[at], return_inverse=True)
            raw = last_left(signal, distinct, dtype)
            cuts[signal.source] = np.concatenate([cuts.get(signal.source, np.zeros(0)), raw])
            threshold[at] = raw[which]
            gone = self.absent[m]
            missing_left[at] = inner.missing_left[at] if np.isnan(gone) else dtype.type(gone) <= inner.threshold[at]
        check_copies(self.probe, self.signals, cuts)
        return threshold, missing_left

    def _sets(self, nodes: np.ndarray, missing_left: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Category sets (as words) of the splits in `nodes`, and each node's; fills in their `missing_left`."""
        inner = self.inner
        set_of = np.full(inner.n_nodes, NO_CATEGORY_SET, np.int32)
        sets: list[np.ndarray] = []
        known: dict[tuple[Any, ...], tuple[int, bool]] = {}
        for node in np.flatnonzero(nodes).tolist():
            m = int(inner.feature[node])
            key = (m, float(inner.threshold[node]), int(inner.category_set[node]), bool(inner.missing_left[node]))
            if key not in known:
                left = self._goes_left(node, np.append(self.becomes[m], self.absent[m]))
                known[key] = (len(sets), bool(left[-1]))
                sets.append(_words(np.flatnonzero(left[:-1])))
            set_of[node], missing_left[node] = known[key]
        return sets, set_of

    def _goes_left(self, node: int, values: np.ndarray) -> np.ndarray:
        """The side that a split of the trees chooses for transformed values (category indices at category splits)."""
        inner, gone = self.inner, np.isnan(values)
        default = bool(inner.missing_left[node])
        with np.errstate(over="ignore"):
            narrow = values.astype(inner.compare_dtype)
        number = int(inner.category_set[node])
        if number < 0:
            return np.where(gone, default, narrow <= inner.threshold[node])
        words = inner.category_words[inner.category_start[number] : inner.category_start[number + 1]]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
        index = np.where(gone, -1.0, values).astype(np.int64)
        listed = (index >= 0) & (index < len(bits)) & bits[np.clip(index, 0, len(bits) - 1)]
        # scikit-learn takes a category it never saw for a missing value; to LightGBM it is in no set.
        unseen = gone | ((index < 0) & (self.library == "sklearn"))
        return np.where(unseen, default, listed)


def _words(members: np.ndarray) -> np.ndarray:
    words = np.zeros(int(members.max()) // 64 + 1 if len(members) else 1, np.uint64)
    np.bitwise_or.at(words, members // 64, np.uint64(1) << (members % 64).astype(np.uint64))
    return words


def _category_array(levels: list[Any]) -> np.ndarray:
    """Levels as `Ensemble.categories` holds them: numbers and booleans in their dtype, everything else as objects."""
    array = np.array(levels)
    if array.dtype.kind in "iufb" and len({type(v) for v in levels}) == 1:
        return array
    out = np.empty(len(levels), object)
    out[:] = levels
    return out
