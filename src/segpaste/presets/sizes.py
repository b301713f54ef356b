"""Ranges of sizes for the pasted objects of each class, from the sizes of the class in a dataset.

Not for sizes relative to the crops: that is the default scaling, relative to the image of the crop. The mean and the
deviation of a class determine the size of its pastes, as in Zhao et al., "X-Paste: Revisiting Scalable Copy-Paste for
Instance Segmentation using CLIP and StableDiffusion", ICML 2023, https://arxiv.org/abs/2212.03863.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from segpaste.augmentation import SizeRange
from segpaste.types import DenseSample


def class_size_ranges(samples: Iterable[DenseSample], side: float) -> dict[int, SizeRange]:
    """Return, for each class, the range of sizes with the mean and the deviation of its objects.

    The size of an object is the longer side of its box over the square root of the area of its image. Sizes are drawn
    uniformly from a range, so it extends to the square root of 3 deviations below and above the mean.

    Args:
        samples: images with boxes, read once.
        side: square root of the area of the target images, pixels.

    Returns:
        Range in pixels of each class id, from 1 to ``side``, for ``placement.class_sizes``. Classes without a box are
        left out.

    Raises:
        ValueError: ``side`` is below 1.
    """
    if side < 1:
        raise ValueError(f"class_size_ranges: expected side of at least 1 pixel, got {side}")
    sizes: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        width, height = (sample.boxes[:, 2:] - sample.boxes[:, :2]).unbind(1)
        root = math.sqrt(sample.image.shape[-2] * sample.image.shape[-1])
        for label, longer in zip(sample.labels.tolist(), width.maximum(height).tolist(), strict=True):
            if longer > 0:
                sizes[label].append(longer / root)
    return {label: _range(values, side) for label, values in sorted(sizes.items())}


def _range(sizes: list[float], side: float) -> SizeRange:
    mean = sum(sizes) / len(sizes)
    reach = math.sqrt(3 * sum((size - mean) ** 2 for size in sizes) / len(sizes))
    low, high = (min(max((mean + sign * reach) * side, 1.0), side) for sign in (-1, 1))
    return SizeRange(low=low, high=high)
