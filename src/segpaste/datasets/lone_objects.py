"""Instances of one image that can be read without the others, for cutting out few of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from segpaste.types import DenseSample


class LoneObjects(NamedTuple):
    """Instances of one image that are decoded one by one.

    Attributes:
        labels: class of each instance of the image's sample, in its order.
        mask: function that returns the mask [H, W] of an instance, by its position; the image is not decoded.
        sample: function that returns the image with this instance alone, with its id in the image's sample.
    """

    labels: tuple[int, ...]
    mask: Callable[[int], Tensor]
    sample: Callable[[int], DenseSample]
