"""A rank of Ultralytics' trainer over several processes of a CPU: ``python ultralytics_rank.py STATE OUT``.

It does what the file does that Ultralytics writes for its launcher: read the pickled trainer class with its arguments,
and train. Ultralytics connects ranks only where each has a device of its own; here gloo does.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from ultralytics.utils.patches import torch_load


def train(state: Path, out: Path) -> None:
    """Train as this rank, and write what it read, drew and learned."""
    found = torch_load(str(state), map_location="cpu")
    seen: dict[str, Any] = {"files": [], "crops": [], "losses": []}

    class OnCpu(found["trainer"]):  # type: ignore[misc]
        def _setup_ddp(self) -> None:
            self.device = torch.device("cpu")
            dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=self.world_size)

        def preprocess_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
            seen["files"].append([Path(name).name for name in batch["im_file"]])
            ready: dict[str, Any] = super().preprocess_batch(batch)
            return ready

        def final_eval(self) -> None:
            """Leave out the validation, which asks for a GPU of this rank, and the trainer's own curves."""

        plot_training_labels = plot_metrics = final_eval

    def note(trainer: Any) -> None:
        if not seen["losses"]:  # the first step made the crops
            trainer.crops.take = partial(noted, trainer.crops.take)
        seen["losses"].append(trainer.loss.item())

    def noted(take: Any, *args: Any) -> Any:
        staged = take(*args)
        seen["crops"].append(staged.crop_idx.tolist())
        return staged

    wrap = nn.parallel.DistributedDataParallel
    nn.parallel.DistributedDataParallel = lambda model, device_ids, **options: wrap(model, **options)  # type: ignore
    trainer = OnCpu(overrides=found["args"])
    trainer.world_size = int(os.environ["WORLD_SIZE"])
    trainer.add_callback("on_train_batch_end", note)
    trainer.train()
    seen["weights"] = sum(value.double().abs().sum().item() for value in trainer.model.parameters())
    out.write_text(json.dumps(seen))


if __name__ == "__main__":
    train(Path(sys.argv[1]), Path(sys.argv[2]))
