"""Compare a paste with the training step it belongs to: Mask R-CNN with a ResNet-50 FPN, on a CUDA device.

    python -m benchmarks.detector --quick
    python -m benchmarks.detector --out benchmarks/results/gpu-detector.json

The model has random weights and no compilation; a step is forward, losses, backward and optimizer on the first of the
hard batches. The paste is that of the same batch. Both are timed from an idle device until all is done.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision.models.detection import maskrcnn_resnet50_fpn

from segpaste.augmentation import BatchCopyPaste
from segpaste.integrations.torchvision import to_detection

from . import pasting, step, timing
from .plan import HARD_SHAPES, QUICK, TINY, Plan
from .timing import Contender

STEP = "training step"
NUM_CLASSES = 91
ROUNDS = 10


def measure(plan: Plan, threads: int = 1, device: str = "cuda") -> dict[str, Any]:
    """Milliseconds of a training step, and of a paste out of place and in place."""
    torch.set_num_threads(threads)
    shape = plan.shapes[0] if plan is TINY else HARD_SHAPES[0]
    made, config = step.made(shape)
    batch = made.to(device)
    train = _training(batch.canvas_size, device)
    inputs = to_detection(batch, label_map=1, scale=1.0)
    contenders = {STEP: Contender(train, lambda: inputs)}
    for name, in_place in ((pasting.OUT_OF_PLACE, False), (pasting.IN_PLACE, True)):
        paste = BatchCopyPaste(config, inplace=in_place).to(device)
        contenders[name] = Contender(paste, pasting.with_seeds(batch.clone if in_place else lambda: batch))
    clock = timing.wall_clock if device == "cpu" else timing.event_clock
    rounds = min(plan.rounds, ROUNDS // 2 if plan is QUICK else ROUNDS)
    times = timing.summaries(timing.in_turns(contenders, rounds, warm_up=2, clock=clock))
    return {"batch": step.name_of(shape), "times": times}


def _training(canvas_size: tuple[int, int], device: str) -> Any:
    """Return a training step of torchvision's model on its images and targets."""
    sizes = {"min_size": min(canvas_size), "max_size": max(canvas_size)}
    model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=NUM_CLASSES, **sizes)
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)  # random weights with a larger rate may diverge

    def train(inputs: Any) -> None:
        optimizer.zero_grad()
        sum(model(*inputs).values()).backward()
        optimizer.step()

    return train


if __name__ == "__main__":
    from .programs import main

    main("detector", __doc__, measure, device="cuda")
