"""Reader of COCO's instances, LVIS, and boxes only: the samples of `segpaste.datasets.formats.coco.annotations`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from segpaste.datasets.contract import FederatedLabels
from segpaste.datasets.formats.coco.annotations import CocoAnnotations
from segpaste.datasets.formats.image_annotations import Transforms
from segpaste.datasets.formats.instances import InstanceImages


class CocoDetectionV2(CocoAnnotations, InstanceImages):
    """Images with instances, one `DenseSample` each, in the order of the file's ``images``.

    A sample has image (uint8), boxes that fit their masks tightly (not those of the file), labels, instance ids 1..N,
    instance masks, and keypoints if a category names some. Crowd (``iscrowd``) and ignored (``ignore``) regions are not
    instances. If the file has any, samples have a crowd mask: the union of their masks, or of their boxes where a mask
    is empty. An image without annotations gives N = 0. Annotations with an empty mask are left out with one warning,
    and counted in ``num_empty_masks``.

    LVIS files are read too. An image without ``file_name`` is named by the end of its ``coco_url``, such as
    ``train2017/000000391895.jpg``. `federated` returns the classes that were annotated in an image.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the JSON file.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        class_names: the name of each class; labels index it.
        category_ids: the id of each class in the file, ascending; these may have gaps, labels have none.
        keypoint_schema: names of the keypoints; None without keypoints.
        has_crowds: True if samples have a crowd mask.

    Raises:
        DatasetError: the folder is missing, or the file is missing, broken or incomplete.
    """

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances: ``crowd`` or ignored, ``empty`` masks."""
        num_empty = sum(row_id in self._empty_ids for row_id in self._records.ids(index, crowds=False))
        return {"crowd": len(self._records.ids(index, crowds=True)), "empty": num_empty}

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if the file does not say."""
        named = self._records.class_lists(self._records.image_row(index))
        if named["negative"] is None:
            return None
        positive = set(self._records.labels(index, instances=False))
        lists = positive, named["negative"], named["not_exhaustive"] or []
        return FederatedLabels(*(tuple(sorted(labels)) for labels in lists))


def open_instances(
    images_dir: Path, file: str | PathLike[str], *, transforms: Transforms | None = None
) -> CocoDetectionV2:
    """Open a file of COCO instances: with masks, or with boxes only if no annotation has a segmentation.

    Raises:
        DatasetError: see `segpaste.datasets.CocoDetectionV2`.
    """
    dataset = CocoDetectionV2(images_dir, file, transforms=transforms)
    dataset.has_masks = not dataset._records.are_boxes
    return dataset
