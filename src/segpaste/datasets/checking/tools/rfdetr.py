"""RF-DETR: reads COCO's instances and YOLO's labels, to train with or without masks."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools import tiffs, yolo_files
from segpaste.datasets.checking.tools.degenerate import FLAT_LOST, NO_PIXEL_TRAINED
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD, few_points
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.checking.tools.ultralytics import SAME_STEM

_NEEDS = ("train", "val")
_CONVERT = "segpaste convert DATASET --for {tool} --out DIR"
_tool = partial(
    Tool,
    package="rfdetr",
    versions=("1.11.2",),
    does="trains",
    formats=("coco", "yolo"),
    needs=_NEEDS,
    joins_classes=False,
)

ORIENTED = "images are read as stored, without their EXIF orientation, and labels lie elsewhere"
TURN = "turn the images: segpaste convert DATASET --for {tool} --out DIR"
WHITE = "values of 16 bits are cut off at 255, so that the image is white"
TO_EIGHT_BITS = "convert the images to 8 bits"
NO_AREA = Rule(
    "coco",
    "no_area",
    "stops",
    "an annotation without an area ends the run with a KeyError when its image is read",
    "write the areas: segpaste convert DATASET --for {tool} --out DIR",
)
POSE_AS_POLYGON = "the numbers of a box and its keypoints are taken for the points of a polygon"
WITHOUT_POINTS = "write labels without keypoints: segpaste convert DATASET --to yolo --task detect --out DIR"
WHOLE_CLASSES = (
    "write classes as whole numbers, or train on COCO's format: segpaste convert DATASET --for {tool} --out DIR"
)
WITHOUT_MARK = (
    "save the label files without a mark, or train on COCO's format: segpaste convert DATASET --for {tool} --out DIR"
)
NO_BOX = Rule(
    "coco",
    "no_box",
    "stops",
    "an annotation without a box ends the run with a KeyError",
    "write the boxes: segpaste convert DATASET --for {tool} --out DIR",
)

_BOTH = (
    FLAT_LOST,
    IGNORED_UNREAD,
    NO_AREA,
    NO_BOX,
    tiffs.as_stored(),
    *tiffs.mapped("coco", "yolo"),
    *(Rule(form, "oriented", "shifted", ORIENTED, TURN) for form in ("coco", "yolo")),
    *(Rule(form, "wide", "pixels_changed", WHITE, TO_EIGHT_BITS) for form in ("coco", "yolo")),
    *(
        Rule(
            "yolo",
            trait,
            "image_lost",
            "only the images directly in the folder of the split are read; the others are left out without a word",
            "put the images, and their labels, into one folder, or train on COCO's format",
        )
        for trait in ("subfolder", "same_name")
    ),
    Rule(
        "yolo",
        "repeated",
        "object_split",
        "each row is an object, so that there are two in one place",
        f"remove the rows that repeat others, or train on COCO's format: {_CONVERT}",
    ),
    Rule(
        "yolo",
        "byte_order_mark",
        "stops",
        "the mark is read as part of the first class, which ends the run with a ValueError",
        WITHOUT_MARK,
    ),
    Rule("yolo", "float_class", "stops", "a class such as 0.0 ends the run with a ValueError", WHOLE_CLASSES),
    Rule("yolo", "pose_odd", "stops", f"{POSE_AS_POLYGON}, and their odd number ends the run", WITHOUT_POINTS),
    SAME_STEM,
    *yolo_files.RFDETR,
)
_POSE_BOXES = Rule("yolo", "pose_pairs", "object_lost", f"{POSE_AS_POLYGON}, so that boxes are wrong", WITHOUT_POINTS)
_WITH_MASKS = (
    Rule("yolo", "pose_pairs", "mask_changed", f"{POSE_AS_POLYGON}, so that masks and boxes are wrong", WITHOUT_POINTS),
    *(
        Rule(
            "coco",
            trait,
            "mask_changed",
            "an object with a box and no mask is trained on with an empty mask",
            "train rfdetr-detect, or remove the objects without a mask",
        )
        for trait in ("box_only", "empty_outline")
    ),
    few_points("rfdetr"),
    NO_PIXEL_TRAINED,
    *(
        Rule(
            "yolo",
            trait,
            "mask_changed",
            "the mask of an object with a box is this box, filled",
            "train rfdetr-detect, or remove the rows of boxes",
        )
        for trait in ("mixed_rows", "box_rows")
    ),
)


def _starts(model: str) -> dict[str, str]:
    return dict.fromkeys(("roboflow", "yolo"), f'rfdetr.{model}().train(dataset_dir="{{out}}")')


TOOLS = (
    _tool(
        "rfdetr",
        "RF-DETR segment",
        rules=(*_BOTH, *_WITH_MASKS),
        reads_best=("roboflow", None),
        starts=_starts("RFDETRSegNano"),
    ),
    _tool(
        "rfdetr-detect",
        "RF-DETR detect",
        rules=(*_BOTH, _POSE_BOXES),
        reads_best=("roboflow", None),
        starts=_starts("RFDETRNano"),
    ),
)
