"""COCO files of some images of a dataset, in place: images are neither copied nor renamed.

The entries of all images are made once, since those of formats without entries of their own need the pixels. To write a
dataset with its images use `segpaste.datasets.convert_dataset`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.entries import (
    has_entries,
    image_entry,
    kept_entries,
    labelled_image,
    readable_entries,
    size_of,
)
from segpaste.datasets.entries import JsonRow, finite_tables
from segpaste.datasets.formats.carried import finite_row
from segpaste.datasets.writers.coco import CocoInstances, made_entries
from segpaste.datasets.writers.counterparts import numbered
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
        tables = finite_tables(self.photos.tables(), Losses())
        categories = [finite_row(row, "categories", Losses()) for row in self.photos.categories]
        split = WrittenSplit(View("coco", "", ()), tables, categories, rows)
        ((_, content),) = CocoInstances().closing_files([split], Losses())
        return content

    def _read(self, indices: Sequence[int]) -> Iterator[tuple[JsonRow, list[JsonRow]]]:
        with self.path.open("rb") as file:
            for index in indices:
                file.seek(self._starts[index])
                image, rows = json.loads(file.readline())
                yield image, rows

    def _lines(self) -> Iterator[bytes]:
        photos, keeps = self.photos, has_entries(self.photos)
        by_label = sorted(photos.categories, key=lambda row: int(row["id"]))
        rows = numbered(lambda: (_entries(photos, index, by_label, keeps) for index in range(len(photos))))
        for row in rows():
            yield json.dumps([row.image, row.annotations], separators=(",", ":")).encode() + b"\n"


def _entries(photos: AnnotatedDataset, index: int, by_label: Sequence[JsonRow], keeps: bool) -> SampleRows:
    """Return the entries of an image and its annotations, as in the file or made from its sample."""
    name = photos.file_name(index)
    if keeps:
        size = size_of(photos, index)
        given = readable_entries(photos, index, size, Losses())
        rows = kept_entries(photos, index, given, size, with_iscrowd=True)
        return SampleRows(finite_row(image_entry(photos, index, name, size), "images", Losses()), rows)
    sample = photos[index]
    image = labelled_image(photos, index, image_entry(photos, index, name, sample.canvas_size), sample, "coco")
    return SampleRows(image.entry, made_entries(image, by_label))
