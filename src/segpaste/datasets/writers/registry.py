"""Registry of the written formats by name."""

from __future__ import annotations

from collections.abc import Sequence

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.writers.coco import CocoInstances, RoboflowCoco
from segpaste.datasets.writers.coco_panoptic import CocoSegments
from segpaste.datasets.writers.format import WrittenFormat
from segpaste.datasets.writers.label_maps import LabelMaps
from segpaste.datasets.writers.lvis import LvisInstances
from segpaste.datasets.writers.voc import PascalVoc
from segpaste.datasets.writers.yolo import YoloLabels

WRITTEN: Sequence[WrittenFormat] = (
    CocoInstances(),
    CocoSegments(),
    LvisInstances(),
    RoboflowCoco(),
    YoloLabels(),
    PascalVoc(),
    LabelMaps(),
)
"""Written formats, in the order of the documentation."""


def written_format(name: str) -> WrittenFormat:
    """Return a written format by its name.

    Raises:
        DatasetError: there is no such format.
    """
    for known in WRITTEN:
        if known.name == name:
            return known
    raise DatasetError(f"format (--to): expected one of {', '.join(known.name for known in WRITTEN)}, got {name!r}")
