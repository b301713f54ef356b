"""Segments of an image for mask-classification models, and the texts that name them.

A segment is an instance, the stuff of a class, or, in a semantic map, a class. Not for detection: see `objects_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from segpaste.integrations._targets import has_object
from segpaste.types import IGNORE_INDEX, PaddedBatchedDenseSample

Segments = tuple[Tensor, Tensor]
"""Masks [N, H, W] bool and labels [N] int64."""

TASKS = ("panoptic", "semantic", "instance")


def segments_of(batch: PaddedBatchedDenseSample, b: int) -> Segments:
    """Return the segments of one image: instances, with stuff if there are panoptic maps; without masks, classes."""
    if batch.instance_masks is None:
        return _classes(batch, b)
    instances = _instances(batch, b)
    return instances if batch.panoptic_maps is None else _joined(instances, _classes(batch, b, only_stuff=True))


def _joined(one: Segments, other: Segments) -> Segments:
    return torch.cat([one[0], other[0]]), torch.cat([one[1], other[1]])


def _instances(batch: PaddedBatchedDenseSample, b: int) -> Segments:
    """Return the masks [N, H, W] bool and labels [N] of the instances of one image."""
    assert batch.instance_masks is not None
    keep = has_object(batch)[b]
    return batch.instance_masks[b, keep], batch.labels[b, keep]


def _classes(batch: PaddedBatchedDenseSample, b: int, *, only_stuff: bool = False) -> Segments:
    """Return the masks [N, H, W] bool and labels [N] of the classes of one image's semantic map."""
    assert batch.semantic_maps is not None
    classes = batch.semantic_maps[b]
    if only_stuff:
        assert batch.panoptic_maps is not None
        classes = classes.masked_fill(batch.panoptic_maps[b] > 0, IGNORE_INDEX)
    if batch.padding_mask is not None:
        classes = classes.masked_fill(batch.padding_mask[b, 0], IGNORE_INDEX)
    if batch.crowd_mask is not None:
        classes = classes.masked_fill(batch.crowd_mask[b, 0], IGNORE_INDEX)
    present = torch.unique(classes[classes != IGNORE_INDEX])
    return classes == present[:, None, None], present.to(batch.labels.dtype)


def segments_of_task(batch: PaddedBatchedDenseSample, b: int, task: str) -> Segments:
    """Return the segments of one image for a task; the batch must have the labels that the task needs."""
    if task == "semantic":
        return _classes(batch, b)
    instances = _instances(batch, b)
    return instances if task == "instance" else _joined(instances, _classes(batch, b, only_stuff=True))


def texts_of(labels: Tensor, class_names: Sequence[str], task: str, num_text: int) -> list[str]:
    """Return the texts of an image: one per segment, ordered by class, then texts that name only the task."""
    ordered = labels.sort().values.tolist()
    if ordered and not 0 <= ordered[0] <= ordered[-1] < len(class_names):
        raise ValueError(
            f"class_names: expected a name for every label, got {len(class_names)} names and label {ordered[-1]}"
        )
    lines = [f"a photo with a {class_names[label]}" for label in ordered[:num_text]]
    article = "an" if task[0] in "aeiou" else "a"
    return lines + [f"{article} {task} photo"] * (num_text - len(lines))
