"""Structures of batches, in segpaste and in trainers: they are recognised, and converted for drawing.

A structure is a row of `STRUCTURES`: its name, a function that recognises it, and its conversion. Structures are
recognised by their keys and types alone, so no module of a trainer is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from segpaste.viz.structures import albumentations, containers, detection, transformers, yolo
from segpaste.viz.structures.pictures import Pictures, Request, on_cpu

__all__ = ["STRUCTURES", "Pictures", "Request", "Structure", "on_cpu", "pictures_of"]


class Structure(NamedTuple):
    """Structure of a batch.

    Attributes:
        name: name for messages.
        matches: function that returns whether a batch has the structure; no batch has two.
        convert: function that converts a batch to pictures.
    """

    name: str
    matches: Callable[[object], bool]
    convert: Callable[[Any, Request], Pictures]


STRUCTURES: tuple[Structure, ...] = (
    Structure("PaddedBatchedDenseSample", containers.is_padded, containers.of_padded),
    Structure("BatchedDenseSample", containers.is_ragged, containers.of_ragged),
    Structure("DenseSample", containers.is_sample, containers.of_sample),
    Structure("a list of DenseSample", containers.is_sample_list, containers.of_sample_list),
    Structure(
        "torchvision's (list of images, list of targets with boxes and labels)",
        detection.is_torchvision,
        detection.of_torchvision,
    ),
    Structure("an image [C, H, W] and its target with boxes and labels", detection.is_one_pair, detection.of_one_pair),
    Structure("a list of such pairs", detection.is_pair_list, detection.of_pair_list),
    Structure(
        "RF-DETR's (NestedTensor, targets with boxes and labels)",
        detection.is_rfdetr,
        detection.of_rfdetr,
    ),
    Structure(
        "inputs of Mask2Former, OneFormer and the like: a dictionary with pixel_values, mask_labels, class_labels",
        transformers.is_mask_labels,
        transformers.of_mask_labels,
    ),
    Structure(
        "inputs of DETR and the like: a dictionary with pixel_values and labels, a list with boxes and class_labels",
        transformers.is_detr,
        transformers.of_detr,
    ),
    Structure(
        "Ultralytics' batch: a dictionary with img, cls, bboxes, batch_idx",
        yolo.is_yolo,
        yolo.of_yolo,
    ),
    Structure(
        "AlbumentationsX' dictionary with image, labels, and masks or bboxes",
        albumentations.is_dictionary,
        albumentations.of_dictionary,
    ),
    Structure(
        "a list of such dictionaries",
        albumentations.is_list_of_dictionaries,
        albumentations.of_dictionaries,
    ),
)
"""Structures that can be drawn."""


def pictures_of(batch: object, request: Request) -> Pictures:
    """Return the pictures of a batch of any structure.

    Raises:
        TypeError: the batch has none of the structures, or fits two; the message lists them.
        ValueError: a value does not fit the structure.
    """
    found = [structure for structure in STRUCTURES if structure.matches(batch)]
    if len(found) != 1:
        listed = "".join(f"\n- {structure.name}" for structure in found or STRUCTURES)
        raise TypeError(f"show: expected a batch with one of these structures, got {_described(batch)}:{listed}")
    pictures = found[0].convert(batch, request)
    if request.pasted is None or pictures.pasted is not None:
        return pictures
    if len(request.pasted) != pictures.num_images:
        raise ValueError(
            f"show: pasted: expected a list of {pictures.num_images} flags bool [N], one per image, got "
            f"{len(request.pasted)}"
        )
    return replace(pictures, pasted=list(request.pasted))


def _described(batch: object) -> str:
    """Describe a batch in a few words."""
    if isinstance(batch, list | tuple):
        return f"a {type(batch).__name__} of {len(batch)}" + (f", first {_described(batch[0])}" if batch else "")
    if hasattr(batch, "keys"):
        return f"a {type(batch).__name__} with {', '.join(map(str, list(batch.keys())[:12])) or 'no keys'}"
    return f"a {type(batch).__name__}"
