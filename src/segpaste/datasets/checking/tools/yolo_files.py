"""Rules of all tools about the files of YOLO datasets: the data YAML, names of files, and rows without an area."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from segpaste.datasets.checking.tools.rules import Effect, Rule

_WRITE = "segpaste convert DATASET --for {tool} --out DIR writes folders that it finds"
_COCO = "convert with segpaste: segpaste convert DATASET --to coco --out DIR"
_KEEP_PATH = "remove the key path from data.yaml, whose folder is then taken, or write an absolute path"
_CORRECT_PATH = "correct the key path in data.yaml, or remove it"
_NO_YAML = "it is given a data.yaml, and stops without one"
_AS_OTHERS = f"save the images as PNG or JPEG; {_WRITE}"
_TEXT_SUFFIX = "rename the label files to .txt"
_UNREAD_LABEL = "the label file is not found, and the image is taken for one without objects"
_UNREAD_IMAGE = "images of this suffix are left out without a word"
_NO_AREA = "a row whose box has no width or no height is left out without a word"
_REMOVE_ROWS = "give these objects an extent of a pixel, or remove their rows"
_stops = partial(Rule, "yolo", effect="stops")


def _of_traits(traits: Sequence[str], effect: Effect, says: str, advice: str) -> tuple[Rule, ...]:
    return tuple(Rule("yolo", trait, effect, says, advice) for trait in traits)


_FLAT_LOST = Rule("yolo", "flat_box", "object_lost", _NO_AREA, _REMOVE_ROWS)
_NO_PIXEL = Rule(
    "yolo",
    "no_pixel",
    "mask_changed",
    "an outline that encloses the centre of no pixel becomes a mask without a pixel",
    _COCO,
)
_LABEL_LOST = Rule("yolo", "label_suffix", "object_lost", _UNREAD_LABEL, _TEXT_SUFFIX)
_NO_YAML_WRITTEN = _stops("no_yaml", says=_NO_YAML, advice=f"write one; {_WRITE}")

ULTRALYTICS = (
    _NO_YAML_WRITTEN,
    _stops(
        "relative_path",
        says="path is searched from the folder that the run starts in, then among Ultralytics' datasets, and not from "
        "the folder of data.yaml; a folder of this name there is read instead",
        advice=_KEEP_PATH,
    ),
    _stops("stale_path", says="the folder does not exist, which ends the run", advice=_CORRECT_PATH),
    _stops(
        "listed_bare",
        says="these lines are searched from the folder that the run starts in, and not from that of the list; images "
        "of these names there are read instead",
        advice="begin the lines with ./, or write absolute paths",
    ),
    _LABEL_LOST,
    Rule(
        "yolo",
        "gif_named_jpg",
        "image_lost",
        "a GIF is left out of training whatever its suffix, with a warning in the log",
        "save these images as PNG",
    ),
)

RFDETR = (
    _NO_YAML_WRITTEN,
    _stops(
        "other_yaml",
        says="the folder of the dataset is searched for data.yaml or data.yml, and another name is not found",
        advice="name the file data.yaml",
    ),
    _stops(
        "stale_alone",
        says="the folder does not exist, nor do images in train/images, which ends the run",
        advice=_CORRECT_PATH,
    ),
    *_of_traits(
        ("listed", "folder_list"),
        "stops",
        "each split must be a single folder; a text file or a list in data.yaml ends the run with an error that names "
        "no cause",
        f"name one folder for each split; {_WRITE}",
    ),
    _stops(
        "labels_beside",
        says="labels are searched in a folder labels beside images, and none is found",
        advice=f"put the images into a folder images, the labels into labels; {_WRITE}",
    ),
    _LABEL_LOST,
    *_of_traits(("avif", "jp2"), "image_lost", _UNREAD_IMAGE, _AS_OTHERS),
    _FLAT_LOST,
)

LIBREYOLO = (
    _NO_YAML_WRITTEN,
    _stops("empty_path", says="a path without a value ends the run with a TypeError", advice="remove the key path"),
    *_of_traits(("named_path", "stale_path"), "stops", "the folder does not exist, which ends the run", _CORRECT_PATH),
    _stops(
        "folder_above",
        says="the folder is searched where data.yaml says, above its own, which ends the run",
        advice="remove ../ from the folders in data.yaml",
    ),
    Rule(
        "yolo",
        "images_above",
        "object_lost",
        "every folder images of the whole path becomes labels, so that no label file is found, and training goes on "
        "without objects, with a warning in the log",
        "move the dataset to a path without another folder images",
    ),
    _LABEL_LOST,
    *_of_traits(("avif", "jp2", "mpo"), "image_lost", _UNREAD_IMAGE, "save the images as PNG or JPEG"),
    _FLAT_LOST,
)

LIGHTLY_TRAIN = (
    _NO_YAML_WRITTEN,
    _stops("no_path", says="the key path is missing, which ends the run with a ValidationError", advice=_WRITE),
    _stops(
        "names_list",
        says="names must be numbered, and a list ends the run with a ValidationError",
        advice=f"write 0: NAME for each class; {_WRITE}",
    ),
    *_of_traits(("named_path", "stale_path"), "stops", "no image is found, which ends the run", _CORRECT_PATH),
    *_of_traits(
        ("listed", "folder_list"),
        "stops",
        "each split must be a single folder; a text file or a list in data.yaml ends the run with an error",
        f"name one folder for each split; {_WRITE}",
    ),
    _stops(
        "folder_above",
        says="the folder is searched where data.yaml says, above its own, and no image is found",
        advice="remove ../ from the folders in data.yaml",
    ),
    _stops(
        "labels_beside",
        says="a split whose path has no folder images ends the run with a ValidationError",
        advice=f"put the images into a folder images, the labels into labels; {_WRITE}",
    ),
    _LABEL_LOST,
    Rule("yolo", "mpo", "image_lost", _UNREAD_IMAGE, "give the images the suffix .jpg"),
)

SUPERVISION = (
    _stops("no_yaml", says="the names of the classes are read from a data.yaml, and there is none", advice=_COCO),
    _LABEL_LOST,
    *_of_traits(("avif", "jp2"), "image_lost", _UNREAD_IMAGE, _COCO),
    _NO_PIXEL,
)

LABELFORMAT = (
    _stops("no_yaml", says=_NO_YAML, advice=_COCO),
    *_of_traits(
        ("empty_path", "named_path", "stale_path", "folder_list", "folder_above"),
        "image_lost",
        "no image is found, and a file without images is written, without a word",
        _COCO,
    ),
    *_of_traits(
        ("listed", "labels_beside"), "stops", "a split whose path has no folder images ends with a RuntimeError", _COCO
    ),
    _stops("label_suffix", says="a label file that is not found ends with an error", advice=_TEXT_SUFFIX),
    *_of_traits(("avif", "jp2", "mpo"), "image_lost", _UNREAD_IMAGE, _COCO),
    _NO_PIXEL,
)

GLOBOX = _of_traits(
    ("avif", "jp2", "mpo"),
    "stops",
    "from_yolo_seg searches images by some suffixes, and ends with an error if there is another",
    "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
)
