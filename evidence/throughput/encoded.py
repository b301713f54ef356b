"""Scenes as a detection dataset stores them: JPEG bytes and run-length encoded masks, decoded for each sample."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image
from pycocotools import mask as rle
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms.functional import to_pil_image

from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import DenseSample, InstanceMask, Modality
from segpaste.types.check import not_none

NUM_CLASSES = 8


class EncodedScenes(Dataset[DenseSample]):
    """Rendered scenes that are encoded once and decoded at each access, as files in the page cache are.

    Args:
        num_scenes: number of scenes.
        size: height and width.
        num_objects: smallest and largest number of objects that are placed in a scene.

    Attributes:
        scenes: the same scenes as they are rendered.
    """

    def __init__(self, num_scenes: int, size: tuple[int, int], num_objects: tuple[int, int]) -> None:
        height, width = size
        config = SceneConfig(height=height, width=width, num_objects_range=num_objects, num_classes=NUM_CLASSES)
        self.scenes = SceneDataset(num_scenes, config, modalities=[Modality.IMAGE, Modality.INSTANCE])
        self.entries = [_encoded(self.scenes[i]) for i in range(num_scenes)]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> DenseSample:
        entry = self.entries[index]
        masks = torch.from_numpy(np.ascontiguousarray(rle.decode(entry["masks"]).transpose(2, 0, 1))).bool()
        return DenseSample(
            image=tv_tensors.Image(Image.open(BytesIO(entry["image"]))),
            boxes=tv_tensors.BoundingBoxes(entry["boxes"].clone(), format="XYXY", canvas_size=masks.shape[-2:]),
            labels=entry["labels"].clone(),
            instance_ids=torch.arange(1, len(masks) + 1, dtype=torch.int32),
            instance_masks=InstanceMask(masks),
        )


def _encoded(sample: DenseSample) -> dict[str, Any]:
    masks = not_none(sample.instance_masks).as_subclass(Tensor).to(torch.uint8).numpy()
    jpeg = BytesIO()
    to_pil_image(sample.image.as_subclass(Tensor)).save(jpeg, "JPEG", quality=90)
    return {
        "image": jpeg.getvalue(),
        "masks": rle.encode(np.asfortranarray(masks.transpose(1, 2, 0))),
        "boxes": sample.boxes.as_subclass(Tensor),
        "labels": sample.labels,
    }
