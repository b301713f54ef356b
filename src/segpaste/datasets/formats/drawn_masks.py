"""Masks of the objects of one image, from COCO's segmentations: drawn natively where possible, or one by one later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste._pixels import Size, mask_box, write_mask
from segpaste.datasets._windows import runs_natively
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.image_pixels import read_part, read_pixels
from segpaste.datasets.formats.rle import coded_runs, decode_segmentation
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.engine.native import windows
from segpaste.engine.native.windows import Counts, Shown
from segpaste.types import DenseSample, InstanceMask, KeypointSchema
from segpaste.types.sampling import Window
from segpaste.types.tensors import untouched


class DrawnMasks:
    """Masks of one image, drawn one after the other; what has no pixel takes no place.

    Args:
        num: the largest number of masks.
        size: (H, W) of the image.
    """

    def __init__(self, num: int, size: Size) -> None:
        self._size, self._boxes = size, list[tuple[int, int, int, int]]()
        self._planes = untouched((num, *size), torch.bool)
        self._window = whole(size) if runs_natively() else None

    def draw(self, segmentation: object) -> bool:
        """Draw the mask of a segmentation, see `decode_segmentation`; return whether it has a pixel.

        Raises:
            ValueError: the segmentation is invalid.
        """
        plane = self._planes[len(self._boxes)]
        if self._window is not None:
            _, shown = read_segmentation(segmentation, self._window, plane)
            box = shown.box if shown.area else None
        else:
            mask = decode_segmentation(segmentation, self._size)
            write_mask(mask, plane.numpy())
            box = mask_box(mask)
        if box is not None:
            self._boxes.append(box)
        return box is not None

    @property
    def masks(self) -> Tensor:
        """The masks, [N, H, W] bool."""
        return self._planes[: len(self._boxes)]

    def sample(self, image: Tensor, labels: list[int], **fields: Any) -> DenseSample:
        """Return the sample of an image [C, H, W] with these masks, as `DenseSample.from_masks`."""
        edges = torch.from_numpy(np.array(self._boxes, np.float32).reshape(-1, 4))
        return DenseSample(
            image=tv_tensors.Image(image, device=image.device),
            boxes=tv_tensors.BoundingBoxes(edges, format="XYXY", canvas_size=self._size, device=edges.device),
            labels=torch.tensor(labels, dtype=torch.int64, device="cpu"),
            instance_ids=torch.arange(1, len(labels) + 1, dtype=torch.int32, device="cpu"),
            instance_masks=InstanceMask(self.masks),
            **fields,
        )


def whole(size: Size) -> Window:
    """Return the window that shows all of an image (H, W) as it is."""
    return Window(size, size, False, (0, 0), size)


def read_segmentation(segmentation: object, window: Window, out: Tensor | None = None) -> tuple[Counts, Shown]:
    """Return the run lengths of a segmentation and its measures in a window; draw it into ``out`` [h, w], zeros.

    Raises:
        ValueError: the segmentation is invalid.
    """
    counts = coded_runs(segmentation, window.canvas_size)
    if (shown := windows.read_runs(counts, window, out)) is None:
        decode_segmentation(segmentation, window.canvas_size)  # raises an error with the reason
        raise AssertionError(f"run lengths that only one reader refuses: {segmentation!r:.80}")
    return counts, shown


def draw_through(window: Window, plane: Tensor, segmentation: object, size: Size) -> tuple[Counts, Shown]:
    """Draw a segmentation of an image of (H, W), see `read_segmentation`."""
    return read_segmentation(segmentation, window, plane)


def lone_objects(
    path: Path,
    size: Size,
    found: Sequence[tuple[JsonRow, Counts, Shown]],
    *,
    drawn_upright: bool,
    keypoints: Tensor | None = None,
    keypoint_schema: KeypointSchema | None = None,
) -> LoneObjects:
    """Return the objects of an image file from their entries, of which ``label`` is used, run lengths and measures."""
    return LoneObjects(
        size,
        tuple(row["label"] for row, *_ in found),
        [shown for *_, shown in found],
        [counts for _, counts, _ in found],
        keypoints,
        {"metric_depth": False, "keypoint_schema": keypoint_schema},
        partial(read_part, path, size, drawn_upright=drawn_upright),
        partial(read_pixels, path, size, drawn_upright=drawn_upright),
    )
