"""Rank of this process among those that train together.

Loaders are often built before the process group exists. Therefore each pass looks up the rank when it begins;
constructors do not store it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import distributed


class Replica(NamedTuple):
    """Process of a data-parallel run.

    Attributes:
        rank: number of the process, in 0 .. num_replicas - 1.
        num_replicas: number of processes, R.
    """

    rank: int
    num_replicas: int

    def share(self, num: int, drop_last: bool = False) -> int:
        """Return the number of items of each replica out of ``num``: rounded up, or down with ``drop_last``."""
        return num // self.num_replicas if drop_last else -(-num // self.num_replicas)

    def turns(self, first: int, num: int) -> NDArray[np.int64]:
        """Return the places of this replica's items, every R-th of all items, from its ``first`` item on, [num]."""
        return np.arange(first, first + num, dtype=np.int64) * self.num_replicas + self.rank


@dataclass(frozen=True)
class ReplicaFinder:
    """Finder of the rank and the number of replicas: as given, or from ``torch.distributed`` at each call.

    Args:
        owner: name of the sampler or loader, for errors.
        rank: number of this process; None for that of ``torch.distributed``.
        num_replicas: number of processes; None for that of ``torch.distributed``. Give both or neither.

    Raises:
        ValueError: one is given without the other, or the rank is out of range.
    """

    owner: str
    rank: int | None = None
    num_replicas: int | None = None
    advice: ClassVar[str] = "give rank= and num_replicas="

    def __post_init__(self) -> None:
        rank, num_replicas = self.rank, self.num_replicas
        if (rank is None) != (num_replicas is None):
            raise ValueError(
                f"{self.owner}: expected both rank and num_replicas or neither, got {rank} and {num_replicas}"
            )
        if rank is None or num_replicas is None:
            return
        are_integers = all(
            isinstance(number, int | np.integer) and not isinstance(number, bool) for number in (rank, num_replicas)
        )
        if not are_integers or not 0 <= rank < num_replicas:
            raise ValueError(f"{self.owner}: expected integers 0 <= rank < num_replicas, got {rank} and {num_replicas}")

    @property
    def given(self) -> Replica | None:
        """Rank as given, or None if ``torch.distributed`` decides."""
        return None if self.rank is None or self.num_replicas is None else Replica(self.rank, self.num_replicas)

    def expect_same(self, loader: ReplicaFinder) -> None:
        """Check that a loader with a given rank has a sampler of the same rank; ``self`` belongs to the sampler.

        Raises:
            ValueError: the loader was given a rank, and the sampler has another one.
        """
        if loader.given is not None and loader.given != self.given:
            mine = f"rank {self.rank} of {self.num_replicas}" if self.given else "the rank of torch.distributed"
            raise ValueError(
                f"sampler: expected rank {loader.rank} of {loader.num_replicas}, as the loader has, got "
                f"{mine}; give rank and num_replicas to the sampler alone"
            )

    def now(self) -> Replica:
        """Return the rank as far as it is known now, for lengths and reports.

        Before the process group exists, it is read from the launcher's ``RANK`` and ``WORLD_SIZE``; without them it is
        0 of 1.
        """
        return self.given or this_process()

    def reading(self) -> Replica:
        """Return the rank for a pass over data.

        Raises:
            RuntimeError: the launcher started several processes, but their process group does not exist yet.
        """
        found = self.given or find_replica()
        if found is None and (num := _of_launcher().num_replicas) > 1:
            raise RuntimeError(
                f"{self.owner}: expected torch.distributed to be initialized, as WORLD_SIZE is {num}, got no process "
                f"group; call torch.distributed.init_process_group before the first batch, or {self.advice}"
            )
        return found or Replica(0, 1)


def this_process() -> Replica:
    """Return the rank as far as it is known now; a spawned loader worker knows only the launcher's variables."""
    return find_replica() or _of_launcher()


def find_replica() -> Replica | None:
    """Return the rank in the process group of ``torch.distributed``; None if there is no group."""
    if distributed.is_available() and distributed.is_initialized():
        return Replica(distributed.get_rank(), distributed.get_world_size())
    return None


def _of_launcher() -> Replica:
    """Return the rank from the environment variables that torchrun, Lightning and Accelerate set."""
    rank, num_replicas = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not num_replicas.isdecimal() or int(num_replicas) <= 1:
        return Replica(0, 1)
    return Replica(int(rank) if rank.isdecimal() else 0, int(num_replicas))
