"""A single run: a model of a task, trained with the paste of the settings, and measured on held-out scenes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..scenes import instance_counts, training_set
from ..training import fit
from .pastes import batches
from .tasks import TASKS


def train(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train by the settings of a run, and return what was found.

    The result depends on nothing but the settings, the versions and the machine's arithmetic.
    """
    named = (settings[name] for name in ("seed", "num_scenes", "ratio", "fewest"))
    scenes, samples = training_set(*named, with_depth=settings["task"] == "depth")
    task = TASKS[settings["task"]]
    torch.manual_seed(settings["seed"])
    model = task.model(settings).to(memory_format=torch.channels_last)
    fitted = fit(
        model,
        batches(settings, scenes, samples),
        task.loss_of,
        lambda model: task.measure(model, "validation", settings["num_validation"]),
        steps=settings["steps"],
        lr=settings["lr"],
    )
    return {
        "instances": instance_counts(samples).tolist(),
        "cpu_seconds": fitted.cpu_seconds,
        "curve": fitted.curve,
        "validation": {name: value for name, value in fitted.curve[-1].items() if name not in ("step", "loss")},
        "test": task.measure(model, "test", settings["num_test"]),
    }
