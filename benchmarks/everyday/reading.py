"""Cases of reading datasets: the loader beside torchvision's transforms, and the build of a bank."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import torch

from segpaste.bank import build_bank

from .. import loading, timing
from ..plan import Loading
from .samples import opened
from .turns import Data, Figures

NUM_PHOTOS = 16


def loader(data: Data) -> Iterator[Figures]:
    """JPEG scenes in padded batches: the rate of this loader over that of torchvision v2, and CPU ms of an image."""
    torch.set_num_threads(1)
    plan = Loading(photos=NUM_PHOTOS if data.side >= 512 else 2, size=data.side)
    photos, annotations = loading.write_scenes(Path(mkdtemp(dir=data.scratch)), plan)
    contenders = {
        loading.OURS: loading.contender(loading.ours(photos, annotations, plan)),
        loading.THEIRS: loading.contender(loading.theirs(photos, annotations, plan)),
    }
    while True:
        times = timing.summaries(timing.in_turns(contenders, 3, warm_up=1, clock=timing.cpu_clock))
        own, theirs = (times[name]["median_ms"] for name in contenders)
        yield {"× torchvision v2": theirs / own, "CPU ms": own / plan.photos}


def bank_build(data: Data) -> Iterator[Figures]:
    """A bank of the dataset's objects: CPU milliseconds of a crop."""
    torch.set_num_threads(1)
    dataset, out = opened(data), Path(mkdtemp(dir=data.scratch)) / "bank"
    while True:
        start = time.process_time()
        summary = build_bank(dataset, out, class_names=dataset.class_names)
        yield {"CPU ms": (time.process_time() - start) * 1e3 / summary.num_crops}
        shutil.rmtree(out)
