"""Tasks: class maps, class maps with depth, and classes of the patches of a vision transformer.

A task measures a score on held-out scenes, the higher the better, beside the intersection over union of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segpaste.types import IGNORE_INDEX, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from ..measures import class_ious, group_iou
from ..scenes import NUM_CLASSES, SIZE, Part, class_maps, held_out_samples, held_out_set
from ..unet import UNet
from .transformer import PATCH, PatchTransformer

_NUM_OUTPUTS = NUM_CLASSES + 1
_EDGE_PX = 2
_CLASSES = list(range(NUM_CLASSES))


class Task(NamedTuple):
    """A model and its measure.

    Attributes:
        model: makes the model for the settings of a run.
        loss_of: loss of the outputs for a batch.
        measure: figures on so many held-out scenes, with ``score`` and ``ious``.
    """

    model: Callable[[Mapping[str, Any]], nn.Module]
    loss_of: Callable[[Tensor, PaddedBatchedDenseSample], Tensor]
    measure: Callable[[nn.Module, Part, int], dict[str, Any]]


def maps_of(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the class maps of a batch, [B, H, W]."""
    return class_maps(not_none(batch.semantic_maps).as_subclass(Tensor))


def class_loss(logits: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the cross-entropy of the class maps."""
    return F.cross_entropy(logits, maps_of(batch), ignore_index=IGNORE_INDEX)


def measure_classes(model: nn.Module, part: Part, num: int) -> dict[str, Any]:
    """Return the IoU of each class; the score is the mean without the background."""
    ious = class_ious(model, *held_out_set(part, num), _NUM_OUTPUTS)
    return {"score": group_iou(ious, _CLASSES), "ious": ious}


def depth_loss(outputs: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the cross-entropy of the classes, plus the absolute error of the logarithm of depth."""
    depth, valid = (not_none(field).as_subclass(Tensor)[:, 0] for field in (batch.depth, batch.depth_valid))
    error = (outputs[:, -1] - depth.clamp(min=1e-3).log()).abs() * valid
    return class_loss(outputs[:, :-1], batch) + error.sum() / valid.sum().clamp(min=1)


@torch.no_grad()
def measure_depth(model: nn.Module, part: Part, num: int) -> dict[str, Any]:
    """Return relative errors of depth: near the edges of objects, and everywhere; the score is 1 minus the first."""
    images, maps = held_out_set(part, num)
    depth, valid, near = _depth_maps(part, num)
    was_training = model.training
    model.eval()
    found = torch.cat([model(some.float() / 255) for some in torch.split(images, 25)])
    model.train(was_training)
    error = (found[:, -1].exp() - depth).abs() / depth.clamp(min=1e-3)
    classes = class_ious(_Fixed(found[:, :-1]), images, maps, _NUM_OUTPUTS, len(images))
    edge_error, whole_error = float(error[near].mean()), float(error[valid].mean())
    return {"score": 1 - edge_error, "edge_error": edge_error, "error": whole_error, "ious": classes}


@lru_cache(maxsize=2)
def _depth_maps(part: Part, num: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return depth [N, H, W] of held-out scenes, where it is valid, and where it is so near the edge of an object."""
    samples = held_out_samples(part, num, with_depth=True)
    depth, valid = (
        torch.stack([not_none(getattr(sample, name)).as_subclass(Tensor)[0] for sample in samples])
        for name in ("depth", "depth_valid")
    )
    return depth, valid, valid & edges(torch.stack([object_map(sample.instance_masks) for sample in samples]))


def object_map(masks: Tensor | None) -> Tensor:
    """Return the number of the object of each pixel, [H, W], 0 for none."""
    plain = not_none(masks).as_subclass(Tensor)
    return (plain * torch.arange(1, len(plain) + 1)[:, None, None]).sum(0)


def edges(objects: Tensor) -> Tensor:
    """Return the pixels within two of the edge of an object, bool [N, H, W]."""
    side = 2 * _EDGE_PX + 1
    values = objects[:, None].float()
    return (F.max_pool2d(values, side, 1, _EDGE_PX) != -F.max_pool2d(-values, side, 1, _EDGE_PX))[:, 0]


def token_maps(maps: Tensor) -> Tensor:
    """Return the most frequent class of each patch, [N, H / patch, W / patch]; ignored pixels have no vote."""
    votes = F.one_hot(torch.where(maps == IGNORE_INDEX, _NUM_OUTPUTS, maps), _NUM_OUTPUTS + 1)[..., :-1]
    counts = F.avg_pool2d(votes.permute(0, 3, 1, 2).float(), PATCH)
    return torch.where(counts.sum(1) > 0, counts.argmax(1), IGNORE_INDEX)


def token_loss(logits: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the cross-entropy of the classes of the patches."""
    return F.cross_entropy(logits, token_maps(maps_of(batch)), ignore_index=IGNORE_INDEX)


def measure_tokens(model: nn.Module, part: Part, num: int) -> dict[str, Any]:
    """Return the IoU of each class over the patches; the score is the mean without the background."""
    images, maps = held_out_set(part, num)
    ious = class_ious(model, images, token_maps(maps), _NUM_OUTPUTS)
    return {"score": group_iou(ious, _CLASSES), "ious": ious}


class _Fixed(nn.Module):
    """A model whose outputs are known."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, images: Tensor) -> Tensor:
        return self.outputs


TASKS = {
    "classes": Task(lambda s: UNet(_NUM_OUTPUTS, tuple(s["widths"])), class_loss, measure_classes),
    "depth": Task(lambda s: UNet(_NUM_OUTPUTS + 1, tuple(s["widths"])), depth_loss, measure_depth),
    "tokens": Task(lambda s: PatchTransformer(_NUM_OUTPUTS, SIZE, s["tokens"]), token_loss, measure_tokens),
}
