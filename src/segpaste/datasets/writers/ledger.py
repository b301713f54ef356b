"""Ledger of a written dataset: what each of its images must hold when it is read again.

The facts of an image come from what was read, its sample or its entries, never from what the writer made of them. They
are small and JSON, so that they are in the note of their step: a run of any size needs little memory, and a resumed run
knows what it wrote before. `segpaste.datasets.writers.readback` compares them with the files.

Checksums are CRC-32: they find accidents, not attacks, and cost a third of a SHA-256.
"""

from __future__ import annotations

import json
import marshal
import math
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow, has_segmentation
from segpaste.datasets.formats.carried import POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.kept_shapes import KeptShape, entry_points_px
from segpaste.datasets.formats.references import refers
from segpaste.datasets.formats.yolo.labels import polygon_px, row_key, text_key
from segpaste.datasets.formats.yolo.outlines import given_corners
from segpaste.datasets.writers.format import POINTS, UNMASKED, View, made_of
from segpaste.datasets.writers.mask_sums import FILLED_BOX, has_pixels, mask_sum, measure, segmentation_sum
from segpaste.datasets.writers.xml_texts import object_texts
from segpaste.datasets.writers.yolo import label_rows
from segpaste.types import DenseSample

Kind = Literal["object", "boxed", "region", "ignored", "stuff", "entry", "kept", "line"]
"""Kind of an annotation: an object without a mask (``boxed``); a crowd or ignored ``region``, in COCO's entries
``ignored``; an unchanged ``entry`` of COCO, ``kept`` if it is such a region, or ``line`` of YOLO."""
UNCHANGED = ("entry", "kept", "line")

OF_ENTRIES = ("coco", "roboflow", "lvis")
HAS_TABLES = (*OF_ENTRIES, "coco-panoptic")
_OF_FILE = frozenset({"file_name", "width", "height"})
"""Keys of images that are compared with their files."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_BESIDE = frozenset({"iscrowd", "ignore", "area", "bbox"})
"""Keys of an unchanged entry that are compared by themselves, or added where they are missing."""


class Region(NamedTuple):
    """Annotation of an image, as a format holds it.

    Attributes:
        label: class, as position in the list of the view.
        kind: kind of annotation.
        box: [x, y, width, height] in pixel edges; None if it is not compared.
        area: pixels, or the number in the entry; None if it is not compared.
        points: x, y and v of each keypoint, zeros if not labelled, or x and y of each given corner of an oriented box;
            None without them.
        keys: checksum of the further keys, such as attributes; 0 if they are not compared. If they refer to others, the
            keys themselves and the ids of the original: the new ids are known at the end.
        mask: checksum of the mask, or of given polygons, see `segpaste.datasets.writers.mask_sums`, or `FILLED_BOX`; 0
            if it is not compared.
    """

    label: int
    kind: Kind
    box: list[float] | None = None
    area: float | None = None
    points: list[float] | None = None
    keys: int | JsonRow = 0
    mask: int = 0


@dataclass(slots=True)
class ExpectedImage:
    """Facts that a written image must hold.

    Attributes:
        file: path of the image, relative to the dataset's folder.
        size: (H, W) of its labels.
        num_bytes: size of the encoded file.
        sum: checksum of the encoded file.
        pixels: checksum of its pixels [H, W, 3], for a losslessly encoded image; None if they are not compared.
        views: annotations by the format of the view.
        keys: checksum of the further keys of its entry by the format of the view; the keys themselves if they refer to
            others.
        map_keys: checksum of the keys of the entry of its panoptic map; None without one.
        texts: texts of its further keys in an XML of VOC, by name.
        values: checksum of the values of each file of labels, depth, normals or camera.
        copies: checksum of the bytes of each other file that is copied, such as a map of segments.
        segments: checksum of the map of segments, numbered in the order of their entries; None without one.
        seen: class and visible area of each object, for formats with one object per pixel.
    """

    file: str
    size: tuple[int, int]
    num_bytes: int
    sum: int
    pixels: int | None = None
    views: dict[str, list[Region]] = field(default_factory=dict)
    keys: dict[str, int | JsonRow] = field(default_factory=dict)
    map_keys: int | None = None
    texts: JsonRow = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    segments: int | None = None
    seen: list[tuple[int, int]] | None = None

    @classmethod
    def of_note(cls, row: JsonRow) -> ExpectedImage:
        """Return the facts that were written into a note."""
        views = {name: [Region(*region) for region in regions] for name, regions in row["views"].items()}
        return cls(**{**row, "size": tuple(row["size"]), "views": views})

    def as_note(self) -> JsonRow:
        """Return the facts as JSON, without those that are empty."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {"views": self.views, **{name: value for name, value in facts.items() if value not in (None, {}, [])}}


def checksum(values: NDArray[Any]) -> int:
    """Return the checksum of an array: its shape and its values."""
    array = np.ascontiguousarray(values)
    return byte_sum(array.reshape(-1).view(np.uint8).data, zlib.crc32(repr(array.shape).encode()))


def byte_sum(content: bytes | memoryview, before: int = 0) -> int:
    """Return the checksum of many bytes, after those of a checksum ``before``, in a fraction of the time of zlib."""
    import deflate

    return int(deflate.crc32(content, before))


def digest(value: object) -> int:
    """Return the checksum of JSON, whatever the order of keys."""
    return zlib.crc32(_ENCODER.encode(value).encode())


def entry_digest(row: JsonRow) -> int:
    """Return the checksum of an entry that was read from JSON: faster than `digest`, for all its numbers."""
    whole = sorted(item for item in row.items() if item[0] not in _BESIDE)
    return zlib.crc32(marshal.dumps(whole, 2))


def region_digest(row: JsonRow, *, is_filled: bool) -> int:
    """Return the checksum of the entry of a region; without its segmentation if that is the filled box."""
    own = {key: value for key, value in row.items() if key != "segmentation" or not is_filled}
    return digest([entry_digest(own), bool(row.get("ignore"))])


def entry_regions(rows: Sequence[JsonRow], label_of: Mapping[int, int], size: tuple[int, int]) -> list[Region]:
    """Return the annotations of entries that are written unchanged.

    A missing box or area is that of the segmentation. A region without a pixel gets its filled box as mask.
    """
    found = []
    for row in rows:
        label, is_region = label_of[row["category_id"]], bool(row.get("iscrowd") or row.get("ignore"))
        box, area = row.get("bbox"), row.get("area")
        if (box is None or area is None) and has_segmentation(row):
            measured = measure(row["segmentation"], size)
            box, area = (measured[0] if box is None else box), (measured[1] if area is None else area)
        elif area is None and isinstance(box, list):
            area = box[2] * box[3]
        is_filled = is_region and not has_pixels(row, size)
        keys = region_digest(row, is_filled=is_filled) if is_region else entry_digest(row)
        mask = FILLED_BOX if is_filled else 0
        found.append(Region(label, "kept" if is_region else "entry", box, area, keys=keys, mask=mask))
    return found


def further_keys(row: JsonRow) -> JsonRow:
    """Return the keys of an entry that are no geometry and no id."""
    return {key: value for key, value in row.items() if key not in REGION_KEYS and key not in POINT_KEYS}


def image_keys(view: View, row: JsonRow, regions: Collection[int] = ()) -> JsonRow:
    """Return the keys of the entry of an image, with its id; of LVIS with its lists of classes, in ascending order.

    Args:
        view: the format.
        row: the entry.
        regions: ids of the classes with a crowd or ignored region, which LVIS does not hold; they are not exhaustive.
    """
    keys = {key: value for key, value in row.items() if key not in _OF_FILE}
    if view.format == "lvis":
        keys["neg_category_ids"] = sorted({*(row.get("neg_category_ids") or ())} - {*regions})
        keys["not_exhaustive_category_ids"] = sorted({*(row.get("not_exhaustive_category_ids") or ()), *regions})
    return keys


def map_digest(row: JsonRow) -> int:
    """Return the checksum of the keys of the entry of a panoptic map, with the id of its image, without its file."""
    return digest({key: value for key, value in row.items() if key not in ("file_name", "segments_info")})


def _keys(row: JsonRow) -> int | JsonRow:
    """Return the checksum of the further keys of an object, or the keys if they have ids of others."""
    keys = further_keys(row)
    return {**keys, **made_of(row)} if refers(keys, "objects") else digest(keys)


def sample_regions(
    view: View,
    sample: DenseSample,
    crowds: Sequence[Crowd],
    rows: Sequence[JsonRow],
    crowd_rows: Sequence[JsonRow],
    kept: Sequence[KeptShape] = (),
) -> list[Region]:
    """Return the annotations that a format must hold of a sample, in the order of its file.

    Args:
        view: the format.
        sample: sample whose labels index the names of the view.
        crowds: crowd and ignored regions.
        rows: entry of each instance with its further keys.
        crowd_rows: the same for each crowd.
        kept: the given numbers of each instance; none by default.
    """
    if view.format in ("coco-panoptic", "label-maps"):
        return []
    labels, boxes, own_points = sample.labels.tolist(), _boxes(sample), _points(view, sample)
    areas: Sequence[float | None] = areas_of(sample) or [width * height for *_, width, height in boxes]
    masks = masks_of(sample)
    found = []
    shapes = kept or [KeptShape()] * len(labels)
    facts = enumerate(zip(labels, boxes, areas, own_points, rows, shapes, strict=True))
    for slot, (label, box, area, own, row, shape) in facts:
        region = Region(label, "object", shape.entry.get("bbox", box), shape.entry.get("area", area), own)
        mask = None if masks is None else masks[slot]
        if view.format == "voc":
            region = region._replace(area=None, keys=digest(object_texts(row)))
        elif view.format == "yolo":
            region = region._replace(area=area if view.task in ("segment", "obb") else None)
            if (outline := _given_outline(view, sample, {**row, **shape.entry}, shape.line)) is not None:
                region = Region(label, "object", points=outline)
            elif view.task == "segment" and mask is not None:
                region = region._replace(mask=mask_sum(mask, box))
        elif view.format in OF_ENTRIES:
            points = entry_points_px(row) if own is None else own
            region = region._replace(points=points, keys=_keys(row), mask=_shape_sum(shape, mask, box))
        found.append(region)
    found += _crowd_regions(view, crowds, crowd_rows)
    return _unequal(view, sample, crowds, rows, shapes, found) if view.format == "yolo" else found


def _shape_sum(shape: KeptShape, mask: NDArray[np.bool_] | None, box: Sequence[float]) -> int:
    """Return the checksum of the given polygons of an object, or else of its mask; 0 without both."""
    if given := shape.entry.get("segmentation"):
        return segmentation_sum(given)
    return 0 if mask is None else mask_sum(mask, box)


def _given_outline(view: View, sample: DenseSample, row: JsonRow, line: Sequence[float] | None) -> list[float] | None:
    """Return the outline of an object, in pixels, that a label file of YOLO must have; None if its mask is traced."""
    if line is not None:
        return polygon_px(line, sample.canvas_size) if view.task in ("segment", "obb") else None
    corners = given_corners(row.get("segmentation"), sample.canvas_size) if view.task == "obb" else None
    return None if corners is None else corners.ravel().tolist()


def _unequal(
    view: View,
    sample: DenseSample,
    crowds: Sequence[Crowd],
    rows: Sequence[JsonRow],
    shapes: Sequence[KeptShape],
    regions: Sequence[Region],
) -> list[Region]:
    """Return the regions of a sample without those whose row in a label file equals an earlier one.

    Equal polygons are equal masks. Other rows are equal after rounding, and equal boxes are checked again, so that a
    writer that repeats a row is found.
    """
    if view.task == "segment":
        masks = masks_of(sample)
        assert masks is not None
        alike = Counter((region.label, region.area) for region in regions)
        keys: Sequence[object] = [
            row_key(region.label, shape.line)
            if shape.line is not None
            else checksum(mask)
            if alike[region.label, region.area] > 1
            else i
            for i, (mask, shape, region) in enumerate(zip(masks, shapes, regions, strict=True))
        ]
    else:
        has_boxes = view.task in ("detect", "pose")
        boxed = [(crowd.label, crowd.box) for crowd in crowds if crowd.box is not None and has_boxes]
        rows = [{**row, **shape.entry} for row, shape in zip(rows, shapes, strict=True)]
        texts = label_rows(sample, view.task, view.point_size, rows, boxed, [shape.line for shape in shapes])
        keys = [*map(text_key, texts)]
    limit = math.inf if view.task == "obb" else 1e-5 * max(sample.canvas_size)
    first = dict[object, Region]()
    kept = []
    for key, region in zip(keys, regions, strict=True):
        same = first.setdefault((region.label, key), region)
        edges = zip(same.box or (), region.box or (), strict=False)
        if same is region or any(abs(one - other) > limit for one, other in edges):
            kept.append(region)
    return kept


def _crowd_regions(view: View, crowds: Sequence[Crowd], rows: Sequence[JsonRow]) -> Iterator[Region]:
    """Yield the objects without a mask and the regions that a format holds; in VOC the objects come first."""
    pairs = list(zip(crowds, rows, strict=True))
    if view.format == "voc":
        pairs.sort(key=lambda pair: pair[0].box is None)
    is_coco, has_boxes = view.format in OF_ENTRIES, view.task in ("detect", "pose") and view.format == "yolo"
    for crowd, row in pairs:
        keys = _keys(row) if is_coco else digest(object_texts(row)) if view.format == "voc" else 0
        if crowd.xywh is not None and (is_coco or view.format == "voc" or has_boxes):
            area = crowd.xywh[2] * crowd.xywh[3] if is_coco else None
            yield Region(crowd.label, "boxed", [*crowd.xywh], area, entry_points_px(row) if is_coco else None, keys)
        elif crowd.box is None and view.format in ("coco", "roboflow"):
            box = extent_of(crowd.mask)
            kind: Kind = "ignored" if crowd.is_ignored else "region"
            area = int(crowd.mask.sum())
            yield Region(crowd.label, kind, box, area, entry_points_px(row), keys, mask_sum(crowd.mask, box))
        elif crowd.box is None and view.format == "voc" and crowd.mask.any():
            yield Region(crowd.label, "region", extent_of(crowd.mask), None, None, keys)


def _boxes(sample: DenseSample) -> list[list[float]]:
    edges = sample.boxes.as_subclass(Tensor).double().tolist()
    return [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in edges]


def masks_of(sample: DenseSample) -> NDArray[np.bool_] | None:
    """Return the masks of a sample, [N, H, W]."""
    return None if sample.instance_masks is None else sample.instance_masks.as_subclass(Tensor).numpy()


def areas_of(sample: DenseSample) -> list[int]:
    """Return the area of each mask of a sample; empty without masks."""
    masks = masks_of(sample)
    return [] if masks is None else [int(np.count_nonzero(mask)) for mask in masks]


def _points(view: View, sample: DenseSample) -> list[list[float] | None]:
    if sample.keypoints is None or (view.format == "yolo" and view.task != "pose") or view.format == "voc":
        return [None] * sample.num_instances
    points = sample.keypoints.double().numpy().copy()
    points[points[..., 2] == 0] = 0
    if view.format == "yolo" and view.point_size == 2:
        points[..., 2] = np.where(points[..., 2] > 0, 2, 0)
    labels = sample.labels.tolist()
    shown = [view.format == "yolo" or label in view.with_points for label in labels]
    return [own.ravel().tolist() if is_shown else None for own, is_shown in zip(points, shown, strict=True)]


def extent_of(mask: NDArray[np.bool_]) -> list[float]:
    """Return the box of a mask [H, W]; zeros if it is empty."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return [0, 0, 0, 0]
    return [int(cols[0]), int(rows[0]), int(cols[-1] - cols[0]) + 1, int(rows[-1] - rows[0]) + 1]


def unnamed_losses(
    view: View,
    sample: DenseSample,
    crowds: Sequence[Crowd],
    seen: Sequence[tuple[int, int]] | None,
    told: Counter[str],
) -> Counter[str]:
    """Return the losses of an image that a writer does not name, with the words that writers use.

    Args:
        view: the written format.
        sample: the sample that was written.
        crowds: its crowd and ignored regions.
        seen: class and visible area of each object, in formats with one object per pixel.
        told: the losses that the writer named.
    """
    lost = Counter[str]()
    boxed, regions = (sum((crowd.box is None) == is_region for crowd in crowds) for is_region in (False, True))
    if view.format not in (*OF_ENTRIES, "voc", "coco-panoptic"):
        lost["crowd regions"] = sum(not crowd.is_ignored for crowd in crowds if crowd.box is None)
        lost["ignored regions"] = regions - lost["crowd regions"]
    if view.format in ("label-maps", "coco-panoptic") or (view.format, view.task) == ("yolo", "segment"):
        lost[UNMASKED] = boxed
    keeps_points = view.format in (*OF_ENTRIES, "coco-panoptic") or (view.format, view.task) == ("yolo", "pose")
    if sample.keypoints is not None and not keeps_points:  # entries of segments may have them, which the writer knows
        lost[POINTS] = int((sample.keypoints[..., 2] > 0).any(1).sum())
    if seen is not None and sample.panoptic_map is None and sample.instance_masks is not None:
        pairs = list(zip(seen, areas_of(sample), strict=True))
        lost["objects partly covered by another"] = sum(0 < num < area for (_, num), area in pairs)
        lost["objects wholly covered by others"] = sum(num == 0 < area for (_, num), area in pairs)
    if view.format == "yolo" and view.task in ("detect", "pose") and sample.instance_masks is not None:
        lost[f"masks of objects (the task {view.task} has none)"] = sample.num_instances
    return lost - told
