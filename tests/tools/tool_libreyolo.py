"""LibreYOLO's datasets of COCO and YOLO, as they are before its transforms, with the masks that these draw."""

from __future__ import annotations

import contextlib
import io
import json
from functools import partial
from pathlib import Path

from judge import ReadImage, ReadObject
from libreyolo.data.augment.segments import rasterize_segments
from libreyolo.data.dataset import COCODataset, YOLODataset
from libreyolo.data.utils import get_img_files, img2label_paths, load_data_config
from yolo_layouts import data_file, name_in

SIZE = 128
PACKAGES = dict.fromkeys(("libreyolo", "libreyolo-detect"), "libreyolo")


def read_coco(folder: Path, masks: bool) -> list[ReadImage]:
    """Read a file of COCO's instances, with the names of its categories, as the trainer takes them from data.yaml."""
    names = [row["name"] for row in json.loads((folder / "instances.json").read_text())["categories"]]
    options = {"img_size": (SIZE, SIZE), "load_segments": masks, "num_classes": len(names), "names": names}
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = COCODataset(str(folder), str(folder / "instances.json"), "images", **options)
    files = [dataset.annotations[i][3] for i in range(len(dataset))]
    return _read(dataset, files, names)


def read_yolo(folder: Path, masks: bool) -> list[ReadImage]:
    """Read a split as the trainer finds it."""
    data = load_data_config(str(data_file(folder)))
    images = get_img_files(data["train"], prefix=data["root"])
    options = {"img_size": (SIZE, SIZE), "load_segments": masks, "num_classes": len(data["names"])}
    dataset = YOLODataset(img_files=images, label_files=img2label_paths(images), **options)
    return _read(dataset, [name_in(folder, path) for path in images], data["names"])


def _read(dataset: COCODataset | YOLODataset, files: list[str], names: list[str]) -> list[ReadImage]:
    return [_read_one(dataset.pull_item(i), names, file) for i, file in enumerate(files)]


def _read_one(item: tuple[object, ...], names: list[str], file: str) -> ReadImage:
    image, rows, _, _, *segments = item
    masks = [None] * len(rows)
    if segments:
        masks = list(rasterize_segments(segments[0], *[image.shape[:2]] * 2, max_masks=len(rows)).astype(bool))
    objects = [ReadObject(names[int(row[4])], mask, row[:4].tolist()) for row, mask in zip(rows, masks, strict=True)]
    return ReadImage(file, image[..., ::-1], objects)


READS = {
    name: {"coco": partial(read_coco, masks=masks), "yolo": partial(read_yolo, masks=masks)}
    for name, masks in (("libreyolo", True), ("libreyolo-detect", False))
}
