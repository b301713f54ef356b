"""Globox: reads the boxes of COCO, of YOLO's polygons, or of Pascal VOC, and writes COCO."""

from __future__ import annotations

from segpaste.datasets.checking.tools import voc_files, yolo_files
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rules import Rule, Tool


def _from_zero(format: str) -> Rule:
    return Rule(
        format,
        "first_object",
        "ids_lost",
        "annotations are numbered from 0, and pycocotools takes 0 for none",
        "number the written annotations from 1",
    )


TOOL = Tool(
    "globox",
    "Globox boxes",
    "globox",
    ("2.9.0",),
    "converts",
    ("coco", "yolo", "voc"),
    (
        Rule(
            "coco",
            "no_box",
            "stops",
            "reading ends with a KeyError",
            "add the boxes: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "coco",
            "keypoints",
            "points_lost",
            "only boxes are read",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        Rule(
            "coco",
            "crowd",
            "crowd_kept",
            "'iscrowd' is not read, and is written as 0",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        IGNORED_UNREAD,
        _from_zero("coco"),
        Rule(
            "yolo",
            "mixed_rows",
            "stops",
            "from_yolo_seg ends with an error at the first row of a box",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "subfolder",
            "image_lost",
            "from_yolo_seg searches the folder itself, not its subfolders",
            "put all images and labels of a split into one folder each",
        ),
        Rule(
            "yolo",
            "same_stem",
            "image_lost",
            "one image of those with the name of a label file is read",
            "give each image a name of its own",
        ),
        Rule(
            "yolo",
            "oriented",
            "shifted",
            "outlines are scaled by the size of the stored image, without its EXIF orientation",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        _from_zero("yolo"),
        Rule(
            "yolo",
            "upper_suffix",
            "stops",
            "from_yolo_seg searches images by some suffixes, and ends with an error if one is written otherwise",
            "rename the images to lower-case suffixes",
        ),
        Rule(
            "yolo",
            "mixed_suffix",
            "stops",
            "from_yolo_seg searches images by some suffixes, and ends with an error if one is written otherwise",
            "rename the images to lower-case suffixes",
        ),
        Rule(
            "yolo",
            "box_rows",
            "stops",
            "from_yolo_seg ends with an error at the first row of a box",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "pose_odd",
            "stops",
            "from_yolo_seg takes rows with keypoints for polygons, and ends with an error",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "pose_pairs",
            "object_lost",
            "from_yolo_seg takes rows with keypoints for polygons, so that boxes are wrong",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "repeated",
            "object_split",
            "each row is an object, so that there are two in one place",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "float_class",
            "class_changed",
            "a class with a point or an exponent is another class than the same number",
            "write the classes as whole numbers",
        ),
        Rule(
            "yolo",
            "byte_order_mark",
            "class_changed",
            "a byte order mark is part of the first class, which is another one",
            "save the label files without a byte order mark (UTF-8 without BOM)",
        ),
        *yolo_files.GLOBOX,
        _from_zero("voc"),
        *voc_files.GLOBOX,
        Rule(
            "yolo",
            "tiff_oriented",
            "shifted",
            "outlines are scaled by the size of the stored image, without its orientation",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "coco",
            "listed_twice",
            "stops",
            "reading ends with an AssertionError at a file that is listed twice",
            "list each file once",
        ),
    ),
)
