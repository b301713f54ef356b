"""Loaders around other loaders: epoch and place of what they wrap, whoever made it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from segpaste.epochs.replicas import find_replica


class LoaderWrapper:
    """What a loader around another one hands through.

    Args:
        loader: any iterable of batches.

    Attributes:
        loader: as given.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self._num_batches = 0
        self._resumed_epoch: int | None = None
        self._may_warn_of_ranks = True

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    @property
    def sampler(self) -> Any:
        """The loader's, if it takes an epoch; else one that sets the epoch of this loader, for frameworks call it."""
        sampler = getattr(self.loader, "sampler", None)
        return sampler if callable(getattr(sampler, "set_epoch", None)) else EpochTaker(self)

    @property
    def batch_sampler(self) -> Any:
        """The loader's, or None."""
        return getattr(self.loader, "batch_sampler", None)

    @property
    def dataset(self) -> Any:
        """The loader's, or None."""
        return getattr(self.loader, "dataset", None)

    @property
    def batch_size(self) -> Any:
        """The loader's, or None."""
        return getattr(self.loader, "batch_size", None)

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The epoch of the pass that began last, or the next one if none did."""

    @abstractmethod
    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, and of every pass until the next call."""

    def _batches(self) -> Iterator[Any]:
        """The batches of a pass; those that a loaded state says are done are left out."""
        self._warn_of_ranks()
        num_skipped = self._num_batches if self._resumed_epoch == self.epoch else 0
        self._resumed_epoch, self._num_batches = None, num_skipped
        batches = iter(self.loader)
        for _ in islice(batches, num_skipped):
            pass
        for batch in batches:
            self._num_batches += 1
            yield batch

    def _loader_state(self) -> dict[str, Any]:
        """The place of the loader, by its own account where it has one."""
        if hasattr(self.loader, "state_dict"):
            return {"state": self.loader.state_dict()}
        return {"epoch": self.epoch, "num_batches": self._num_batches}

    def _load_loader_state(self, state: Mapping[str, Any]) -> None:
        """Resume there. What has no state of its own is read and left out up to the place."""
        if hasattr(self.loader, "load_state_dict"):
            self.loader.load_state_dict(state["state"])
            return
        set_epoch_of(self.loader, state["epoch"])
        self._resumed_epoch, self._num_batches = state["epoch"], state["num_batches"]
        if self._num_batches:
            warnings.warn(
                f"{type(self.loader).__name__} has no state: its first {self._num_batches} batches are read and left "
                "out, which is exact only if it gives the same batches again; take segpaste's EpochDataLoader or "
                "torchdata's StatefulDataLoader to resume exactly",
                stacklevel=3,
            )

    def _warn_of_ranks(self) -> None:
        """Say once that every rank reads the same: nobody shards a loader that is wrapped."""
        replica = find_replica()
        if replica is None or replica.num_replicas == 1 or not self._may_warn_of_ranks:
            return
        self._may_warn_of_ranks = False
        if type(self.loader) is DataLoader and not _is_sharded(self.loader):
            warnings.warn(
                f"{type(self).__name__}: expected a loader that reads another part of the data on each of "
                f"{replica.num_replicas} ranks, got a DataLoader without DistributedSampler, so every rank reads all "
                "samples; give it sampler=DistributedSampler(dataset), or take segpaste's EpochDataLoader",
                stacklevel=3,
            )


class EpochTaker:
    """Stands for the sampler of a loader whose own takes no epoch.

    Args:
        loader: whose ``set_epoch`` is called.
    """

    def __init__(self, loader: LoaderWrapper) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass."""
        self._loader.set_epoch(epoch)


def _is_sharded(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset) or any(
        isinstance(sampler, DistributedSampler) or hasattr(sampler, "num_replicas")
        for sampler in (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    )


def epoch_of(loader: Any) -> int | None:
    """The epoch of the pass that began last over a loader, or of its sampler; None where neither has one.

    Args:
        loader: any iterable; those of torch, Lightning and this package say their epoch by one of these attributes.
    """
    for part in _parts(loader):
        if isinstance(epoch := getattr(part, "epoch", None), int):
            return epoch
    return None


def set_epoch_of(loader: Any, epoch: int) -> None:
    """Set the epoch of a loader, or of its samplers and dataset where it has no ``set_epoch``."""
    takers = [part for part in _parts(loader) if callable(getattr(part, "set_epoch", None))]
    for taker in takers[:1] if takers and takers[0] is loader else {id(part): part for part in takers}.values():
        taker.set_epoch(epoch)


def _parts(loader: Any) -> Iterator[Any]:
    yield loader
    for name in ("sampler", "batch_sampler", "dataset"):
        part = getattr(loader, name, None)
        if part is not None:
            yield part
            if (inner := getattr(part, "sampler", None)) is not None:
                yield inner
