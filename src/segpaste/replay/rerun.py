"""Replay of a record: its sample is made again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPaste, Placement, PlacementCounts, PlacementRequest
from segpaste.augmentation.prepare import prepared_sources
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.bank import DatasetBank, InstanceBank, stage_bank_batch
from segpaste.datasets.jitter import FixedSizeCrop
from segpaste.engine import LayerRows
from segpaste.engine.orientation import Orientation
from segpaste.engine.reference.classmix import where_they_stand
from segpaste.replay.record import ReplayError, ReplayRecord
from segpaste.replay.recording import differing, float_means, row_digest
from segpaste.seeding import SampleKey, key_tensors
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.rows import own_row, row_sample


def replay(
    record: ReplayRecord,
    read: Callable[[SampleKey], DenseSample],
    *,
    bank: InstanceBank | None = None,
    device: torch.device | str = "cpu",
) -> DenseSample:
    """Make the sample of a record again.

    Args:
        record: record of the sample.
        read: function that returns the sample of a key as it was in the batch, with jitter and padding, such as
            `segpaste.datasets.EpochDataLoader.sample_for`; the target is read first. With ``sources_apart`` it returns
            each source in its own size.
        bank: bank of the crops of the record; with ``crop_size`` a `segpaste.bank.DatasetBank`.
        device: device of the paste.

    Raises:
        ReplayError: the samples do not fit the record, or the result is not the recorded one.
    """
    return replayed(record, read, bank, device)[0]


def replayed(
    record: ReplayRecord,
    read: Callable[[SampleKey], DenseSample],
    bank: InstanceBank | None = None,
    device: torch.device | str = "cpu",
) -> tuple[DenseSample, list[tuple[int, int]]]:
    """Make the sample of a record again; see `replay`.

    Also return the layer of each of its instances, -1 if it was in the target, and its slot in the layer's source or
    in the target.
    """
    staged = None if record.bank is None else _staged(record, bank).to(device)
    samples = _samples_of(record, read)
    num_rows = 1 if record.sources_apart else len(samples)
    apart = _rows_apart(record, samples[num_rows:], device)
    del samples[num_rows:]
    batch = _batch_of(record, samples, record.sample_keys, record.max_instances).to(device)
    source = _RecordedSource(record, staged, apart)
    del samples
    config = record.config  # in place if possible, because the masks of a large image are large
    in_place = record.photos is not None and config.placement.pad_to_multiple is None and config.max_instances is None
    module = BatchCopyPaste(config, source, inplace=in_place).to(device)
    module.schedule.set(paste_prob=1)  # the recorded layers were pasted, with any schedule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the first run has warned if no paste is visible
        out, report = module(batch, staged=staged, return_report=True)
    drawn = report.drawn[0]
    if record.config.emit_classmix:  # its classes, and so its instances, are drawn again
        drawn = drawn[:, :-1]
        recorded = {(layer.layer, slot) for layer in record.layers for slot in layer.slots}
        if recorded != {(layer, slot) for layer, slot in drawn.nonzero().tolist()}:
            raise _refusal(record, "other instances come with the classes; is this another dataset?")
    if int(drawn.sum()) != record.num_pastes:
        raise _refusal(record, "expected samples with instance masks, got samples without; read those too")
    _check_result(record, out)
    slots = out.instance_valid[0].nonzero().flatten().tolist()
    origins = [
        (layer, slot if layer < 0 else int(report.slot_source[0, slot]))
        for slot, layer in zip(slots, report.slot_layer[0, slots].tolist(), strict=True)
    ]
    del batch, source, apart, staged
    return row_sample(out), origins


def _check_result(record: ReplayRecord, out: PaddedBatchedDenseSample) -> None:
    """Compare the first row with the digest and the means of the record."""
    is_same, others = record.digest in (None, row_digest(out, 0)), ""
    if is_same and record.float_means is not None:
        names = differing(record.float_means, float_means(out, 0))
        is_same, others = not names, f" in {', '.join(names)}"
    if not is_same:
        raise _refusal(
            record,
            f"the result is not the recorded one{others}; is the dataset, or a transform, another one? (The record is "
            f"of segpaste {record.segpaste_version}, this is {__version__})",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _RecordedSource:
    """A `segpaste.SourceStrategy` for the batch of `_batch_of`: the first row gets the recorded placement."""

    record: ReplayRecord
    staged: StagedCrops | None
    apart: PaddedBatchedDenseSample | None = None

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        """Return the target, the rows apart or the crops as the source batch; see `segpaste.SourceStrategy.sample`.

        Raises:
            ReplayError: the samples lack a pasted object, or have no room for it.
        """
        source = target
        if self.staged is not None:
            source = source_batch(self.staged, target, self.record.config.source)
            eligible = source.instance_valid
        elif self.record.sources_apart and self.apart is not None:
            source, eligible = self.apart, self.apart.instance_valid
        placement = self._placement(target.batch_size, eligible.shape[1])
        if bool((placement.carried & ~eligible.cpu()[placement.source_idx]).any()):
            raise _refusal(self.record, "a recorded slot holds nothing that can be pasted; is this another dataset?")
        if self.record.num_pastes > int(request.num_free[0]):
            raise _refusal(self.record, "the target has too few free slots; is this another dataset?")
        placement = placement.to(target.device)
        tried = placement.carried.sum((1, 2))
        zero = torch.zeros_like(tried)
        return source, placement, PlacementCounts(tried, zero, zero, zero)

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """Return the rows of the layers; see `segpaste.augmentation.sources.strategies.RowStrategy.rows`.

        Raises:
            ReplayError: a source has no class that can be pasted.
        """
        placement = self._placement(target.batch_size, target.max_instances)
        if bool((placement.layer_valid & ~candidates.cpu()[placement.source_idx]).any()):
            raise _refusal(self.record, "a recorded source has no class to paste; is this another dataset?")
        placement = placement.to(target.device)
        return LayerRows(placement.source_idx, placement.layer_valid)

    def _placement(self, batch_size: int, num_slots: int) -> Placement:
        record, keys = self.record, self.record.sample_keys[self.record.sources_apart :]
        rows = torch.zeros(batch_size, record.config.num_layers, dtype=torch.int64, device="cpu")
        carried = torch.zeros(*rows.shape, num_slots, dtype=torch.bool, device="cpu")
        placement = where_they_stand(LayerRows(rows, rows.bool()), carried)
        for number, layer in enumerate(record.layers):
            at = 0, layer.layer
            placement.source_idx[at] = number if layer.source is None else keys.index(SampleKey(*layer.source))
            placement.layer_valid[at] = True
            for name in ("scale_num", "scale_den", "translate", *Orientation._fields):
                getattr(placement, name)[at] = torch.as_tensor(getattr(layer, name), device="cpu")
            placement.carried[at][list(layer.slots)] = True
        return placement


def _staged(record: ReplayRecord, bank: InstanceBank | None) -> StagedCrops:
    """Return the crops of the layers of a record, in their order, for one target."""
    if bank is None:
        raise _refusal(record, f"expected the bank of version {record.bank:.12}, got none; give bank=")
    if record.crop_size is not None:
        if not isinstance(bank, DatasetBank):
            raise _refusal(record, f"expected a DatasetBank, whose crops have any size, got {type(bank).__name__}")
        bank = bank.resized(record.crop_size)
    if bank.version != record.bank:
        raise _refusal(
            record,
            f"expected the bank of version {record.bank:.12}, got {bank.version:.12}; give the one that was pasted "
            "from",
        )
    crops = [layer.crop for layer in record.layers if layer.crop is not None]
    if crops and max(crops) >= len(bank):
        raise _refusal(record, f"expected crops below {len(bank)}, those of the bank, got {max(crops)}")
    staged = stage_bank_batch(bank, [crops or [0]])
    labels = [layer.label for layer in record.layers] or [0]
    return replace(staged, class_ids=torch.tensor([labels], dtype=torch.int64, device="cpu"))


def _samples_of(record: ReplayRecord, read: Callable[[SampleKey], DenseSample]) -> list[DenseSample]:
    """Read the target and the sources of a record."""
    samples = [read(key) for key in record.sample_keys]
    for key, sample in zip(record.sample_keys[: 1 if record.sources_apart else None], samples, strict=False):
        if sample.canvas_size != record.canvas_size:
            raise _refusal(
                record,
                f"expected a canvas of {record.canvas_size} of {key}, got {sample.canvas_size}; is the jitter, or the "
                "padding, another one?",
            )
    return samples


def _rows_apart(
    record: ReplayRecord, samples: list[DenseSample], device: torch.device | str
) -> PaddedBatchedDenseSample | None:
    """Return the sources that are no rows of the target's batch, as another batch; None if there are none."""
    if not samples:
        return None
    size = max(s.canvas_size[0] for s in samples), max(s.canvas_size[1] for s in samples)
    if any(sample.canvas_size != size for sample in samples):
        samples = [FixedSizeCrop(size).transform(sample, (0, 0)) for sample in samples]
    num_slots = max(1, *(sample.num_instances for sample in samples))
    rows = _batch_of(record, samples, record.sample_keys[1:], num_slots).to(device)
    return prepared_sources(rows, record.config)


def _batch_of(
    record: ReplayRecord, samples: list[DenseSample], keys: list[SampleKey], num_slots: int
) -> PaddedBatchedDenseSample:
    """Return samples as rows of a batch; empty parts of the masks of a single sample are not copied."""
    first = samples[0]
    if len(samples) == 1 and first.num_instances <= num_slots and first.image.device.type == "cpu":
        return own_row(first, num_slots, keys[0])
    batch = BatchedDenseSample.from_samples(samples)
    return batch.to_padded(num_slots, overflow="largest", **key_tensors(keys[: len(samples)]))


def _refusal(record: ReplayRecord, why: str) -> ReplayError:
    return ReplayError(f"{record.name or f'record of {SampleKey(*record.target)}'}: {why}")
