"""Steps before a paste, each in one launch: extending a batch, and staging the crops of a bank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.planes import SHORT_NAMES
from segpaste.engine.record_fields import empty, names_of
from segpaste.engine.reference.inputs import has_slots
from segpaste.engine.schema import Classes, CropRows, Crops
from segpaste.engine.triton import _inputs
from segpaste.engine.triton.launching import argument_tuple, launch, plain
from segpaste.types import FIELDS, IGNORE_INDEX, PaddedBatchedDenseSample

PIXEL_BLOCK = 1024
"""Pixels of an image that one program writes in all planes but the masks."""

MASK_CHUNK = 4096
"""Bytes of the masks that one program writes at once: 16 for each thread."""


MAX_REGISTERS = 128
"""Registers of a thread. Without a limit the assembler aims at fewer, and spills some."""

_NAMES = (
    *("images", "instance_masks", "semantic_maps", "panoptic_maps", "depth", "depth_valid", "normals"),
    *("padding_mask", "crowd_mask", "boxes", "labels", "instance_ids", "instance_valid", "keypoints"),
)
"""Names of the fields in `ExtendArguments`."""

COLOUR_BLOCK = 4096
"""Colours that one program converts."""

RowArguments = argument_tuple("RowArguments", *(SHORT_NAMES.get(name, name) for name in names_of(CropRows, "triton")))
"""Rows that the kernel writes, bools as bytes; no images if they stay as they are."""


class ExtendArguments(NamedTuple):
    """Fields of a batch, bools as bytes, all but the images in row-major order; None where absent, or not written."""

    images: Tensor | None
    masks: Tensor | None
    semantic: Tensor | None
    panoptic: Tensor | None
    depth: Tensor | None
    depth_valid: Tensor | None
    normals: Tensor | None
    padding: Tensor | None
    crowd: Tensor | None
    boxes: Tensor | None
    labels: Tensor | None
    ids: Tensor | None
    valid: Tensor | None
    keypoints: Tensor | None


def extend(batch: PaddedBatchedDenseSample, canvas_size: tuple[int, int], num_slots: int) -> PaddedBatchedDenseSample:
    """See `segpaste.engine.reference.inputs.extend`."""
    (b, num_channels, height, width), grows = batch.images.shape, canvas_size != batch.canvas_size
    adds, fields = num_slots > batch.max_instances, {f.batched_name: f for f in FIELDS}
    if not (grows or adds):
        return batch
    out: dict[str, Tensor] = {}
    for name in _NAMES:
        field, value = fields[name], getattr(batch, name)
        if name == "padding_mask" and grows:
            out[name] = torch.empty(b, 1, *canvas_size, dtype=torch.bool, device=batch.device)
        elif value is not None and ((grows and field.resample) or (adds and has_slots(field))):
            shape = list(value.shape)
            shape[1] = num_slots if has_slots(field) else shape[1]
            shape[-2:] = canvas_size if field.resample else shape[-2:]
            out[name] = _empty(name, value, shape)
    lined = [None if name not in out else _lined(name, out[name]) for name in _NAMES]
    given = [None if (value := getattr(batch, name)) is None else _lined(name, value) for name in _NAMES]
    points = 0 if batch.keypoints is None else batch.keypoints.shape[2] * 3
    launch(
        _inputs.extend,
        b * -(-canvas_size[0] * canvas_size[1] // PIXEL_BLOCK),
        ExtendArguments(*given),
        ExtendArguments(*lined),
        *batch.images.stride(),
        *out.get("images", batch.images).stride(),
        *(num_channels, height, width, *canvas_size, batch.max_instances, num_slots, points, IGNORE_INDEX),
        BLOCK=PIXEL_BLOCK,
        MASK_CHUNK=MASK_CHUNK,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )
    return batch.derived(**out)


def _empty(name: str, like: Tensor, shape: list[int]) -> Tensor:
    """Allocate a field in row-major order, or channels-last for images that are in that order only."""
    is_last = name == "images" and not like.is_contiguous() and like.is_contiguous(memory_format=torch.channels_last)
    order = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=order)


def _lined(name: str, value: Tensor) -> Tensor:
    """Return a field as a kernel argument: images in their own layout, all others in row-major order."""
    return value if name == "images" else plain(value)


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """See `segpaste.engine.reference.inputs.stage_crops`."""
    num, device, (height, width) = len(crops.labels), crops.labels.device, crops.images.shape[-2:]
    converts = dtype != torch.uint8
    images = torch.empty(crops.images.shape, dtype=dtype, device=device) if converts else crops.images
    rows = empty(CropRows, device, {"S": num}, images=images)
    num_values = images.numel() if converts else 0
    is_thing = classes.is_thing
    launch(
        _inputs.stage,
        num + -(-num_values // COLOUR_BLOCK),
        RowArguments(images if converts else None, *map(plain, rows[1:])),
        Crops._make([None if t is None else plain(t) for t in crops]),
        None if is_thing is None else plain(is_thing.to(device)),
        0 if is_thing is None else len(is_thing),
        num,
        num_values,
        height,
        width,
        scale,
        BLOCK=COLOUR_BLOCK,
    )
    return rows
