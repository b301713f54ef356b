"""Recording: the records of a call of the module, and what they hold of its result.

Backends differ in the last bits of floats, so a digest cannot cover depth, normals and float images. Of these a record
has the means over the cells of a grid, which are compared with a tolerance: the means of two backends differ by far
less, and those of two depth maps by more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from segpaste._version import __version__
from segpaste.augmentation import BankSource, BatchCopyPaste, IntraBatchSource, PasteReport
from segpaste.augmentation.sources.strategies import GivenRows
from segpaste.engine.orientation import Orientation
from segpaste.replay.record import RecordedLayer, ReplayRecord
from segpaste.seeding import SampleKey, key_tensors, keys_of
from segpaste.types import FIELDS, PaddedBatchedDenseSample, StagedCrops

Means = Mapping[str, tuple[float, ...]]

GRID = 4
"""Number of cells along each side of the canvas."""

TOLERANCE = 1e-4
"""Tolerance relative to the largest mean of a field: ten times the maximum difference of backends."""


def records(
    module: BatchCopyPaste,
    batch: PaddedBatchedDenseSample,
    out: PaddedBatchedDenseSample,
    report: PasteReport,
    *,
    staged: StagedCrops | None = None,
    dataset: str | None = None,
    with_digest: bool = True,
) -> list[ReplayRecord]:
    """Return the record of every image of a batch; this waits for the device.

    Args:
        module: module that pasted.
        batch: its input, with ``sample_keys`` (the same object as ``out`` if the module works in place).
        out: its output.
        report: its report.
        staged: crops that the call pasted, with ``source.kind="bank"``: those that it was given, or with a
            ``source_pool`` of the module ``module.crops.staged(out.sample_seeds)``.
        dataset: name of the content of the dataset, such as a digest of its annotations.
        with_digest: store a digest of every result, and the means of its floats, so that a replay with another result
            is an error.

    Raises:
        ValueError: the record cannot name the samples: the batch has no keys, or seeds that do not come from them; its
            images are of half precision; its instances are not in the first slots; or the sources are neither rows of
            the batch nor the staged crops.
    """
    _check_named(module, batch, out, staged)
    assert batch.sample_keys is not None
    keys = keys_of(batch.sample_keys)
    given = module.source.rows if isinstance(module.source, GivenRows) else None
    named = keys if given is None or given.sample_keys is None else keys_of(given.sample_keys)
    placed = _layers(report, _names(staged, named), module.config.emit_classmix)
    return [
        ReplayRecord(
            segpaste_version=__version__,
            config=module.config,
            target=keys[b],
            canvas_size=batch.canvas_size,
            max_instances=batch.max_instances,
            layers=placed[b],
            digest=row_digest(out, b) if with_digest else None,
            float_means=float_means(out, b) if with_digest else None,
            dataset=dataset,
            bank=None if staged is None else staged.version,
            sources_apart=given is not None,
        )
        for b in range(batch.batch_size)
    ]


def row_digest(batch: PaddedBatchedDenseSample, b: int) -> str:
    """Return the SHA-256 of the values of row ``b`` that are equal on every backend: integers, masks, instance fields.

    For other floats it covers the shape; `float_means` has their means.
    """
    digest = hashlib.sha256()
    valid = batch.instance_valid[b].cpu()
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if value is None or field.name in ("sample_seeds", "sample_keys"):
            continue
        digest.update(f"{field.name} {value.dtype} {list(value.shape[1:])};".encode())
        if value.is_floating_point() and field.layout != "instance":
            continue
        row = value[b].cpu()
        for array in _pieces(row, valid) if field.layout == "instance" else [row.numpy()]:
            packed = np.packbits(array) if array.dtype == bool else array
            digest.update(np.ascontiguousarray(packed, packed.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def _pieces(row: Tensor, valid: Tensor) -> Iterator[NDArray[Any]]:
    """Yield the valid slots of [K, ...] in pieces of whole bytes of bits, since a copy of all masks may be large."""
    slots = torch.nonzero(valid).flatten().tolist()
    if row[:1].numel() % 8 == 0:
        yield from (row[slot : slot + 1].numpy() for slot in slots)
        return
    for first in range(0, len(slots), 8):
        yield row[slots[first : first + 8]].numpy()


def _check_named(
    module: BatchCopyPaste, batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample, staged: StagedCrops | None
) -> None:
    """Check that the keys of the batch and the indices of the crops can name everything in a record."""
    if batch.sample_keys is None:
        raise ValueError(
            "records: expected sample_keys in the batch, got None; EpochDataLoader fills them, to_padded takes them"
        )
    given = module.source.rows if isinstance(module.source, GivenRows) else batch
    if given is None or given.sample_keys is None:
        raise ValueError("records: expected sample_keys in the rows that were given to the source, got none")
    if not isinstance(module.source, IntraBatchSource | BankSource | GivenRows):
        raise ValueError(
            f"records: expected sources that are rows of the batch, or crops of a bank, got a "
            f"{type(module.source).__name__}, whose samples have no keys"
        )
    _check_crops(module, staged)
    if batch.images.dtype not in (torch.uint8, torch.float32):
        raise ValueError(f"records: expected uint8 or float32 images, which samples have, got {batch.images.dtype}")
    expected = key_tensors(keys_of(batch.sample_keys))["sample_seeds"]
    if out.sample_seeds is None or not torch.equal(out.sample_seeds.cpu(), expected):
        raise ValueError("records: expected sample_seeds that come from sample_keys, got others; give no generator")
    valid = batch.instance_valid
    if not module.inplace and bool((valid[:, 1:] & ~valid[:, :-1]).any()):
        raise ValueError(
            "records: expected the instances of a sample in the first slots, as to_padded puts them, got free slots "
            "before them; is this the output of a paste?"
        )


def _check_crops(module: BatchCopyPaste, staged: StagedCrops | None) -> None:
    """Check that crops of a bank were given if, and only if, the module pastes crops."""
    if not isinstance(module.source, BankSource):
        if staged is not None:
            raise ValueError(
                "records: expected staged=None, because the objects come from images, not from a bank, got "
                f"{staged!r}; leave it out"
            )
    elif staged is None:
        crops = "crops) with the crops that you gave to the call"
        if module.crops is not None:
            crops = "augment.crops.staged(out.sample_seeds)), or with the crops that you gave to the call"
        raise ValueError(
            "records: expected staged, the crops that the call pasted, because source.kind='bank', got None; write "
            f"records(augment, batch, out, report, staged={crops}"
        )
    elif staged.version == "":
        raise ValueError(
            "records: expected crops that name their bank, because a record names crops by their index, got crops "
            "without a version of a bank; make them with stage_bank_batch or create_bank_dataloader"
        )


def _names(staged: StagedCrops | None, keys: list[SampleKey]) -> list[dict[str, Any]]:
    """Return the fields that name each row of the source batch in a record."""
    if staged is None:
        return [{"source": key} for key in keys]
    crops, labels = staged.crop_idx.flatten().tolist(), staged.class_ids.flatten().tolist()
    return [{"crop": crop, "label": label} for crop, label in zip(crops, labels, strict=True)]


def _layers(report: PasteReport, names_of: list[dict[str, Any]], has_rest: bool) -> list[tuple[RecordedLayer, ...]]:
    """Return the layers of each image that have a paste; with ``has_rest`` the last slot is no instance."""
    placement = report.placement
    drawn = report.drawn.cpu()
    names = ("source_idx", "scale_num", "scale_den", "translate", *Orientation._fields)
    maps = [getattr(placement, name).tolist() for name in names]
    found: list[list[RecordedLayer]] = [[] for _ in drawn]
    for b, j in torch.nonzero(drawn.any(2)).tolist():
        source, scale_num, scale_den, translate, *flips = (values[b][j] for values in maps)
        layer = RecordedLayer(
            layer=j,
            **names_of[source],
            scale_num=tuple(scale_num),
            scale_den=tuple(scale_den),
            translate=tuple(translate),
            **dict(zip(Orientation._fields, flips, strict=True)),
            slots=tuple(torch.nonzero(drawn[b, j, : drawn.shape[2] - has_rest]).flatten().tolist()),
        )
        found[b].append(layer)
    return [tuple(layers) for layers in found]


def float_means(batch: PaddedBatchedDenseSample, b: int) -> dict[str, tuple[float, ...]]:
    """Return the float fields of row ``b``, except those of instances, by name.

    Returns:
        For a dense field the mean of each cell, [channels * GRID * GRID], with invalid pixels counted as 0; for
        others, such as camera intrinsics, the values. Six significant digits.
    """
    found = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if value is None or not value.is_floating_point() or field.layout == "instance":
            continue
        row = value[b].detach().cpu().double().nan_to_num(0.0, 0.0, 0.0)
        if field.name == "depth" and batch.depth_valid is not None:
            row = torch.where(batch.depth_valid[b].cpu(), row, 0.0)
        if field.layout == "dense":
            row = adaptive_avg_pool2d(row, GRID)
        found[field.name] = tuple(float(f"{number:.6g}") for number in row.flatten().tolist())
    return found


def differing(recorded: Means, found: Means) -> list[str]:
    """Return the names of the fields whose means differ, or that exist on one side only."""
    if recorded.keys() != found.keys():
        return sorted(recorded.keys() ^ found.keys())
    return [name for name, values in recorded.items() if not _close(values, found[name])]


def _close(recorded: tuple[float, ...], found: tuple[float, ...]) -> bool:
    if len(recorded) != len(found):
        return False
    bound = TOLERANCE * max(map(abs, recorded), default=0.0)
    return all(abs(one - other) <= bound for one, other in zip(recorded, found, strict=True))
