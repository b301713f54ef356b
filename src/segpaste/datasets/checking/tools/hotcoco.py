"""hotcoco: evaluates COCO's instances and panoptic maps."""

from __future__ import annotations

from segpaste.datasets.checking.tools.degenerate import FLAT_UNMATCHED, NO_PIXEL_UNMATCHED, stops
from segpaste.datasets.checking.tools.panopticapi import CROWD_TWICE, MAP_GREY, NO_SEGMENTS, OTHER_AREA
from segpaste.datasets.checking.tools.pycocotools import IGNORED, unmatched_outline
from segpaste.datasets.checking.tools.rules import Rule, Tool

_VERSIONS = ("1.3.0",)
_IDS = "reading ends with an error, for ids are expected from 0"

TOOL = Tool(
    "hotcoco",
    "hotcoco",
    "hotcoco",
    _VERSIONS,
    "evaluates",
    ("coco",),
    (
        Rule(
            "coco",
            "id_negative",
            "stops",
            _IDS,
            "number annotations from 1: segpaste convert DATASET --for hotcoco --out DIR",
        ),
        IGNORED,
        unmatched_outline("hotcoco"),
        FLAT_UNMATCHED,
        NO_PIXEL_UNMATCHED,
        stops("image_negative", _IDS, "number images from 1"),
        stops("category_negative", _IDS, "number categories from 1"),
    ),
    ("coco", None),
)
PANOPTIC = Tool(
    "hotcoco-panoptic",
    "hotcoco panoptic",
    "hotcoco",
    _VERSIONS,
    "evaluates",
    ("panoptic",),
    (
        OTHER_AREA,
        CROWD_TWICE,
        MAP_GREY,
        NO_SEGMENTS,
        Rule("panoptic", "image_negative", "stops", _IDS, "number images from 1"),
        Rule("panoptic", "category_negative", "stops", _IDS, "number categories from 1"),
    ),
    ("coco-panoptic", None),
)
