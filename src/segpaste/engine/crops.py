"""Crops of a bank as input of an engine, and the rows of a source batch that it makes from them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Crops(NamedTuple):
    """Crops of one size, S of them.

    Attributes:
        images: [S, 3, h, w] uint8.
        alphas: [S, 1, h, w] bool, the objects.
        boxes: [S, 4] int64 xyxy, the pixels that each object spans; zero where there is none.
        labels: [S] int64.
        depth_valid: [S, 1, h, w] bool; if given, crops whose object has no valid depth may not be pasted.
    """

    images: Tensor
    alphas: Tensor
    boxes: Tensor
    labels: Tensor
    depth_valid: Tensor | None = None


class CropRows(NamedTuple):
    """Rows of a source batch with one instance slot each.

    Attributes:
        images: [S, 3, h, w] of the targets' dtype.
        boxes: [S, 1, 4] float32 xyxy.
        labels: [S, 1] int64, 0 where there is no object.
        instance_valid: [S, 1] bool, crops with an object.
        instance_ids: [S, 1] int32, 1 where there is an object, else 0.
        eligible: [S, 1] bool, crops that may be pasted: with an object, of a thing class if there is a taxonomy, of no
            negative class, and with depth if that is asked for.
        extent: [S, 2] int64, (w, h).
    """

    images: Tensor
    boxes: Tensor
    labels: Tensor
    instance_valid: Tensor
    instance_ids: Tensor
    eligible: Tensor
    extent: Tensor
