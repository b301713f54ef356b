"""Reader of Pascal VOC's masks and semantic maps; see `segpaste.datasets.formats.voc.format` for boxes.

Parts, poses and actions are kept only as attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste._pixels import mask_box
from segpaste.datasets.entries import JsonRow, edges_of
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_annotations import PackedRecords
from segpaste.datasets.formats.outlined import ShapeTable
from segpaste.datasets.formats.outlined_images import OutlinedImages
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.stored_pixels import distinct
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES, Shape, annotation_row, is_other_box
from segpaste.datasets.formats.voc.files import (
    BACKGROUND,
    CLASSES,
    OBJECTS,
    OTHER_VOID,
    VOID,
    VOID_OF_CLASSES,
    VocFolder,
    listed_classes,
    palette,
    read_map,
    region_flag,
)
from segpaste.types import DenseSample, SemanticMap

_IDS_PER_IMAGE = 10_000
_FIRST_OF_XML = 1_000  # above the numbers of objects in a map
_MIN_IOU = 0.5


_VOID_OF_16_BITS = 65_535


class VocMasks(OutlinedImages):
    """Images of VOC with maps of their objects; maps are read with their sample.

    Classes are the indices of the maps, so 0 is the background. Samples have semantic maps if ``SegmentationClass``
    exists. Void is ignored in them. Void is not a crowd: it is a thin line around each object, and the box of such a
    crowd would be the whole image. A box in the XML file adds its attributes to the object that it fits, preferably the
    one of the same number. Difficult objects are ignored regions, or crowds if this package wrote them as such. A box
    that fits no object is an object without a mask, or if the map has an object of its number an ignored region. With
    maps of classes only, samples have no instances. ``read`` and ``drawn`` are those of `read_voc`.
    """

    reads_maps = True
    _last_told: tuple[int | None, dict[str, int]] = None, {}  # an image, and what its maps have otherwise

    @property
    def _folder(self) -> VocFolder:
        found: VocFolder = self._read.args[0]  # type: ignore[attr-defined]  # a partial of read_voc
        return found

    def _entries(self, drawn: ShapeTable) -> Iterator[JsonRow]:
        """Yield the entry of each image, and those of its boxes in the XML file."""
        labels = range(len(drawn.categories))  # the first of equal names, the background last
        label_of = {drawn.categories[label]["name"]: label for label in [*labels[:1], *labels[:0:-1]]}
        self.has_crowds = any(image.shapes for image in drawn.images)
        self.has_semantic_maps = self._folder.has_classes
        for number, image in enumerate(drawn.images, start=1):
            boxes = []
            for i, shape in enumerate(image.shapes):
                row = annotation_row([shape], (image.row["height"], image.row["width"]), ())
                boxes.append({"id": number * _IDS_PER_IMAGE + _FIRST_OF_XML + i, "label": label_of[shape.label], **row})
            yield {"image": {"id": number, **image.row}, "boxes": boxes, "unread": dict(image.unread)}

    def _record(self, entry: JsonRow) -> JsonRow:
        image = entry["image"]
        size, stem = (image["height"], image["width"]), Path(image["file_name"]).stem
        rows: list[JsonRow] = []
        boxes, num_other, voids = list(entry["boxes"]), 0, dict[str, int]()
        if self._folder.has_objects:
            objects = np.asfortranarray(self._map(OBJECTS, stem, size))  # masks are encoded down their columns
            classes = np.asfortranarray(self._map(CLASSES, stem, size)) if self._folder.has_classes else None
            there = distinct(objects)
            voids_of = _void_numbers(objects, classes, there, len(boxes))
            void = np.isin(objects, voids_of)
            for number in there:
                if number != BACKGROUND and number not in voids_of:
                    mask = objects == number
                    box = _fitting(boxes, entry["boxes"], number, mask)
                    label = self._label(stem, number, mask, classes, box)
                    own = Shape("", encode_mask(mask), attributes={} if box is None else box.get("attributes", {}))
                    row = annotation_row([own], size, ())
                    if box is not None:
                        boxes.remove(box)
                        num_other += is_other_box(edges_of(box["bbox"]), edges_of(row["bbox"]))
                        row |= {key: 1 for key in ("ignore", "iscrowd") if box.get(key)}
                    rows.append(self._row(image, image["id"] * _IDS_PER_IMAGE + number, label, row))
            voids = self._voids(objects, void, classes, entry["boxes"])
            unmatched = [*self._without_objects(boxes, entry["boxes"], void, classes, there)]
        else:
            unmatched = [{**box, "ignore": 1} for box in boxes]
        rows += [self._row(image, box["id"], box["label"], box) for box in unmatched]
        self._last_told = image["id"], {OTHER_BOXES: num_other, **voids}
        return super()._record({"image": image, "rows": rows})

    @staticmethod
    def _voids(
        objects: NDArray[np.integer], void: NDArray[np.bool_], classes: NDArray[np.integer] | None, boxes: list[JsonRow]
    ) -> dict[str, int]:
        """Count the map of objects if its void is not that of the map of classes; void in regions is not compared."""
        free = void | (objects == BACKGROUND)
        for box in boxes:
            if "ignore" in box or region_flag(box.get("attributes", {})) is not None:
                x, y, width, height = (round(edge) for edge in box["bbox"])
                free[max(0, y) : y + height, max(0, x) : x + width] = False
        own, other = void & free, free & (np.zeros_like(free) if classes is None else classes == VOID)
        return {OTHER_VOID: int((own & ~other).any()), VOID_OF_CLASSES: int((other & ~own).any())}

    @staticmethod
    def _without_objects(
        boxes: list[JsonRow],
        numbered: list[JsonRow],
        void: NDArray[np.bool_],
        classes: NDArray[np.integer] | None,
        there: Sequence[int],
    ) -> Iterator[JsonRow]:
        """Yield the rows of boxes that fit no object of a map.

        A crowd or ignored region that this package wrote is the void in its box. A box whose number no object has is an
        object without a mask. Difficult objects, and boxes of other objects, are ignored regions.
        """
        void = void & ((classes == VOID) if classes is not None else True)
        for box in boxes:
            if region_flag(box.get("attributes", {})) is not None:
                x, y, width, height = (round(edge) for edge in box["bbox"])
                mask = np.zeros_like(void)
                mask[y : y + height, x : x + width] = void[y : y + height, x : x + width]
                yield {**box, "segmentation": encode_mask(mask) if mask.any() else []}
            elif "ignore" in box or numbered.index(box) + 1 in there:
                yield {**box, "ignore": 1}
            else:
                yield box

    def _row(self, image: JsonRow, annotation_id: int, label: int, row: JsonRow) -> JsonRow:
        ids = {"id": annotation_id, "image_id": image["id"], "category_id": label + 1}
        return {**ids, **{key: value for key, value in row.items() if key not in ("id", "label")}}

    def unread(self, index: int) -> dict[str, int]:
        """Count boxes of XML files that are cut or not those of the masks of their objects, and void of objects."""
        if self._last_told[0] != self.image_id(index):
            self._record(self._entry(index))
        return {**super().unread(index), **self._last_told[1]}

    def drawn_rows(self, index: int) -> list[JsonRow]:
        """Return the objects of the XML file of an image in COCO's form, without the masks of the maps."""
        return [{"category_id": row["label"] + 1, **row} for row in self._entry(index)["boxes"]]

    def files_of(self, index: int) -> tuple[Path, ...]:
        """Return the maps of an image, and the file of its boxes."""
        stem = Path(self.file_name(index)).stem
        xml = self._folder.xml_file(stem)
        maps = (self._folder.map_file(name, stem) for name in self._folder.maps)
        return (*maps, *(() if xml is None else (xml,)))

    def label_file(self, index: int) -> Path | None:
        """Return the map of the objects of an image, or without objects that of its classes."""
        stem = Path(self.file_name(index)).stem
        return self._folder.map_file(OBJECTS if self._folder.has_objects else CLASSES, stem)

    def _map(self, name: str, stem: str, size: tuple[int, int]) -> NDArray[np.integer]:
        colors = palette() if name == OBJECTS else listed_classes(self._folder.path)[1]
        return read_map(self._folder.map_file(name, stem), size, colors)

    def _label(
        self, stem: str, number: int, mask: NDArray[np.bool_], classes: NDArray[np.integer] | None, box: JsonRow | None
    ) -> int:
        """Return the class of most pixels of an object, or without a map of classes the class of its box."""
        where = f"{self._folder.map_file(OBJECTS, stem)}: object {number}"
        if classes is None:
            if box is None:
                raise DatasetError(f"{where}: expected its class in {CLASSES} or Annotations, found neither; add it")
            return int(box["label"])
        left, top, right, bottom = mask_box(mask) or (0, 0, 0, 0)
        inside = slice(top, bottom), slice(left, right)
        counts = np.bincount(classes[inside][mask[inside]], minlength=VOID + 1)
        found = np.flatnonzero(counts).tolist()
        counts[[BACKGROUND, VOID]] = 0
        label = int(counts.argmax())
        if not counts[label] or label >= len(self.class_names):
            raise DatasetError(
                f"{where}: expected a class from 1 to {len(self.class_names) - 1} in {CLASSES}, got {found}; "
                "correct the maps or the list of classes"
            )
        return label

    def _read_records(self) -> PackedRecords:
        records = super()._read_records()
        self.has_masks = self._folder.has_objects
        return records

    def _read_sample(self, record: JsonRow) -> DenseSample:
        sample = super()._read_sample(record)
        if not self._folder.has_objects:
            sample = replace(sample, instance_masks=None, instance_ids=None)
        if not self._folder.has_classes:
            return sample
        classes = self._map(CLASSES, Path(record["file_name"]).stem, (record["height"], record["width"]))
        return replace(sample, semantic_map=SemanticMap(torch.from_numpy(classes.astype(np.int64))))


def _void_numbers(
    objects: NDArray[np.integer], classes: NDArray[np.integer] | None, there: Sequence[int], num_boxes: int
) -> list[int]:
    """Return the numbers in a map of objects that are void: 255, in a map of more numbers also 65535.

    In such a map they are objects where the map of classes has a class, or without one, if the XML file has a box of
    their number.
    """
    if not there or there[-1] <= VOID:
        return [VOID]
    found = []
    for number in {VOID, _VOID_OF_16_BITS}.intersection(there):
        own = None if classes is None else classes[objects == number]
        is_object = number <= num_boxes if own is None else bool(((own != VOID) & (own != BACKGROUND)).any())
        found += [] if is_object else [number]
    return found


def _fitting(boxes: list[JsonRow], numbered: list[JsonRow], number: int, mask: NDArray[np.bool_]) -> JsonRow | None:
    """Return the box of an object: the box of its number if it fits, else the best that fits; None if none fits."""
    own = mask_box(mask)
    assert own is not None
    fits = {box["id"]: _iou(own, edges_of(box["bbox"])) for box in boxes}
    same = numbered[number - 1] if number <= len(numbered) else None
    if same is not None and fits.get(same["id"], 0) >= _MIN_IOU:
        return same
    best = max(boxes, key=lambda box: fits[box["id"]], default=None)
    return best if best is not None and fits[best["id"]] >= _MIN_IOU else None


def _iou(own: Sequence[float], box: Sequence[float]) -> float:
    """Return the intersection over union of two boxes (x1, y1, x2, y2)."""
    inner_width, inner_height = (min(own[i + 2], box[i + 2]) - max(own[i], box[i]) for i in (0, 1))
    inner = max(inner_width, 0.0) * max(inner_height, 0.0)
    outer = sum((one[2] - one[0]) * (one[3] - one[1]) for one in (own, box)) - inner
    return inner / outer if outer else 0.0
