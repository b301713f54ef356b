"""Reader of COCO panoptic segmentation: the samples of `segpaste.datasets.formats.coco.segments`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste._pixels import IGNORE_INDEX
from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, first_few
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.coco.segments import SegmentAnnotations, read_segment_ids, segment_positions
from segpaste.datasets.formats.image_pixels import read_rgb
from segpaste.types import DenseSample


class CocoPanoptic(SegmentAnnotations, AnnotatedImages):
    """Images with panoptic maps, one `DenseSample` each, in the order of the file's ``images``.

    A sample has image (uint8), semantic map, panoptic map, and for its things boxes, labels, instance ids 1..N and
    instance masks. Pixels without a segment (id 0) and of crowd segments are ignored: semantic 255, panoptic 0. If the
    file has crowd segments, samples have a crowd mask. Labels and semantic map share one id space.

    Images without an annotation are left out with one warning, as in other readers of this format, because a map of
    void pixels trains nothing. ``num_unannotated_images`` counts them.

    Args:
        images_dir: the folder of the images.
        panoptic_json: the JSON file.
        panoptic_dir: the folder of the PNG files.
        transforms: called with each `DenseSample`; its result replaces the sample.
        max_instances_per_image: more things than this in one image are an error.

    Attributes:
        schema: thing and stuff classes.
        class_names: the name of each class.
        category_ids: the id of each class in the file, ascending; these may have gaps, classes have none.
        has_crowds: True if samples have a crowd mask.

    Raises:
        DatasetError: a folder is missing, the file is missing, broken or incomplete, no image has an annotation, or
            there are more than 255 classes.
    """

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the segment ids of the instances, before ``transforms``; instance id i + 1 is at position i."""
        return tuple(segment["id"] for segment in self._records[index]["segments"] if segment["instance_id"])

    def left_out(self, index: int) -> dict[str, int]:
        """Count the ``crowd`` segments of an image, which are left out; stuff segments are not counted."""
        return {"crowd": sum(segment["crowd"] for segment in self._records[index]["segments"])}

    def crowds(self, index: int) -> list[Crowd]:
        """Return the crowd segments of an image separately, before ``transforms``."""
        record = self._records[index]
        numbered = [(n, row) for n, row in enumerate(record["segments"], start=1) if row["crowd"]]
        if not numbered:
            return []
        segment_map = self._read_segment_map(record)
        return [Crowd(row["id"], row["class"], row["ignored"], segment_map == n) for n, row in numbered]

    def _read_sample(self, record: JsonRow) -> DenseSample:
        segments = record["segments"]
        image = read_rgb(self.images_dir / record["file_name"], (record["height"], record["width"]))
        segment_map = self._read_segment_map(record)
        crowd_mask = np.array([False, *(s["crowd"] for s in segments)])[segment_map]
        classes = [IGNORE_INDEX, *(IGNORE_INDEX if s["crowd"] else s["class"] for s in segments)]
        panoptic_map = torch.from_numpy(np.array([0, *(s["instance_id"] for s in segments)], np.int64)[segment_map])
        labels = torch.tensor([s["class"] for s in segments if s["instance_id"]], dtype=torch.int64, device="cpu")
        return DenseSample.from_masks(
            image,
            panoptic_map == torch.arange(1, len(labels) + 1, device="cpu")[:, None, None],
            labels,
            semantic_map=torch.from_numpy(np.array(classes, np.int64)[segment_map]),
            panoptic_map=panoptic_map,
            crowd_mask=torch.from_numpy(crowd_mask[None]) if self.has_crowds else None,
        )

    def _read_segment_map(self, record: JsonRow) -> NDArray[np.int64]:
        """Return the position of each pixel in the segment list, from 1, or 0 without a segment: [H, W] int64."""
        path = self.panoptic_dir / record["map"]
        size = record["height"], record["width"]
        ids, listed = read_segment_ids(path, size), [segment["id"] for segment in record["segments"]]
        positions = segment_positions(ids, listed)
        strange = np.unique(ids[(positions == 0) & (ids != 0)]).tolist()
        is_seen = np.bincount(positions.reshape(-1), minlength=len(listed) + 1) > 0
        unseen = sorted(number for number, is_there in zip(listed, is_seen[1:], strict=True) if not is_there)
        if strange or unseen:
            raise DatasetError(
                f"{path}: expected the segments that {self.annotations_file.name} lists for it, but {_first(strange)} "
                f"only in the PNG and {_first(unseen)} only in the JSON; use files that belong together"
            )
        return positions.astype(np.int64)


def _first(ids: list[int]) -> str:
    return f"{len(ids)} ({first_few(ids)})" if ids else "none"
