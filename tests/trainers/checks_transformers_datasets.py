"""Datasets of the ``datasets`` package give the samples that our own readers give; run by `test_trainers`."""

from __future__ import annotations

import io
import json
from pathlib import Path
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
from segpaste.bank import BankError, DatasetBank
from segpaste.integrations.huggingface import CopyPasteCollator, HubSamples, to_detr
from segpaste.types import DenseSample
from stored_files import png

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


def test_maps_of_few_bits_have_their_stored_values() -> None:
    """Images that the package decodes no longer show how many bits their grey values have."""
    image, classes = Image.fromarray(np.zeros((3, 5, 3), np.uint8)), np.arange(15, dtype=np.uint8).reshape(3, 5)
    rows = datasets.Dataset.from_list([{"image": image, "classes": {"bytes": png(classes, 4), "path": None}}])
    for decode in (True, False):
        given = rows.cast_column("classes", datasets.Image(decode=decode))
        sample = HubSamples(given, semantic_map="classes", class_names=[str(i) for i in range(15)])[0]
        assert sample.semantic_map.tolist() == classes.tolist()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_they_are_pasted_in_a_collator_and_as_a_pool(scenes: Any, num_workers: int) -> None:
    crop = v2.RandomResizedCrop(64, scale=(0.8, 1.0))
    samples = HubSamples(scenes, instance_map="things", class_names=NAMES, transforms=crop)
    pool = DatasetBank(HubSamples(scenes, instance_map="things", class_names=NAMES), crop_size=(48, 48))
    augment = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank")), source_pool=pool
    )
    convert = ConvertDetr()
    collator = CopyPasteCollator(augment, 24, convert)
    torch.manual_seed(0)
    batches = list(DataLoader(samples, 2, collate_fn=collator, num_workers=num_workers))
    assert len(batches) == 3
    assert all(batch["pixel_values"].shape == (2, 3, 64, 64) for batch in batches)


def test_a_pool_without_names_says_what_gives_them(scenes: Any) -> None:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"))
    with pytest.raises(BankError, match=r"since a HubSamples has none; give HubSamples\(\.\.\., class_names=\["):
        BatchCopyPaste(config, source_pool=HubSamples(scenes, instance_map="things"))


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
    with pytest.raises(ValueError, match="a channel of classes and a channel of objects"):
        HubSamples(scenes, instance_map="classes")[0]


GREY = Image.fromarray(np.full((12, 16, 3), 99, np.uint8))
BOX = [1.0, 2.0, 3.0, 4.0]


class Rows:
    """A dataset of rows that no table of the package would hold."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.column_names = list(rows[0])
        self.features = {"objects": {"bbox": None, "category": None}}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


@pytest.mark.parametrize("form", ["lists", "records"])
def test_a_row_without_objects_has_what_the_others_have(form: str) -> None:
    first = {"bbox": BOX, "category": 2, "iscrowd": None, "segmentation": [[1.0, 2.0, 4.0, 2.0, 4.0, 6.0, 1.0, 6.0]]}
    lists = {name: [value] for name, value in first.items()}
    given = [lists, None, dict.fromkeys(lists)] if form == "lists" else [[first], None, []]
    rows = datasets.Dataset.from_list([{"image": GREY, "objects": objects} for objects in given])
    samples = HubSamples(rows, objects="objects", class_names=NAMES)
    assert [samples.instance_labels(i) for i in range(3)] == [samples[i].labels.tolist() for i in range(3)]
    assert [samples[i].num_instances for i in range(3)] == [1, 0, 0]
    assert len({samples[i].modalities for i in range(3)}) == 1
    for sample in (samples[i] for i in range(3)):
        assert sample.instance_masks is not None
        assert sample.crowd_mask is not None
        assert not sample.crowd_mask.any()
    assert len(DatasetBank(samples, crop_size=(8, 8))) == 1


def test_images_that_the_package_did_not_decode(scenes: Any, tmp_path: Path) -> None:
    raw = scenes
    for name in scenes.column_names:
        raw = raw.cast_column(name, datasets.Image(decode=False))
    columns = {"instance_map": "things", "semantic_map": "classes", "class_names": NAMES}
    for index in (0, 1):
        sample, expected = HubSamples(raw, **columns)[index], HubSamples(scenes, **columns)[index]
        assert torch.equal(sample.image, expected.image)
        assert torch.equal(sample.labels, expected.labels)
        assert torch.equal(sample.semantic_map, expected.semantic_map)
    turned, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # on its side
    GREY.save(turned, "png", exif=exif)
    (tmp_path / "a.png").write_bytes(turned.getvalue())
    for image in ({"bytes": turned.getvalue(), "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")}):
        sample = HubSamples(Rows({"image": image, "objects": None}), objects="objects")[0]
        assert sample.image.shape == (3, 16, 12)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "expected an image, got None; filter such rows out"),
        ("a.jpg", "expected an image, got str 'a.jpg'; cast the column"),
        ({"bytes": b"text", "path": None}, "expected bytes or the path of an image, got cannot identify"),
        ({"bytes": None, "path": "no such file.png"}, "expected bytes or the path of an image, got .*No such file"),
        ({"bytes": None, "path": None}, "expected an image, got dict"),
    ],
)
def test_what_is_no_image_is_named(image: Any, message: str) -> None:
    fine = {"image": GREY, "objects": None, "classes": Image.new("L", (16, 12))}
    with pytest.raises(ValueError, match=f"^HubSamples: row 1, column 'image': {message}"):
        HubSamples(Rows(fine, {**fine, "image": image}), objects="objects")[1]
    with pytest.raises(ValueError, match=r"^HubSamples: row 1, column 'classes': expected ") as raised:
        HubSamples(Rows(fine, {**fine, "classes": image}), semantic_map="classes")[1]
    path = image.get("path") if isinstance(image, dict) else None
    assert path is None or path in str(raised.value)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_photos_of_more_than_eight_bits_are_named(dtype: Any) -> None:
    image = Image.fromarray(np.full((12, 16), 300, dtype))
    samples = HubSamples(Rows({"image": GREY, "objects": None}, {"image": image, "objects": None}), objects="objects")
    message = "row 1, column 'image': expected an image of 8 bits per channel, got mode (I;16|I|F); convert it"
    with pytest.raises(ValueError, match=f"^HubSamples: {message}"):
        samples[1]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_photos_of_eight_bits_are_read(mode: str) -> None:
    image = GREY.convert(mode)
    sample = HubSamples(Rows({"image": image, "objects": None}), objects="objects")[0]
    assert np.array_equal(sample.image.permute(1, 2, 0), np.array(image.convert("RGB")))


@pytest.mark.parametrize("form", ["lists", "records"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"category": "cat"}, "expected each category as a number from 0, got the text 'cat'; number the classes"),
        ({"category": None}, "expected each category as a number from 0, got None; leave such objects out"),
        ({"category": 1.5}, "expected each category as a number from 0, got 1.5; leave such objects out"),
        ({"category": -1}, "expected categories from 0, got -1; leave such objects out"),
        ({"iscrowd": "no"}, "expected each iscrowd as 0 or 1, or None for 0, got 'no'; convert it"),
        ({"bbox": BOX[:3]}, r"expected each bbox as four numbers .*, got \[1.0, 2.0, 3.0\]; leave"),
        ({"bbox": [1.0, 2.0, None, 4.0]}, r"expected each bbox as four numbers .*, got \[1.0, 2.0, None, 4.0\]; leave"),
        ({"bbox": None}, "expected each bbox as four numbers .*, got None; leave"),
    ],
)
def test_what_is_no_object_is_named(form: str, change: dict[str, Any], message: str) -> None:
    records = [{"bbox": BOX, "category": 1, "iscrowd": 0}, {"bbox": BOX, "category": 1, "iscrowd": 0} | change]
    objects = {name: [record[name] for record in records] for name in records[0]} if form == "lists" else records
    fine = {"image": GREY, "objects": None}
    samples = HubSamples(Rows(fine, {**fine, "objects": objects}), objects="objects", class_names=NAMES)
    for read in (samples.__getitem__, samples.instance_labels):
        with pytest.raises(ValueError, match=f"^HubSamples: row 1, column 'objects': {message}"):
            read(1)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"bbox": [BOX], "category": [1, 2]}, "expected lists of one length, .*, got 1 of bbox, 2 of category; repair"),
        ({"bbox": [BOX], "category": None}, "expected lists of one length, .*, got 1 of bbox, 0 of category; repair"),
        (
            {"bbox": [BOX], "category": [1], "iscrowd": [0, 0]},
            "expected lists of one length, .*, got 1 of bbox, 1 of category, 2 of iscrowd; repair",
        ),
        (
            {"bbox": [BOX], "category": [1], "segmentation": None},
            "expected lists of one length, .*, got 1 of bbox, 1 of category, 0 of segmentation; repair",
        ),
        ({"bbox": [BOX], "label": [1]}, "expected bbox and category, got bbox, label; rename them"),
        ("cat", "expected a record of lists or a list of records, got 'cat'; name the column"),
        ({"bbox": [BOX], "category": [1], "segmentation": [None]}, "segmentation: expected a segmentation"),
    ],
)
def test_rows_that_do_not_fit_are_named(objects: Any, message: str) -> None:
    fine = {"image": GREY, "objects": None}
    with pytest.raises(ValueError, match=f"^HubSamples: row 1, column 'objects': {message}"):
        HubSamples(Rows(fine, {**fine, "objects": objects}), objects="objects", class_names=NAMES)[1]


def test_class_names_have_no_gaps() -> None:
    with pytest.raises(ValueError, match=r"expected a name for each class from 0, got \[0, 2\] without 1;"):
        HubSamples(Rows({"image": GREY, "objects": None}), objects="objects", class_names={0: "a", 2: "c"})
