"""Loaders around other loaders: epoch and place of what they wrap, whoever made it."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.replicas import Replica, ReplicaFinder, find_replica
from segpaste.epochs.states import sampler_facts


class LoaderWrapper:
    """Reads another loader, and says which epoch each pass reads.

    A loader with an `EpochProgress`, as those of this package have, counts its epochs and places itself; the wrapper
    shares its progress. Of any other loader the wrapper counts the batches, and sets the epoch before each pass.

    Args:
        loader: any iterable of batches.
        crops: what is read beside it, if it has epochs.

    Attributes:
        loader: as given.
        progress: which epoch is read, from which place on.
    """

    owner: ClassVar[str]
    """What errors and warnings call it."""

    def __init__(self, loader: Iterable[Any], crops: Any = None) -> None:
        self.loader, self._crops = loader, crops
        progress = getattr(loader, "progress", None)
        self._is_shared = isinstance(progress, EpochProgress)
        if self._is_shared:
            self.progress: EpochProgress = progress  # type: ignore[assignment]
        else:
            self.progress = EpochProgress(self.owner, replicas=LoaderReplicas(self.owner, loader=loader))
            self._seen_epoch = self._epoch_outside()
            self.progress.epoch = self._seen_epoch or 0
        self._may_warn_of_ranks = True

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    @property
    def sampler(self) -> Any:
        """The loader's; frameworks call its ``set_epoch``, so where the epochs are counted here, it sets this epoch."""
        sampler = getattr(self.loader, "sampler", None)
        return sampler if self._is_shared else EpochTaker(self, sampler)

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
    def epoch(self) -> int:
        """The epoch of the pass that began last, or the next one if none did."""
        self._follow()
        return self.progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, of all that is read, and of every pass until the next call.

        To set the epoch that is set already changes nothing, so a loaded place survives.

        Raises:
            ValueError: it is negative, or no integer.
        """
        self.progress.set_epoch(epoch)
        self._hand_on(epoch)
        if self._crops is not None:
            set_epoch_of(self._crops, epoch)

    def _hand_on(self, epoch: int) -> None:
        """Set the epoch of a loader whose epochs are counted here."""
        if not self._is_shared:
            set_epoch_of(self.loader, epoch)
            self._seen_epoch = self._epoch_outside()

    def _epoch_outside(self) -> int | None:
        epoch = epoch_of(self.loader)
        return epoch_of(self._crops) if epoch is None else epoch

    def _follow(self) -> None:
        """Take the epoch that was set on the loader or its sampler itself, as is usual with torch's."""
        if self._is_shared or (epoch := self._epoch_outside()) == self._seen_epoch:
            return
        self._seen_epoch = epoch
        if epoch is not None:
            self.progress.set_epoch(epoch)

    def _pass(self) -> Iterator[tuple[EpochPass, Any]]:
        """The batches that are left of an epoch, each with its pass. `_begin` is called once, before the first."""
        self._warn_of_ranks()
        if self._is_shared:
            this = None
            for batch in self.loader:
                if this is None:
                    this = self._begun()  # the loader's first draw has begun it
                yield this, batch
            if this is None and self.progress.current is not None:
                self._begun()
            return
        self._follow()
        this = self.progress.begin()
        self._hand_on(this.epoch)
        self._begin(this)
        batches = iter(self.loader)
        if not _has_state(self.loader):
            for _ in islice(batches, this.start):
                pass
        for num_done, batch in enumerate(batches, start=this.start + 1):
            this.done(num_done)
            yield this, batch
        this.finish()

    def _begun(self) -> EpochPass:
        this = self.progress.current
        assert this is not None
        self._begin(this)
        return this

    @abstractmethod
    def _begin(self, this: EpochPass) -> None:
        """Let everything else follow a pass of the loader that has begun."""

    def identity(self) -> dict[str, Any]:
        """The facts that decide what an epoch consists of; a state with others is refused."""
        facts = {"loader": type(self.loader).__name__}
        return facts if self._is_shared else {**facts, **_facts_of(self.loader, self.progress)}

    def state_dict(self) -> dict[str, Any]:
        """The place after the batch that was yielded last, of all that is read, and whose it is."""
        self._follow()
        state: Any = self.loader.state_dict() if _has_state(self.loader) else None  # type: ignore[attr-defined]
        return {**self.progress.state(self.identity()), "loader": state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume there: the next pass gives the batches that are left.

        What has no state of its own is read and left out up to the place.

        Raises:
            ValueError: the state is of another loader, or of other crops; the message says which. Nothing is changed.
        """
        self.expect_state(state)
        if _has_state(self.loader):
            self.loader.load_state_dict(state["loader"])  # type: ignore[attr-defined]
        if self._is_shared:
            return
        self.progress.load_state(state, self.identity(), sys.maxsize)
        self._hand_on(self.progress.epoch)
        if (num_done := self.progress.num_done) and not state["finished"] and not _has_state(self.loader):
            warnings.warn(
                f"{type(self.loader).__name__} has no state: its first {num_done} batches are read and left "
                "out, which is exact only if it gives the same batches again; take segpaste's EpochDataLoader or "
                "torchdata's StatefulDataLoader to resume exactly",
                stacklevel=3,
            )

    def expect_state(self, state: Any) -> None:
        """Check what `load_state_dict` would load, and change nothing.

        Raises:
            ValueError: as `load_state_dict` does.
        """
        # The loader that shares its progress checks the place, with its own words.
        EpochProgress(self.owner).expect_state(state, self.identity(), sys.maxsize)
        expect_parts(self.owner, state, {"loader": self.loader if _has_state(self.loader) else None})

    def _warn_of_ranks(self) -> None:
        """Say once that every rank reads the same: nobody shards a loader that is wrapped."""
        replica = find_replica()
        if replica is None or replica.num_replicas == 1 or not self._may_warn_of_ranks:
            return
        self._may_warn_of_ranks = False
        if type(self.loader) is DataLoader and not _is_sharded(self.loader):
            warnings.warn(
                f"{self.owner}: expected a loader that reads another part of the data on each of "
                f"{replica.num_replicas} ranks, got a DataLoader without DistributedSampler, so every rank reads all "
                "samples; give it sampler=DistributedSampler(dataset), or take segpaste's EpochDataLoader",
                stacklevel=3,
            )


class EpochTaker:
    """Stands for the sampler of a loader whose epochs are counted by its wrapper.

    Args:
        loader: the wrapper, whose ``set_epoch`` is called.
        sampler: has everything else; None if there is none.
    """

    def __init__(self, loader: LoaderWrapper, sampler: Any) -> None:
        self._loader, self._sampler = loader, sampler

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_sampler"):
            raise AttributeError(name)
        return getattr(self._sampler, name)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sampler)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass."""
        self._loader.set_epoch(epoch)


@dataclass(frozen=True)
class LoaderReplicas(ReplicaFinder):
    """Where the rank of a pass over a loader comes from: of its sampler, where that has one.

    Args:
        loader: any iterable.
    """

    loader: Any = None
    advice: ClassVar[str] = "give it a loader or a sampler with rank= and num_replicas="

    @property
    def given(self) -> Replica | None:
        """The rank of the sampler, or None where it has none."""
        for part in _parts(self.loader):
            rank, num_replicas = getattr(part, "rank", None), getattr(part, "num_replicas", None)
            if isinstance(rank, int) and isinstance(num_replicas, int):
                return Replica(rank, num_replicas)
        return None


def expect_parts(owner: str, state: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Check the parts of a state, those that say how to.

    Args:
        owner: who loads it.
        state: of a loader that consists of several.
        parts: under their keys in the state; None stands for one without a state.

    Raises:
        ValueError: a part is missing, or its state is another's. Nothing is changed.
    """
    for name, part in parts.items():
        if name not in state or (part is None) != (state[name] is None):
            there = "none" if state.get(name) is None else "one"
            here = "none" if part is None else "one"
            raise ValueError(
                f"{owner}: expected a state that has, as this one has, {here} of {name}, got {there}; load it into a "
                "loader that is made with the same arguments"
            )
        if hasattr(part, "expect_state"):
            part.expect_state(state[name])


def follow_pass(crops: Any, this: EpochPass) -> None:
    """Let what is read beside a loader begin a pass of that epoch, from its start on if the loader does.

    Args:
        crops: any iterable.
        this: the pass of the loader.
    """
    set_epoch_of(crops, this.epoch)
    progress = getattr(crops, "progress", None)
    if not this.start and isinstance(progress, EpochProgress):
        progress.restart()


def _has_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def _facts_of(loader: Any, progress: EpochProgress) -> dict[str, Any]:
    """What is known of a loader that says nothing of itself."""
    facts: dict[str, Any] = {"num_batches": _len_of(loader)}
    if isinstance(loader, DataLoader):
        batches: Any = loader.batch_sampler
        is_default = batches is None or hasattr(batches, "sampler")
        facts |= {
            "dataset": f"{_len_of(loader.dataset)} samples of {type(loader.dataset).__name__}",
            "batch_size": getattr(batches, "batch_size", loader.batch_size),
            "drop_last": bool(getattr(batches, "drop_last", loader.drop_last)),
            **sampler_facts(getattr(batches, "sampler", loader.sampler) if is_default else batches),
        }
    return {**facts, "num_replicas": int(progress.replicas.now().num_replicas)}


def _len_of(value: Any) -> int | None:
    try:
        return len(value)
    except TypeError:
        return None


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
        if isinstance(epoch := getattr(part, "epoch", None), int) and epoch >= 0:
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
