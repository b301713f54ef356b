"""Training loop: a fixed number of steps, with checks in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from segpaste.types import PaddedBatchedDenseSample

_WARM_UP = 0.1  # share of the steps
_NUM_CHECKS = 8
_WEIGHT_DECAY = 1e-2


class Fitted(NamedTuple):
    """Results of a training run.

    Attributes:
        curve: at each check the step, the mean loss since the one before, and what the check found.
        cpu_seconds: CPU seconds of all steps with their data, without the checks.
    """

    curve: list[dict[str, Any]]
    cpu_seconds: float


def fit(
    model: nn.Module,
    batches: Iterable[PaddedBatchedDenseSample],
    loss_of: Callable[[Tensor, PaddedBatchedDenseSample], Tensor],
    check: Callable[[nn.Module], dict[str, Any]],
    *,
    steps: int,
    lr: float,
) -> Fitted:
    """Train a model with AdamW.

    Args:
        model: gives outputs of images [B, 3, H, W] in [0, 1].
        batches: one for each step.
        loss_of: loss of the outputs for a batch.
        check: called eight times, the last time after the last step.
        steps: number of batches.
        lr: the highest learning rate.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / steps))
    curve: list[dict[str, Any]] = []
    losses: list[float] = []
    seconds, begun = 0.0, time.process_time()
    for step, batch in enumerate(batches, 1):
        loss = loss_of(model((batch.images.float() / 255).contiguous(memory_format=torch.channels_last)), batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if step % max(1, steps // _NUM_CHECKS) == 0 or step == steps:
            seconds += time.process_time() - begun
            curve.append({"step": step, "loss": sum(losses) / len(losses), **check(model)})
            losses, begun = [], time.process_time()
    return Fitted(curve, seconds)


def _rate(progress: float) -> float:
    """Return the share of the learning rate: a linear rise, then half a cosine to 0."""
    if progress < _WARM_UP:
        return (progress + 1e-3) / _WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (progress - _WARM_UP) / (1 - _WARM_UP))
