"""This process among those that train together."""

from __future__ import annotations

from torch import distributed


def place_among(what: str, rank: int | None, num_replicas: int | None) -> tuple[int, int]:
    """This process's number and how many there are: as given, else as torch.distributed has them, else 0 of 1.

    Raises:
        ValueError: one is given without the other, or there is no such process; ``what`` says whose arguments they are.
    """
    if (rank is None) != (num_replicas is None):
        raise ValueError(f"{what}: expected both rank and num_replicas or neither, got {rank} and {num_replicas}")
    if rank is None or num_replicas is None:
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if not 0 <= rank < num_replicas:
        raise ValueError(f"{what}: expected 0 <= rank < num_replicas, got {rank} and {num_replicas}")
    return rank, num_replicas
