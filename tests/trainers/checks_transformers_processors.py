"""Image processors of transformers beside our conversions, on the same photos, by field; run by `test_trainers`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from differences import Differences
from tiny_oneformer import MAX_LENGTH, NUM_TEXT, tokenizer
from torch import Tensor
from trainer_data import data_folder, tiny_coco

from segpaste.datasets import FixedSizeCrop
from segpaste.integrations.huggingface import to_detr, to_mask_labels, to_oneformer
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample

PAGE = "huggingface.md"


class Photos(NamedTuple):
    """Photos of several sizes, their annotations, and a batch of them, padded at the right and below."""

    images: list[Tensor]
    annotations: list[dict[str, Any]]
    batch: PaddedBatchedDenseSample


@cache
def rows_of_images() -> dict[int, list[dict[str, Any]]]:
    """Return the annotations of each photo that are no crowds, by its id."""
    path = data_folder() / "tiny_coco" / "annotations" / "instances_val2017.json"
    tables = json.loads(path.read_text())
    found: dict[int, list[dict[str, Any]]] = {image["id"]: [] for image in tables["images"]}
    for row in tables["annotations"]:
        if not row["iscrowd"]:
            found[row["image_id"]].append(row)
    return found


def photos_of(batch_size: int) -> Iterator[Photos]:
    """Yield the photos of tiny_coco."""
    photos = tiny_coco()
    for first in range(0, len(photos), batch_size):
        indices = range(first, min(first + batch_size, len(photos)))
        samples = [photos[i] for i in indices]
        height, width = (max(sample.image.shape[axis] for sample in samples) for axis in (-2, -1))
        padded = BatchedDenseSample.from_samples([FixedSizeCrop((height, width))(sample, 0) for sample in samples])
        batch = padded.to_padded(max(len(sample.labels) for sample in samples))
        ids = [photos.image_id(i) for i in indices]
        annotations = [{"image_id": i, "annotations": rows_of_images()[i]} for i in ids]
        yield Photos([sample.image for sample in samples], annotations, batch)


def colours(processor: Any) -> dict[str, list[float]]:
    """Return the mean and standard deviation by which a processor normalises."""
    if not processor.do_normalize:
        return {"mean": [0.0] * 3, "std": [1.0] * 3}
    return {"mean": list(processor.image_mean), "std": list(processor.image_std)}


LABELS = {
    "labels.area": "ours is that of the mask, theirs that of the polygon",
    "labels.boxes": "ours fit the pixels of the mask, as they do after a paste; in fractions of the canvas",
    "labels.image_id": "not in batches; `dataset.image_id(index)` has it",
    "labels.size": "the processor gives none where it neither resizes nor pads",
}
DETECTION = {
    "detr": (transformers.DetrImageProcessor, LABELS),
    "rt_detr": (transformers.RTDetrImageProcessor, {**LABELS, "pixel_values": "rounding"}),
}


@pytest.mark.parametrize("name", DETECTION)
def test_the_tables_of_detection(name: str) -> None:
    kind, explanations = DETECTION[name]
    processor: Any = kind(do_resize=False, do_pad=True)
    table, masks, category_ids = Differences(explanations), name == "detr", tiny_coco().category_ids
    for images, targets, batch in photos_of(5):
        theirs = processor(images, targets, return_segmentation_masks=masks, return_tensors="pt")
        table.compare(theirs, to_detr(batch, **colours(processor), masks=masks, label_map=category_ids))
    table.expect_in_guide(PAGE)


def test_the_processor_of_detr_takes_no_crowds_beside_masks() -> None:
    """It leaves crowds out of the boxes, not of the masks: why the tables are made without crowds."""
    box = {"bbox": [0, 0, 3, 3], "area": 6, "category_id": 1, "iscrowd": 0, "segmentation": [[0, 0, 3, 0, 3, 3]]}
    crowd = {**box, "iscrowd": 1, "segmentation": {"counts": [0, 4, 12], "size": [4, 4]}}
    processor = transformers.DetrImageProcessor(do_resize=False)
    image, annotations = torch.zeros(3, 4, 4, dtype=torch.uint8), {"image_id": 1, "annotations": [box, crowd]}
    with pytest.raises(IndexError, match="mask"):
        processor(image, annotations, return_segmentation_masks=True, return_tensors="pt")


OVERLAPS = {"mask_labels": "a map has one object at a pixel, here the last of the file; ours keeps what overlaps"}
MASKS = {
    "mask2former": (transformers.Mask2FormerImageProcessor, 0, 0, 5),
    "eomt": (transformers.EomtImageProcessor, 255, 1, 1),  # it takes classes from 1, and images of one size only
}


@pytest.mark.parametrize("name", MASKS)
def test_the_tables_of_mask_labels(name: str) -> None:
    kind, ignore_index, first_class, batch_size = MASKS[name]
    processor: Any = kind(do_resize=False, ignore_index=ignore_index)
    options = {**colours(processor), "label_map": tiny_coco().category_ids, "with_pixel_mask": name != "eomt"}
    table = Differences(OVERLAPS)
    for found in photos_of(batch_size):
        own = to_mask_labels(found.batch, **options)
        maps, ids = maps_of(found, own["mask_labels"], first_class)
        theirs = processor(found.images, maps, instance_id_to_semantic_id=ids, return_tensors="pt")
        table.compare(theirs, own)
        for masks, others in zip(own["mask_labels"], theirs["mask_labels"], strict=True):
            assert torch.equal(masks.any(0), others.any(0))
            assert not ((masks != others).any(0) & (masks.sum(0) < 2)).any()
    table.expect_in_guide(PAGE)


ONEFORMER = {
    **OVERLAPS,
    "text_inputs": "the processor names the objects of the images before in the batch, too",
}


def test_the_table_of_oneformer(tmp_path: Path) -> None:
    """Without photos that have no objects: the processor takes none."""
    photos = tiny_coco()
    names = [f"class{n}" for n in range(len(photos.class_names))]
    classes = {
        category: {"name": name, "isthing": 1} for category, name in zip(photos.category_ids, names, strict=True)
    }
    (tmp_path / "classes.json").write_text(json.dumps(classes))
    files = {"repo_path": str(tmp_path), "class_info_file": "classes.json"}
    images = transformers.OneFormerImageProcessor(do_resize=False, ignore_index=0, num_text=NUM_TEXT, **files)
    lengths = {"max_seq_length": MAX_LENGTH, "task_seq_length": MAX_LENGTH}
    processor = transformers.OneFormerProcessor(images, tokenizer(), **lengths)
    texts = {"class_names": names, "tokenizer": tokenizer(), "num_text": NUM_TEXT, "max_length": MAX_LENGTH}
    options = {**colours(images), **texts, "label_map": photos.category_ids, "tasks": ["instance"]}
    table = Differences(ONEFORMER)
    for found in photos_of(5):
        own = to_oneformer(found.batch, **options)
        if all(len(labels) for labels in own["class_labels"]):
            maps, ids = maps_of(found, own["mask_labels"], 0)
            tasks = ["instance"] * len(maps)
            theirs = processor(found.images, tasks, maps, instance_id_to_semantic_id=ids, return_tensors="pt")
            table.compare(theirs, own)
            assert torch.equal(theirs["text_inputs"][0], own["text_inputs"][0])
    table.expect_in_guide(PAGE)


def maps_of(found: Photos, own: list[Tensor], first_class: int) -> tuple[list[Tensor], list[dict[int, int]]]:
    """Return the map of objects of each image, and the class of each number in it, counted from ``first_class``."""
    shown = [masks[:, : image.shape[1], : image.shape[2]] for masks, image in zip(own, found.images, strict=True)]
    rows = [enumerate(image["annotations"], 1) for image in found.annotations]
    return list(map(_map, shown)), [{n: row["category_id"] + first_class for n, row in image} for image in rows]


def _map(masks: Tensor) -> Tensor:
    """Return the map [H, W] that these processors take of masks [N, H, W]: 0, or the number of the last object."""
    numbers = torch.arange(1, len(masks) + 1).view(-1, 1, 1)
    return (masks * numbers).amax(0).int() if len(masks) else torch.zeros(masks.shape[1:], dtype=torch.int32)
