"""torchvision: ``CocoDetection``, wrapped by ``wrap_dataset_for_transforms_v2``."""

from __future__ import annotations

from segpaste.datasets.checking.tools import tiffs
from segpaste.datasets.checking.tools.degenerate import NO_PIXEL_TRAINED
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD, few_points
from segpaste.datasets.checking.tools.rules import Rule, Tool

EMPTY_OUTLINE = Rule(
    "coco",
    "empty_outline",
    "stops",
    "an empty list for a mask ends the run with an IndexError",
    "remove these objects, or draw their masks",
)

TOOL = Tool(
    "torchvision",
    "torchvision",
    "torchvision",
    ("0.29.2",),
    "trains",
    ("coco",),
    (
        Rule(
            "coco",
            "box_among_masks",
            "object_lost",
            "the target has fewer masks than labels, so that masks belong to other objects from there on",
            "draw the missing masks, or remove the objects without a mask",
        ),
        EMPTY_OUTLINE,
        NO_PIXEL_TRAINED,
        few_points("torchvision"),
        IGNORED_UNREAD,
        tiffs.as_stored(),
        *tiffs.mapped("coco"),
        Rule(
            "coco",
            "oriented",
            "shifted",
            "images are read as stored, without their EXIF orientation, and masks lie elsewhere",
            "turn the images: segpaste convert DATASET --for torchvision --out DIR",
        ),
        Rule(
            "coco",
            "wide",
            "pixels_changed",
            "values of 16 bits are cut off at 255, so that the image is white",
            "convert the images to 8 bits",
        ),
        Rule(
            "coco",
            "no_box",
            "object_lost",
            "the target has fewer boxes than labels, so that boxes belong to other objects from there on",
            "write the boxes: segpaste convert DATASET --to coco --out DIR",
        ),
        Rule(
            "coco",
            "no_iscrowd",
            "object_lost",
            "the target has fewer values of iscrowd than labels, so that they belong to other objects from there on",
            "write 'iscrowd': 0 into each annotation: segpaste convert DATASET --to coco --out DIR",
        ),
    ),
    ("coco", None),
)
