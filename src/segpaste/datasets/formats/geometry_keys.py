"""Keys of entries that hold places in an image: boxes, points, outlines, angles, cameras, sizes.

Samples have no field for them, so nothing moves them. They are copied where image and object are as they were read.
Where a paste, a crop, a flip or another size makes them wrong, they are left out and counted by key.

Not for ids of others, see `segpaste.datasets.formats.references`, nor for the keys of COCO, which are made anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.references import OWN_KEY, Owner, letters

GEOMETRY = "geometry of the original"
"""Reason why a key is left out of what was moved, cut or pasted over."""
CAMERA_KEY = "camera_intrinsics"
"""Key of an image whose numbers samples hold, if the dataset has files of cameras."""

_PLACES = re.compile(
    "(.*(bbox|box|boxes|bndbox|rect|rectangle|polygon|polyline|line|lines|segmentation|mask|rle|contour|outline|ellipse|"
    "circle|shape|region|roi|crop|window|point|pt|keypoint|kpt|kp|landmark|joint|corner|vertex|vertices|vertice|centre|"
    "center|centroid|coordinate|coord|skeleton|gaze|axis|axes|quad|hull|extent|bound|cuboid|quaternion)(es|s)?(xyxy|xywh|"
    "cxcywh)?|k|pose|.*(intrinsic|extrinsic|calibration|calib|cameramatrix|camera|homography|projectionmatrix)s?|"
    ".*[23]d(cam|camera|world|image)?|rcam|(xyxy|xywh|cxcywh)(xyxy|xywh)?)"
)
"""Keys of lists and objects of numbers."""
_OF_OBJECTS = re.compile("location|position|dimensions?|translation")
_OF_IMAGES = re.compile("(image|img|original|photo)?(size|resolution|dimensions)")
_ANGLES = re.compile(
    ".*(rotation|(?<!tri)(?<!rect)(?<!quadr)(?<!t)angle|orientation|theta|yaw|heading|tilt)(deg|degrees|rad|radians|y)?|focal(length)?(x|y|px)?"
)
"""Keys of single numbers."""
_POINTS = ({"x", "y"}, {"cx", "cy"}, {"x1", "y1"}, {"xcenter", "ycenter"})
"""Keys of single numbers that are a place together; with them stand those of `_SIDES`."""
_CORNERS = ({"xmin", "ymin"}, {"xtl", "ytl"}, {"left", "top"})
"""Keys of single numbers that are a place together with one of `_SIDES`."""
_SIDES = frozenset({"w", "h", "width", "height", "xmax", "ymax", "xbr", "ybr", "right", "bottom", "x", "y", "fx", "fy"})


def without_geometry(row: Mapping[str, Any], owner: Owner, lost: Counter[str]) -> JsonRow:
    """Return the further keys of an entry without those that hold places in the image, which are counted by key.

    Args:
        row: the further keys.
        owner: the table of the entry.
        lost: the counts.
    """
    found: JsonRow = {}
    corners = _corners({key.lower() for key in row})
    for key, value in row.items():
        if key != OWN_KEY and (_is_place(key, value, owner) or (key.lower() in corners and _is_number(value))):
            lost[f"key '{key}' of {owner}: {GEOMETRY}"] += 1
        else:
            found[key] = value if key == OWN_KEY else _inside(value, owner, lost)
    return found


def _inside(value: Any, owner: Owner, lost: Counter[str]) -> Any:
    if isinstance(value, dict):
        return without_geometry(value, owner, lost)
    if isinstance(value, list):
        return [_inside(item, owner, lost) for item in value]
    return value


def _corners(names: set[str]) -> set[str]:
    """Return the keys of an object that are a box or a point together."""
    own, sides = set[str]().union(*(pair for pair in _POINTS if pair <= names)), names & _SIDES
    own.update(*(pair for pair in _CORNERS if pair <= names and sides))
    return own | sides if own else own


def _is_place(key: str, value: Any, owner: Owner) -> bool:
    if isinstance(value, list | dict):
        return _is_name(key, owner) and _has_numbers(value)
    return _is_number(value) and _ANGLES.fullmatch(letters(key)) is not None


@lru_cache(maxsize=4096)
def _is_name(key: str, owner: Owner) -> bool:
    word, more = letters(key), _OF_IMAGES if owner == "images" else _OF_OBJECTS
    return any(pattern.fullmatch(word) for pattern in (_PLACES, _ANGLES, more))


def _has_numbers(value: dict[str, Any] | list[Any]) -> bool:
    """Return whether a value holds numbers, in digits too; an id, and one number of a list, are no place."""
    if isinstance(value, dict):
        inside = [item for name, item in value.items() if name.lower() != "id"]
        least = 1
    else:  # a list of texts is words, such as those of a sign
        inside, least = [item for item in value if not isinstance(item, str)], 2
    if sum(map(_is_number, inside)) >= least:
        return True
    return any(_has_numbers(item) for item in inside if isinstance(item, dict | list))


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float) and not isinstance(value, bool)
