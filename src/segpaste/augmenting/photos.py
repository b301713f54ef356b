"""The images of a dataset in a seeded, endless order, and their reader, in their own size or jittered to one size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste._pixels import outward_box
from segpaste.bank.read.own_size import over_classes
from segpaste.datasets._orders import shuffled_order
from segpaste.datasets.contract import AnnotatedDataset, Crowd
from segpaste.datasets.conversion.given import num_other_boxes, panoptic_keys
from segpaste.datasets.formats.kept_shapes import KeptShape, kept_shapes
from segpaste.datasets.formats.references import OWN_KEY
from segpaste.datasets.jitter import FixedSizeCrop, LargeScaleJitter, make_large_scale_jittering
from segpaste.datasets.writers.coco import tight_xywh
from segpaste.datasets.writers.format import unread_losses
from segpaste.datasets.writers.layouts import WrittenLayout
from segpaste.replay.record import RecordedJitter, RecordedPhoto
from segpaste.seeding import SampleKey, random_bits_numpy
from segpaste.types import DenseSample, select_instances
from segpaste.types.dense import fill_holes
from segpaste.types.sampling import outward_boxes

RECORDS = "replay.jsonl"
"""File of an augmented dataset with a replay record of every image, one per line."""

MOST_TRIES = 16
"""Largest number of images that are tried at one position."""

WITHOUT_PIXEL = "objects with a box whose mask has no pixel"
"""Description of objects that are left out of augmented images."""
OVERWRITTEN = f"key '{OWN_KEY}' of {{}}, replaced by the provenance"

_order_of = lru_cache(maxsize=2)(shuffled_order)


@dataclass(frozen=True, slots=True)
class PhotoPick:
    """An image at one position of the sequence.

    Attributes:
        key: key of the sample; its index is the position, from 0, its epoch the number of complete passes over the
            dataset before. Its rank is 0 for the target, and counts the sources from 1.
        index: index of the image in the dataset.
    """

    key: SampleKey
    index: int

    @property
    def position(self) -> int:
        """Position in the sequence, from 0."""
        return self.key.sample_idx


@dataclass(frozen=True, slots=True, eq=False)
class PhotoSequence:
    """The sequence of one dataset and one seed.

    Attributes:
        photos: the dataset, not empty.
        seed: seed of the sequence.
        skipped: indices of images that are left out.
    """

    photos: AnnotatedDataset
    seed: int
    skipped: Collection[int] = ()

    def pick(self, position: int) -> PhotoPick:
        """Return the first choice for this position, which may be a skipped image."""
        epoch, place = divmod(position, len(self.photos))
        index = int(_order_of(len(self.photos), self.seed, epoch)[place])
        return PhotoPick(SampleKey(self.seed, epoch, 0, 0, position), index)

    def position_of(self, index: int) -> int:
        """Return the position of an image in the order of epoch 0."""
        return int(np.flatnonzero(_order_of(len(self.photos), self.seed, 0) == index)[0])

    def picks(self, position: int) -> Iterator[PhotoPick]:
        """Yield the image at this position, then its replacements for the case that it cannot be read."""
        pick = self.pick(position)
        if pick.index not in self.skipped:
            yield pick
        others = np.setdiff1d(np.arange(len(self.photos)), [*self.skipped, pick.index])
        if len(others):
            bits = random_bits_numpy(pick.key.seed, "augment.instead", np.arange(MOST_TRIES))
            for place in dict.fromkeys((bits % np.uint64(len(others))).tolist()):
                yield PhotoPick(pick.key, int(others[place]))

    def sources(self, target: PhotoPick, number: int, eligible: NDArray[np.int64]) -> Iterator[PhotoPick]:
        """Yield a source image, then its replacements for the case that nothing in it can be pasted.

        Each is uniform over the eligible images other than the target; nothing is yielded if there is no other.

        Args:
            target: the target.
            number: number of the source among those of the target, from 0.
            eligible: [N] indices of images with something to paste, ascending.
        """
        place = int(np.searchsorted(eligible, target.index))
        is_among = place < len(eligible) and eligible[place] == target.index
        num_others = len(eligible) - bool(is_among)
        if not num_others:
            return
        tries = np.arange(MOST_TRIES)
        bits = random_bits_numpy(target.key.seed, "augment.source", np.full_like(tries, number), tries)
        for turn, at in enumerate((bits % np.uint64(num_others)).tolist()):
            index = int(eligible[at + (is_among and at >= place)])
            if index not in self.skipped:
                yield PhotoPick(target.key._replace(rank=number + 1, worker_id=turn), index)


def cornered(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """Return a sample in the top left corner of a canvas (H, W), with a padding mask."""
    return FixedSizeCrop(size).transform(sample, (0, 0))


def cut_to(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """Return the top left (H, W) of a sample, without a padding mask."""
    cut = sample if sample.canvas_size == size else cornered(sample, size)
    return cut if cut.padding_mask is None else replace(cut, padding_mask=None)


Window = tuple[int, int, int, int]
"""(top, left, height, width), pixels."""

_LARGE_BYTES = 192 << 20
"""Largest size of a source's image and masks; of a larger source only a window is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Photo:
    """An image that was read, with its objects.

    Attributes:
        pick: its position in the sequence and the dataset.
        sample: its pixels and objects.
        annotation_ids: the dataset's id of each instance of ``sample``.
        window: the window that was cut out of it; None for the whole image.
    """

    pick: PhotoPick
    sample: DenseSample
    annotation_ids: list[int]
    window: Window | None = None

    def over(self, slot: int) -> frozenset[int]:
        """Return the classes of the other instances that share pixels with one; empty without masks."""
        return over_classes(self.sample.labels, self.sample.instance_masks, slot)

    @property
    def recorded(self) -> RecordedPhoto:
        """The image as an entry of a replay record."""
        return RecordedPhoto(index=self.pick.index, window=self.window)


class PhotoReader:
    """Reader of the images of a dataset.

    Args:
        photos: the dataset.
        jitter: jitter of every image, seeded by its key; None keeps its size.

    Attributes:
        photos, jitter: as given.
        unreadable: reasons why images could not be read, by index.
    """

    def __init__(self, photos: AnnotatedDataset, jitter: RecordedJitter | None = None) -> None:
        self.photos, self.jitter = photos, jitter
        self.unreadable: dict[int, str] = {}
        self._jitter: LargeScaleJitter | None = None
        if jitter is not None:
            self._jitter = make_large_scale_jittering(jitter.size, jitter.scale_range, hflip_prob=jitter.hflip_prob)

    def read(self, pick: PhotoPick, window: Window | None = None) -> Photo:
        """Read an image, and cut a window out of it if one is given.

        Raises:
            DatasetError: it cannot be read.
        """
        photos, jitter = self.photos, self._jitter
        if jitter is None:
            sample = photos[pick.index]
        elif (read := getattr(photos, "read_jittered", None)) is not None:
            sample = read(pick.index, jitter, pick.key.seed)
        else:
            sample = jitter(photos[pick.index], pick.key.seed)
        if jitter is not None and photos.depth_fill:
            sample = fill_holes(sample)  # the jitter reads depth between valid pixels only
        ids = list(photos.annotation_ids(pick.index))
        return in_window(Photo(pick, sample, _own_ids(ids, sample)), window)

    def first_readable(self, picks: Iterator[PhotoPick], skips_unreadable: bool) -> Photo:
        """Read the first of some images that can be read; the others are noted in ``unreadable``.

        Raises:
            DatasetError: an image cannot be read and ``skips_unreadable`` is False, or none of them can be read.
        """
        last: Exception | None = None
        for pick in picks:
            try:
                return self.read(pick)
            except (ValueError, OSError) as error:
                if not skips_unreadable:
                    raise
                self.unreadable[pick.index], last = str(error), error
        raise last or ValueError("expected an image that can be read, got none; repair the dataset")

    def kept_shapes(self, photo: Photo, after: DenseSample, layout: WrittenLayout) -> Sequence[KeptShape]:
        """Return the given numbers of each object of an augmented image; empty with jitter, which moves all."""
        if self._jitter is not None or not layout.keeps_shapes:
            return ()
        return kept_shapes(self.photos, photo.pick.index, photo.annotation_ids, photo.sample, after, layout.task)

    def void(self, pick: PhotoPick) -> NDArray[np.bool_] | None:
        """Return the pixels without a class that the sample of an image does not hold, as `read` shows them."""
        void = self.photos.void(pick.index)
        if void is None or self._jitter is None:
            return void
        shown = self._moved(void[None], pick)
        return next((mask for _, mask in shown), None)

    def lost(self, pick: PhotoPick, layout: WrittenLayout) -> Counter[str]:
        """Count what the files say of an image, but neither its sample nor the annotations beside it."""
        lost = unread_losses(self.photos.unread(pick.index), layout.name)
        crowds, (photos, index) = self.photos.crowds(pick.index), self.photos.place_of(pick.index)
        lost[OVERWRITTEN.format("images")] = bool(photos.image_row(index).get(OWN_KEY))
        rows = photos.annotation_rows(index)
        lost[WITHOUT_PIXEL] = sum(not crowd.is_in_sample for crowd in crowds)
        if photos.schema is None:
            ids = {row["id"] for row in rows if "id" in row}
            others = {*photos.annotation_ids(index), *(crowd.annotation_id for crowd in crowds)}
            regions = sum(crowd.box is None and not crowd.mask.any() for crowd in crowds)
            lost["annotations without a pixel"] = len(ids - others) + regions
        else:
            lost += panoptic_keys(photos, index, crowds)
        return +lost

    def crowds(self, pick: PhotoPick) -> Sequence[Crowd]:
        """Return the crowd and ignored regions of an image, and its objects without a mask, as `read` shows them.

        Objects whose mask has no pixel are not among them: no pixel of the sample tells whether a paste hides them.
        With jitter the box of an object is that of its visible pixels.
        """
        crowds = [crowd for crowd in self.photos.crowds(pick.index) if crowd.is_in_sample]
        if self._jitter is None or not crowds:
            return crowds
        shown = self._moved(np.stack([crowd.mask for crowd in crowds]), pick)
        return [_moved(crowds[number], mask) for number, mask in shown]

    def num_other_boxes(self, photo: Photo) -> int:
        """Return how many objects and regions of an image have a box that is not that of their mask, which is written.

        Boxes of objects are not compared with jitter.
        """
        if photo.sample.instance_masks is None:
            return 0
        tight = dict(zip(photo.annotation_ids, photo.sample.boxes.tolist(), strict=True)) if self.jitter is None else {}
        return num_other_boxes(self.photos, photo.pick.index, tight)

    def _moved(self, masks: NDArray[np.bool_], pick: PhotoPick) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yield the number of each of some masks [N, H, W] that the jitter shows, and the mask as shown."""
        assert self._jitter is not None
        blank = torch.zeros(3, *masks.shape[1:], dtype=torch.uint8, device="cpu")
        labels = torch.zeros(len(masks), dtype=torch.int64, device="cpu")
        moved = self._jitter(DenseSample.from_masks(blank, torch.from_numpy(masks), labels), pick.key.seed)
        assert moved.instance_ids is not None
        assert moved.instance_masks is not None
        for number, mask in zip(moved.instance_ids.tolist(), moved.instance_masks.as_subclass(Tensor), strict=True):
            yield number - 1, mask.numpy()


def _moved(crowd: Crowd, mask: NDArray[np.bool_]) -> Crowd:
    if crowd.box is None:
        return crowd._replace(mask=mask)
    x, y, width, height = map(float, tight_xywh(mask))
    return crowd._replace(mask=mask, box=(x, y, x + width, y + height), given=None)


def window_for(photo: Photo, target_size: tuple[int, int], lowest_scale: float) -> Window | None:
    """Return a window of a large source that is enough for its target; None for the whole source.

    At the lowest scale, a window of the target's size divided by that scale fills the target: objects farther apart are
    never pasted together. The window has a random position around an object that is drawn uniformly.

    Args:
        photo: the source.
        target_size: (H, W) of the target.
        lowest_scale: lowest scale of a paste.
    """
    canvas, num = photo.sample.canvas_size, photo.sample.num_instances
    if canvas[0] * canvas[1] * (num + 3) < _LARGE_BYTES:
        return None
    limit = tuple(int(side / lowest_scale) + 1 for side in target_size)
    size = min(canvas[0], limit[0]), min(canvas[1], limit[1])
    if size == canvas:
        return None
    draws = random_bits_numpy(photo.pick.key.seed, "augment.window", np.arange(3))
    boxes = photo.sample.boxes.as_subclass(Tensor)
    box = boxes[int(draws[0] % np.uint64(len(boxes)))].tolist() if len(boxes) else [0.0, 0.0, *canvas[::-1]]
    whole, corner = outward_box(box, canvas), []
    for axis, draw in ((0, draws[1]), (1, draws[2])):
        start, end = whole[1 - axis], whole[3 - axis]
        low, high = sorted((max(0, end - size[axis]), min(start, canvas[axis] - size[axis])))
        corner.append(low + int(draw % np.uint64(high - low + 1)))
    return corner[0], corner[1], *size


def in_window(photo: Photo, window: Window | None) -> Photo:
    """Cut a window out of an image, with the objects that lie wholly within it."""
    if window is None:
        return photo
    top, left, height, width = window
    boxes = photo.sample.boxes.as_subclass(Tensor)
    low, high = boxes.new_tensor([left, top]), boxes.new_tensor([left + width, top + height])
    keep = torch.nonzero(((boxes[:, :2] >= low) & (boxes[:, 2:] <= high)).all(1)).flatten()
    kept = [photo.annotation_ids[slot] for slot in keep.tolist()]
    cut = FixedSizeCrop((height, width)).transform(photo.sample, (top, left))
    padding = None if photo.sample.padding_mask is None else cut.padding_mask
    return Photo(photo.pick, select_instances(replace(cut, padding_mask=padding), keep), kept, window)


def has_whole_object(sample: DenseSample) -> bool:
    """Return whether any object's box does not touch the border of its image; padding does not count as image."""
    boxes, (height, width) = sample.boxes.as_subclass(Tensor), sample.canvas_size
    if sample.padding_mask is not None:
        shown = ~sample.padding_mask.as_subclass(Tensor)[0]
        height, width = (int(torch.nonzero(shown.any(dim)).max()) + 1 if shown.any() else 0 for dim in (1, 0))
    whole = outward_boxes(boxes)
    inside = (whole[:, :2] > 0).all(1) & (whole[:, 2:] < whole.new_tensor([width, height])).all(1)
    return bool(inside.any())


def _own_ids(ids: list[int], sample: DenseSample) -> list[int]:
    """Return the dataset's id of each instance of a sample after the jitter, which may remove some."""
    return ids if sample.instance_ids is None else [ids[number - 1] for number in sample.instance_ids.tolist()]


def stacked(samples: Sequence[DenseSample]) -> list[DenseSample]:
    """Return samples in the top left corners of canvases of one size, with padding masks if the sizes differ."""
    size = max(s.canvas_size[0] for s in samples), max(s.canvas_size[1] for s in samples)
    if all(sample.canvas_size == size for sample in samples):
        return list(samples)
    return [cornered(sample, size) for sample in samples]
