"""Checks of the results of custom sources, with errors that name the field and what was expected.

Types, dtypes, shapes and devices are always checked; values only on the CPU outside of compiled code, where they can be
read without waiting.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from segpaste.augmentation.rules import smallest_scale
from segpaste.augmentation.sources.bank_source import BankSource
from segpaste.augmentation.sources.strategies import (
    IntraBatchSource,
    PlacementRequest,
    RowStrategy,
    Sampled,
    SourceStrategy,
    check_declared,
)
from segpaste.engine import LayerRows, Placement, PlacementCounts
from segpaste.engine.planes import changed_fields, memory_span
from segpaste.engine.record_fields import fields_of
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import FARTHEST_EDGE
from segpaste.types.tracing import is_traced

_TRUSTED: tuple[type, ...] = (IntraBatchSource, BankSource)

_ROWS, _PLACEMENT, _COUNTS = map(fields_of, (LayerRows, Placement, PlacementCounts))
_LATER_COUNTS = [field.name for field in _COUNTS if field.is_optional]
"""Counts that a source may leave out."""

_LARGEST_TERM = 1 << 30
"""Largest numerator and denominator of a scale, so that products of coordinates stay within 64 bits."""


def is_trusted(strategy: object) -> bool:
    """Return whether a source is one of this package, and not of a class derived from it."""
    return type(strategy) in _TRUSTED


def checked_sample(
    strategy: SourceStrategy, sampled: Sampled, target: PaddedBatchedDenseSample, request: PlacementRequest
) -> Sampled:
    """Check the result of ``SourceStrategy.sample`` and return it; sources of this package are not checked."""
    if is_trusted(strategy):
        return sampled
    name = type(strategy).__name__
    kinds: tuple[type, ...] = PaddedBatchedDenseSample, Placement, PlacementCounts
    if not isinstance(sampled, tuple) or len(sampled) != 3 or not all(map(isinstance, sampled, kinds)):
        found = type(sampled).__name__
        if isinstance(sampled, tuple):
            found = f"({', '.join(type(value).__name__ for value in sampled)})"
        raise TypeError(
            f"{name}.sample: expected (PaddedBatchedDenseSample, Placement, PlacementCounts), got {found}; return all "
            "three"
        )
    source, placement, counts = sampled
    if source.device != target.device:
        raise ValueError(
            f"{name}.sample: expected a source batch on {target.device}, the target's device, got {source.device}; "
            "move it with .to(device)"
        )
    sizes, device = {"B": target.batch_size, "K_s": source.max_instances}, target.device
    check_declared(f"{name}.sample: Placement", placement, _PLACEMENT, sizes, device, "the target's device")
    label = f"{name}.sample: PlacementCounts"
    check_declared(label, counts, _COUNTS, sizes, device, "the target's device")
    if sizes["L"] == 0 or source.max_instances == 0:
        raise ValueError(
            f"{name}.sample: expected at least one layer, and a source batch with an instance slot, got {sizes['L']} "
            f"and {source.max_instances}; to paste nothing, leave carried False"
        )
    if target.device.type == "cpu" and not is_traced():
        _check_values(name, source, placement, counts, request)
        placement = _apart(placement, target)
    return source, placement, counts


def _apart(placement: Placement, target: PaddedBatchedDenseSample) -> Placement:
    """Copy tensors of the placement that share memory with the target, into which a paste in place writes."""
    spans = [memory_span(tensor) for tensor in changed_fields(target).values() if tensor.numel()]

    def owned(tensor: Tensor) -> Tensor:
        start, end = memory_span(tensor)
        return tensor.clone() if any(start < b and a < end for a, b in spans) else tensor

    given = {field.name: getattr(placement, field.name) for field in _PLACEMENT}
    return replace(placement, **{name: owned(tensor) for name, tensor in given.items() if tensor is not None})


def checked_rows(
    strategy: RowStrategy, rows: LayerRows, target: PaddedBatchedDenseSample, num_layers: int
) -> LayerRows:
    """Check that the result of ``RowStrategy.rows`` names rows of the batch and return it; see `checked_sample`."""
    if is_trusted(strategy):
        return rows
    name = type(strategy).__name__
    if not isinstance(rows, LayerRows):
        raise TypeError(f"{name}.rows: expected LayerRows(source_idx, layer_valid), got {type(rows).__name__}")
    sizes = {"B": target.batch_size, "L": num_layers}
    check_declared(f"{name}.rows: LayerRows", rows, _ROWS, sizes, target.device, "the target's device")
    if target.device.type == "cpu" and not is_traced():
        _check_range(
            f"{name}.rows: LayerRows.source_idx", rows.source_idx, 0, target.batch_size - 1, "rows of the batch"
        )
    return rows


def _check_range(label: str, value: Tensor, low: int, high: int, what: str) -> None:
    wrong = value[(value < low) | (value > high)]
    if wrong.numel():
        raise ValueError(f"{label}: expected {what}, from {low} to {high}, got {int(wrong[0])}")


def _check_values(
    name: str,
    source: PaddedBatchedDenseSample,
    placement: Placement,
    counts: PlacementCounts,
    request: PlacementRequest,
) -> None:
    label = f"{name}.sample: Placement"
    _check_range(f"{label}.source_idx", placement.source_idx, 0, source.batch_size - 1, "rows of the source batch")
    for field in ("scale_num", "scale_den"):
        _check_range(f"{label}.{field}", getattr(placement, field), 1, _LARGEST_TERM, "parts of a scale")
    _check_range(f"{label}.translate", placement.translate, -FARTHEST_EDGE, FARTHEST_EDGE, "pixels")
    scale = (placement.scale_num / placement.scale_den)[placement.carried.any(2)]
    least = smallest_scale(request.config)
    wrong = scale[scale < least * (1 - 1e-9)]
    if wrong.numel():
        raise ValueError(
            f"{label}: expected scales of at least {least}, the smallest that the image filter has taps for, got "
            f"{float(wrong[0]):.6g}; draw larger ones, or lower placement.scale_range"
        )
    carried = placement.carried
    empty = carried & ~source.instance_valid[placement.source_idx]
    _refuse_first(empty, f"{label}.carried: expected only slots that hold an instance of their source")
    _refuse_first(carried & ~placement.layer_valid[..., None], f"{label}.carried: expected slots of valid layers only")
    num_carried = carried.sum((1, 2))
    if bool((num_carried > request.num_free).any()):
        b = int((num_carried > request.num_free).to(torch.int8).argmax())
        raise ValueError(
            f"{label}.carried: expected at most {int(request.num_free[b])} slots for target {b}, its free ones "
            f"(request.num_free), got {int(num_carried[b])}"
        )
    left = counts.tried - counts.no_source - counts.no_free_slot - counts.does_not_fit
    for field in _LATER_COUNTS:
        count: Tensor | None = getattr(counts, field)
        left = left if count is None else left - count
    if bool((left != num_carried).any()):
        b = int((left != num_carried).to(torch.int8).argmax())
        raise ValueError(
            f"{name}.sample: PlacementCounts: expected tried = carried + no_source + no_free_slot + does_not_fit + "
            f"outside_region + covers_too_much, got {int(counts.tried[b])} tried and {int(num_carried[b])} carried for "
            f"target {b}, and {int(counts.tried[b] - left[b])} dropped"
        )


def _refuse_first(wrong: Tensor, message: str) -> None:
    if bool(wrong.any()):
        b, j, k = wrong.nonzero()[0].tolist()
        raise ValueError(f"{message}, got slot {k} in layer {j} of target {b}")
