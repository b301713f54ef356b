"""Reader of COCO files with boxes only, such as exports of object detection projects.

Samples have boxes, and no masks unless ``source.mask_from`` makes some. A file with any segmentation is read by
`segpaste.datasets.formats.coco`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco import CocoDetectionV2
from segpaste.datasets.formats.photo import read_rgb
from segpaste.datasets.jitter import LargeScaleJitter
from segpaste.types import CrowdMask, DenseSample

Transforms = Callable[[DenseSample], DenseSample]


class CocoBoxes(CocoDetectionV2):
    """Images with boxes, one `DenseSample` each; see `segpaste.datasets.CocoDetectionV2`.

    Boxes are those of the file, clipped to the image. Boxes without a pixel are left out with a warning.
    """

    has_masks = False

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the id of each box in the file, before ``transforms``; instance i is at position i."""
        return tuple(row["id"] for row, _ in self._boxes(index))

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            DatasetError: its image cannot be read, or one of its annotations has no box.
        """
        record = self._records[index]
        size = record["height"], record["width"]
        image = read_rgb(self.images_dir / record["file_name"], size)
        kept = self._boxes(index)
        labels = {row["id"]: row["label"] for row in record["annotations"]}
        boxes = torch.tensor([box for _, box in kept], dtype=torch.float32, device="cpu").reshape(-1, 4)
        points = [row for row in record["annotations"] if row["id"] in {kept_row["id"] for kept_row, _ in kept}]
        sample = DenseSample(
            image=tv_tensors.Image(image, device=image.device),
            boxes=tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size, device=boxes.device),
            labels=torch.tensor([labels[row["id"]] for row, _ in kept], dtype=torch.int64, device="cpu"),
            crowd_mask=CrowdMask(self._crowds_of(index, size)) if self.has_crowds else None,
            **self._keypoints(record, points),
        )
        return self._finished(index, sample)

    def read_jittered(self, index: int, jitter: LargeScaleJitter, seed: int) -> DenseSample:
        """Return ``jitter(self[index], seed)``."""
        return jitter(self[index], seed)

    def _crowds_of(self, index: int, size: tuple[int, int]) -> Tensor:
        union = torch.zeros(1, *size, dtype=torch.bool, device="cpu")
        for crowd in self.crowds(index):
            union |= torch.from_numpy(crowd.mask)
        return union

    def _boxes(self, index: int) -> list[tuple[JsonRow, list[float]]]:
        """Return the entries of instances, each with its box (x1, y1, x2, y2) in the image."""
        record = self._records[index]
        kept = []
        for row in self.annotation_rows(index):
            if row.get("iscrowd") or row.get("ignore"):
                continue
            box = box_in(row.get("bbox"), (record["height"], record["width"]))
            if box is None:
                raise DatasetError(
                    f"{self.annotations_file}: annotation {row['id']}: expected a 'bbox' of four numbers, since it "
                    f"has no segmentation, got {row.get('bbox')!r:.40}; add it, or remove the annotation"
                )
            if box[0] < box[2] and box[1] < box[3]:
                kept.append((row, box))
            elif row["id"] not in self._empty_ids:
                self._leave_out_box(row["id"])
        return kept

    def _leave_out_box(self, annotation_id: int) -> None:
        if not self._empty_ids:
            warnings.warn(
                f"{self.annotations_file}: the box of annotation {annotation_id} has no pixel in the image and is left "
                "out; further ones are only counted",
                stacklevel=2,
            )
        self._empty_ids.add(annotation_id)


def open_instances(images_dir: Path, file: str | PathLike[str], transforms: Transforms | None) -> CocoDetectionV2:
    """Open a file of COCO instances: with masks, or with boxes only if no annotation has a segmentation.

    Raises:
        DatasetError: see `segpaste.datasets.CocoDetectionV2`.
    """
    photos = CocoDetectionV2(images_dir, file, transforms=transforms)
    return CocoBoxes(images_dir, photos._file, transforms=transforms) if photos._records.are_boxes else photos


def box_in(value: object, size: tuple[int, int]) -> list[float] | None:
    """Return a box [x, y, w, h] as (x1, y1, x2, y2), clipped to an image (H, W); None if it is invalid."""
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(isinstance(number, int | float) and abs(number) < 1e9 for number in value):
        return None
    x, y, width, height = value
    edges = x, y, x + max(width, 0), y + max(height, 0)
    return [min(max(float(edge), 0.0), float(side)) for edge, side in zip(edges, size[::-1] * 2, strict=True)]
