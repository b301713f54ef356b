"""LibreYOLO: reads COCO's instances and YOLO's labels, to train with or without masks."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools import tiffs, yolo_files
from segpaste.datasets.checking.tools.degenerate import FLAT_LOST
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rfdetr import (
    NO_BOX,
    ORIENTED,
    POSE_AS_POLYGON,
    TURN,
    WHOLE_CLASSES,
    WITHOUT_MARK,
    WITHOUT_POINTS,
)
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.checking.tools.ultralytics import SAME_STEM

_STARTS = {
    "coco": 'libreyolo.LibreYOLO(WEIGHTS).train(data="{out}/libreyolo.yaml")',
    "yolo": 'libreyolo.LibreYOLO(WEIGHTS).train(data="{out}/data.yaml")',
}
_tool = partial(
    Tool,
    package="libreyolo",
    versions=("1.6.0",),
    does="trains",
    formats=("coco", "yolo"),
    reads_best=("coco", None),
    starts=_STARTS,
    needs=("train",),
)

AREA_ZERO = Rule(
    "coco",
    "area_zero",
    "object_lost",
    "an annotation with the area 0 is left out without a word, whatever its mask",
    "remove 'area' from these annotations; segpaste convert DATASET --for {tool} --out DIR writes the areas",
)

_BOTH = (
    FLAT_LOST,
    IGNORED_UNREAD,
    Rule(
        "coco",
        "no_iscrowd",
        "stops",
        "an annotation without iscrowd ends the run with a KeyError",
        "write 'iscrowd': 0 into each annotation: segpaste convert DATASET --for {tool} --out DIR",
    ),
    NO_BOX,
    tiffs.as_stored(),
    Rule(
        "coco",
        "names_alike",
        "stops",
        "a name that two classes have in data.yaml ends the run with a ValueError",
        "give each category a name of its own",
    ),
    AREA_ZERO,
    *(Rule(form, "oriented", "shifted", ORIENTED, TURN) for form in ("coco", "yolo")),
    Rule(
        "yolo",
        "mixed_suffix",
        "image_lost",
        "images are found by suffixes in lower case or in upper case, and others are left out without a word",
        "rename the images",
    ),
    Rule(
        "yolo",
        "byte_order_mark",
        "object_lost",
        "the mark is read as part of the first class, and the first row is left out, with a warning",
        WITHOUT_MARK,
    ),
    Rule(
        "yolo",
        "float_class",
        "object_lost",
        "a row with a class such as 0.0 is left out, with a warning",
        WHOLE_CLASSES,
    ),
    Rule(
        "yolo",
        "repeated",
        "object_split",
        "each row is an object, so that there are two in one place",
        "remove the rows that repeat others, or write COCO's format: segpaste convert DATASET --for {tool} --out DIR",
    ),
    Rule(
        "yolo",
        "pose_odd",
        "object_lost",
        f"{POSE_AS_POLYGON}, and the row is left out for their odd number, with a warning",
        WITHOUT_POINTS,
    ),
    SAME_STEM,
    *yolo_files.LIBREYOLO,
)
_POSE_BOXES = Rule("yolo", "pose_pairs", "object_lost", f"{POSE_AS_POLYGON}, so that boxes are wrong", WITHOUT_POINTS)
_WITH_MASKS = (
    Rule(
        "coco",
        "thin_runs",
        "mask_changed",
        "run lengths become outlines, and what is one pixel high or wide has none",
        "train libreyolo-detect, or draw these objects as polygons",
    ),
    Rule("yolo", "pose_pairs", "mask_changed", f"{POSE_AS_POLYGON}, so that masks and boxes are wrong", WITHOUT_POINTS),
    *(
        Rule(
            "coco",
            trait,
            "mask_changed",
            "an object with a box and no mask is trained on with an empty mask",
            "train libreyolo-detect, or remove the objects without a mask",
        )
        for trait in ("box_only", "empty_outline")
    ),
    *(
        Rule(
            "yolo",
            trait,
            "mask_changed",
            "the mask of an object with a box is this box, filled",
            "train libreyolo-detect, or remove the rows of boxes",
        )
        for trait in ("mixed_rows", "box_rows")
    ),
)

TOOLS = (
    _tool("libreyolo", "LibreYOLO segment", rules=(*_BOTH, *_WITH_MASKS)),
    _tool("libreyolo-detect", "LibreYOLO detect", rules=(*_BOTH, _POSE_BOXES)),
)
