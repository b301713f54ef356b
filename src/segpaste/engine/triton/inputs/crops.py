"""Crops of a bank as rows of a source batch, in one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.schema import Classes, CropRows, Crops
from segpaste.engine.triton.inputs import _crops
from segpaste.engine.triton.launching import launch, plain

BLOCK = 4096
"""Colours that one program converts."""


class RowArguments(NamedTuple):
    """Rows that the kernel writes, bools as bytes; no images if they stay as they are."""

    boxes: Tensor
    labels: Tensor
    valid: Tensor
    ids: Tensor
    eligible: Tensor
    extent: Tensor
    images: Tensor | None


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """See `segpaste.engine.reference.crops.stage_crops`."""
    num, device, (height, width) = len(crops.labels), crops.labels.device, crops.images.shape[-2:]
    converts = dtype != torch.uint8

    def empty(*shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(num, *shape, dtype=dtype, device=device)

    rows = CropRows(
        images=empty(*crops.images.shape[1:], dtype=dtype) if converts else crops.images,
        boxes=empty(1, 4, dtype=torch.float32),
        labels=empty(1, dtype=torch.int64),
        instance_valid=empty(1, dtype=torch.bool),
        instance_ids=empty(1, dtype=torch.int32),
        eligible=empty(1, dtype=torch.bool),
        extent=empty(2, dtype=torch.int64),
    )
    num_values = rows.images.numel() if converts else 0
    is_thing = classes.is_thing
    launch(
        _crops.stage,
        num + -(-num_values // BLOCK),
        RowArguments._make([*(plain(t) for t in rows[1:]), rows.images if converts else None]),
        Crops._make([None if t is None else plain(t) for t in crops]),
        None if is_thing is None else plain(is_thing.to(device)),
        0 if is_thing is None else len(is_thing),
        num,
        num_values,
        height,
        width,
        scale,
        BLOCK=BLOCK,
    )
    return rows
