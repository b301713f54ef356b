"""Selection of instances, the largest or by index, with consistent maps; instance slots of padded batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types import check
from segpaste.types.dense import DenseSample
from segpaste.types.fields import INSTANCE_FIELDS, SAMPLE_FIELDS
from segpaste.types.tensors import IGNORE_INDEX, MaskSlots, PanopticMap, SemanticMap, pixel_counts, zeros

Overflow = Literal["raise", "largest"]
"""Handling of an image that has more instances than slots."""


def largest_instances(boxes: Tensor, masks: Tensor | None, max_instances: int) -> Tensor:
    """Return the indices of the ``max_instances`` largest instances, or of all if there are fewer: ascending, int64.

    The area is that of the mask, or of the box if there are no masks. Of equal areas the earlier instance is kept.
    """
    if masks is not None:
        area = pixel_counts(masks)
    else:
        corners = boxes.as_subclass(Tensor)
        area = (corners[:, 2:] - corners[:, :2]).prod(1)
    return torch.sort(area, descending=True, stable=True).indices[:max_instances].sort().values


def without_orphans(panoptic: Tensor, semantic: Tensor, instance_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return both maps [H, W], in which thing pixels without an instance have become 0 and 255, respectively."""
    orphan = (panoptic != 0) & ~torch.isin(panoptic, instance_ids.to(panoptic.dtype))
    return panoptic.masked_fill(orphan, 0), semantic.masked_fill(orphan, IGNORE_INDEX)


def keep_largest(sample: DenseSample, max_instances: int) -> DenseSample:
    """Return the sample with only its ``max_instances`` largest instances, in their order; see `select_instances`."""
    if sample.num_instances <= max_instances:
        return sample
    return select_instances(sample, largest_instances(sample.boxes, sample.instance_masks, max_instances))


def select_instances(sample: DenseSample, keep: Tensor) -> DenseSample:
    """Return the sample with only the instances at the indices ``keep`` (int64).

    If there is a panoptic map, pixels of removed instances become 0 in it and 255 in the semantic map, so that every
    thing pixel still has a mask.
    """
    values = {f.name: getattr(sample, f.name) for f in fields(DenseSample)}
    for field in INSTANCE_FIELDS:
        if (value := values[field.name]) is not None:
            kept = value.as_subclass(Tensor)[keep]
            values[field.name] = tv_tensors.wrap(kept, like=value) if isinstance(value, tv_tensors.TVTensor) else kept
    if sample.panoptic_map is not None and sample.semantic_map is not None and sample.instance_ids is not None:
        panoptic, semantic = (plane.as_subclass(Tensor) for plane in (sample.panoptic_map, sample.semantic_map))
        panoptic, semantic = without_orphans(panoptic, semantic, values["instance_ids"])
        values["panoptic_map"], values["semantic_map"] = PanopticMap(panoptic), SemanticMap(semantic)
    return DenseSample(**values)


def padded_columns(
    columns: Mapping[str, Any],
    max_instances: int,
    overflow: Overflow,
    num_points: int,
    slots: MaskSlots | None = None,
) -> dict[str, Any]:
    """Return the fields of a padded batch, by name; see `segpaste.types.BatchedDenseSample.to_padded`.

    Args:
        columns: fields of a ragged batch, by their names in it.
        max_instances: number of instance slots per image, K.
        overflow: handling of an image that has more than K instances.
        num_points: number of keypoints per instance, P.
        slots: memory in which the masks were drawn.
    """
    check.check_count("to_padded: max_instances", max_instances)
    if overflow not in ("raise", "largest"):
        raise ValueError(f"to_padded: expected overflow='raise' or 'largest', got {overflow!r}")
    if (padding := columns.get("padding_mask")) is not None:
        check.check_padding("to_padded: padding_mask", padding.as_subclass(Tensor))
    images, labels = columns["images"], columns["labels"]
    kept = [_kept(columns, b, max_instances, overflow) for b in range(len(labels))]
    sizes, values = {"H": images.shape[-2], "W": images.shape[-1], "P": num_points}, dict[str, Any]()
    for field in SAMPLE_FIELDS:
        if (column := columns.get(field.batched_name)) is None:
            continue
        if field.layout == "dense":
            values[field.batched_name] = column
        elif field.layout == "image":
            rows = [c.to_tensor() for c in column]
            values[field.batched_name] = (
                torch.stack(rows) if rows else images.new_zeros(0, 4, dtype=torch.float32)
            ).to(images.device)
        else:
            plain = [row.as_subclass(Tensor) for row in column]
            rows = [row if len(keep) == len(row) else row[keep] for row, keep in zip(plain, kept, strict=True)]
            padded = slots.filled(rows) if slots is not None and field.name == "instance_masks" else None
            if padded is None:
                tail = [sizes[s] if isinstance(s, str) else s for s in field.shape[1:]]
                padded = zeros((len(rows), max_instances, *tail), field.dtypes[0], images.device)
                for slot, row in zip(padded, rows, strict=True):
                    slot[: len(row)] = row
            values[field.batched_name] = padded
    num = torch.tensor([len(k) for k in kept], dtype=torch.int64, device=images.device)
    values["instance_valid"] = torch.arange(max_instances, device=images.device) < num[:, None]
    _clear_orphans(values, [b for b in range(len(labels)) if len(kept[b]) < len(labels[b])])
    return values


def _kept(columns: Mapping[str, Any], b: int, max_instances: int, overflow: Overflow) -> Tensor:
    """Return the indices of the instances of image ``b`` that get a slot."""
    count = len(columns["labels"][b])
    if count <= max_instances:
        return torch.arange(count, device=columns["images"].device)
    if overflow == "raise":
        raise ValueError(
            f"to_padded: sample {b} has {count} instances, max_instances is {max_instances}; "
            "raise max_instances, or pass overflow='largest' to keep the largest"
        )
    masks = columns.get("instance_masks")
    return largest_instances(columns["boxes"][b], None if masks is None else masks[b], max_instances)


def _clear_orphans(values: dict[str, Any], rows: list[int]) -> None:
    """Clear pixels of dropped instances in copies of the panoptic and semantic maps of the images ``rows``."""
    if not rows or any(values.get(name) is None for name in ("panoptic_maps", "semantic_maps", "instance_ids")):
        return
    panoptic, semantic = (values[name].as_subclass(Tensor).clone() for name in ("panoptic_maps", "semantic_maps"))
    for b in rows:
        panoptic[b], semantic[b] = without_orphans(panoptic[b], semantic[b], values["instance_ids"][b])
    values["panoptic_maps"], values["semantic_maps"] = panoptic, semantic
