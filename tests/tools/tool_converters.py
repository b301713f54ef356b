"""Converters: each reads a probe and writes it as COCO, which is read again."""

from __future__ import annotations

import json
from pathlib import Path

import supervision
import yaml
from globox import AnnotationSet
from judge import ReadImage
from labelformat.formats import (
    COCOInstanceSegmentationInput,
    COCOInstanceSegmentationOutput,
    COCOObjectDetectionOutput,
    PascalVOCObjectDetectionInput,
    YOLOv8InstanceSegmentationInput,
)
from painted import CLASSES
from sahi.slicing import slice_coco
from written_coco import read_written
from yolo_layouts import data_file, folders_of

PACKAGES = {"supervision": "supervision", "globox": "globox", "labelformat": "labelformat", "sahi": "sahi"}


def by_supervision(folder: Path) -> list[ReadImage]:
    """Read COCO with supervision, and write it with the images."""
    return _write_supervision(
        supervision.DetectionDataset.from_coco(str(folder / "images"), str(folder / "instances.json")), folder
    )


def yolo_by_supervision(folder: Path) -> list[ReadImage]:
    """Read YOLO with supervision, and write COCO with the images."""
    images, labels = map(str, folders_of(folder))
    dataset = supervision.DetectionDataset.from_yolo(images, labels, str(data_file(folder)))
    return _write_supervision(dataset, folder)


def voc_by_supervision(folder: Path) -> list[ReadImage]:
    """Read VOC's XML files with supervision, and write COCO with the images."""
    images, labels = str(folder / "JPEGImages"), str(folder / "Annotations")
    return _write_supervision(supervision.DetectionDataset.from_pascal_voc(images, labels), folder)


def _write_supervision(dataset: supervision.DetectionDataset, folder: Path) -> list[ReadImage]:
    out = folder / "out"
    dataset.as_coco(str(out / "images"), str(out / "instances.json"))
    truth = json.loads((folder / "truth.json").read_text())
    names = {Path(image["name"]).name: image["name"] for image in truth}  # folders are left out, which is no loss
    return read_written(folder, out / "instances.json", out / "images", names.__getitem__)


def by_globox(folder: Path) -> list[ReadImage]:
    """Read COCO with Globox, which keeps boxes only, and write it."""
    return _write_globox(AnnotationSet.from_coco(folder / "instances.json"), folder)


def yolo_by_globox(folder: Path) -> list[ReadImage]:
    """Read YOLO's polygons with Globox, which keeps their boxes, and write COCO."""
    images, labels = folders_of(folder)
    found = AnnotationSet.from_yolo_seg(labels, image_folder=images, relative=True)
    return _write_globox(found.map_labels({str(i): name for i, name in enumerate(_names(folder))}), folder)


def voc_by_globox(folder: Path) -> list[ReadImage]:
    """Read VOC's XML files with Globox, and write COCO."""
    return _write_globox(AnnotationSet.from_pascal_voc(folder / "Annotations"), folder)


def _names(folder: Path) -> list[str]:
    if not (file := data_file(folder)).exists():
        return list(CLASSES)
    names: dict[int, str] | list[str] = yaml.safe_load(file.read_text())["names"]
    return [names[i] for i in range(len(names))]


def _write_globox(found: AnnotationSet, folder: Path) -> list[ReadImage]:
    found.save_coco(folder / "out.json", auto_ids=True)
    return read_written(folder, folder / "out.json", folders_of(folder)[0], has_masks=False)


def by_labelformat(folder: Path) -> list[ReadImage]:
    """Read COCO with labelformat, and write it."""
    return _write_labelformat(COCOInstanceSegmentationInput(folder / "instances.json"), folder)


def yolo_by_labelformat(folder: Path) -> list[ReadImage]:
    """Read YOLO with labelformat, and write COCO."""
    return _write_labelformat(YOLOv8InstanceSegmentationInput(data_file(folder), "train"), folder)


def voc_by_labelformat(folder: Path) -> list[ReadImage]:
    """Read VOC's XML files with labelformat, and write COCO's boxes."""
    found = PascalVOCObjectDetectionInput(folder / "Annotations", ",".join(CLASSES))
    COCOObjectDetectionOutput(folder / "out.json").save(found)
    return read_written(folder, folder / "out.json", folder / "JPEGImages", has_masks=False)


def _write_labelformat(found: object, folder: Path) -> list[ReadImage]:
    COCOInstanceSegmentationOutput(folder / "out.json").save(found)
    return read_written(folder, folder / "out.json", folders_of(folder)[0])


def by_sahi(folder: Path) -> list[ReadImage]:
    """Slice COCO with sahi into slices of the size of the images."""
    images = json.loads((folder / "instances.json").read_text())["images"]
    size = {"slice_height": images[0]["height"], "slice_width": images[0]["width"]}
    _, file = slice_coco(
        str(folder / "instances.json"), str(folder / "images"), "sliced", output_dir=str(folder / "out"), **size
    )
    return read_written(folder, Path(file), folder / "out", lambda name: images[int(name.split("_")[-5])]["file_name"])


READS = {
    "supervision": {"coco": by_supervision, "yolo": yolo_by_supervision, "voc": voc_by_supervision},
    "globox": {"coco": by_globox, "yolo": yolo_by_globox, "voc": voc_by_globox},
    "labelformat": {"coco": by_labelformat, "yolo": yolo_by_labelformat, "voc": voc_by_labelformat},
    "sahi": {"coco": by_sahi},
}
