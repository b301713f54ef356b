"""Keys of entries whose numbers are ids of images or annotations, and their values in a dataset with other ids.

For entries of images, annotations and categories, whose keys are copied one by one; see
`segpaste.datasets.formats.copied_tables` for other tables. Which numbers are ids is decided here for both.

A reference is certain if its key says so (``prev_image_id``, ``parent``, ``annotation_ids``), or if its value is the
file name of an image. It becomes that of the counterpart; one without a counterpart, or with several, is left out and
counted. So is a number that may be an id of something else. Zero and negative numbers that are no ids stay: they say
that there is nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

from segpaste.datasets.entries import JsonRow

Owner = Literal["images", "objects", "categories"]
Kind = Literal["image", "may be an image", "annotation", "unclear"]
KINDS: frozenset[Kind] = frozenset({"image", "may be an image", "annotation", "unclear"})
IMAGE_KINDS: frozenset[Kind] = frozenset({"image", "may be an image"})

_IMAGE = "(image|img|photo|picture)"
ANNOTATIONS = re.compile(".*(annotation|anno|ann|annot)s?(ids?|refs?)")
"""Keys of ids of annotations."""
OF_OBJECTS = re.compile(".*(annotation|anno|ann|annot|instance|object|obj|bbox|box|segment)s?(ids?|idx|index|refs?)")
"""Keys of ids or positions of annotations, or of something else, such as tracks."""
_RELATIVE = re.compile(
    "(.*parent|child(ren)?|.*sibling|previous|prev|next|occluder|duplicate)s?(of)?(annotation|anno|ann)?(ids?|idx|index|refs?)?"
    "|(part|member|copy|duplicate|occluded|covered|linked|related|belongs|same|held|carried|worn|attached|overlaps|"
    "overlapping)(of|by|to|as|with)(ids?)?|overlappings?ids?"
    "|(matched|matching|linked|other|paired|associated|overlapping|neighbou?r|same)(annotation|anno|ann|annot)s?"
)
IMAGES = re.compile(
    f"({_IMAGE}ids?)|((previous|prev|next|parent|child(ren)?|sibling|first|last|(key|ref|reference|start|end)?frame|ref|"
    "reference|example|sample|cover|preview|key|left|right|paired|pair|related|similar|duplicate|neighbou?r|template|query|anchor|before|after|start|"
    f"end|stereo)s?(of)?(frame)?{_IMAGE}(ids?|refs?)?)"
)
"""Keys of ids of images."""
_LIKE_IMAGES = re.compile(f"(.*{_IMAGE}s?ids?)|{_IMAGE}")
_NEIGHBOURS = re.compile(
    "(previous|prev|next|parent|child(ren)?|sibling|first|last)s?(of)?(frame)?(ids?|idx|index|refs?)?"
    "|(stereo|paired|duplicate|similar|linked|related|same)(pair|of|to|as)s?(ids?|refs?)?|(pair|neighbou?r|keyframe|twin)s?"
    "|(left|right|pair(ed)?|stereo|ref(erence)?|source|src|orig(inal)?|duplicate|similar|related|neighbou?r|key|keyframe|"
    "anchor|query|before|after|start|end|rgb|thermal|depth|infrared|ir|nir|twin|match(ed|ing)?)s?(frame|view)?"
    "(ids?|idx|index|refs?)"
)
_BY_ANNOTATION = re.compile("(.*(by|per)(annotation|anno|ann)s?(ids?)?)|((annotation|anno|ann)s?ids?(to|2).*)")

OWN_KEY = "segpaste"
"""Key with what this package says of an entry."""
OF_ANNOTATIONS = "ids of annotations"
OF_IMAGES = "ids of images"
UNCLEAR = "numbers that may be ids of images or annotations"
UNKNOWN = "ids of images that the dataset does not have"
NO_IMAGE = "ids of images that have no copy, or several"
NO_ANNOTATION = "ids of annotations that have no copy, or several"


class Copy(NamedTuple):
    """Image of the written dataset.

    Attributes:
        source: id of its original.
        image_id: its own id.
        file_name: its own file name.
        is_original: True if it is the original, unchanged.
    """

    source: int
    image_id: int
    file_name: str
    is_original: bool = False


class WrittenAnnotation(NamedTuple):
    """Annotation of the written dataset.

    Attributes:
        copy: its image.
        annotation_id: its own id.
        is_pasted: True if it is made of an annotation of another image.
    """

    copy: Copy
    annotation_id: int
    is_pasted: bool = False


class Counterparts(Protocol):
    """Counterparts, in a written dataset, of the images and annotations of the one that was read."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """Kinds of references that are changed; others stay as they are."""

    def is_image(self, number: int) -> bool:
        """Return whether the dataset has an image of this id."""

    def image(self, number: int) -> int | None:
        """Return the id of the only counterpart of an image; None without one, or with several."""

    def annotation(self, number: int) -> int | None:
        """Return the id of the only counterpart of an annotation; None without one, or with several."""

    def name(self, text: str) -> str | None:
        """Return the file name for that of an image; the same text if it names none; None without a counterpart."""


@lru_cache(maxsize=4096)
def kind_of(owner: Owner, key: str) -> Kind | None:
    """Return what the numbers of a key of an entry refer to, None if nothing."""
    word = letters(key)
    if key == OWN_KEY:
        return None
    if ANNOTATIONS.fullmatch(word):
        return "annotation"
    if owner == "objects" and _RELATIVE.fullmatch(word):
        return "annotation"
    if owner == "objects" and OF_OBJECTS.fullmatch(word):
        return "unclear"
    if IMAGES.fullmatch(word):
        return "image"
    is_like = _LIKE_IMAGES.fullmatch(word) or (owner == "images" and _NEIGHBOURS.fullmatch(word))
    return "may be an image" if is_like else None


def refers(row: Mapping[str, Any], owner: Owner, own: Collection[str] = ()) -> bool:
    """Return whether an entry has keys beside its ``own`` ones that may have ids or file names of others."""
    return any(key != OWN_KEY and key not in own and _refers(value, key, owner) for key, value in row.items())


def _refers(value: Any, key: str, owner: Owner) -> bool:
    if isinstance(value, str) and is_file_name(value):
        return True
    if isinstance(value, dict):
        return _is_by_annotation(value, key) or refers(value, owner)
    if isinstance(value, list):
        is_list = _kind(owner, key, value) == "annotation" and are_numbers(value)
        return is_list or any(_refers(item, key, owner) for item in value)
    return kind_of(owner, key) is not None and number_of(value) is not None


def _kind(owner: Owner, key: str, value: Any) -> Kind | None:
    """Return what a value refers to; a list of numbers called ``annotations`` is one of ids, one number is a count."""
    is_list = isinstance(value, list) and letters(key) in ("annotations", "anns") and are_numbers(value)
    return "annotation" if is_list else kind_of(owner, key)


class _Gone:
    """Value that is left out."""


GONE = _Gone()


class _Without(NamedTuple):
    """Counterparts of nothing: references of these kinds are left out."""

    kinds: frozenset[Kind]

    def is_image(self, number: int) -> bool:
        """Return False."""
        return False

    def image(self, number: int) -> None:
        """Return None."""

    def annotation(self, number: int) -> None:
        """Return None."""

    def name(self, text: str) -> str:
        """Return the same text."""
        return text


def without_references(
    row: Mapping[str, Any],
    owner: Owner,
    lost: Counter[str],
    own: Collection[str] = (),
    kinds: frozenset[Kind] = KINDS,
) -> JsonRow:
    """Return an entry without ids of others, for a format without ids of these kinds; they are counted by key."""
    return _row(row, owner, _Without(kinds), lost, own)


def resolved(
    row: Mapping[str, Any], owner: Owner, to: Counterparts, lost: Counter[str], own: Collection[str] = ()
) -> JsonRow:
    """Return an entry with the ids and file names of counterparts; what has none is left out and counted.

    Args:
        row: the entry.
        owner: the table that it is in.
        to: the counterparts.
        lost: the counts, by key and reason.
        own: keys of the entry that stay.
    """
    return _row(row, owner, to, lost, own)


def _row(
    row: Mapping[str, Any], owner: Owner, to: Counterparts, lost: Counter[str], own: Collection[str] = ()
) -> JsonRow:
    found = {
        key: value if key == OWN_KEY or key in own else _value(value, key, owner, to, lost)
        for key, value in row.items()
    }
    return {key: value for key, value in found.items() if value is not GONE}


def _value(value: Any, key: str, owner: Owner, to: Counterparts, lost: Counter[str], kind: Kind | None = None) -> Any:
    """Return a value of an entry with the ids of counterparts, or GONE; ``kind`` is that of the list it is in."""
    kind = kind or _kind(owner, key, value)
    if kind not in to.kinds:
        kind = None
    if kind is not None and (kind == "unclear" or isinstance(to, _Without)) and are_numbers(value):
        is_kept = kind == "may be an image" or _says_nothing(value)
        return value if is_kept else _leave(key, owner, OF_IMAGES if kind == "image" else OF_ANNOTATIONS, lost)
    if isinstance(value, dict):
        if _is_by_annotation(value, key) and "annotation" in to.kinds:
            return _by_annotation(value, key, owner, to, lost)
        return _row(value, owner, to, lost)
    if isinstance(value, list):
        items = [_value(item, key, owner, to, lost, kind) for item in value]
        return [item for item in items if item is not GONE]
    number = number_of(value)
    if kind is not None and number is not None:
        new = _counterpart(number, kind, to)
        if isinstance(new, str):
            return _leave(key, owner, new, lost)
        return value if new == number else in_form(value, new)
    if isinstance(value, str) and (name := to.name(value)) != value:
        return _leave(key, owner, NO_IMAGE, lost) if name is None else name
    return value


def _counterpart(number: int, kind: Kind, to: Counterparts) -> int | str:
    """Return the id of the counterpart of an id, the same number if it is none, or the reason to leave it out."""
    if kind == "annotation":
        new = to.annotation(number)
        return new if new is not None else number if number <= 0 else NO_ANNOTATION
    if not to.is_image(number):
        return UNKNOWN if kind == "image" and number > 0 else number
    if kind == "may be an image":
        return UNCLEAR
    new = to.image(number)
    return NO_IMAGE if new is None else new


def _by_annotation(value: JsonRow, key: str, owner: Owner, to: Counterparts, lost: Counter[str]) -> Any:
    """Return an object whose keys are ids of annotations with those of the counterparts."""
    if isinstance(to, _Without):
        return _leave(key, owner, OF_ANNOTATIONS, lost)
    kept: JsonRow = {}
    for word, item in value.items():
        new = to.annotation(int(word))
        if new is None:
            _leave(key, owner, NO_ANNOTATION, lost)
        elif (own := _value(item, key, owner, to, lost)) is not GONE:
            kept[str(in_form(word, new))] = own
    return kept


def _is_by_annotation(value: JsonRow, key: str) -> bool:
    return bool(value) and None not in map(number_of, value) and is_by_annotation(key)


@lru_cache(maxsize=4096)
def is_by_annotation(key: str) -> bool:
    """Return whether a key says that the keys of its object are ids of annotations."""
    return key != OWN_KEY and _BY_ANNOTATION.fullmatch(letters(key)) is not None


def _leave(key: str, owner: Owner, reason: str, lost: Counter[str]) -> _Gone:
    lost[f"key '{key}' of {owner}: {reason}"] += 1
    return GONE


def _says_nothing(value: Any) -> bool:
    number = number_of(value)
    return number is not None and number <= 0


def are_numbers(value: Any) -> bool:
    """Return whether a value is a whole number, in digits too, or a list of these."""
    if isinstance(value, list):
        return bool(value) and all(map(are_numbers, value))
    return number_of(value) is not None


def number_of(value: Any) -> int | None:
    """Return a whole number, or the one that a text of digits is, else None."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() else None
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return int(value) if is_whole else None


def in_form(value: Any, number: int) -> int | str:
    """Return a number in the form of another one: a number, or digits, with zeros in front of them."""
    if not isinstance(value, str):
        return number
    return str(number).zfill(len(value) if value.startswith("0") else 1)


def letters(key: str) -> str:
    """Return a key in lower case without what separates its words; ``img_id`` and ``imgId`` are equal."""
    return re.sub("[^a-z0-9]", "", key.lower()).rstrip("0123456789") or key.lower()


_FILE = re.compile(r"(?!.*://).*\.(jpe?g|jfif|png|bmp|tiff?|webp|gif|avif|jp2|mpo|ppm|pgm|exr)", re.I | re.S)


def is_file_name(text: str) -> bool:
    """Return whether a text may be the file name of an image."""
    return _FILE.fullmatch(text) is not None
