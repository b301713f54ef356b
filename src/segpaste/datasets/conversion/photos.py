"""Images of a split with their annotations, on their way to a writer of another format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.entries import (
    image_entry,
    is_null,
    kept_entries,
    labelled_image,
    readable_entries,
    size_of,
    with_stored_normals,
)
from segpaste.datasets.conversion.for_tool import NEW_MAP, EntriesForTool, regions_for_tool
from segpaste.datasets.conversion.given import given_losses, of_entries, of_rows, panoptic_keys
from segpaste.datasets.conversion.names import PhotoNames
from segpaste.datasets.conversion.new_names import NewNames, head_of
from segpaste.datasets.entries import JsonRow, finite
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS, finite_row
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.image_files import expect_readable, num_frames
from segpaste.datasets.formats.instances import InstanceImages
from segpaste.datasets.formats.lossless import expect_lossless_file
from segpaste.datasets.formats.text_files import is_background
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import BOX_NUMBERS
from segpaste.datasets.writers.coco import camera_keys
from segpaste.datasets.writers.coco_panoptic import CocoSegments
from segpaste.datasets.writers.dataset_writer import DatasetWriter, Write
from segpaste.datasets.writers.format import LabelledImage, Losses, Unchanged, View, WrittenFormat, unread_losses

_EQUAL_ROWS = "rows equal to another of their label file"
_OWN = REGION_KEYS | POINT_KEYS
"""Keys of an entry with ids and geometry, which name no image."""


def written_categories(photos: AnnotatedDataset, to: WrittenFormat) -> list[JsonRow]:
    """Return the written entries of the classes; those of panoptic segments have ``isthing``."""
    rows = photos.categories
    if not isinstance(to, CocoSegments):
        return rows
    order = sorted(rows, key=lambda row: int(row["id"]))
    things = dict.fromkeys((row["id"] for row in order), photos.has_masks)
    if photos.has_semantic_maps and order and is_background(photos.class_names[0]):
        things[order[0]["id"]] = False
    if photos.schema is not None:
        kinds = photos.schema.classes
        things = {row["id"]: kinds[label] == "thing" for label, row in enumerate(order)}
    return [{"isthing": int(things[row["id"]]), **row} for row in rows]


@dataclass(frozen=True, slots=True, eq=False)
class SplitConverter:
    """Converter of the images of one split.

    Attributes:
        photos: the split.
        names: names of the images in the written dataset.
        new_names: the same names, for keys and tables that name images.
        to: the written format.
        view: its classes and labels.
        labels: the written class of each class of the split; empty if they are the same.
        keeps_entries: True if the entries of the split are written unchanged.
        has_further_fields: True if samples have fields that are not in entries, such as depth.
        for_tool: entries as the tool reads them for which the dataset is written.
    """

    photos: AnnotatedDataset
    names: PhotoNames
    new_names: NewNames
    to: WrittenFormat
    view: View
    labels: Sequence[int]
    keeps_entries: bool
    has_further_fields: bool
    for_tool: EntriesForTool

    @property
    def name(self) -> str:
        """Name of the written split."""
        return self.view.split

    @property
    def categories(self) -> list[JsonRow]:
        """The written entries of the classes, in the order of the file."""
        rows = (finite_row(row, "categories", Losses()) for row in written_categories(self.photos, self.to))
        return [self.new_names.in_row(row, "categories", ("id", "name")) for row in rows]

    @property
    def keeps_annotation_ids(self) -> bool:
        """True if the entries of annotations have the ids that they had."""
        is_same = isinstance(self.to, CocoSegments) and isinstance(self.photos, CocoPanoptic)
        return (is_same or (self.keeps_entries and self.to.of_entries)) and not self.for_tool.other_ids

    def convert(self, index: int, writer: DatasetWriter, write: Write) -> JsonRow:
        """Write the files of an image; return its note, see `DatasetWriter.add`, with what is lost of the source.

        It also has the numbers of the things in the image: ``num_objects``, without crowds and segments of stuff, and
        ``num_crowds``, with ignored regions.

        Raises:
            DatasetError: the image or one of its annotations cannot be read, or the format cannot hold them.
        """
        photos, losses = self.photos, Losses()
        head = head_of(photos, index)
        reason = self.new_names.reason_to_draw(index, head)
        name = (self.names.copied if reason is None else self.names.drawn)[index]
        if reason is None:
            losses["file names of images"] += int(self.names.is_changed[index])
        elif head is not None:
            losses[f"files of images, which are encoded again as PNG: {reason}"] += 1
            losses["frames of images after the first"] += num_frames(photos.path_of(index)) - 1
        image = self._image(index, name, losses)
        if head is not None:
            source, size = photos.photo_file(index) or (photos.path_of(index), None)
            expect_readable(source, head, size)
        if head is not None and reason is None:
            image = replace(image, source=source)
        elif image.sample is None:
            image = replace(image, sample=photos[index])
        try:
            note = writer.add(image, write)
        except DatasetError:
            raise
        except ValueError as error:
            raise DatasetError(f"{photos.file_name(index)}: {error}") from error
        losses += note["losses"] + unread_losses(photos.unread(index), self.view.format)
        if image.unchanged is not None:
            losses["segmentation null of objects, written as an empty list"] += sum(map(is_null, image.unchanged.given))
        elif image.sample is not None:
            losses += self._lost_of_source(index, image, losses)
        num_objects, num_crowds = self._counts(image)
        return {**note, "losses": losses, "num_objects": num_objects, "num_crowds": num_crowds}

    def _image(self, index: int, name: str, lost: Losses) -> LabelledImage:
        """Return an image with its annotations, as they are or as a sample; count what is not JSON."""
        photos = self.photos
        same, has_sample = self._unchanged(index, lost)
        if same is not None and not has_sample:
            return LabelledImage(name, self._entry(index, name, size_of(photos, index)), None, unchanged=same)
        sample = with_stored_normals(photos, index, photos[index], lost)
        size = sample.canvas_size if same is None or same.text is not None else size_of(photos, index)
        entry = self._entry(index, name, size) | camera_keys(sample)
        image = labelled_image(photos, index, entry, sample, self.view.format, same)
        crowds = [(crowd, self.new_names.in_row(row, "objects", _OWN)) for crowd, row in image.crowds]
        if isinstance(self.to, CocoSegments):
            crowds = list(regions_for_tool(self.for_tool.tool, crowds, lost))
        return replace(image, rows=self._renamed(image.rows), crowds=crowds)

    def _entry(self, index: int, name: str, size: tuple[int, int]) -> JsonRow:
        """Return the entry of an image under its new name, and with those of others; ``size`` is (H, W)."""
        return self.new_names.in_row(image_entry(self.photos, index, name, size), "images", IMAGE_KEYS)

    def _renamed(self, rows: Sequence[JsonRow]) -> list[JsonRow]:
        """Return entries of annotations with new names of images."""
        return [self.new_names.in_row(row, "objects", _OWN) for row in rows]

    def _unchanged(self, index: int, lost: Losses) -> tuple[Unchanged | None, bool]:
        """Return the annotations that the format takes as they are, and whether samples have more than these."""
        photos = self.photos
        if self.keeps_entries and self.to.of_entries:
            size = size_of(photos, index)
            given = self._renamed(readable_entries(photos, index, size, lost))
            given = self.for_tool.rows(given, size, lost)
            rows = kept_entries(photos, index, given, size, with_iscrowd=self.to.has_iscrowd)
            return Unchanged(rows, given), self.has_further_fields
        if isinstance(self.to, CocoSegments) and isinstance(photos, CocoPanoptic):
            segments = self._renamed(readable_entries(photos, index, None, lost))
            row = finite(photos.map_row(index), "keys of panoptic maps", lost)
            row = self.new_names.in_row(row, "images", ("image_id", "file_name"))
            file = photos.panoptic_dir / photos.map_row(index)["file_name"]
            expect_lossless_file(file)
            if not self.for_tool.keeps_map(segments, file, size_of(photos, index)):
                lost[NEW_MAP] += 1
                return None, True
            return Unchanged(segments, segments, (row, file)), photos.beside is not None
        if isinstance(photos, YoloDataset) and self.to.name == "yolo" and self._keeps_labels(photos, index):
            lost[_EQUAL_ROWS] += photos.num_equal(index)
            return Unchanged(text=photos.kept_text(index)), True
        return None, True

    def _lost_of_source(self, index: int, image: LabelledImage, told: Losses) -> Losses:
        """Count what only the annotations as given tell, and what the reader left out."""
        photos, sample, lost = self.photos, image.labelled, Losses()
        given, crowd_rows = of_entries(image.rows), [row for _, row in image.crowds]
        if photos.schema is not None:
            lost.update(panoptic_keys(photos, index, [crowd for crowd, _ in image.crowds]))
        size = int(image.entry["height"]), int(image.entry["width"])
        if isinstance(photos, YoloDataset):
            given = of_rows(photos, index, size)
            lost[_EQUAL_ROWS] += photos.num_equal(index)
            lost["outlines and keypoints of label rows, read as boxes"] += photos.num_reduced(index)
        lost["annotations without a pixel"] += photos.left_out(index).get("empty", 0)
        if isinstance(photos, InstanceImages):
            ids = {row["id"] for row in photos.annotation_rows(index) if "id" in row}
            of_crowds = {crowd.annotation_id for crowd, _ in image.crowds}
            lost["annotations without a pixel"] = len(ids - {*photos.annotation_ids(index)} - of_crowds)
        pairs = list(zip((crowd for crowd, _ in image.crowds), of_entries(crowd_rows), strict=True))
        boxes = None if sample.instance_masks is None else sample.boxes.as_subclass(Tensor).tolist()
        return lost + given_losses(self.view, size, boxes, given, pairs, told + lost)

    def _counts(self, image: LabelledImage) -> tuple[int, int]:
        """Return the number of objects, and of crowd and ignored regions."""
        same = image.unchanged
        if same is not None and same.map is not None:
            things = {row["id"] for row in self.photos.categories if row["isthing"]}
            num_objects = sum(row["category_id"] in things and not row.get("iscrowd") for row in same.rows)
            return num_objects, sum(bool(row.get("iscrowd")) for row in same.rows)
        if same is not None and same.text is None:
            num_crowds = sum(bool(row.get("iscrowd") or row.get("ignore")) for row in same.rows)
            return len(same.rows) - num_crowds, num_crowds
        return image.labelled.num_instances + len(image.boxed), len(image.regions)

    def _keeps_labels(self, photos: YoloDataset, index: int) -> bool:
        """Return whether the label file of an image is copied: if its rows are of the written task."""
        if self.view.task == "obb":
            return photos.is_oriented
        rows = map(str.split, photos.label_text(index).splitlines())
        is_converted = self.view.task == "detect" and any(len(words) not in (0, BOX_NUMBERS) for words in rows)
        return photos.task == self.view.task and not is_converted
