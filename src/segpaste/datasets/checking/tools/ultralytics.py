"""Ultralytics: reads YOLO's labels for its tasks segment, detect, obb and pose."""

from __future__ import annotations

from functools import partial

from segpaste.datasets.checking.tools import yolo_files
from segpaste.datasets.checking.tools.rules import Rule, Tool

_VERSIONS = ("8.4.190",)
_NEEDS = ("train", "val")
_tool = partial(Tool, package="ultralytics", versions=_VERSIONS, does="trains", formats=("yolo",), needs=_NEEDS)


def _starts(task: str, model: str) -> dict[str, str]:
    return {"yolo": f"yolo {task} train model={model} data={{out}}/data.yaml"}


MIXED = Rule(
    "yolo",
    "mixed_rows",
    "image_lost",
    "an image whose file has boxes and polygons is left out of training, with a warning in the log",
    "complete the polygons, or write boxes alone: segpaste convert DATASET --to yolo --task detect --out DIR",
)
BOX_ROWS = Rule(
    "yolo",
    "box_rows",
    "stops",
    "boxes beside the polygons of other images end the run with a ValueError",
    "train ultralytics-detect on them, or remove these images from the split",
)
SMALL = Rule(
    "yolo",
    "small_image",
    "image_lost",
    "an image of less than 10 pixels is left out of training, with a warning in the log",
    "remove these images, or enlarge them",
)
SAME_STEM = Rule(
    "yolo",
    "same_stem",
    "object_lost",
    "the images have one label file together, so that one of them has the labels of the other",
    "rename the images, and give each a label file",
)
POSES = tuple(
    Rule(
        "yolo",
        trait,
        "stops",
        "keypoints are dropped and boxes kept, which end the run with a ValueError",
        "train ultralytics-pose or ultralytics-detect on them",
    )
    for trait in ("pose_pairs", "pose_odd")
)
NO_POINTS = Rule(
    "yolo",
    "no_points",
    "stops",
    "without kpt_shape in data.yaml the run ends with a ValueError",
    "train ultralytics or ultralytics-detect on it, or annotate keypoints",
)
_FILES = (SMALL, SAME_STEM, *yolo_files.ULTRALYTICS)

TOOLS = (
    _tool(
        "ultralytics",
        "Ultralytics segment",
        rules=(MIXED, BOX_ROWS, *POSES, *_FILES),
        reads_best=("yolo", "segment"),
        starts=_starts("segment", "yolo11n-seg.pt"),
    ),
    _tool(
        "ultralytics-detect",
        "Ultralytics detect",
        rules=(MIXED, *_FILES),
        reads_best=("yolo", "detect"),
        starts=_starts("detect", "yolo11n.pt"),
    ),
    _tool(
        "ultralytics-pose",
        "Ultralytics pose",
        rules=(NO_POINTS, *_FILES),
        reads_best=("yolo", "pose"),
        starts=_starts("pose", "yolo11n-pose.pt"),
    ),
    _tool(
        "ultralytics-obb",
        "Ultralytics obb",
        rules=(MIXED, BOX_ROWS, *POSES, *_FILES),
        reads_best=("yolo", "obb"),
        starts=_starts("obb", "yolo11n-obb.pt"),
    ),
)
