"""An endless, seeded sequence of full batches out of a dataset, pasted, each image back at its own size.

Position i of the sequence depends on the dataset, the seed, the batch size and the configuration only: every batch is
full, so it does not matter how many images are wanted. A dataset of one photo pastes from another position that shows
the same photo.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from segpaste.augmentation import DROP_REASONS, BatchCopyPaste, BatchCopyPasteConfig, PasteReport
from segpaste.cli._crops import CropSequence
from segpaste.cli._inputs import Inputs
from segpaste.cli._sequence import PhotoPick, PhotoSequence, cornered, cut_to
from segpaste.replay import ReplayRecord, records
from segpaste.replay.record import RecordedLayer
from segpaste.seeding import key_tensors
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one instance of an output comes from.

    Attributes:
        index: of its photo in the dataset; None for a crop of a bank.
        name: what the photo is called, or the crop.
        image_id: of the photo, where it is known.
        annotation_id: its id in the photo's dataset, where it is known.
        paste: the layer that carries it; None for a survivor.
        over: classes of the other instances of its photo that share pixels with it.
    """

    index: int | None
    name: str
    image_id: int | None
    annotation_id: int | None
    paste: RecordedLayer | None
    over: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Photo:
    """A photo of the dataset that was read; ``annotation_ids`` has one for each instance of ``sample``."""

    index: int
    name: str
    image_id: int
    sample: DenseSample
    annotation_ids: list[int]

    def origin_of(self, slot: int, paste: RecordedLayer | None) -> Origin:
        over = frozenset() if paste is None else _over(self.sample, slot)
        return Origin(self.index, self.name, self.image_id, self.annotation_ids[slot], paste, over)


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
        record: makes ``after`` again; see `segpaste.cli._remaking.Remaker`.
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
        """The outputs of one batch; its first position is ``number * batch_size``."""
        first = number * self.batch_size
        picks = [self._sequence.pick(position) for position in range(first, first + self.batch_size)]
        read = {index: self._read(index) for index in dict.fromkeys(pick.index for pick in picks)}
        photos = [read[pick.index] for pick in picks]
        padded = self._padded([photo.sample for photo in photos], picks)
        staged = None
        if self.crops is not None:
            staged = self.crops.staged(first, self.batch_size, self.config.source.crops_per_target)
        start = time.perf_counter()
        out, report = self._module(padded, staged=staged, return_report=True)
        self.seconds += time.perf_counter() - start
        self.num_pasted_into += len(picks)
        pasted = out.to_batched().to_samples()
        recorded = records(self._module, padded, out, report, staged=staged, dataset=self.inputs.digest)
        return [
            Augmented(
                pick,
                photos[b].sample,
                cut_to(after, photos[b].sample.canvas_size),
                tuple(self._origins(b, photos, out, report, record)),
                int(report.num_tried[b]),
                {r: n for r, n in zip(DROP_REASONS, report.num_dropped[b].tolist(), strict=True) if n},
                record,
            )
            for b, (pick, after, record) in enumerate(zip(picks, pasted, recorded, strict=True))
        ]

    def _read(self, index: int) -> _Photo:
        photos, sample = self.inputs.photos, self.inputs.photos[index]
        ids = list(photos.annotation_ids(index))
        own = ids if sample.instance_ids is None else [ids[number - 1] for number in sample.instance_ids.tolist()]
        return _Photo(index, photos.file_name(index), photos.image_id(index), sample, own)

    def _origins(
        self,
        b: int,
        photos: Sequence[_Photo],
        out: PaddedBatchedDenseSample,
        report: PasteReport,
        record: ReplayRecord,
    ) -> Iterator[Origin]:
        """Where each instance of row ``b`` comes from, in the order of its slots."""
        layers = {layer.layer: layer for layer in record.layers}
        first = record.target[4] - b
        for slot in torch.nonzero(out.instance_valid[b]).flatten().tolist():
            layer = int(report.slot_layer[b, slot])
            if layer < 0:
                yield photos[b].origin_of(slot, None)
                continue
            paste = layers[layer]
            if paste.source is not None:
                yield photos[paste.source[4] - first].origin_of(int(report.slot_source[b, slot]), paste)
            else:
                assert paste.crop is not None
                assert self.crops is not None
                yield Origin(None, f"crop {paste.crop}", *self.crops.ids(paste.crop), paste)

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


def _over(sample: DenseSample, slot: int) -> frozenset[int]:
    """Classes of the other instances that share pixels with one; boxes do not tell."""
    if sample.instance_masks is None:
        return frozenset()
    masks = sample.instance_masks.as_subclass(torch.Tensor).view(torch.uint8)
    shares = (masks & masks[slot]).flatten(1).amax(1) > 0
    shares[slot] = False
    return frozenset(sample.labels[shares].tolist())
