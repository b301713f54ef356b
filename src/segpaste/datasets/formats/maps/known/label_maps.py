"""Declaration of label maps, as ``segpaste augment`` and ``segpaste convert`` write them.

    images/SPLIT/NAME  semantic/SPLIT/NAME.png  instances/SPLIT/NAME.png  classes.txt
    depth/SPLIT/NAME.npy or .png  depth_valid/SPLIT/NAME.png  normals/SPLIT/NAME.npy  intrinsics/SPLIT/NAME.txt

Depth, normals and camera matrices of the only split may be in their folders without a subfolder, as in augmented
datasets. Line i of ``classes.txt`` names the value i; 255 is void, or 65535 with more than 255 lines. An object has the
class of its pixels in the semantic map. Depth is in metres or, as PNG, in millimetres; normals are right-down-forward;
pixel i has its centre at i + 0.5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segpaste.datasets.formats.maps.classes import read_class_list
from segpaste.datasets.formats.maps.declaration import MapDeclaration
from segpaste.types import IGNORE_INDEX

_CLASSES = "classes.txt"
_IN_ONE = "{folders}{name}"
_BELOW = f"{{split}}/{_IN_ONE}"


def declare_label_maps(root: Path) -> MapDeclaration | None:
    """Return the declaration of the dataset in a folder; None if it lacks these files."""
    if not ((root / _CLASSES).is_file() and (root / "images").is_dir() and (root / "semantic").is_dir()):
        return None
    values: dict[str, Any] = {"photos": f"images/{_BELOW}.*", "classes": _CLASSES}
    void = 255 if len(read_class_list(root / _CLASSES)) <= IGNORE_INDEX else 65535
    values["semantic"] = {"files": f"semantic/{_BELOW}.png", "void": [void]}
    if (root / "instances").is_dir():
        values["instances"] = {"files": f"instances/{_BELOW}.png", "encoding": "number"}
    if (root / "depth").is_dir():
        is_png = next((root / "depth").rglob("*.png"), None) is not None
        suffix, unit = ("png", "mm") if is_png else ("npy", "m")
        values["depth"] = {"files": f"{_files(root / 'depth')}.{suffix}", "unit": unit}
        if (root / "depth_valid").is_dir():
            values["depth"]["valid"] = f"{_files(root / 'depth_valid')}.png"
    if (root / "normals").is_dir():
        values["normals"] = {"files": f"{_files(root / 'normals')}.npy", "axes": ["right", "down", "forward"]}
    if (root / "intrinsics").is_dir():
        values["camera"] = {"files": f"{_files(root / 'intrinsics')}.txt", "pixel_center": 0.5}
    return MapDeclaration.model_validate(values)


def _files(folder: Path) -> str:
    """Return the pattern of the files of a folder, for each split or for the only one."""
    is_flat = not any(path.is_dir() for path in folder.iterdir())
    return f"{folder.name}/{_IN_ONE if is_flat else _BELOW}"
