"""Measure training steps of all arms in turn; each arm has its own loader workers, which persist between turns.

A turn begins with steps that do not count, until batches that were made while others trained are used up.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from benchmarks.machine import machine
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.models.segmentation import lraspp_mobilenet_v3_large

from segpaste.types import DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from .arms import Arm, Loading, PerBatch, prepare
from .encoded import NUM_CLASSES

_PEERS = ("albumentationsx", "ultralytics", "torchvision")
_AHEAD = 2  # batches that a worker reads ahead


@dataclass
class Loaded(Dataset[DenseSample]):
    """Samples as a worker makes them: decoded, jittered and, in some arms, pasted into."""

    loading: Loading
    arm: Arm

    def __len__(self) -> int:
        return len(self.loading.images)

    def __getitem__(self, index: int) -> DenseSample:
        sample = self.loading.jitter(self.loading.images[index], int(torch.randint(1 << 62, ())))
        return sample if self.arm.per_sample is None else self.arm.per_sample(sample)


class Endless(Sampler[int]):
    """Random indices without end.

    Args:
        num: number of samples.
    """

    def __init__(self, num: int) -> None:
        self.num = num

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(0)
        while True:
            yield from torch.randperm(self.num, generator=generator).tolist()


@dataclass(frozen=True)
class Collate:
    """Collation, with the paste of those arms that paste into batches in a worker."""

    loading: Loading
    per_batch: PerBatch | None

    def __call__(self, samples: list[DenseSample]) -> PaddedBatchedDenseSample:
        """Return the batch."""
        batch = self.loading.collate(samples)
        return batch if self.per_batch is None else self.per_batch(batch)


class Feed:
    """The batches of an arm, and the processes that make them.

    Args:
        loading: images and collation.
        arm: what is pasted where.
        settings: ``batch_size`` and ``workers``.
    """

    def __init__(self, loading: Loading, arm: Arm, settings: Mapping[str, Any]) -> None:
        before = set(multiprocessing.active_children())
        loader = DataLoader(
            Loaded(loading, arm),
            batch_size=settings["batch_size"],
            sampler=Endless(settings["num_images"]),
            num_workers=settings["workers"],
            collate_fn=Collate(loading, arm.per_batch),
            prefetch_factor=_AHEAD,
            multiprocessing_context="fork",
        )
        self.batches = iter(loader)
        self.pids = [process.pid for process in set(multiprocessing.active_children()) - before]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the workers so far, as Linux counts them."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Trainer:
    """A segmentation model, LR-ASPP with a MobileNetV3, and its training step."""

    net: nn.Module = field(
        default_factory=lambda: lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=NUM_CLASSES)
    )

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def step(self, batch: PaddedBatchedDenseSample) -> None:
        """Go one step down the loss of all classes at all pixels."""
        of_class = F.one_hot(batch.labels, NUM_CLASSES) * batch.instance_valid[..., None]
        wanted = torch.einsum("bkc,bkhw->bchw", of_class.float(), not_none(batch.instance_masks).float()).clamp(max=1)
        loss = F.binary_cross_entropy_with_logits(self.net(batch.images.float() / 255)["out"], wanted)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


class Bench:
    """All arms, ready to be measured.

    Args:
        settings: of a repeat, see the protocol.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        torch.manual_seed(0)
        self.settings = settings
        loading = Loading.of(settings)
        self.folder = tempfile.TemporaryDirectory(prefix="segpaste_throughput_")
        self.arms, self.skipped = prepare(loading, settings, Path(self.folder.name))
        self.feeds = {name: Feed(loading, arm, settings) for name, arm in self.arms.items()}
        self.trainer = Trainer()

    def repeat(self, number: int) -> dict[str, Any]:
        """Return the figures of one turn of every arm, in an order of its own."""
        order = random.Random(number).sample(list(self.arms), len(self.arms))
        turns = {name: self._turn(name) for name in order}
        versions = {name: value for name, value in machine(_PEERS).items() if name in _PEERS}
        return {"arms": turns, "skipped": self.skipped, "versions": versions, "load": os.getloadavg()[0]}

    def _turn(self, name: str) -> dict[str, float]:
        """Return images per second, the share of waiting, and CPU milliseconds for an image, of one arm."""
        feed, paste = self.feeds[name], self.arms[name].in_step
        steps, warm_up = self.settings["steps"], self.settings["warm_up"]
        wait = pasting = begun = cpu = workers = 0.0
        for step in itertools.count():
            if step == warm_up:
                begun, cpu, workers = time.perf_counter(), time.process_time(), feed.cpu_seconds()
                wait = pasting = 0.0
            if step == warm_up + steps:
                break
            asked = time.perf_counter()
            batch = next(feed.batches)
            wait += time.perf_counter() - asked
            before = time.process_time()
            batch = batch if paste is None else paste(batch)
            pasting += time.process_time() - before
            self.trainer.step(batch)
        seconds, images = time.perf_counter() - begun, steps * self.settings["batch_size"]
        return {
            "images_per_second": images / seconds,
            "wait_share": wait / seconds,
            "step_cpu_ms": 1e3 * (time.process_time() - cpu) / images,
            "paste_cpu_ms": 1e3 * pasting / images,
            "worker_cpu_ms": 1e3 * (feed.cpu_seconds() - workers) / images,
        }
