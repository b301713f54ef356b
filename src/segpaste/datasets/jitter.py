"""Large-scale jitter: resize by a random factor, flip, crop a window of fixed size, and pad.

From "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation" (Ghiasi et al., CVPR 2021),
with the arithmetic of Detectron2's ``ResizeScale`` and ``FixedSizeCrop``:

1. scale r ~ U(scale_range); the image is resized, keeping its aspect ratio, to fit into r times the output size;
2. where it is larger than the output, a window is cropped at a uniformly random position;
3. where it is smaller, it is padded at the right and at the bottom.

Each part draws only from the seed that it is called with: ``make_params`` draws, ``transform`` applies. All fields move
together, including camera intrinsics. Not for evaluation, where images keep their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste._pixels import Size, range_of, sides_of
from segpaste.datasets import _windows
from segpaste.seeding import random_bits_of
from segpaste.types import DenseSample, PaddingMask, select_instances, tight_boxes
from segpaste.types.sampling import Window


class SampleTransform(Protocol):
    """Deterministic callable that maps a sample and a seed in [0, 2**64) to a sample."""

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Return the transformed sample."""


@dataclass(frozen=True, slots=True)
class RandomResize:
    """Resize by a random factor that keeps the aspect ratio.

    Attributes:
        size: (H, W) into which factor 1 fits the image.
        scale_range: range of the uniform factor, inclusive.

    Raises:
        ValueError: a size below 1, or a range that is not 0 < low <= high.
    """

    size: Size
    scale_range: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sides_of("RandomResize.size", self.size))
        range_of("RandomResize.scale_range", self.scale_range)

    def make_params(self, canvas_size: Size, seed: int) -> Size:
        """Draw the new (H, W) of an image of this canvas size."""
        low, high = self.scale_range
        scale = low + (high - low) * _uniform(seed, "jitter.scale")
        fit = scale * min(self.size[0] / canvas_size[0], self.size[1] / canvas_size[1])
        return max(1, round(canvas_size[0] * fit)), max(1, round(canvas_size[1] * fit))

    def transform(self, sample: DenseSample, out_size: Size) -> DenseSample:
        """Return the sample resized to (H, W)."""
        return _move(sample, _resize, out_size=out_size)

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Draw and apply."""
        return self.transform(sample, self.make_params(sample.canvas_size, seed))


@dataclass(frozen=True, slots=True)
class RandomHorizontalFlip:
    """Flip left to right with a given probability.

    Attributes:
        prob: the probability of a flip, in [0, 1].

    Raises:
        ValueError: a probability outside [0, 1].
    """

    prob: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.prob, Real) or not 0 <= self.prob <= 1:
            raise ValueError(f"RandomHorizontalFlip.prob: expected a number in [0, 1], got {self.prob!r:.80}")

    def make_params(self, seed: int) -> bool:
        """Draw True to flip."""
        return _uniform(seed, "jitter.hflip") < self.prob

    def transform(self, sample: DenseSample, flip: bool) -> DenseSample:
        """Return the sample, flipped if ``flip`` is True."""
        return _move(sample, F.horizontal_flip) if flip else sample

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Draw and apply."""
        return self.transform(sample, self.make_params(seed))


@dataclass(frozen=True, slots=True)
class FixedSizeCrop:
    """Crop of a window at a random position, padded at the right and at the bottom to a fixed size.

    Boxes are clipped to the window and may become empty; apply `SanitizeInstances` afterwards. The result always has
    a padding mask.

    Attributes:
        size: (H, W) of each result.
        fill: image value in the padding.

    Raises:
        ValueError: a size below 1.
    """

    size: Size
    fill: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sides_of("FixedSizeCrop.size", self.size))

    def make_params(self, canvas_size: Size, seed: int) -> tuple[int, int]:
        """Draw the (top, left) of the window, uniform over all positions where it fits."""
        room = (max(0, canvas - size) for canvas, size in zip(canvas_size, self.size, strict=True))
        top, left = (int((free + 1) * _uniform(seed, "jitter.crop", axis)) for axis, free in enumerate(room))
        return top, left

    def transform(self, sample: DenseSample, corner: tuple[int, int]) -> DenseSample:
        """Return the padded window at this (top, left)."""
        if sample.padding_mask is None:
            sample = replace(
                sample, padding_mask=PaddingMask(torch.zeros(1, *sample.canvas_size, dtype=torch.bool, device="cpu"))
            )
        top, left = corner
        height, width = (min(s, c) for s, c in zip(self.size, sample.canvas_size, strict=True))
        if (height, width) != sample.canvas_size:
            sample = _move(sample, F.crop, top=top, left=left, height=height, width=width)
        if (height, width) != self.size:
            padding = [0, 0, self.size[1] - width, self.size[0] - height]
            sample = _move(sample, F.pad, padding=padding, fill=self.fill)
        return sample

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Draw and apply."""
        return self.transform(sample, self.make_params(sample.canvas_size, seed))


@dataclass(frozen=True, slots=True)
class SanitizeInstances:
    """Fit of boxes to masks that drops instances below a minimum area.

    In a panoptic sample the pixels of dropped things become ignored. Instances without masks are measured by their
    boxes, which stay. Nothing is random.

    Attributes:
        min_area_px: the smallest area kept, pixels; 1 drops instances without a pixel.
    """

    min_area_px: float = 1

    def transform(self, sample: DenseSample) -> DenseSample:
        """Return the sample with fitted boxes and without the instances below the minimum area."""
        if sample.instance_masks is None:
            return self._drop_small(sample, None)
        masks = sample.instance_masks.as_subclass(Tensor)
        areas = torch.tensor([np.count_nonzero(mask) for mask in masks.numpy()], dtype=torch.int64, device="cpu")
        return self._drop_small(replace(sample, boxes=tv_tensors.wrap(tight_boxes(masks), like=sample.boxes)), areas)

    def _drop_small(self, sample: DenseSample, areas: Tensor | None) -> DenseSample:
        """Drop the instances whose areas [N] are too small; None uses the areas of their boxes."""
        if areas is None:
            boxes = sample.boxes.as_subclass(Tensor)
            areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        keep = torch.nonzero((areas > 0) & (areas >= self.min_area_px)).squeeze(1)
        return sample if len(keep) == sample.num_instances else select_instances(sample, keep)

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Apply the transform; the seed is not used."""
        return self.transform(sample)


@dataclass(frozen=True, slots=True)
class LargeScaleJitter:
    """Sequence of sample transforms, called with the same seed; each part has its own names for its random draws.

    If the parts are those of `make_large_scale_jittering`, the native library reads each pixel directly into the
    output, with the same result.

    Attributes:
        parts: the transforms.
        decode_reduced: let `segpaste.datasets.CocoDetectionV2` decode a JPEG at 1/2, 1/4 or 1/8 of its size where it is
            shrunk at least that much. This is faster and changes colours slightly; decoded samples are not affected.
    """

    parts: tuple[SampleTransform, ...]
    decode_reduced: bool = False

    def window(self, canvas_size: Size, seed: int) -> Window | None:
        """Draw the window of an image of (H, W) pixels; None if the parts are not of the standard types."""
        if tuple(map(type, self.parts)) != _STANDARD:
            return None
        resize, flip, crop, _ = self._standard
        resized = resize.make_params(canvas_size, seed)
        return Window(canvas_size, resized, flip.make_params(seed), crop.make_params(resized, seed), crop.size)

    def read(self, image: Tensor, window: Window) -> tv_tensors.Image | None:
        """Return the part of an image [C, H, W] in a window, or None if the native library does not read it."""
        return _windows.read_image(image, window, self._standard[2].fill)

    def show(self, sample: DenseSample, window: Window) -> DenseSample:
        """Apply a drawn window to a sample: resize, flip and crop."""
        resize, flip, crop, _ = self._standard
        return crop.transform(flip.transform(resize.transform(sample, window.resized), window.flip), window.corner)

    @property
    def min_area_px(self) -> float:
        """Smallest area kept, pixels."""
        return self._standard[3].min_area_px

    @property
    def _standard(self) -> tuple[RandomResize, RandomHorizontalFlip, FixedSizeCrop, SanitizeInstances]:
        return cast(tuple[RandomResize, RandomHorizontalFlip, FixedSizeCrop, SanitizeInstances], self.parts)

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Draw the parameters of all parts and apply them."""
        window = self.window(sample.canvas_size, seed) if sample.image.device.type == "cpu" else None
        if window is not None and 0 not in sample.canvas_size and _windows.runs_natively():
            *_, crop, sanitize = self._standard
            return sanitize._drop_small(*_windows.look_through(sample, window, crop.fill, self.show))
        for part in self.parts:
            sample = part(sample, seed)
        return sample


_STANDARD = (RandomResize, RandomHorizontalFlip, FixedSizeCrop, SanitizeInstances)
"""Parts that one `Window` replaces."""


def make_large_scale_jittering(
    size: int | Size,
    scale_range: tuple[float, float] = (0.1, 2.0),
    *,
    hflip_prob: float = 0.5,
    min_area_px: float = 1,
    fill: float = 0.0,
    decode_reduced: bool = False,
) -> LargeScaleJitter:
    """Return the large-scale jitter that this module describes.

    Args:
        size: (H, W) of each result, or the side of a square.
        scale_range: range of the random factor; (1, 1) always fits the whole image.
        hflip_prob: the probability of flipping the image.
        min_area_px: instances with less area are dropped, pixels.
        fill: image value in the padding.
        decode_reduced: see `LargeScaleJitter`.

    Returns:
        A callable ``(sample, seed) -> sample`` that can be pickled.

    Raises:
        ValueError: a size, range or probability is invalid.
    """
    size = sides_of("size", size)
    range_of("scale_range", scale_range)
    parts = (
        RandomResize(size, scale_range),
        RandomHorizontalFlip(hflip_prob),
        FixedSizeCrop(size, fill),
        SanitizeInstances(min_area_px),
    )
    return LargeScaleJitter(parts, decode_reduced)


def _move(sample: DenseSample, functional: Callable[..., Any], **arguments: Any) -> DenseSample:
    """Transform all fields except plain tensors (labels, ids), which torchvision would treat as images."""
    fields = sample.to_dict()
    moved = {k: functional(v, **arguments) for k, v in fields.items() if isinstance(v, tv_tensors.TVTensor)}
    return DenseSample.from_dict({**fields, **moved})


def _resize(value: Tensor, out_size: Size) -> Any:
    if out_size == (1, 1) and value.dtype == torch.uint8:  # torch's antialiased uint8 kernel asserts on one pixel
        mean = F.resize(value.as_subclass(Tensor).float(), size=list(out_size), antialias=True)
        return tv_tensors.wrap(mean.round().to(torch.uint8), like=value)
    return F.resize(value, size=list(out_size), antialias=True)


def _uniform(seed: int, name: str, index: int = 0) -> float:
    """Draw a number uniformly from (0, 1)."""
    return ((random_bits_of(seed % (1 << 64), name, index) >> 32) + 0.5) / (1 << 32)
