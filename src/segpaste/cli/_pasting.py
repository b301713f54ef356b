"""An endless, seeded sequence of full batches out of a dataset, pasted, each image back at its own size.

Position i of the sequence depends on the dataset, the seed, the batch size and the configuration only: every batch is
full, so it does not matter how many images are wanted. A dataset of one photo pastes from another position that shows
the same photo.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from segpaste.augmentation import DROP_REASONS, BatchCopyPaste, BatchCopyPasteConfig, PasteReport
from segpaste.cli._crops import CropSequence
from segpaste.cli._inputs import Inputs
from segpaste.cli._sequence import PhotoPick, PhotoSequence, cornered, cut_to
from segpaste.replay import ReplayRecord, records
from segpaste.seeding import key_tensors
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample, StagedCrops


@dataclass(frozen=True, slots=True)
class PasteMap:
    """How a pasted object came from its source.

    Attributes:
        layer: which layer carries it.
        scale: of (x, y), each as (numerator, denominator).
        translate: (x, y), whole pixels.
        hflip: mirrored about the source photo's width, before scaling.
    """

    layer: int
    scale: tuple[tuple[int, int], tuple[int, int]]
    translate: tuple[int, int]
    hflip: bool

    @property
    def mean_scale(self) -> float:
        """The size over the size in the source: the geometric mean of both axes."""
        (x_num, x_den), (y_num, y_den) = self.scale
        return math.sqrt(x_num / x_den * y_num / y_den)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one instance of an output comes from.

    Attributes:
        pick: its photo; None for a crop of a bank.
        name: what the photo is called, or the crop.
        image_id: of the photo, where it is known.
        annotation_id: its id in the photo's dataset, where it is known.
        paste: how it was pasted; None for a survivor.
        over: classes of the other instances of its photo that share pixels with it.
        crop: its index in the bank; None for an object of a photo.
    """

    pick: PhotoPick | None
    name: str
    image_id: int | None
    annotation_id: int | None
    paste: PasteMap | None
    over: frozenset[int] = frozenset()
    crop: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Augmented:
    """One output.

    Attributes:
        pick: what stood at its position.
        before: the photo as it came.
        after: the augmented photo, of the same size.
        origins: one for each instance of ``after``.
        num_tried: pastes that were drawn.
        dropped: reason to number of pastes that are not in it, those that are not zero.
        record: makes ``after`` again; see `segpaste.cli._remaking.remade`.
    """

    pick: PhotoPick
    before: DenseSample
    after: DenseSample
    origins: tuple[Origin, ...]
    num_tried: int
    dropped: dict[str, int]
    record: ReplayRecord


@dataclass(slots=True)
class Paster:
    """Makes the batches of the sequence, any of them at any time.

    Attributes:
        inputs: the dataset.
        config: what a paste may do.
        seed: of the sequence.
        batch_size: B, at least 2 where sources are the other images of a batch.
        crops: what is pasted instead of those, if the configuration takes objects from a bank.
        seconds: spent in the augmentation itself so far.
        num_pasted_into: images that it was spent on.
    """

    inputs: Inputs
    config: BatchCopyPasteConfig
    seed: int
    batch_size: int
    crops: CropSequence | None = None
    seconds: float = 0.0
    num_pasted_into: int = 0
    _sequence: PhotoSequence = field(init=False)
    _module: BatchCopyPaste = field(init=False)

    def __post_init__(self) -> None:
        self._sequence = PhotoSequence(self.inputs.photos, self.seed)
        self._module = BatchCopyPaste(self.config)

    def batch(self, number: int) -> list[Augmented]:
        """The outputs of one batch; its first position is ``number * batch_size``.

        Raises:
            DatasetError: a photo or an annotation cannot be read.
            ValueError: the configuration does not fit the dataset.
        """
        first = number * self.batch_size
        picks = [self._sequence.pick(position) for position in range(first, first + self.batch_size)]
        read = {index: self.inputs.photos[index] for index in dict.fromkeys(pick.index for pick in picks)}
        named = {index: self._annotation_ids(index, sample) for index, sample in read.items()}
        samples = [read[pick.index] for pick in picks]
        padded = self._padded(samples, picks)
        staged = None
        if self.crops is not None:
            staged = self.crops.staged(first, self.batch_size, self.config.source.crops_per_target)
        start = time.perf_counter()
        out, report = self._module(padded, staged=staged, return_report=True)
        self.seconds += time.perf_counter() - start
        self.num_pasted_into += len(picks)
        pasted = out.to_batched().to_samples()
        recorded = records(self._module, padded, out, report, staged=staged, dataset=self.inputs.digest)
        sources = _Sources(self.inputs, picks, [named[pick.index] for pick in picks], samples, staged, self.crops)
        return [
            Augmented(
                pick,
                before,
                cut_to(after, before.canvas_size),
                tuple(_origins(b, sources, out, report)),
                int(report.num_tried[b]),
                {r: n for r, n in zip(DROP_REASONS, report.num_dropped[b].tolist(), strict=True) if n},
                recorded[b],
            )
            for b, (pick, before, after) in enumerate(zip(picks, samples, pasted, strict=True))
        ]

    def _annotation_ids(self, index: int, sample: DenseSample) -> list[int]:
        """The dataset's id of each instance of a sample."""
        assert sample.instance_ids is not None
        ids = self.inputs.photos.annotation_ids(index)
        return [ids[instance_id - 1] for instance_id in sample.instance_ids.tolist()]

    def _padded(self, samples: Sequence[DenseSample], picks: Sequence[PhotoPick]) -> PaddedBatchedDenseSample:
        size = max(s.canvas_size[0] for s in samples), max(s.canvas_size[1] for s in samples)
        return BatchedDenseSample.from_samples([cornered(s, size) for s in samples]).to_padded(
            self._num_slots(samples), **key_tensors([pick.key for pick in picks])
        )

    def _num_slots(self, samples: Sequence[DenseSample]) -> int:
        """Slots for the fullest image and for all that the layers can bring, unless the configuration says less."""
        most = max(s.num_instances for s in samples)
        if self.config.max_instances is not None:
            return most
        of_layer = most if self.crops is None else 1
        room = max(1, min(self.config.num_layers * of_layer, self.config.placement.k_range[1]))
        panoptic = self.config.panoptic
        limit = most + room if panoptic is None else panoptic.taxonomy.max_instances_per_image
        return max(most, min(most + room, limit))


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the objects of a batch are of; ``ids`` are the annotation ids of each row."""

    inputs: Inputs
    picks: Sequence[PhotoPick]
    ids: Sequence[Sequence[int]]
    samples: Sequence[DenseSample]
    staged: StagedCrops | None
    crops: CropSequence | None

    def of_photo(self, b: int, slot: int, paste: PasteMap | None) -> Origin:
        """An object of row ``b``."""
        photos, pick = self.inputs.photos, self.picks[b]
        over = frozenset() if paste is None else _over(self.samples[b], slot)
        return Origin(pick, photos.file_name(pick.index), photos.image_id(pick.index), self.ids[b][slot], paste, over)

    def of_row(self, row: int, slot: int, paste: PasteMap) -> Origin:
        """A pasted object of a row of the source batch."""
        if self.staged is None or self.crops is None:
            return self.of_photo(row, slot, paste)
        crop = int(self.staged.crop_idx.flatten()[row])
        return Origin(None, f"crop {crop}", *self.crops.ids(crop), paste, crop=crop)


def _origins(b: int, sources: _Sources, out: PaddedBatchedDenseSample, report: PasteReport) -> Iterator[Origin]:
    """Where each instance of row ``b`` comes from, in the order of its slots."""
    placement = report.placement
    for k in torch.nonzero(out.instance_valid[b]).flatten().tolist():
        layer = int(report.slot_layer[b, k])
        if layer < 0:
            yield sources.of_photo(b, k, None)
            continue
        source = int(placement.source_idx[b, layer])
        x, y = placement.translate[b, layer].tolist()
        nums, dens = placement.scale_num[b, layer].tolist(), placement.scale_den[b, layer].tolist()
        scale = (nums[0], dens[0]), (nums[1], dens[1])
        paste = PasteMap(layer, scale, (x, y), bool(placement.hflip[b, layer]))
        yield sources.of_row(source, int(report.slot_source[b, k]), paste)


def _over(sample: DenseSample, slot: int) -> frozenset[int]:
    """Classes of the other instances that share pixels with one."""
    assert sample.instance_masks is not None
    masks = sample.instance_masks.as_subclass(torch.Tensor).view(torch.uint8)
    shares = (masks & masks[slot]).flatten(1).amax(1) > 0
    shares[slot] = False
    return frozenset(sample.labels[shares].tolist())
