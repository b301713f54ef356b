"""Datumaro: reads COCO as ``coco_instances``, and Pascal VOC as ``voc``, and writes COCO."""

from __future__ import annotations

from segpaste.datasets.checking.tools import voc_files
from segpaste.datasets.checking.tools.degenerate import NO_PIXEL_READ
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rules import Rule, Tool


def _missing(trait: str, key: str) -> Rule:
    return Rule(
        "coco",
        trait,
        "stops",
        f"reading ends with an error at the first annotation without {key!r}",
        "write all keys: segpaste convert DATASET --to coco --out DIR",
    )


TOOL = Tool(
    "datumaro",
    "Datumaro",
    "datumaro",
    ("1.13.12",),
    "converts",
    ("coco", "voc"),
    (
        NO_PIXEL_READ,
        Rule(
            "coco",
            "category_zero",
            "stops",
            "annotations of the category 0 have no class, and writing ends with a KeyError",
            "number categories from 1",
        ),
        Rule(
            "coco",
            "few_points",
            "stops",
            "reading ends with an error at the first polygon of fewer than three points",
            "remove these polygons from the file",
        ),
        Rule(
            "coco",
            "names_alike",
            "stops",
            "reading ends with an error if two categories have one name",
            "give each category a name of its own",
        ),
        _missing("no_box", "bbox"),
        _missing("no_iscrowd", "iscrowd"),
        Rule(
            "coco",
            "id_zero",
            "object_split",
            "an annotation with the id 0 is written twice, once without its mask",
            "number annotations from 1",
        ),
        Rule(
            "coco",
            "same_stem",
            "object_split",
            "images are told apart by their names without suffix, and each gets the objects of all",
            "give each image a name of its own",
        ),
        Rule(
            "coco",
            "hole_runs",
            "mask_changed",
            "run lengths are written as their outlines, so that holes are filled",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        Rule(
            "coco",
            "thin_runs",
            "mask_changed",
            "run lengths are written as their outlines, and what is one pixel high or wide has none",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        Rule(
            "coco",
            "keypoints",
            "points_lost",
            "coco_instances does not read keypoints",
            "read coco_person_keypoints; all annotations must have keypoints",
        ),
        IGNORED_UNREAD,
        *voc_files.DATUMARO,
        Rule(
            "coco",
            "listed_twice",
            "object_split",
            "images are told apart by their names, so that a file that is listed twice has all objects twice",
            "list each file once",
        ),
    ),
)
