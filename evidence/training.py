"""Training of a U-Net on class maps, for a number of steps that is fixed beforehand."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segpaste.types import IGNORE_INDEX
from segpaste.types.check import not_none

from . import arms
from .measures import class_ious
from .scenes import NUM_CLASSES, class_maps, held_out_set, instance_counts, training_set
from .unet import UNet

_NUM_OUTPUTS = NUM_CLASSES + 1
_WARM_UP = 0.1  # share of the steps
_NUM_CHECKS = 8


def train(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train by the settings of a run, and return what was found.

    The result depends on nothing but the settings, the versions and the machine's arithmetic.
    """
    scenes, samples = training_set(*(settings[name] for name in ("seed", "num_scenes", "ratio", "fewest")))
    weights = arms.class_weights(settings, samples)
    torch.manual_seed(settings["seed"])
    model = UNet(_NUM_OUTPUTS, tuple(settings["widths"])).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["lr"], weight_decay=1e-2)
    steps = settings["steps"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / steps))
    curve, losses, seconds = [], [], 0.0
    begun = time.process_time()
    for step, batch in enumerate(arms.batches(settings, scenes, samples), 1):
        loss = _step(model, optimizer, batch.images, not_none(batch.semantic_maps), weights)
        schedule.step()
        losses.append(loss)
        if step % max(1, steps // _NUM_CHECKS) == 0 or step == steps:
            seconds += time.process_time() - begun
            curve.append({"step": step, "loss": sum(losses) / len(losses), "ious": _validated(model, settings)})
            losses, begun = [], time.process_time()
    return {
        "instances": instance_counts(samples).tolist(),
        "cpu_seconds": seconds,
        "curve": curve,
        "validation": curve[-1]["ious"],
        "test": _tested(model, settings["num_test"]),
        "natural_test": _tested(model, settings["num_test"], settings["ratio"]),
    }


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, semantic_maps: Tensor, weights: Tensor | None
) -> float:
    """Take one step, and return its loss."""
    logits = model((images.float() / 255).contiguous(memory_format=torch.channels_last))
    maps = class_maps(semantic_maps.as_subclass(Tensor))
    loss = F.cross_entropy(logits, maps, weights, ignore_index=IGNORE_INDEX)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


def _validated(model: nn.Module, settings: Mapping[str, Any]) -> list[float]:
    return class_ious(model, *held_out_set("validation", settings["num_validation"]), _NUM_OUTPUTS)


def _tested(model: nn.Module, num_scenes: int, ratio: float = 1.0) -> list[float]:
    return class_ious(model, *held_out_set("test", num_scenes, ratio), _NUM_OUTPUTS)


def _rate(progress: float) -> float:
    """Return the share of the learning rate: a linear rise, then half a cosine to 0."""
    if progress < _WARM_UP:
        return (progress + 1e-3) / _WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (progress - _WARM_UP) / (1 - _WARM_UP))
