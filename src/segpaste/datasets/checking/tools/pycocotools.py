"""pycocotools: reads and evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.degenerate import FLAT_UNMATCHED, NO_PIXEL_UNMATCHED
from segpaste.datasets.checking.tools.rules import Rule, Tool

ID_NEGATIVE = Rule(
    "coco",
    "id_negative",
    "never_matched",
    "the id of the matched annotation is kept for each detection, and what is below 1 means that there is none",
    "number annotations from 1: segpaste convert DATASET --for faster-coco-eval --out DIR",
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
    "mark these regions with 'iscrowd' 1: segpaste convert DATASET --for {tool} --out DIR",
)

IGNORED = Rule(
    "coco",
    "ignored",
    "crowd_kept",
    "'ignore' is overwritten by 'iscrowd', so that the region is an object that must be found",
    "mark these regions with 'iscrowd' 1: segpaste convert DATASET --for {tool} --out DIR",
)

_WITH_MASKS = "remove these objects: segpaste convert DATASET --for {} --out DIR; or evaluate boxes"


def box_among_masks(says: str, tool: str = "pycocotools") -> Rule:
    """Return the rule about objects without a mask, if masks are evaluated."""
    return Rule("coco", "box_among_masks", "stops", f"evaluation of masks ends with {says}", _WITH_MASKS.format(tool))


def empty_outline(says: str, tool: str = "pycocotools") -> Rule:
    """Return the rule about objects with an empty list of polygons, if masks are evaluated."""
    return Rule("coco", "empty_outline", "stops", f"evaluation of masks ends with {says}", _WITH_MASKS.format(tool))


def unmatched_outline(tool: str) -> Rule:
    """Return the rule about objects with an empty list of polygons that count as missed."""
    says = "in an evaluation of masks the object has no pixel, so that no prediction matches it"
    return Rule("coco", "empty_outline", "never_matched", says, _WITH_MASKS.format(tool))


def few_points(tool: str = "pycocotools") -> Rule:
    """Return the rule about polygons of fewer than three points."""
    return Rule(
        "coco",
        "few_points",
        "stops",
        "a first polygon of four numbers is taken for a box, and evaluation ends with a TypeError",
        f"remove these polygons: segpaste convert DATASET --for {tool} --out DIR",
    )


OTHER_POINTS = Rule(
    "coco",
    "other_points",
    "stops",
    "evaluation of keypoints ends with a ValueError, for there are 17 tolerances",
    "give a tolerance for each of your keypoints, as params.kpt_oks_sigmas of the evaluation",
)
_COUNT_POINTS = "write num_keypoints: segpaste convert DATASET --for {tool} --out DIR"
NO_NUM_KEYPOINTS = Rule(
    "coco",
    "no_num_keypoints",
    "stops",
    "evaluation of keypoints ends with a KeyError at an object without num_keypoints",
    _COUNT_POINTS,
)
IGNORED_POINTS = Rule(
    "coco",
    "no_num_keypoints",
    "never_matched",
    "in an evaluation of keypoints the object is ignored; if none has num_keypoints, the score is -1",
    _COUNT_POINTS,
)


def id_zero(tool: str = "pycocotools") -> Rule:
    """Return the rule about annotations with the id 0."""
    return Rule(
        "coco",
        "id_zero",
        "never_matched",
        "the id of the matched annotation is kept for each detection, and 0 means that there is none",
        f"number annotations from 1: segpaste convert DATASET --for {tool} --out DIR",
    )


TOOL = Tool(
    "pycocotools",
    "pycocotools",
    "pycocotools",
    ("2.0.11",),
    "evaluates",
    ("coco",),
    (
        few_points(),
        NO_AREA,
        NO_ISCROWD,
        IGNORED,
        id_zero(),
        box_among_masks("a KeyError"),
        empty_outline("an IndexError"),
        FLAT_UNMATCHED,
        NO_PIXEL_UNMATCHED,
        OTHER_POINTS,
        NO_NUM_KEYPOINTS,
    ),
    ("coco", None),
)
