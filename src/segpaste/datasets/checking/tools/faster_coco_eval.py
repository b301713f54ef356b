"""faster-coco-eval: evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.degenerate import FLAT_UNMATCHED, NO_PIXEL_UNMATCHED, stops
from segpaste.datasets.checking.tools.pycocotools import (
    ID_NEGATIVE,
    IGNORED,
    IGNORED_POINTS,
    OTHER_POINTS,
    box_among_masks,
    id_zero,
    unmatched_outline,
)
from segpaste.datasets.checking.tools.rules import Tool

TOOL = Tool(
    "faster-coco-eval",
    "faster-coco-eval",
    "faster-coco-eval",
    ("1.8.0",),
    "evaluates",
    ("coco",),
    (
        id_zero("faster-coco-eval"),
        ID_NEGATIVE,
        IGNORED,
        box_among_masks("a KeyError", "faster-coco-eval"),
        unmatched_outline("faster-coco-eval"),
        FLAT_UNMATCHED,
        NO_PIXEL_UNMATCHED,
        stops("image_negative", "evaluation of masks ends with a TypeError", "number images from 1"),
        OTHER_POINTS,
        IGNORED_POINTS,
    ),
    ("coco", None),
)
