"""transformers: the image processors of DETR, for COCO's annotations and panoptic maps, and of Mask2Former."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools import tiffs
from segpaste.datasets.checking.tools.degenerate import FLAT_LOST, NO_PIXEL_TRAINED
from segpaste.datasets.checking.tools.panopticapi import lacks
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD, few_points
from segpaste.datasets.checking.tools.rfdetr import NO_AREA, NO_BOX, ORIENTED, TO_EIGHT_BITS, TURN, WHITE
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.checking.tools.smp import MAPS_ORIENTED, RENUMBER, TURN_MAPS
from segpaste.datasets.checking.tools.torchvision import EMPTY_OUTLINE

_tool = partial(Tool, package="transformers", versions=("5.23.0",), does="trains")

_BOTH = (
    FLAT_LOST,
    IGNORED_UNREAD,
    NO_AREA,
    NO_BOX,
    tiffs.as_stored(),
    *tiffs.mapped("coco"),
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
    NO_PIXEL_TRAINED,
)

_PANOPTIC = (
    lacks("no_area", "area"),
    lacks("no_iscrowd", "iscrowd"),
    Rule(
        "panoptic",
        "no_segments",
        "stops",
        "an image whose map has no segment ends the run with a RuntimeError",
        "leave these images out, or make what is around the objects a segment",
    ),
    Rule("panoptic", "oriented", "shifted", MAPS_ORIENTED, TURN_MAPS),
    Rule(
        "panoptic",
        "map_grey",
        "shifted",
        "a grey value is taken for each of three colours, so that masks have no pixel, or those of another segment",
        "write maps in RGB: segpaste convert DATASET --for {tool} --out DIR",
    ),
    *(
        Rule(
            "panoptic",
            trait,
            "crowd_kept",
            "crowd regions are among the masks, boxes and classes, and the model is trained to find them as objects",
            "make void of them: segpaste convert DATASET --for {tool} --out DIR",
        )
        for trait in ("crowd", "crowd_twice")
    ),
    Rule("panoptic", "wide", "pixels_changed", WHITE, TO_EIGHT_BITS),
)
_AS_CLASS = "without ignore_index the value is a class of its own, with a mask to find"
_MAPS = (
    Rule(
        "maps",
        "map_colours",
        "stops",
        "a map of colours ends with a ValueError",
        RENUMBER,
    ),
    *(
        Rule(
            "maps",
            trait,
            "class_changed",
            "the value is the class, which is another one than that at its position in the list of names, or none",
            RENUMBER,
        )
        for trait in ("class_255", "class_gaps")
    ),
    Rule("maps", "void", "crowd_kept", _AS_CLASS, "give the processor ignore_index=255"),
    Rule(
        "maps",
        "other_void",
        "crowd_kept",
        _AS_CLASS,
        "give the processor this value as ignore_index; segpaste convert DATASET --for {tool} --out DIR writes 255",
    ),
    Rule("maps", "oriented", "shifted", MAPS_ORIENTED, TURN_MAPS),
    Rule("maps", "wide", "pixels_changed", WHITE, TO_EIGHT_BITS),
)

TOOLS = (
    _tool("transformers-detr", "transformers DETR", formats=("coco",), rules=_BOTH, reads_best=("coco", None)),
    _tool(
        "transformers-detr-masks",
        "transformers DETR with masks",
        formats=("coco",),
        rules=(*_BOTH, *_WITH_MASKS),
        reads_best=("coco", None),
    ),
    _tool(
        "transformers-detr-panoptic",
        "transformers DETR panoptic",
        formats=("panoptic",),
        rules=_PANOPTIC,
        reads_best=("coco-panoptic", None),
    ),
    _tool(
        "transformers-mask2former",
        "transformers Mask2Former",
        formats=("maps",),
        rules=_MAPS,
        reads_best=("label-maps", None),
    ),
)
