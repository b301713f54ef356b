"""hotcoco: evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.pycocotools import IGNORED, unmatched_outline
from segpaste.datasets.checking.tools.rules import Rule, Tool

TOOL = Tool(
    "hotcoco",
    "hotcoco",
    "hotcoco",
    ("1.3.0",),
    "evaluates",
    ("coco",),
    (
        Rule(
            "coco",
            "id_negative",
            "stops",
            "reading ends with an error, for ids are expected from 0",
            "number annotations from 1: segpaste convert DATASET --for hotcoco --out DIR",
        ),
        IGNORED,
        unmatched_outline("hotcoco"),
    ),
    ("coco", None),
)
