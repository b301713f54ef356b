"""Rendering of Cityscapes' polygons, ``*_gtFine_polygons.json``, to the map of ids that is published with them.

Source: Cordts et al., "The Cityscapes Dataset for Semantic Urban Scene Understanding", CVPR 2016, and the format of its
JSON files. Objects are drawn in file order, so later ones cover earlier ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.text_files import read_json

_GROUP = "group"


def read_polygons(path: Path, ids: Mapping[str, int], things: Collection[str], divisor: int = 1000) -> NDArray[Any]:
    """Draw the polygons of a file.

    Args:
        path: the JSON file.
        ids: the id of each class; other labels, and negative ids, are not drawn.
        things: the classes that have instances.
        divisor: the value of a thing is its class id times this, plus its number within the class, from 0.

    Returns:
        [H, W] int64: 0 for unlabelled; the class id for stuff and for groups of things, such as ``cargroup``.

    Raises:
        DatasetError: the file is missing or invalid.
    """
    document = _read(path)
    try:
        size = int(document["imgWidth"]), int(document["imgHeight"])
        objects = [
            (str(row["label"]), [(float(x), float(y)) for x, y in row["polygon"]])
            for row in document["objects"]
            if not row.get("deleted")
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"{path}: expected imgWidth, imgHeight, and objects with label and polygon, got {error!r}; replace the file"
        ) from error
    picture = Image.new("I", size, 0)
    drawing = ImageDraw.Draw(picture)
    numbers: Counter[str] = Counter()
    for label, polygon in objects:
        is_group = label not in ids and label.endswith(_GROUP)
        name = label.removesuffix(_GROUP) if is_group else label
        value = ids.get(name, -1)
        if value < 0 or len(polygon) < 2:
            continue
        if name in things and not is_group:
            value = value * divisor + numbers[name]
            numbers[name] += 1
        drawing.polygon(polygon, fill=value)
    return np.array(picture, np.int64)


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except DatasetError:
        raise
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: expected polygons in JSON, could not read them ({error}); replace it") from error
