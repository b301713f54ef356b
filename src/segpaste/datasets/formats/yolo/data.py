"""Files of a YOLO dataset: its data YAML or folders, its splits, their images and label files.

    data.yaml                              data.yaml
    images/train/0001.jpg                  train/images/0001.jpg
    labels/train/0001.txt                  train/labels/0001.txt

The YAML may be elsewhere and name folders, text files that list images, or several of these. Without a YAML the folders
are found by these names. See https://docs.ultralytics.com/datasets; nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import (
    IMAGE_SUFFIXES,
    files_with,
    folders_in,
    may_be_labels,
    named_files,
    other_labels,
)
from segpaste.datasets.formats.text_files import class_names_of, image_name_of, read_lines, read_text
from segpaste.datasets.formats.yolo.darknet import (
    DATA_FILE,
    Plain,
    beside_classes,
    listed_name,
    read_darknet,
    read_flat,
)
from segpaste.datasets.formats.yolo.yaml_values import class_names, flip_idx, keypoint_names, keypoint_shape

SPLIT_KEYS = ("train", "val", "test")
_HELD_OUT = re.compile(r"(val|valid|validation|dev|test|testing)[-_]?\d*", re.IGNORECASE)  # folders of splits
YAML_SUFFIXES = (".yaml", ".yml")
_CACHES = (".npy", ".cache")


@dataclass(frozen=True, slots=True)
class YoloData:
    """Description of a YOLO dataset; no image or label is read.

    Attributes:
        root: the folder to which names of images are relative.
        file: the YAML, or without one the folder.
        splits: name to folders and lists of images.
        class_names: the name of each class; None if neither names nor number are given.
        keypoint_shape: (P, D) of pose labels; None without them.
        keypoint_names: the name of each point; None if not in the YAML.
        flip_idx: for each point, its index in a flipped image; None if not in the YAML.
    """

    root: Path
    file: Path
    splits: Mapping[str, tuple[Path, ...]]
    class_names: tuple[str, ...] | None
    keypoint_shape: tuple[int, int] | None = None
    keypoint_names: tuple[str, ...] | None = None
    flip_idx: tuple[int, ...] | None = None


def find_yaml(folder: Path) -> Path | None:
    """Return the data YAML of a folder: ``data.yaml``, or the only YAML with its keys; None if there is none.

    Raises:
        DatasetError: several files could be the data YAML.
    """
    if (path := folder / "data.yaml").is_file():
        return path
    paths = files_with(folder, *YAML_SUFFIXES)
    found = [path for path in paths if _is_data_yaml(path)]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DatasetError(f"{folder}: expected one data YAML, got {names}; give the right one")
    return found[0] if found else None


def _is_data_yaml(path: Path) -> bool:
    with contextlib.suppress(DatasetError):
        keys = {*(given := read_yaml(path))}  # a trainer's YAML may name COCO's files instead of labels
        return bool({"names", "nc", *SPLIT_KEYS} & keys) and "annotations" not in keys and given.get("format") != "coco"
    return False


def read_data(path: Path) -> YoloData:
    """Read the description of a dataset from its YAML or its folder.

    Raises:
        DatasetError: there is no dataset, or the YAML is not a data YAML.
    """
    if path.is_file():
        return _plain(path.parent, path, read_darknet(path)) if path.suffix == DATA_FILE.suffix else _of_yaml(path)
    if path.is_dir():
        file = find_yaml(path)
        return _of_folder(path) if file is None else _of_yaml(file)
    raise DatasetError(f"{path}: expected the data YAML or the folder of a YOLO dataset, found neither; check the path")


def label_path(image: Path) -> Path:
    """Return the label file of an image: the last ``images`` of the path becomes ``labels``, the suffix ``.txt``."""
    parts = list(image.parts)
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] == "images":
            parts[i] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def found_labels(image: Path) -> Path:
    """Return the label file of an image; its suffix may be in upper case, or it is beside the image and a class list.

    See `label_path`.
    """
    path = label_path(image)
    if path.is_file():
        return path
    places = (path.with_suffix(".TXT"), beside_classes(image))
    return next((place for place in places if place is not None and place.is_file()), path)


def expect_labels(sources: Iterable[Path], images: Sequence[Path], num_labelled: int) -> None:
    """Check that images without label files are not those of another format, or of label files of other names.

    Args:
        sources: folders and lists of the images.
        images: images.
        num_labelled: number of images with a label file.

    Raises:
        DatasetError: no image has a label file, but the folders of labels have other files, or many of other names.
    """
    if num_labelled or not images:
        return
    wanted, beside = label_path(images[0]), {image.parent for image in images}
    folders = {label_path(image).parent for image in images} - beside
    roots = {parent for folder in folders for parent in folder.parents if parent.name == "labels"} - beside
    found = other_labels(folders) or other_labels(roots) or _beside(images)
    if found is not None:
        raise DatasetError(
            f"{wanted.parent}: expected label files of YOLO such as {wanted.name}, got {found}; convert them, or "
            "name their format (format=, --from; docs/guide/formats.md)"
        )
    stray = [path for source in sources for path in stray_labels(source, list(images))]
    if 2 * len(stray) >= len(images):  # a few are other texts, such as a licence
        raise DatasetError(
            f"{wanted.parent}: expected label files of the images' names, such as {wanted.name}, found none of them, "
            f"but {len(stray)} others, such as {stray[0].name}; give them the names of their images"
        )


def _beside(images: Sequence[Path]) -> str | None:
    """Return in words the files of the names of images, in the folders where these have their labels beside them."""
    stems = {image.with_suffix("") for image in images if label_path(image).parent == image.parent}
    files = (path for folder in {stem.parent for stem in stems} for path in folder.iterdir())
    others = (path.suffix.lower() for path in files if path.with_suffix("") in stems and path.is_file())
    return named_files(Counter(suffix for suffix in others if suffix not in (*IMAGE_SUFFIXES, *_CACHES, ".txt")))


def images_of(source: Path) -> list[Path]:
    """Return the images of a folder and its subfolders, or of a text file with one path per line, sorted.

    Raises:
        DatasetError: neither exists, or a line of the text file names a missing image.
    """
    if source.is_dir():
        return sorted(path for path in _files(source) if path.suffix.lower() in IMAGE_SUFFIXES)
    if not source.is_file():
        raise DatasetError(f"{source}: expected a folder or a list of images, found neither; correct the path")
    images = []
    for number, name in listed_images(source):
        image = source.parent / name
        if image.suffix.lower() not in IMAGE_SUFFIXES or not image.is_file():
            raise DatasetError(
                f"{source}: line {number}: expected the path of an image, from the folder of this file, got "
                f"{name!r:.80}; correct or remove it"
            )
        images.append(image)
    return sorted(images)


def listed_images(source: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of each line of a text file that names an image, from 1, and the name.

    Raises:
        DatasetError: the file cannot be read.
    """
    try:
        lines = read_lines(source)
    except OSError as error:
        raise DatasetError(f"{source}: expected a list of images, could not read it ({error})") from error
    for number, line in enumerate(lines, start=1):
        if name := image_name_of(line, lambda name: (source.parent / name).is_file()):
            yield number, listed_name(source, name)


def stray_labels(source: Path, images: list[Path]) -> list[Path]:
    """Return the label files without an image in a folder; none for a list, which may be incomplete."""
    if not source.is_dir():
        return []
    folder = label_path(source / "photo.jpg").parent
    wanted = {found_labels(image) for image in images}
    found = (path for path in _files(folder) if path.suffix.lower() == ".txt" and may_be_labels(path.name))
    return sorted(path for path in found if path not in wanted)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except hidden ones, which editors and archives create."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = (name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _of_yaml(path: Path) -> YoloData:
    document = read_yaml(path)
    root = _root(path, document.get("path"))
    if "val" not in document and "validation" in document:
        document["val"] = document["validation"]
    splits = {key: _sources(path, key, root, value) for key in SPLIT_KEYS if (value := document.get(key))}
    if not splits:
        raise DatasetError(f"{path}: expected at least one of the keys {', '.join(SPLIT_KEYS)}, got none; add it")
    shape = keypoint_shape(path, document.get("kpt_shape"))
    num = None if shape is None else shape[0]
    return YoloData(
        root,
        path,
        splits,
        class_names(path, document),
        shape,
        keypoint_names(path, document.get("kpt_names"), num),
        flip_idx(path, document.get("flip_idx"), num),
    )


def _root(path: Path, given: object) -> Path:
    """Return the folder to which the YAML's paths are relative."""
    if given in (None, ""):
        return path.parent
    if not isinstance(given, str):
        raise DatasetError(f"{path}: expected a folder under the key 'path', got {given!r:.40}; correct it")
    places = [path.parent / given, Path(given)]
    if path.parent.resolve().name == PurePath(given).name:  # the dataset was moved together with its YAML
        places.append(path.parent)
    for place in places:
        if place.is_dir():
            return place
    tried = ", ".join(dict.fromkeys(str(place) for place in places))
    raise DatasetError(
        f"{path}: expected the folder that 'path: {given}' names, found none at {tried}; correct the key"
    )


def _sources(path: Path, key: str, root: Path, value: object) -> tuple[Path, ...]:
    """Return the folders and lists of a split; missing ones raise an error only when they are read."""
    names: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise DatasetError(
            f"{path}: expected a folder, a list of images in a text file, or several of them under the key '{key}', "
            f"got {value!r:.60}; correct it"
        )
    return tuple(_source(root, name) for name in names)


def _source(root: Path, name: str) -> Path:
    """Return the path of a folder or list; exported YAMLs use ``../train/images`` for a folder beside them."""
    place = root / name
    if not place.exists() and name.startswith("../") and (root / name[3:]).exists():
        return root / name[3:]
    return place


def _plain(root: Path, file: Path, found: Plain) -> YoloData:
    return YoloData(root, file, found.splits, found.class_names)


def _of_folder(folder: Path) -> YoloData:
    if (file := folder / DATA_FILE).is_file():
        return _plain(folder, file, read_darknet(file))
    splits = {name: (place,) for name, place in split_folders(folder).items()}
    if not splits and (flat := read_flat(folder)) is not None:
        return _plain(folder, folder, flat)
    if not splits:
        raise DatasetError(
            f"{folder}: expected a data YAML, or folders such as images/train and labels/train, found neither; check "
            "the path"
        )
    return YoloData(folder, folder, splits, _listed_names(folder))


def split_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of images by split, found without a YAML; only ``train`` if there is a single folder.

    Images directly in ``images`` make it a single folder if one of them has labels, or no subfolder has any; not beside
    a subfolder ``val`` or ``test`` with labels.
    """
    images, labels = folder / "images", folder / "labels"
    if images.is_dir() and labels.is_dir():
        inside = {path.name: path for path in folders_in(images)}
        direct = files_with(images, *IMAGE_SUFFIXES)
        labelled = [name for name in inside if (labels / name).is_dir()]
        are_splits = any(map(_HELD_OUT.fullmatch, labelled))
        has_labels = not labelled or any(found_labels(image).is_file() for image in direct)
        is_single = bool(direct) and has_labels and not are_splits
        return {"train": images} if is_single or not inside else inside
    return {
        path.name: path / "images"
        for path in folders_in(folder)
        if (path / "images").is_dir() and (path / "labels").is_dir() and not (path / "data.yaml").is_file()
    }


def _listed_names(folder: Path) -> tuple[str, ...] | None:
    """Return the names in a ``classes.txt`` of a labelling tool, one per line."""
    for place in (folder, folder / "labels", *folders_in(folder / "labels")):
        if (path := place / "classes.txt").is_file():
            return tuple(class_names_of(read_text(path))) or None
    return None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping of a YAML file.

    Raises:
        DatasetError: it cannot be read, or is not a mapping.
    """
    import yaml

    try:
        document = yaml.safe_load(read_text(path))
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable YAML file, got {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise DatasetError(f"{path}: expected YAML, got text that does not parse ({error}); correct it") from error
    if not isinstance(document, dict):
        raise DatasetError(
            f"{path}: expected keys such as train, val and names, got a {type(document).__name__}; is this a data YAML?"
        )
    return document
