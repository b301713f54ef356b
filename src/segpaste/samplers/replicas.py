"""This process among those that train together."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from torch import distributed


class HasPlace(Protocol):
    """What is of one process.

    Attributes:
        rank: of that process.
        num_replicas: how many there are.
    """

    rank: int
    num_replicas: int


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
    are_integers = all(isinstance(number, int | np.integer) for number in (rank, num_replicas))
    if not are_integers or not 0 <= rank < num_replicas:
        raise ValueError(f"{what}: expected integers 0 <= rank < num_replicas, got {rank} and {num_replicas}")
    return rank, num_replicas


def expect_place(sampler: HasPlace, rank: int, num_replicas: int) -> None:
    """Refuse a sampler of another process than the loader that it is given to.

    Raises:
        ValueError: it is of another rank, or of another number of replicas.
    """
    if (sampler.rank, sampler.num_replicas) != (rank, num_replicas):
        raise ValueError(
            f"sampler: expected one of rank {rank} of {num_replicas}, as the loader is, got one of rank {sampler.rank} "
            f"of {sampler.num_replicas}; give both the same, or make them after torch.distributed"
        )
