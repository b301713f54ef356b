"""faster-coco-eval: evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.pycocotools import (
    ID_NEGATIVE,
    IGNORED,
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
    ),
    ("coco", None),
)
