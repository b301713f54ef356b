"""This process among those that train together.

Loaders are often built before the process group exists. So the rank is found out each time a pass begins, and is not
stored by a constructor.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import distributed


class Replica(NamedTuple):
    """One process of a data-parallel run.

    Attributes:
        rank: its number, in 0 .. num_replicas - 1.
        num_replicas: how many there are, R.
    """

    rank: int
    num_replicas: int

    def share(self, num: int, drop_last: bool = False) -> int:
        """Items that each replica takes of so many: as many on every other, so some twice, or the last are left out."""
        return num // self.num_replicas if drop_last else -(-num // self.num_replicas)

    def turns(self, first: int, num: int) -> NDArray[np.int64]:
        """Places, among the items of all replicas, of this replica's items from a first one on, [num]: every R-th."""
        return np.arange(first, first + num, dtype=np.int64) * self.num_replicas + self.rank


@dataclass(frozen=True)
class ReplicaFinder:
    """Where the rank and the number of replicas come from: as given, or from ``torch.distributed`` when asked.

    Args:
        owner: whose arguments they are, for errors.
        rank: this process's number; None: ask ``torch.distributed``.
        num_replicas: how many there are; likewise. Both or neither.

    Raises:
        ValueError: one is given without the other, or there is no such process.
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
        """The arguments, or None where they are left to ``torch.distributed``."""
        return None if self.rank is None or self.num_replicas is None else Replica(self.rank, self.num_replicas)

    def expect_same(self, loader: ReplicaFinder) -> None:
        """Refuse a sampler of another process than the loader that it is given to; None leaves it to the sampler.

        Raises:
            ValueError: the loader was given a rank, and the sampler has another one.
        """
        if loader.given is not None and loader.given != self.given:
            mine = f"rank {self.rank} of {self.num_replicas}" if self.given else "the rank of torch.distributed"
            raise ValueError(
                f"sampler: expected one of rank {loader.rank} of {loader.num_replicas}, as the loader is, got one of "
                f"{mine}; give rank and num_replicas to the sampler alone"
            )

    def now(self) -> Replica:
        """This process as far as it is known now, for lengths and reports.

        Before the process group exists, the launcher's ``RANK`` and ``WORLD_SIZE`` answer; without them it is 0 of 1.
        """
        return self.given or this_process()

    def reading(self) -> Replica:
        """This process, for a pass over data.

        Raises:
            RuntimeError: the launcher started several processes and their process group does not exist yet.
        """
        found = self.given or find_replica()
        if found is None and (num := _of_launcher().num_replicas) > 1:
            raise RuntimeError(
                f"{self.owner}: expected torch.distributed to be initialized, for WORLD_SIZE is {num}, got no process "
                f"group; call torch.distributed.init_process_group before the first batch, or {self.advice}"
            )
        return found or Replica(0, 1)


def this_process() -> Replica:
    """This process as far as it is known now; a spawned worker of a loader knows the launcher's words only."""
    return find_replica() or _of_launcher()


def find_replica() -> Replica | None:
    """This process in the group of ``torch.distributed``; None where there is no group."""
    if distributed.is_available() and distributed.is_initialized():
        return Replica(distributed.get_rank(), distributed.get_world_size())
    return None


def _of_launcher() -> Replica:
    """What torchrun, Lightning and Accelerate tell the processes that they start."""
    rank, num_replicas = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not num_replicas.isdecimal() or int(num_replicas) <= 1:
        return Replica(0, 1)
    return Replica(int(rank) if rank.isdecimal() else 0, int(num_replicas))
