"""Folders of YOLO labels beside their images: those of Darknet, which CVAT exports as YOLO 1.1, and of labelImg.

    obj.data                 lists of images and names of classes, as "key = value"
    obj.names                a class a line
    train.txt                an image a line, such as data/obj_train_data/0001.jpg
    obj_train_data/          images with their label files

    classes.txt              a class a line
    0001.jpg, 0001.txt       images with their label files, in the folder or in a folder for each split

Paths in these files begin with ``data``, the folder of the export, which need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES, files_with, folders_in
from segpaste.datasets.formats.text_files import class_names_of, read_lines, read_text

DATA_FILE = Path("obj.data")
CLASSES_FILE = "classes.txt"
_FOLDER = "data"
"""Folder of an export, from which its paths begin."""
_LIST = ".txt"


class Plain(NamedTuple):
    """Lists or folders of images of each split, and the names of the classes."""

    splits: Mapping[str, tuple[Path, ...]]
    class_names: tuple[str, ...]


def read_darknet(file: Path) -> Plain:
    """Read ``obj.data``: each key whose value is a list of images is a split.

    Raises:
        DatasetError: there is no list of images or of classes.
    """
    pairs = (line.partition("=") for line in read_lines(file) if "=" in line)
    values = {key.strip(): value.strip() for key, _, value in pairs}
    splits = {key: (_place(file, value),) for key, value in values.items() if value.endswith(_LIST) and key != "names"}
    names = _place(file, values.get("names", ""))
    if not splits or not names.is_file():
        missing = f"the file of classes {names}" if splits else "a list of images, as 'train = data/train.txt'"
        raise DatasetError(f"{file}: expected {missing}, found none; export the dataset again, or add it")
    return Plain(splits, tuple(class_names_of(read_text(names))))


def _place(file: Path, name: str) -> Path:
    return file.parent / listed_name(file, name)


def listed_name(source: Path, name: str) -> str:
    """Return a path in a file, from the folder of the file; one of an export without the folder ``data``."""
    parts = PurePosixPath(name).parts
    if len(parts) < 2 or parts[0] != _FOLDER or (source.parent / name).exists():
        return name
    inside = PurePosixPath(*parts[1:]).as_posix()
    return inside if (source.parent / inside).exists() else name


def read_flat(folder: Path) -> Plain | None:
    """Return the images of a folder, or of its subfolders, with label files and a list of classes beside them; or None.

    Raises:
        DatasetError: the folders of splits have different lists of classes.
    """
    if _is_flat(folder):
        return Plain({"train": (folder,)}, _classes(folder))
    splits = {path.name: path for path in folders_in(folder) if _is_flat(path)}
    if not splits:
        return None
    lists = {name: _classes(path) for name, path in splits.items()}
    first, *others = lists
    if other := next((name for name in others if lists[name] != lists[first]), None):
        raise DatasetError(
            f"{splits[other] / CLASSES_FILE}: expected the classes of {splits[first] / CLASSES_FILE}, "
            f"{', '.join(lists[first])}, got {', '.join(lists[other])}; the numbers in label files mean both; "
            "convert each folder (segpaste convert), and join the results"
        )
    return Plain({name: (path,) for name, path in splits.items()}, lists[first])


def _is_flat(folder: Path) -> bool:
    """Return whether an image of a folder has a label file beside it, and the folder a list of classes."""
    if not (folder / CLASSES_FILE).is_file():
        return False
    return any(image.with_suffix(_LIST).is_file() for image in files_with(folder, *IMAGE_SUFFIXES))


def beside_classes(image: Path) -> Path | None:
    """Return the label file beside an image, if a list of classes is there, too; else None."""
    is_listed = (image.parent / CLASSES_FILE).is_file()
    return image.with_suffix(_LIST) if is_listed else None


def _classes(folder: Path) -> tuple[str, ...]:
    return tuple(class_names_of(read_text(folder / CLASSES_FILE)))
