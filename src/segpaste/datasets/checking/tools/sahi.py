"""sahi: slices COCO with ``slice_coco``; observed with one slice of the size of the image."""

from __future__ import annotations

from segpaste.datasets.checking.tools import tiffs
from segpaste.datasets.checking.tools.degenerate import stops
from segpaste.datasets.checking.tools.pycocotools import IGNORED_UNREAD
from segpaste.datasets.checking.tools.rules import Rule, Tool


def _runs(trait: str) -> Rule:
    return Rule(
        "coco",
        trait,
        "mask_changed",
        "run lengths are replaced by their boxes",
        "write polygons before slicing",
    )


TOOL = Tool(
    "sahi",
    "sahi slicing",
    "sahi",
    ("0.12.8",),
    "converts",
    ("coco",),
    (
        Rule(
            "coco",
            "few_points",
            "stops",
            "reading ends with a ValueError if the first polygon has too few points",
            "remove these polygons from the file",
        ),
        Rule(
            "coco",
            "box_only",
            "mask_changed",
            "objects without a mask get their filled box as one",
            "remove 'segmentation' from these objects after slicing",
        ),
        Rule(
            "coco",
            "empty_outline",
            "mask_changed",
            "objects without a mask get their filled box as one",
            "remove 'segmentation' from these objects after slicing",
        ),
        Rule(
            "coco",
            "hole",
            "mask_changed",
            "holes of outlines are filled",
            "do not slice these objects with sahi",
        ),
        _runs("run_lengths"),
        _runs("compressed"),
        Rule(
            "coco",
            "keypoints",
            "points_lost",
            "keypoints are not read",
            "do not slice datasets with keypoints with sahi",
        ),
        tiffs.as_stored(converts=False),
        *tiffs.mapped("coco", converts=False),
        Rule(
            "coco",
            "oriented_as_stored",
            "shifted",
            "images are turned by their EXIF orientation, and annotations are not",
            "slice with exif_fix=False, or remove the EXIF orientation from the images",
        ),
        Rule(
            "coco",
            "crowd",
            "crowd_kept",
            "'iscrowd' is not read, and is written as 0",
            "leave crowd regions out before slicing",
        ),
        stops("flat_boxes", "slicing ends with a ValueError at a box of no width or height without a mask"),
        stops("no_pixel", "slicing ends with a ZeroDivisionError at an outline that encloses no area"),
        IGNORED_UNREAD,
        Rule(
            "coco",
            "wide",
            "pixels_changed",
            "values of 16 bits are cut off at 255, so that the slices are white",
            "convert the images to 8 bits",
        ),
    ),
)
