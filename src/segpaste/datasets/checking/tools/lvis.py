"""lvis: evaluates files with LVIS's lists of classes; it needs NumPy before 1.24."""

from __future__ import annotations

from dataclasses import replace

from segpaste.datasets.checking.tools.degenerate import BY_HAND, FLAT_UNMATCHED, NO_PIXEL_UNMATCHED
from segpaste.datasets.checking.tools.pycocotools import NO_AREA, box_among_masks, empty_outline, few_points, id_zero
from segpaste.datasets.checking.tools.rules import Rule, Tool

TOOL = Tool(
    "lvis",
    "lvis",
    "lvis",
    ("0.5.3",),
    "evaluates",
    ("coco",),
    (
        Rule(
            "coco",
            "no_class_lists",
            "stops",
            "evaluation ends with a KeyError if an image has no 'neg_category_ids' or 'not_exhaustive_category_ids'",
            "evaluate with pycocotools, or add both lists to each image",
        ),
        few_points(),
        NO_AREA,
        Rule(
            "coco",
            "crowd",
            "crowd_kept",
            "'iscrowd' is not read, so that the region is an object that must be found",
            "remove crowd regions, and list their classes in 'not_exhaustive_category_ids' of the image",
        ),
        id_zero(),
        box_among_masks("a KeyError"),
        empty_outline("an IndexError"),
        replace(FLAT_UNMATCHED, advice=BY_HAND),
        replace(NO_PIXEL_UNMATCHED, advice=BY_HAND),
    ),
)
