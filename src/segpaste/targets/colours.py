"""Colours of images: checks of their range, and normalisation and its inverse.

Each check reads its tensors once and waits for their device once. Shapes and dtypes are checked by the containers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from segpaste.targets.annotated import Reading
from segpaste.types.tensors import tensor_of

RGB = 3
"""Channels of the images that banks and pretrained models have."""

_SLACK = 0.1
"""Tolerance of values outside of 0..1 after the normalisation is undone, for resized and jittered images."""


def expect_colours(
    name: str, images: Sequence[Tensor], white: float, option: str | None = None, remedy: str | None = None
) -> None:
    """Check that images are colours between black, 0, and white.

    The minimum and maximum of float images are read, all at once, which waits for their device. uint8 images are not
    read. Images that are black everywhere pass in every range.

    Args:
        name: name for the error.
        images: images of any shape.
        white: the value of white, 1 or 255.
        option: option that sets it, such as ``scale``; None if it is fixed.
        remedy: advice for the error, instead of the default one.

    Raises:
        ValueError: a value is NaN, or by more than rounding negative or above ``white``; white is 255 and the maximum
            is above 1/2 and at most 1, with fractions among the values, as in images of 0..1; or the images are uint8
            and white is not 255. A darker image may be of either range, and passes.
    """
    expected, slack = f"{name}: expected colours in 0..{white:g}", white / 255
    read = [image for image in images if image.dtype != torch.uint8 and image.numel()]
    if white != 255 and any(image.dtype == torch.uint8 for image in images):
        raise ValueError(f"{expected}, got uint8 images, which have 0..255; {remedy or _of_other_white(255, option)}")
    if not read:
        return
    bounds = torch.stack([bound.float() for image in read for bound in image.aminmax()]).tolist()
    low, high = min(bounds), max(bounds)
    if any(math.isnan(bound) for bound in bounds):
        raise ValueError(f"{expected}, got NaN; find the transform that makes it")
    if low < -min(slack, 0.1):
        todo = remedy or "paste first and normalise afterwards, or clamp values that a resize made"
        raise ValueError(f"{expected}, got {low:.3g}..{high:.3g}; {todo}")
    if high > white + slack:
        raise ValueError(f"{expected}, got {low:.3g}..{high:.4g}; {remedy or _of_other_white(255, option)}")
    if white > 1 and 0.5 < high <= 1 and any(bool((image != image.round()).any()) for image in read):
        raise ValueError(f"{expected}, got {low:.3g}..{high:.3g} in all images; {remedy or _of_other_white(1, option)}")


def _of_other_white(white: int, option: str | None) -> str:
    """Return the advice for images whose value of white is another, 1 or 255."""
    change = "divide the images by 255" if white == 255 else "multiply the images by 255"
    return change if option is None else f"{change}, or give {option}={white}"


def expect_rgb(name: str, num_channels: int) -> None:
    """Check that images have three channels.

    Raises:
        ValueError: they have another number; the message says what to do with grey images and those with transparency.
    """
    if num_channels != RGB:
        raise ValueError(f"{name}: expected images of {RGB} channels, got {channels(num_channels)}")


def channels(num: int) -> str:
    """Return a number of channels for an error, with the kind of such images and how to convert them to RGB."""
    remedies = {
        1: "1 (grey); repeat it three times, as torchvision's v2.RGB() does",
        4: "4 (with transparency?); keep the first three, as torchvision's v2.RGB() does",
    }
    return remedies.get(num, f"{num}; keep the three that are red, green and blue")


def normalized(images: Tensor, mean: Sequence[float], std: Sequence[float], scale: float = 255.0) -> Tensor:
    """Return images [B, C, H, W] in 0..``scale`` as (value / ``scale`` - mean) / std, float32.

    Float images are read to check their range, which waits for their device; see `expect_colours`.

    Args:
        images: images in 0..``scale``.
        mean: mean of each channel of images in 0..1.
        std: standard deviation of each channel of images in 0..1.
        scale: the value of white.

    Raises:
        ValueError: colours are in another range, the number of channels is another, or ``std`` or ``scale`` is not > 0.
    """
    num_channels = images.shape[1]
    if len(mean) != len(std):
        raise ValueError(f"mean, std: expected as many numbers in each, got {len(mean)} and {len(std)}")
    if len(mean) != num_channels:
        raise ValueError(f"images: expected {len(mean)} channels, as in mean and std, got {channels(num_channels)}")
    if min([*std, scale]) <= 0:
        raise ValueError(f"std, scale: expected numbers > 0, got {list(std)} and {scale}")
    expect_colours("images", [images], scale, "scale")
    return (images.float() - _per_channel(mean, images) * scale) / (_per_channel(std, images) * scale)


def as_fractions(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Undo a normalisation of images [..., C, H, W]; they are then in 0..1."""
    return images * _per_channel(std, images) + _per_channel(mean, images)


def to_uint8(colours: Tensor) -> Tensor:
    """Return colours in 0..1 as 0..255 uint8."""
    return (colours * 255).round().clamp(0, 255).to(torch.uint8)


def _per_channel(numbers: Sequence[float], images: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32, device=images.device).view(-1, 1, 1)


def pixels_of(image: object, reading: Reading) -> Tensor:
    """Undo the normalisation of an image [C, H, W] and return it as uint8 on the CPU; without one keep its values.

    Raises:
        ValueError: mean and standard deviation do not fit the image.
    """
    values, mean, std = tensor_of(image).detach().cpu(), reading.mean, reading.std
    if values.dtype == torch.uint8:
        return values
    values = values.float()
    if mean is None or std is None:
        return values
    if len(mean) != len(values) or len(std) != len(values):
        raise ValueError(
            f"{reading.owner}: expected mean and std with {len(values)} numbers each, one per channel, got {len(mean)} "
            f"and {len(std)}"
        )
    values = as_fractions(values, mean, std)
    known = values[values.isfinite()]
    if known.numel() and (known.min() < -_SLACK or known.max() > 1 + _SLACK):
        raise ValueError(
            f"{reading.owner}: expected images in 0..1 after mean and std were undone, got {known.min():.4g} to "
            f"{known.max():.4g}; give the mean and std of the normalisation of these images"
        )
    return to_uint8(values.nan_to_num(0.0))


def model_input(batch: Mapping[str, Any], b: int, reading: Reading) -> tuple[Tensor, Tensor | None]:
    """Return an image of ``pixel_values``, see `pixels_of`, and its padding [H, W] bool, where ``pixel_mask`` is 0.

    Raises:
        ValueError: the normalisation is not known.
    """
    if reading.mean is None or reading.std is None:
        raise ValueError(
            f"{reading.owner}: expected the mean and std that pixel_values were normalised with, got none; give "
            "mean=processor.image_mean, std=processor.image_std, or 0 and 1 for each channel of images in 0..1"
        )
    inside = batch.get("pixel_mask")
    return pixels_of(batch["pixel_values"][b], reading), None if inside is None else tensor_of(inside[b]) == 0
