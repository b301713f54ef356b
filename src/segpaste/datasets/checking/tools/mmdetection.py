"""MMDetection: ``CocoDataset`` with ``LoadAnnotations``, and the filter of its configurations."""

from __future__ import annotations

from segpaste.datasets.checking.tools import tiffs
from segpaste.datasets.checking.tools.degenerate import FLAT_LOST, NO_PIXEL_TRAINED
from segpaste.datasets.checking.tools.libreyolo import AREA_ZERO
from segpaste.datasets.checking.tools.rfdetr import NO_AREA, NO_BOX
from segpaste.datasets.checking.tools.rules import Rule, Tool

TOOL = Tool(
    "mmdetection",
    "MMDetection",
    "mmdet",
    ("3.3.0",),
    "trains",
    ("coco",),
    (
        *(
            Rule(
                "coco",
                trait,
                "stops",
                "an image with a box that has no mask ends the run with a KeyError, if masks are loaded",
                "remove the objects without a mask, or train without masks (with_mask=False)",
            )
            for trait in ("box_only", "empty_outline")
        ),
        FLAT_LOST,
        NO_PIXEL_TRAINED,
        NO_AREA,
        NO_BOX,
        *(
            Rule(
                "coco",
                trait,
                "image_lost",
                "images of less than 32 pixels are left out, by the filter (min_size=32) of all its configurations",
                "enlarge these images, or set min_size=1 in filter_cfg",
            )
            for trait in ("small_image", "low_image")
        ),
        AREA_ZERO,
        tiffs.as_stored(),
        Rule(
            "coco",
            "oriented_as_stored",
            "shifted",
            "images are turned by their EXIF orientation, and the annotations are not",
            "remove the orientation: segpaste convert DATASET --for mmdetection --out DIR",
        ),
        Rule(
            "coco",
            "no_objects",
            "background_lost",
            "images without annotations are left out, by the filter (filter_empty_gt=True) of its configurations",
            "set filter_empty_gt=False in filter_cfg to train on them",
        ),
    ),
    ("coco", None),
)
