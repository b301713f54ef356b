"""faster-coco-eval: evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.pycocotools import ID_NEGATIVE, ID_ZERO, IGNORED
from segpaste.datasets.checking.tools.rules import Tool

TOOL = Tool(
    "faster-coco-eval",
    "faster-coco-eval",
    "faster-coco-eval",
    ("1.8.0",),
    "evaluates",
    ("coco",),
    (ID_ZERO, ID_NEGATIVE, IGNORED),
    ("coco", None),
)
