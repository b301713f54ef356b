"""Steps of an augmented dataset: each makes some images, writes their files, then a note about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from segpaste.augmenting import report
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.layouts import writer_of
from segpaste.augmenting.pasting import Augmented, Origin, Paster
from segpaste.augmenting.photos import OVERWRITTEN, Photo, PhotoPick, PhotoReader
from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.for_tool import minds, regions_for_tool, rows_for_tool
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import carried_annotations, carried_image
from segpaste.datasets.formats.geometry_keys import CAMERA_KEY, without_geometry
from segpaste.datasets.formats.image_files import is_jpeg, read_head
from segpaste.datasets.formats.kept_shapes import placed_keys, placed_rows
from segpaste.datasets.formats.pixel_bytes import ImageFormat
from segpaste.datasets.formats.references import OWN_KEY
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES
from segpaste.datasets.writers.coco import Crowds
from segpaste.datasets.writers.dataset_writer import DatasetWriter, Write, crowds_left, is_seen
from segpaste.datasets.writers.format import LabelledImage
from segpaste.datasets.writers.layouts import WrittenLayout, made_entry
from segpaste.datasets.writers.ledger import ExpectedImage
from segpaste.datasets.writers.readback import is_decoded
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample
from segpaste.workspace import Notes, WholeFiles

IMAGES_PER_STEP = 8

Item = dict[str, Any]
"""Entry of one image in the note of its step.

``rows`` of the tables, ``shown`` for the report, ``record``, ``files`` relative to the dataset, ``unreadable``: the
reasons why images could not be read, by index, ``ledger``: what the image must hold when it is read again, and
``losses``: what no file of the layout holds. ``shown`` and ``record`` of an original are null.
"""

_ENTRIES = frozenset({"rows", "shown", "record", "files", "ledger", "unreadable"})


Carried = Mapping[tuple[int | None, int | None], JsonRow]
"""Keys that objects keep from the entries of their images, by index of the image and id of the annotation."""


@dataclass(frozen=True, slots=True, eq=False)
class StepMaker:
    """Maker of steps; it is pickled for workers.

    Attributes:
        paster: makes the images.
        layout: layout of the written dataset.
        image_format: format of the image files; ``same`` for that of the images that are read.
        num: total number of images.
        files: folder of the images.
        notes: notes of the finished steps.
        size: number of images of a step.
        tool: tool for which the dataset is written; crowd regions that it takes for objects are left out.
        originals: indices of the images of the dataset that are kept as they are, after the augmented ones.
    """

    paster: Paster
    layout: WrittenLayout
    image_format: ImageFormat | Literal["same"]
    num: int
    files: Path
    notes: Notes
    size: int = IMAGES_PER_STEP
    tool: Tool | None = None
    originals: Sequence[int] = ()

    @property
    def num_files(self) -> int:
        """Number of augmented images and originals."""
        return self.num + len(self.originals)

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return -(-self.num_files // self.size)

    def positions(self, step: int) -> range:
        """Return the positions of a step; those from ``num`` on are originals."""
        return range(step * self.size, min(self.num_files, (step + 1) * self.size))

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
            writer = self.writer()
            for position in self.positions(part):
                if position < self.num:
                    found.append(self.written(self.paster.image(position), files.write, writer))
                else:
                    found.append(self.kept(position, files.write, writer))
        self.notes.write(part, found)

    def items(self) -> Iterator[Item]:
        """Yield the entries of all images in order."""
        for step in range(self.num_steps):
            yield from self.notes.read(step)[: len(self.positions(step))]

    def expected(self) -> Iterator[ExpectedImage]:
        """Yield what the images must hold, in order."""
        return (ExpectedImage.of_note(item["ledger"]) for item in self.items())

    def writer(self) -> DatasetWriter:
        """Return the writer of the dataset."""
        return writer_of(self.files, self.paster.inputs, self.layout)

    def written(self, augmented: Augmented, write: Write, writer: DatasetWriter) -> Item:
        """Write the files of one image; return its entry for the tables and the report."""
        paster, pick = self.paster, augmented.pick
        photos = paster.inputs.photos
        name, image_id = photos.file_name(pick.index), photos.image_id(pick.index)
        made_of = {"source_image_id": image_id, "source_file_name": name}
        made_of |= {"epoch": pick.key.epoch, "position": pick.position, "seed": pick.key.seed}
        lost = paster.reader.lost(pick, self.layout)
        carried = carried_of(photos, {pick.index, *(o.index for o in augmented.origins if o.index is not None)})
        image = made_image(
            paster.reader,
            augmented.target,
            augmented.after,
            [
                keys_of(_provenance(o, pick.key.seed), carried, (o.index, o.image_id, o.annotation_id), lost)
                for o in augmented.origins
            ],
            self.layout,
            self._suffix(pick.index),
            lost,
            {**_federated(paster.inputs, pick.index, augmented), "segpaste": made_of},
            {"pasted": False, "source_image_id": image_id},
        )
        left = crowds_left(augmented.after, image.crowds)
        image, left = self._for_tool(image, left, lost)
        note = writer.add(image, write)
        regions = [crowd for crowd, _ in image.crowds], [crowd for crowd, _ in left]
        shown = report.describe(augmented, paster.inputs, f"{image.file_name}: {name}")
        return {
            "rows": rows_for_tool(self.tool, note["rows"]),
            "shown": report.with_crowds(shown, paster.inputs.class_names, *regions),
            "record": augmented.record.model_copy(update={"name": image.file_name}).to_json(),
            "files": note["files"],
            "ledger": note["ledger"],
            "losses": note["losses"] + lost,
            "unreadable": {str(index): reason for index, reason in paster.unreadable.items()},
        }

    def kept(self, position: int, write: Write, writer: DatasetWriter) -> Item:
        """Write an image of the dataset with its annotations as they are; return its entry for the tables."""
        lost, index = Counter[str](), self.originals[position - self.num]
        image = original_image(self.paster.inputs, index, position, self.layout, lost)
        image, _ = self._for_tool(image, image.crowds, lost)
        note = writer.add(image, write)
        return {**note, "shown": None, "record": None, "losses": note["losses"] + lost, "unreadable": {}}

    def _for_tool(self, image: LabelledImage, left: Crowds, lost: Counter[str]) -> tuple[LabelledImage, Crowds]:
        """Return an image and its visible regions without those that the tool takes for objects, which are counted."""
        if not minds(self.tool, "crowd"):
            return image, left
        left = regions_for_tool(self.tool, left, lost)
        return replace(image, crowds=regions_for_tool(self.tool, image.crowds, Counter())), left

    def _suffix(self, index: int) -> str:
        """Return the suffix of the file that is made of an image of the dataset."""
        if self.image_format != "same":
            return self.image_format
        found = self.paster.inputs.photos.photo_file(index)
        return "jpg" if found is not None and is_jpeg(found[0]) else "png"


def made_image(
    reader: PhotoReader,
    target: Photo,
    after: DenseSample,
    rows: list[JsonRow],
    layout: WrittenLayout,
    suffix: str,
    lost: Counter[str],
    further: JsonRow | None = None,
    of_crowd: JsonRow | None = None,
) -> LabelledImage:
    """Return an augmented image with its annotations, named after its position.

    Args:
        reader: reader of the dataset.
        target: the image before the paste.
        after: the augmented image.
        rows: further keys of the row of each object.
        layout: layout of the written dataset.
        suffix: ``png`` or ``jpg``.
        lost: overwritten keys of its crowd regions, and keys that do not hold any more, are counted.
        further: further keys of its entry, beside those of the dataset.
        of_crowd: provenance of its crowd regions without their ids; None for rows without provenance.
    """
    pick, photos = target.pick, reader.photos
    own, image_id = carried_of(photos, [pick.index]), photos.image_id(pick.index)
    crowds = []
    for crowd in reader.crowds(pick):
        said = {**of_crowd, "source_annotation_id": crowd.annotation_id} if of_crowd else {}
        row = keys_of(said, own, (pick.index, image_id, crowd.annotation_id), lost)
        is_own = reader.jitter is None and is_seen(crowd, after)
        crowds.append((crowd, placed_keys(row, lost, is_own=is_own, in_sample=False)))
    of_image = carried_image(photos, pick.index)
    if after.camera_intrinsics is not None:
        of_image.pop(CAMERA_KEY, None)  # that of the sample moved with it
    if reader.jitter is not None:
        of_image = without_geometry(of_image, "images", lost)
    entry = made_entry(pick.position + 1, after, suffix, {**of_image, **(further or {})})
    shapes, void = reader.kept_shapes(target, after, layout), reader.void(pick)
    rows = placed_rows(photos, after, rows, shapes, lost)
    lost[OTHER_BOXES] = max(lost[OTHER_BOXES], reader.num_other_boxes(target))
    is_compared = is_decoded(pick.position)
    return LabelledImage(entry["file_name"], entry, after, rows, crowds, shapes, void=void, is_compared=is_compared)


def original_image(
    inputs: Inputs, index: int, position: int, layout: WrittenLayout, lost: Counter[str]
) -> LabelledImage:
    """Return an image of the dataset with its annotations, named after its position; its file is copied.

    Args:
        inputs: the dataset.
        index: index of the image.
        position: its position in the new dataset, from 0.
        layout: layout of the written dataset.
        lost: what is not written, or not as it was, is counted.
    """
    photos, reader = inputs.photos, PhotoReader(inputs.photos)
    photo, image_id = reader.read(PhotoPick(SampleKey(0, 0, 0, 0, position), index)), photos.image_id(index)
    made_of = {"original": True, "source_image_id": image_id, "source_file_name": photos.file_name(index)}
    origin = {"pasted": False, "source_image_id": image_id}
    carried = carried_of(photos, [index])
    lost += reader.lost(photo.pick, layout)
    source, suffix = _kept_file(photos, index, layout, lost)
    rows = [
        keys_of({**origin, "source_annotation_id": number}, carried, (index, image_id, number), lost)
        for number in photo.annotation_ids
    ]
    further = {**_federated(inputs, index), OWN_KEY: made_of}
    image = made_image(reader, photo, photo.sample, rows, layout, suffix, lost, further, origin)
    return replace(image, source=source)


def carried_of(photos: AnnotatedDataset, indices: Iterable[int]) -> Carried:
    """Return the keys that objects keep from the entries of their images, by image and annotation."""
    return {(i, row_id): keys for i in indices for row_id, keys in carried_annotations(photos, i).items()}


def keys_of(
    provenance: Mapping[str, object],
    carried: Carried,
    origin: tuple[int | None, int | None, int | None],
    lost: Counter[str],
) -> JsonRow:
    """Return the further keys of a row of an augmented dataset, with the ids of its original if this has an entry.

    Args:
        provenance: what this package says of it; empty for a row without the key.
        carried: the keys that objects keep, by image and annotation.
        origin: index of its image in the dataset, id of that image, and id of the annotation.
        lost: an overwritten key is counted.
    """
    index, image_id, annotation_id = origin
    said: JsonRow = {OWN_KEY: provenance} if provenance else {}
    if (keys := carried.get((index, annotation_id))) is None:
        return said
    lost[OVERWRITTEN.format("annotations")] += bool(keys.get(OWN_KEY))
    others = {key: value for key, value in keys.items() if key != OWN_KEY}
    return {**others, **said, "id": annotation_id, "image_id": image_id}


def _kept_file(
    photos: AnnotatedDataset, index: int, layout: WrittenLayout, lost: Counter[str]
) -> tuple[Path | None, str]:
    """Return the file of an image that is copied, and its suffix; None if it is encoded as PNG, which is counted."""
    if (found := photos.photo_file(index)) is None:
        return None, "png"
    path, suffixes = found[0], layout.format.suffixes
    suffix = "jpg" if is_jpeg(path) else path.suffix[1:].lower()
    reason = "EXIF orientation" if read_head(path).is_oriented else ""
    if not reason and (not suffix or (suffixes is not None and f".{suffix}" not in suffixes)):
        reason = f"suffix {path.suffix or 'missing'}"
    if not reason:
        return path, suffix
    lost[f"files of images, which are encoded again as PNG: {reason}"] += 1
    return None, "png"


def _federated(inputs: Inputs, index: int, augmented: Augmented | None = None) -> dict[str, Any]:
    """Return the lists of LVIS that hold for an image, or for what was made of it; empty for a dataset without them."""
    lists = inputs.photos.federated(index)
    if lists is None:
        return {}
    pasted: set[int] = set()
    along: set[int] = set()
    labels = [] if augmented is None else augmented.after.labels.tolist()
    for label, origin in zip(labels, () if augmented is None else augmented.origins, strict=True):
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
        row |= {name: True for name in ("vflip", "swap_axes") if getattr(paste, name)}
    return row
