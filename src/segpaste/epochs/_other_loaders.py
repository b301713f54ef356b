"""Epoch, rank and known facts of any loader or sampler, including those of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from segpaste.epochs.replicas import Replica, ReplicaFinder
from segpaste.epochs.stateful import sampler_facts


def epoch_of(loader: Any) -> int | None:
    """Return the epoch of the last pass over a loader, or of its sampler; None if neither has an epoch.

    Args:
        loader: any iterable. Torch, Lightning and this package store ``epoch`` in the loader, its samplers or dataset.
    """
    for part in _parts(loader):
        if isinstance(epoch := getattr(part, "epoch", None), int) and epoch >= 0:
            return epoch
    return None


def set_epoch_of(loader: Any, epoch: int) -> None:
    """Set the epoch of a loader, or of its samplers and dataset if it has no ``set_epoch``."""
    takers = [part for part in _parts(loader) if callable(getattr(part, "set_epoch", None))]
    for taker in takers[:1] if takers and takers[0] is loader else {id(part): part for part in takers}.values():
        taker.set_epoch(epoch)


@dataclass(frozen=True)
class LoaderReplicas(ReplicaFinder):
    """Finder of the rank of a pass over a loader; it uses the rank of the sampler, if the sampler has one.

    Args:
        loader: any iterable.
    """

    loader: Any = None
    advice: ClassVar[str] = "give it a loader or a sampler with rank= and num_replicas="

    @property
    def given(self) -> Replica | None:
        """Rank of the sampler, or None if it has none."""
        for part in _parts(self.loader):
            rank, num_replicas = getattr(part, "rank", None), getattr(part, "num_replicas", None)
            if isinstance(rank, int) and isinstance(num_replicas, int):
                return Replica(rank, num_replicas)
        return None


def loader_facts(loader: Any) -> dict[str, Any]:
    """Return known facts of a loader: its length and, for a DataLoader, facts of its dataset and sampler."""
    facts: dict[str, Any] = {"num_batches": _len_of(loader)}
    if not isinstance(loader, DataLoader):
        return facts
    batches: Any = loader.batch_sampler
    is_default = batches is None or hasattr(batches, "sampler")
    return {
        **facts,
        "dataset": f"{_len_of(loader.dataset)} samples of {type(loader.dataset).__name__}",
        "batch_size": getattr(batches, "batch_size", loader.batch_size),
        "drop_last": bool(getattr(batches, "drop_last", loader.drop_last)),
        **sampler_facts(getattr(batches, "sampler", loader.sampler) if is_default else batches),
    }


def reads_all_on_each_rank(loader: Any) -> bool:
    """Return whether a loader is a plain DataLoader without a sharding sampler, so that each rank reads all data."""
    if type(loader) is not DataLoader or isinstance(loader.dataset, IterableDataset):
        return False
    samplers = loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)
    return not any(isinstance(one, DistributedSampler) or hasattr(one, "num_replicas") for one in samplers)


def _len_of(value: Any) -> int | None:
    try:
        return len(value)
    except TypeError:
        return None


def _parts(loader: Any) -> Iterator[Any]:
    yield loader
    for name in ("sampler", "batch_sampler", "dataset"):
        part = getattr(loader, name, None)
        if part is not None:
            yield part
            if (inner := getattr(part, "sampler", None)) is not None:
                yield inner
