"""Which instance sits in which slot: survivors stay, pastes fill the free slots in order, ids are fresh."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.augmentation import geometry
from segpaste.engine import Measures, Rows, SlotPlan
from segpaste.types import FIELDS, PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID


def with_slots(batch: PaddedBatchedDenseSample, num_slots: int) -> PaddedBatchedDenseSample:
    """The batch with at least ``num_slots`` instance slots, the new ones empty.

    Raises:
        ValueError: the batch has more slots than that.
    """
    extra = num_slots - batch.max_instances
    if extra < 0:
        raise ValueError(
            f"BatchCopyPaste: expected max_instances >= the batch's {batch.max_instances} slots, got {num_slots}; "
            "raise max_instances in the config, or pad the batch to fewer slots"
        )
    if extra == 0:
        return batch
    grown: dict[str, Any] = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if value is not None and (field.layout == "instance" or field.name == "instance_valid"):
            trailing = [0, 0] * (value.ndim - 2)
            grown[field.batched_name] = F.pad(value, [*trailing, 0, extra])
    return batch.derived(**grown)


def with_box_masks(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """A batch without masks given filled rectangles for masks, and ids by slot."""
    height, width = batch.canvas_size
    x1, y1, x2, y2 = geometry.pixel_boxes(batch.boxes).unsqueeze(-1).unbind(-2)
    cols, rows = torch.arange(width, device=batch.device), torch.arange(height, device=batch.device)
    masks = ((rows >= y1) & (rows < y2))[..., None] & ((cols >= x1) & (cols < x2))[..., None, :]
    slots = torch.arange(1, batch.max_instances + 1, device=batch.device, dtype=torch.int32)
    return batch.derived(
        instance_masks=masks & batch.instance_valid[..., None, None],
        instance_ids=slots * batch.instance_valid,
    )


def with_empty_masks(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """A batch of no instances, without masks, given masks without a pixel.

    Raises:
        ValueError: it has instances. Looked at on the CPU, outside of compiled code; elsewhere they are left out.
    """
    if not torch.compiler.is_compiling() and batch.device.type == "cpu" and bool(batch.instance_valid.any()):
        raise ValueError(
            "BatchCopyPaste: expected instance masks beside the boxes because emit_classmix=True, got boxes alone; set "
            "source.mask_from='boxes', or leave the boxes out"
        )
    masks = torch.zeros(*batch.boxes.shape[:2], *batch.canvas_size, dtype=torch.bool, device=batch.device)
    return batch.derived(instance_masks=masks, instance_ids=torch.zeros_like(batch.labels, dtype=torch.int32))


def as_decimal(number: float) -> Fraction:
    """The decimal that was given, to six digits, for comparisons in integers."""
    return Fraction(str(number)).limit_denominator(1_000_000)


def survivors(instance_valid: Tensor, measures: Measures, min_area_px: int, min_residual_area_frac: float) -> Tensor:
    """Which instances of the target keep their row, [B, K_t] bool.

    The fraction is compared in integers, as the decimal that was given (to six digits).
    """
    frac = as_decimal(min_residual_area_frac)
    enough = measures.area * frac.denominator >= measures.area_before * frac.numerator
    return instance_valid & enough & (measures.area >= min_area_px)


def over_hidden(instance_valid: Tensor, measures: Measures, max_hidden_frac: float) -> Tensor:
    """Which instances of the target would lose more than a fraction of their pixels, [B, K_t] bool."""
    frac = as_decimal(max_hidden_frac)
    hidden = measures.area_before - measures.area
    return instance_valid & (hidden * frac.denominator > measures.area_before * frac.numerator)


def assign_slots(
    target: PaddedBatchedDenseSample, survives: Tensor, placed: Tensor, paste_class: Tensor, ignored_class: Tensor
) -> SlotPlan:
    """Give every placed paste a slot and an id.

    Args:
        target: the batch that is pasted into, K slots.
        survives: [B, K] bool.
        placed: [B, L, K_s] bool, pastes that are seen; at most as many as the target has slots without a survivor.
        paste_class: [B, L, K_s] int64, passed on.
        ignored_class: [B, num_classes] bool, passed on.
    """
    assert target.instance_ids is not None
    flat = placed.flatten(1)
    order = (~flat).to(torch.int8).argsort(dim=1, stable=True)
    free_rank = (~survives).cumsum(1) - 1
    takes = ~survives & (free_rank < flat.sum(1, keepdim=True))
    chosen = order.gather(1, free_rank.clamp(0, flat.shape[1] - 1))
    num_slots = placed.shape[2]
    rank = flat.cumsum(1).view_as(placed)
    ids = (target.instance_ids * target.instance_valid).to(torch.int64)
    last_id = F.pad(ids, [0, 1]).amax(1)  # of no slot, too
    if target.panoptic_maps is not None:  # also above an id that has pixels and no row
        last_id = torch.maximum(last_id, target.panoptic_maps.flatten(1).amax(1))
    last_id = last_id.clamp(max=MAX_FED_BACK_ID)  # where nothing has checked them, ids still fit int32
    return SlotPlan(
        survives=survives,
        dropped=target.instance_valid & ~survives,
        paste_layer=torch.where(takes, torch.div(chosen, num_slots, rounding_mode="floor"), -1),
        paste_slot=torch.where(takes, chosen % num_slots, -1),
        fresh_id=torch.where(placed, last_id[:, None, None] + rank, 0),
        paste_class=paste_class,
        ignored_class=ignored_class,
    )


def with_rest(slots: SlotPlan, carried: Tensor) -> SlotPlan:
    """A plan with a slot more for each layer, which holds what ClassMix pastes and no instance owns.

    Kernels paint what some slot holds; the slots behind those of ``slots`` are no rows of the output.

    Args:
        slots: from `assign_slots`.
        carried: [B, L, K_s] bool; the last slot of a source is the rest.
    """
    has_rest, layers = carried[..., -1], torch.arange(carried.shape[1], device=carried.device)
    return slots._replace(
        paste_layer=torch.cat([slots.paste_layer, torch.where(has_rest, layers, -1)], 1),
        paste_slot=torch.cat([slots.paste_slot, torch.where(has_rest, carried.shape[2] - 1, -1)], 1),
    )


def merge_rows(target: PaddedBatchedDenseSample, source_labels: Tensor, slots: SlotPlan, measures: Measures) -> Rows:
    """The output's rows, from the slots and what was measured.

    Args:
        target: the batch that is pasted into.
        source_labels: [B, L, K_s] int64, labels of each layer's source row.
        slots: from `assign_slots`.
        measures: of what is seen at last.
    """
    assert target.instance_ids is not None
    is_paste = slots.paste_layer >= 0
    index = (slots.paste_layer * source_labels.shape[2] + slots.paste_slot).clamp(min=0)

    def merged(kept: Tensor, pasted: Tensor) -> Tensor:
        """Survivors' values [B, K, ...], pastes' [B, L * K_s, ...], zero elsewhere."""
        trailing = [1] * (kept.ndim - 2)
        at = index.view(*index.shape, *trailing).expand(-1, -1, *kept.shape[2:])
        zero = torch.zeros((), dtype=kept.dtype, device=kept.device)
        value = torch.where(is_paste.view(*index.shape, *trailing), pasted.gather(1, at), zero)
        return torch.where(slots.survives.view(*index.shape, *trailing), kept, value)

    return Rows(
        boxes=merged(measures.box.float(), measures.paste_box.flatten(1, 2).float()),
        labels=merged(target.labels, source_labels.flatten(1)),
        instance_ids=merged(target.instance_ids, slots.fresh_id.flatten(1).int()),
        instance_valid=slots.survives | is_paste,
    )
