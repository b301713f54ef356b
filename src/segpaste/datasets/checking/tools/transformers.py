"""transformers: the image processor of DETR, given COCO's annotations, with or without masks."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD, few_points
from segpaste.datasets.checking.tools.rfdetr import NO_AREA, NO_BOX, ORIENTED, TO_EIGHT_BITS, TURN, WHITE
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.checking.tools.torchvision import EMPTY_OUTLINE

_tool = partial(Tool, package="transformers", versions=("5.23.0",), does="trains", formats=("coco",))

_BOTH = (
    IGNORED_UNREAD,
    NO_AREA,
    NO_BOX,
    Rule(
        "coco",
        "some_keypoints",
        "stops",
        "keypoints of some objects of an image, and none of the others, end the run with an IndexError",
        "give each annotation 'keypoints', or none",
    ),
    Rule("coco", "oriented", "shifted", ORIENTED, TURN),
    Rule("coco", "wide", "pixels_changed", WHITE, TO_EIGHT_BITS),
)
_WITH_MASKS = (
    Rule(
        "coco",
        "box_only",
        "stops",
        "an annotation without a segmentation ends the run with a KeyError",
        "remove the objects without a mask, or leave return_segmentation_masks at False",
    ),
    *(
        Rule(
            "coco",
            trait,
            "stops",
            "crowds are left out of the boxes and not of the masks, and the run ends with an IndexError",
            "leave out the crowd regions: segpaste convert DATASET --for transformers-detr-masks --out DIR",
        )
        for trait in ("crowd", "only_crowds")
    ),
    EMPTY_OUTLINE,
    Rule(
        "coco",
        "compressed",
        "stops",
        "the text of compressed run lengths is taken for numbers, and the run ends with a ValueError",
        "write run lengths as numbers: segpaste convert DATASET --for transformers-detr-masks --out DIR",
    ),
    few_points("transformers-detr-masks"),
)

TOOLS = (
    _tool("transformers-detr", "transformers DETR", rules=_BOTH, reads_best=("coco", None)),
    _tool(
        "transformers-detr-masks",
        "transformers DETR with masks",
        rules=(*_BOTH, *_WITH_MASKS),
        reads_best=("coco", None),
    ),
)
