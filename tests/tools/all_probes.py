"""All probes by format and trait, and how each is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import probes
from probes import FILES, YOLO, Probe
from yolo_layouts import LAYOUTS, Layout, data_file

PROBES: Mapping[str, Mapping[str, Probe]] = {**probes.PROBES, "yolo": {**YOLO, **LAYOUTS}}


def write(probe: Probe, format: str, folder: Path) -> Path:
    """Write a probe, with ``truth.json``, and return the folder of the dataset, which may be below the given one."""
    if isinstance(probe, Layout):
        return probe.write(folder)
    probes.write(probe, format, folder)
    return folder


def file_of(format: str, folder: Path) -> Path:
    """Return the file that tells where the others of a probe are; the folder if there is none, as for VOC."""
    if format == "voc":
        return folder
    file = data_file(folder) if format == "yolo" else folder / FILES[format]
    return file if file.exists() else folder
