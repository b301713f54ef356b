"""Augmented images of a sequence: each is an image of the dataset with objects of the whole dataset or of a bank.

Image i depends on the dataset, the seed, i and the configuration only: not on the number of images, the process that
makes them, or their order. Memory depends on one image and its pastes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.augmentation import DROP_REASONS, LOSS_REASONS, BatchCopyPasteConfig, PasteReport
from segpaste.augmenting.draws import CropSequence, ObjectSequence, default_balance, draws_objects, open_objects
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.options import AugmentError
from segpaste.augmenting.photos import Photo, PhotoPick, PhotoReader, PhotoSequence, Window, cut_to
from segpaste.augmenting.sources import PasteSources, Staged, photos_with_objects
from segpaste.datasets.dataset_counts import class_pixels
from segpaste.replay import ReplayRecord, records
from segpaste.replay.record import RecordedJitter, RecordedLayer
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample, PaddedBatchedDenseSample
from segpaste.types.rows import row_sample


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of one instance of an output.

    Attributes:
        index: index of its image in the dataset; None for a crop of a bank.
        name: name of the image or the crop.
        image_id: id of the image, if known.
        annotation_id: its id in the image's dataset, if known.
        paste: the layer that carries it; None for an instance of the target.
        over: classes of the other instances of its image that share pixels with it.
        window: (top, left, height, width) in the image that ``paste`` is relative to; None for the whole image.
        crop_window: (x, y, width, height) in the image of the crop that ``paste`` is relative to; None if it is not a
            crop of an image of the dataset.
        crop_scale: pixels of that crop for one pixel of the image.
    """

    index: int | None
    name: str
    image_id: int | None
    annotation_id: int | None
    paste: RecordedLayer | None
    over: frozenset[int] = frozenset()
    window: Window | None = None
    crop_window: tuple[float, float, float, float] | None = None
    crop_scale: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Augmented:
    """An augmented image.

    Attributes:
        target: the image before the paste.
        labels_before: class of each instance before the paste.
        after: the augmented image, of the same size.
        origins: origin of each instance of ``after``.
        num_tried: number of pastes that were drawn.
        dropped: reason to number of dropped pastes, without zeros.
        pasted_frac: fraction of its pixels that were pasted.
        record: record to remake ``after``, see `segpaste.augmenting.remaking.Remaker`.
        pixels_before: pixels of each semantic class before the paste, if classes are mixed.
        pixels_after: the same for ``after``.
        lost: class of each instance of the target that is not in ``after``, with the reason.
    """

    target: Photo
    labels_before: tuple[int, ...]
    after: DenseSample
    origins: tuple[Origin, ...]
    num_tried: int
    dropped: dict[str, int]
    pasted_frac: float
    record: ReplayRecord
    pixels_before: dict[int, int] = field(default_factory=dict)
    pixels_after: dict[int, int] = field(default_factory=dict)
    lost: tuple[tuple[int, str], ...] = ()

    @property
    def pick(self) -> PhotoPick:
        """The image at its position of the sequence."""
        return self.target.pick


class Paster(PasteSources):
    """Maker of the images of a sequence, in any order.

    Args:
        inputs: the dataset.
        config: config of the paste.
        seed: seed of the sequence.
        crops: crops to paste, if the configuration takes objects from a bank.
        objects: objects of the dataset, if each layer is one of them; else whole images are drawn.
        jitter: jitter of every image; None keeps its size.
        skipped: indices of images that are never read.
        skips_unreadable: also skip images that cannot be read.
        eligible: indices of the images that have something to paste, ascending; found by default.
    """

    def __init__(
        self,
        inputs: Inputs,
        config: BatchCopyPasteConfig,
        seed: int,
        *,
        crops: CropSequence | None = None,
        objects: ObjectSequence | None = None,
        jitter: RecordedJitter | None = None,
        skipped: frozenset[int] = frozenset(),
        skips_unreadable: bool = False,
        eligible: NDArray[np.int64] | None = None,
    ) -> None:
        sequence, reader = PhotoSequence(inputs.photos, seed, skipped), PhotoReader(inputs.photos, jitter)
        super().__init__(inputs, config, sequence, reader, crops, objects, skips_unreadable, eligible)

    @property
    def unreadable(self) -> dict[int, str]:
        """Reasons why images could not be read so far, by index, without those that are skipped from the start."""
        return {**self.reader.unreadable, **({} if self.objects is None else self.objects.bank.unreadable)}

    def target(self, position: int) -> Photo:
        """Read the target of a position.

        Raises:
            DatasetError: it cannot be read.
        """
        return self.reader.first_readable(self.sequence.picks(position), self.skips_unreadable)

    def image(self, position: int) -> Augmented:
        """Make the augmented image of a position.

        Raises:
            DatasetError: an image cannot be read.
            ValueError: the dataset lacks a modality that the configuration needs.
        """
        target = self.target(position)
        labels_before = tuple(target.sample.labels.tolist())
        size = target.sample.canvas_size
        is_mixed = self.config.emit_classmix
        before = class_pixels(target.sample) if is_mixed else {}
        staged = self.staged(target)
        with warnings.catch_warnings():  # the summary reports images without a paste
            warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing", UserWarning)
            try:
                out, report = self.module(staged.batch, staged=staged.crops, return_report=True)
            except ValueError as error:  # raised by the library
                name = self.inputs.photos.file_name(target.pick.index)
                raise AugmentError(f"{name}: {str(error).removeprefix('BatchCopyPaste: ')}") from error
        record = self._recorded(target, staged, out, report)
        origins = tuple(self._origins(target, staged, out, report, record))
        tried, dropped = int(report.num_tried[0]), report.num_dropped[0].tolist()
        after = cut_to(row_sample(out), size)
        return Augmented(
            target,
            labels_before,
            after,
            origins,
            tried,
            {reason: num for reason, num in zip(DROP_REASONS, dropped, strict=True) if num},
            float((report.visible_layer[0, : size[0], : size[1]] >= 0).float().mean()),
            record,
            before,
            class_pixels(after) if is_mixed else {},
            tuple(
                (labels_before[slot], LOSS_REASONS[reason - 1])
                for slot, reason in enumerate(report.slot_lost[0].tolist())
                if reason
            ),
        )

    def _recorded(
        self, target: Photo, staged: Staged, out: PaddedBatchedDenseSample, report: PasteReport
    ) -> ReplayRecord:
        digest = self.inputs.digest
        record = records(self.module, staged.batch, out, report, staged=staged.crops, dataset=digest)[0]
        known = {photo.pick.key: photo for photo in (target, *staged.photos)}
        more: dict[str, Any] = {
            "photos": tuple(known[key].recorded for key in record.sample_keys),
            "jitter": self.reader.jitter,
            "depth_fill": self.inputs.fills_depth,
        }
        if self.objects is not None and staged.crops is not None:
            more["crop_size"] = staged.crops.crop_size
        return record.model_copy(update=more)

    def _origins(
        self,
        target: Photo,
        staged: Staged,
        out: PaddedBatchedDenseSample,
        report: PasteReport,
        record: ReplayRecord,
    ) -> Iterator[Origin]:
        """Return the origin of each instance of the output, in the order of its slots."""
        layers = {layer.layer: layer for layer in record.layers}
        sources = {photo.pick.key: photo for photo in (target, *staged.photos)}
        for slot in torch.nonzero(out.instance_valid[0]).flatten().tolist():
            layer = int(report.slot_layer[0, slot])
            if layer < 0:
                yield self._of_photo(target, slot, None)
            elif (paste := layers[layer]).source is not None:
                yield self._of_photo(sources[SampleKey(*paste.source)], int(report.slot_source[0, slot]), paste)
            else:
                yield self._of_crop(staged, int(report.placement.source_idx[0, layer]), paste)

    def _of_photo(self, photo: Photo, slot: int, paste: RecordedLayer | None) -> Origin:
        index, photos = photo.pick.index, self.inputs.photos
        is_listed = paste is not None and photos.federated(index) is not None
        over = photo.over(slot) if is_listed else frozenset[int]()
        ids = photos.image_id(index), photo.annotation_ids[slot]
        return Origin(index, photos.file_name(index), *ids, paste, over, photo.window if paste else None)

    def _of_crop(self, staged: Staged, number: int, paste: RecordedLayer) -> Origin:
        assert paste.crop is not None
        if self.crops is not None:
            return Origin(None, f"crop {paste.crop}", *self.crops.ids(paste.crop), paste)
        shown, photos = staged.objects[number], self.inputs.photos
        assert shown is not None
        annotation_id = photos.annotation_ids(shown.image)[shown.instance_id - 1]
        ids = photos.image_id(shown.image), annotation_id
        name, crop = photos.file_name(shown.image), (shown.window, shown.scale)
        return Origin(shown.image, name, *ids, paste, shown.over, None, *crop)


def open_paster(inputs: Inputs, config: BatchCopyPasteConfig, seed: int, **options: Any) -> Paster:
    """Make a `Paster` that draws objects of the dataset if the configuration asks for it; options are `Paster`'s."""
    balance = options.pop("balance", None) or default_balance(config)
    draws = draws_objects(inputs, config) and len(photos_with_objects(inputs, config)) > 0
    skips = bool(options.get("skips_unreadable"))
    objects = open_objects(inputs, config, seed, skips_unreadable=skips, **balance) if draws else None
    return Paster(inputs, config, seed, objects=objects, **options)
