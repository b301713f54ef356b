"""Targets of mask-classification models of transformers: ``pixel_values``, ``mask_labels`` and ``class_labels``.

Mask2Former, MaskFormer and EoMT take `to_mask_labels`; OneFormer takes `to_oneformer`. A segment is an instance, the
stuff of a class, or, in a semantic map, a class. For models that predict boxes see `segpaste.targets.detr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from segpaste.targets.annotated import (
    Annotated,
    Images,
    Reading,
    as_given,
    boxes_of_masks,
    has_keys,
    masks_of,
    numbers_of,
)
from segpaste.targets.colours import model_input
from segpaste.targets.objects import LabelMap, has_object, normalized_images, pixel_mask, to_framework
from segpaste.types import IGNORE_INDEX, PaddedBatchedDenseSample
from segpaste.types.check import check_count

Segments = tuple[Tensor, Tensor]
"""Masks [N, H, W] bool and labels [N] int64."""

TASKS = ("panoptic", "semantic", "instance")


def is_mask_labels(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``pixel_values``, ``mask_labels`` and ``class_labels``."""
    return has_keys(batch, "pixel_values", "mask_labels", "class_labels")


def read(batch: Mapping[str, Any], reading: Reading) -> Images:
    """Return the images of a batch, for drawing; segments are things and stuff alike."""

    def annotated(b: int) -> Annotated:
        place = f"{reading.owner}: image {b}"
        image, padding = model_input(batch, b, reading)
        masks = masks_of(place, batch["mask_labels"][b], None, image.shape[-2:], image)
        return Annotated(
            image,
            boxes_of_masks(masks),
            numbers_of(place, {"class_labels": batch["class_labels"][b]}, "class_labels", len(masks)),
            masks,
            torch.zeros(len(masks), dtype=torch.bool, device="cpu"),
            padding=padding,
        )

    return Images(len(batch["pixel_values"]), lambda b: as_given(annotated(b)), has_boxes=False)


def to_mask_labels(
    batch: PaddedBatchedDenseSample,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    label_map: LabelMap = 0,
    scale: float = 255.0,
    with_pixel_mask: bool = True,
) -> dict[str, Any]:
    """Return the inputs of a mask-classification model: Mask2Former, MaskFormer, EoMT.

    The segments of an image are its instances and, in a batch with panoptic maps, its stuff classes; in a batch with
    semantic maps and without instance masks they are its classes. Ignored pixels are in no segment.

    Args:
        batch: B images in 0..``scale``.
        mean: mean of each channel of images in 0..1, as ``image_mean`` of an image processor.
        std: standard deviation, likewise.
        label_map: class ids of the model, see `segpaste.targets.objects.LabelMap`.
        scale: the value of white.
        with_pixel_mask: return ``pixel_mask``; EoMT takes none.

    Returns:
        ``pixel_values`` [B, C, H, W] float32, 0 in padding; ``pixel_mask`` [B, H, W] int64, 1 in the image;
        ``mask_labels``, B tensors [N, H, W] float32; ``class_labels``, B tensors [N] int64.

    Raises:
        TypeError, ValueError: ``label_map`` has no id for a label, the batch has neither instance masks nor maps, or
            its colours are not in 0..``scale``.
    """
    if batch.instance_masks is None and (batch.semantic_maps is None or batch.panoptic_maps is not None):
        raise ValueError(
            "to_mask_labels: expected a batch with instance masks, or with semantic maps alone, got "
            f"{', '.join(sorted(m.value for m in batch.modalities))}"
        )
    inputs: dict[str, Any] = {"pixel_values": normalized_images(batch, mean, std, scale)}
    if with_pixel_mask:
        inputs["pixel_mask"] = pixel_mask(batch)
    segments = [_segments_of(batch, b) for b in range(batch.batch_size)]
    inputs["mask_labels"] = [masks.float() for masks, _ in segments]
    inputs["class_labels"] = [to_framework(labels, label_map) for _, labels in segments]
    return inputs


def to_oneformer(
    batch: PaddedBatchedDenseSample,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    class_names: Sequence[str],
    tokenizer: Callable[..., Mapping[str, Tensor]],
    num_text: int,
    tasks: Sequence[str] = TASKS,
    max_length: int = 77,
    label_map: LabelMap = 0,
    scale: float = 255.0,
) -> dict[str, Any]:
    """Return the inputs of OneFormer: segments of one task per image, and the texts that name them.

    The texts are those of "OneFormer: One Transformer to Rule Universal Image Segmentation" (Jain et al., CVPR 2023):
    "a photo with a CLASS" for each segment, filled up with "a TASK photo". The model reads them if ``is_training=True``
    in its configuration.

    Args:
        batch: B images in 0..``scale``.
        mean: mean of each channel of images in 0..1, as ``image_mean`` of the processor's image processor.
        std: standard deviation, likewise.
        class_names: the name of each label of the batch.
        tokenizer: tokenizer of the processor.
        num_text: number of texts of an image, at least 1: ``config.num_queries - config.text_encoder_n_ctx``. Further
            segments get no text.
        tasks: tasks, one of which is drawn for each image with torch's generator: ``instance`` needs instance masks,
            ``semantic`` semantic maps, ``panoptic`` panoptic maps.
        max_length: number of tokens of a text, ``config.task_seq_len`` and ``config.text_encoder_context_length``.
        label_map: class ids of the model, see `segpaste.targets.objects.LabelMap`.
        scale: the value of white.

    Returns:
        The entries of `to_mask_labels`, with segments of the task; ``task_inputs`` [B, ``max_length``] int64 and
        ``text_inputs`` [B, ``num_text``, ``max_length``] int64, tokens, 0 after the end.

    Raises:
        TypeError, ValueError: ``label_map`` has no id for a label, ``class_names`` has no name for one, a task is
            unknown, the batch lacks labels that it needs, or its colours are not in 0..``scale``.
    """
    _check_tasks(batch, tasks)
    check_count("num_text", num_text, least=1)
    drawn = [tasks[i] for i in torch.randint(len(tasks), (batch.batch_size,), device="cpu").tolist()]
    segments = [_segments_of_task(batch, b, task) for b, task in enumerate(drawn)]
    texts = [_texts_of(labels, class_names, task, num_text) for (_, labels), task in zip(segments, drawn, strict=True)]

    def tokens(lines: list[str]) -> Tensor:
        found = tokenizer(lines, padding="max_length", max_length=max_length, truncation=True, return_tensors="pt")
        return (found["input_ids"] * found["attention_mask"]).to(batch.device)

    return {
        "pixel_values": normalized_images(batch, mean, std, scale),
        "pixel_mask": pixel_mask(batch),
        "mask_labels": [masks.float() for masks, _ in segments],
        "class_labels": [to_framework(labels, label_map) for _, labels in segments],
        "task_inputs": tokens([f"the task is {task}" for task in drawn]),
        "text_inputs": torch.stack([tokens(lines) for lines in texts]),
    }


def _check_tasks(batch: PaddedBatchedDenseSample, tasks: Sequence[str]) -> None:
    needs = {"panoptic": batch.panoptic_maps, "instance": batch.instance_masks, "semantic": batch.semantic_maps}
    if isinstance(tasks, str) or not tasks or not set(tasks) <= set(needs):
        raise ValueError(
            f"tasks: expected a list of {', '.join(needs)}, or of some of them, such as ['instance'], got {tasks!r:.80}"
        )
    lacking = [task for task in tasks if needs[task] is None]
    if lacking:
        possible = [task for task in needs if needs[task] is not None]
        raise ValueError(
            f"to_oneformer: expected a batch for the tasks {', '.join(tasks)}, got one without labels for "
            f"{', '.join(lacking)}; pass tasks={possible}"
        )


def _segments_of(batch: PaddedBatchedDenseSample, b: int) -> Segments:
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


def _segments_of_task(batch: PaddedBatchedDenseSample, b: int, task: str) -> Segments:
    """Return the segments of one image for a task; the batch must have the labels that the task needs."""
    if task == "semantic":
        return _classes(batch, b)
    instances = _instances(batch, b)
    return instances if task == "instance" else _joined(instances, _classes(batch, b, only_stuff=True))


def _texts_of(labels: Tensor, class_names: Sequence[str], task: str, num_text: int) -> list[str]:
    """Return the texts of an image: one per segment, ordered by class, then texts that name only the task."""
    ordered = labels.sort().values.tolist()
    if ordered and not 0 <= ordered[0] <= ordered[-1] < len(class_names):
        raise ValueError(
            f"class_names: expected a name for every label, got {len(class_names)} names and label {ordered[-1]}"
        )
    lines = [f"a photo with a {class_names[label]}" for label in ordered[:num_text]]
    article = "an" if task[0] in "aeiou" else "a"
    return lines + [f"{article} {task} photo"] * (num_text - len(lines))
