"""Operator for compiled code that converts crops of a bank, see `segpaste.engine.operators`."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.schema import Classes, CropRows, Crops
from segpaste.engine.select import eager_engine


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """See `segpaste.engine.reference.crops.stage_crops`."""
    found = _stage_crops(list(crops), list(classes), dtype, scale)
    return CropRows(*(found if dtype != torch.uint8 else [crops.images, *found]))


@torch.library.custom_op("segpaste::stage_crops", mutates_args=())
def _stage_crops(
    crops: list[Tensor | None], classes: list[Tensor | None], dtype: torch.dtype, scale: float
) -> list[Tensor]:
    """Return the rows, without the images if they are uint8, since they do not change."""
    given = Crops(*crops)  # type: ignore[arg-type]
    rows = eager_engine(given.labels.device).stage_crops(given, Classes(*classes), dtype, scale)
    return list(rows[1:] if dtype == torch.uint8 else rows)


@_stage_crops.register_fake
def _(crops: list[Tensor | None], classes: list[Tensor | None], dtype: torch.dtype, scale: float) -> list[Tensor]:
    given = Crops(*crops)  # type: ignore[arg-type]
    images = given.images.new_empty(given.images.shape, dtype=dtype)
    rows = empty(CropRows, images.device, {"S": given.labels.shape[0]}, images=images)
    return list(rows[1:] if dtype == torch.uint8 else rows)
