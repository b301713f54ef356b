"""Rules of all tools about the XML files of Pascal VOC, which have boxes."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools.rules import Rule

_CONVERT = "convert with segpaste: segpaste convert DATASET --to coco --out DIR"
_rule = partial(Rule, "voc", advice=_CONVERT)


def _difficult(says: str) -> Rule:
    return _rule("difficult", "crowd_kept", says)


def _thin(advice: str = _CONVERT) -> Rule:
    says = (
        "boxes are taken to count from 0, but those of VOC count from 1 and include both ends: each lacks a pixel at "
        "the left and at the top, and one of a pixel has no area"
    )
    return Rule("voc", "thin", "shifted", says, advice)


_UNREAD = "'difficult' is not read, so that the object is one as any other"
_BY_NAME = "the image is that of <filename>, whatever the XML file is called, and one that is not there is left out"

SUPERVISION = (
    _difficult(_UNREAD),
    _rule(
        "oriented_as_stored",
        "shifted",
        "images are turned by their EXIF orientation, and boxes on stored pixels are not",
    ),
)
GLOBOX = (
    _difficult(_UNREAD),
    _thin(),
    _rule("other_filename", "image_lost", _BY_NAME),
    _rule("no_filename", "stops", "reading ends with a ParsingError"),
    _rule("no_size", "stops", "reading ends with a ParsingError"),
    _rule("swapped_box", "stops", "reading ends with an AssertionError"),
)
LABELFORMAT = (
    _difficult(_UNREAD),
    _thin(),
    _rule("other_filename", "image_lost", _BY_NAME),
    _rule("no_filename", "stops", "reading ends with a ParseError"),
    _rule("no_size", "stops", "reading ends with a ParseError"),
    _rule("swapped_box", "shifted", "the corners are taken as they come, so that the box has a width below 0"),
)
DATUMARO = (
    _difficult("'difficult' is an attribute of an object, which pycocotools and trainers do not read"),
    _thin("import with coordinate_mode='voc-one-based', or convert with segpaste"),
    _rule("other_filename", "image_lost", _BY_NAME),
    _rule("swapped_box", "shifted", "the corners are taken as they come, so that the box has a width below 0"),
)
