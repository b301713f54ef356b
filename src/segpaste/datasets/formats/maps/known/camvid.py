"""Declaration of CamVid and of datasets with its folders: a label map for each image in a folder beside it.

    SPLIT/NAME.png    SPLITannot/NAME.png       class ids as in SegNet's tutorial; void is 11
    SPLIT/NAME.png    SPLIT_labels/NAME_L.png   colours, with class_dict.csv

Names come from ``classes.txt`` or ``class_names.txt``, one per line. Void is then the id after the last class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segpaste.datasets.formats.maps.classes import read_class_list
from segpaste.datasets.formats.maps.declaration import MapDeclaration

CLASSES = (
    *("sky", "building", "pole", "road", "pavement", "tree", "sign symbol", "fence", "car", "pedestrian"),
    "bicyclist",
)
_LISTS = ("classes.txt", "class_names.txt")
_COLORS = "class_dict.csv"
_ANNOT, _LABELS = "annot", "_labels"
_VOID = ("void", "unlabelled", "unlabeled")


def camvid_splits(root: Path) -> tuple[str, ...]:
    """Return the folders of images with a folder of maps beside them."""
    if not root.is_dir():
        return ()
    suffix = _LABELS if (root / _COLORS).is_file() else _ANNOT
    names = (folder.name.removesuffix(suffix) for folder in root.iterdir() if folder.name.endswith(suffix))
    return tuple(
        sorted(name for name in names if name and (root / name).is_dir() and (root / (name + suffix)).is_dir())
    )


def declare_camvid(root: Path) -> MapDeclaration | None:
    """Return the declaration of the dataset in a folder; None if it has no such folders."""
    if not camvid_splits(root):
        return None
    values: dict[str, Any] = {"photos": "{split}/{name}.*"}
    if (root / _COLORS).is_file():
        entries = read_class_list(root / _COLORS)
        kept = [entry for entry in entries if entry.name.lower() not in _VOID]
        void = [entry.color for entry in entries if entry.name.lower() in _VOID]
        values["classes"] = [entry.model_dump(exclude_none=True) for entry in kept]
        values["semantic"] = {"files": "{split}_labels/{name}_L.png", "encoding": "color", "void": void}
    else:
        listed = next((root / name for name in _LISTS if (root / name).is_file()), None)
        names = CLASSES if listed is None else tuple(entry.name for entry in read_class_list(listed))
        names = names[:-1] if names[-1].lower() in _VOID else names
        values["classes"] = list(names)
        values["semantic"] = {"files": "{split}annot/{name}.png", "void": [len(names), 255]}
    return MapDeclaration.model_validate(values)
