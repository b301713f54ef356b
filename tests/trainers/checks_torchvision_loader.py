"""torchvision's own COCO dataset beside ours, on the same photos, field by field; run by `test_trainers`."""

from __future__ import annotations

from typing import Any

import torch
from differences import Differences
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2
from trainer_data import data_folder, tiny_coco

from segpaste.integrations.torchvision import to_detection
from segpaste.types import BatchedDenseSample

FIELDS = ("image_id", "boxes", "labels", "masks", "area", "iscrowd")
PER_OBJECT = FIELDS[1:]
NONE = "torchvision gives none of images without objects"
EXPLANATIONS = {
    "objects": "a crowd is no object, see `crowd_mask`",
    "image": "rounding",
    "image_id": "not in batches; `dataset.image_id(index)` has it",
    "boxes": f"ours fit the pixels of the mask, as they do after a paste; {NONE}",
    "labels": NONE,
    "masks": NONE,
    "area": f"ours is that of the mask, theirs that of the polygon; {NONE}",
    "iscrowd": NONE,
}


def theirs_of_tiny_coco() -> dict[int, dict[str, Any]]:
    """Return what torchvision gives of each photo, by its id: tensors, and lists of numbers."""
    folder = data_folder() / "tiny_coco"
    convert = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    annotations = folder / "annotations" / "instances_val2017.json"
    photos = wrap_dataset_for_transforms_v2(CocoDetection(folder / "val2017", annotations, convert), FIELDS)
    found = {}
    for image, target in photos:
        found[target["image_id"]] = {"image": image, **target}
    return found


def test_the_table_of_differences() -> None:
    theirs, photos, table = theirs_of_tiny_coco(), tiny_coco(), Differences(EXPLANATIONS)
    num_crowds = 0
    for index in range(len(photos)):
        own = theirs[photos.image_id(index)]
        batch = BatchedDenseSample.from_samples([photos[index]]).to_padded(64)
        (image,), (target,) = to_detection(batch, label_map=photos.category_ids)
        is_object = ~torch.tensor(own.get("iscrowd", []), dtype=torch.bool)
        kept = {name: torch.as_tensor(own[name])[is_object] for name in PER_OBJECT if name in own}
        counts = {"objects": len(is_object)}, {"objects": len(target["labels"])}
        num_crowds += int((~is_object).sum())
        assert len(is_object) - len(target["labels"]) == len(photos.crowds(index))
        table.compare({**own, **kept, **counts[0]}, {"image": image, **target, **counts[1]})
    assert num_crowds == 5
    table.expect_in_guide("torchvision.md")
