"""Place in an epoch, and the choice of the epoch that a new pass reads.

A pass is one iteration over a sampler or loader. It begins when its first item is drawn, not when ``iter`` is called: a
`torch.utils.data.DataLoader` with workers calls ``iter`` twice and uses the second iterator.

- In one process, every new pass is a new epoch, as with the samplers of torch.
- After a call of `EpochProgress.set_epoch`, every pass reads that epoch until the next call.
- On several ranks, a pass never advances the epoch by itself, because ranks with different epochs would read the same
  samples. A repeated epoch warns once.
- After `EpochProgress.load_state`, the next pass resumes the stored epoch at the stored place.
- Loaders and samplers of other packages are led: their epoch is set before each pass. If the user sets their epoch
  directly, that epoch is adopted.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from segpaste.epochs._other_loaders import epoch_of, set_epoch_of
from segpaste.epochs.replicas import Replica, ReplicaFinder
from segpaste.epochs.stateful import expect_own_state
from segpaste.seeding import check_uint64

T = TypeVar("T")


class EpochProgress:
    """Epoch, place and rank of a sampler or loader.

    A place is a number of items: indices of a sampler, or rows of a loader.

    Args:
        owner: name of the sampler or loader, for errors and warnings.
        rank: see `ReplicaFinder`.
        num_replicas: see `ReplicaFinder`.
        replicas: another finder of the rank, instead of ``rank`` and ``num_replicas``.
        leads: loaders and samplers of other packages that are read in the same epochs; the epoch of the first one that
            has an epoch counts.

    Attributes:
        owner: as given.
        replicas: finder of the rank and the number of replicas.
        num_done: number of items of the epoch that are done.
    """

    def __init__(
        self,
        owner: str,
        rank: int | None = None,
        num_replicas: int | None = None,
        replicas: ReplicaFinder | None = None,
        leads: Sequence[Any] = (),
    ) -> None:
        self.owner = owner
        self.replicas = replicas or ReplicaFinder(owner, rank, num_replicas)
        self._leads = tuple(leads)
        self._seen = self._epoch_outside()
        self._epoch, self.num_done = self._seen or 0, 0
        self._has_begun = self._is_set = self._is_said = self._resumes = self._is_finished = self._has_warned = False
        self._current: EpochPass | None = None

    def facts(self, base_seed: int = 0) -> Iterator[Callable[[], str | None]]:
        """Yield functions that return facts for the `repr` of the owner: epoch, seed and given rank."""
        yield lambda: f"epoch {self._epoch}"
        yield lambda: f"seed {base_seed}" if base_seed else None
        yield lambda: None if (found := self.replicas.given) is None else f"rank {found.rank} of {found.num_replicas}"

    @property
    def epoch(self) -> int:
        """Epoch of the last pass, or of the next pass if there was none."""
        self._follow()
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, >= 0, and of every pass until the next call.

        Setting the same epoch again changes nothing, so a loaded place survives.

        Raises:
            ValueError: the epoch is not an integer in [0, 2**64).
        """
        check_uint64(epoch, "epoch")
        self._choose(epoch)
        self._lead()

    @property
    def current(self) -> EpochPass | None:
        """Last pass; None before the first pass, and after another epoch or a state was set."""
        return self._current

    def restart(self) -> None:
        """Reset the place, even a loaded one: the next pass reads its epoch from the first item."""
        self._go_to(self._epoch, 0)

    def begin(self) -> EpochPass:
        """Start a pass: find the rank and choose the epoch.

        Raises:
            RuntimeError: there are several processes, but no process group yet.
        """
        self._follow()
        replica = self.replicas.reading()
        start = self.num_done if self._resumes else 0
        if self._has_begun and not self._resumes:
            if replica.num_replicas > 1:
                if not self._is_said:  # before this pass
                    self._warn_of_repetition()
            elif not self._is_set:
                self._epoch += 1
        self._has_begun, self._resumes, self._is_finished, self._is_said = True, False, False, False
        self.num_done = start
        self._current = this = EpochPass(self, operator.index(self._epoch), start, replica)
        self._lead()
        return this

    def state(self, identity: Mapping[str, Any], num_done: int | None = None) -> dict[str, Any]:
        """Return the place and the owner's facts, equal on all ranks, so that the state of one rank serves all.

        Args:
            identity: facts of the owner, as JSON values; see `expect_own_state`.
            num_done: number of items that are done, if the caller knows it better.
        """
        epoch = int(self.epoch)  # first, because adopting another epoch resets the place
        place = self.num_done if num_done is None else operator.index(num_done)
        finished = self._is_finished and place == self.num_done
        return {"epoch": epoch, "num_drawn": int(place), "finished": finished, "of": dict(identity)}

    def load_state(self, state: Mapping[str, Any], identity: Mapping[str, Any], length: int, step: int = 1) -> None:
        """Load a state: the next pass yields the remaining items, or a new epoch if the old one was finished.

        Args:
            state: state returned by `state`.
            identity: facts of the owner.
            length: number of items of an epoch on this rank.
            step: divisor of all places but ``length`` itself.

        Raises:
            ValueError: the state belongs to another owner, or its place is out of range. Nothing is changed.
        """
        self.expect_state(state, identity, length, step)
        self.resume(state)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Load a state that `expect_state` has checked."""
        self._go_to(int(state["epoch"]), int(state["num_drawn"]))
        self._has_begun = self._is_finished = state.get("finished", False)
        self._resumes = not self._has_begun
        self._lead()

    def expect_state(
        self, state: Any, identity: Mapping[str, Any], length: int, step: int = 1, owner: str | None = None
    ) -> None:
        """Check a state as `load_state` does, and change nothing; errors name ``owner``.

        Raises:
            ValueError: see `load_state`.
        """
        owner = owner or self.owner
        expect_own_state(owner, identity, state)
        place, finished = state["num_drawn"], state.get("finished", False)
        is_place = isinstance(place, int) and not isinstance(place, bool)
        if not is_place or not 0 <= place <= length or (place % step and place != length):
            steps = f" in steps of {step}" if step > 1 else ""
            raise ValueError(f"{owner}: expected num_drawn from 0 to {length}{steps}, got {place!r}")
        if not isinstance(finished, bool):
            raise ValueError(f"{owner}: expected finished to be true or false, got {finished!r}")
        check_uint64(state["epoch"], "epoch")

    def _choose(self, epoch: int) -> None:
        self._is_set = self._is_said = True
        if epoch != self._epoch:
            self._go_to(epoch, 0)
            self._has_begun = False

    def _epoch_outside(self) -> int | None:
        return next((epoch for one in self._leads if (epoch := epoch_of(one)) is not None), None)

    def _follow(self) -> None:
        """Adopt an epoch that the user set directly on a led sampler or loader, as with torch's samplers."""
        if (epoch := self._epoch_outside()) != self._seen:
            self._seen = epoch
            if epoch is not None:
                self._choose(epoch)

    def _lead(self) -> None:
        for one in self._leads:
            set_epoch_of(one, self._epoch)
        self._seen = self._epoch_outside()

    def _go_to(self, epoch: int, place: int) -> None:
        self._epoch, self.num_done, self._current = epoch, place, None
        self._resumes = self._is_finished = False

    def _warn_of_repetition(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"{self.owner}: epoch {self._epoch} is read again with the same samples; on several ranks call "
            "set_epoch(epoch) before each pass",
            stacklevel=2,
        )


class EpochPass:
    """One pass over a sampler or loader.

    Attributes:
        epoch: epoch that the pass reads.
        start: number of items that the pass skips, because they were done before.
        replica: this process.
    """

    def __init__(self, progress: EpochProgress, epoch: int, start: int, replica: Replica) -> None:
        self.epoch, self.start, self.replica = epoch, start, replica
        self._progress = progress

    @property
    def is_current(self) -> bool:
        """True until another pass begins, or another epoch or a state is set."""
        return self._progress._current is self

    def done(self, num_done: int) -> None:
        """Record the number of items of the epoch that are done; ignored if the pass is no longer current."""
        if self.is_current:
            self._progress.num_done = num_done

    def finish(self) -> None:
        """Record that the epoch was read to its end."""
        if self.is_current:
            self._progress._is_finished = True

    def counted(self, items: Iterable[T], step: int = 1) -> Iterator[T]:
        """Yield the items and count them as done, ``step`` at a time."""
        for num_done, item in enumerate(items, start=self.start + 1):
            if num_done % step == 0:
                self.done(num_done)
            yield item
        self.finish()
