"""Registry of the written formats by name."""

from __future__ import annotations

from collections.abc import Sequence

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.written.coco import CocoInstances, CocoSegments, RoboflowCoco
from segpaste.datasets.formats.written.format import WrittenFormat
from segpaste.datasets.formats.written.label_maps import LabelMaps
from segpaste.datasets.formats.written.lvis import LvisInstances
from segpaste.datasets.formats.written.voc import PascalVoc
from segpaste.datasets.formats.written.yolo import YoloLabels

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
