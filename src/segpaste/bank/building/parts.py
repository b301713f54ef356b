"""Parts of a build: each holds the crops of some images. Any process can make a part, and no part is made twice.

    WORK/run.json           fingerprint: everything that the parts depend on
    WORK/parts/000012.rows  packed records of `segpaste.bank.schema.record`, one after another
    WORK/parts/000012.json  counts of the part, with size and CRC-32; written last, so a part is complete or missing

Images are ordered by ascending image id and objects of an image by ascending annotation id, as numbers. A part is a
pure function of the fingerprint, so any process can make it at any time.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank.building._strays import without_strays
from segpaste.bank.building.cropping import (
    ImageObject,
    PhotoFrame,
    PixelBox,
    box_of,
    cut_object,
    groups_of,
)
from segpaste.bank.schema.record import Array, BankError, Layout, byte_view
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.types import DenseSample
from segpaste.types.fields import flags_of
from segpaste.types.tensors import pixel_counts
from segpaste.workspace import Notes, write_whole

PHOTOS_PER_PART = 32

REASONS = {
    "crowd": "crowd or ignored regions",
    "empty": "masks without a pixel",
    "small": "smaller than the minimum area",
    "cut_off": "cut off by the border of the image",
    "sparse": "too little of their box visible",
    "vanished": "no pixel left after shrinking",
    "unmapped": "of classes that the class map drops",
    "unreadable": "unreadable images",
}
"""Reasons why an annotation has no crop."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Choice of the objects that become crops.

    Annotations have only the visible part of an object, so the hidden part is unknown. ``min_fill_frac`` and
    ``whole_only`` reject objects by two signs of it.

    Attributes:
        min_area_px: minimum number of pixels of the mask in the image.
        min_fill_frac: minimum of the area of the mask over the area of its box, low for objects behind a fence.
        whole_only: skip objects that touch the edge of the image, since they probably extend beyond it.
        min_part_frac: remove parts of a mask that have a smaller fraction of its pixels and lie outside of the box of
            the larger parts, see `segpaste.bank.building._strays`: 3 wrong pixels far away would make a crop tiny. 0
            removes none. The other attributes refer to the mask without them.
    """

    min_area_px: int = 64
    min_fill_frac: float = 0.0
    whole_only: bool = False
    min_part_frac: float = 0.02

    def __post_init__(self) -> None:
        if self.min_area_px < 1:
            raise BankError(f"expected min_area_px of at least 1, got {self.min_area_px}")
        if not 0 <= self.min_fill_frac <= 1:
            raise BankError(f"expected min_fill_frac from 0 to 1, got {self.min_fill_frac}")
        if not 0 <= self.min_part_frac <= 1:
            raise BankError(f"expected min_part_frac from 0 to 1, got {self.min_part_frac}")

    def without_strays(self, mask: Tensor) -> Tensor:
        """Return the mask [H, W] without strays; the same object if it has none."""
        return without_strays(mask, self.min_part_frac) if self.min_part_frac > 0 and bool(mask.any()) else mask

    def reason_against(self, mask: Tensor) -> str | None:
        """Return the reason why an object of this mask [H, W] is skipped: a key of `REASONS`."""
        area = int(pixel_counts(mask[None]))
        return self._reason(area, box_of(mask) if area else (0, 0, 0, 0), (mask.shape[0], mask.shape[1]))

    def _reason(self, area: int, box: PixelBox, size: tuple[int, int]) -> str | None:
        if area == 0:
            return "empty"
        if area < self.min_area_px:
            return "small"
        left, top, right, bottom = box
        if self.whole_only and (min(left, top) == 0 or bottom == size[0] or right == size[1]):
            return "cut_off"
        return "sparse" if area < self.min_fill_frac * (right - left) * (bottom - top) else None

    def chosen(self, objects: DenseSample | LoneObjects, position: int) -> tuple[ImageObject | str, bool]:
        """Return an object of an image to cut out, or why it is skipped, a key of `REASONS`; and if it lost strays.

        No image is decoded for this and, unless it may have strays, no mask of `LoneObjects`.

        Raises:
            BankError: see `ImageObject.of`.
        """
        if isinstance(objects, DenseSample):
            return self._chosen_of_sample(objects, position)
        lone, (_, area, box) = objects, objects.measures[position]
        mask, is_trimmed = None, False
        if self.min_part_frac > 0:
            whole = lone.mask(position)
            mask = without_strays(whole, self.min_part_frac, box)
            if is_trimmed := mask is not whole:
                area, box = int(pixel_counts(mask[None])), box_of(mask)
        if (reason := self._reason(area, box, lone.size)) is not None:
            return reason, is_trimmed

        def pixels(part: PixelBox) -> tuple[Tensor, Tensor]:
            left, top, right, bottom = part
            seen = lone.mask(position, part) if mask is None else mask[top:bottom, left:right]
            return lone.pixels(part), seen

        return ImageObject(lone.size, box, lone.labels[position], pixels, lone.points(position)), is_trimmed

    def _chosen_of_sample(self, sample: DenseSample, position: int) -> tuple[ImageObject | str, bool]:
        assert sample.instance_masks is not None
        whole: Tensor = sample.instance_masks[position].as_subclass(Tensor)
        mask = self.without_strays(whole)
        reason = self.reason_against(mask)
        return (ImageObject.of(sample, position, mask) if reason is None else reason), mask is not whole


@dataclass(frozen=True, slots=True)
class PartMaker:
    """Maker of parts; it is sent to the workers.

    Attributes:
        photos: dataset of the build.
        order: indices of the images, by ascending image id, [photos].
        layout: layout of a record.
        selection: choice of the objects that become crops.
        margin_frac: see `segpaste.bank.building.cropping.crop_object`.
        num_classes: number of classes; labels are below it.
        flags: `segpaste.types.fields.FLAGS` of every sample.
        notes: notes on the finished parts, beside their rows.
        skips_unreadable: True if images that cannot be read are counted and skipped.
        fit_into, depth_fill: see `segpaste.bank.building.cropping.crop_object`.
    """

    photos: AnnotatedDataset
    order: NDArray[np.int64]
    layout: Layout
    selection: Selection
    margin_frac: float
    num_classes: int
    flags: Mapping[str, Any]
    notes: Notes
    skips_unreadable: bool = False
    fit_into: tuple[int, int] | None = None
    depth_fill: bool = False

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return -(-len(self.order) // PHOTOS_PER_PART)

    def missing(self) -> list[int]:
        """Return the parts that are not finished."""
        return [part for part in range(self.num_parts) if not self._is_done(part)]

    def photos_of(self, part: int) -> NDArray[np.int64]:
        """Return the indices of the images of a part."""
        return self.order[part * PHOTOS_PER_PART : (part + 1) * PHOTOS_PER_PART]

    def make(self, part: int) -> None:
        """Cut the crops of a part and write them.

        Raises:
            BankError: a sample is invalid.
            ValueError, OSError: an image cannot be read, or the part cannot be written.
        """
        tally: dict[str, Any] = {"trimmed": 0, "skipped": Counter(), "kept": Counter()}
        check = 0

        def records() -> Iterator[memoryview]:
            nonlocal check
            for index in self.photos_of(part).tolist():
                for row in self._rows(index, tally):
                    record = byte_view(row)
                    check = zlib.crc32(record, check)
                    yield record

        path = write_whole(self.notes.path(part, "rows"), records())
        self.notes.write(part, {"size": path.stat().st_size, "crc32": check, **tally})

    def found(self, part: int) -> dict[str, Any]:
        """Return the counts of a finished part: ``skipped``, ``kept``, ``trimmed``, ``size`` and ``crc32``."""
        return dict(self.notes.read(part))

    def rows(self, part: int) -> Iterator[Array]:
        """Yield the records of a finished part, one at a time, each in the memory of the one before.

        Raises:
            BankError: the file was changed; the part then counts as missing.
        """
        path, row = self.notes.path(part, "rows"), np.empty((), self.layout.dtype)
        check, record = 0, byte_view(row)
        with path.open("rb") as file:
            while (num := file.readinto(record)) == len(record):
                check = zlib.crc32(record, check)
                yield row
        if zlib.crc32(record[:num], check) != self.found(part)["crc32"]:
            self.notes.path(part).unlink()
            raise BankError(
                f"{path}: expected the file as it was written, got a changed one; build again to rewrite it"
            )

    def _rows(self, index: int, tally: dict[str, Any]) -> Iterator[Array]:
        """Yield the records of one image, and count its annotations, see `found`."""
        try:
            objects, image_id = self._objects(index), self.photos.image_id(index)
        except (ValueError, OSError):
            if not self.skips_unreadable:
                raise
            tally["skipped"]["unreadable"] += 1
            return
        try:
            ids = self._checked_ids(objects, index)
            tally["skipped"].update(self._left_out(index))
            for position in sorted(range(len(ids)), key=lambda i: ids[i]):
                found, is_trimmed = self.selection.chosen(objects, position)
                if isinstance(found, str):
                    tally["skipped"][found] += 1
                    continue
                crop = cut_object(
                    found,
                    self.layout.crop_size,
                    margin_frac=self.margin_frac,
                    frame=frame_of(self.photos, index, found.box),
                    fit_into=self.fit_into,
                    depth_fill=self.depth_fill,
                    image_id=image_id,
                    annotation_id=ids[position],
                )
                if not crop.alpha.any():
                    tally["skipped"]["vanished"] += 1
                    continue
                tally["trimmed"] += is_trimmed
                tally["kept"][crop.class_id] += 1
                yield self.layout.pack(replace(crop, dataset_idx=self.photos.dataset_idx(index)))
        except BankError as error:
            raise BankError(f"image {image_id}: {error}") from error

    def _objects(self, index: int) -> DenseSample | LoneObjects:
        """Read an image and its objects."""
        if (lone := self.photos.lone_objects(index)) is None:
            return self.photos[index]
        lone.image()
        return lone

    def _left_out(self, index: int) -> Mapping[str, int]:
        """Return the annotations of a sample that are no instances, by reason."""
        found: Any = self.photos.left_out(index)
        if not isinstance(found, Mapping) or not all(map(_is_count, found.values())):
            raise BankError(
                f"left_out({index}): expected a dictionary of counts by reason, whole numbers >= 0, such as "
                f"{{'crowd': 2}}, or {{}}, got {found!r:.80}"
            )
        if unknown := [reason for reason in found if reason not in REASONS]:
            raise BankError(
                f"left_out({index}): expected reasons among {', '.join(REASONS)}, got {unknown[0]!r}; use the "
                "one that fits best, such as crowd for regions to be ignored"
            )
        return {reason: int(num) for reason, num in found.items()}

    def _checked_ids(self, objects: DenseSample | LoneObjects, index: int) -> list[int]:
        """Return the dataset's id of each instance of an image."""
        if isinstance(objects, LoneObjects):
            labels, instance_ids, flags = [*objects.labels], [*range(1, len(objects.labels) + 1)], objects.flags
        else:
            if objects.instance_masks is None or objects.instance_ids is None:
                raise BankError("expected instance_masks, got none; objects are cut out by their masks")
            labels, instance_ids, flags = objects.labels.tolist(), objects.instance_ids.tolist(), flags_of(objects)
        for name, value in flags.items():
            if value != self.flags[name]:
                raise BankError(f"expected {name}={self.flags[name]} as in the first image, got {value}")
        if labels and not 0 <= min(labels) <= max(labels) < self.num_classes:
            raise BankError(f"expected labels from 0 to {self.num_classes - 1}, got {min(labels)} to {max(labels)}")
        ids, most = self.photos.annotation_ids(index), max(instance_ids, default=0)
        if len(ids) < most:
            raise BankError(
                f"expected {most} ids of annotation_ids({index}), since its ids go up to {most}, got {len(ids)}"
            )
        return [stored_id(ids[instance_id - 1], "annotation") for instance_id in instance_ids]

    def _is_done(self, part: int) -> bool:
        """Return whether both files exist and are complete; `rows` checks the content."""
        try:
            found = self.found(part)
            return bool(
                found["size"] == self.notes.path(part, "rows").stat().st_size
                and {"crc32", "kept", "skipped", "trimmed"} <= found.keys()
            )
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return False


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def stored_id(value: int, kind: str) -> int:
    """Return an id as the bank stores it; raise BankError if it is outside of int64."""
    if not isinstance(value, Integral):
        raise BankError(f"expected an integer as {kind} id, got {value!r:.80}; number them")
    if not -(2**63) <= value < 2**63:
        raise BankError(f"expected ids from -2**63 to 2**63 - 1, got the {kind} id {value}; give it another one")
    return int(value)


def groups_for(dataset: AnnotatedDataset, first: DenseSample) -> list[str]:
    """Return the optional columns that the first sample, or the dataset, can fill."""
    return groups_of(first) + ([] if dataset.dataset_idx(0) is None else ["dataset"])


def frame_of(dataset: AnnotatedDataset, index: int, box: PixelBox) -> PhotoFrame | None:
    """Return the assumed image around sample ``index`` with an object of this box; None for the sample itself."""
    frame = dataset.photo_frame(index, box)
    return None if frame is None else PhotoFrame(*frame)
