"""The region map: the compressed partition of one label rule, its KD-trees, its proof, and its file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpucf._boxes import BoxLayout, lower_corners
from gpucf._cells import ONE_HOT, ORDERED, Cells
from gpucf._compress import Boxes, compress
from gpucf._ensemble import Ensemble
from gpucf._errors import FileFormatError, MapTooLargeError
from gpucf._join import join
from gpucf._kdtree import KdTree, build_kdtree
from gpucf._labels import ASK, LabelRule, labels_from_sums
from gpucf._masks import make_masks
from gpucf._predict import predict_sums

_MAGIC = b"gpucf region map\n"
_VERSION = 3
_MASK_BYTES_LIMIT = 2 << 30


@dataclass(frozen=True, eq=False)
class RegionMap:
    """A partition of everything that the model can tell apart into boxes with one label each.

    Attributes
    ----------
    ensemble, cells, layout, rule :
        What the map was made from.
    boxes : Boxes
        Disjoint, and together the whole space.
    trees : tuple of KdTree or None, one per label
    seconds : dict
        Time of each stage: "masks", "compress", "join", "index".
    n_compressed : int
        Boxes before joining.
    """

    ensemble: Ensemble
    cells: Cells
    layout: BoxLayout
    rule: LabelRule
    boxes: Boxes
    trees: tuple[KdTree | None, ...]
    seconds: dict[str, float]
    n_compressed: int

    @property
    def n_regions(self) -> int:
        return len(self.boxes)

    def check(self, samples_per_region: int = 4, seed: int = 0) -> dict[str, Any]:
        """Prove the partition, and compare its labels with the model's.

        Disjointness: no two boxes share a point (every pair whose bounding boxes meet in the index is compared).
        Cover: disjoint boxes whose exact point counts add up to that of the whole space leave nothing out. Labels: the
        reference predictor is asked at both corners of every region and at random points of it.

        Returns
        -------
        dict with "regions", "points_checked" (counts).

        Raises
        ------
        AssertionError
            If the map is wrong; that is a fault of gpucf.
        """
        from gpucf._mapcheck import check_map

        return check_map(self, samples_per_region, seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map to one file: versioned, checksummed, bound to its model and domain."""
        arrays = {f"boxes.{f.name}": getattr(self.boxes, f.name) for f in fields(Boxes)}
        for label, tree in enumerate(self.trees):
            if tree is not None:
                arrays.update({f"tree{label}.{f.name}": getattr(tree, f.name) for f in fields(KdTree)})
        arrays["nullable"] = self.layout.nullable
        payload = io.BytesIO()
        np.savez(payload, **arrays)
        body = payload.getvalue()
        head = {
            "version": _VERSION,
            "space": space_digest(self.ensemble, self.cells),
            "rule": self.rule.to_lists(),
            "n_compressed": self.n_compressed,
            "seconds": self.seconds,
        }
        rest = json.dumps(head).encode() + b"\n" + body
        write_atomically(Path(path), _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


def space_digest(ensemble: Ensemble, cells: Cells) -> str:
    """SHA-256 of the model and of the cells that the domain makes of it."""
    h = hashlib.sha256(ensemble.digest().encode())
    for f in fields(Cells):
        value = getattr(cells, f.name)
        h.update(f.name.encode())
        h.update(np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return h.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is either whole or not there."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(data)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FileFormatError(f"cannot write {path}: {error.strerror or error}") from error


def load_region_map(path: str | os.PathLike[str], ensemble: Ensemble, cells: Cells) -> RegionMap:
    """Read a map written by `RegionMap.save`, for the same model and domain.

    Raises
    ------
    FileFormatError
        If the file is damaged, foreign, of another version, or of another model or domain.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    if not raw.startswith(_MAGIC):
        raise FileFormatError(f"{path} is not a gpucf region map.")
    digest, _, rest = raw[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise FileFormatError(f"{path} is damaged: its checksum does not match. Rebuild it.")
    try:
        line, body = rest.split(b"\n", 1)
        head = json.loads(line)
        version = head["version"]
        if version != _VERSION:
            raise FileFormatError(
                f"{path} has format version {version!r}; this gpucf reads version {_VERSION}. Rebuild it."
            )
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if head["space"] != space_digest(ensemble, cells):
            raise FileFormatError(f"{path} is the map of another model, or of other feature declarations. Rebuild it.")
        layout = BoxLayout.of(cells, arrays["nullable"])
        rule = LabelRule.from_lists(head["rule"])
        trees = tuple(
            KdTree(**{f.name: arrays[f"tree{label}.{f.name}"] for f in fields(KdTree)})
            if f"tree{label}.child" in arrays
            else None
            for label in range(rule.n_labels)
        )
        boxes = Boxes(**{f.name: arrays[f"boxes.{f.name}"] for f in fields(Boxes)})
        return RegionMap(ensemble, cells, layout, rule, boxes, trees, head["seconds"], head["n_compressed"])
    except FileFormatError:
        raise
    except (ValueError, KeyError, TypeError, OSError, EOFError, RecursionError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{path} is damaged: its contents cannot be read.") from error


def build_region_map(
    ensemble: Ensemble,
    cells: Cells,
    nullable: np.ndarray,
    rule: LabelRule,
    max_regions: int,
    keep_going: Callable[[int, float], bool] = lambda n_regions, share: True,
) -> RegionMap:
    """Compress, join, index.

    Raises
    ------
    MapTooLargeError
        If more than `max_regions` boxes appear, or `keep_going` says stop.
    """
    _refuse_hopeless(ensemble, cells)
    layout = BoxLayout.of(cells, nullable)
    start = time.perf_counter()
    masks = make_masks(ensemble, cells)
    made = time.perf_counter()
    result = compress(ensemble, cells, masks, layout, rule, max_regions, keep_going)
    compressed = time.perf_counter()
    if not result.complete:
        raise MapTooLargeError(
            f"the region map of this model ({ensemble.n_trees} trees) does not fit: {len(result.boxes):,} regions "
            f"after {result.share_done:.2%} of the space (max_regions={max_regions:,}). Raise max_regions, or "
            "search without a map (method='search').",
            len(result.boxes),
            result.share_done,
        )
    boxes = join(_resolve_asked(ensemble, cells, layout, rule, result.boxes), layout)
    joined = time.perf_counter()
    members = [np.flatnonzero(boxes.label == label) for label in range(rule.n_labels)]
    trees = tuple(build_kdtree(boxes, layout, m) if len(m) else None for m in members)
    seconds = {
        "masks": made - start,
        "compress": compressed - made,
        "join": joined - compressed,
        "index": time.perf_counter() - joined,
    }
    return RegionMap(ensemble, cells, layout, rule, boxes, trees, seconds, len(result.boxes))


def _refuse_hopeless(ensemble: Ensemble, cells: Cells) -> None:
    n_codes = int(cells.code_start[-1])
    mask_bytes = 16 * n_codes * (len(ensemble.leaf_value) // 64 + ensemble.n_trees)
    largest = int(cells.n_codes.max(initial=0))
    if mask_bytes > _MASK_BYTES_LIMIT or largest > 65_000:
        raise MapTooLargeError(
            f"the region map of this model does not fit: {len(ensemble.leaf_value):,} leaves over {n_codes:,} cells "
            f"({largest:,} in one feature; at most 65,000 and {_MASK_BYTES_LIMIT >> 30} GiB of tables are used). "
            "Search without a map (method='search')."
        )


def rows_of_codes(ensemble: Ensemble, cells: Cells, codes: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Model rows that have the given codes: the first attainable value of each cell, the last where `upper`.

    float64 of shape (n_rows, n_columns), NaN for "missing"; categorical columns hold category indices.
    """
    X = np.zeros((len(codes), ensemble.n_features))
    for j, columns in enumerate(cells.columns):
        missing = int(cells.n_codes[j]) - 1
        c = codes[:, j].astype(np.int64)
        if cells.kind[j] == ONE_HOT:
            X[:, list(columns)] = c[:, None] == np.arange(len(columns))
            continue
        if cells.kind[j] == ORDERED:
            at = cells.code_start[j] + c
            value = np.where(upper[:, j], cells.cell_hi[at], cells.cell_lo[at])
            value = np.where(np.isnan(value), cells.cell_probe[at], value)
        else:
            value = c.astype(np.float64)
        X[:, columns[0]] = np.where(c == missing, np.nan, value)
    return X


def model_labels(ensemble: Ensemble, cells: Cells, rule: LabelRule, codes: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Labels of the reference predictor at rows with the given codes."""
    return labels_from_sums(ensemble, rule, predict_sums(ensemble, rows_of_codes(ensemble, cells, codes, upper)))


def _resolve_asked(ensemble: Ensemble, cells: Cells, layout: BoxLayout, rule: LabelRule, boxes: Boxes) -> Boxes:
    """Give boxes whose sums are settled, but whose label only the library's arithmetic can tell, that label."""
    asked = np.flatnonzero(boxes.label == ASK)
    if not len(asked):
        return boxes
    codes = lower_corners(boxes.lo[asked], boxes.sets[asked], boxes.hi[asked], layout)
    label = boxes.label.copy()
    label[asked] = model_labels(ensemble, cells, rule, codes, np.zeros(codes.shape, bool))
    return replace(boxes, label=label)
