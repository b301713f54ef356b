"""Views of samples through a `Window`, read by the native library where possible; equal to the jitter's parts in turn.

The library reads uint8 images, masks and maps directly into the output. Float images, boxes without masks and all
other fields with coordinates or pixels go through the parts of the jitter, which are the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import tv_tensors

from segpaste.engine import engine_for, native
from segpaste.engine.native import windows
from segpaste.types import DenseSample, PaddingMask
from segpaste.types.fields import FIELDS, SAMPLE_FIELDS, flags_of
from segpaste.types.sampling import Window

Show = Callable[[DenseSample, Window], DenseSample]
"""The geometric parts of the jitter, in turn, as `segpaste.datasets.LargeScaleJitter.show` applies them."""

_READ = {field.name: field for field in FIELDS if field.resample == "nearest" and field.tag is not None}
"""Masks and maps that the library reads independently of other fields."""


def runs_natively() -> bool:
    """Return whether the native library is available and selected."""
    return engine_for(torch.device("cpu")) is native


def takes_fill(fill: float) -> bool:
    """Return whether all backends pad a uint8 image with this value in the same way."""
    return float(fill).is_integer() and 0 <= fill <= 255


def read_image(image: Tensor, window: Window, fill: float) -> tv_tensors.Image | None:
    """Return a window of an image [C, H, W] as [C, h, w], or None if the native library does not read it."""
    if not (runs_natively() and windows.takes_image(image, window) and takes_fill(fill)):
        return None
    out = torch.empty(len(image), *window.size, dtype=torch.uint8, device="cpu")
    windows.read_image(image, window, int(fill), out)
    return tv_tensors.Image(out, device=out.device)


def padding_of(window: Window) -> PaddingMask:
    """Return the padding mask of a window over an image without padding of its own, [1, h, w] bool."""
    padding = torch.ones(1, *window.size, dtype=torch.bool, device="cpu")
    padding[:, : window.inside[0], : window.inside[1]] = False
    return PaddingMask(padding)


def boxes_of(found: NDArray[np.int64], window: Window) -> tv_tensors.BoundingBoxes:
    """Convert the measured edges of masks [N, 4] to boxes [N, 4] float32."""
    edges = torch.from_numpy(found.astype(np.float32))
    return tv_tensors.BoundingBoxes(edges, format="XYXY", canvas_size=window.size, device=edges.device)


def look_through(sample: DenseSample, window: Window, fill: float, show: Show) -> tuple[DenseSample, Tensor | None]:
    """Return a sample on the CPU as seen through a window, with boxes fitted to its masks, and the mask areas [N].

    The image is padded with ``fill``. Fields that are not read here are left to ``show``, the reference.
    """
    values: dict[str, Any] = {"labels": sample.labels, "instance_ids": sample.instance_ids}
    if (image := read_image(sample.image.as_subclass(Tensor), window, fill)) is not None:
        values["image"] = image
    values["padding_mask"] = padding_of(window)
    areas = None
    for name in _READ:
        if (planes := getattr(sample, name)) is not None:
            values[name], found = through(planes, name, window)
            if name == "instance_masks" and found is not None:
                areas, values["boxes"] = torch.from_numpy(found[:, 0]), boxes_of(found[:, 1:], window)
    left = [field.name for field in SAMPLE_FIELDS if field.name not in values]
    if any(getattr(sample, name) is not None for name in left):
        moved = show(_rest(sample, image is not None), window)
        values.update({name: getattr(moved, name) for name in left})
    return DenseSample(**values, **flags_of(sample)), areas


def through(value: Tensor, name: str, window: Window) -> tuple[Tensor, NDArray[np.int64] | None]:
    """Return a mask or map [..., H, W] as seen through the window, and the measures of its planes."""
    planes = value.as_subclass(Tensor).reshape(-1, *window.canvas_size)
    out = torch.empty(len(planes), *window.size, dtype=planes.dtype, device="cpu")
    found = windows.read_planes(planes, window, int(_READ[name].pad_value), out)
    seen: Tensor = tv_tensors.wrap(out.reshape(*value.shape[:-2], *window.size), like=value)
    return seen, found


def _rest(sample: DenseSample, without_image: bool) -> DenseSample:
    """Return the sample with only the fields that the parts must move; one empty channel can replace the image."""
    changes: dict[str, Any] = dict.fromkeys((*_READ, "instance_ids"))
    if without_image:
        blank = torch.zeros(1, *sample.canvas_size, dtype=torch.uint8, device="cpu")
        changes["image"] = tv_tensors.Image(blank, device=blank.device)
    return replace(sample, **changes)
