"""pycocotools: reads and evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rules import Rule, Tool

ID_ZERO = Rule(
    "coco",
    "id_zero",
    "never_matched",
    "the id of the matched annotation is kept for each detection, and 0 means that there is none",
    "number annotations from 1: segpaste convert DATASET --for pycocotools --out DIR",
)

ID_NEGATIVE = Rule(
    "coco",
    "id_negative",
    "never_matched",
    "the id of the matched annotation is kept for each detection, and what is below 1 means that there is none",
    "number annotations from 1: segpaste convert DATASET --for faster-coco-eval --out DIR",
)

FEW_POINTS = Rule(
    "coco",
    "few_points",
    "stops",
    "a first polygon of four numbers is taken for a box, and evaluation ends with a TypeError",
    "remove these polygons: segpaste convert DATASET --for pycocotools --out DIR",
)

NO_AREA = Rule(
    "coco",
    "no_area",
    "stops",
    "evaluation ends with a KeyError at an annotation without an area",
    "write the areas: segpaste convert DATASET --to coco --out DIR",
)
NO_ISCROWD = Rule(
    "coco",
    "no_iscrowd",
    "stops",
    "evaluation ends with a KeyError at an annotation without iscrowd",
    "write 'iscrowd': 0 into each annotation: segpaste convert DATASET --to coco --out DIR",
)

IGNORED_UNREAD = Rule(
    "coco",
    "ignored",
    "crowd_kept",
    "'ignore' is not read, and 'iscrowd' is 0",
    "mark these regions with 'iscrowd' 1: segpaste convert DATASET --to coco --out DIR",
)

IGNORED = Rule(
    "coco",
    "ignored",
    "crowd_kept",
    "'ignore' is overwritten by 'iscrowd', so that the region is an object that must be found",
    "mark these regions with 'iscrowd' 1: segpaste convert DATASET --to coco --out DIR",
)

TOOL = Tool(
    "pycocotools",
    "pycocotools",
    "pycocotools",
    ("2.0.11",),
    "evaluates",
    ("coco",),
    (FEW_POINTS, NO_AREA, NO_ISCROWD, IGNORED, ID_ZERO),
    ("coco", None),
)
