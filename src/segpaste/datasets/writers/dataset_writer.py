"""Writer of datasets in any written format, for `augment`, `convert`, `replay` and `tune`.

An image with its annotations is added once. The writer makes its files and rows in each of its formats, and the ledger
of what they must hold; see `segpaste.datasets.writers.format` for a format, which is one class in one file.
`finish` writes what follows all images, `DatasetWriter.views` says how the dataset is read again.

A file gets its name only when it is complete and on the disk. The same image gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS, finite_row
from segpaste.datasets.formats.coco.folders import COCO_FILE
from segpaste.datasets.formats.pixel_bytes import DepthFormat, geometry_files, has_fractions, num_too_far, picture_bytes
from segpaste.datasets.formats.references import IMAGE_KINDS, KINDS, OWN_KEY, refers, without_references
from segpaste.datasets.writers.coco import Crowds, tight_xywh
from segpaste.datasets.writers.counterparts import numbered
from segpaste.datasets.writers.expectation import as_labelled, expect_labels, geometry_values
from segpaste.datasets.writers.format import (
    OF_OBJECTS,
    LabelledImage,
    Losses,
    SampleRows,
    View,
    WrittenFormat,
    WrittenSplit,
    copied_bytes,
)
from segpaste.datasets.writers.ledger import ExpectedImage, byte_sum, checksum
from segpaste.datasets.writers.readback import WrittenView
from segpaste.types import DenseSample, SemanticMap
from segpaste.workspace import Content, write_whole

UNREAD_DEPTH = "depth maps as PNG, which segpaste reads only in label-maps or by a declaration"
_OWN = REGION_KEYS | POINT_KEYS
Write = Callable[[Path, Content], Path]
"""Function that writes the content of a file: `segpaste.workspace.WholeFiles.write` for many images at once."""


class Part(NamedTuple):
    """One of the formats in which a split is written.

    Attributes:
        format: the format.
        view: its name, and the classes.
        open: opens the written split as this format.
        table: its table, relative to the dataset's folder, if only images with a panoptic map are written in it; empty
            if all images are.
    """

    format: WrittenFormat
    view: View
    open: Callable[[], AnnotatedDataset]
    table: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class DatasetWriter:
    """Writer of one split of a dataset.

    Attributes:
        folder: the dataset's folder.
        parts: the formats in which it is written. Images, depth, normals and cameras are the same files in all.
        images: the folder of the images, relative to ``folder``.
        beside: the folder of the split below those of depth, normals and cameras; empty without.
        labels: the class in the parts of each class of the samples; empty if they are the same.
        depth_format: format of depth files.
        hides: True if pastes may hide parts of the given crowds, of which the visible parts are written.
        resolves: True if entries keep ids of originals until `segpaste.datasets.writers.counterparts` replaces them.
    """

    folder: Path
    parts: Sequence[Part]
    images: str
    beside: str = ""
    labels: Sequence[int] = ()
    depth_format: DepthFormat = "npy"
    hides: bool = False
    resolves: bool = False

    def add(self, image: LabelledImage, write: Write = write_whole) -> JsonRow:
        """Write the files of an image; return what a note of the step keeps of it.

        These are ``rows``, its `SampleRows`; ``ledger``, the `ExpectedImage`; ``losses``, what none of the formats
        holds, or only the tables of COCO; and ``files``, relative to the dataset's folder.

        Raises:
            ValueError: a format cannot hold the image.
            OSError: a file cannot be written.
        """
        losses = self._lost_depth(image.sample)
        image = _as_json(image, losses)
        files: dict[str, Content] = {f"{self.images}/{image.file_name}": _content(image)}
        if image.sample is not None:
            files |= geometry_files(self.stem(image), image.sample, self.depth_format)
        shown, rows, has_entries = self._shown(image), SampleRows(image.entry, []), False
        parts = [part for part in self.parts if not part.table or image.labelled.panoptic_map is not None]
        lost = [Losses() for _ in parts]
        for part, told in zip(parts, lost, strict=True):
            if part.format.of_entries and has_entries:
                continue  # they are the same in all formats
            found, labels = part.format.labels(self._held(shown, part, told), part.view, told)
            files |= dict(labels)
            if part.format.keeps_extra_keys:
                rows = replace(rows, image=found.image)
            if part.format.of_entries:
                has_entries, rows = True, replace(rows, annotations=found.annotations)
            if found.segments is not None:
                rows = replace(rows, segments=found.segments, map=found.map)
        for path, content in files.items():
            write(self.folder / path, content)
        rows = replace(rows, refers=self.resolves and _refers(image))
        expected = self._expected(image, files, parts, lost)
        losses += reduce(and_, lost) + _in_tables_only([part.view for part in parts], lost)
        return {"rows": rows.as_note(), "ledger": expected.as_note(), "losses": losses, "files": [*files]}

    def stem(self, image: LabelledImage) -> str:
        """Return the name of the files of depth, normals and the camera of an image, without suffix."""
        return "/".join(filter(None, [self.beside, image.stem]))

    def views(
        self,
        images: Callable[[], Iterable[ExpectedImage]],
        tables: JsonRow | None = None,
        copied: Sequence[str] | None = None,
    ) -> Iterator[WrittenView]:
        """Yield how the written split is read again, for `segpaste.datasets.writers.readback.read_back`.

        Args:
            images: returns the facts of its images, in the order of writing.
            tables: the other tables, in formats that hold them; None if they are not compared.
            copied: names of the splits that are copied beside a split to train on; None if all splits are written.
        """
        for part in self.parts:
            if not part.table or (self.folder / part.table).is_file():
                kept = tables if part.format.keeps_extra_keys else None
                yield WrittenView(part.view, part.open, images, kept, copied)

    def _expected(
        self, image: LabelledImage, files: Mapping[str, Content], parts: Sequence[Part], lost: Sequence[Losses]
    ) -> ExpectedImage:
        """Return what an image must hold, and add to the losses of each view those that its format did not name."""
        file, sample = f"{self.images}/{image.file_name}", image.sample
        content = files[file] if image.source is None else image.source.read_bytes()
        assert isinstance(content, bytes)
        size = int(image.entry["height"]), int(image.entry["width"])
        expected = ExpectedImage(file, size, len(content), byte_sum(content))
        if sample is not None:
            if image.source is None and image.is_compared and file.endswith(".png"):
                expected.pixels = checksum(sample.image.as_subclass(Tensor).permute(1, 2, 0).numpy())
            expected.values = geometry_values(self.stem(image), sample, self.depth_format)
            image = as_labelled(image, self.labels, hides=self.hides)
        for part, told in zip(parts, lost, strict=True):
            expect_labels(part.view, self._held(image, part, Losses()), expected, told)
        return expected

    def _held(self, image: LabelledImage, part: Part, lost: Losses) -> LabelledImage:
        """Return an image without references that a format does not hold, which are counted.

        Tables hold all if they are resolved later. Otherwise images keep their ids, but annotations do not; segments
        get those of their image at once.
        """
        has_ids, own = part.format.keeps_extra_keys, REGION_KEYS
        if not _refers(image) or (has_ids and self.resolves):
            return image
        kinds = KINDS - IMAGE_KINDS if has_ids else KINDS
        image = replace(image, entry=without_references(image.entry, "images", lost, IMAGE_KEYS, kinds))
        if has_ids and not part.format.of_entries:
            return image
        rows = [without_references(row, "objects", lost, own, kinds) for row in image.rows]
        crowds = [(crowd, without_references(row, "objects", lost, own, kinds)) for crowd, row in image.crowds]
        return replace(image, rows=rows, crowds=crowds)

    def _lost_depth(self, sample: DenseSample | None) -> Losses:
        if self.depth_format == "npy" or sample is None or sample.depth is None or sample.depth_valid is None:
            return Losses()
        depth, valid = (value.as_subclass(Tensor)[0].numpy() for value in (sample.depth, sample.depth_valid))
        too_far = {"pixels of depth beyond 65.535 m, which are invalid in PNG": num_too_far(depth, valid)}
        unread = {UNREAD_DEPTH: int(not any(part.view.format == "label-maps" for part in self.parts))}
        return Losses({"depth below a millimetre, in images": int(has_fractions(depth, valid)), **too_far, **unread})

    def _shown(self, image: LabelledImage) -> LabelledImage:
        """Return an image with the classes of the parts, and with the visible parts of its regions."""
        if image.sample is None:
            return image
        sample, crowds = image.sample, image.crowds
        if self.hides:
            crowds = crowds_left(sample, crowds)
        if list(self.labels) != list(range(len(self.labels))):
            table = torch.tensor([*self.labels, *range(len(self.labels), 256)], dtype=torch.int64, device="cpu")
            semantic = sample.semantic_map
            if semantic is not None:
                semantic = SemanticMap(table[semantic.as_subclass(Tensor)])
            sample = replace(sample, labels=table[sample.labels], semantic_map=semantic)
            crowds = [(crowd._replace(label=self.labels[crowd.label]), row) for crowd, row in crowds]
        return replace(image, sample=sample, crowds=crowds)


def _in_tables_only(views: Sequence[View], lost: Sequence[Losses]) -> Losses:
    """Return what files of a layout do not hold, but COCO's tables beside them do: annotations, in VOC also keys."""
    tables = next((told for view, told in zip(views, lost, strict=True) if view.format == "coco"), None)
    if tables is None or len(views) < 2:
        return Losses()
    missing = Losses()
    for view, told in zip(views, lost, strict=True):
        if view.format != "coco":
            keys = [what for what in told if view.format == "voc" and what.startswith("key '") and OWN_KEY not in what]
            missing |= Losses({what: told[what] for what in (*OF_OBJECTS, *keys)}) - tables
    return Losses({f"{what} (only in {COCO_FILE})": num for what, num in missing.items()})


def finish(
    writers: Sequence[DatasetWriter],
    splits: Sequence[tuple[JsonRow, Sequence[JsonRow], Callable[[], Iterable[SampleRows]]]],
    losses: Losses,
    copied: Sequence[str] | None = None,
) -> None:
    """Write the files that follow all images, such as tables and lists of classes.

    Args:
        writers: the writer of each split.
        splits: for each the other tables, such as ``info``, the entries of its classes, and a function that returns
            the entries of its images.
        losses: what formats do not hold is added.
        copied: names of the splits that are copied beside a split to train on; None if all splits are written.
    """
    for number, (form, _, _, table) in enumerate(writers[0].parts):
        written = [
            WrittenSplit(writer.parts[number].view, tables, categories, numbered(rows), copied)
            for writer, (tables, categories, rows) in zip(writers, splits, strict=True)
        ]
        if table and not any(row.segments is not None for split in written for row in split.rows()):
            continue
        for path, content in form.closing_files(written, losses):
            write_whole(writers[0].folder / path, content)


def crowds_left(sample: DenseSample, crowds: Crowds) -> Crowds:
    """Return the visible region of each crowd; crowds without a visible pixel are left out.

    The box of an object without a mask is cut to the box of its visible pixels, if some are hidden.
    """
    if sample.crowd_mask is None:
        return []
    pixels: NDArray[np.bool_] = sample.crowd_mask.as_subclass(Tensor)[0].numpy()
    cut = ((_visible(crowd, pixels), origin) for crowd, origin in crowds)
    return [(crowd, origin) for crowd, origin in cut if crowd.mask.any()]


def is_seen(crowd: Crowd, sample: DenseSample) -> bool:
    """Return whether no paste hides a part of a region, or of the box of an object without a mask."""
    if sample.crowd_mask is None:
        return False
    return bool((sample.crowd_mask.as_subclass(Tensor)[0].numpy() | ~crowd.mask).all())


def _visible(crowd: Crowd, pixels: NDArray[np.bool_]) -> Crowd:
    mask = crowd.mask & pixels
    if crowd.box is None or (mask == crowd.mask).all():
        return crowd._replace(mask=mask)
    (x1, y1, x2, y2), (x, y, width, height) = crowd.box, tight_xywh(mask)
    box = max(x1, x), max(y1, y), min(x2, x + width), min(y2, y + height)
    return crowd._replace(mask=mask, box=box, given=None)


def _as_json(image: LabelledImage, lost: Losses) -> LabelledImage:
    """Return an image with null for NaN and infinite numbers in the further keys of its entries."""
    image = replace(image, entry=finite_row(image.entry, "images", lost))
    if image.unchanged is not None:
        return image
    rows = [finite_row(row, "objects", lost, _OWN) for row in image.rows]
    crowds = [(crowd, finite_row(row, "objects", lost, _OWN)) for crowd, row in image.crowds]
    return replace(image, rows=rows, crowds=crowds)


def _refers(image: LabelledImage) -> bool:
    """Return whether entries that are made anew may have ids or names of other images or annotations."""
    if image.unchanged is not None or image.sample is None:
        return False
    rows = [*image.rows, *(row for _, row in image.crowds)]
    return refers(image.entry, "images", IMAGE_KEYS) or any(refers(row, "objects", REGION_KEYS) for row in rows)


def _content(image: LabelledImage) -> bytes:
    """Return the content of the file of an image: that of its source, or its encoded pixels."""
    if image.source is not None:
        return copied_bytes(image.source)
    pixels = image.labelled.image.as_subclass(Tensor)
    if pixels.shape[0] != 3 or pixels.is_floating_point():
        raise ValueError(f"{image.file_name}: expected a uint8 RGB image, got {pixels.dtype}; convert the sample")
    return picture_bytes(pixels.permute(1, 2, 0).numpy(), "jpg" if image.file_name.endswith(".jpg") else "png")
