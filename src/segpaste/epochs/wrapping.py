"""Loaders around other loaders: epoch and place of what they wrap, whoever made it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from segpaste.epochs._foreign import LoaderReplicas, loader_facts, reads_all_on_each_rank, set_epoch_of
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.replicas import find_replica
from segpaste.epochs.stateful import has_state


def _of_loader(name: str) -> property:
    return property(lambda wrapper: getattr(wrapper.loader, name, None), doc=f"The loader's {name}, or None.")


class LoaderWrapper(EpochReader):
    """Reads another loader, and says which epoch each pass reads.

    A loader with an `EpochProgress`, as those of this package have, counts its epochs and places itself; the wrapper
    shares its progress. Of any other loader the wrapper counts the batches, and its progress leads it.

    Args:
        loader: any iterable of batches.
        crops: what is read beside it, if it has epochs.

    Attributes:
        loader: as given.
        progress: which epoch is read, from which place on.
    """

    num_items = sys.maxsize  # a loader that shares its progress checks the place itself

    def __init__(self, loader: Iterable[Any], crops: Any = None) -> None:
        self.loader, self._beside = loader, crops
        progress: Any = getattr(loader, "progress", None)
        self._is_shared = isinstance(progress, EpochProgress)
        if not self._is_shared:
            replicas = LoaderReplicas(self.owner, loader=loader)
            progress = EpochProgress(self.owner, replicas=replicas, leads=(loader, crops))
        self.progress = progress
        self._may_warn_of_ranks = True

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    @property
    def sampler(self) -> Any:
        """The loader's; frameworks call its ``set_epoch``, so where the epochs are counted here, it sets this epoch."""
        sampler = getattr(self.loader, "sampler", None)
        return sampler if self._is_shared else EpochTaker(self, sampler)

    batch_sampler = _of_loader("batch_sampler")
    dataset = _of_loader("dataset")
    batch_size = _of_loader("batch_size")

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
        this = self.progress.begin()
        self._begin(this)
        batches = iter(self.loader)
        if not has_state(self.loader):
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

    def _begin(self, this: EpochPass) -> None:
        """Let everything else follow a pass of the loader that has begun."""
        follow_pass(self._beside, this)

    def identity(self) -> dict[str, Any]:
        """The facts that decide what an epoch consists of; a state with others is refused."""
        facts = {"loader": type(self.loader).__name__}
        if self._is_shared:
            return facts
        return {**facts, **loader_facts(self.loader), "num_replicas": int(self.progress.replicas.now().num_replicas)}

    def state_parts(self) -> dict[str, Any]:
        """The loader, if it has a state."""
        return {"loader": self.loader if has_state(self.loader) else None}

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Take the place; of a loader without a state the batches before it will be read and left out."""
        super().take_values(state)
        num_done = self.progress.num_done
        if num_done and not state["finished"] and not self._is_shared and not has_state(self.loader):
            warnings.warn(
                f"{type(self.loader).__name__} has no state: its first {num_done} batches are read and left "
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
        if reads_all_on_each_rank(self.loader):
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
        self._sampler = sampler
        self.set_epoch = loader.set_epoch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_sampler":
            raise AttributeError(name)
        return getattr(self._sampler, name)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sampler)


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
