"""Ultralytics: reads YOLO's labels for its tasks segment, detect, pose and obb."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rules import Rule, Tool

_VERSIONS = ("8.4.190",)
MIXED = Rule(
    "yolo",
    "mixed_rows",
    "image_lost",
    "an image whose file has boxes and polygons is left out of training, with a warning in the log",
    "write one kind of row: segpaste convert DATASET --for ultralytics --out DIR",
)

TOOLS = (
    Tool(
        "ultralytics",
        "Ultralytics segment",
        "ultralytics",
        _VERSIONS,
        "trains",
        ("yolo",),
        (MIXED,),
        ("yolo", "segment"),
    ),
    Tool(
        "ultralytics-detect",
        "Ultralytics detect",
        "ultralytics",
        _VERSIONS,
        "trains",
        ("yolo",),
        (),
        ("yolo", "detect"),
    ),
)
