"""Classes of a dataset of maps, and decoding of the values of maps into classes of pixels and objects.

Names, ids and colours of classes are those of a declaration, or of a list in a file. Decoding is done by pure functions
of arrays; `segpaste.datasets.formats.maps.dataset` reads the files.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError, first_few
from segpaste.datasets.formats.maps.declaration import ClassEntry, InstanceFiles, SemanticFiles
from segpaste.datasets.formats.stored_pixels import (
    MOST_DIRECT,
    color_code,
    color_of,
    distinct,
    one_channel,
    packed_colors,
)
from segpaste.datasets.formats.text_files import class_name_of, is_background, read_lines

NO_CLASS = -1
"""Label of void pixels. It is not 255, as in semantic maps of samples, because 255 may be a class here."""


@dataclass(frozen=True)
class Classes:
    """Classes by ascending id: class i is at position i.

    Attributes:
        names: the name of each class.
        ids: the value of each class in the files.
        colors: (R, G, B) of each class; None without colours.
    """

    names: tuple[str, ...]
    ids: tuple[int, ...]
    colors: tuple[tuple[int, int, int], ...] | None = None

    @classmethod
    def of_entries(cls, entries: Sequence[ClassEntry], place: str) -> Classes:
        """Number the classes of a declaration.

        Raises:
            DatasetError: two classes have the same id, or only some classes have a colour.
        """
        numbered = sorted(
            ((position if entry.id is None else entry.id, entry) for position, entry in enumerate(entries)),
            key=lambda pair: pair[0],
        )
        ids = tuple(number for number, _ in numbered)
        if len(set(ids)) != len(ids):
            twice = next(number for number in ids if ids.count(number) > 1)
            raise DatasetError(f"{place}: expected a unique id for each class, got {twice} twice; correct one")
        colors = tuple(entry.color for _, entry in numbered if entry.color is not None)
        if colors and len(colors) != len(ids):
            raise DatasetError(f"{place}: expected a colour for all classes or for none; add the missing ones")
        return cls(tuple(entry.name for _, entry in numbered), ids, colors or None)

    def label_named(self, name: str, place: str) -> int:
        """Return the class of a name.

        Raises:
            DatasetError: there is no such class.
        """
        if name not in self.names:
            raise DatasetError(
                f"{place}: expected one of the classes {', '.join(self.names):.120}, got {name!r}; add it to 'classes'"
            )
        return self.names.index(name)

    @cached_property
    def label_of(self) -> dict[int, int]:
        """Class by id."""
        return {number: label for label, number in enumerate(self.ids)}

    def labels_of(self, ids: NDArray[np.int64], void: Sequence[int], place: str) -> NDArray[np.int64]:
        """Return the class of each id, `NO_CLASS` for void.

        Args:
            ids: an array of any shape.
            void: ids without a class.
            place: path of the file, for errors.

        Raises:
            DatasetError: an id is neither of a class nor void.
        """
        found = distinct(ids)
        table = dict.fromkeys(void, NO_CLASS) | self.label_of
        strange = [number for number in found if number not in table]
        if strange:
            raise DatasetError(
                f"{place}: expected the ids of classes, {_shown(self.ids)}, or void ones, {_shown(void)}, got "
                f"{_shown(strange)}; add them to 'classes' or to 'void'"
            )
        return np.array([table[number] for number in found], np.int64)[positions(ids, found)]


def positions(values: NDArray[np.int64], found: Sequence[int]) -> NDArray[np.int64]:
    """Return the position of each value among the distinct values, which are ascending and complete."""
    if not len(found) or found[-1] - found[0] >= MOST_DIRECT:
        return np.searchsorted(np.array(found, np.int64), values).astype(np.int64)
    table = np.zeros(found[-1] - found[0] + 1, np.int64)
    table[np.array(found) - found[0]] = np.arange(len(found))
    return np.asarray(table[values - found[0]])


def read_class_list(path: Path) -> tuple[ClassEntry, ...]:
    """Read a list of classes.

    Three forms are read: a name on each line, or a string of JSON, see `segpaste.datasets.formats.text_files`;
    ``R G B name`` on each line; and CSV with the columns name, r, g and b. Empty lines and those that start with ``#``
    are left out.

    Raises:
        DatasetError: the file is missing, or has another form.
    """
    try:
        lines = [line.strip() for line in read_lines(path)]
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a list of class names, found no such file; check 'classes'") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a text file of class names, could not read it ({error})") from error
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise DatasetError(f"{path}: expected a class name on each line, got no line; add them")
    if path.suffix.lower() == ".csv":
        return _of_csv(path, lines)
    words = [line.split(maxsplit=3) for line in lines]
    if all(len(row) == 4 and all(word.isdecimal() for word in row[:3]) for row in words):
        return tuple(ClassEntry(name=row[3], color=(int(row[0]), int(row[1]), int(row[2]))) for row in words)
    return tuple(ClassEntry(name=class_name_of(line)) for line in lines)


def _of_csv(path: Path, lines: list[str]) -> tuple[ClassEntry, ...]:
    rows = [{str(key).strip().lower(): value for key, value in row.items()} for row in csv.DictReader(lines)]
    try:
        return tuple(
            ClassEntry(name=row["name"].strip(), color=(int(row["r"]), int(row["g"]), int(row["b"]))) for row in rows
        )
    except (KeyError, ValueError, AttributeError):
        raise DatasetError(f"{path}: expected the columns name, r, g and b, got {lines[0]!r:.60}; correct it") from None


def _shown(values: Sequence[int]) -> str:
    return first_few(values, 8) or "none"


Ids = NDArray[np.int64]


ON_VOID = "objects of maps wholly on void or background, which are left out"
PARTLY_ON_VOID = "objects of maps partly on void or background, whose masks end there"
OF_CLASSES = "objects of maps with pixels of several classes, which become an object of each"

WITHOUT_OBJECT = "pixels of classes without an object, of maps with more classes than samples hold, in images"
OF_STUFF = "objects of maps whose class is stuff, which become pixels of it"


@dataclass(frozen=True)
class Objects:
    """Objects of an image, in ascending order of their ids.

    Attributes:
        ids: the value of each object in the files, or the number of its file, from 1.
        labels: the class of each object.
        owner: position of the object of each pixel from 1, 0 without an object, [H, W] int64; None if objects may
            overlap.
        masks: [N, H, W] bool.
        classes: the class of each pixel if the map gives it, else `NO_CLASS`, [H, W] int64; None if the map gives no
            classes.
        num_empty: number of files without a pixel, which are not objects.
        unread: number of objects that the map has otherwise, by description.
        void: pixels without a class that no object has, if samples cannot hold the classes of pixels, [H, W] bool.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    owner: Ids | None
    masks: NDArray[np.bool_]
    classes: Ids | None = None
    num_empty: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    void: NDArray[np.bool_] | None = None

    def without_classes(self, semantic: Ids, background: int | None) -> Objects:
        """Return the objects with what is lost of the classes of pixels, which samples cannot hold.

        Args:
            semantic: the class of each pixel.
            background: class of the background; None without one.
        """
        free = (self.owner == 0) if self.owner is not None else ~self.masks.any(0)
        if free.shape != semantic.shape:
            return self
        void = free & (semantic == NO_CLASS)
        lost = {WITHOUT_OBJECT: int((free & ~void & (semantic != background)).any())}
        return replace(self, unread={**self.unread, **lost}, void=void)

    def only(self, kept: Sequence[bool]) -> Objects:
        """Return some of the objects; all pixels keep their class."""
        if all(kept):
            return self
        new = np.array([0, *(np.cumsum(kept) * np.array(kept, np.int64))], np.int64)
        return replace(
            self,
            ids=tuple(number for number, keep in zip(self.ids, kept, strict=True) if keep),
            labels=tuple(label for label, keep in zip(self.labels, kept, strict=True) if keep),
            owner=None if self.owner is None else new[self.owner],
            masks=self.masks[np.array(kept, bool)],
        )


def semantic_labels(values: NDArray[np.generic], files: SemanticFiles, classes: Classes, place: str) -> Ids:
    """Return the class of each pixel, [H, W] int64, `NO_CLASS` for void.

    Raises:
        DatasetError: a value is neither a class nor void, or the array has the wrong shape.
    """
    if files.encoding == "color":
        return _of_colors(values, files, classes, place)
    void = [value for value in files.void if isinstance(value, int)]
    return classes.labels_of(_single_channel(values, place), void, place)


def read_objects(
    values: NDArray[np.generic], files: InstanceFiles, classes: Classes, semantic: Ids | None, place: str
) -> Objects:
    """Return the objects of a map.

    Args:
        values: values as stored.
        files: declaration of the values.
        classes: classes of the dataset.
        semantic: the class of each pixel, see `semantic_labels`.
        place: path of the file, for errors.

    Raises:
        DatasetError: a class is unknown, or the array has the wrong shape.
    """
    if files.encoding == "number":
        return _numbered(values, files, classes, semantic, place)
    class_ids, numbers, keys = _split(values, files, place)
    labels = classes.labels_of(class_ids, files.void, place)
    is_object = (numbers > 0) & (labels != NO_CLASS)
    found = _gathered(np.where(is_object, keys, 0), labels, labels)
    return replace(found, unread={ON_VOID: len(distinct(keys[(numbers > 0) & ~is_object]))})


def objects_of_masks(pictures: Sequence[NDArray[np.generic]], labels: Sequence[int]) -> Objects:
    """Return the objects of an image from a file for each, nonzero in the mask; empty masks are left out."""
    masks = [_is_in_mask(one_channel(picture)) for picture in pictures]
    kept = [i for i, mask in enumerate(masks) if mask.any()]
    shape = masks[0].shape if masks else (0, 0)
    return Objects(
        tuple(i + 1 for i in kept),
        tuple(labels[i] for i in kept),
        None,
        np.array([masks[i] for i in kept], bool).reshape(len(kept), *shape),
        num_empty=len(masks) - len(kept),
    )


def _is_in_mask(picture: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return the pixels of a mask, nonzero in grey or colour; an alpha channel does not count."""
    if picture.ndim == 2:
        return np.asarray(picture != 0)
    num_colors = {2: 1, 4: 3}.get(picture.shape[2], picture.shape[2])
    return np.asarray((picture[..., :num_colors] != 0).any(-1))


def _split(values: NDArray[np.generic], files: InstanceFiles, place: str) -> tuple[Ids, Ids, Ids]:
    """Return the class id, the number (0: no object) and a key of each pixel; distinct objects have distinct keys."""
    if files.encoding == "class_number":
        stored = _single_channel(values, place)
        has_number = stored >= files.divisor
        return np.where(has_number, stored // files.divisor, stored), np.where(has_number, stored, 0), stored
    if values.ndim != 3 or values.shape[2] < (3 if files.encoding == "ade20k" else 2) or values.dtype.kind not in "iu":
        raise DatasetError(
            f"{place}: expected an image with channels of classes and objects, got {values.dtype} "
            f"{list(values.shape)}; save it without a palette"
        )
    wide = values.astype(np.int64)
    if files.encoding == "ade20k":
        class_ids, numbers = wide[..., 0] // 10 * 256 + wide[..., 1], wide[..., 2]
    else:
        class_ids, numbers = wide[..., 0], wide[..., 1]
    return class_ids, numbers, class_ids * 65536 + numbers


def _numbered(
    values: NDArray[np.generic], files: InstanceFiles, classes: Classes, semantic: Ids | None, place: str
) -> Objects:
    """Return the objects of a map of numbers; a number with two classes is two objects.

    Where the semantic map is void or background, there is no object.
    """
    stored = _single_channel(values, place)
    numbers = np.where((stored > 0) & ~np.isin(stored, files.void), stored, 0)
    if files.class_name is not None:
        of_pixel = np.full(numbers.shape, classes.label_named(files.class_name, place), np.int64)
        return _gathered(numbers, of_pixel, None)
    assert semantic is not None
    if semantic.shape != numbers.shape:
        raise DatasetError(f"{place}: expected the size of the semantic map, {_size(semantic)}, got {_size(numbers)}")
    num = len(classes.names)
    is_object = (numbers > 0) & (semantic != NO_CLASS)
    if num and is_background(classes.names[0]):
        is_object &= semantic != 0
    found = _gathered(np.where(is_object, numbers * num + semantic, 0), semantic, None)
    ids = tuple(key // num for key in found.ids)
    elsewhere = {*distinct(numbers[(numbers > 0) & ~is_object])}
    partly = elsewhere & {*ids}
    several = sum(count > 1 for count in Counter(ids).values())
    unread = {ON_VOID: len(elsewhere - partly), PARTLY_ON_VOID: len(partly), OF_CLASSES: several}
    return replace(found, ids=ids, unread=unread)


def _gathered(keys: Ids, labels: Ids, classes: Ids | None) -> Objects:
    """Return an object for each key above 0; all pixels of a key have one class."""
    present = distinct(keys)
    found = [key for key in present if key != 0]
    owner = positions(keys, present) + (0 if present[:1] == [0] else 1)
    flat = owner.ravel()
    first = np.zeros(len(found) + 1, np.int64)
    first[flat[::-1]] = np.arange(flat.size)[::-1]  # reversed: the first pixel of an object is written last
    of_object = labels.ravel()[first[1:]] if flat.size else np.zeros(0, np.int64)
    masks = owner.astype(np.int32) == np.arange(1, len(found) + 1, dtype=np.int32)[:, None, None]
    return Objects(tuple(found), tuple(of_object.tolist()), owner, masks, classes)


def _of_colors(values: NDArray[np.generic], files: SemanticFiles, classes: Classes, place: str) -> Ids:
    if classes.colors is None:
        raise DatasetError(f"{place}: expected classes with colours for maps of colours; add 'color' to each class")
    if values.ndim == 3 and values.shape[2] == 2:  # grey with alpha
        values = values[..., [0, 0, 0]]
    if values.ndim != 3 or values.shape[2] < 3 or values.dtype != np.uint8:
        raise DatasetError(f"{place}: expected an image of colours, got {values.dtype} {list(values.shape)}")
    packed = packed_colors(values)
    by_color = Classes(classes.names, tuple(map(color_code, classes.colors)))
    void = [color_code(value) for value in files.void if not isinstance(value, int)]
    strange = [v for v in distinct(packed) if v not in by_color.label_of and v not in void]
    if strange:
        shown = ", ".join(str(color_of(code)) for code in strange[:4])
        raise DatasetError(
            f"{place}: expected the colours of classes or void ones, got {shown}; add them to 'classes' or to 'void' "
            "(JPEG changes colours)"
        )
    return by_color.labels_of(packed, void, place)


def _single_channel(values: NDArray[np.generic], place: str) -> Ids:
    values = one_channel(values)
    is_whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.floor(values)).all()))
    if values.ndim != 2 or not is_whole:
        raise DatasetError(
            f"{place}: expected whole numbers [H, W], got {values.dtype} {list(values.shape)}; if these are colours, "
            "declare 'encoding: color'"
        )
    return values.astype(np.int64)


def _size(values: Ids) -> str:
    return f"{values.shape[1]} x {values.shape[0]}"


def ade20k_objects(path: Path) -> Any:
    """Return the objects and parts of one image of the full ADE20K, from its JSON file."""
    return json.loads(path.read_bytes().decode("utf-8", "replace"))["annotation"]["object"]
