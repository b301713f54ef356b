"""Sources of the pasted objects of an image: a bank, or the whole dataset, by objects or by images.

The configuration selects one of them. If a layer is one object, objects are drawn from all annotations and cut out at
the size of their images. If a layer is a whole image, or classes are mixed, an image is drawn for each layer. With
``source.kind=same_image`` the target itself is the source of every layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation.prepare import prepared_sources
from segpaste.augmentation.sources.strategies import GivenRows
from segpaste.augmenting.draws import CropSequence, ObjectSequence, crop_limit, object_config
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.photos import (
    Photo,
    PhotoPick,
    PhotoReader,
    PhotoSequence,
    cornered,
    has_whole_object,
    in_window,
    stacked,
    window_for,
)
from segpaste.bank.read.own_size import StagedObject, stage_own_size
from segpaste.seeding import key_tensors
from segpaste.types import (
    BatchedDenseSample,
    DenseSample,
    PaddedBatchedDenseSample,
    StagedCrops,
    select_instances,
)
from segpaste.types.rows import one_row, own_row

_MOST_PHOTOS = 4
"""Number of images that single objects of one target are taken from, if images are drawn."""

_MOST_JITTERS = 4
"""Largest number of sources that are read for a layer until one has an object."""


@dataclass(slots=True, eq=False)
class Staged:
    """Objects that are staged for one target.

    Attributes:
        batch: batch with the target as its first row.
        crops: staged crops for the module, if it pastes crops.
        objects: indices of these objects of the dataset.
        photos: the images whose objects are pasted.
    """

    batch: PaddedBatchedDenseSample
    crops: StagedCrops | None = None
    objects: list[StagedObject | None] = field(default_factory=list)
    photos: list[Photo] = field(default_factory=list)


class PasteSources:
    """Draws and staging of the objects that are pasted into each target.

    Args:
        inputs: the dataset.
        config: config of the paste.
        sequence: the targets.
        reader: reads images.
        crops: crops of a bank, if objects are taken from a bank.
        objects: objects of the dataset, if each layer is one object; else whole images are drawn.
        skips_unreadable: skip images that cannot be read.
        eligible: indices of the images with something to paste, ascending; found by default.

    Attributes:
        inputs, config, sequence, reader, crops, objects, skips_unreadable: as given.
        module: the module that pastes.
    """

    def __init__(
        self,
        inputs: Inputs,
        config: BatchCopyPasteConfig,
        sequence: PhotoSequence,
        reader: PhotoReader,
        crops: CropSequence | None,
        objects: ObjectSequence | None,
        skips_unreadable: bool,
        eligible: NDArray[np.int64] | None,
    ) -> None:
        self.inputs, self.config, self.sequence, self.reader = inputs, config, sequence, reader
        self.crops, self.objects, self.skips_unreadable = crops, objects, skips_unreadable
        self._eligible = eligible
        config = config if objects is None else object_config(config)
        config = config.model_copy(update={"max_instances": None})  # an image with more instances gets no paste
        is_mixed, in_place = config.emit_classmix, config.placement.pad_to_multiple is None
        is_bank = config.source.kind == "bank"
        is_given = not (is_mixed or is_bank or self._is_own)
        source = GivenRows(whole_only=self._needs_whole) if is_given else None
        self.module = BatchCopyPaste(config, source, inplace=in_place and not is_mixed)

    def staged(self, target: Photo) -> Staged:
        """Draw and stage the objects to paste into a target."""
        pick, config, sample = target.pick, self.module.config, target.sample
        if self.crops is not None:
            num = config.source.crops_per_target
            return Staged(self._row(sample, num, pick), self.crops.staged(pick.position, 1, num))
        if self.objects is not None:
            limit = crop_limit(config, sample.canvas_size)
            drawn = self.objects.drawn(pick, config.num_layers, list(self.sequence.skipped))
            with_over = self.inputs.photos.federated(pick.index) is not None
            crops, shown = stage_own_size(self.objects.bank, drawn, limit, with_over=with_over)
            self.objects.bank.close()  # frees the image read last, which may be large
            return Staged(self._row(sample, config.num_layers, pick), crops, shown)
        if self._is_own:
            return Staged(self._row(sample, config.num_layers * self._per_layer(sample.num_instances), pick))
        photos = [photo for number in range(self._num_photos) if (photo := self._source(target, number)) is not None]
        return self._mixed(target, photos) if config.emit_classmix else self._apart(target, photos)

    def _mixed(self, target: Photo, photos: list[Photo]) -> Staged:
        """Return sources as rows of the target's batch; its canvas holds all classes, which keep their position."""
        samples = [cornered(photo.sample, target.sample.canvas_size) for photo in (target, *photos)]
        most = max(sample.num_instances for sample in samples)
        batch = BatchedDenseSample.from_samples(samples).to_padded(
            self._num_slots(most, most * self.config.num_layers),
            **key_tensors([photo.pick.key for photo in (target, *photos)]),
        )
        return Staged(batch, photos=photos)

    def _apart(self, target: Photo, photos: list[Photo]) -> Staged:
        """Return sources on canvases of their own."""
        assert isinstance(self.module.source, GivenRows)
        most = max((photo.sample.num_instances for photo in photos), default=0)
        batch = self._row(target.sample, self.config.num_layers * self._per_layer(most), target.pick)
        samples = stacked([photo.sample for photo in photos]) if photos else [_nothing_like(target.sample)]
        keys = [photo.pick.key for photo in photos] or [target.pick.key._replace(rank=1)]
        rows = BatchedDenseSample.from_samples(samples).to_padded(max(1, most), **key_tensors(keys))
        self.module.source.rows = prepared_sources(rows, self.module.config)
        return Staged(batch, photos=photos)

    def _per_layer(self, num: int) -> int:
        """Return the largest number of instances that a layer takes from an image of ``num``."""
        return num if self.config.placement.grouping == "image" else 1

    @property
    def _is_own(self) -> bool:
        """True if each image is its own source."""
        return self.config.source.kind == "same_image"

    @property
    def _num_photos(self) -> int:
        """Number of images read for one target: one for each layer of a whole image, a few for single objects."""
        is_image = self.config.emit_classmix or self.config.placement.grouping == "image"
        return self.config.placement.layers if is_image else min(self.config.placement.layers, _MOST_PHOTOS)

    def _source(self, target: Photo, number: int) -> Photo | None:
        """Read an image with something to paste; if its jitter cut that off, try another image."""
        found, num_tries = None, 0
        for pick in self.sequence.sources(target.pick, number, self.eligible):
            try:
                found = self.reader.first_readable(iter([pick]), self.skips_unreadable)
            except (ValueError, OSError):
                if not self.skips_unreadable:
                    raise
                continue
            num_tries += 1
            sample = found.sample
            has_object = has_whole_object(sample) if self._needs_whole else sample.num_instances > 0
            if has_object or self.config.emit_classmix or num_tries == _MOST_JITTERS:
                break
        if found is None or self.config.emit_classmix:
            return found
        low = self.config.placement.scale_range[0]
        return in_window(found, window_for(found, target.sample.canvas_size, low))

    @property
    def _needs_whole(self) -> bool:
        """True if objects at the border of their image are left out; at a kept place the engine decides."""
        is_random = self.config.placement.position == "random"
        return self.config.source.whole_only and is_random and not self.config.emit_classmix

    @property
    def has_any(self) -> bool:
        """True if the dataset has something to paste."""
        return self.crops is not None or len(self.eligible) > 0

    @property
    def eligible(self) -> NDArray[np.int64]:
        """Indices of the images with something to paste, ascending."""
        if self._eligible is None:
            found = photos_with_objects(self.inputs, self.config)
            self._eligible = np.setdiff1d(found, list(self.sequence.skipped)) if self.sequence.skipped else found
        return self._eligible

    def _row(self, sample: DenseSample, room: int, pick: PhotoPick) -> PaddedBatchedDenseSample:
        """Return the target as a batch of one, with slots for all instances that the layers can add.

        It is pasted into, so it has copies of what a dataset of Python may keep.
        """
        row = own_row if self.inputs.found is None else one_row
        return row(sample, self._num_slots(sample.num_instances, room), pick.key)

    def _num_slots(self, num: int, room: int) -> int:
        """Return the number of slots for ``num`` instances and all possible pastes, limited by the configuration."""
        if self.config.max_instances is not None:
            return max(num, self.config.max_instances)
        room = max(1, min(room, self.config.placement.k_range[1]))
        panoptic = self.config.panoptic
        limit = num + room if panoptic is None else panoptic.taxonomy.max_instances_per_image
        return max(num, min(num + room, limit))


def photos_with_objects(inputs: Inputs, config: BatchCopyPasteConfig) -> NDArray[np.int64]:
    """Return the indices of the images with something to paste, ascending."""
    photos = inputs.photos
    if not photos.lists_labels or config.emit_classmix:
        return np.arange(len(photos) - inputs.num_backgrounds)
    things = None if config.panoptic is None else config.panoptic.taxonomy.classes
    found = [
        index
        for index in range(len(photos))
        if any(things is None or things.get(label) == "thing" for label in photos.instance_labels(index))
    ]
    return np.array(found, np.int64)


def _nothing_like(sample: DenseSample) -> DenseSample:
    """Return a sample of one pixel with the fields of another sample, without an instance."""
    return select_instances(cornered(sample, (1, 1)), torch.zeros(0, dtype=torch.int64, device="cpu"))
