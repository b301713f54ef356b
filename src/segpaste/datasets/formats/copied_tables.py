"""Tables of a COCO file that refer to its images or annotations, copied for a dataset with other ids and names.

A reference is certain if its key says so (``image_id``, ``annotation_ids``), or if its value is the file name of an
image, in keys of objects too. Rows and entries of one image are repeated for each of its copies, those of annotations
for each of their copies, pasted ones too. What refers to several images is copied if each has one copy, with what
stayed there of their annotations. What could be a reference, but does not say of what, is left out and counted, since
its numbers would mean others. URLs are no references: they name the original.

Not for the tables ``images``, ``annotations`` and ``categories``, which the writers make; see
`segpaste.datasets.formats.references` for their keys.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.references import (
    ANNOTATIONS,
    IMAGES,
    NO_ANNOTATION,
    OF_ANNOTATIONS,
    OF_OBJECTS,
    UNCLEAR,
    UNKNOWN,
    Copy,
    WrittenAnnotation,
    in_form,
    is_by_annotation,
    letters,
    number_of,
)

_IMAGE_KEY = re.compile("(image|img|photo|picture)(ids?)?")
_IMAGE_ID = re.compile("(image|img|photo|picture)ids?")
_LIKE_IMAGE = re.compile(".*(image|img|photo|picture)s?(ids?|idx|index|indices|indexes|keys?|refs?|nos?)")
_LISTS = re.compile("ids?|.*(image|img|photo|picture|annotation|train|val|test|split|fold|subset|sample).*")
_BY_IMAGE = re.compile("(.*(by|per)(image|img)(id)?)|((image|img)ids?(to|2).*)")
_NO_IDS = re.compile(
    "(?!image|img|photo|picture|train|val|test).*[a-z]ids?|.*(box|size|point|poly|shape|colou?r|roi).*"
)
_CODES = re.compile("categor(y|ies)|class(es)?(names?)?|licen[sc]es?|supercategor(y|ies)|colou?rs?|palette")

OF_SEVERAL = "several images in one entry"
PATHS = "paths that end in the name of an image"
ALONE = "an image that may have no copy, or several"


class Annotation(NamedTuple):
    """Annotation of the original dataset that a table refers to: its id, and that of its image."""

    number: int
    source: int


Reference = int | str | Annotation
"""Id of an image, reason why a value cannot be copied, or annotation."""


class _To(NamedTuple):
    """Copy of each image, and id of each annotation, that an entry refers to."""

    copies: Mapping[int, Copy]
    annotations: Mapping[int, int]


class CopiedTables:
    """Tables for a written dataset, and what is left out of them.

    Args:
        names: file name of each image of the original dataset, by id.
        copies: images of the written dataset.
        annotations: returns the image of each original annotation, by id; called only if numbers could be among them.
        made: returns the written annotations of each original one; called only if tables refer to some.

    Attributes:
        left_out: number of entries that are left out, by table and reason.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        copies: Sequence[Copy],
        annotations: Callable[[], Mapping[int, int]],
        made: Callable[[], Mapping[int, Sequence[WrittenAnnotation]]],
    ) -> None:
        self.left_out = Counter[str]()
        self._names = names
        self._of_name = _unique((image_id, word) for image_id, name in names.items() for word in (name, _last(name)))
        self._of_stem = _unique((image_id, PurePosixPath(name).stem) for image_id, name in names.items())
        self._copies = copies
        self._of_source: dict[int, list[Copy]] = {}
        for copy in copies:
            self._of_source.setdefault(copy.source, []).append(copy)
        self._annotations, self._made = cache(annotations), cache(made)

    def copied(self, tables: Mapping[str, Any]) -> JsonRow:
        """Return the tables for the written dataset."""
        found = {name: self._copied(value, (name,)) for name, value in tables.items()}
        return {name: value for name, value in found.items() if value is not _GONE}

    def _copied(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value for the written dataset, or _GONE."""
        found = set(self._scan(value, path))
        if not found:
            return value
        if isinstance(value, list):
            return self._list(value, path, found)
        if not isinstance(value, dict):
            only = self._only(found)
            return self._leave(path, 1, _reason(found, ALONE)) if only is None else self._renamed(value, path, only)
        if (images := self._keyed(value, path)) is not None:
            return self._by_image(value, path, images)
        if self._is_by_annotation(value, path):
            return self._by_annotation(value, path)
        if any(isinstance(reason, str) for reason in self._key_references(value, path)):
            return self._leave(path, len(value), UNCLEAR)
        parts = {key: self._copied(item, (*path, key)) for key, item in value.items()}
        return {key: item for key, item in parts.items() if item is not _GONE}

    def _list(self, items: Sequence[Any], path: tuple[str, ...], found: set[Reference]) -> Any:
        """Return the rows that name no image, then those of each copy; rows with ``id`` are numbered again."""
        if found == {UNCLEAR} and not any(isinstance(item, dict | list) for item in items):
            return self._leave(path, len(items), UNCLEAR)
        rows, of_others = list[Any](), list[Any]()
        of_image: dict[int, list[Any]] = {}
        is_copied = False
        for item in items:
            refers = set(self._scan(item, path))
            if not refers or not self._is_row(item, path):
                rows.append(self._copied(item, path))
                continue
            images = {ref.source if isinstance(ref, Annotation) else ref for ref in refers}
            is_of_one = len(images) == 1 and not any(isinstance(ref, str) for ref in refers)
            if is_of_one and isinstance(source := next(iter(refers)), int) and len(refers) == 1:
                of_image.setdefault(source, []).append(item)
            elif is_of_one:
                of_others += self._of_annotations(item, path, refers)
            elif (only := self._only(refers)) is not None:
                of_others.append(self._renamed(item, path, only))
            else:
                self._leave(path, 1, _reason(refers, OF_SEVERAL))
                continue
            is_copied = True
        rows = [row for row in rows if row is not _GONE]
        for copy in self._copies:
            to = _To({copy.source: copy}, {})
            rows += [self._renamed(row, path, to) for row in of_image.get(copy.source, ())]
        rows += of_others
        if not rows:
            return rows if is_copied else _GONE
        is_numbered = is_copied and any(isinstance(row, dict) and "id" in row for row in rows)
        return [{**row, "id": number} for number, row in enumerate(rows, start=1)] if is_numbered else rows

    def _of_annotations(self, row: Any, path: tuple[str, ...], refers: Iterable[Reference]) -> Iterator[Any]:
        """Yield a row about annotations of one image for each image of the written dataset that has copies of them."""
        wanted = {ref.number for ref in refers if isinstance(ref, Annotation)}
        source = next(ref.source for ref in refers if isinstance(ref, Annotation))
        found: dict[int, tuple[Copy, dict[int, list[int]]]] = {}
        for number in wanted:
            for one in self._made().get(number, ()):
                own = found.setdefault(one.copy.image_id, (one.copy, {}))[1]
                own.setdefault(number, []).append(one.annotation_id)
        whole = set[int]()
        for copy, ids in found.values():
            if ids.keys() == wanted and (len(wanted) == 1 or all(len(own) == 1 for own in ids.values())):
                whole.add(copy.image_id)
                copies = {source: copy._replace(source=source)}
                for each in zip(*ids.values(), strict=True):
                    yield self._renamed(row, path, _To(copies, dict(zip(ids, each, strict=True))))
        if num := sum(copy.image_id not in whole for copy in self._of_source.get(source, ())):
            self._leave(path, num, NO_ANNOTATION)

    def _only(self, refers: Iterable[Reference]) -> _To | None:
        """Return the copies of images and annotations of which each has exactly one; None if any has not."""
        of_images, of_annotations = dict[int, Copy](), dict[int, int]()
        for ref in refers:
            source = ref.source if isinstance(ref, Annotation) else ref
            if isinstance(source, str) or len(copies := self._of_source.get(source, [])) != 1:
                return None
            of_images[source] = copies[0]
            if isinstance(ref, Annotation):
                made = [one for one in self._made().get(ref.number, ()) if not one.is_pasted]
                if len(made) != 1:
                    return None
                of_annotations[ref.number] = made[0].annotation_id
        return _To(of_images, of_annotations)

    def _by_image(self, value: JsonRow, path: tuple[str, ...], images: Mapping[str, int | None]) -> JsonRow:
        """Return an object whose keys are images for the copies of these."""
        kept, found = dict[int, list[tuple[str, set[Reference]]]](), JsonRow()
        for key, source in images.items():
            refers = set(self._scan(value[key], path))
            if source is None:
                self._leave(path, 1, UNKNOWN)
            elif all(ref == source or (isinstance(ref, Annotation) and ref.source == source) for ref in refers):
                kept.setdefault(source, []).append((key, refers))
            elif (only := self._only({source, *refers})) is not None:
                found[self._word(key, only.copies[source])] = self._renamed(value[key], path, only)
            else:
                self._leave(path, 1, _reason(refers, OF_SEVERAL))
        for copy in self._copies:
            for key, refers in kept.get(copy.source, ()):
                to = _To({copy.source: copy}, self._within(refers, copy))
                if all(ref.number in to.annotations for ref in refers if isinstance(ref, Annotation)):
                    found[self._word(key, copy)] = self._renamed(value[key], path, to)
                else:
                    self._leave(path, 1, NO_ANNOTATION)
        return found

    def _within(self, refers: Iterable[Reference], copy: Copy) -> dict[int, int]:
        """Return the id of each annotation of which an image of the written dataset has exactly one copy."""
        ids = dict[int, int]()
        for number in (ref.number for ref in refers if isinstance(ref, Annotation)):
            own = [made.annotation_id for made in self._made().get(number, ()) if made.copy.image_id == copy.image_id]
            if len(own) == 1:
                ids[number] = own[0]
        return ids

    def _by_annotation(self, value: JsonRow, path: tuple[str, ...]) -> JsonRow:
        """Return an object whose keys are ids of annotations for the copies of these."""
        kept: JsonRow = {}
        for key, item in value.items():
            number, refers = int(key), {*self._scan(item, path)}
            source = self._annotations().get(number)
            if source is None or refers:
                only = None if source is None else self._only({Annotation(number, source), *refers})
                if only is None:
                    self._leave(path, 1, _reason(refers, OF_ANNOTATIONS if source is None else OF_SEVERAL))
                else:
                    kept[str(in_form(key, only.annotations[number]))] = self._renamed(item, path, only)
                continue
            made = self._made().get(number, ())
            there = {written.copy.image_id for written in made}
            if num := sum(copy.image_id not in there for copy in self._of_source.get(source, ())):
                self._leave(path, num, NO_ANNOTATION)
            kept |= {str(in_form(key, written.annotation_id)): item for written in made}
        return kept

    def _is_by_annotation(self, value: JsonRow, path: tuple[str, ...]) -> bool:
        return bool(value) and None not in map(number_of, value) and any(map(is_by_annotation, path))

    def _leave(self, path: Sequence[str], num: int, reason: str) -> Any:
        self.left_out[f"table '{'.'.join(path)}': {reason}"] += num
        return _GONE

    def _scan(self, value: Any, path: tuple[str, ...]) -> Iterator[Reference]:
        """Yield the images and annotations that a value refers to, and reasons why it cannot be copied."""
        if isinstance(value, dict):
            yield from self._key_references(value, path)
            for key, item in value.items():
                yield from self._scan(item, (*path, key))
        elif isinstance(value, list):
            if self._may_be_ids(value, path):
                yield UNCLEAR
            for item in value:
                yield from self._scan(item, path)
        elif (found := self._scalar(value, path[-1])) is not None:
            yield found

    def _is_row(self, row: Any, path: tuple[str, ...]) -> bool:
        """Return whether an entry of a list refers to something itself, or in a list, and not in an object inside."""
        if isinstance(row, list):
            return any(not isinstance(item, dict | list) and self._scalar(item, path[-1]) is not None for item in row)
        if isinstance(row, dict):
            parts = ((value, (*path, key)) for key, value in row.items() if not isinstance(value, dict))
            return any(
                self._may_be_ids(value, inner) or self._is_row(value, inner)
                if isinstance(value, list)
                else self._scalar(value, inner[-1]) is not None
                for value, inner in parts
            )
        return True

    def _scalar(self, value: Any, key: str) -> Reference | None:
        """Return the image or annotation that a text or number refers to, a reason, or None."""
        word = letters(key)
        if value is None or isinstance(value, bool):
            return None
        number = number_of(value)
        if ANNOTATIONS.fullmatch(word) or OF_OBJECTS.fullmatch(word):
            if number is None or number not in self._annotations() or not ANNOTATIONS.fullmatch(word):
                return OF_ANNOTATIONS
            return Annotation(number, self._annotations()[number])
        if isinstance(value, str) and (source := self._of_name.get(value)) is not None:
            return source
        is_other = IMAGES.fullmatch(word) is not None and not _IMAGE_ID.fullmatch(word)
        if is_other or _IMAGE_KEY.fullmatch(word):
            if number in self._names:
                return number
            is_unknown = number is not None and number > 0 if is_other else _IMAGE_ID.fullmatch(word)
            return UNKNOWN if is_unknown else None
        if isinstance(value, str) and "://" not in value and ("/" in value or "\\" in value):
            last = re.split(r"[/\\]", value)[-1]
            return PATHS if last in self._of_name and "." in last else None
        return UNCLEAR if number is not None and _LIKE_IMAGE.fullmatch(word) else None

    def _key_references(self, value: JsonRow, path: tuple[str, ...]) -> Iterator[Reference]:
        """Yield the references in the keys of an object."""
        if (images := self._keyed(value, path)) is not None:
            yield from (UNKNOWN if source is None else source for source in images.values())
            return
        numbers = [number for number in map(number_of, value) if number is not None]
        if self._is_by_annotation(value, path):
            of = self._annotations()
            yield from (Annotation(n, of[n]) if n in of else OF_ANNOTATIONS for n in numbers)
            return
        is_numbered = len(numbers) == len(value) and not _CODES.fullmatch(letters(path[-1]))
        if is_numbered and any(number in self._names or number in self._annotations() for number in numbers):
            yield UNCLEAR

    def _keyed(self, value: JsonRow, path: tuple[str, ...]) -> Mapping[str, int | None] | None:
        """Return the image of each key of an object whose keys are images, else None."""
        by_name = {key: self._of_name.get(key) for key in value}
        if any(source is not None for source in by_name.values()):
            return by_name
        numbers = {key: number_of(key) for key in value}
        is_said = any(_BY_IMAGE.fullmatch(letters(name)) for name in path)
        is_said = is_said or all(
            isinstance(item, dict) and _own_image(item) == numbers[key] for key, item in value.items()
        )
        if value and is_said and None not in numbers.values() and any(n in self._names for n in numbers.values()):
            return {key: number if number in self._names else None for key, number in numbers.items()}
        if value and all(key in self._of_stem and numbers[key] is None for key in value):
            return {key: self._of_stem[key] for key in value}
        return None

    def _may_be_ids(self, items: Sequence[Any], path: tuple[str, ...]) -> bool:
        """Return whether a list of numbers may be one of ids, by the names of the values that it is in."""
        word = letters(path[-1])
        if not items or not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            return False
        if any(own.fullmatch(word) for own in (_IMAGE_KEY, IMAGES, ANNOTATIONS, OF_OBJECTS, _NO_IDS)):
            return False
        is_named = any(_LISTS.fullmatch(letters(name)) for name in path)
        return is_named and all(item in self._names or item in self._annotations() for item in items)

    def _renamed(self, value: Any, path: tuple[str, ...], to: _To) -> Any:
        """Return a value for the copies of the images and annotations that it refers to."""
        if isinstance(value, list):
            return [self._renamed(item, path, to) for item in value]
        if isinstance(value, dict):
            images = self._keyed(value, path) or {}
            is_keyed = self._is_by_annotation(value, path)
            return {
                self._key(key, images.get(key), to, is_keyed=is_keyed): self._renamed(item, (*path, key), to)
                for key, item in value.items()
            }
        found = self._scalar(value, path[-1])
        if isinstance(found, Annotation):
            return in_form(value, to.annotations[found.number])
        return self._word(value, to.copies[found]) if isinstance(found, int) else value

    def _key(self, key: str, source: int | None, to: _To, *, is_keyed: bool) -> str:
        if source is not None:
            return str(self._word(key, to.copies[source]))
        return str(in_form(key, to.annotations[int(key)])) if is_keyed else key

    def _word(self, value: Any, copy: Copy) -> Any:
        """Return a reference to a copy in the form of a reference to its original: number, digits, name or stem."""
        if not isinstance(value, str):
            return copy.image_id
        name = self._names[copy.source]
        if value == name:
            return copy.file_name
        if self._of_name.get(value) == copy.source:
            return PurePosixPath(copy.file_name).name
        return in_form(value, copy.image_id) if number_of(value) == copy.source else PurePosixPath(copy.file_name).stem


class _Gone:
    """Value that is left out."""


_GONE = _Gone()


def _unique(pairs: Iterable[tuple[int, str]]) -> dict[str, int]:
    """Return the image of each word, of words that only one image has."""
    found: dict[str, set[int]] = {}
    for image_id, word in pairs:
        found.setdefault(word, set()).add(image_id)
    return {word: ids.pop() for word, ids in found.items() if len(ids) == 1}


def _last(name: str) -> str:
    return PurePosixPath(name).name


def _own_image(row: JsonRow) -> int | None:
    return next((number_of(value) for key, value in row.items() if _IMAGE_ID.fullmatch(letters(key))), None)


def _reason(found: Iterable[Reference], default: str) -> str:
    return min((reason for reason in found if isinstance(reason, str)), default=default)
