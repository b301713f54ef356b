"""segmentation_models_pytorch: maps of classes as its dataset reads them, and its losses with ``ignore_index=255``."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rfdetr import TO_EIGHT_BITS, WHITE
from segpaste.datasets.checking.tools.rules import Rule, Tool

RENUMBER = "write ids from 0 and void as 255: segpaste convert DATASET --for {tool} --out DIR"
MAPS_ORIENTED = "images are read as stored, without their EXIF orientation, and maps are stretched over them"
TURN_MAPS = "turn the images: segpaste convert DATASET --for {tool} --out DIR"


def stops(trait: str, says: str) -> Rule:
    """Return a rule about maps at which a run ends; other maps are written for the tool."""
    return Rule("maps", trait, "stops", says, RENUMBER)


TOOL = Tool(
    "smp",
    "segmentation_models_pytorch",
    "segmentation-models-pytorch",
    ("0.6.0",),
    "trains",
    ("maps",),
    (
        stops(
            "class_gaps",
            "a class is the channel of its id, so that SoftCrossEntropyLoss and DiceLoss end with an error; FocalLoss "
            "and LovaszLoss go on without the class",
        ),
        stops(
            "other_void",
            "the losses take one ignore_index, 255 here, and the void value is a channel that does not exist",
        ),
        stops("map_colours", "a colour is read as three values, and the losses end with an error"),
        Rule(
            "maps",
            "class_255",
            "object_lost",
            "with ignore_index=255 the class is ignored; without it, binary losses and metrics count 255 times: an IoU "
            "of 0.996 for half of the object",
            "write the class as 1: segpaste convert DATASET --for {tool} --out DIR",
        ),
        Rule("maps", "oriented", "shifted", MAPS_ORIENTED, TURN_MAPS),
        Rule("maps", "wide", "pixels_changed", WHITE, TO_EIGHT_BITS),
    ),
    ("label-maps", None),
)
