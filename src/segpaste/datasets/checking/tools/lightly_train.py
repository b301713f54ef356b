"""LightlyTrain: reads COCO's instances and YOLO's labels for instance segmentation."""

from __future__ import annotations

from dataclasses import replace

from segpaste.datasets.checking.tools import tiffs, yolo_files
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rfdetr import ORIENTED, TURN, WITHOUT_MARK
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.checking.tools.ultralytics import SAME_STEM

WITHOUT_REGIONS = "leave out these regions: segpaste convert DATASET --for {tool} --out DIR"

TOOL = Tool(
    "lightly-train",
    "LightlyTrain",
    "lightly-train",
    ("0.18.0",),
    "trains",
    ("coco", "yolo"),
    (
        replace(IGNORED_UNREAD, advice=WITHOUT_REGIONS),
        tiffs.as_stored(),
        *tiffs.mapped("coco", "yolo"),
        *(
            Rule(
                "coco",
                trait,
                "object_lost",
                "an object without a mask is left out without a word",
                "draw the missing masks",
            )
            for trait in ("box_only", "empty_outline")
        ),
        *(
            Rule(
                "coco",
                trait,
                "crowd_kept",
                "'iscrowd' is not read, so that a crowd region is an object",
                WITHOUT_REGIONS,
            )
            for trait in ("crowd", "only_crowds")
        ),
        *(Rule(form, "oriented", "shifted", ORIENTED, TURN) for form in ("coco", "yolo")),
        Rule(
            "yolo",
            "byte_order_mark",
            "stops",
            "the mark is read as part of the first class, which ends the run with a ValueError",
            WITHOUT_MARK,
        ),
        *(
            Rule(
                "yolo",
                trait,
                "mask_changed",
                "the four numbers of a box are taken for two points of a polygon: the mask is empty, the box is wrong",
                "remove the rows of boxes",
            )
            for trait in ("mixed_rows", "box_rows")
        ),
        Rule(
            "yolo",
            "hole_from_first",
            "mask_changed",
            "an outline that comes back to its first point is cut into two there, and the hole is filled",
            "train on COCO's format: segpaste convert DATASET --for {tool} --out DIR",
        ),
        *(
            Rule(
                "yolo",
                trait,
                "class_changed",
                "rows with keypoints are taken for polygons without a word, so that masks and boxes are wrong",
                "labels with keypoints have no masks: train on the masks of another dataset",
            )
            for trait in ("pose_pairs", "pose_odd")
        ),
        SAME_STEM,
        *yolo_files.LIGHTLY_TRAIN,
    ),
    ("coco", None),
    dict.fromkeys(
        ("coco", "yolo"),
        'lightly_train.train_instance_segmentation(out="run", model=MODEL, data="{out}/lightly-train.yaml")',
    ),
    ("train", "val"),
    joins_classes=False,
)
