"""Declarations of both forms of ADE20K: https://groups.csail.mit.edu/vision/datasets/ADE20K.

Scene parsing, 150 classes, 0 is other:

    images/SPLIT/NAME.jpg    annotations/SPLIT/NAME.png    objectInfo150.txt    sceneCategories.txt

Full, thousands of classes, with the objects in the colours of ``NAME_seg.png``: class R // 10 * 256 + G, object B. The
names of classes are in ``NAME.json``, or one per line in ``classes.txt``, the first for class 1:

    images/ADE/SPLIT/FOLDERS/NAME.jpg    NAME_seg.png    NAME_parts_1.png    NAME.json

Parts use the same colours as objects; a declaration with ``_parts_1.png`` reads them.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.maps.classes import read_class_list
from segpaste.datasets.formats.maps.declaration import MapDeclaration
from segpaste.datasets.formats.text_files import read_lines

NUM_CLASSES = 150
_INFO = "objectInfo150.txt"
_NAMES = "classes.txt"


def declare_ade20k(root: Path) -> MapDeclaration | None:
    """Return the declaration of the scene parsing dataset in a folder; None if there is none."""
    folders = [root / kind / "training" for kind in ("images", "annotations")]
    if not all(folder.is_dir() for folder in folders):
        return None
    names = _names_150(root)
    return MapDeclaration.model_validate(
        {
            "photos": "images/{split}/{name}.jpg",
            "classes": [{"name": name, "id": number} for number, name in enumerate(names, start=1)],
            "semantic": {"files": "annotations/{split}/{name}.png", "void": [0]},
        }
    )


def declare_ade20k_full(root: Path) -> MapDeclaration | None:
    """Return the declaration of the full dataset in a folder, with all class names; None if there is none."""
    above = next((part for part in ("images/ADE", "images") if _has_segments(root / part)), None)
    if above is None:
        return None
    stem = f"{above}/{{split}}/{{folders}}{{name}}"
    return MapDeclaration.model_validate(
        {
            "photos": f"{stem}.jpg",
            "classes": [{"name": name, "id": number} for number, name in sorted(_names_full(root, above).items())],
            "instances": {"files": f"{stem}_seg.png", "encoding": "ade20k", "void": [0]},
        }
    )


def _names_150(root: Path) -> list[str]:
    """Return the names of the classes; numbered names if the list is missing or has another number of lines."""
    try:
        lines = read_lines(root / _INFO)[1:]
    except OSError:
        lines = []
    rows = [line.split("\t") for line in lines if line.strip()]
    if len(rows) == NUM_CLASSES and all(len(row) > 1 for row in rows):
        return [row[-1].split(",")[0].strip() for row in rows]
    return [f"class_{number}" for number in range(1, NUM_CLASSES + 1)]


def _has_segments(folder: Path) -> bool:
    """Return whether a file ``*_seg.png`` is in the first folder with files."""
    if not (folder / "training").is_dir():
        return False
    for _, _, names in os.walk(folder / "training"):
        if names:
            return any(name.endswith("_seg.png") for name in names)
    return False


def _names_full(root: Path, above: str) -> dict[int, str]:
    """Return the name of each class id, from a list or from the files of all images.

    Raises:
        DatasetError: there are no names.
    """
    if (path := root / _NAMES).is_file():
        return {number: entry.name for number, entry in enumerate(read_class_list(path), start=1)}
    paths = [
        Path(folder) / name for folder, _, names in os.walk(root / above) for name in names if name.endswith(".json")
    ]
    found: dict[int, str] = {}
    with ThreadPoolExecutor(8) as pool:
        for names in pool.map(_names_in, sorted(paths)):
            for number, name in names.items():
                found.setdefault(number, name)
    if not found:
        raise DatasetError(
            f"{root}: expected the names of the classes in {_NAMES}, the first line for class 1, or in NAME.json of "
            "the images, found neither; add the list"
        )
    return found


def _names_in(path: Path) -> dict[int, str]:
    """Return the class ids and names of one image's objects and parts."""
    try:
        objects: Any = json.loads(path.read_bytes().decode("utf-8", "replace"))["annotation"]["object"]
        return {int(row["name_ndx"]): str(row["name"]) for row in objects}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{path}: expected objects with name and name_ndx, could not read them ({error!r}); replace the file"
        ) from error
