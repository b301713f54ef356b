"""Checks of values from frameworks: colours are in the expected range, masks have two values.

Each check reads its tensors once and waits for their device once. Shapes and dtypes are checked by the containers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

RGB = 3
"""Channels of the images that banks and pretrained models have."""


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


def set_value(name: str, masks: Tensor) -> int | None:
    """Return the value that marks an object in masks, 1 or 255; None if no pixel is set.

    Args:
        name: name for the error.
        masks: masks of any shape and dtype.

    Raises:
        ValueError: they have values other than 0 and one of these, such as probabilities or numbers of objects.
    """
    if not masks.numel():
        return None
    if masks.dtype == torch.bool:
        return 1 if bool(masks.any()) else None
    if masks.dtype in (torch.uint16, torch.uint32):  # torch has no maximum for them
        masks = masks.to(torch.int64)
    most = masks.amax()
    facts = torch.stack([most.double(), (masks != 0).sum().double(), (masks == most).sum().double()])
    value, num_set, num_most = facts.tolist()
    if not num_set:
        return None
    if value not in (1, 255) or num_set != num_most:
        others: Tensor = masks[(masks != 0) & (masks != 1) & (masks != 255)]
        came = ", ".join(f"{number:.4g}" for number in others[:3].tolist()) or "1 beside 255"
        raise ValueError(
            f"{name}: expected 0 and 1, or 0 and 255, got {came}; choose a threshold for soft masks (masks > 0.5), and "
            "make one mask for each object of a map of numbers (map == number)"
        )
    return int(value)
