"""A model that owns the augmentation, built on meta and sharded by FSDP over the ranks, on the CPU."""

from __future__ import annotations

from pathlib import Path

import torch
from owned_model import Model, fill_freed_memory, held
from runs_world import Written, digest
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from samples import make_batch


def main(folder: Path, rank: int) -> None:
    """Load the weights of rank 0, train a step, and write down what each rank pasted and holds."""
    weights = Model(is_changed=rank == 0)  # rank 1 knows neither the weights nor the schedule
    mesh = distributed.init_device_mesh("cpu", (distributed.get_world_size(),))
    with torch.device("meta"):
        model = Model()
    fully_shard(model.head[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    fill_freed_memory()
    model.to_empty(device="cpu")
    batch = make_batch(3, num_instances=3, max_instances=7, image_dtype=torch.float32, seed=10 * rank)
    with Written(folder, "fsdp", rank) as written:
        untouched = digest(model.augment(batch))
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, weights.state_dict() if rank == 0 else {}, options=options)
        loaded = held(model)
        model(batch).mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        (other := Model()).load_state_dict(whole if rank == 0 else other.state_dict())
        written.facts = {
            "sharded": sorted(name for name, value in model.state_dict().items() if isinstance(value, DTensor)),
            "before_weights": untouched == digest(Model().augment(batch)),
            "loaded": loaded,
            "pastes": digest(model.augment(batch)) == digest(Model(is_changed=True).augment(batch)),
            "gathered": held(other) if rank == 0 else None,
        }
