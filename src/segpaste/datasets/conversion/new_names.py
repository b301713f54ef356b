"""New names of the images of a split, also where keys and tables of its files name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.names import PhotoNames
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.image_files import ImageHead, read_head
from segpaste.datasets.formats.references import Kind, Owner, resolved

NO_FILE = "no file"
"""Reason of images without a file."""


def head_of(photos: AnnotatedDataset, index: int) -> ImageHead | None:
    """Return the header of the file of an image; None for an image without a file."""
    return None if photos.photo_file(index) is None else read_head(photos.path_of(index))


class NewNames:
    """Counterparts of the images of a split by their names, for `segpaste.datasets.formats.references.resolved`.

    Ids of images do not change. An image is known by its file name, and by its last part if no other one has it. Of two
    rows of one file the first counts.

    Args:
        photos: the split.
        names: names of its images in the written dataset, copied or encoded again.
    """

    kinds: frozenset[Kind] = frozenset()

    def __init__(self, photos: AnnotatedDataset, names: PhotoNames) -> None:
        self._photos, self._names, self._known = photos, names, dict[int, str]()

    def of(self, index: int) -> str:
        """Return the new name of an image."""
        if index not in self._known:
            is_copied = self.reason_to_draw(index, head_of(self._photos, index)) is None
            self._known[index] = (self._names.copied if is_copied else self._names.drawn)[index]
        return self._known[index]

    def reason_to_draw(self, index: int, head: ImageHead | None) -> str | None:
        """Return why an image is encoded again: some readers would not read its file, or would turn its pixels."""
        if head is None:
            return NO_FILE
        if head.is_oriented:
            return "EXIF orientation"
        suffix = PurePosixPath(self._photos.file_name(index)).suffix
        return None if self._names.is_readable[index] else f"suffix {suffix or 'missing'}"

    def in_row(self, row: JsonRow, owner: Owner, own: Collection[str]) -> JsonRow:
        """Return an entry with new names in its keys, but for its ``own`` ones."""
        return resolved(row, owner, self, Counter(), own)

    def in_table(self, value: Any) -> Any:
        """Return JSON with new names in texts and keys that are such names."""
        if isinstance(value, list):
            return [self.in_table(item) for item in value]
        if isinstance(value, dict):
            return {self.name(key): self.in_table(item) for key, item in value.items()}
        return self.name(value) if isinstance(value, str) else value

    def name(self, text: str) -> str:
        """Return the new name for that of an image; the same text if it names none."""
        if (index := self._whole.get(text)) is not None:
            return self.of(index)
        return text if (index := self._last.get(text)) is None else PurePosixPath(self.of(index)).name

    @cached_property
    def _whole(self) -> Mapping[str, int]:
        """Image of each file name."""
        return {self._photos.file_name(index): index for index in reversed(range(len(self._photos)))}

    @cached_property
    def _last(self) -> Mapping[str, int]:
        """Image of each last part of a file name that one image has."""
        num = Counter(PurePosixPath(name).name for name in self._whole)
        return {last: i for name, i in self._whole.items() if num[last := PurePosixPath(name).name] == 1}

    # ids do not change, so nobody asks for them

    def is_image(self, number: int) -> bool:
        """Return whether an image has this id."""
        return number > 0

    def image(self, number: int) -> int:
        """Return the id of an image."""
        return number

    def annotation(self, number: int) -> int:
        """Return the id of an annotation."""
        return number
