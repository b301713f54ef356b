"""Steps of an augmented dataset: each makes some images, writes their files, then a note about them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.augmenting import report
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.pasting import Augmented, Origin, Paster
from segpaste.datasets.contract import AnnotatedDataset, Crowd, JsonRow
from segpaste.datasets.formats.carried import carried_annotations, carried_image
from segpaste.datasets.formats.coco_boxes import open_instances
from segpaste.datasets.formats.coco_folders import PANOPTIC_FILE
from segpaste.datasets.formats.coco_panoptic import CocoPanoptic
from segpaste.datasets.formats.coco_writer import Crowds, ImageFormat, SampleRows, Write
from segpaste.datasets.formats.format import NO_SPLIT
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.layouts import WrittenLayout
from segpaste.datasets.writers.annotations import open_split
from segpaste.datasets.writers.expected_maps import geometry_values, label_maps
from segpaste.datasets.writers.ledger import (
    ExpectedImage,
    View,
    checksum,
    extent_of,
    sample_regions,
    stem_of,
)
from segpaste.datasets.writers.readback import WrittenView, is_decoded
from segpaste.types import DenseSample
from segpaste.workspace import Content, Notes, WholeFiles

IMAGES_PER_STEP = 8

Item = dict[str, Any]
"""Entry of one image in the note of its step.

``rows`` of the tables, ``shown`` for the report, ``record``, ``files`` relative to the dataset, ``unreadable``: the
reasons why images could not be read, by index, and ``ledger``: what the image must hold when it is read again.
"""

_ENTRIES = frozenset({"rows", "shown", "record", "files", "ledger", "unreadable"})


@dataclass(frozen=True, slots=True, eq=False)
class StepMaker:
    """Maker of steps; it is pickled for workers.

    Attributes:
        paster: makes the images.
        layout: layout of the written dataset.
        image_format: format of the image files.
        num: total number of images.
        files: folder of the images.
        notes: notes of the finished steps.
        size: number of images of a step.
    """

    paster: Paster
    layout: WrittenLayout
    image_format: ImageFormat
    num: int
    files: Path
    notes: Notes
    size: int = IMAGES_PER_STEP

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return -(-self.num // self.size)

    def positions(self, step: int) -> range:
        """Return the positions of a step."""
        return range(step * self.size, min(self.num, (step + 1) * self.size))

    def is_done(self, step: int) -> bool:
        """Return whether a step is finished, with all entries; the last one may be finished for fewer images only."""
        if not self.notes.has(step):
            return False
        items = self.notes.read(step)
        return len(items) >= len(self.positions(step)) and all(item.keys() >= _ENTRIES for item in items)

    def missing(self, steps: range | None = None) -> list[int]:
        """Return the steps that are not finished."""
        return [step for step in (range(self.num_steps) if steps is None else steps) if not self.is_done(step)]

    def make(self, part: int) -> None:
        """Make a step: write the files of its images, then its note.

        Raises:
            ValueError: an image cannot be read, or lacks a modality that the configuration needs.
            OSError: a file cannot be written.
        """
        found = []
        with WholeFiles() as files:
            for position in self.positions(part):
                found.append(self.written(self.paster.image(position), files.write))
        self.notes.write(part, found)

    def items(self) -> Iterator[Item]:
        """Yield the entries of all images in order."""
        for step in range(self.num_steps):
            yield from self.notes.read(step)[: len(self.positions(step))]

    def expected(self) -> Iterator[ExpectedImage]:
        """Yield what the images must hold, in order."""
        return (ExpectedImage.of_note(item["ledger"]) for item in self.items())

    def written(self, augmented: Augmented, write: Write) -> Item:
        """Write the files of one image; return its entry for the tables and the report."""
        paster, pick = self.paster, augmented.pick
        photos = paster.inputs.photos
        name, image_id = photos.file_name(pick.index), photos.image_id(pick.index)
        made_of = {"source_image_id": image_id, "source_file_name": name}
        made_of |= {"epoch": pick.key.epoch, "position": pick.position, "seed": pick.key.seed}
        written: dict[str, Content] = {}

        def note(path: Path, content: Content) -> Path:
            written[path.relative_to(self.files).as_posix()] = content
            return write(path, content)

        carried = _carried(photos, {pick.index, *(o.index for o in augmented.origins if o.index is not None)})
        provenance = [_provenance(origin, pick.key.seed) for origin in augmented.origins]
        kept = [carried.get((origin.index, origin.annotation_id), {}) for origin in augmented.origins]
        crowds = [
            (crowd, {"pasted": False, "source_image_id": image_id, "source_annotation_id": crowd.annotation_id})
            for crowd in paster.reader.crowds(pick)
        ]
        of_crowds = [carried.get((pick.index, crowd.annotation_id), {}) for crowd, _ in crowds]
        shapes = paster.reader.kept_shapes(augmented.target, augmented.after, self.layout)
        rows = self.layout.write(
            self.files,
            pick.position + 1,
            augmented.after,
            paster.inputs.by_label,
            image_format=self.image_format,
            write=note,
            provenance=provenance,
            carried=kept,
            kept=shapes,
            crowds=[(crowd, {**row, "carried": keys}) for (crowd, row), keys in zip(crowds, of_crowds, strict=True)],
            image_extra={
                **carried_image(photos, pick.index),
                **_federated(paster.inputs, augmented),
                "segpaste": made_of,
            },
        )
        expected = AugmentedLedger(paster.inputs, self.layout).expect(
            augmented.after,
            [(crowd, keys_of(row, keys)) for (crowd, row), keys in zip(crowds, of_crowds, strict=True)],
            [keys_of(row, keys) for row, keys in zip(provenance, kept, strict=True)],
            rows,
            written,
            shapes,
        )
        file_name = rows.image["file_name"]
        return {
            "rows": rows.as_note(),
            "shown": report.describe(augmented, paster.inputs, f"{file_name}: {name}"),
            "record": augmented.record.model_copy(update={"name": file_name}).to_json(),
            "files": [*written],
            "ledger": expected.as_note(),
            "unreadable": {str(index): reason for index, reason in paster.unreadable.items()},
        }


def _carried(photos: AnnotatedDataset, indices: Iterable[int]) -> dict[tuple[int | None, int | None], JsonRow]:
    """Return the keys that objects keep from the entries of their images, by image and annotation."""
    return {(i, row_id): keys for i in indices for row_id, keys in carried_annotations(photos, i).items() if keys}


def _federated(inputs: Inputs, augmented: Augmented) -> dict[str, Any]:
    """Return the lists of LVIS that hold for the augmented image; empty for a dataset without them."""
    lists = inputs.photos.federated(augmented.pick.index)
    if lists is None:
        return {}
    pasted: set[int] = set()
    along: set[int] = set()
    for label, origin in zip(augmented.after.labels.tolist(), augmented.origins, strict=True):
        if origin.paste is None:
            continue
        pasted.add(label)
        along |= origin.over
        if origin.index is not None and (theirs := inputs.photos.federated(origin.index)) is not None:
            along |= set(theirs.not_exhaustive) - {label}  # unmarked objects may be in it, too
    lists = lists.with_pasted(pasted, along)
    ids = [row["id"] for row in inputs.by_label]
    return {
        "neg_category_ids": [ids[label] for label in lists.negative],
        "not_exhaustive_category_ids": [ids[label] for label in lists.not_exhaustive],
    }


def _provenance(origin: Origin, seed: int) -> dict[str, Any]:
    """Return the provenance of an object as a row."""
    row: dict[str, Any] = {
        "pasted": origin.paste is not None,
        "source_image_id": origin.image_id,
        "source_annotation_id": origin.annotation_id,
    }
    if (paste := origin.paste) is not None:
        scale = list(zip(paste.scale_num, paste.scale_den, strict=True))
        row |= {} if paste.crop is None else {"source_crop": paste.crop}
        if origin.window is not None:
            top, left, height, width = origin.window
            row["source_window"] = [left, top, width, height]
        if origin.crop_window is not None:
            row["source_crop_window"] = [int(edge) if edge == int(edge) else edge for edge in origin.crop_window]
            row |= {} if origin.crop_scale == 1 else {"source_crop_scale": origin.crop_scale}
        row |= {"scale": [f"{num}/{den}" for num, den in scale], "scale_float": [num / den for num, den in scale]}
        row |= {"translate": list(paste.translate), "hflip": paste.hflip, "layer": paste.layer, "seed": seed}
    return row


_TABLES_ONLY = ("coco", "coco-panoptic", "roboflow")


@dataclass(frozen=True, slots=True)
class AugmentedLedger:
    """Maker of the facts of augmented images, and of the views as which they are read again.

    Attributes:
        inputs: the dataset that is augmented.
        layout: layout of the written dataset.
    """

    inputs: Inputs
    layout: WrittenLayout

    def expect(
        self,
        sample: DenseSample,
        crowds: Crowds,
        origins: Sequence[JsonRow],
        rows: SampleRows,
        files: Mapping[str, Content],
        kept: Sequence[KeptShape] = (),
    ) -> ExpectedImage:
        """Return what an augmented image must hold.

        Args:
            sample: the image.
            crowds: crowd and ignored regions before the paste, each with its further keys.
            origins: further keys of each instance.
            rows: its written entries.
            files: contents of its written files.
            kept: the given numbers of each instance.

        Raises:
            KeyError: its image is not among them.
        """
        name, number = str(rows.image["file_name"]), int(rows.image["id"]) - 1
        path = f"{self.layout.images}/{name}"
        image = files[path]
        assert isinstance(image, bytes)
        expected = ExpectedImage(path, sample.canvas_size, len(image), zlib.crc32(image))
        if path.endswith(".png") and is_decoded(number):
            expected.pixels = checksum(sample.image.as_subclass(Tensor).permute(1, 2, 0).numpy())
        expected.values = geometry_values(stem_of(name), sample)
        left = _left(sample, crowds)
        regions, keys = [crowd for crowd, _ in left], [row for _, row in left]
        for view in self._views(sample.semantic_map is not None, sample.panoptic_map is not None):
            maps = label_maps(view, stem_of(name), sample, regions)
            found = list(maps.regions) or sample_regions(view, sample, regions, origins, keys, kept)
            expected.views[view.format] = found
            expected.values |= {file: checksum(values) for file, values in maps.files.items()}
            expected.seen = maps.seen or expected.seen
            if maps.segments is not None:
                expected.segments = checksum(maps.segments)
        return expected

    def written_views(self, folder: Path, images: Callable[[], Iterable[ExpectedImage]]) -> Iterator[WrittenView]:
        """Yield the views of a written dataset, for the comparison."""
        of_images, file = folder / self.layout.images, folder / PANOPTIC_FILE
        for view in self._views(self.inputs.has_semantic_maps, file.is_file()):
            open_view: Callable[[], AnnotatedDataset] = partial(open_split, folder, view)
            if view.format == "coco":
                open_view = partial(open_instances, of_images, folder / self.layout.tables, None)
            elif view.format == "coco-panoptic":
                open_view = partial(CocoPanoptic, of_images, file, file.with_suffix(""))
            yield WrittenView(view, open_view, images)

    def _views(self, has_maps: bool, is_panoptic: bool) -> Iterator[View]:
        """Yield the formats as which a sample is read again: the label files of the layout, and COCO's tables."""
        by_label, layout = self.inputs.by_label, self.layout
        names = tuple(str(row["name"]) for row in by_label)
        with_points = frozenset(label for label, row in enumerate(by_label) if row.get("keypoints"))
        stuff = frozenset(label for label, row in enumerate(by_label) if not row.get("isthing", 1))
        facts = layout.task, layout.point_size, with_points, has_maps, stuff
        if layout.name not in _TABLES_ONLY:
            yield View(layout.name, layout.split, names, *facts)
        yield View("coco", NO_SPLIT, names, *facts)
        if is_panoptic:
            yield View("coco-panoptic", NO_SPLIT, names, *facts)


def _left(sample: DenseSample, crowds: Crowds) -> Crowds:
    """Return the visible regions; `segpaste.datasets.formats.coco_writer` says which ones are written."""
    if sample.crowd_mask is None:
        return []
    seen = sample.crowd_mask.as_subclass(Tensor)[0].numpy()
    cut = [(_cut(crowd, seen), row) for crowd, row in crowds]
    return [(crowd, row) for crowd, row in cut if crowd.mask.any()]


def _cut(crowd: Crowd, seen: NDArray[np.bool_]) -> Crowd:
    """Return the visible part of a region, or of an object without a mask, whose box is cut if pixels are hidden."""
    mask = crowd.mask & seen
    if crowd.box is None or np.array_equal(mask, crowd.mask):
        return crowd._replace(mask=mask)
    x, y, width, height = extent_of(mask)
    x1, y1, x2, y2 = crowd.box
    return crowd._replace(mask=mask, box=(max(x1, x), max(y1, y), min(x2, x + width), min(y2, y + height)))


def keys_of(provenance: Mapping[str, object], carried: Mapping[str, object] | None) -> JsonRow:
    """Return the further keys of a row of an augmented dataset."""
    return {**(carried or {}), "segpaste": provenance}
