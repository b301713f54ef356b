"""Entries of annotations as a tool reads them: what it would lose is written otherwise, or left out and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.contract import AnnotatedDataset, Crowd
from segpaste.datasets.entries import JsonRow, box_of, has_segmentation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.carried import REGION_KEYS
from segpaste.datasets.formats.coco.segments import read_segment_ids
from segpaste.datasets.formats.image_files import read_head
from segpaste.datasets.formats.references import Kind, refers, resolved
from segpaste.datasets.formats.rle import decode_segmentation, run_lengths
from segpaste.datasets.formats.yolo.outlines import outline
from segpaste.datasets.writers.coco import Crowds
from segpaste.datasets.writers.format import Losses

AS_OUTLINES = "masks in run lengths, written as outlines that enclose the same pixels"
OTHER_ID = "annotations with an id below 1, which have another id"
AS_LISTS = "masks in compressed run lengths, written as lists of numbers"
NEW_AREA = "areas of 0 of objects with a mask, which are those of the masks"
NEW_MAP = "panoptic maps and segments, written anew from their pixels"
JOINED = "crowd regions joined with another one of their class and image"
NEW_BOX = "boxes of no width or height of objects with a mask, which are those of the masks"
COUNTED = "objects with num_keypoints, which they did not have"
CHANGES = frozenset({AS_OUTLINES, AS_LISTS, OTHER_ID, NEW_AREA, NEW_MAP, JOINED, NEW_BOX, COUNTED})
"""Descriptions of entries that are written otherwise, with the same meaning."""
REGIONS = "crowd and ignored regions"
_LEFT_OUT = "{}, left out for {}"
_LEAST_NUMBERS = 6
_OF_IDS = {False: "id_zero", True: "id_negative"}
"""Trait of an id below 1 by whether it is negative."""


def expect_instances(dataset: object, photos: Sequence[AnnotatedDataset], tool: Tool) -> None:
    """Raise `DatasetError` for semantic maps alone, of which a tool that reads instances would get none."""
    if not all(of.has_semantic_maps and not of.has_masks and not _lists_objects(of) for of in photos):
        return
    raise DatasetError(
        f"{dataset}: expected instances for {tool.title} (--for), a mask or box of each object, got semantic maps, "
        "which do not tell the objects of a class apart; annotate the objects, or train a semantic model on the maps"
    )


def _lists_objects(photos: AnnotatedDataset) -> bool:
    return photos.lists_labels and any(photos.instance_labels(index) for index in range(len(photos)))


def minds(tool: Tool | None, trait: str) -> bool:
    """Return whether a tool loses or changes COCO's entries, or panoptic segments, that have a trait."""
    rules = () if tool is None else tool.rules
    return any(rule.trait == trait for rule in rules if rule.format in ("coco", "panoptic"))


def regions_for_tool(tool: Tool | None, crowds: Crowds, told: Losses) -> Crowds:
    """Return the regions of an image without those that a tool takes for objects; count what is left out."""
    if tool is None:
        return crowds
    if not minds(tool, "crowd"):
        return _joined(crowds, told) if minds(tool, "crowd_twice") else crowds
    kept = [(crowd, row) for crowd, row in crowds if crowd.xywh is not None]
    told[_LEFT_OUT.format(REGIONS, tool.title)] += len(crowds) - len(kept)
    return kept


def rows_for_tool(tool: Tool | None, rows: JsonRow) -> JsonRow:
    """Return the rows of a made image, with run lengths as lists of numbers for a tool that reads no others."""
    if not minds(tool, "compressed"):
        return rows
    return {**rows, "annotations": [with_lists(row) for row in rows["annotations"]]}


def with_lists(row: JsonRow) -> JsonRow:
    """Return an entry whose compressed run lengths, unless it is a crowd region, are a list of numbers."""
    coded = row.get("segmentation")
    if row.get("iscrowd") or not isinstance(coded, dict) or not isinstance(coded.get("counts"), str):
        return row
    return {**row, "segmentation": {**coded, "counts": run_lengths(coded["counts"]).tolist()}}


def _joined(crowds: Crowds, told: Losses) -> Crowds:
    """Return the regions of an image with one for each class, in place of its first one."""
    joined = dict[object, tuple[Crowd, JsonRow]]()
    for crowd, row in crowds:
        key = crowd.label if crowd.box is None else id(crowd)
        if key in joined:
            told[JOINED] += 1
            first, of_first = joined[key]
            row_of_both = {name: value for name, value in of_first.items() if name not in ("bbox", "area")}
            joined[key] = first._replace(mask=first.mask | crowd.mask), row_of_both
        else:
            joined[key] = crowd, row
    return list(joined.values())


class _OtherIds(NamedTuple):
    """Counterparts of annotations of which some have another id; images, and what may be another id, stay."""

    ids: Mapping[int, int]
    kinds: frozenset[Kind] = frozenset({"annotation"})

    def is_image(self, number: int) -> bool:
        """Return False."""
        return False

    def image(self, number: int) -> None:
        """Return None."""

    def annotation(self, number: int) -> int:
        """Return the new id of an annotation."""
        return self.ids.get(number, number)

    def name(self, text: str) -> str:
        """Return the same text."""
        return text


@dataclass(frozen=True)
class EntriesForTool:
    """Maker of COCO's entries that a tool reads without a loss, from those of a dataset.

    Attributes:
        tool: the tool; None changes nothing.
        photos: the dataset.
    """

    tool: Tool | None
    photos: AnnotatedDataset

    def rows(self, rows: Sequence[JsonRow], size: tuple[int, int], told: Losses) -> list[JsonRow]:
        """Return the entries of an image of (H, W); count what is left out or written otherwise."""
        kept = list(rows)
        for trait, mend in _MENDS.items():
            if self._minds(trait):
                kept = [new for row in kept if (new := mend(self, row, size, told)) is not None]
        return kept

    def keeps_map(self, rows: Sequence[JsonRow], file: Path, size: tuple[int, int]) -> bool:
        """Return whether a panoptic map and its segments are what the tool reads without a loss."""
        mode = read_head(file).mode
        if any(self._minds(trait) and mode in modes for trait, modes in _MODES.items()):
            return False
        if any(self._minds(trait) and any(key not in row for row in rows) for trait, key in _KEYS.items()):
            return False
        if self._minds("crowd") or self._minds("crowd_twice"):
            labels = [row["category_id"] for row in rows if row.get("iscrowd")]
            if len({*labels}) < len(labels) or (labels and self._minds("crowd")):
                return False
        if not self._minds("other_area"):
            return True
        ids, counts = np.unique(read_segment_ids(file, size), return_counts=True)
        pixels = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        return all(row.get("area") == pixels.get(row["id"]) for row in rows)

    def _minds(self, trait: str) -> bool:
        return minds(self.tool, trait)

    def without_crowd(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out a crowd or ignored region."""
        if not _is_region(row):
            return row
        self._left_out(REGIONS, told)
        return None

    def with_mask(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out an object with a box only, if others have masks."""
        if _is_region(row) or not self.photos.has_masks or has_segmentation(row):
            return row
        self._left_out("objects without a mask", told)
        return None

    def with_polygons(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out an object with an empty list of polygons."""
        return self.with_mask(row, size, told) if row.get("segmentation") == [] else row

    def without_few_points(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out polygons of fewer than three points, which enclose nothing."""
        polygons = row.get("segmentation")
        if not isinstance(polygons, list) or all(len(polygon) >= _LEAST_NUMBERS for polygon in polygons):
            return row
        kept = [polygon for polygon in polygons if len(polygon) >= _LEAST_NUMBERS]
        self._left_out("polygons of fewer than three points", told, len(polygons) - len(kept))
        return {**row, "segmentation": kept}

    def as_outline(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Write a mask in run lengths as an outline, whose parts and holes are joined by bridges."""
        if _is_region(row) or not isinstance(row.get("segmentation"), dict):
            return row
        told[AS_OUTLINES] += 1
        points = outline(decode_segmentation(row["segmentation"], size))
        return {**row, "segmentation": [points.reshape(-1).round(2).tolist()] if len(points) else []}

    def as_lists(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Write compressed run lengths of an object as a list of numbers."""
        written = with_lists(row)
        told[AS_LISTS] += written is not row
        return written

    def with_area(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out an area of 0 beside a mask with a pixel; an entry without an area gets that of its mask."""
        if (
            row.get("area") != 0
            or not has_segmentation(row)
            or not decode_segmentation(row["segmentation"], size).any()
        ):
            return row
        told[NEW_AREA] += 1
        return {key: value for key, value in row.items() if key != "area"}

    def with_extent(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out a box of no width or height beside a mask with a pixel, which gives it; and an object without."""
        box = box_of(row)
        if _is_region(row) or box is None or min(box[2:]) > 0:
            return row
        if has_segmentation(row) and decode_segmentation(row["segmentation"], size).any():
            told[NEW_BOX] += 1
            return {key: value for key, value in row.items() if key != "bbox"}
        self._left_out("objects whose box has no width or height", told)
        return None

    def with_pixels(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Leave out an object whose polygons enclose no pixel."""
        is_outline = isinstance(row.get("segmentation"), list) and has_segmentation(row)
        if _is_region(row) or not is_outline or decode_segmentation(row["segmentation"], size).any():
            return row
        self._left_out("objects without a pixel", told)
        return None

    def with_num_keypoints(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Write the number of labelled keypoints."""
        if "num_keypoints" in row or not row.get("keypoints"):
            return row
        told[COUNTED] += 1
        return {**row, "num_keypoints": sum(v > 0 for v in row["keypoints"][2::3])}

    def with_other_id(self, row: JsonRow, size: tuple[int, int], told: Losses) -> JsonRow | None:
        """Give an annotation whose id the tool loses one above all others, also where others name it by its id."""
        if row.get("id", 1) < 1 and row["id"] in self.other_ids:
            told[OTHER_ID] += 1
            row = {**row, "id": self.other_ids[row["id"]]}
        if not refers(row, "objects", REGION_KEYS):
            return row
        return resolved(row, "objects", _OtherIds(self.other_ids), told, REGION_KEYS)

    @cached_property
    def other_ids(self) -> Mapping[int, int]:
        """New ids of the annotations whose id the tool loses, by the old ones."""
        if not (self._minds("id_zero") or self._minds("id_negative")):
            return {}
        rows = map(self.photos.annotation_rows, range(len(self.photos)))
        ids = [row["id"] for of_image in rows for row in of_image if "id" in row]
        above = max(ids, default=0) + 1
        return {number: above - number for number in ids if number < 1 and self._minds(_OF_IDS[number < 0])}

    def _left_out(self, what: str, told: Losses, num: int = 1) -> None:
        assert self.tool is not None
        told[_LEFT_OUT.format(what, self.tool.title)] += num


def _is_region(row: JsonRow) -> bool:
    return bool(row.get("iscrowd") or row.get("ignore"))


_MODES = {"map_grey": ("L", "LA", "I", "I;16"), "map_palette": ("P", "PA")}
"""Modes of maps in Pillow by trait."""
_KEYS = {"no_area": "area", "no_iscrowd": "iscrowd"}
"""Keys that segments may lack by trait."""
_Mend = Callable[[EntriesForTool, JsonRow, tuple[int, int], Losses], JsonRow | None]
_MENDS: dict[str, _Mend] = {
    "crowd": EntriesForTool.without_crowd,
    "few_points": EntriesForTool.without_few_points,
    "box_only": EntriesForTool.with_mask,
    "box_among_masks": EntriesForTool.with_mask,
    "empty_outline": EntriesForTool.with_polygons,
    "run_lengths": EntriesForTool.as_outline,
    "compressed": EntriesForTool.as_lists,
    "flat_box": EntriesForTool.with_extent,
    "flat_boxes": EntriesForTool.with_extent,
    "no_pixel": EntriesForTool.with_pixels,
    "no_num_keypoints": EntriesForTool.with_num_keypoints,
    "area_zero": EntriesForTool.with_area,
    "id_zero": EntriesForTool.with_other_id,
    "id_negative": EntriesForTool.with_other_id,
}
