"""Compression and joining: disjoint boxes that cover the whole code space, labelled as the reference predictor labels.

Every code combination of small random ensembles is looked at; nothing is sampled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sizes

from gpucf._boxes import BoxLayout
from gpucf._cells import NATIVE, ONE_HOT, ORDERED, Cells, make_cells
from gpucf._compress import Boxes, compress
from gpucf._domain import CATEGORICAL, CONTINUOUS, Column, Domain, OneHotGroup
from gpucf._ensemble import VECTOR_LEAF, Ensemble, TreeBuilder
from gpucf._join import join, join_faces
from gpucf._labels import class_rule
from gpucf._links import classes_from_raw
from gpucf._masks import make_masks
from gpucf._predict import predict_raw
from gpucf._recut import n_steps, recut

N_CATEGORIES, N_ONE_HOT = 70, 67
SCALARS = ["above_0", "at_least_0", "xgb_logistic"]
# Name, columns ("x": ordered, "c": native categorical, "o": one-hot group), nullable ordered columns.
SPACES: list[tuple[str, str, bool]] = [
    ("ordered", "xxxx", False),
    ("nullable", "xxx", True),
    ("categories", "xxc", True),
    ("one-hot", "xxo", False),
    ("mixed", "xco", True),
]
Case = tuple[Ensemble, Cells, BoxLayout]


def random_case(seed: int, space: str, nullable: bool, dtype: Any, n_outputs: int, vector: bool) -> Case:
    rng = np.random.default_rng(seed)
    columns, groups = domain_columns(space)
    kinds = [c.kind for c in columns]
    builder = TreeBuilder("test", len(columns), dtype, dtype, n_outputs if vector else 1)
    for t in range(int(rng.integers(3, 7))):
        add_random_tree(builder, rng, kinds, groups, VECTOR_LEAF if vector else t % n_outputs)
    allows = np.array([nullable and c not in {i for g in groups for i in g.columns} for c in range(len(columns))])
    decision = "argmax" if n_outputs > 1 else SCALARS[seed % (3 if dtype == np.float32 else 2)]
    ensemble = builder.build(
        np.zeros(n_outputs), library="test", model_type="random", task="binary" if n_outputs < 3 else "multiclass",
        feature_names=tuple(c.name for c in columns), has_names=False, classes=np.arange(max(2, n_outputs)),
        allows_missing=allows, decision=decision, probability="none",
        categories=tuple(np.arange(N_CATEGORIES) if k == CATEGORICAL else None for k in kinds),
    )  # fmt: skip
    cells = make_cells(ensemble, Domain(tuple(columns), tuple(groups)))
    return ensemble, cells, BoxLayout.of(cells, np.array([allows[c[0]] for c in cells.columns]))


def domain_columns(space: str) -> tuple[list[Column], list[OneHotGroup]]:
    columns: list[Column] = []
    groups: list[OneHotGroup] = []
    for kind in space:
        start = len(columns)
        n = N_ONE_HOT if kind == "o" else 1
        for i in range(n):
            name = f"{kind}{start + i}"
            columns.append(Column(name, CATEGORICAL if kind == "c" else CONTINUOUS, np.dtype("float64")))
        if kind == "o":
            groups.append(OneHotGroup(f"group{start}", tuple(range(start, start + n))))
    return columns, groups


def add_random_tree(
    builder: TreeBuilder, rng: np.random.Generator, kinds: list[str], groups: list[OneHotGroup], output: int
) -> None:
    """A tree of depth 3 on few thresholds, its leaves small multiples of 1/4, so that sums tie."""
    one_hot = {c for g in groups for c in g.columns}
    plain = [c for c in range(len(kinds)) if c not in one_hot]
    n = 15
    feature = np.empty(n, np.int64)
    category_set = np.full(n, -1)
    for node in range(n):
        pool = rng.choice(len(plain) + len(groups))
        feature[node] = plain[pool] if pool < len(plain) else rng.choice(groups[pool - len(plain)].columns[:6])
        if kinds[feature[node]] == CATEGORICAL and node < 7:
            category_set[node] = builder.add_category_set(np.flatnonzero(rng.random(N_CATEGORIES) < 0.4))
    threshold = np.where(np.isin(feature, list(one_hot)), 0.5, rng.integers(0, 4, n) * 0.3)
    left = np.where(np.arange(n) < 7, 2 * np.arange(n) + 1, -1)
    shape = (n, builder.n_leaf_outputs)
    value = rng.integers(-4, 5, shape) / 4 if rng.random() < 0.7 else rng.normal(size=shape)
    builder.add_tree(
        feature, threshold, left, np.where(left < 0, -1, left + 1), rng.random(n) < 0.5, value, output, category_set
    )


def held(boxes: Boxes, layout: BoxLayout, i: int) -> list[np.ndarray]:
    """Codes that box `i` holds, feature by feature."""
    codes = []
    for j in range(layout.n_features):
        n = int(layout.code_start[j + 1] - layout.code_start[j])
        words = boxes.sets[i, layout.set_start[j] : layout.set_start[j + 1]]
        bits = [64 * w + b for w, word in enumerate(words.tolist()) for b in range(64) if word >> b & 1]
        if layout.kind[j] == ORDERED:
            assert bits in ([], [0])
            bits = list(range(int(boxes.lo[i, j]), int(boxes.hi[i, j]) + 1)) + [n - 1] * len(bits)
        codes.append(np.array(bits, np.int64))
    return codes


def expected_labels(case: Case, upper: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Class of every code combination by the reference predictor, as a grid, and the grid's codes by feature."""
    ensemble, cells, layout = case
    codes = [np.arange(int(n) - (0 if null else 1)) for n, null in zip(cells.n_codes, layout.nullable, strict=True)]
    grid = np.stack([g.ravel() for g in np.meshgrid(*codes, indexing="ij")], axis=1)
    X = np.zeros((len(grid), ensemble.n_features))
    for j, columns in enumerate(cells.columns):
        k, missing = grid[:, j], int(cells.n_codes[j]) - 1
        if cells.kind[j] == ONE_HOT:
            X[:, list(columns)] = k[:, None] == np.arange(len(columns))
        else:
            ends = (cells.cell_hi if upper else cells.cell_lo)[cells.code_start[j] : cells.code_start[j + 1]]
            X[:, columns[0]] = np.where(k == missing, np.nan, k if cells.kind[j] == NATIVE else ends[k])
    labels = classes_from_raw(ensemble, predict_raw(ensemble, X))
    return labels.reshape([len(c) for c in codes]), codes


def assert_partition(case: Case, boxes: Boxes) -> None:
    _, _, layout = case
    expected, codes = expected_labels(case, upper=False)
    assert np.array_equal(expected, expected_labels(case, upper=True)[0])  # a cell is one thing to the model
    count = np.zeros([len(c) for c in codes], np.int64)
    got = np.full(count.shape, -9)
    for i in range(len(boxes)):
        where = np.ix_(*held(boxes, layout, i))
        count[where] += 1
        got[where] = boxes.label[i]
    assert np.array_equal(count, np.ones_like(count))
    assert np.array_equal(got, expected)


def assert_same(a: Boxes, b: Boxes) -> None:
    for f in ("lo", "hi", "sets", "label"):
        assert np.array_equal(getattr(a, f), getattr(b, f))
        assert getattr(a, f).dtype == getattr(b, f).dtype


def compressed(case: Case, max_boxes: int = 1_000_000) -> Boxes:
    ensemble, cells, layout = case
    result = compress(ensemble, cells, make_masks(ensemble, cells), layout, class_rule(ensemble), max_boxes)
    assert result.complete
    return result.boxes


@pytest.mark.parametrize(("dtype", "n_outputs", "vector"), [
    (np.float32, 1, False), (np.float64, 1, False), (np.float64, 2, True), (np.float64, 3, True),
    (np.float32, 3, False),
])  # fmt: skip
@pytest.mark.parametrize(("name", "space", "nullable"), SPACES)
def test_boxes_are_a_partition_with_the_models_labels(
    name: str, space: str, nullable: bool, dtype: Any, n_outputs: int, vector: bool
) -> None:
    for seed in range(sizes.count(30)):
        case = random_case(seed, space, nullable, dtype, n_outputs, vector)
        boxes = compressed(case)
        assert_partition(case, boxes)
        faces = join_faces(boxes, case[2])
        assert_partition(case, faces)
        anew = recut(faces, case[2], 4000, seed)
        assert_partition(case, anew)
        joined = join(boxes, case[2])
        assert_partition(case, joined)
        assert len(anew) <= len(faces) <= len(boxes)
        assert len(joined) <= len(faces)
        assert_same(compressed(case), boxes)
        assert_same(join(boxes, case[2]), joined)


def test_recut_finds_what_faces_do_not_show() -> None:
    """Three boxes that tile a square around a corner: no two share a whole face, yet two boxes are enough."""
    layout = BoxLayout(np.zeros(2, np.int8), np.array([0, 4, 8]), np.zeros(3, np.int64), np.zeros(2, bool))
    lo = np.array([[0, 0], [1, 0], [1, 1], [0, 2]], np.uint16)
    hi = np.array([[0, 1], [2, 0], [2, 2], [0, 2]], np.uint16)
    boxes = Boxes(lo, hi, np.zeros((4, 0), np.uint64), np.array([0, 0, 0, 1], np.int16))
    assert len(join_faces(boxes, layout)) == 3
    anew = join(boxes, layout)
    assert sorted(anew.label.tolist()) == [0, 0, 1]


def test_recut_gives_back_what_it_cannot_better() -> None:
    case = random_case(1, "xxx", False, np.float64, 1, False)
    best = recut(join(compressed(case), case[2]), case[2], 20_000)
    assert recut(best, case[2], 20_000) is best
    assert recut(best, case[2], 0) is best


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_stops_cleanly(seed: int) -> None:
    case = random_case(seed, "xxxx", False, np.float64, 1, False)
    ensemble, cells, layout = case
    all_boxes = compressed(case)
    n = len(all_boxes)
    assert n > 4
    assert_same(compressed(case, n), all_boxes)  # exactly enough
    for max_boxes in (1, n // 2, n - 1):
        result = compress(ensemble, cells, make_masks(ensemble, cells), layout, class_rule(ensemble), max_boxes)
        assert not result.complete
        assert len(result.boxes) == max_boxes + 1
        assert 0.0 < result.share_done <= 1.0
        assert_same(result.boxes, all_boxes.take(np.arange(max_boxes + 1)))


def test_the_caller_can_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucf._compress._CHUNK", 3)
    case = random_case(0, "xxxx", False, np.float64, 1, False)
    ensemble, cells, layout = case
    seen: list[tuple[int, float]] = []

    def keep_going(n_boxes: int, share: float) -> bool:
        seen.append((n_boxes, share))
        return n_boxes < 6

    masks = make_masks(ensemble, cells)
    result = compress(ensemble, cells, masks, layout, class_rule(ensemble), 1000, keep_going)
    assert not result.complete
    assert [n for n, _ in seen] == [3, 6]
    assert 0.0 < seen[0][1] < seen[1][1] == result.share_done < 1.0
    assert len(result.boxes) == 6
    assert_same(compressed(case), compressed(case))  # small chunks change nothing


def test_effort_depends_on_counts_and_ends() -> None:
    layout = BoxLayout.of(random_case(0, "xxxx", False, np.float64, 1, False)[1], np.zeros(4, bool))
    steps = [n_steps(n, layout) for n in (0, 10, 1000, 1_000_000)]
    assert steps[0] == 0 < steps[1] < steps[2]
    assert steps[3] == 0
