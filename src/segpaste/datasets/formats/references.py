"""Tables of a COCO file that refer to its images or annotations, copied for a dataset with other ids and names.

A reference is certain if its key says so (``image_id``, ``imgId``), or if its value is the file name of an image, in
keys of objects too. Rows and entries of one image are repeated for each of its copies. What could be a reference, but
does not say of what, and what refers to annotations or to several images, is left out and counted, since its numbers
would mean others. URLs are no references: they name the original.

Not for the tables ``images``, ``annotations`` and ``categories``, which the writers make.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from segpaste.datasets.contract import JsonRow

_IMAGE_KEY = re.compile("(image|img|photo|picture)(ids?)?")
_IMAGE_ID = re.compile("(image|img|photo|picture)ids?")
_LIKE_IMAGE = re.compile(".*(image|img|photo|picture)s?(ids?|idx|index|indices|indexes|keys?|refs?|nos?)")
_ANNOTATION = re.compile(".*(annotation|anno|ann|annot|instance|object|obj|bbox|box|segment)s?(ids?|idx|index|refs?)")
_RELATIVE = re.compile(
    "(.*parent|child(ren)?|.*sibling|previous|prev|next|occluder|duplicate)s?(of)?(annotation|anno|ann)?(ids?|idx|index|refs?)?"
    "|(part|member|copy|duplicate|occluded|covered|linked|related|belongs)(of|by|to)(ids?)?"
)
_LISTS = re.compile("ids?|.*(image|img|photo|picture|annotation|train|val|test|split|fold|subset|sample).*")
_BY_IMAGE = re.compile("(.*(by|per)(image|img)(id)?)|((image|img)ids?(to|2).*)")
_NO_IDS = re.compile(
    "(?!image|img|photo|picture|train|val|test).*[a-z]ids?|.*(box|size|point|poly|shape|colou?r|roi).*"
)
_OF_OBJECTS = re.compile(".*(annotation|anno|instance|object|segment|(by|per)ann).*")
_CODES = re.compile("categor(y|ies)|class(es)?(names?)?|licen[sc]es?|supercategor(y|ies)|colou?rs?|palette")

OWN_KEY = "segpaste"
"""Key with what this package says of an entry."""
OF_ANNOTATIONS = "ids of annotations"
OF_SEVERAL = "several images in one entry"
NOT_FINITE = "NaN and infinite numbers in keys of objects, written as null"
UNCLEAR = "numbers that may be ids of images or annotations"
PATHS = "paths that end in the name of an image"
UNKNOWN = "ids of images that the dataset does not have"
ALONE = "an image that may have no copy, or several"


class Copy(NamedTuple):
    """Image of the written dataset.

    Attributes:
        source: id of its original.
        image_id: its own id.
        file_name: its own file name.
    """

    source: int
    image_id: int
    file_name: str


class CopiedTables:
    """Tables for a written dataset, and what is left out of them.

    Args:
        names: file name of each image of the original dataset, by id.
        copies: images of the written dataset.
        annotation_ids: returns the ids of the original annotations; called only if numbers could be among them.

    Attributes:
        left_out: number of entries that are left out, by table and reason.
    """

    def __init__(
        self, names: Mapping[int, str], copies: Sequence[Copy], annotation_ids: Callable[[], Iterable[int]]
    ) -> None:
        self.left_out = Counter[str]()
        self._names = names
        self._of_name = _unique((image_id, word) for image_id, name in names.items() for word in (name, _last(name)))
        self._of_stem = _unique((image_id, PurePosixPath(name).stem) for image_id, name in names.items())
        self._copies, self._annotation_ids = copies, annotation_ids
        self._annotations: set[int] | None = None

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
            return self._leave(path, 1, _reason(found, ALONE))
        if (images := self._keyed(value, path)) is not None:
            return self._by_image(value, path, images)
        if any(isinstance(reason, str) for reason in self._key_references(value, path)):
            return self._leave(path, len(value), UNCLEAR)
        parts = {key: self._copied(item, (*path, key)) for key, item in value.items()}
        return {key: item for key, item in parts.items() if item is not _GONE}

    def _list(self, items: Sequence[Any], path: tuple[str, ...], found: set[int | str]) -> Any:
        """Return the rows that name no image, then those of each copy; rows with ``id`` are numbered again."""
        if found == {UNCLEAR} and not any(isinstance(item, dict | list) for item in items):
            return self._leave(path, len(items), UNCLEAR)
        rows: list[Any] = []
        of_image: dict[int, list[Any]] = {}
        for item in items:
            refers = set(self._scan(item, path))
            if not refers or not self._is_row(item, path):
                rows.append(self._copied(item, path))
            elif len(refers) == 1 and isinstance(source := next(iter(refers)), int):
                of_image.setdefault(source, []).append(item)
            else:
                self._leave(path, 1, _reason(refers, OF_SEVERAL))
        rows = [row for row in rows if row is not _GONE]
        for copy in self._copies:
            rows += [self._renamed(row, path, copy) for row in of_image.get(copy.source, ())]
        if not rows:
            return _GONE if not of_image else rows
        is_numbered = bool(of_image) and any(isinstance(row, dict) and "id" in row for row in rows)
        return [{**row, "id": number} for number, row in enumerate(rows, start=1)] if is_numbered else rows

    def _by_image(self, value: JsonRow, path: tuple[str, ...], images: Mapping[str, int | None]) -> JsonRow:
        """Return an object whose keys are images for the copies of these."""
        kept: dict[int, list[str]] = {}
        for key, source in images.items():
            refers = set(self._scan(value[key], path))
            if source is None or refers - {source}:
                self._leave(path, 1, UNKNOWN if source is None else _reason(refers, OF_SEVERAL))
            else:
                kept.setdefault(source, []).append(key)
        return {
            self._word(key, copy): self._renamed(value[key], path, copy)
            for copy in self._copies
            for key in kept.get(copy.source, ())
        }

    def _leave(self, path: Sequence[str], num: int, reason: str) -> Any:
        self.left_out[f"table '{'.'.join(path)}': {reason}"] += num
        return _GONE

    def _scan(self, value: Any, path: tuple[str, ...]) -> Iterator[int | str]:
        """Yield the ids of the images that a value refers to, and reasons why it cannot be copied."""
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

    def _scalar(self, value: Any, key: str) -> int | str | None:
        """Return the id of the image that a text or number refers to, a reason, or None."""
        word = _letters(key)
        if value is None or isinstance(value, bool):
            return None
        if _ANNOTATION.fullmatch(word):
            return OF_ANNOTATIONS
        if isinstance(value, str) and (source := self._of_name.get(value)) is not None:
            return source
        number = _number(value)
        if _IMAGE_KEY.fullmatch(word):
            if number in self._names:
                return number
            return UNKNOWN if _IMAGE_ID.fullmatch(word) else None
        if isinstance(value, str) and "://" not in value and ("/" in value or "\\" in value):
            last = re.split(r"[/\\]", value)[-1]
            return PATHS if last in self._of_name and "." in last else None
        return UNCLEAR if number is not None and _LIKE_IMAGE.fullmatch(word) else None

    def _key_references(self, value: JsonRow, path: tuple[str, ...]) -> Iterator[int | str]:
        """Yield the references in the keys of an object."""
        if (images := self._keyed(value, path)) is not None:
            yield from (UNKNOWN if source is None else source for source in images.values())
            return
        numbers = [number for number in map(_number, value) if number is not None]
        is_numbered = len(numbers) == len(value) and not _CODES.fullmatch(_letters(path[-1]))
        if is_numbered and any(number in self._names or number in self._all_annotations() for number in numbers):
            yield UNCLEAR

    def _keyed(self, value: JsonRow, path: tuple[str, ...]) -> Mapping[str, int | None] | None:
        """Return the image of each key of an object whose keys are images, else None."""
        by_name = {key: self._of_name.get(key) for key in value}
        if any(source is not None for source in by_name.values()):
            return by_name
        numbers = {key: _number(key) for key in value}
        is_said = any(_BY_IMAGE.fullmatch(_letters(name)) for name in path)
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
        word = _letters(path[-1])
        if not items or not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            return False
        if _IMAGE_KEY.fullmatch(word) or _ANNOTATION.fullmatch(word) or _NO_IDS.fullmatch(word):
            return False
        is_named = any(_LISTS.fullmatch(_letters(name)) for name in path)
        return is_named and all(item in self._names or item in self._all_annotations() for item in items)

    def _all_annotations(self) -> set[int]:
        if self._annotations is None:
            self._annotations = set(self._annotation_ids())
        return self._annotations

    def _renamed(self, value: Any, path: tuple[str, ...], copy: Copy) -> Any:
        """Return a value that refers to one image for a copy of that image."""
        if isinstance(value, list):
            return [self._renamed(item, path, copy) for item in value]
        if isinstance(value, dict):
            images = self._keyed(value, path) or {}
            return {
                (self._word(key, copy) if key in images else key): self._renamed(item, (*path, key), copy)
                for key, item in value.items()
            }
        return value if self._scalar(value, path[-1]) is None else self._word(value, copy)

    def _word(self, value: Any, copy: Copy) -> Any:
        """Return a reference to a copy in the form of a reference to its original: number, digits, name or stem."""
        if not isinstance(value, str):
            return copy.image_id
        name = self._names[copy.source]
        if value == name:
            return copy.file_name
        if self._of_name.get(value) == copy.source:
            return PurePosixPath(copy.file_name).name
        if _number(value) == copy.source:
            return str(copy.image_id).zfill(len(value) if value.startswith("0") else 1)
        return PurePosixPath(copy.file_name).stem


class _Gone:
    """Value that is left out."""


_GONE = _Gone()


def renamed(value: Any, new_names: Mapping[str, str]) -> Any:
    """Return JSON with new names of images, in texts and keys that are such names."""
    if isinstance(value, list):
        return [renamed(item, new_names) for item in value]
    if isinstance(value, dict):
        return {new_names.get(key, key): renamed(item, new_names) for key, item in value.items()}
    return new_names.get(value, value) if isinstance(value, str) else value


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts in JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from value if isinstance(value, dict) else ()
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


def refers_to_annotations(value: Any, key: str = "") -> bool:
    """Return whether JSON has keys that name annotations by their ids."""
    if isinstance(value, dict):
        is_keyed = bool(value) and _OF_OBJECTS.fullmatch(_letters(key)) and None not in map(_number, value)
        return bool(is_keyed) or any(refers_to_annotations(item, name) for name, item in value.items())
    if isinstance(value, list):
        return any(refers_to_annotations(item, key) for item in value)
    return value is not None and _ANNOTATION.fullmatch(_letters(key)) is not None


def without_references(row: JsonRow, lost: Counter[str]) -> JsonRow:
    """Return the further keys of an annotation without those whose numbers are ids of annotations, which are counted.

    NaN and infinite numbers, which are not JSON, become null, and are counted too.
    They are for annotations that get new ids: with the old ones, a key such as ``parent`` would name another object.
    """
    kept: JsonRow = {}
    for key, value in row.items():
        word = _letters(key)
        if key != OWN_KEY and (_ANNOTATION.fullmatch(word) or _RELATIVE.fullmatch(word)) and _are_numbers(value):
            lost[f"key '{key}' of objects: {OF_ANNOTATIONS}"] += 1
        elif key != OWN_KEY:
            kept[key] = _inside(value, lost)
        else:
            kept[key] = value
    return kept


def _inside(value: Any, lost: Counter[str]) -> Any:
    if isinstance(value, dict):
        return without_references(value, lost)
    if isinstance(value, list):
        return [_inside(item, lost) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        lost[NOT_FINITE] += 1
        return None
    return value


def _are_numbers(value: Any) -> bool:
    """Return whether a value is a whole number, in digits too, or a list of these."""
    if isinstance(value, list):
        return bool(value) and all(map(_are_numbers, value))
    return isinstance(value, int | float | str) and _number(value) is not None


def _unique(pairs: Iterable[tuple[int, str]]) -> dict[str, int]:
    """Return the image of each word, of words that only one image has."""
    found: dict[str, set[int]] = {}
    for image_id, word in pairs:
        found.setdefault(word, set()).add(image_id)
    return {word: ids.pop() for word, ids in found.items() if len(ids) == 1}


def _last(name: str) -> str:
    return PurePosixPath(name).name


def _own_image(row: JsonRow) -> int | None:
    return next((_number(value) for key, value in row.items() if _IMAGE_ID.fullmatch(_letters(key))), None)


def _number(value: Any) -> int | None:
    """Return a whole number, or the one that a text of digits is, else None."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() else None
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return int(value) if is_whole else None


def _letters(key: str) -> str:
    """Return a key in lower case without what separates its words; ``img_id`` and ``imgId`` are equal."""
    return re.sub("[^a-z0-9]", "", key.lower()).rstrip("0123456789") or key.lower()


def _reason(found: Iterable[int | str], default: str) -> str:
    return min((reason for reason in found if isinstance(reason, str)), default=default)
