"""Run of `segpaste augment`: it makes missing images, alone or as one of several shards, and publishes the dataset."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segpaste.augmenting import assembling as _assembling
from segpaste.augmenting import shards as _shards
from segpaste.augmenting.layouts import OtherSplits
from segpaste.augmenting.progress_bar import progress
from segpaste.augmenting.run_log import RunLog
from segpaste.augmenting.shards import Shard
from segpaste.augmenting.steps import StepMaker
from segpaste.augmenting.tally import Tally
from segpaste.bank.building.engines import PartEngine, make_parts
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.readback import Verify
from segpaste.workspace import Fingerprint, Workspace, naming


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options that change no byte of an image.

    Attributes:
        workers: number of processes that make images.
        engine: engine that runs them.
        gallery: number of images to draw.
        shard: part of the images to make; None for all.
        verify: how the written files are read again.
    """

    workers: int
    engine: PartEngine
    gallery: int
    shard: Shard | None
    verify: Verify = "sample"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A run.

    Attributes:
        space: workspace of the dataset.
        maker: makes its images.
        fingerprint: everything that the images depend on.
        others: splits that are copied.
        log: log of the run.
        options: options that change no image.
    """

    space: Workspace
    maker: StepMaker
    fingerprint: Fingerprint
    others: OtherSplits
    log: RunLog
    options: RunOptions

    def run(self, made: Mapping[str, Any]) -> Tally | None:
        """Make the dataset and publish it; return its summary, or None if other shards are missing.

        Args:
            made: entry ``segpaste`` of the tables' info.
        """
        space, maker = self.space, self.maker
        num_made = 0
        with contextlib.ExitStack() as stack:
            if self.options.shard is not None:
                num_made += self._make_shard(self.options.shard)
                if (left := self._left_to_others(self.options.shard, stack)) is not None:
                    print(f"shard    {self.options.shard.number}/{self.options.shard.total} is complete; {left}")
                    return None
            stack.enter_context(space.claim(self.fingerprint))
            stack.enter_context(naming(space.folder))
            if num := _shards.adopt(space.out, maker, self.fingerprint):
                self.log.say(f"took over {num:,} steps of shards")
            guard = Guard(space.notes, self.options.verify)
            num_made += self._make(maker, maker.missing(), maker.num)
            tally = _assembling.assemble(maker, made, self.options.gallery, self.others.names)
            tally.num_made, tally.workers = num_made, self.options.workers
            self.others.write(space.files)
            self._verify(guard)
            space.publish()
        _shards.remove(space.out)
        return tally

    def _verify(self, guard: Guard) -> None:
        """Read the written files again and compare them with the ledger."""
        maker, files = self.maker, self.space.files
        copies = {files / target: source for target, source in self.others.copies.items()}
        of_note = lambda note: [item["ledger"]["file"] for item in note]  # noqa: E731
        done = guard.verified(files, maker.writer().views(maker.expected), range(maker.num_steps), of_note, copies)
        if done.images:
            self.log.say(f"verified {done}")
            print(f"verified {done}")

    def _make_shard(self, shard: Shard) -> int:
        """Make the missing steps of a shard; return the number of images made."""
        run = _shards.run_of(self.space.out, shard)
        with run.claim(self.fingerprint), naming(run.folder):
            num = sum(len(self.maker.positions(step)) for step in shard.steps(self.maker.num_steps))
            missing = _shards.missing_steps(self.maker, run, shard)
            return self._make(_shards.maker_of(self.maker, run), missing, num)

    def _left_to_others(self, shard: Shard, stack: contextlib.ExitStack) -> str | None:
        """Return a message about who assembles the shards, or None if this process does."""
        out = self.space.out
        if left := _shards.missing_shards(out, shard.total, self.maker, self.fingerprint):
            return f"missing: {', '.join(map(str, left))}"
        if not stack.enter_context(_shards.assembling(out)):
            return "another process assembles them"
        return None

    def _make(self, maker: StepMaker, missing: Sequence[int], num: int) -> int:
        """Make the missing steps of ``num`` images; return the number of images made."""
        if not missing:
            return 0
        num_left, workers = sum(len(maker.positions(step)) for step in missing), self.options.workers
        self.log.say(f"making {num_left:,} of {num:,} images with {workers} workers")
        with progress(num, initial=num - num_left) as bar:
            for step in make_parts(maker, missing, workers, self.options.engine):
                self.log.open()
                positions = maker.positions(step)
                bar.update(len(positions))
                self.log.say(f"made images {positions[0] + 1} to {positions[-1] + 1}")
        return num_left
