"""All probes by format and trait, and how each is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import probes
from probes import COCO, YOLO, Probe
from yolo_layouts import LAYOUTS, Layout

PROBES: Mapping[str, Mapping[str, Probe]] = {"coco": COCO, "yolo": {**YOLO, **LAYOUTS}}


def write(probe: Probe, format: str, folder: Path) -> Path:
    """Write a probe, with ``truth.json``, and return the folder of the dataset, which may be below the given one."""
    if isinstance(probe, Layout):
        return probe.write(folder)
    probes.write(probe, format, folder)
    return folder
