"""Datasets that go to another library and back, and the comparison of all that the library holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Subset
from torchvision import tv_tensors
from trainer_data import data_folder

from segpaste import create_coco_dataloader
from segpaste.bank import build_bank, open_bank
from segpaste.datasets import (
    AnnotatedDataset,
    CocoDetectionV2,
    CocoPanoptic,
    SceneConfig,
    SceneDataset,
    check_dataset,
    convert_dataset,
    open_dataset,
)
from segpaste.datasets.views import annotated
from segpaste.experimental import CopyPaste

NUM = 4
"""Number of images of a set, from its start."""
KEPT = ("image", "boxes", "labels", "instance_masks", "crowd_mask", "keypoints")
POINTS = ["nose", "left_eye", "right_eye"]


def scenes(work: Path) -> Any:
    return SceneDataset(NUM, SceneConfig(height=64, width=80), seed=1)


def tiny_coco(work: Path) -> Any:
    folder = data_folder() / "tiny_coco"
    return CocoDetectionV2(folder / "train2017", folder / "annotations" / "instances_train2017.json")


def fruits_nuts(work: Path) -> Any:
    folder = data_folder() / "fruits_nuts"
    return CocoDetectionV2(folder / "images", folder / "trainval.json")


def lvis(work: Path) -> Any:
    file = data_folder() / "lvis_val_100" / "split" / "lvis_val_100_dev.json"
    for row in json.loads(file.read_text())["images"][:NUM]:  # the photos are not at hand
        Image.new("RGB", (row["width"], row["height"]), (row["id"] % 200, 90, 30)).save(work / row["file_name"])
    return CocoDetectionV2(work, file)


def panoptic(work: Path) -> Any:
    folder = data_folder() / "coco_panoptic_samples"
    file = folder / "split" / "panoptic_examples_142238.json"
    return CocoPanoptic(folder / "input_images", file, folder / "panoptic_examples")


def rgbd_tsdf(work: Path) -> Any:
    text = f"root: {data_folder() / 'rgbd_tsdf'}\nphotos: 'rgbd-frames/{{name}}.color.png'\n"
    text += "depth: {files: 'rgbd-frames/{name}.depth.png', unit: mm}\ncamera: {files: camera-intrinsics.txt}"
    return declared(work, text)


def cleargrasp(work: Path) -> Any:
    text = f"root: {data_folder() / 'cleargrasp' / 'real-val' / 'd435'}\n"
    text += "photos: '{name}-transparent-rgb-img.jpg'\nclasses: {0: background, 255: glass}\n"
    text += "semantic: {files: '{name}-mask.png'}\ndepth: {files: '{name}.npz', key: depth_opaque, unit: m}"
    return declared(work, text)


def declared(work: Path, text: str) -> Any:
    (work / "a.segpaste.yaml").write_text(text)
    return open_dataset(work / "a.segpaste.yaml")


def folder(*parts: str) -> Callable[[Path], Any]:
    return lambda work: open_dataset(data_folder().joinpath(*parts), split="train" if parts[0] == "camvid" else None)


def everything(work: Path) -> CocoDetectionV2:
    """Write a dataset with all that COCO's entries hold, on two photos; one has an orientation, but not its labels."""
    rng = np.random.default_rng(5)
    for name in ("a.png", "b.jpg"):
        image = Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8))
        exif = Image.Exif()
        exif[274] = 6
        image.save(work / name, **({"exif": exif} if name == "b.jpg" else {}))
    hole = [[4, 4, 24, 4, 24, 24, 4, 24], [30, 4, 38, 4, 38, 12]]
    runs = {"size": [40, 60], "counts": [400, 10, 30, 10, 30, 10, 1910]}
    rows: list[dict[str, Any]] = [
        {"segmentation": hole, "keypoints": [6, 7, 2, 9, 7, 1, 0, 0, 0], "num_keypoints": 2, "attributes": {"is": [1]}},
        {"segmentation": runs, "iscrowd": 1, "category_id": 9},
        {"segmentation": runs, "ignore": 1, "note": "far"},
        {"bbox": [40.5, 20.25, 10, 12], "category_id": 9},
        {"segmentation": [[1, 30, 9, 30, 9, 38]], "class": "x", "image_id": 8},
    ]
    own = {"iscrowd": 0, "category_id": 4, "image_id": 3}
    rows = [{**own, "bbox": [0, 0, 1, 1], "area": 1, "id": 20 + i, **row} for i, row in enumerate(rows)]
    images = [{"id": 3, "file_name": "a.png", "license": 7}, {"id": 8, "file_name": "b.jpg"}]
    categories = [{"id": 4, "name": "cat", "keypoints": POINTS, "skeleton": [[1, 2], [1, 3]]}, {"id": 9, "name": "dog"}]
    tables = {"images": [{**row, "height": 40, "width": 60} for row in images], "annotations": rows}
    (work / "a.json").write_text(json.dumps({**tables, "categories": categories}))
    return CocoDetectionV2(work, work / "a.json")


SETS: dict[str, Callable[[Path], Any]] = {
    "scenes": scenes,
    "everything": everything,
    "tiny_coco": tiny_coco,
    "fruits_nuts": fruits_nuts,
    "lvis": lvis,
    "panoptic": panoptic,
    "rgbd_tsdf": rgbd_tsdf,
    "cleargrasp": cleargrasp,
    "coco128_seg": folder("coco128_seg"),
    "labelme": folder("labelme_voc", "instance_segmentation", "data_annotated"),
    "voc": folder("labelme_voc", "instance_segmentation", "data_dataset_voc"),
    "camvid": folder("camvid"),
}
LOST: dict[str, str] = {
    "scenes": "semantic maps, panoptic maps and segments of stuff, depth, normals, cameras",
    "tiny_coco": r"polygons \(their masks are kept\), the tables .*, ids of classes",
    "lvis": r"lists of classes of LVIS, polygons",
    "panoptic": "semantic maps, panoptic maps and segments of stuff",
    "rgbd_tsdf": "depth, cameras",
    "cleargrasp": "semantic maps, depth",
    "voc": "semantic maps",
    "camvid": "semantic maps",
}
"""Beginning of what the warning of a set names."""


def opened(name: str, work: Path) -> AnnotatedDataset:
    """Return the first images of a set."""
    dataset = SETS[name](work)
    return annotated(Subset(dataset, range(min(NUM, len(dataset)))))


def assert_same(before: AnnotatedDataset, back: AnnotatedDataset, *, keeps_ids: bool = True) -> None:
    """Compare images, fields, classes, entries and regions bit for bit; ids unless they repeat."""
    assert len(back) == len(before) > 0
    assert [row["name"] for row in back.categories] == list(before.class_names)
    schemas = before.keypoint_schema, back.keypoint_schema
    assert schemas == (None, None) or schemas[0].fits(schemas[1])
    assert len({back.file_name(index) for index in range(len(back))}) == len(back)
    ids = [[*before.annotation_ids(index)] for index in range(len(before))]
    is_unique = len({key for row in ids for key in row}) == sum(map(len, ids))
    for index in range(len(before)):
        sample, other = before[index], back[index]
        for name in KEPT:
            assert_field(name, getattr(sample, name), getattr(other, name))
        assert back.image_id(index) == before.image_id(index)
        if is_unique and keeps_ids:
            numbers = range(len(ids[index])) if sample.instance_ids is None else sample.instance_ids - 1
            assert [*back.annotation_ids(index)] == [ids[index][int(i)] for i in numbers]
        assert_regions(before, back, index)
        row = {key: value for key, value in before.image_row(index).items() if key not in ("file_name", "id")}
        assert row.items() <= back.image_row(index).items()


def assert_field(name: str, before: Any, after: Any) -> None:
    """Compare a field, whose absence is that of objects, regions or points."""
    if before is None or after is None:
        found = before if after is None else after
        assert found is None or not found.as_subclass(Tensor).any(), name
        return
    if isinstance(before, tv_tensors.BoundingBoxes):
        before, after = before.as_subclass(Tensor), after.as_subclass(Tensor)
    assert torch.equal(torch.as_tensor(before), torch.as_tensor(after)), name


def assert_regions(before: AnnotatedDataset, back: AnnotatedDataset, index: int) -> None:
    one, other = before.crowds(index), back.crowds(index)
    assert [(c.label, c.is_ignored, c.box) for c in one] == [(c.label, c.is_ignored, c.box) for c in other]
    assert all(np.array_equal(c.mask, d.mask) for c, d in zip(one, other, strict=True))


def assert_goes_everywhere(dataset: AnnotatedDataset, work: Path) -> None:
    """Paste, build a bank, load batches, check, convert: as with every other dataset."""
    pasted = CopyPaste(dataset)(dataset[0])
    assert pasted.num_instances >= dataset[0].num_instances
    summary = build_bank(dataset, work / "bank", crop_size=(32, 32), class_names=dataset.class_names)
    assert len(open_bank(work / "bank")) == sum(summary.kept) > 0
    loader = create_coco_dataloader(dataset=dataset, batch_size=2, size=64, max_instances=24, num_workers=2)
    assert sum(int(batch.instance_valid.sum()) for batch in loader) > 0
    assert check_dataset(dataset, decode=True).is_healthy
    convert_dataset(dataset, work / "written", "coco", verify="full")
    written = open_dataset(work / "written")
    assert sum(len(written.instance_labels(i)) for i in range(len(written))) == sum(
        len(dataset.instance_labels(i)) for i in range(len(dataset))
    )
