"""Compare an augmentation step with a clone of the same batch and with the alternatives for a user.

    python -m benchmarks.step --quick
    python -m benchmarks.step --threads 1 --out benchmarks/results/step.json

Every function of a table's column is called in turn, so that all see the same machine. ``clone`` is measured twice
under two names: the ratio of the two is the noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

from . import batches, pasting, peers, timing
from .plan import Plan, Shape
from .timing import Contender

REFERENCE = "segpaste, reference"
NUM_INPUTS = 4
"""Different batches that a CUDA device sees in turn."""

Made = tuple[PaddedBatchedDenseSample, BatchCopyPasteConfig]


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """The step table: a row for each shape."""
    torch.set_num_threads(threads)
    rows = [measure_shape(shape, plan.rounds, device) for shape in plan.shapes]
    if plan.with_reference and device == "cpu":
        rows[0]["times"] |= measure_reference(plan.shapes[0])
    return {"threads": threads, "device": device, "rows": rows}


def measure_shape(
    shape: Shape, rounds: int, device: str = "cpu", others: Iterable[peers.Peer] = peers.PEERS
) -> dict[str, Any]:
    """Milliseconds of everything on one batch; on a CUDA device on some batches of this shape in turn."""
    if device == "cpu":
        batch, config = made(shape)
        contenders = pasting.contenders(batch, config)
        found, skipped = peers.prepared(batch, others) if not shape.all_modalities else ({}, _without_all(others))
        times = timing.in_turns({**contenders, **found}, rounds)
    else:
        sets, skipped = _device_contenders(shape, device)
        batch, config = made(shape)
        times = timing.in_turns(sets, rounds, clock=timing.event_clock)
    return {
        "batch": name_of(shape),
        "pasted_frac": pasting.pasted_frac(batch, config),
        "bytes": pasting.num_bytes(batch),
        "times": timing.summaries(times),
        "skipped": skipped,
    }


def measure_reference(shape: Shape, rounds: int = 5) -> dict[str, timing.Summary]:
    """The reference kernels, hundreds of times slower, so in rounds of their own."""
    batch, config = made(shape)
    paste = BatchCopyPaste(config)

    def call(given: PaddedBatchedDenseSample) -> object:
        with use_backend("reference"):
            return paste(given)

    return timing.summaries(timing.in_turns({REFERENCE: Contender(call, lambda: batch)}, rounds, 1))


def _without_all(others: Iterable[peers.Peer]) -> dict[str, str]:
    return {peer.name: "none of the others pastes all five modalities" for peer in others}


def name_of(shape: Shape) -> str:
    """A shape in a few words."""
    what = "five modalities" if shape.all_modalities else f"1..{shape.instances}"
    size = f"{shape.size}²" if isinstance(shape.size, int) else " × ".join(map(str, shape.size))
    layers = f", {shape.layers} layers" if shape.layers > 1 else ""
    return f"{shape.batch_size} × {size}, {what}{layers}, {pasting.dtype_name(shape.dtype)}"


def made(shape: Shape, seed: int = 0) -> Made:
    """A batch of this shape, and the configuration to paste it with."""
    if shape.all_modalities:
        assert isinstance(shape.size, int)
        return batches.scenes(shape.batch_size, shape.size, shape.instances)
    batch = batches.random_boxes(shape.batch_size, shape.size, shape.instances, shape.dtype, seed)
    return batch, BatchCopyPasteConfig(
        placement=PlacementConfig(paste_prob=1.0, k_range=(1, shape.instances), layers=shape.layers)
    )


def _device_contenders(shape: Shape, device: str) -> tuple[dict[str, Contender], dict[str, str]]:
    """Those of several batches, one batch after the other; of the peers those that stay on the device."""
    found: dict[str, list[Contender]] = {}
    skipped: dict[str, str] = {}
    for seed in range(1 if shape.all_modalities else NUM_INPUTS):
        batch, config = made(shape, seed)
        batch = batch.to(device)
        on_device = [peer for peer in peers.PEERS if peer.on_device and not shape.all_modalities]
        others, skipped = peers.prepared(batch, on_device)
        for name, contender in {**pasting.contenders(batch, config), **others}.items():
            found.setdefault(name, []).append(contender)
    return {name: timing.rotating(contenders) for name, contenders in found.items()}, skipped


if __name__ == "__main__":
    from .programs import main

    main("step", __doc__, measure)
