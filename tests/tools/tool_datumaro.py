"""Datumaro: reads a probe of COCO's instances, and writes COCO with its images."""

from __future__ import annotations

import shutil
from pathlib import Path

import datumaro
from judge import ReadImage
from written_coco import read_written

PACKAGES = {"datumaro": "datumaro"}


def by_datumaro(folder: Path) -> list[ReadImage]:
    """Read COCO in Datumaro's folders, and write it."""
    start = folder / "start"
    shutil.copytree(folder / "images", start / "images" / "train")
    (start / "annotations").mkdir()
    shutil.copy(folder / "instances.json", start / "annotations" / "instances_train.json")
    dataset = datumaro.Dataset.import_from(str(start), "coco_instances")
    dataset.export(str(folder / "out"), "coco_instances", save_media=True)
    out = folder / "out"
    return read_written(folder, out / "annotations" / "instances_train.json", out / "images" / "train")


def voc_by_datumaro(folder: Path) -> list[ReadImage]:
    """Read VOC's XML files, and write COCO with its images."""
    out = folder / "out"
    datumaro.Dataset.import_from(str(folder), "voc").export(str(out), "coco_instances", save_media=True)
    return read_written(folder, out / "annotations" / "instances_train.json", out / "images" / "train", has_masks=False)


READS = {"datumaro": {"coco": by_datumaro, "voc": voc_by_datumaro}}
