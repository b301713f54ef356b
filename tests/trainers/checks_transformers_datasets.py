"""Datasets of the ``datasets`` package give the samples that our own readers give; run by `test_trainers`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import v2
from trainer_data import data_folder, dataset_of

import datasets
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, CocoDetectionV2
from segpaste.augmentation import SourceConfig
from segpaste.bank import DatasetBank
from segpaste.integrations.huggingface import CopyPasteCollator, HubSamples, to_detr
from segpaste.types import DenseSample

NAMES = [f"class {n}" for n in range(13)]


def rows_of(sample: DenseSample) -> dict[str, Any]:
    """A sample as a row: boxes, polygons of the masks' pixels as run lengths, a map of objects, a map of classes."""
    masks, labels = sample.instance_masks, sample.labels.tolist()
    numbers = (masks * torch.arange(1, len(labels) + 1)[:, None, None]).amax(0).numpy().astype(np.uint8)
    classes = np.full(masks.shape[1:], 255, np.uint8)
    for n, label in enumerate(labels, start=1):
        classes[numbers == n] = label
    return {
        "image": Image.fromarray(sample.image.permute(1, 2, 0).numpy()),
        "things": Image.fromarray(np.stack([classes, numbers, np.zeros_like(numbers)], 2)),
        "classes": Image.fromarray(classes),
    }


@pytest.fixture(scope="module")
def scenes() -> Any:
    return datasets.Dataset.from_list([rows_of(dataset_of("scenes")[i]) for i in range(6)])


@pytest.fixture(scope="module")
def coco() -> tuple[CocoDetectionV2, Any]:
    """Photos read by us, and the same as a dataset of the package with lists of objects."""
    folder = data_folder() / "tiny_coco"
    file = folder / "annotations" / "instances_val2017.json"
    photos = CocoDetectionV2(folder / "val2017", file)
    tables = json.loads(file.read_text())
    label_of = {row["id"]: n for n, row in enumerate(sorted(tables["categories"], key=lambda row: row["id"]))}
    rows = []
    for index in range(len(photos)):
        found = [row for row in tables["annotations"] if row["image_id"] == photos.image_id(index)]
        objects = {
            "id": [row["id"] for row in found],
            "bbox": [row["bbox"] for row in found],
            "category": [label_of[row["category_id"]] for row in found],
            "iscrowd": [row["iscrowd"] for row in found],
        }
        rows.append({"image": str(folder / "val2017" / photos.file_name(index)), "objects": objects})
    category = datasets.ClassLabel(names=list(photos.class_names))
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "objects": {
                "id": datasets.List(datasets.Value("int64")),
                "bbox": datasets.List(datasets.List(datasets.Value("float32"), 4)),
                "category": datasets.List(category),
                "iscrowd": datasets.List(datasets.Value("int64")),
            },
        }
    )
    return photos, datasets.Dataset.from_list(rows, features=features)


def test_boxes_are_those_of_the_file(coco: tuple[CocoDetectionV2, Any]) -> None:
    photos, theirs = coco
    samples = HubSamples(theirs, objects="objects")
    assert samples.class_names == tuple(photos.class_names)
    assert len(samples) == len(photos)
    crowds = 0
    for index in range(len(photos)):
        sample, expected = samples[index], photos[index]
        assert torch.equal(sample.image, expected.image)
        assert sample.labels.tolist() == expected.labels.tolist()
        assert sample.instance_masks is None
        objects = theirs[index]["objects"]
        plain = [box for box, crowd in zip(objects["bbox"], objects["iscrowd"], strict=True) if not crowd]
        edges = torch.tensor([[x, y, x + w, y + h] for x, y, w, h in plain]).reshape(-1, 4)
        assert torch.allclose(torch.as_tensor(sample.boxes), edges, atol=0.02), "within the image by rounding"
        assert sample.crowd_mask is not None
        if photos.has_crowds:
            crowd = photos.crowd_mask(index)
            crowds += int(crowd.any())
            covered = (crowd & sample.crowd_mask[0]).sum()
            assert covered >= 0.98 * crowd.sum(), "boxes of the file are cut at whole pixels, and cover the crowds"
    assert crowds


def test_run_lengths_and_polygons_are_masks() -> None:
    outline = [[2.0, 2.0, 9.0, 2.0, 9.0, 7.0, 2.0, 7.0]]
    runs = {"size": [12, 16], "counts": [0, 12, 180]}  # the first column
    objects = {"bbox": [[2, 2, 7, 5], [0, 0, 1, 12], [5, 5, 2, 2]], "category": [1, 0, 2], "iscrowd": [0, 0, 1]}
    objects["segmentation"] = [outline, runs, [[5.0, 5.0, 7.0, 5.0, 7.0, 7.0]]]
    image = Image.fromarray(np.zeros((12, 16, 3), np.uint8))

    class Rows:
        column_names = ("image", "objects")
        features: ClassVar = {"objects": {"category": None, "bbox": None}}

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"image": image, "objects": objects}

    sample = HubSamples(Rows(), objects="objects", class_names=NAMES)[0]
    assert sample.labels.tolist() == [1, 0]
    assert sample.boxes.tolist() == [[2, 2, 9, 7], [0, 0, 1, 12]]
    assert sample.crowd_mask is not None
    assert sample.crowd_mask.any()


def test_a_number_may_be_of_an_object_in_each_class() -> None:
    things = np.zeros((12, 16, 3), np.uint8)
    things[1:4, 1:5, :2] = 1, 1
    things[6:11, 6:11, :2] = 2, 1
    image = np.zeros((12, 16, 3), np.uint8)
    rows = datasets.Dataset.from_list([{"image": Image.fromarray(image), "things": Image.fromarray(things)}])
    sample = HubSamples(rows, instance_map="things", class_names=NAMES)[0]
    assert sample.labels.tolist() == [1, 2]
    assert sample.instance_masks.flatten(1).sum(1).tolist() == [12, 25]


def test_lists_of_records_and_labels_without_a_read() -> None:
    image = Image.fromarray(np.zeros((12, 16, 3), np.uint8))
    records = [{"bbox": [1.0, 2.0, 3.0, 4.0], "category": 2}, {"bbox": [0.0, 0.0, 5.0, 5.0], "category": 0}]
    rows = datasets.Dataset.from_list([{"image": image, "objects": records}, {"image": image, "objects": []}])
    for given in (rows, rows.with_format("torch")):
        samples = HubSamples(given, objects="objects", class_names={0: "a", 1: "b", 2: "c"})
        assert samples.class_names == ("a", "b", "c")
        assert samples.instance_labels(0) == samples[0].labels.tolist() == [2, 0]
        assert samples[1].labels.tolist() == samples.instance_labels(1) == []
    wrong = datasets.Dataset.from_list([{"image": image, "objects": [{"bbox": [1.0, 2.0, 3.0, 4.0], "label": 2}]}])
    with pytest.raises(ValueError, match="expected bbox and category in 'objects', got bbox, label; rename them"):
        HubSamples(wrong, objects="objects")


def test_maps_give_back_the_objects(scenes: Any) -> None:
    samples = HubSamples(scenes, instance_map="things", semantic_map="classes", class_names=NAMES)
    for index in range(6):
        sample, expected = samples[index], dataset_of("scenes")[index]
        assert torch.equal(sample.image, expected.image)
        assert torch.equal(sample.labels, expected.labels)
        assert torch.equal(sample.instance_masks, expected.instance_masks)
        owned = expected.instance_masks.any(0)
        assert sample.semantic_map is not None
        assert (sample.semantic_map[~owned] == 255).all()
    only = HubSamples(scenes, semantic_map="classes", class_names=NAMES)[0]
    assert only.instance_masks is None
    assert torch.equal(only.semantic_map, samples[0].semantic_map)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_they_are_pasted_in_a_collator_and_as_a_pool(scenes: Any, num_workers: int) -> None:
    crop = v2.RandomResizedCrop(64, scale=(0.8, 1.0))
    samples = HubSamples(scenes, instance_map="things", class_names=NAMES, transforms=crop)
    pool = DatasetBank(HubSamples(scenes, instance_map="things", class_names=NAMES), crop_size=(48, 48))
    augment = BatchCopyPaste(BatchCopyPasteConfig(source=SourceConfig(kind="bank")), source_pool=pool)
    convert = ConvertDetr()
    collator = CopyPasteCollator(augment, 24, convert)
    torch.manual_seed(0)
    batches = list(DataLoader(samples, 2, collate_fn=collator, num_workers=num_workers))
    assert len(batches) == 3
    assert all(batch["pixel_values"].shape == (2, 3, 64, 64) for batch in batches)


class ConvertDetr:
    def __call__(self, batch: Any) -> Any:
        return to_detr(batch, mean=[0.5] * 3, std=[0.5] * 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected a column with annotations, got none"),
        ({"objects": "thing"}, r"expected a column among image, things, classes as objects, got 'thing'"),
        ({"objects": "things", "instance_map": "classes"}, "expected objects or an instance_map, got both"),
    ],
)
def test_refuses(scenes: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HubSamples(scenes, **options)


def test_refuses_streams_and_maps_of_one_channel(scenes: Any) -> None:
    with pytest.raises(TypeError, match="with random access, got IterableDataset; load it without streaming"):
        HubSamples(scenes.to_iterable_dataset(), instance_map="things")
    with pytest.raises(ValueError, match="a channel of classes and one of objects"):
        HubSamples(scenes, instance_map="classes")[0]
