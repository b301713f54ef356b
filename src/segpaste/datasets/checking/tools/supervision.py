"""supervision: its ``DetectionDataset`` reads COCO, YOLO or Pascal VOC, and writes COCO."""

from __future__ import annotations

from segpaste.datasets.checking.tools import tiffs, voc_files, yolo_files
from segpaste.datasets.checking.tools.degenerate import NO_PIXEL_READ
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rules import SHARED_LABELS, Rule, Tool

TOOL = Tool(
    "supervision",
    "supervision",
    "supervision",
    ("0.31.2",),
    "converts",
    ("coco", "yolo", "voc"),
    (
        NO_PIXEL_READ,
        Rule(
            "coco",
            "names_alike",
            "stops",
            "classes are found by their names, and reading ends with a ValueError if two have one name",
            "give each category a name of its own",
        ),
        Rule(
            "coco",
            "no_box",
            "stops",
            "reading ends with a KeyError",
            "add the boxes: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "coco",
            "same_name",
            "stops",
            "images are written into one folder, and writing ends with a ValueError if two have one name",
            "give each image a name of its own",
        ),
        Rule(
            "coco",
            "hole",
            "mask_changed",
            "masks are written as their outlines, so that holes are filled",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        Rule(
            "coco",
            "thin_runs",
            "mask_changed",
            "masks are written as their outlines, and what is one pixel high or wide has none",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        Rule(
            "coco",
            "keypoints",
            "points_lost",
            "keypoints are not read",
            "convert with segpaste: segpaste convert DATASET --to FORMAT --out DIR",
        ),
        IGNORED_UNREAD,
        Rule(
            "coco",
            "oriented_as_stored",
            "shifted",
            "height and width are written as the EXIF orientation turns them, and labels are not turned",
            "remove the EXIF orientation from the images",
        ),
        SHARED_LABELS,
        Rule(
            "yolo",
            "hole",
            "crowd_made",
            "as_coco writes a mask with a hole as a crowd region, if it was not read from COCO",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "mixed_rows",
            "mask_changed",
            "rows of boxes get their filled box as a mask, if their image has an outline",
            "convert all rows as boxes with segpaste: segpaste convert DATASET --task detect --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "subfolder",
            "image_lost",
            "images are searched in the folder itself, not in its subfolders",
            "put all images of a split into one folder",
        ),
        Rule(
            "yolo",
            "pose_pairs",
            "points_lost",
            "keypoints are not read",
            "convert with segpaste: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "yolo",
            "pose_odd",
            "points_lost",
            "keypoints are not read",
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
            "byte_order_mark",
            "stops",
            "a byte order mark before the first class ends with a ValueError",
            "save the label files without a byte order mark (UTF-8 without BOM)",
        ),
        *yolo_files.SUPERVISION,
        *voc_files.SUPERVISION,
        *tiffs.SUPERVISION,
        Rule(
            "coco",
            "listed_twice",
            "stops",
            "reading ends with a ValueError at a file that is listed twice",
            "list each file once",
        ),
    ),
)
