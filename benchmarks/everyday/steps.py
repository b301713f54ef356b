"""Cases of a step: CPU milliseconds, and multiples of the time to clone the batch, in turns in one process."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.types import PaddedBatchedDenseSample

from .. import batches, pasting, peers, step, timing
from ..plan import Shape
from ..timing import Contender
from .turns import Data, Figures

NUM_SQUARES, NUM_SLOTS = 5, 10


def _made(name: str, side: int) -> step.Made:
    """Make a batch, and the config to paste it with."""
    shapes = {
        "1..5 float32": Shape(8, side, 5),
        "1..20 float32": Shape(8, side, 20),
        "1..5 uint8": Shape(8, side, 5, torch.uint8),
        "1..20 uint8": Shape(8, side, 20, torch.uint8),
        "small": Shape(2, side // 2, 10),
        "five modalities": Shape(8, side, 24, torch.uint8, all_modalities=True),
    }
    if name in shapes:
        return step.made(shapes[name])
    squares = batches.equal_squares(8, side, NUM_SLOTS, NUM_SQUARES, side // 4)  # of 512²: 529,922 pixels
    placement = {"paste_prob": 1.0, "scale_range": (1.0, 1.0), "k_range": (NUM_SQUARES, NUM_SQUARES)}
    return squares, BatchCopyPasteConfig(placement=placement)


def of_batch(data: Data, name: str) -> Iterator[Figures]:
    """A step out of place and in place."""
    return _timed(pasting.contenders(*_made(name, data.side)), data.calls)


def of_peer(data: Data, name: str, peer_name: str) -> Iterator[Figures]:
    """Another library on the same batch.

    Raises:
        RuntimeError: it is not installed, or does not run here.
    """
    batch, _ = _made(name, data.side)
    (peer,) = (peer for peer in peers.PEERS if peer.name == peer_name)
    peers.keep_quiet()
    try:
        contender = peer.prepare(batch)
    except peers.UnsupportedError as error:
        raise RuntimeError(str(error)) from error
    clone = Contender(PaddedBatchedDenseSample.clone, lambda: batch)
    return _timed({pasting.CLONE: clone, pasting.IN_PLACE: contender}, data.calls)


def _timed(contenders: dict[str, Contender], calls: int) -> Iterator[Figures]:
    torch.set_num_threads(1)
    while True:
        found = timing.summaries(timing.in_turns(contenders, calls, clock=timing.cpu_clock))
        times = {name: summary["median_ms"] for name, summary in found.items()}
        clone = times.pop(pasting.CLONE)
        yield {f"{name}, ms": time for name, time in times.items()} | {
            f"{name}, × the clone": time / clone for name, time in times.items()
        }
