"""Trainings with pastes on two ranks. Lightning starts the second process from the first.

Usage: lightning_ranks.py FOLDER [TEST_DATA]
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_world import Training, data_of, fit, framework, photos_of, scenes, trainer
from torch.utils.data import DataLoader, DistributedSampler

from live_tensors import LiveTensors
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.integrations.lightning import CopyPasteCallback
from segpaste.types import BatchedDenseSample

NUM_STEPS, RESUMES_AT = 20, 6
PHOTOS = ("tiny_coco", "coco128_seg")


class Unseeded(Training):
    """Module that makes padded batches without seeds from lists of samples."""

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return BatchedDenseSample.from_samples(batch).to_padded(24, overflow="largest")


def on_ranks() -> dict[str, Any]:
    strategy = framework.strategies.DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=120))
    return {"devices": 2, "strategy": strategy, "max_steps": NUM_STEPS}


def train_unseeded(folder: Path) -> Training:
    """Train with other seeds of torch on each rank."""
    made = trainer(folder, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], **on_ranks())
    model = Unseeded()
    torch.manual_seed(made.global_rank)
    loader: Any = DataLoader(
        scenes(),  # type: ignore[arg-type]
        2,
        collate_fn=list,
        sampler=DistributedSampler(scenes(), 2, made.global_rank),  # type: ignore[arg-type]
    )
    made.fit(model, loader)
    return model


def main(folder: Path, photos: Path | None) -> None:
    torch.set_num_threads(1)
    runs = {
        "whole": lambda: fit(folder, data_of(scenes()), every=RESUMES_AT, alive=LiveTensors(), **on_ranks()),
        "workers": lambda: fit(folder, data_of(scenes(), 2), alive=LiveTensors(), **on_ranks()),
        "resumed": lambda: fit(folder, data_of(scenes()), resume=RESUMES_AT, **on_ranks()),
        "unseeded": lambda: train_unseeded(folder),
    }
    if photos is not None:
        for number, name in enumerate(PHOTOS):
            data = data_of(photos_of(photos / name), 2 * number)
            runs[name] = partial(fit, folder, data, alive=LiveTensors(), **on_ranks())
    for name, run in runs.items():
        model = run()
        result = {
            "seen": model.seen,
            "alive": [] if model.alive is None else model.alive.num_bytes,
            "samples": model.samples,
            "num_val": len(model.validated),
        }
        (folder / f"{name}-{model.global_rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
