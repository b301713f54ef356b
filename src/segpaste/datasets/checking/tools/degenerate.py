"""Rules that tools share about objects without extent: boxes of no width, and outlines without a pixel."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rules import Rule

_LEAVE_OUT = "remove these objects: segpaste convert DATASET --for {tool} --out DIR"
FLAT_LOST = Rule(
    "coco",
    "flat_box",
    "object_lost",
    "a box of no width or height is left out, with the mask of its object",
    "write the boxes of the masks: segpaste convert DATASET --for {tool} --out DIR",
)
FLAT_UNMATCHED = Rule(
    "coco",
    "flat_boxes",
    "never_matched",
    "the overlap with a box of no area is 0, also of the same box",
    _LEAVE_OUT,
)
NO_PIXEL_UNMATCHED = Rule(
    "coco",
    "no_pixel",
    "never_matched",
    "in an evaluation of masks the object has no pixel, so that no prediction matches it",
    _LEAVE_OUT,
)
BY_HAND = "remove these objects"
_EMPTY = "the outline encloses the centre of no pixel, so that the mask is empty"
NO_PIXEL_TRAINED = Rule("coco", "no_pixel", "mask_changed", f"{_EMPTY}, and its box is trained on", _LEAVE_OUT)
NO_PIXEL_READ = Rule("coco", "no_pixel", "mask_changed", _EMPTY, BY_HAND)


def stops(trait: str, says: str, advice: str = BY_HAND) -> Rule:
    """Return a rule about COCO's files at which a tool ends."""
    return Rule("coco", trait, "stops", says, advice)
