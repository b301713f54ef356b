"""Copy-paste of other libraries inside loader workers, each by its own public interface.

All paste about as many objects of the same images. None does exactly what another does; `DOES` of `arms` says what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from benchmarks.stand_ins import as_lists, list_based
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from segpaste.datasets.jitter import SampleTransform
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from ..samples import sample_of


class Crops(Protocol):
    """A bank as the peers read it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass
class Albumentations:
    """`CopyAndPaste` of AlbumentationsX with donors from a bank.

    Attributes:
        bank: where donors come from.
        num_objects: donors for an image.
        scale_range: size of a donor relative to its crop.
    """

    bank: Crops
    num_objects: int
    scale_range: tuple[float, float]

    def __post_init__(self) -> None:
        import albumentations as A

        boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
        paste = A.CopyAndPaste(scale_range=self.scale_range, p=1.0)
        self.pipeline = A.Compose([paste], bbox_params=boxes, telemetry=False)

    def __call__(self, sample: DenseSample) -> DenseSample:
        """Return the sample with pastes."""
        donors = [self._donor(int(i)) for i in torch.randint(len(self.bank), (self.num_objects,))]
        image, masks, labels = arrays(sample)
        boxes = sample.boxes.as_subclass(Tensor).numpy()
        out = self.pipeline(image=image, masks=masks, bboxes=boxes, labels=labels, copy_paste_metadata=donors)
        return sample_of(out["image"], np.asarray(out["masks"]), np.asarray(out["labels"], np.int64))

    def _donor(self, index: int) -> dict[str, Any]:
        crop = self.bank[index]
        image = np.ascontiguousarray(crop.image.transpose(1, 2, 0))
        return {"image": image, "mask": crop.alpha[0].astype(np.uint8), "bbox_labels": {"labels": int(crop.class_id)}}


@dataclass
class Ultralytics:
    """`CopyPaste` of Ultralytics in its mode ``mixup``: objects of another image, which it decodes.

    Objects are polygons of four corners, the least work for it.

    Attributes:
        images: the dataset that it draws the other image from.
        jitter: brings that image to the size of the first.
    """

    images: Dataset[DenseSample]
    jitter: SampleTransform

    def __post_init__(self) -> None:
        from ultralytics.data.augment import CopyPaste

        self.paste = CopyPaste(dataset=self, p=1.0, mode="mixup")

    def __len__(self) -> int:
        return len(self.images)  # type: ignore[arg-type]

    def get_image_and_label(self, index: int) -> dict[str, Any]:
        """Return another image, for the transform, which calls this."""
        return _polygons(self.jitter(self.images[index], int(torch.randint(1 << 62, ()))))

    def __call__(self, sample: DenseSample) -> DenseSample:
        """Return the sample with pastes."""
        from ultralytics.data.utils import polygons2masks

        out = self.paste(_polygons(sample))
        segments = [*out["instances"].segments]
        masks = polygons2masks(sample.canvas_size, segments, 1) if segments else np.zeros((0, *sample.canvas_size))
        return sample_of(out["img"], masks.astype(np.uint8), out["cls"][:, 0].astype(np.int64))


def torchvision_rule(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Paste by the rule of torchvision's reference script, in our own writing, which is part of its collate function.

    A random half of the objects of the image before, where they are; no blending.
    """
    images, targets = list_based(*as_lists(batch))
    samples = [
        sample_of(image.permute(1, 2, 0).numpy(), target["masks"].to(torch.uint8).numpy(), target["labels"].numpy())
        for image, target in zip(images, targets, strict=True)
    ]
    return BatchedDenseSample.from_samples(samples).to_padded(batch.instance_valid.shape[1], overflow="largest")


def arrays(sample: DenseSample) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]:
    """Return image [H, W, 3], masks [N, H, W] and labels [N] as arrays."""
    image = np.ascontiguousarray(sample.image.as_subclass(Tensor).permute(1, 2, 0).numpy())
    masks = not_none(sample.instance_masks).as_subclass(Tensor).to(torch.uint8).numpy()
    return image, masks, sample.labels.numpy()


def _polygons(sample: DenseSample) -> dict[str, Any]:
    """Return a sample as Ultralytics' loader gives it, the corners of each box as its polygon."""
    from ultralytics.utils.instance import Instances

    boxes = sample.boxes.as_subclass(Tensor).numpy()
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    return {
        "img": arrays(sample)[0],
        "cls": sample.labels.numpy().astype(np.float32)[:, None],
        "instances": Instances(boxes, corners, bbox_format="xyxy", normalized=False),
    }
