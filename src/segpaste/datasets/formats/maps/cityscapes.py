"""Declaration of Cityscapes, https://www.cityscapes-dataset.com, and of datasets with its folders and ids.

    leftImg8bit/SPLIT/CITY/NAME_leftImg8bit.png
    gtFine/SPLIT/CITY/NAME_gtFine_instanceIds.png      or labelIds.png, labelTrainIds.png, polygons.json
    disparity/SPLIT/CITY/NAME_disparity.png            with camera/SPLIT/CITY/NAME_camera.json

Class ids, and the 19 evaluated classes, are those of the dataset's paper and of its benchmark: Cordts et al., "The
Cityscapes Dataset for Semantic Urban Scene Understanding", CVPR 2016. Polygons are rendered to the map of ids that is
published with them. Objects are drawn in file order, so later ones cover earlier ones.
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
from segpaste.datasets.formats.maps.declaration import MapDeclaration
from segpaste.datasets.formats.text_files import read_json

STUFF = {
    "road": 7,
    "sidewalk": 8,
    "building": 11,
    "wall": 12,
    "fence": 13,
    "pole": 17,
    "traffic light": 19,
    "traffic sign": 20,
    "vegetation": 21,
    "terrain": 22,
    "sky": 23,
}
THINGS = {"person": 24, "rider": 25, "car": 26, "truck": 27, "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33}
_OTHERS = {
    "unlabeled": 0,
    "ego vehicle": 1,
    "rectification border": 2,
    "out of roi": 3,
    "static": 4,
    "dynamic": 5,
    "ground": 6,
    "parking": 9,
    "rail track": 10,
    "guard rail": 14,
    "bridge": 15,
    "tunnel": 16,
    "polegroup": 18,
    "caravan": 29,
    "trailer": 30,
}
"""Classes without evaluation; of these, caravan and trailer have instances."""
ALL_IDS = {**_OTHERS, **STUFF, **THINGS}
WITH_INSTANCES = frozenset({*THINGS, "caravan", "trailer"})
_VOID = (*_OTHERS.values(), -1, 255)
_GROUP = "group"

_IMAGES = "leftImg8bit"
_GROUND_TRUTH = ("gtFine", "gtCoarse")
_ENCODINGS = ("instanceIds.png", "polygons.json", "labelIds.png", "labelTrainIds.png")


def declare_cityscapes(root: Path) -> MapDeclaration | None:
    """Return the declaration of the dataset in a folder; None if it is not Cityscapes.

    It uses instance ids if there are any, else polygons, else label ids, else train ids.
    """
    for truth in _GROUND_TRUTH:
        for ending in _ENCODINGS:
            if (root / _IMAGES).is_dir() and _has(root / truth, f"*/*/*_{truth}_{ending}"):
                return MapDeclaration.model_validate(_values(root, truth, ending))
    return None


def _values(root: Path, truth: str, ending: str) -> dict[str, Any]:
    files = f"{truth}/{{split}}/{{city}}/{{name}}_{truth}_{ending}"
    values: dict[str, Any] = {"photos": f"{_IMAGES}/{{split}}/{{city}}/{{name}}_{_IMAGES}.png"}
    values["classes"] = [{"name": name, "id": number} for name, number in (STUFF | THINGS).items()]
    if ending in ("instanceIds.png", "polygons.json"):
        values["things"] = list(THINGS)
        values["instances"] = {"files": files, "encoding": "class_number", "divisor": 1000, "void": _VOID}
    elif ending == "labelIds.png":
        values["semantic"] = {"files": files, "void": _VOID}
    else:
        values["classes"] = list(STUFF | THINGS)
        values["semantic"] = {"files": files, "void": (255, -1)}
    if (root / "disparity").is_dir() and (root / "camera").is_dir():
        below = "{split}/{city}/{name}"
        values["disparity"] = {"files": f"disparity/{below}_disparity.png", "scale": 1 / 256, "offset": -1}
        values["disparity"] |= {"invalid": [0]}
        values["camera"] = {"files": f"camera/{below}_camera.json"}
    return values


def _has(folder: Path, pattern: str) -> bool:
    return next(folder.glob(pattern), None) is not None


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
