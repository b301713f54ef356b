"""A single run on rare classes: a U-Net for class maps, trained and tested with the settings of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segpaste.types import IGNORE_INDEX, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from ..measures import class_ious
from ..scenes import NUM_CLASSES, class_maps, held_out_set, instance_counts, training_set
from ..training import fit
from ..unet import UNet
from .arms import batches, class_weights

_NUM_OUTPUTS = NUM_CLASSES + 1


def train(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train by the settings of a run, and return what was found.

    The result depends on nothing but the settings, the versions and the machine's arithmetic.
    """
    scenes, samples = training_set(*(settings[name] for name in ("seed", "num_scenes", "ratio", "fewest")))
    weights = class_weights(settings, samples)
    torch.manual_seed(settings["seed"])
    model = UNet(_NUM_OUTPUTS, tuple(settings["widths"])).to(memory_format=torch.channels_last)

    def loss_of(logits: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
        maps = class_maps(not_none(batch.semantic_maps).as_subclass(Tensor))
        return F.cross_entropy(logits, maps, weights, ignore_index=IGNORE_INDEX)

    def check(model: nn.Module) -> dict[str, Any]:
        return {"ious": class_ious(model, *held_out_set("validation", settings["num_validation"]), _NUM_OUTPUTS)}

    fitted = fit(model, batches(settings, scenes, samples), loss_of, check, steps=settings["steps"], lr=settings["lr"])
    return {
        "instances": instance_counts(samples).tolist(),
        "cpu_seconds": fitted.cpu_seconds,
        "curve": fitted.curve,
        "validation": fitted.curve[-1]["ious"],
        "test": _tested(model, settings["num_test"]),
        "natural_test": _tested(model, settings["num_test"], settings["ratio"]),
    }


def _tested(model: nn.Module, num_scenes: int, ratio: float = 1.0) -> list[float]:
    return class_ious(model, *held_out_set("test", num_scenes, ratio), _NUM_OUTPUTS)
