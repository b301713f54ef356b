"""Masks for a dataset of boxes, by a segment-anything model of transformers.

Each box is the prompt of its object. The mask with the highest predicted overlap is cut to the box. In the entry of the
object, ``mask_quality`` has the predicted overlap, and the share of the box that the mask covers. An object without a
pixel gets its filled box.

Source: A. Kirillov et al., "Segment Anything", 2023. Not for datasets that have masks, which would be replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import tv_tensors

from segpaste._pixels import outward_box
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.kept_shapes import given_shapes
from segpaste.datasets.formats.rle import encode_mask
from segpaste.extras import require
from segpaste.types import DenseSample, InstanceMask, tight_boxes

QUALITY = "mask_quality"
_BOXES_AT_ONCE = 64


class BoxMasker(Protocol):
    """Maker of masks of boxes."""

    @property
    def name(self) -> str:
        """Name of the masker in the entries."""
        ...

    def __call__(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Return masks [N, H, W] bool and the predicted overlap of each with its object, [N] float32.

        Args:
            image: [3, H, W] uint8.
            boxes: [N, 4] float32, xyxy in pixel edges.
        """
        ...


class SamMasker:
    """Maker of masks by a segment-anything model.

    Args:
        model: a folder of a saved model and its processor, or their name on the Hugging Face hub.
        device: device of the model.

    Raises:
        MissingPackageError: transformers is not installed.
        DatasetError: there is no such model.
    """

    def __init__(self, model: str, device: str = "cpu") -> None:
        transformers = require("transformers")
        self.name, self.device = model, device
        if not sys.stderr.isatty():
            transformers.utils.logging.disable_progress_bar()
        try:
            self._processor = transformers.SamProcessor.from_pretrained(model)
            self._model = transformers.SamModel.from_pretrained(model).to(device).eval()
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DatasetError(
                f"--masks-from {model}: expected a segment-anything model, a folder or a name on the Hugging Face hub, "
                f"could not load it ({reason})"
            ) from error

    def __call__(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """See `BoxMasker`."""
        if not len(boxes):
            return torch.zeros(0, *image.shape[1:], dtype=torch.bool, device="cpu"), torch.zeros(
                0, dtype=torch.float32, device="cpu"
            )
        masks, scores = [], []
        encoded: Tensor | None = None
        with torch.inference_mode():
            for part in torch.split(boxes, _BOXES_AT_ONCE):
                inputs = self._processor(
                    images=image.permute(1, 2, 0).numpy(), input_boxes=[part.tolist()], return_tensors="pt"
                )
                if encoded is None:
                    encoded = self._model.get_image_embeddings(inputs["pixel_values"].to(self.device))
                out = self._model(
                    image_embeddings=encoded,
                    input_boxes=inputs["input_boxes"].to(self.device, torch.float32),
                    multimask_output=True,
                )
                found = self._processor.image_processor.post_process_masks(
                    out.pred_masks.cpu(), inputs["original_sizes"], inputs["reshaped_input_sizes"]
                )[0]
                best = out.iou_scores[0].cpu().argmax(1)
                each = torch.arange(len(best), device="cpu")
                masks.append(found[each, best])
                scores.append(out.iou_scores[0].cpu()[each, best])
        return torch.cat(masks), torch.cat(scores)


class _Made(NamedTuple):
    sample: DenseSample
    rows: list[JsonRow]


class WithPredictedMasks(DatasetWrapper):
    """A dataset of boxes whose samples get masks.

    Its boxes are those of the masks, other fields those of the dataset. The entry of each object has a
    ``segmentation``, its ``area``, and under ``mask_quality`` a ``model``, the ``predicted_iou``,
    ``box_covered_frac``, and ``is_box`` if the model found no pixel.

    Args:
        photos: the dataset.
        masker: makes the masks.

    Raises:
        DatasetError: the dataset has masks.
    """

    def __init__(self, photos: AnnotatedDataset, masker: BoxMasker) -> None:
        if photos.has_masks:
            raise DatasetError(
                f"{photos.annotations_file}: expected a dataset with boxes only for --masks-from, got masks; leave "
                "--masks-from out"
            )
        super().__init__(photos)
        self.masker, self.has_masks = masker, True
        self._latest: tuple[int, _Made] | None = None

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations, those of objects with their masks."""
        return [dict(row) for row in self._made(index).rows]

    def __getitem__(self, index: int) -> DenseSample:
        return self._made(index).sample

    def place_of(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return this dataset, since the samples of the other have no masks."""
        return self, index

    def _made(self, index: int) -> _Made:
        """Return a sample and its entries; the latest ones are cached, since a conversion asks for both."""
        if self._latest is None or self._latest[0] != index:
            self._latest = index, self._make(index)
        return self._latest[1]

    def _make(self, index: int) -> _Made:
        sample = self.dataset[index]
        boxes = sample.boxes.as_subclass(Tensor)
        masks, scores = self.masker(sample.image.as_subclass(Tensor), boxes)
        order = sorted(self.dataset.categories, key=lambda row: int(row["id"]))
        by_id = {row["id"]: row for row in self.dataset.annotation_rows(index) if "id" in row}
        made: list[JsonRow] = []
        kept = np.zeros((len(boxes), *sample.canvas_size), bool)
        ids, labels = self.dataset.annotation_ids(index), sample.labels.tolist()
        shapes = given_shapes(self.dataset, index, sample)
        for number, (annotation_id, label) in enumerate(zip(ids, labels, strict=True)):
            x1, y1, x2, y2 = boxes[number].tolist()
            kept[number], covered, is_box = _in_box(masks[number].numpy(), (x1, y1, x2, y2))
            quality: JsonRow = {"model": self.masker.name, "predicted_iou": round(float(scores[number]), 6)}
            quality |= {"box_covered_frac": round(covered, 6), **({"is_box": True} if is_box else {})}
            new = {"id": annotation_id, "image_id": self.image_id(index), "category_id": order[label]["id"]}
            new |= {"bbox": [x1, y1, x2 - x1, y2 - y1], "iscrowd": 0}
            new |= {**shapes[number].entry, **by_id.get(annotation_id, {})}
            new |= {"segmentation": encode_mask(kept[number]), "area": int(kept[number].sum()), QUALITY: quality}
            made.append(new)
        others = [row for key, row in by_id.items() if key not in set(ids)]
        number_ids = torch.arange(1, len(kept) + 1, dtype=torch.int32, device="cpu")
        found = torch.from_numpy(kept)
        of_masks = tv_tensors.wrap(tight_boxes(found), like=sample.boxes)
        whole = replace(sample, boxes=of_masks, instance_masks=InstanceMask(found), instance_ids=number_ids)
        return _Made(whole, made + others)


def with_masks_from(masker: BoxMasker) -> Callable[[AnnotatedDataset], AnnotatedDataset]:
    """Return a function that adds masks to a dataset of boxes, for ``adapt`` of a `Conversion`."""
    return lambda photos: WithPredictedMasks(photos, masker)


def _in_box(mask: NDArray[np.bool_], box: tuple[float, float, float, float]) -> tuple[NDArray[np.bool_], float, bool]:
    """Return a mask cut to its box, rounded outwards, the share of the box it covers, and whether it is the box."""
    x1, y1, x2, y2 = outward_box(box, mask.shape)
    inside: NDArray[Any] = np.zeros_like(mask)
    inside[y1:y2, x1:x2] = True
    cut = mask & inside
    if not cut.any():
        return inside, 0.0, True
    return cut, float(cut.sum() / inside.sum()), False
