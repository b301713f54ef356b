"""Adapter for Hugging Face transformers: batches as the inputs of DETR-like and of mask-classification models.

    model(**to_mask_labels(batch, mean=processor.image_mean, std=processor.image_std))

Paste first and normalise afterwards: harmonisation, value checks and uint8 banks expect colours before normalisation.
These functions therefore take the processor's mean and standard deviation, and the processor itself is not called.

Float images are checked: values that are negative, above ``scale``, NaN, or fractions of at most 1 with a ``scale`` of
255 raise a ValueError. Their minimum and maximum are read for it, which waits for their device; uint8 images are not
read.

``pixel_mask`` is 1 where a pixel belongs to the image: the inverse of our ``padding_mask``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from segpaste.integrations._huggingface.collator import CopyPasteCollator, Inputs, with_copy_paste
from segpaste.integrations._huggingface.hub import HubSamples
from segpaste.integrations._huggingface.segments import TASKS, segments_of, segments_of_task, texts_of
from segpaste.integrations._labels import LabelMap, to_framework
from segpaste.integrations._targets import cxcywh, normalized, objects_of, picture_sizes, pixel_mask
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import check_count

__all__ = ["CopyPasteCollator", "HubSamples", "to_detr", "to_mask_labels", "to_oneformer", "with_copy_paste"]


def to_mask_labels(
    batch: PaddedBatchedDenseSample,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    label_map: LabelMap = 0,
    scale: float = 255.0,
    with_pixel_mask: bool = True,
) -> Inputs:
    """Return the inputs of a mask-classification model: Mask2Former, MaskFormer, EoMT.

    The segments of an image are its instances and, in a batch with panoptic maps, its stuff classes; in a batch with
    semantic maps and without instance masks they are its classes. Ignored pixels are in no segment.

    Args:
        batch: B images in 0..``scale``.
        mean: mean of each channel of images in 0..1, as ``image_mean`` of an image processor.
        std: standard deviation, likewise.
        label_map: class ids of the model, see `segpaste.integrations._labels.LabelMap`.
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
    inputs: Inputs = {"pixel_values": normalized(batch, mean, std, scale)}
    if with_pixel_mask:
        inputs["pixel_mask"] = pixel_mask(batch)
    segments = [segments_of(batch, b) for b in range(batch.batch_size)]
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
) -> Inputs:
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
        label_map: class ids of the model, see `segpaste.integrations._labels.LabelMap`.
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
    segments = [segments_of_task(batch, b, task) for b, task in enumerate(drawn)]
    texts = [texts_of(labels, class_names, task, num_text) for (_, labels), task in zip(segments, drawn, strict=True)]

    def tokens(lines: list[str]) -> Tensor:
        found = tokenizer(lines, padding="max_length", max_length=max_length, truncation=True, return_tensors="pt")
        return (found["input_ids"] * found["attention_mask"]).to(batch.device)

    return {
        "pixel_values": normalized(batch, mean, std, scale),
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


def to_detr(
    batch: PaddedBatchedDenseSample,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    masks: bool = True,
    label_map: LabelMap = 0,
    scale: float = 255.0,
) -> Inputs:
    """Return the inputs of a DETR-like model: DETR, Conditional and Deformable DETR, RT-DETR.

    Args:
        batch: B images in 0..``scale``.
        mean: mean of each channel of images in 0..1, as ``image_mean`` of an image processor; 0 for RT-DETR.
        std: standard deviation, likewise; 1 for RT-DETR.
        masks: return ``masks``, for DETR's segmentation head; the batch must have instance masks.
        label_map: class ids of the model, see `segpaste.integrations._labels.LabelMap`.
        scale: the value of white.

    Returns:
        ``pixel_values`` [B, C, H, W] float32, 0 in padding; ``pixel_mask`` [B, H, W] int64, 1 in the image; ``labels``,
        B dictionaries: ``class_labels`` [N] int64, ``boxes`` [N, 4] float32 (centre x, centre y, width, height) as
        fractions of the padded canvas, ``area`` [N] float32 in pixels, ``iscrowd`` [N] int64 zeros, ``masks`` [N, H, W]
        uint8, ``size`` [2] int64, the padded (H, W), and ``orig_size`` [2] int64, that of the image without padding.

    Raises:
        TypeError, ValueError: ``label_map`` has no id for a label, ``masks`` is True for a batch without masks, or its
            colours are not in 0..``scale``.
    """
    if masks and batch.instance_masks is None:
        raise ValueError("to_detr: expected a batch with instance masks because masks=True, got none; pass masks=False")
    labels = []
    for found, picture in zip(objects_of(batch), picture_sizes(batch), strict=True):
        sides = found.boxes[:, 2:] - found.boxes[:, :2]
        target = {
            "class_labels": to_framework(found.labels, label_map),
            "boxes": cxcywh(found.boxes, batch.canvas_size),
            "area": sides.prod(1) if found.masks is None else found.masks.flatten(1).sum(1, dtype=torch.float32),
            "iscrowd": torch.zeros_like(found.labels),
            "size": torch.tensor(batch.canvas_size, dtype=torch.int64, device=batch.device),
            "orig_size": torch.tensor(picture, dtype=torch.int64, device=batch.device),
        }
        if masks and found.masks is not None:
            target["masks"] = found.masks.to(torch.uint8)
        labels.append(target)
    return {"pixel_values": normalized(batch, mean, std, scale), "pixel_mask": pixel_mask(batch), "labels": labels}
