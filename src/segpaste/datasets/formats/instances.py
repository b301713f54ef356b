"""Base of the readers of objects with outlines, which are drawn into the masks of a sample, or with boxes only.

A record of an image has ``id``, ``file_name``, ``height``, ``width``, and lists of ``annotations`` (``id``, ``label``,
``segmentation``, ``keypoints``, ``box``) and of ``crowds`` (``ignored`` and ``unmasked`` instead of keypoints), in
COCO's form: https://cocodataset.org/#format-data.

A category of COCO names its ``keypoints`` and joins them in a ``skeleton`` of pairs that count from 1. An annotation
has ``keypoints`` [x1, y1, v1, x2, ...], where x and y are whole pixels. In samples the centre of pixel i is at i + 0.5.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import tv_tensors

from segpaste._pixels import Size, outward_box
from segpaste.datasets._windows import boxes_of, padding_of, runs_natively
from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import Box, CocoPoints, JsonRow, boxless, edges_of, has_segmentation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.drawn_masks import DrawnMasks, draw_through, lone_objects, read_segmentation, whole
from segpaste.datasets.formats.image_pixels import read_pixels, read_rgb
from segpaste.datasets.formats.rle import decode_segmentation, expect_segmentation
from segpaste.datasets.jitter import LargeScaleJitter
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.engine.native import windows
from segpaste.engine.native.windows import Counts, Shown
from segpaste.types import CrowdMask, DenseSample, InstanceMask, KeypointSchema
from segpaste.types.keypoints import MovingKeypoints, moved_points
from segpaste.types.sampling import Window
from segpaste.types.tensors import kept_planes, mask_planes

UNREAD_REGIONS = "masks of crowd and ignored regions that cannot be read, instead of which the box is ignored, if any"
EMPTY_REGIONS = "crowd and ignored regions with neither a mask nor a box"


class InstanceImages(AnnotatedImages):
    """Images with instances, one `DenseSample` each; subclasses provide the records.

    A sample has image (uint8), boxes that fit their masks tightly, labels, instance ids 1..N, instance masks, and
    keypoints if a category names some. Crowd and ignored regions are not instances, nor are objects without a mask in a
    dataset of masks. If there are any, samples have a crowd mask: the union of their masks, or of their boxes where a
    mask is empty. Annotations with an empty mask are left out with one warning, and counted in ``num_empty_masks``.
    `crowds` returns objects without a mask, and with an empty one, with their boxes.

    With ``has_masks=False`` samples have boxes only, those of the annotations, clipped to the image; annotations whose
    box has no area there are left out like empty masks. Objects are pasted only with ``source.mask_from``.

    Attributes:
        has_crowds: True if samples have a crowd mask.
    """

    has_crowds: bool

    @cached_property
    def _empty_ids(self) -> set[int]:
        return set()

    @property
    def num_empty_masks(self) -> int:
        """Number of annotations that this process has left out so far because their mask is empty."""
        return len(self._empty_ids)

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the id of each instance before ``transforms``; instance id i + 1 is at position i."""
        record = self._records[index]
        if not self.has_masks:
            return tuple(row["id"] for row, _ in self._boxes(record))
        if (ids := self._ids_of_recent.get(record["id"])) is not None:
            return ids
        return tuple(row["id"] for row in self._instances(record)[0])

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation except crowds, from the annotations alone; no image or mask is read.

        Annotations with an empty mask are included, although they are not instances.
        """
        return tuple(row["label"] for row in self._records[index]["annotations"])

    def crowd_mask(self, index: int) -> Tensor:
        """Return the union of crowd and ignored regions, [H, W] bool, in the image's frame before ``transforms``."""
        return self._crowd_mask(self._records[index])[0]

    def crowds(self, index: int) -> list[Crowd]:
        """Return the crowd and ignored regions of an image separately, and its objects without a mask.

        They are in the frame of the image before ``transforms``.
        """
        record, found = self._records[index], []
        instances = {*self.annotation_ids(index)}
        empty = [{**row, "unmasked": True} for row in record["annotations"] if row["id"] not in instances]
        for row in (*record["crowds"], *empty):
            is_unmasked = bool(row.get("unmasked"))
            box = clipped_box(row["box"], (record["height"], record["width"])) if is_unmasked else None
            if is_unmasked and box is None:
                self._leave_out(row["id"])
                continue
            is_in_sample = not any(row is other for other in empty)
            given = row["box"] if box is not None else None
            if given is not None and edges_of(given) != box:
                given = None  # it was cut
            facts = row["id"], row["label"], bool(row.get("ignored")), self._region(record, row), box
            found.append(Crowd(*facts, None if given is None else tuple(given), is_in_sample))
        return found

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances: ``crowd`` or ignored, ``empty`` masks."""
        record = self._records[index]
        num_empty = sum(annotation["id"] in self._empty_ids for annotation in record["annotations"])
        return {"crowd": len(record["crowds"]), "empty": num_empty}

    def unread(self, index: int) -> dict[str, int]:
        """Count the crowd and ignored regions whose mask cannot be read, and those with neither mask nor box."""
        lost = Counter[str]()
        if not self.has_crowds:
            return lost
        record = self._records[index]
        size: Size = record["height"], record["width"]
        for crowd in record["crowds"]:
            try:
                if has_segmentation(crowd):
                    expect_segmentation(crowd["segmentation"], size)
                elif crowd["box"] is None:
                    lost[EMPTY_REGIONS] += 1
            except ValueError:
                lost[UNREAD_REGIONS] += 1
        return lost

    def read_jittered(self, index: int, jitter: LargeScaleJitter, seed: int) -> DenseSample:
        """Return ``jitter(self[index], seed)``, if possible without instance masks of full size.

        With ``jitter.decode_reduced`` the image may differ slightly.

        Raises:
            DatasetError: its image or one of its annotations cannot be read.
        """
        record = self._records[index]
        size = record["height"], record["width"]
        window = jitter.window(size, seed) if self._is_plain else None
        if window is None:
            return jitter(self[index], seed)
        at_least = window.resized if jitter.decode_reduced else None
        image = read_pixels(self.image_path(record), size, at_least, drawn_upright=self.drawn_upright)
        reduced = window._replace(canvas_size=(image.shape[1], image.shape[2]))
        seen = jitter.read(image, reduced)
        if seen is None:
            sample = jitter(self[index], seed)
            if reduced == window:
                return sample
            return replace(sample, image=jitter.show(without_objects(image), reduced).image)
        return self._jittered(record, seen, window, jitter.min_area_px)

    def _jittered(self, record: JsonRow, image: tv_tensors.Image, window: Window, min_area_px: float) -> DenseSample:
        """Return the sample of a decoded image."""
        drawn, masks = self._seen(record, window, min_area_px)
        annotations = [annotation for _, annotation, _ in drawn]
        values = {
            "image": image,
            "boxes": boxes_of(np.array([shown.box for *_, shown in drawn], np.int64).reshape(-1, 4), window),
            "labels": torch.tensor([row["label"] for row in annotations], dtype=torch.int64, device="cpu"),
            "instance_ids": torch.tensor([number for number, *_ in drawn], dtype=torch.int32, device="cpu"),
            "instance_masks": InstanceMask(masks),
            "padding_mask": padding_of(window),
            "crowd_mask": CrowdMask(self._crowd_mask(record, window)) if self.has_crowds else None,
            "metric_depth": False,
        }
        return DenseSample._of_plain({**values, **self._keypoints(record, annotations, window)})

    def _seen(self, record: JsonRow, window: Window, min_area_px: float) -> tuple[list[Any], Tensor]:
        """Return the instances that are large enough in a window: number among all, annotation, measures; masks."""
        planes = mask_planes(len(record["annotations"]), window.size)
        drawn, instances = list[tuple[int, JsonRow, Shown]](), list[int]()
        for annotation in record["annotations"]:
            plane = planes[len(drawn)]
            _, shown = self._decoded(partial(draw_through, window, plane), record, annotation)
            if not shown.source_area:
                self._leave_out(annotation["id"])
                continue
            instances.append(annotation["id"])
            if shown.area >= max(min_area_px, 1):
                drawn.append((len(instances), annotation, shown))
            elif shown.area:
                plane.zero_()
        self._remember(record["id"], instances)
        return drawn, kept_planes(planes, len(drawn))

    def _measured(self, record: JsonRow, window: Window) -> list[tuple[JsonRow, Counts, Shown]]:
        """Return the annotations that are instances, with their run lengths and their measures in a window."""
        found = []
        for annotation in record["annotations"]:
            counts, shown = self._decoded(lambda given, _: read_segmentation(given, window), record, annotation)
            if shown.source_area:
                found.append((annotation, counts, shown))
            else:
                self._leave_out(annotation["id"])
        self._remember(record["id"], (annotation["id"] for annotation, *_ in found))
        return found

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return the instances of an image to decode one by one, where samples are read from these files alone."""
        if not (self._is_plain and runs_natively()):
            return None
        record = self._records[index]
        size = record["height"], record["width"]
        measured = self._measured(record, whole(size))
        return lone_objects(
            self.image_path(record),
            size,
            measured,
            drawn_upright=self.drawn_upright,
            keypoints=self._keypoints(record, [annotation for annotation, *_ in measured]).get("keypoints"),
            keypoint_schema=self.keypoint_schema,
        )

    @property
    def _is_plain(self) -> bool:
        """True if samples are what this class reads from images and masks."""
        kind = type(self)
        is_own = (kind.__getitem__, kind._read_sample) == (AnnotatedImages.__getitem__, InstanceImages._read_sample)
        return is_own and self.has_masks and self.transforms is None and self.beside is None

    def _read_sample(self, record: JsonRow) -> DenseSample:
        image = self._read_image(record)
        crowd_mask = self._crowd_mask(record) if self.has_crowds else None
        if not self.has_masks:
            boxed = self._boxes(record)
            more = self._keypoints(record, [row for row, _ in boxed])
            return sample_of_boxes(image, [(row["label"], box) for row, box in boxed], crowd_mask=crowd_mask, **more)
        annotations, drawn = self._instances(record)
        labels = [annotation["label"] for annotation in annotations]
        crowd = None if crowd_mask is None else CrowdMask(crowd_mask)
        return drawn.sample(image, labels, crowd_mask=crowd, **self._keypoints(record, annotations))

    def _read_image(self, record: JsonRow) -> Tensor:
        """Return the image of a record, [3, H, W] uint8."""
        return read_rgb(self.image_path(record), (record["height"], record["width"]), drawn_upright=self.drawn_upright)

    def _keypoints(self, record: JsonRow, annotations: list[JsonRow], window: Window | None = None) -> dict[str, Any]:
        """Return the keypoint fields of instances in a window; empty if the file has no keypoints."""
        if (schema := self.keypoint_schema) is None:
            return {}
        rows = [annotation["keypoints"] for annotation in annotations]
        keypoints = keypoints_of(rows, schema, (record["height"], record["width"]))
        if window is not None:
            keypoints = through_window(keypoints, schema, window)
        return {"keypoints": keypoints, "keypoint_schema": schema}

    def _crowd_mask(self, record: JsonRow, window: Window | None = None) -> Tensor:
        """Return the union of crowd and ignored regions in a window, [1, H, W] bool."""
        union = np.zeros((1, record["height"], record["width"]), bool)
        for crowd in record["crowds"]:
            union |= self._region(record, crowd)
        if window is None:
            return torch.from_numpy(union)
        shown = torch.zeros(1, *window.size, dtype=torch.bool, device="cpu")
        if record["crowds"]:
            windows.read_planes(torch.from_numpy(union), window, 0, shown)
        return shown

    def _region(self, record: JsonRow, crowd: JsonRow) -> NDArray[np.bool_]:
        """Return a crowd or ignored region, [H, W] bool: its mask, or its filled box if the mask is empty."""
        try:
            mask: NDArray[np.bool_] = self._decoded(decode_segmentation, record, crowd)
        except DatasetError:
            mask = np.zeros((record["height"], record["width"]), bool)
        if not mask.any() and crowd["box"] is not None:
            x1, y1, x2, y2 = outward_box(edges_of(crowd["box"]), mask.shape)
            mask[y1:y2, x1:x2] = True
        return mask

    def _instances(self, record: JsonRow) -> tuple[list[JsonRow], DrawnMasks]:
        """Return the annotations that are instances, and their masks."""
        kept: list[JsonRow] = []
        drawn = DrawnMasks(len(record["annotations"]), (record["height"], record["width"]))
        for annotation in record["annotations"]:
            if self._decoded(lambda given, _: drawn.draw(given), record, annotation):
                kept.append(annotation)
            else:
                self._leave_out(annotation["id"])
        self._remember(record["id"], (annotation["id"] for annotation in kept))
        return kept, drawn

    def _boxes(self, record: JsonRow) -> list[tuple[JsonRow, Box]]:
        """Return the annotations whose box has an area in the image, each with its box (x1, y1, x2, y2) there."""
        kept = []
        for row in record["annotations"]:
            if row["box"] is None:
                raise boxless(self.annotations_file, row["id"])
            if (box := clipped_box(row["box"], (record["height"], record["width"]))) is not None:
                kept.append((row, box))
            else:
                self._leave_out(row["id"])
        return kept

    def _decoded(self, decode: Callable[[object, Size], Any], record: JsonRow, annotation: JsonRow) -> Any:
        """Decode a segmentation with a function of `segpaste.datasets.formats.rle`; errors name the annotation."""
        try:
            return decode(annotation["segmentation"], (record["height"], record["width"]))
        except ValueError as error:
            raise DatasetError(
                f"{self.annotations_file}: annotation {annotation['id']} of image {record['id']} "
                f"({record['file_name']}): {error}; correct or remove it"
            ) from error

    def _leave_out(self, annotation_id: int) -> None:
        if not self._empty_ids:
            warnings.warn(
                f"{self.annotations_file}: annotation {annotation_id} has no pixel and is left out; "
                "further ones are only counted, see num_empty_masks",
                stacklevel=2,
            )
        self._empty_ids.add(annotation_id)


def sample_of_boxes(
    image: Tensor, objects: Sequence[tuple[int, Sequence[float]]], *, crowd_mask: Tensor | None = None, **more: Any
) -> DenseSample:
    """Return a sample of objects without masks, each with its class and its box (x1, y1, x2, y2)."""
    size = image.shape[-2], image.shape[-1]
    boxes = torch.tensor([box for _, box in objects], dtype=torch.float32, device="cpu").reshape(-1, 4)
    return DenseSample(
        image=tv_tensors.Image(image, device=image.device),
        boxes=tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size, device=boxes.device),
        labels=torch.tensor([label for label, _ in objects], dtype=torch.int64, device="cpu"),
        crowd_mask=None if crowd_mask is None else CrowdMask(crowd_mask),
        **more,
    )


def clipped_box(box: list[float] | None, size: Size) -> Box | None:
    """Return a box [x, y, w, h] as (x1, y1, x2, y2) in an image of (H, W); None if it has no area there."""
    if box is None:
        return None
    edges = zip(edges_of(box), (size[1], size[0]) * 2, strict=True)
    x1, y1, x2, y2 = (min(max(float(edge), 0.0), float(side)) for edge, side in edges)
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def without_objects(image: Tensor) -> DenseSample:
    """Return a sample of masks without an object."""
    no_masks = torch.zeros(0, *image.shape[1:], dtype=torch.bool, device="cpu")
    return DenseSample.from_masks(image, no_masks, torch.zeros(0, dtype=torch.int64, device="cpu"))


def keypoints_of(rows: Sequence[CocoPoints | None], schema: KeypointSchema, canvas_size: Size) -> Tensor:
    """Return the keypoints of instances, [N, P, 3] float32; zero if missing or outside of the image."""
    nothing = [0.0] * (3 * schema.num_points)
    found = torch.tensor([row or nothing for row in rows], dtype=torch.float64, device="cpu")
    found = found.reshape(-1, schema.num_points, 3)
    found[..., :2] += 0.5
    height, width = canvas_size
    inside = ((found[..., :2] >= 0) & (found[..., :2] <= found.new_tensor([width, height]))).all(-1, keepdim=True)
    return torch.where((found[..., 2:] > 0) & inside, found, 0.0).float()


def through_window(keypoints: Tensor, schema: KeypointSchema, window: Window) -> Tensor:
    """Return the keypoints [N, P, 3] of an image in the frame of a window."""
    if not keypoints.numel():
        return keypoints

    def moved(box: tuple[int, int, int, int], size: Size, canvas_size: Size, mirror: str | None = None) -> Tensor:
        points: Tensor = MovingKeypoints.tag(keypoints, schema, canvas_size).as_subclass(Tensor)
        return moved_points(points, box, size, mirror)[..., :3].float()

    keypoints = moved((0, 0, *window.canvas_size), window.resized, window.canvas_size)
    if window.flip:
        keypoints = moved((0, 0, *window.resized), window.resized, window.resized, "horizontal")
    return moved((*window.corner, *window.inside), window.inside, window.resized)


def keypoint_rows(keypoints: Tensor) -> list[dict[str, Any]]:
    """Return the keys of annotations for keypoints [N, P, 3]: ``keypoints`` and ``num_keypoints``."""
    rows = []
    for points in keypoints.tolist():
        values = [
            value for x, y, v in points for value in ((_coordinate(x), _coordinate(y), int(v)) if v else (0, 0, 0))
        ]
        rows.append({"keypoints": values, "num_keypoints": sum(v > 0 for *_, v in points)})
    return rows


def _coordinate(edge: float) -> int | float:
    """Return a pixel coordinate with the fewest decimals that give the same float32."""
    for decimals in range(8):
        place = round(edge - 0.5, decimals)
        if np.float32(place + 0.5) == edge:
            break
    return int(place) if place.is_integer() else place
