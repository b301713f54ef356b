"""Facts of a written image for the ledger: from the image as it came to the writer, never from what was made of it.

Label maps, depth, normals and cameras are made as values of files by code that no format uses. See
`segpaste.datasets.writers.ledger` for annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import IMAGE_KEYS, REGION_KEYS
from segpaste.datasets.formats.kept_shapes import entry_points_px
from segpaste.datasets.formats.pixel_bytes import DepthFormat
from segpaste.datasets.formats.references import refers
from segpaste.datasets.writers.coco import Crowds
from segpaste.datasets.writers.format import VOID, LabelledImage, Losses, Unchanged, View
from segpaste.datasets.writers.ledger import (
    HAS_TABLES,
    ExpectedImage,
    Kind,
    Region,
    areas_of,
    byte_sum,
    checksum,
    digest,
    entry_regions,
    extent_of,
    further_keys,
    image_keys,
    map_digest,
    masks_of,
    sample_regions,
    unnamed_losses,
)
from segpaste.datasets.writers.xml_texts import image_texts
from segpaste.types import IGNORE_INDEX, DenseSample, SemanticMap

_LARGEST_MM = 65_535
_REGIONS = "crowd and ignored regions"


def expect_labels(view: View, image: LabelledImage, expected: ExpectedImage, told: Losses) -> None:
    """Add the annotations that an image must hold in a format.

    Args:
        view: the format.
        image: the image, with the classes of the view and the visible regions.
        expected: the facts of the image.
        told: the losses that the format named; those that it did not name are added.
    """
    if view.format in HAS_TABLES:
        keys = image_keys(view, image.entry, _region_ids(view, image))
        expected.keys[view.format] = keys if refers(keys, "images", IMAGE_KEYS) else digest(keys)
    elif view.format == "voc":
        expected.texts = image_texts(image.entry, view.split)
    if view.format == "coco-panoptic":
        given = None if image.unchanged is None else image.unchanged.map
        expected.map_keys = map_digest({"image_id": image.entry["id"]} if given is None else given[0])
    is_unchanged, maps = _add_unchanged(view, image, expected), Maps(None)
    if is_unchanged and (image.sample is None or _holds_pixels(image.unchanged)):
        return
    sample, regions, rows = image.labelled, [crowd for crowd, _ in image.crowds], [row for _, row in image.crowds]
    if not is_unchanged:
        maps = label_maps(view, image.stem, sample, regions, image.void, (image.rows, rows))
        found = list(maps.regions) or sample_regions(view, sample, regions, image.rows, rows, image.shapes)
        expected.views[view.format] = found
        expected.values |= {path: checksum(values) for path, values in maps.files.items()}
        expected.seen = maps.seen or expected.seen
        if maps.segments is not None:
            expected.segments = checksum(maps.segments)
        told.update(covered_regions(maps, regions))
        told.update(unnamed_losses(view, sample, regions, maps.seen, told))
    if image.void is not None and view.format != "label-maps":
        told[VOID] += int(image.void.any())
    told.update(semantic_losses(view, sample, regions, maps))


def _region_ids(view: View, image: LabelledImage) -> set[int]:
    """Return the ids of the classes with a crowd or ignored region in an image."""
    if image.unchanged is None:
        return {view.categories[crowd.label]["id"] for crowd, _ in image.regions}
    return {row["category_id"] for row in image.unchanged.given if row.get("iscrowd") or row.get("ignore")}


def as_labelled(image: LabelledImage, labels: Sequence[int], *, hides: bool) -> LabelledImage:
    """Return an image with these classes, and, if pastes may hide parts of its regions, with their visible parts."""
    sample, crowds = image.labelled, image.crowds
    crowds = _left(sample, crowds) if hides else crowds
    if any(label != own for own, label in enumerate(labels)):
        classes = np.array([*labels, *range(len(labels), 256)])
        sample = replace(sample, labels=torch.from_numpy(classes[sample.labels.numpy()]))
        if sample.semantic_map is not None:
            semantic = classes[sample.semantic_map.as_subclass(Tensor).numpy()]
            sample = replace(sample, semantic_map=SemanticMap(torch.from_numpy(semantic)))
        crowds = [(crowd._replace(label=labels[crowd.label]), row) for crowd, row in crowds]
    return replace(image, sample=sample, crowds=crowds)


def _holds_pixels(unchanged: Unchanged | None) -> bool:
    """Return whether unchanged annotations are all that there is: a panoptic map, or a label file of YOLO."""
    return unchanged is not None and (unchanged.map is not None or unchanged.text is not None)


def _add_unchanged(view: View, image: LabelledImage, expected: ExpectedImage) -> bool:
    """Add annotations that are written as they were read; return False if they come from the sample."""
    if (same := image.unchanged) is None:
        return False
    if same.text is not None:
        lines = [line.split() for line in same.text.splitlines() if line.strip()]
        expected.views[view.format] = [Region(int(float(row[0])), "line", keys=digest(row)) for row in lines]
        return True
    label_of = {int(row["id"]): label for label, row in enumerate(view.categories)}
    if same.map is None:
        given = [{**row, "segmentation": []} if row.get("segmentation", ()) is None else row for row in same.given]
        regions = entry_regions(given, label_of, expected.size)
        is_held = view.format != "lvis"
        expected.views[view.format] = [region for region in regions if is_held or region.kind != "kept"]
        return True
    row, path = same.map
    expected.views[view.format] = [
        Region(label_of[row["category_id"]], "entry", keys=digest(row)) for row in same.given
    ]
    folder = f"annotations/panoptic_{view.split}" if view.split else "panoptic"
    expected.copies[f"{folder}/{image.stem}{Path(row['file_name']).suffix or '.png'}"] = byte_sum(path.read_bytes())
    return True


def _left(sample: DenseSample, crowds: Crowds) -> Crowds:
    """Return the visible regions, which are those that are written."""
    if sample.crowd_mask is None:
        return []
    seen: NDArray[np.bool_] = sample.crowd_mask.as_subclass(Tensor)[0].numpy()
    cut = [(_cut(crowd, seen), row) for crowd, row in crowds]
    return [(crowd, row) for crowd, row in cut if crowd.mask.any()]


def _cut(crowd: Crowd, seen: NDArray[np.bool_]) -> Crowd:
    """Return the visible part of a region, or of an object without a mask, whose box is cut if pixels are hidden."""
    mask = crowd.mask & seen
    if crowd.box is None or np.array_equal(mask, crowd.mask):
        return crowd._replace(mask=mask)
    x, y, width, height = extent_of(mask)
    x1, y1, x2, y2 = crowd.box
    box = max(x1, x), max(y1, y), min(x2, x + width), min(y2, y + height)
    return crowd._replace(mask=mask, box=box, given=None)


def owner_map(sample: DenseSample) -> NDArray[Any]:
    """Return the object of each pixel, [H, W] from 1, 0 without one; where masks overlap, the smaller one is on top."""
    masks = masks_of(sample)
    num = 0 if masks is None else len(masks)
    owners = np.zeros(sample.canvas_size, np.uint8 if num <= 255 else np.uint16)
    if masks is None:
        return owners
    areas = areas_of(sample)
    for position in np.argsort(-np.array(areas, np.int64), kind="stable").tolist():
        x, y, width, height = (int(edge) for edge in _boxes_of(sample, position))
        part = masks[position, y : y + height, x : x + width]
        if np.count_nonzero(part) == areas[position]:  # the box covers the mask, and is much smaller than the image
            np.copyto(owners[y : y + height, x : x + width], position + 1, where=part, casting="unsafe")
        else:
            owners[masks[position]] = position + 1
    return owners


def _boxes_of(sample: DenseSample, position: int) -> list[float]:
    x1, y1, x2, y2 = sample.boxes[position].as_subclass(Tensor).tolist()
    return [x1, y1, x2 - x1, y2 - y1]


class Maps(NamedTuple):
    """Label maps that a format must hold of a sample.

    Attributes:
        seen: class and visible area of each object; None without maps.
        files: values by path.
        segments: number of the segment of each pixel, from 1, for panoptic segments.
        regions: those segments.
    """

    seen: list[tuple[int, int]] | None
    files: Mapping[str, NDArray[Any]] = {}
    segments: NDArray[np.uint16] | None = None
    regions: Sequence[Region] = ()


def label_maps(
    view: View,
    stem: str,
    sample: DenseSample,
    crowds: Sequence[Crowd],
    unclassed: NDArray[np.bool_] | None = None,
    rows: tuple[Sequence[JsonRow], Sequence[JsonRow]] = ((), ()),
) -> Maps:
    """Return the label maps of a sample in a format; none if it has no maps.

    Args:
        view: the format.
        stem: name of the maps, without suffix.
        sample: sample whose labels index the names of the view.
        crowds: crowd and ignored regions.
        unclassed: pixels without a class that the semantic map of the sample does not hold.
        rows: entries of the instances, and of the regions, with the further keys of their segments.
    """
    has_maps = sample.instance_masks is not None or sample.semantic_map is not None
    if view.format == "coco-panoptic":
        return _segments(view, sample, crowds, rows)
    if view.format not in ("voc", "label-maps") or not (has_maps or view.format == "label-maps"):
        return Maps(None)
    owners = owner_map(sample)
    visible = np.bincount(owners.reshape(-1), minlength=sample.num_instances + 1)[1:].tolist()
    seen = list(zip(sample.labels.tolist(), visible, strict=True))
    classes = _classes(view, sample, owners)
    is_voc, void = view.format == "voc", np.iinfo(classes.dtype).max
    free, objects = owners == 0, owners.copy()
    if unclassed is not None and not is_voc:
        np.putmask(classes, unclassed & free, void)
    if is_voc and sample.semantic_map is not None:
        objects[free & (classes == void) & ~_boxes_around(crowds, objects.shape)] = void
    for crowd in crowds:
        classes[crowd.mask & free] = void
        if is_voc:
            objects[crowd.mask & free] = void
    folders = ("SegmentationClass", "SegmentationObject") if is_voc else (
        f"semantic/{view.split}", f"instances/{view.split}"
    )  # fmt: skip
    files = {f"{folders[0]}/{stem}.png": classes}
    if sample.instance_masks is not None or (sample.semantic_map is None and not is_voc):
        files[f"{folders[1]}/{stem}.png"] = objects
    return Maps(seen, files)


def _boxes_around(crowds: Sequence[Crowd], size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the pixels in the boxes of regions, whose void in VOC's map of objects is the region alone."""
    inside = np.zeros(size, bool)
    for crowd in crowds:
        if crowd.box is None:
            x, y, width, height = (int(edge) for edge in extent_of(crowd.mask))
            inside[y : y + height, x : x + width] = True
    return inside


def _classes(view: View, sample: DenseSample, owners: NDArray[Any]) -> NDArray[Any]:
    """Return the map of classes as in the file, with void in the pixels of no class."""
    first = view.first_value
    num_values = len(view.names) + first
    dtype: Any = np.uint8 if view.format == "voc" or num_values <= IGNORE_INDEX else np.uint16
    void = int(np.iinfo(dtype).max)
    nothing = void if view.format == "label-maps" and view.has_semantic_maps else 0
    found: NDArray[Any] = np.array([nothing, *(sample.labels + first).tolist()], dtype)[owners]
    if sample.semantic_map is not None:
        table = np.concatenate([np.arange(256) + first, [0]])
        table[IGNORE_INDEX] = void
        semantic = table.astype(dtype)[sample.semantic_map.as_subclass(Tensor).numpy()]
        np.copyto(found, semantic, where=owners == 0)
    return found


def _segments(
    view: View, sample: DenseSample, crowds: Sequence[Crowd], rows: tuple[Sequence[JsonRow], Sequence[JsonRow]]
) -> Maps:
    """Return the map of panoptic segments, and the segments: objects, stuff, crowds; hidden ones are left out."""
    of_regions = [row for crowd, row in zip(crowds, rows[1] or [{}] * len(crowds), strict=True) if crowd.box is None]
    of_objects = rows[0] or [{}] * sample.num_instances
    crowds = [crowd for crowd in crowds if crowd.box is None]
    semantic = None if sample.semantic_map is None else sample.semantic_map.as_subclass(Tensor).numpy()
    if sample.panoptic_map is None:
        owners = owner_map(sample).astype(np.int64)
    else:
        assert sample.instance_ids is not None
        panoptic = sample.panoptic_map.as_subclass(Tensor).numpy()
        table = np.zeros(int(max([0, *sample.instance_ids.tolist(), panoptic.max()])) + 1, np.int64)
        table[sample.instance_ids.numpy()] = np.arange(1, sample.num_instances + 1)
        owners = table[panoptic]
    parts: list[tuple[NDArray[np.bool_], int, Kind, JsonRow]] = [
        (owners == number, label, "object", row)
        for number, (label, row) in enumerate(zip(sample.labels.tolist(), of_objects, strict=True), start=1)
    ]
    is_free = owners == 0
    is_left = is_free.copy()
    if semantic is not None:
        for label in np.unique(semantic[is_free]).tolist():
            if label != IGNORE_INDEX and label in view.stuff:
                parts.append((is_free & (semantic == label), label, "stuff", {}))
                is_left &= ~parts[-1][0]
    regions_of = [crowd.mask for crowd in crowds]
    if sample.panoptic_map is None:
        regions_of = _apart([mask & is_left for mask in regions_of])
    of_crowds = zip(regions_of, crowds, of_regions, strict=True)
    parts += [(mask, crowd.label, "region", row) for mask, crowd, row in of_crowds]
    numbers, regions = np.zeros(sample.canvas_size, np.uint16), list[Region]()
    for mask, label, kind, row in parts:
        if mask.any():
            keys = 0 if refers(row, "objects", REGION_KEYS) else digest(further_keys(row))
            area = int(np.count_nonzero(mask))
            regions.append(Region(label, kind, extent_of(mask), area, entry_points_px(row), keys))
            numbers[mask] = len(regions)
    seen = [(label, int(np.count_nonzero(mask))) for mask, label, kind, _ in parts if kind == "object"]
    return Maps(seen, {}, numbers, regions)


def _apart(masks: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """Return masks without the pixels of smaller ones, or of earlier ones of the same area."""
    areas = [int(np.count_nonzero(mask)) for mask in masks]
    found = []
    for i, mask in enumerate(masks):
        above = [other for j, other in enumerate(masks) if (areas[j], j) < (areas[i], i)]
        found.append(mask & ~np.logical_or.reduce(above) if above else mask)
    return found


def semantic_losses(view: View, sample: DenseSample, crowds: Sequence[Crowd], maps: Maps) -> Counter[str]:
    """Count what a format does not hold of a semantic map.

    A map says nothing that objects and regions do not say, if it has their classes, and all other pixels are background
    or, without such a class, void.

    Args:
        view: the written format.
        sample: the sample.
        crowds: its crowd and ignored regions.
        maps: its label maps in that format.
    """
    if sample.semantic_map is None:
        return Counter()
    semantic = sample.semantic_map.as_subclass(Tensor).numpy()
    is_region = np.zeros(semantic.shape, bool)
    for crowd in crowds:
        is_region |= crowd.mask
    if view.format in ("voc", "label-maps"):
        written = next(values for path, values in maps.files.items() if path.startswith(("Seg", "sem")))
        void = np.iinfo(written.dtype).max
        differs = written != np.where(semantic == IGNORE_INDEX, void, semantic + view.first_value)
        told = "pixels of another class than their object, in images"
    elif view.format == "coco-panoptic":
        assert maps.segments is not None
        differs = (semantic != IGNORE_INDEX) & (maps.segments == 0)
        told = "pixels of things without an object, in images"
    else:
        nothing = 0 if view.has_background else IGNORE_INDEX
        if sample.panoptic_map is not None:
            is_free = sample.panoptic_map.as_subclass(Tensor).numpy() == 0
            differs, told = is_free & (semantic != nothing), "segments of stuff, in images"
        else:
            classes = np.array([nothing, *sample.labels.tolist()])[owner_map(sample)]
            differs, told = semantic != classes, "semantic maps"
    return Counter({told: 1} if (differs & ~is_region).any() else {})


def covered_regions(maps: Maps, crowds: Sequence[Crowd]) -> Counter[str]:
    """Count the regions that other segments cover in panoptic segments, partly or wholly, and those without a pixel."""
    if maps.segments is None:
        return Counter()
    shown = Counter((region.label, int(region.area or 0)) for region in maps.regions if region.kind == "region")
    every = [crowd for crowd in crowds if crowd.box is None]
    regions = [crowd for crowd in every if crowd.mask.any()]
    before = Counter((crowd.label, int(np.count_nonzero(crowd.mask))) for crowd in regions)
    num_whole = (before & shown).total()
    num_wholly = len(regions) - shown.total()
    partly = {f"{_REGIONS} partly covered by other segments": len(regions) - num_whole - num_wholly}
    empty = {f"{_REGIONS} without a pixel": len(every) - len(regions)}
    return +Counter({**partly, f"{_REGIONS} wholly covered by other segments": num_wholly, **empty})


def geometry_values(stem: str, sample: DenseSample, depth_format: DepthFormat = "npy") -> dict[str, int]:
    """Return the checksum of the values of each file of depth, normals and camera.

    Args:
        stem: name of the files in their folders, without suffix.
        sample: the sample.
        depth_format: format of depth files.
    """
    found = {}
    if sample.depth is not None and sample.depth_valid is not None:
        depth, valid = sample.depth.as_subclass(Tensor).numpy()[0], sample.depth_valid.as_subclass(Tensor).numpy()[0]
        if depth_format == "npy":
            found[f"depth/{stem}.npy"] = checksum(np.where(valid, depth, np.float32(0)))
            found[f"depth_valid/{stem}.png"] = checksum(valid.astype(np.uint8) * 255)
        else:
            metres = np.where(valid & np.isfinite(depth) & (depth > 0), depth, 0).astype(np.float64)
            mm = np.maximum(np.rint(metres * 1000), metres > 0)  # valid depth is at least a millimetre
            kept = mm <= _LARGEST_MM
            found[f"depth/{stem}.png"] = checksum(np.where(kept, mm, 0).astype(np.uint16))
    if sample.normals is not None:
        found[f"normals/{stem}.npy"] = checksum(sample.normals.as_subclass(Tensor).numpy().transpose(1, 2, 0))
    if (camera := sample.camera_intrinsics) is not None:
        matrix = [camera.fx, 0, camera.cx, 0, camera.fy, camera.cy, 0, 0, 1]
        found[f"intrinsics/{stem}.txt"] = checksum(np.array(matrix, np.float64))
    return found
