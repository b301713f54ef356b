"""torchmetrics: ``MeanAveragePrecision``, from files with its ``coco_to_tm``, or from tensors."""

from __future__ import annotations

from segpaste.datasets.checking.tools.degenerate import FLAT_UNMATCHED, NO_PIXEL_UNMATCHED
from segpaste.datasets.checking.tools.pycocotools import (
    IGNORED,
    NO_AREA,
    NO_ISCROWD,
    box_among_masks,
    empty_outline,
    few_points,
)
from segpaste.datasets.checking.tools.rules import Rule, Tool

_VERSIONS = ("1.9.0",)

TOOLS = (
    Tool(
        "torchmetrics",
        "torchmetrics coco_to_tm",
        "torchmetrics",
        _VERSIONS,
        "evaluates",
        ("coco",),
        (
            few_points("torchmetrics"),
            NO_AREA,
            NO_ISCROWD,
            IGNORED,
            box_among_masks("a KeyError", "torchmetrics"),
            empty_outline("an IndexError", "torchmetrics"),
            FLAT_UNMATCHED,
            NO_PIXEL_UNMATCHED,
            Rule(
                "coco",
                "no_objects",
                "background_lost",
                "predictions on these images are left out too, so that false ones do not lower the score",
                "evaluate with pycocotools",
            ),
        ),
        ("coco", None),
    ),
    Tool(
        "torchmetrics-tensors",
        "torchmetrics tensors",
        "torchmetrics",
        _VERSIONS,
        "evaluates",
        ("coco",),
        (
            box_among_masks("a ValueError", "torchmetrics-tensors"),
            empty_outline("a ValueError", "torchmetrics-tensors"),
            FLAT_UNMATCHED,
            NO_PIXEL_UNMATCHED,
            Rule(
                "coco",
                "no_objects",
                "background_lost",
                "with masks, predictions on these images are left out too, so that false ones do not lower the score",
                "evaluate boxes, which count them, or evaluate with pycocotools",
            ),
        ),
        ("coco", None),
    ),
)
