"""COCO files of some images of a dataset, in place: images are neither copied nor renamed.

The entries of all images are made once, since those of formats without entries of their own need the pixels. To write a
dataset with its images use `segpaste.datasets.convert_dataset`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from segpaste.datasets.contract import AnnotatedDataset, JsonRow
from segpaste.datasets.conversion.entries import has_entries, image_entry, kept_entries, labelled_image
from segpaste.datasets.formats.photo import upright_size
from segpaste.datasets.writers.coco import CocoInstances, made_entries
from segpaste.datasets.writers.format import Losses, SampleRows, View, WrittenSplit
from segpaste.workspace import Content, write_whole


class EntryFile:
    """File of the entries of all images of a dataset, a line for each.

    Args:
        photos: the dataset.
        path: the file; it is written if it does not exist.
    """

    def __init__(self, photos: AnnotatedDataset, path: Path) -> None:
        self.photos, self.path = photos, path
        if not path.exists():
            write_whole(path, self._lines())
        self._starts = [0]
        with path.open("rb") as file:
            self._starts += [file.tell() for _ in iter(file.readline, b"")]

    def coco(self, indices: Sequence[int]) -> Content:
        """Return the content of a COCO file of some images; file names are relative to ``photos.images_dir``."""
        rows = lambda: (SampleRows(image, rows) for image, rows in self._read(indices))  # noqa: E731
        split = WrittenSplit(View("coco", "", ()), self.photos.tables(), self.photos.categories, rows)
        ((_, content),) = CocoInstances().closing_files([split], Losses())
        return content

    def _read(self, indices: Sequence[int]) -> Iterator[tuple[JsonRow, list[JsonRow]]]:
        with self.path.open("rb") as file:
            for index in indices:
                file.seek(self._starts[index])
                image, rows = json.loads(file.readline())
                yield image, rows

    def _lines(self) -> Iterator[bytes]:
        number, keeps = 0, has_entries(self.photos)
        by_label = sorted(self.photos.categories, key=lambda row: int(row["id"]))
        for index in range(len(self.photos)):
            image, rows = _entries(self.photos, index, by_label, keeps)
            found = []
            for row in rows:
                number += 1
                found.append(row if "id" in row else {"id": number, **row})
            yield json.dumps([image, found], separators=(",", ":")).encode() + b"\n"


def _entries(
    photos: AnnotatedDataset, index: int, by_label: Sequence[JsonRow], keeps: bool
) -> tuple[JsonRow, list[JsonRow]]:
    """Return the entry of an image and those of its annotations, as in the file or made from its sample."""
    name = photos.file_name(index)
    if keeps:
        row = photos.image_row(index)
        has_size = isinstance(row.get("height"), int) and isinstance(row.get("width"), int)
        size = (row["height"], row["width"]) if has_size else upright_size(photos.path_of(index))
        return image_entry(photos, index, name, size), kept_entries(photos, index, size, with_iscrowd=True)
    sample = photos[index]
    image = labelled_image(photos, index, image_entry(photos, index, name, sample.canvas_size), sample, "coco")
    return image.entry, made_entries(image, by_label)
