"""Instances of one image that can be read without the others, for cutting out few of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from segpaste._pixels import Size
from segpaste.types.sampling import Window

if TYPE_CHECKING:
    from segpaste.engine.native.windows import Counts, Shown

Part = tuple[int, int, int, int]
"""Box in an image, xyxy, pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class LoneObjects:
    """Instances of one image, measured by their run lengths; image and masks are decoded on demand.

    Attributes:
        size: size (H, W) of the image, pixels.
        labels: class of each instance of the image's sample, in its order.
        measures: area and box of each instance.
        runs: run lengths of each instance.
        keypoints: keypoints of the instances, [N, P, 3] float32; None if the sample has none.
        flags: `segpaste.types.fields.FLAGS` of the sample.
        read_part: function that decodes a part of the image, [3, h, w] uint8.
        read_image: function that decodes the image, [3, H, W] uint8.
    """

    size: Size
    labels: tuple[int, ...]
    measures: Sequence[Shown]
    runs: Sequence[Counts]
    keypoints: Tensor | None
    flags: Mapping[str, Any]
    read_part: Callable[[Part], Tensor]
    read_image: Callable[[], Tensor]
    _image: list[Tensor] = field(default_factory=list, init=False)

    def image(self) -> Tensor:
        """Return the image, [3, H, W] uint8, decoded once.

        Raises:
            DatasetError: it cannot be read.
        """
        if not self._image:
            self._image.append(self.read_image())
        return self._image[0]

    def pixels(self, part: Part) -> Tensor:
        """Return a part of the image, [3, h, w] uint8; less is decoded unless the image already is.

        Raises:
            DatasetError: it cannot be read.
        """
        if not self._image:
            return self.read_part(part)
        left, top, right, bottom = part
        return self._image[0][:, top:bottom, left:right]

    def mask(self, position: int, part: Part | None = None) -> Tensor:
        """Return the mask of an instance in a part of the image, [h, w] bool; by default in all of it, [H, W]."""
        from segpaste.engine.native import windows  # importing segpaste does not import the native core

        left, top, right, bottom = part or (0, 0, self.size[1], self.size[0])
        size = bottom - top, right - left
        found = torch.zeros(size, dtype=torch.bool, device="cpu")
        windows.read_runs(self.runs[position], Window(self.size, self.size, False, (top, left), size), found)
        return found

    def points(self, position: int) -> Tensor | None:
        """Return the keypoints of an instance, [P, 3]."""
        return None if self.keypoints is None else self.keypoints[position]
