"""Crops of a bank as rows of a source batch, in one launch."""

from __future__ import annotations

import torch

from segpaste.engine.planes import SHORT_NAMES
from segpaste.engine.record_fields import empty, names_of
from segpaste.engine.schema import Classes, CropRows, Crops
from segpaste.engine.triton.inputs import _crops
from segpaste.engine.triton.launching import argument_tuple, launch, plain

BLOCK = 4096
"""Colours that one program converts."""

RowArguments = argument_tuple("RowArguments", *(SHORT_NAMES.get(name, name) for name in names_of(CropRows, "triton")))
"""Rows that the kernel writes, bools as bytes; no images if they stay as they are."""


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """See `segpaste.engine.reference.crops.stage_crops`."""
    num, device, (height, width) = len(crops.labels), crops.labels.device, crops.images.shape[-2:]
    converts = dtype != torch.uint8
    images = torch.empty(crops.images.shape, dtype=dtype, device=device) if converts else crops.images
    rows = empty(CropRows, device, {"S": num}, images=images)
    num_values = images.numel() if converts else 0
    is_thing = classes.is_thing
    launch(
        _crops.stage,
        num + -(-num_values // BLOCK),
        RowArguments(images if converts else None, *map(plain, rows[1:])),
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
