"""Facts of the images of a conversion for the ledger: from what was read, and which files are unchanged copies."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from segpaste.datasets.contract import Crowd
from segpaste.datasets.conversion.entries import entries_of_instances, given_shapes
from segpaste.datasets.conversion.given import given_losses, of_entries, of_rows, panoptic_keys
from segpaste.datasets.conversion.photos import SplitConverter
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.coco_writer import SampleRows
from segpaste.datasets.formats.instances import InstancePhotos
from segpaste.datasets.formats.photo_head import read_head
from segpaste.datasets.formats.written.coco import CocoSegments
from segpaste.datasets.formats.written.format import File, Losses
from segpaste.datasets.formats.yolo.data import label_path
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.expected_maps import (
    Maps,
    covered_regions,
    geometry_values,
    label_maps,
    semantic_losses,
)
from segpaste.datasets.writers.ledger import (
    ExpectedImage,
    Region,
    View,
    checksum,
    digest,
    entry_regions,
    sample_regions,
    stem_of,
    unnamed_losses,
)
from segpaste.types import DenseSample, SemanticMap


def view_of(converter: SplitConverter) -> View:
    """Return the format and the classes of a written split."""
    to, form = converter.to, converter.form
    names = form.class_names if to.one_class_list else converter.photos.class_names
    by_label = sorted(converter.categories, key=lambda row: int(row["id"]))
    return View(
        to.name,
        converter.name,
        tuple(names),
        form.task,
        form.point_size,
        frozenset(label for label, row in enumerate(by_label) if row.get("keypoints")),
        form.has_semantic_maps,
        frozenset(label for label, row in enumerate(by_label) if not row.get("isthing", 1)),
    )


class SplitLedger:
    """Maker of the facts of the images of one split.

    Args:
        converter: its converter.

    Attributes:
        view: format and classes of the written split.
    """

    def __init__(self, converter: SplitConverter) -> None:
        self._converter, self._photos, self.view = converter, converter.photos, view_of(converter)
        ids = sorted(int(row["id"]) for row in converter.photos.categories)
        self._label_of = {number: label for label, number in enumerate(ids)}
        self._labels = list(converter.labels) if converter.to.one_class_list else list(range(len(ids)))

    def expect(self, index: int, rows: SampleRows, files: Sequence[File], told: Losses) -> ExpectedImage:
        """Return what an image must hold in the written dataset.

        Args:
            index: index of the image.
            rows: its written entries.
            files: its written files.
            told: its losses; those that the writer did not name are added.
        """
        converter, photos, written = self._converter, self._photos, str(rows.image["file_name"])
        path, contents = f"{converter.to.photos_dir(converter.name)}/{written}", dict(files)
        file = photos.path_of(index)
        content, source = contents.get(path, b""), file.read_bytes()
        assert isinstance(content, bytes)
        size = (int(rows.image["height"]), int(rows.image["width"]))
        is_drawn = content != source and (read_head(file).is_oriented or file.suffix != Path(written).suffix)
        encoded = content if is_drawn else source
        expected = ExpectedImage(path, size, len(encoded), zlib.crc32(encoded))
        if is_drawn:
            expected.pixels = checksum(converter.read(index)[0].image.as_subclass(Tensor).permute(1, 2, 0).numpy())
        stem = "/".join(filter(None, [converter.name, stem_of(written)]))
        if converter.keeps_entries and converter.to.of_entries:
            regions = entry_regions(photos.annotation_rows(index), self._label_of, size)
            is_held = converter.to.name != "lvis"
            expected.views[self.view.format] = [region for region in regions if is_held or region.kind != "region"]
            if converter.has_further_fields:
                told.update(semantic_losses(self.view, *converter.read(index), Maps(None)))
                expected.values = geometry_values(stem, converter.read(index)[0], converter.depth_format)
        elif self.view.format == "coco-panoptic" and isinstance(photos, CocoPanoptic):
            self._add_same_segments(photos, index, expected, (rows, stem))
        else:
            self._add_sample(index, expected, (written, stem), contents, told)
        told.update(photos.unread(index))
        return expected

    def _add_same_segments(
        self, photos: CocoPanoptic, index: int, expected: ExpectedImage, named: tuple[SampleRows, str]
    ) -> None:
        """Add the unchanged segments of a panoptic image, whose map is named after the written image."""
        (rows, stem), row, folder = named, photos.map_row(index), CocoSegments().maps_dir(self._converter.name)
        segments = photos.annotation_rows(index)
        expected.views["coco-panoptic"] = [
            Region(self._label_of[segment["category_id"]], "entry", keys=digest(segment)) for segment in segments
        ]
        written = row if rows.map is None else rows.map
        content = (photos.panoptic_dir / row["file_name"]).read_bytes()
        expected.copies[f"{folder}/{written['file_name']}"] = zlib.crc32(content)
        if photos.beside is not None:
            expected.values |= geometry_values(stem, self._converter.read(index)[0], self._converter.depth_format)

    def _add_sample(
        self, index: int, expected: ExpectedImage, named: tuple[str, str], contents: Mapping[str, Any], told: Losses
    ) -> None:
        """Add the annotations of a sample."""
        converter, photos, view, (written, stem) = self._converter, self._photos, self.view, named
        sample, crowds = self._relabelled(*converter.read(index))
        maps = label_maps(view, stem_of(written), sample, crowds)
        expected.seen = maps.seen
        expected.segments = None if maps.segments is None else checksum(maps.segments)
        expected.values = {path: checksum(values) for path, values in maps.files.items()}
        expected.values |= geometry_values(stem, sample, converter.depth_format)
        by_id = {row["id"]: row for row in photos.annotation_rows(index) if "id" in row}
        crowd_rows = [by_id.get(crowd.annotation_id, {}) for crowd in crowds]
        if (rows := self._same_lines(index, written, contents)) is not None:
            expected.views["yolo"] = [Region(int(float(row[0])), "line", keys=digest(row)) for row in rows]
            return
        if isinstance(photos, CocoPanoptic):
            told.update(panoptic_keys(photos, index, crowds))
        if isinstance(photos, YoloDataset):
            told.update({"rows equal to another of their label file": photos.num_equal(index)})
            told.update({"outlines and keypoints of label rows, read as boxes": photos.num_reduced(index)})
        own = entries_of_instances(photos, index, sample)
        is_boxed = sample.instance_masks is None or view.format == "voc"
        shapes = given_shapes(photos, index, sample, own) if is_boxed else ()
        regions = list(maps.regions) or sample_regions(view, sample, crowds, own, crowd_rows, shapes)
        expected.views[view.format] = regions
        num_empty = photos.left_out(index).get("empty", 0)
        if isinstance(photos, InstancePhotos):
            num_empty = len(by_id.keys() - {*photos.annotation_ids(index), *(c.annotation_id for c in crowds)})
        told.update({"annotations without a pixel": num_empty})
        told.update(covered_regions(maps, crowds))
        told.update(semantic_losses(view, sample, crowds, maps))
        told.update(unnamed_losses(view, sample, crowds, maps.seen, told))
        given = of_rows(photos, index, expected.size) if isinstance(photos, YoloDataset) else of_entries(own)
        pairs = list(zip(crowds, of_entries(crowd_rows), strict=True))
        boxes = None if sample.instance_masks is None else sample.boxes.as_subclass(Tensor).tolist()
        told.update(given_losses(view, expected.size, boxes, given, pairs, told))

    def _same_lines(self, index: int, written: str, contents: Mapping[str, Any]) -> list[list[str]] | None:
        """Return the words of the lines of a label file of YOLO that is copied; None if it is not."""
        photos, folder = self._photos, self._converter.to.photos_dir(self._converter.name)
        if not isinstance(photos, YoloDataset) or self.view.format != "yolo":
            return None
        text = photos.label_text(index)
        if contents.get(label_path(Path(folder, written)).as_posix()) != text.encode() or self._is_relabelled:
            return None
        return [line.split() for line in text.splitlines() if line.strip()]

    @property
    def _is_relabelled(self) -> bool:
        return self._labels != list(range(len(self._labels)))

    def _relabelled(self, sample: DenseSample, crowds: Sequence[Crowd]) -> tuple[DenseSample, Sequence[Crowd]]:
        """Return a sample and its crowds with the classes of the written dataset."""
        if not self._is_relabelled:
            return sample, crowds
        table = torch.tensor([*self._labels, *range(len(self._labels), 256)], dtype=torch.int64, device="cpu")
        semantic = sample.semantic_map
        semantic = None if semantic is None else SemanticMap(table[semantic.as_subclass(Tensor)])
        sample = replace(sample, labels=table[sample.labels], semantic_map=semantic)
        return sample, [crowd._replace(label=self._labels[crowd.label]) for crowd in crowds]
