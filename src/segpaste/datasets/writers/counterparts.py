"""Counterparts of the images and annotations of a dataset in the one that is written of its images, by their new ids.

An annotation gets its id from its place in the written table, and an original may have any number of copies. So entries
keep the ids of the originals until all images are made; then they pass through `WrittenCounterparts.rows`, and the
ledger through `WrittenCounterparts.expected`. Datasets without such keys pass unread.

A reference of an object is that to the object made of the same image in the same written image; from an image, or to
another image, it is that to the only copy that was not pasted. If the originals are written, too, references of them
are to originals, and those of augmented images to augmented images.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow, finite_tables
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS, finite_row
from segpaste.datasets.formats.copied_tables import CopiedTables
from segpaste.datasets.formats.references import IMAGE_KINDS, KINDS, Copy, Kind, WrittenAnnotation, refers, resolved
from segpaste.datasets.writers.format import MADE_OF, Losses, SampleRows
from segpaste.datasets.writers.ledger import ExpectedImage, digest

_OWN = REGION_KEYS | POINT_KEYS
"""Keys of an entry that writers make."""


class WrittenCounterparts:
    """Counterparts of the images and annotations of a dataset in a written one.

    Args:
        photos: the dataset. If ids of its images are not unique, nothing has a counterpart.
        copies: the written images that are made of its images.
        rows: returns the entries of all written images, with the ids of the originals, in the order of writing.
    """

    def __init__(
        self, photos: AnnotatedDataset, copies: Sequence[Copy], rows: Callable[[], Iterable[SampleRows]]
    ) -> None:
        self.photos, self.copies, self._rows = photos, copies, rows
        self._by_id = {copy.image_id: copy for copy in copies}

    @cached_property
    def names(self) -> Mapping[str, int]:
        """Id of each image of the dataset, by its file name."""
        return {self.photos.file_name(index): self.photos.image_id(index) for index in range(len(self.photos))}

    @cached_property
    def copies_of(self) -> Mapping[int, Sequence[Copy]]:
        """The written images of each image of the dataset, by its id."""
        found: dict[int, list[Copy]] = {image_id: [] for image_id in self.names.values()}
        for copy in self.copies if self.is_unique else ():
            found[copy.source].append(copy)
        return found

    @cached_property
    def has_originals(self) -> bool:
        """True if the originals are written, too."""
        return any(copy.is_original for copy in self.copies)

    @cached_property
    def is_unique(self) -> bool:
        """True if ids and file names of the images of the dataset are unique."""
        return len(set(self.names.values())) == len(self.photos)

    @cached_property
    def written(self) -> Mapping[int, Sequence[WrittenAnnotation]]:
        """The written annotations that are made of each one of the dataset, pasted ones too, by its id."""
        found: dict[int, list[WrittenAnnotation]] = {}
        for row in with_ids(self._rows()) if self.is_unique else ():
            copy = self.copy_of(row)
            for annotation in row.annotations:
                if (made := annotation.get(MADE_OF)) is not None:
                    one = WrittenAnnotation(copy, annotation["id"], is_pasted=made[0] != copy.source)
                    found.setdefault(made[1], []).append(one)
        return found

    def tables(self) -> tuple[JsonRow, Losses]:
        """Return the other tables of the dataset for the written one, such as ``licenses``, and what is left out.

        What refers to images or annotations, such as the scenes of TACO, refers to the written ones that are made of
        them; see `segpaste.datasets.formats.copied_tables`. The ``info`` is among the tables.
        """
        if not (tables := self.photos.tables()):
            return {}, Losses()
        names = {image_id: name for name, image_id in self.names.items()}
        made = CopiedTables(names, self.copies, lambda: self.image_of, lambda: self.written)
        return finite_tables(made.copied(tables), made.left_out), made.left_out

    @cached_property
    def image_of(self) -> Mapping[int, int]:
        """Image of each annotation of the dataset, by their ids; without ids that several images use."""
        found, repeated = dict[int, int](), set[int]()
        for index in range(len(self.photos)):
            image_id = self.photos.image_id(index)
            for number in (row["id"] for row in self.photos.annotation_rows(index) if "id" in row):
                if found.setdefault(number, image_id) != image_id:
                    repeated.add(number)
        return {number: image_id for number, image_id in found.items() if number not in repeated}

    @cached_property
    def has_references(self) -> bool:
        """True if an entry of an image or an annotation may have ids or names of others."""
        return any(row.refers for row in self._rows())

    @cached_property
    def losses(self) -> Losses:
        """Number of references that are left out, by key and reason."""
        lost = Losses()
        deque(self._resolved(lost) if self.has_references else (), maxlen=0)
        return lost

    def rows(self) -> Iterable[SampleRows]:
        """Return the entries of all images, with the ids and names of the written dataset."""
        return self._resolved(Losses()) if self.has_references else self._rows()

    def categories(self, rows: Sequence[JsonRow], lost: Losses) -> list[JsonRow]:
        """Return the entries of classes, with the ids and names of the written dataset, as JSON."""
        found = [resolved(row, "categories", _Place(self), lost) for row in rows]
        return [finite_row(row, "categories", lost) for row in found]

    def expected(self, images: Callable[[], Iterable[ExpectedImage]]) -> Iterator[ExpectedImage]:
        """Yield the facts of images with the ids of the written dataset in their keys and those of annotations."""
        if not self.has_references:
            yield from images()
            return
        for expected, row in zip(images(), with_ids(self._rows()), strict=True):
            place = _Place.of(self, row)
            for name, keys in expected.keys.items() if row.refers else ():
                if isinstance(keys, dict):
                    expected.keys[name] = digest(resolved(keys, "images", place, Losses(), IMAGE_KEYS))
            for regions in expected.views.values() if row.refers else ():
                for i, region in enumerate(regions):
                    if isinstance(region.keys, dict):
                        regions[i] = region._replace(keys=digest(place.entry(region.keys, Losses())))
            yield expected

    def copy_of(self, row: SampleRows) -> Copy:
        """Return a written image; one that is not made of the dataset has an original that does not exist."""
        image_id, name = int(row.image["id"]), str(row.image["file_name"])
        return self._by_id.get(image_id, Copy(_NO_SOURCE, image_id, name))

    def _resolved(self, lost: Losses) -> Iterator[SampleRows]:
        for row in with_ids(self._rows()):
            if not row.refers:
                yield row
                continue
            place = _Place.of(self, row)
            segments = row.segments
            if segments is not None:
                of_segments = place._replace(kinds=IMAGE_KINDS)
                segments = [of_segments.entry(segment, Losses()) for segment in segments]
            yield replace(
                row,
                image=resolved(row.image, "images", place, lost, IMAGE_KEYS),
                annotations=[place.entry(annotation, lost) for annotation in row.annotations],
                segments=segments,
            )


_NO_SOURCE = -(1 << 62)
"""Id of the original of an image that is not made of one of the dataset."""


class _Place(NamedTuple):
    """Counterparts for an entry: of a written image, of its annotations, or of none.

    Attributes:
        all: counterparts in the whole dataset.
        own: the written image; None outside of images.
        source: id of the image of which the entry is made; None outside of images.
        local: ids of the annotations of the image, by the ids of the image and the annotation of which they are made.
        kinds: what is looked at.
    """

    all: WrittenCounterparts
    own: Copy | None = None
    source: int | None = None
    local: Mapping[tuple[int, int], Sequence[int]] = {}
    kinds: frozenset[Kind] = KINDS

    @classmethod
    def of(cls, counterparts: WrittenCounterparts, row: SampleRows) -> _Place:
        """Return the place of the entry of a written image."""
        own = counterparts.copy_of(row)
        local: dict[tuple[int, int], list[int]] = {}
        for annotation in row.annotations if counterparts.is_unique else ():
            if (made := annotation.get(MADE_OF)) is not None:
                local.setdefault((made[0], made[1]), []).append(annotation["id"])
        return cls(counterparts, own, own.source, local)

    def entry(self, row: JsonRow, lost: Losses) -> JsonRow:
        """Return an entry of an annotation or a segment with the ids of the counterparts."""
        made = row.get(MADE_OF)
        place = self._replace(source=None if made is None else made[0])
        return resolved(without_origin(row), "objects", place, lost, _OWN)

    def is_image(self, number: int) -> bool:
        """Return whether the dataset has an image of this id."""
        return number in self.all.copies_of

    def image(self, number: int) -> int | None:
        """Return the id of the only counterpart of an image."""
        copy = self._copy(number)
        return None if copy is None else copy.image_id

    def annotation(self, number: int) -> int | None:
        """Return the id of the only counterpart of an annotation."""
        if self.source is not None and (found := self.local.get((self.source, number))):
            return found[0] if len(found) == 1 else None
        if self.own is not None and self.source != self.own.source:
            return None  # what is pasted leaves the others behind
        if (image_id := self.all.image_of.get(number)) is None or image_id == self.source:
            return None
        kept = [one for one in self.all.written.get(number, ()) if not one.is_pasted and self._is_alike(one.copy)]
        return kept[0].annotation_id if len(kept) == 1 else None

    def name(self, text: str) -> str | None:
        """Return the file name of the only counterpart of an image; the text if it is no name of one."""
        if (number := self.all.names.get(text)) is None:
            return text
        copy = self._copy(number)
        return None if copy is None else copy.file_name

    def _copy(self, number: int) -> Copy | None:
        if self.own is not None and number == self.source and self.all.is_unique:
            return self.own
        copies = [copy for copy in self.all.copies_of.get(number, ()) if self._is_alike(copy)]
        return copies[0] if len(copies) == 1 else None

    def _is_alike(self, copy: Copy) -> bool:
        """Return whether a written image may be referred to: originals by originals, and by no image."""
        return copy.is_original == (self.all.has_originals if self.own is None else self.own.is_original)


class _InSegments(NamedTuple):
    """Counterparts of annotations among the segments of an image; images have their ids still."""

    ids: Mapping[tuple[int, int], Sequence[int]]
    source: int
    kinds: frozenset[Kind] = KINDS - IMAGE_KINDS

    def is_image(self, number: int) -> bool:
        """Return whether the dataset has an image of this id; it is not asked."""
        return number > 0

    def image(self, number: int) -> int | None:
        """Return the id of an image."""
        return number

    def annotation(self, number: int) -> int | None:
        """Return the id of the only segment of an annotation."""
        found = self.ids.get((self.source, number), ())
        return found[0] if len(found) == 1 else None

    def name(self, text: str) -> str | None:
        """Return the file name of an image."""
        return text


def among_segments(segments: Sequence[JsonRow], lost: Losses) -> list[JsonRow]:
    """Return the segments of an image with the ids of segments as those of annotations that their keys refer to."""
    ids: dict[tuple[int, int], list[int]] = {}
    for segment in segments:
        if (made := segment.get(MADE_OF)) is not None:
            ids.setdefault((made[0], made[1]), []).append(segment["id"])
    found, own = [], _OWN | {MADE_OF}
    for segment in segments:
        is_one = MADE_OF in segment and refers(segment, "objects", own)
        place = _InSegments(ids, segment[MADE_OF][0]) if is_one else None
        found.append(segment if place is None else resolved(segment, "objects", place, lost, own))
    return found


def with_ids(rows: Iterable[SampleRows]) -> Iterator[SampleRows]:
    """Yield entries whose annotations have ids: their own, or the next number in order of the images."""
    number = 0
    for row in rows:
        annotations = []
        for annotation in row.annotations:
            number += 1
            annotations.append(annotation if "id" in annotation else {"id": number, **annotation})
        yield replace(row, annotations=annotations)


def numbered(rows: Callable[[], Iterable[SampleRows]]) -> Callable[[], Iterator[SampleRows]]:
    """Return a function of entries as they are written: with ids, and without the ids of their originals."""

    def each() -> Iterator[SampleRows]:
        for row in with_ids(rows()):
            segments = None if row.segments is None else [*map(without_origin, row.segments)]
            yield replace(row, annotations=[*map(without_origin, row.annotations)], segments=segments)

    return each


def without_origin(row: JsonRow) -> JsonRow:
    """Return an entry without the ids of its original."""
    return {key: value for key, value in row.items() if key != MADE_OF} if MADE_OF in row else row
