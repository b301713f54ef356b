"""Wrapper of other loaders, of any package, that tracks their epoch and place."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from segpaste._reprs import counted, described, inner
from segpaste.epochs._other_loaders import LoaderReplicas, loader_facts, reads_all_on_each_rank, set_epoch_of
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.replicas import find_replica
from segpaste.epochs.stateful import has_state


def _of_loader(name: str) -> property:
    return property(lambda wrapper: getattr(wrapper.loader, name, None), doc=f"The loader's {name}, or None.")


class LoaderWrapper(EpochReader):
    """Loader that reads another loader and tracks its epoch.

    The loaders of this package have an `EpochProgress`, which counts their epochs and places; the wrapper shares it.
    For any other loader the wrapper has a progress of its own, which counts the batches and leads the loader.

    Args:
        loader: any iterable of batches.
        crops: loader or other source of crops that is read in the same epochs, if it has epochs.

    Attributes:
        loader: as given.
        progress: current epoch and the place in it.
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

    def __repr__(self) -> str:
        own = lambda: None if self._is_shared else self.progress.facts()  # noqa: E731
        return described(self, lambda: counted(len(self), "batch", "batches"), lambda: inner(self.loader), own)

    @property
    def sampler(self) -> Any:
        """Sampler of the loader, or if the wrapper counts the epochs, a proxy whose ``set_epoch`` sets its epoch."""
        sampler = getattr(self.loader, "sampler", None)
        return sampler if self._is_shared else EpochTaker(self, sampler)

    batch_sampler = _of_loader("batch_sampler")
    dataset = _of_loader("dataset")
    batch_size = _of_loader("batch_size")

    def _pass(self) -> Iterator[tuple[EpochPass, Any]]:
        """Yield the remaining batches of an epoch, each with its pass; call `_begin` once, before the first."""
        self._warn_of_ranks()
        if self._is_shared:
            this = None
            for batch in self.loader:
                if this is None:
                    this = self._begun()  # the loader's first draw has begun the pass
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
        """Set the epoch of everything else that is read when a pass of the loader has begun."""
        follow_pass(self._beside, this)

    def identity(self) -> dict[str, Any]:
        """Return the facts that determine the content of an epoch; a state with others is rejected."""
        facts = {"loader": type(self.loader).__name__}
        if self._is_shared:
            return facts
        return {**facts, **loader_facts(self.loader), "num_replicas": int(self.progress.replicas.now().num_replicas)}

    def state_parts(self) -> dict[str, Any]:
        """Return the loader, if it has a state."""
        return {"loader": self.loader if has_state(self.loader) else None}

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Load the place; a loader without a state will read the batches before it and skip them."""
        super().take_values(state)
        num_done = self.progress.num_done
        if num_done and not state["finished"] and not self._is_shared and not has_state(self.loader):
            warnings.warn(
                f"{type(self.loader).__name__} has no state: its first {num_done} batches are read and left "
                "out, which is exact only if it yields the same batches again; use segpaste's EpochDataLoader or "
                "torchdata's StatefulDataLoader to resume exactly",
                stacklevel=3,
            )

    def _warn_of_ranks(self) -> None:
        """Warn once if every rank reads the same data, because frameworks do not shard a wrapped loader."""
        replica = find_replica()
        if replica is None or replica.num_replicas == 1 or not self._may_warn_of_ranks:
            return
        self._may_warn_of_ranks = False
        if reads_all_on_each_rank(self.loader):
            warnings.warn(
                f"{self.owner}: expected a loader that reads another part of the data on each of "
                f"{replica.num_replicas} ranks, got a DataLoader without DistributedSampler, so every rank reads all "
                "samples; give it sampler=DistributedSampler(dataset), or use segpaste's EpochDataLoader",
                stacklevel=3,
            )


class EpochTaker:
    """Proxy of the sampler of a wrapped loader, whose ``set_epoch`` sets the epoch of the wrapper.

    Args:
        loader: the wrapper.
        sampler: sampler with all other attributes; None if there is none.
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
    """Set the epoch of crops that are read beside a loader, and restart them if the pass starts at the first batch.

    Args:
        crops: any iterable.
        this: the pass of the loader.
    """
    set_epoch_of(crops, this.epoch)
    progress = getattr(crops, "progress", None)
    if not this.start and isinstance(progress, EpochProgress):
        progress.restart()
