"""labelformat: reads the instances of COCO or YOLO, and the boxes of Pascal VOC, and writes COCO."""

from __future__ import annotations

from segpaste.datasets.checking.tools import voc_files, yolo_files
from segpaste.datasets.checking.tools.degenerate import NO_PIXEL_READ
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rules import SHARED_LABELS, Rule, Tool


def _stops(trait: str, says: str, advice: str) -> Rule:
    return Rule("coco", trait, "stops", says, advice)


def _without_ids(format: str) -> Rule:
    return Rule(
        format,
        "any_object",
        "ids_lost",
        "COCO is written without ids of annotations, which pycocotools cannot read",
        "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
    )


_RUNS = "masks of objects are read as polygons, and run lengths end with a ValueError"
_CONVERT = "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR"

TOOL = Tool(
    "labelformat",
    "labelformat",
    "labelformat",
    ("0.1.17",),
    "converts",
    ("coco", "yolo", "voc"),
    (
        _stops(
            "box_only",
            "reading ends with an error at the first annotation without a mask",
            "read the dataset as boxes, or remove the objects without a mask",
        ),
        _stops(
            "empty_outline",
            "an empty list of polygons ends with a ValueError",
            "read the dataset as boxes, or remove the objects without a mask",
        ),
        NO_PIXEL_READ,
        _stops("run_lengths", _RUNS, _CONVERT),
        _stops("compressed", _RUNS, _CONVERT),
        _stops(
            "no_iscrowd",
            "reading ends with a KeyError",
            "write 'iscrowd' 0: segpaste convert DATASET --to coco --out DIR",
        ),
        _stops("crowd_polygons", "crowd regions must be run lengths, and reading ends with a TypeError", _CONVERT),
        _stops(
            "crowd_compressed", "run lengths must be lists of numbers, and reading ends with a ValueError", _CONVERT
        ),
        Rule("coco", "keypoints", "points_lost", "keypoints are not read", _CONVERT),
        IGNORED_UNREAD,
        _without_ids("coco"),
        Rule(
            "yolo",
            "mixed_rows",
            "box_changed",
            "a row of a box is read as a polygon of two points",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "oriented",
            "shifted",
            "outlines are scaled by the size of the stored image, without its EXIF orientation",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        SHARED_LABELS,
        _without_ids("yolo"),
        Rule(
            "yolo",
            "box_rows",
            "box_changed",
            "a row of a box is read as a polygon of two points",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "pose_pairs",
            "class_changed",
            "rows with keypoints are read as polygons, so that numbers mean something else",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "pose_odd",
            "class_changed",
            "rows with keypoints are read as polygons, so that numbers mean something else",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
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
            "stops",
            "a class with a point or an exponent ends with a ValueError",
            "write the classes as whole numbers",
        ),
        Rule(
            "yolo",
            "byte_order_mark",
            "stops",
            "a byte order mark before the first class ends with a ValueError",
            "save the label files without a byte order mark (UTF-8 without BOM)",
        ),
        *yolo_files.LABELFORMAT,
        _without_ids("voc"),
        *voc_files.LABELFORMAT,
    ),
)
