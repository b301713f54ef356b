"""Parts of a build: each holds the crops of some photos. Any process can make a part, and no part is made twice.

    WORK/run.json           the fingerprint: all that the parts depend on
    WORK/parts/000012.rows  packed records of `segpaste.bank.schema.record`, one after the other
    WORK/parts/000012.json  what the part holds, with size and SHA-256; written last, so a part is done or not done

Photos go by ascending image id and objects of a photo by ascending annotation id, as numbers. A part is a pure
function of the fingerprint, so it does not matter who makes it, or when.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank.build._strays import without_strays
from segpaste.bank.build.cropping import box_of, crop_object
from segpaste.bank.build.origins import dataset_idx_of, frame_of
from segpaste.bank.schema.record import Array, BankError, Layout
from segpaste.types import DenseSample
from segpaste.types.fields import flags_of
from segpaste.workspace import Notes, write_whole

PHOTOS_PER_PART = 32

REASONS = {
    "crowd": "crowd or ignored regions",
    "empty": "masks without a pixel",
    "small": "smaller than the minimum area",
    "cut_off": "cut off by the photo's edge",
    "sparse": "too little of their box visible",
    "vanished": "no pixel left once shrunk",
    "unmapped": "of classes that the class map drops",
    "unreadable": "unreadable pictures",
}
"""Why an annotation is no crop."""


class Photos(Protocol):
    """A map-style dataset that a bank can be built from; `segpaste.bank.build.origins` says what it may have beside."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> DenseSample: ...

    def image_id(self, index: int) -> int:
        """The id of the photo, unique in its dataset."""
        ...

    def annotation_ids(self, index: int) -> Sequence[int]:
        """The dataset's id of each instance; instance id i + 1 is at position i."""
        ...

    def left_out(self, index: int) -> Mapping[str, int]:
        """Return how many annotations of a photo that was read are no instances, by a key of `REASONS`."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Choice of the objects that become crops.

    How much of an object something else hides is not known: annotations have the visible part only. Two signs of it
    can be asked for.

    Attributes:
        min_area_px: pixels of the mask in the photo, at least.
        min_fill_frac: area of the mask over the area of its box, at least: low for what shines through a fence.
        whole_only: leave out what touches the photo's edge, for the photo probably ends before the object does.
        min_part_frac: cut off parts of a mask that have a smaller fraction of its pixels and lie outside of the box of
            the larger ones, see `segpaste.bank.build._strays`: 3 wrong pixels far away would shrink a crop to a
            thumbnail. 0 cuts off none. All else is about the mask without them.
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
        """The mask [H, W] without stray parts; the same object where it has none."""
        return without_strays(mask, self.min_part_frac) if self.min_part_frac > 0 and bool(mask.any()) else mask

    def reason_against(self, mask: Tensor) -> str | None:
        """Return why an object of this mask [H, W] is left out: a key of `REASONS`."""
        area = int(mask.sum())
        if area == 0:
            return "empty"
        if area < self.min_area_px:
            return "small"
        left, top, right, bottom = box_of(mask)
        if self.whole_only and (min(left, top) == 0 or bottom == mask.shape[0] or right == mask.shape[1]):
            return "cut_off"
        return "sparse" if area < self.min_fill_frac * (right - left) * (bottom - top) else None


@dataclass(frozen=True, slots=True)
class PartMaker:
    """All that making a part takes; it travels to workers.

    Attributes:
        photos: the dataset.
        order: [photos] their indices, by ascending image id.
        layout: what a record keeps.
        selection: which objects become crops.
        margin_frac: see `segpaste.bank.build.cropping.crop_object`.
        num_classes: labels are below it.
        flags: `segpaste.types.fields.FLAGS` of every sample.
        notes: of the finished parts, with their rows beside them.
        skips_unreadable: count photos that cannot be read, and go on.
    """

    photos: Photos
    order: NDArray[np.int64]
    layout: Layout
    selection: Selection
    margin_frac: float
    num_classes: int
    flags: Mapping[str, Any]
    notes: Notes
    skips_unreadable: bool = False

    @property
    def num_parts(self) -> int:
        """Return how many parts there are."""
        return -(-len(self.order) // PHOTOS_PER_PART)

    def missing(self) -> list[int]:
        """The parts that are not finished."""
        return [part for part in range(self.num_parts) if not self._is_done(part)]

    def photos_of(self, part: int) -> NDArray[np.int64]:
        """Indices of the photos of a part."""
        return self.order[part * PHOTOS_PER_PART : (part + 1) * PHOTOS_PER_PART]

    def make(self, part: int) -> None:
        """Cut the crops of a part and write them.

        Raises:
            BankError: a sample is not what it must be.
            ValueError, OSError: a photo cannot be read, or the part cannot be written.
        """
        tally: dict[str, Any] = {"trimmed": 0, "skipped": Counter(), "kept": Counter()}
        digest = hashlib.sha256()

        def records() -> Iterator[bytes]:
            for index in self.photos_of(part).tolist():
                for row in self._rows(index, tally):
                    record = row.tobytes()
                    digest.update(record)
                    yield record

        path = write_whole(self.notes.path(part, "rows"), records())
        self.notes.write(part, {"size": path.stat().st_size, "sha256": digest.hexdigest(), **tally})

    def found(self, part: int) -> dict[str, Any]:
        """Return a finished part: ``skipped`` by reason, ``kept`` by class, ``trimmed``, size and SHA-256."""
        return dict(self.notes.read(part))

    def rows(self, part: int) -> Iterator[Array]:
        """The records of a finished part, one at a time.

        Raises:
            BankError: the file was changed; the part counts as not done then.
        """
        path, size = self.notes.path(part, "rows"), self.layout.dtype.itemsize
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while len(record := file.read(size)) == size:
                digest.update(record)
                yield np.frombuffer(record, self.layout.dtype).reshape(())
            digest.update(record)
        if digest.hexdigest() != self.found(part)["sha256"]:
            self.notes.path(part).unlink()
            raise BankError(f"{path}: expected what was written there, it was changed; build again, to make it anew")

    def _rows(self, index: int, tally: dict[str, Any]) -> Iterator[Array]:
        """Yield the records of one photo; what becomes of its annotations is counted, see `found`."""
        try:
            sample, image_id = self.photos[index], self.photos.image_id(index)
        except (ValueError, OSError):
            if not self.skips_unreadable:
                raise
            tally["skipped"]["unreadable"] += 1
            return
        try:
            ids = self._checked_ids(sample, index)
            assert sample.instance_masks is not None
            tally["skipped"].update(self.photos.left_out(index))
            for position in sorted(range(len(ids)), key=lambda i: ids[i]):
                whole = sample.instance_masks[position].as_subclass(Tensor)
                mask = self.selection.without_strays(whole)
                reason = self.selection.reason_against(mask)
                if reason is None:
                    crop = crop_object(
                        sample,
                        position,
                        self.layout.crop_size,
                        mask=mask,
                        margin_frac=self.margin_frac,
                        frame=frame_of(self.photos, index, box_of(mask)),
                        image_id=image_id,
                        annotation_id=ids[position],
                    )
                    crop = replace(crop, dataset_idx=dataset_idx_of(self.photos, index))
                    reason = None if crop.alpha.any() else "vanished"
                if reason is None:
                    tally["trimmed"] += mask is not whole
                    tally["kept"][crop.class_id] += 1
                    yield self.layout.pack(crop)
                else:
                    tally["skipped"][reason] += 1
        except BankError as error:
            raise BankError(f"image {image_id}: {error}") from error

    def _checked_ids(self, sample: DenseSample, index: int) -> list[int]:
        """The dataset's id of each instance of a sample."""
        if sample.instance_masks is None or sample.instance_ids is None:
            raise BankError("expected instance_masks, got none; objects are cut out by their masks")
        for name, value in flags_of(sample).items():
            if value != self.flags[name]:
                raise BankError(f"expected {name}={self.flags[name]} as in the first photo, got {value}")
        labels = sample.labels.tolist()
        if labels and not 0 <= min(labels) <= max(labels) < self.num_classes:
            raise BankError(f"expected labels from 0 to {self.num_classes - 1}, got {min(labels)} to {max(labels)}")
        ids = self.photos.annotation_ids(index)
        return [stored_id(ids[instance_id - 1], "annotation") for instance_id in sample.instance_ids.tolist()]

    def _is_done(self, part: int) -> bool:
        """Both files are there and whole; what the rows are, `rows` looks at."""
        try:
            found = self.found(part)
            return bool(
                found["size"] == self.notes.path(part, "rows").stat().st_size
                and {"kept", "skipped", "trimmed"} <= found.keys()
            )
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return False


def stored_id(value: int, kind: str) -> int:
    """An id as the bank can keep it; BankError where it is beyond int64."""
    if not -(2**63) <= value < 2**63:
        raise BankError(f"expected ids from -2**63 to 2**63 - 1, got the {kind} id {value}; give it another one")
    return int(value)
