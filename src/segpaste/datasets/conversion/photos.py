"""Converter of the files and entries of one image to the written format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, Crowd, JsonRow
from segpaste.datasets.conversion.entries import (
    crowds_with_entries,
    entries_of_instances,
    given_shapes,
    image_entry,
    kept_entries,
    made_entries,
)
from segpaste.datasets.conversion.names import PhotoNames
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.coco_writer import SampleRows
from segpaste.datasets.formats.name_lists import is_background
from segpaste.datasets.formats.photo import upright_size
from segpaste.datasets.formats.photo_head import PhotoHead, expect_readable, num_frames, read_head
from segpaste.datasets.formats.pixel_bytes import (
    DepthFormat,
    geometry_files,
    has_fractions,
    num_too_far,
    picture_bytes,
)
from segpaste.datasets.formats.written.coco import CocoSegments, segments_of
from segpaste.datasets.formats.written.format import File, LabelForm, LabelledPhoto, Losses, WrittenFormat
from segpaste.datasets.formats.yolo.data import label_path
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import BOX_NUMBERS
from segpaste.types import DenseSample, SemanticMap


class Counts(NamedTuple):
    """Numbers of the things in an image: without segments of stuff.

    Attributes:
        objects: objects, without crowds.
        crowds: crowd and ignored regions.
    """

    objects: int
    crowds: int


@dataclass(frozen=True, slots=True)
class _Photo:
    """Image of a split: its index, its written name, its header, and whether it is encoded again."""

    index: int
    name: str
    head: PhotoHead
    is_drawn: bool

    @property
    def stem(self) -> str:
        """Written name without its suffix."""
        return PurePosixPath(self.name).with_suffix("").as_posix()


@dataclass(frozen=True, slots=True, eq=False)
class SplitConverter:
    """Converter of the images of one split.

    Attributes:
        photos: the split.
        name: its name in the written dataset.
        names: names of the images in the written dataset.
        to: the written format.
        form: form of its labels.
        labels: the class in ``form`` of each class of the split.
        depth_format: format of depth files.
        keeps_entries: True if the entries of the split are written unchanged.
        has_further_fields: True if samples have fields that are not in entries, such as depth.
    """

    photos: AnnotatedDataset
    name: str
    names: PhotoNames
    to: WrittenFormat
    form: LabelForm
    labels: Sequence[int]
    depth_format: DepthFormat
    keeps_entries: bool
    has_further_fields: bool
    _latest: dict[int, tuple[DenseSample, Sequence[Crowd]]] = field(default_factory=dict)

    @property
    def categories(self) -> list[JsonRow]:
        """Return the written entries of the classes; those of panoptic segments have ``isthing``."""
        rows = self.photos.categories
        if not isinstance(self.to, CocoSegments):
            return rows
        order = sorted(rows, key=lambda row: int(row["id"]))
        things = dict.fromkeys((row["id"] for row in order), self.photos.has_masks)
        if self.photos.has_semantic_maps and order and is_background(self.photos.class_names[0]):
            things[order[0]["id"]] = False
        if self.photos.schema is not None:
            kinds = self.photos.schema.classes
            things = {row["id"]: kinds[label] == "thing" for label, row in enumerate(order)}
        return [{"isthing": int(things[row["id"]]), **row} for row in rows]

    @property
    def keeps_annotation_ids(self) -> bool:
        """True if the entries of annotations have the ids that they had."""
        is_same = isinstance(self.to, CocoSegments) and isinstance(self.photos, CocoPanoptic)
        return is_same or (self.keeps_entries and self.to.of_entries)

    def read(self, index: int) -> tuple[DenseSample, Sequence[Crowd]]:
        """Return the sample of an image and its crowds; the latest ones are kept for the ledger."""
        if index not in self._latest:
            self._latest.clear()
            self._latest[index] = self.photos[index], self.photos.crowds(index)
        return self._latest[index]

    def convert(self, index: int, losses: Losses) -> tuple[SampleRows, list[File], Counts]:
        """Return the entries of an image, its files, and the numbers of its objects and crowds.

        Raises:
            DatasetError: the image or one of its annotations cannot be read, or the format cannot hold them.
        """
        head = read_head(self.photos.path_of(index))
        reason = self._reason_to_draw(index, head)
        if reason is not None:
            losses[f"files of images, which are encoded again as PNG: {reason}"] += 1
            if num := num_frames(self.photos.path_of(index)) - 1:
                losses["frames of images after the first"] += num
            return self._converted(_Photo(index, self.names.drawn[index], head, True), losses)
        losses["file names of images"] += int(self.names.is_changed[index])
        return self._converted(_Photo(index, self.names.copied[index], head, False), losses)

    def _converted(self, photo: _Photo, losses: Losses) -> tuple[SampleRows, list[File], Counts]:
        index = photo.index
        if self.keeps_entries and self.to.of_entries:
            size = self._size(index)
            kept = kept_entries(self.photos, index, size, with_iscrowd=self.to.has_iscrowd)
            image = image_entry(self.photos, index, photo.name, size)
            further = self._further_files(photo, self.read(index)[0], image, losses) if self.has_further_fields else []
            num_crowds = sum(bool(row.get("iscrowd") or row.get("ignore")) for row in kept)
            counts = Counts(len(kept) - num_crowds, num_crowds)
            return SampleRows(image, kept), [self._photo_file(photo), *further], counts
        if isinstance(self.to, CocoSegments) and isinstance(self.photos, CocoPanoptic):
            return self._same_segments(self.photos, photo)
        sample, crowds = self._labelled(self.read(index)[0]), self._labelled_crowds(index)
        files = [self._photo_file(photo)]
        image = image_entry(self.photos, index, photo.name, sample.canvas_size)
        files += self._further_files(photo, sample, image, losses)
        try:
            rows, labels = self._labels(photo, image, sample, crowds, losses)
        except ValueError as error:
            raise DatasetError(f"{self.photos.file_name(index)}: {error}") from error
        num_regions = sum(crowd.box is None for crowd in crowds)
        return rows, files + labels, Counts(sample.num_instances + len(crowds) - num_regions, num_regions)

    def _further_files(self, photo: _Photo, sample: DenseSample, image: JsonRow, losses: Losses) -> list[File]:
        """Return the files of depth, normals and the camera, and add the camera to the entry of the image."""
        if (camera := sample.camera_intrinsics) is not None:
            image["camera_intrinsics"] = {"fx": camera.fx, "fy": camera.fy, "cx": camera.cx, "cy": camera.cy}
        if sample.depth is not None and sample.depth_valid is not None and self.depth_format == "png":
            depth, valid = (value.as_subclass(Tensor)[0].numpy() for value in (sample.depth, sample.depth_valid))
            losses["depth below a millimetre, in images"] += int(has_fractions(depth, valid))
            losses["pixels of depth beyond 65.535 m, which are invalid in PNG"] += num_too_far(depth, valid)
        return self._geometry_files(photo, sample)

    def _geometry_files(self, photo: _Photo, sample: DenseSample) -> list[File]:
        below = f"{self.name}/" if self.name else ""
        return list(geometry_files(below + photo.stem, sample, self.depth_format))

    def _labels(
        self, photo: _Photo, image: JsonRow, sample: DenseSample, crowds: Sequence[Crowd], losses: Losses
    ) -> tuple[SampleRows, list[File]]:
        """Return the entries of an image and its label files, made from its sample."""
        index = photo.index
        if self.to.of_entries:
            by_label = sorted(self.categories, key=lambda row: int(row["id"]))
            return SampleRows(image, made_entries(self.photos, index, sample, by_label, crowds)), []
        own_rows = entries_of_instances(self.photos, index, sample)
        if isinstance(self.to, CocoSegments):
            by_label = sorted(self.categories, key=lambda row: int(row["id"]))
            with_entries = crowds_with_entries(self.photos, index, crowds)
            png, segments = segments_of(sample, by_label, own_rows, with_entries, losses)
            return SampleRows(image, [], segments), [(f"{self.to.maps_dir(self.name)}/{photo.stem}.png", png)]
        if isinstance(self.photos, YoloDataset) and self.to.name == "yolo" and self._keeps_labels(self.photos, index):
            path = label_path(Path(self.to.photos_dir(self.name), photo.name))
            return SampleRows(image, []), [(path.as_posix(), self.photos.label_text(index).encode())]
        by_id = {row["id"]: row for row in self.photos.annotation_rows(index) if "id" in row}
        regions = [(crowd, by_id.get(crowd.annotation_id, {})) for crowd in crowds]
        given = [shape.entry.get("bbox") for shape in given_shapes(self.photos, index, sample, own_rows)]
        labelled = LabelledPhoto(self.name, photo.name, image, sample, own_rows, regions, given_boxes=given)
        return SampleRows(image, []), list(self.to.label_files(labelled, self.form, losses))

    def _keeps_labels(self, photos: YoloDataset, index: int) -> bool:
        """Return whether the label file of an image is copied: if its rows are of the written task."""
        if self.form.task == "obb":
            return photos.is_oriented
        rows = map(str.split, photos.label_text(index).splitlines())
        is_converted = self.form.task == "detect" and any(len(words) not in (0, BOX_NUMBERS) for words in rows)
        return photos.task == self.form.task and not is_converted

    def _same_segments(self, photos: CocoPanoptic, photo: _Photo) -> tuple[SampleRows, list[File], Counts]:
        """Return the entries and map of a panoptic image unchanged; the map is named after the image."""
        index = photo.index
        row, size = photos.map_row(index), self._size(index)
        source = photos.panoptic_dir / row["file_name"]
        segments = photos.annotation_rows(index)
        map_name = f"{photo.stem}{source.suffix or '.png'}"
        image = image_entry(photos, index, photo.name, size)
        rows = SampleRows(image, [], segments, {**row, "file_name": map_name})
        png = (f"{CocoSegments().maps_dir(self.name)}/{map_name}", _bytes_of(source))
        further = [] if photos.beside is None else self._geometry_files(photo, self.read(index)[0])
        things = {category["id"] for category in photos.categories if category["isthing"]}
        num_crowds = sum(bool(segment.get("iscrowd")) for segment in segments)
        num_objects = sum(row["category_id"] in things and not row.get("iscrowd") for row in segments)
        return rows, [self._photo_file(photo), png, *further], Counts(num_objects, num_crowds)

    def _size(self, index: int) -> tuple[int, int]:
        row = self.photos.image_row(index)
        if isinstance(row.get("height"), int) and isinstance(row.get("width"), int):
            return row["height"], row["width"]
        return upright_size(self.photos.path_of(index))

    def _photo_file(self, photo: _Photo) -> File:
        """Return the file of the image: the same bytes, or its pixels as a PNG."""
        path = f"{self.to.photos_dir(self.name)}/{photo.name}"
        source, size = self.photos.photo_file(photo.index) or (self.photos.path_of(photo.index), None)
        expect_readable(source, photo.head, size)
        if photo.is_drawn:
            image = self.photos[photo.index].image
            return path, picture_bytes(image.as_subclass(Tensor).permute(1, 2, 0).numpy())
        return path, _bytes_of(source)

    def _reason_to_draw(self, index: int, head: PhotoHead) -> str | None:
        """Return why the image is encoded again: some readers would not read its file, or would turn its pixels."""
        if head.is_oriented:
            return "EXIF orientation"
        suffix = PurePosixPath(self.photos.file_name(index)).suffix
        return None if self.names.is_readable[index] else f"suffix {suffix or 'missing'}"

    def _labelled(self, sample: DenseSample) -> DenseSample:
        """Return a sample with the classes of ``form``; unchanged if the format has a list for each split."""
        if not self.to.one_class_list or list(self.labels) == list(range(len(self.labels))):
            return sample
        table = torch.tensor([*self.labels, *range(len(self.labels), 256)], dtype=torch.int64, device="cpu")
        semantic = sample.semantic_map
        if semantic is not None:
            semantic = SemanticMap(table[semantic.as_subclass(Tensor)])
        return replace(sample, labels=table[sample.labels], semantic_map=semantic)

    def _labelled_crowds(self, index: int) -> Sequence[Crowd]:
        crowds = self.read(index)[1]
        if not self.to.one_class_list:
            return crowds
        return [crowd._replace(label=self.labels[crowd.label]) for crowd in crowds]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None


def object_ids(rows: Iterator[SampleRows]) -> Iterator[SampleRows]:
    """Yield entries whose annotations have ids: their own, or the next free number in the order of the images."""
    number = 0
    for row in rows:
        annotations = []
        for annotation in row.annotations:
            number += 1
            annotations.append(annotation if "id" in annotation else {"id": number, **annotation})
        yield replace(row, annotations=annotations)
