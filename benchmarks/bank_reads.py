"""Measure random reads from warm banks, compared with a copy from a mapped file and with the alternatives to a bank.

    python -m benchmarks.bank_reads --quick

It needs ``pip install '.[bank,dev]'``. All hold the same crops, and their files are in the page cache. A read
makes the arrays of one crop: image and alpha, and for a bank all else that it keeps. A batch is read into
existing arrays. The reference is a copy of image and alpha from two `numpy.memmap`, measured twice to show the noise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pickle
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import torch
import webdataset
from numpy.typing import NDArray
from PIL import Image

from segpaste.bank import Crop, Layout, LMDBWriter, MemmapWriter, StoredBank, WebDatasetWriter, open_bank
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import Modality

from . import report, timing
from .machine import machine
from .timing import Contender

COPY, AGAIN = "copy out of mapped files", "the same again"
MEMMAP, LMDB, SHARDS = "MemmapBank", "LMDBBank", "WebDatasetBank"
PNG, PICKLES = "folder of PNG files, PIL", "LMDB of pickled dicts"
BY_NAME, BY_NAME_ANEW = "tar by member name, kept open", "tar by member name, opened for each read"
STREAM = "webdataset, iterated up to the name"
WRITERS = {MEMMAP: MemmapWriter, LMDB: LMDBWriter, SHARDS: WebDatasetWriter}
SLOW = (BY_NAME_ANEW, STREAM)

Read = Callable[[NDArray[np.int64]], object]
"""Reads crops, one after the other or all at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurement.

    Attributes:
        crops: in each bank; all of them in one shard.
        side: h and w, pixels.
        reads: crops of a call, read singly or as a batch.
        rounds: calls of each.
        slow_rounds: reads of one crop by those that look through a whole shard for it.
    """

    crops: int = 2000
    side: int = 256
    reads: int = 32
    rounds: int = 60
    slow_rounds: int = 7


FULL, QUICK, TINY = Sizes(), Sizes(crops=500, rounds=30, slow_rounds=3), Sizes(5, 32, 3, 2, 1)


def measure(sizes: Sizes) -> dict[str, Any]:
    """Measure single reads, batches, and readers that look through a shard for a name."""
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        folder = Path(name)
        banks = write_banks(folder, sizes)
        copy_one, copy_batch = mapped_copies(folder / MEMMAP, sizes)
        singles: dict[str, Read] = {COPY: copy_one, AGAIN: copy_one}
        singles |= {kind: one_by_one(bank.__getitem__) for kind, bank in banks.items()}
        singles |= {name: one_by_one(read) for name, read in others(folder, banks[MEMMAP]).items()}
        batches: dict[str, Read] = {COPY: copy_batch, AGAIN: copy_batch}
        batches |= {kind: into_arrays(bank, sizes) for kind, bank in banks.items()}
        slow = {name: singles.pop(name) for name in SLOW}
        found = {
            "single": _timed(singles, sizes, sizes.reads, sizes.rounds, warm_up=3),
            "batch": _timed(batches, sizes, sizes.reads, sizes.rounds, warm_up=3),
            "slow": _timed(slow, sizes, 1, sizes.slow_rounds, warm_up=1),
        }
        for bank in banks.values():
            bank.close()
    return {"sizes": dataclasses.asdict(sizes), **found}


def _timed(reads: Mapping[str, Read], sizes: Sizes, num: int, rounds: int, warm_up: int) -> dict[str, timing.Summary]:
    """Milliseconds of a crop; every call reads others."""
    rng = np.random.default_rng(0)
    contenders = {name: Contender(read, lambda: rng.integers(0, sizes.crops, num)) for name, read in reads.items()}
    times = timing.in_turns(contenders, rounds, warm_up)
    return timing.summaries({name: [value / num for value in values] for name, values in times.items()})


def one_by_one(read: Callable[[int], object]) -> Read:
    """Read crop by crop, each released before the next."""

    def call(indices: NDArray[np.int64]) -> None:
        for index in indices.tolist():
            read(index)

    return call


def into_arrays(bank: StoredBank, sizes: Sizes) -> Read:
    """All crops of a call at once, into arrays that are there, as `segpaste.stage_bank_batch` does."""
    layout = bank.layout
    out = {c.name: np.zeros((sizes.reads, *layout.shape(c)), c.dtype) for c in layout.columns}
    return lambda indices: bank.read(indices, out=out)


def mapped_copies(folder: Path, sizes: Sizes) -> tuple[Read, Read]:
    """Copy image and alpha out of mapped files, into new arrays and into existing ones."""
    shape = (sizes.crops, 3, sizes.side, sizes.side)
    images = np.memmap(folder / "images.dat", np.uint8, "r", shape=shape)
    alphas = np.memmap(folder / "alpha.dat", np.bool_, "r", shape=(shape[0], 1, *shape[2:]))
    out = np.zeros((sizes.reads, *shape[1:]), np.uint8), np.zeros((sizes.reads, 1, *shape[2:]), np.bool_)

    def batch(indices: NDArray[np.int64]) -> None:
        for n, index in enumerate(indices.tolist()):
            out[0][n] = images[index]
            out[1][n] = alphas[index]

    return one_by_one(lambda index: (np.array(images[index]), np.array(alphas[index]))), batch


def write_banks(folder: Path, sizes: Sizes) -> dict[str, StoredBank]:
    """The same crops of rendered scenes in the three formats."""
    side = sizes.side
    scenes = SceneDataset(min(sizes.crops, 16), SceneConfig(height=side, width=side), modalities=(Modality.INSTANCE,))
    names, layout = scenes.config.thing_names, Layout((side, side))
    samples = [scenes[i] for i in range(len(scenes))]
    for kind, writer_of in WRITERS.items():
        with writer_of(folder / kind, layout, names) as writer:
            for index in range(sizes.crops):
                sample = samples[index % len(samples)]
                assert sample.instance_masks is not None
                shift = index // len(samples)
                image, alpha = sample.image.numpy(), sample.instance_masks[:1].numpy()
                writer.add(
                    Crop(
                        image=np.roll(image, shift, 2),
                        alpha=np.roll(alpha, shift, 2),
                        class_id=int(sample.labels[0]),
                        content_box=np.array([0, 0, side, side], np.int32),
                    )
                )
            writer.finish()
    return {kind: open_bank(folder / kind) for kind in WRITERS}


def others(folder: Path, bank: StoredBank) -> dict[str, Callable[[int], object]]:
    """Write the same crops without a bank, and return a function for each way that reads one."""
    pngs, pickles = folder / "png", folder / "pickles"
    pngs.mkdir()
    env = lmdb.open(str(pickles), map_size=1 << 40, lock=False, readahead=False, writemap=True)
    with env.begin(write=True) as transaction:
        for index in range(len(bank)):
            crop = bank[index]
            rgba = np.concatenate([crop.image, crop.alpha * np.uint8(255)]).transpose(1, 2, 0)
            Image.fromarray(np.ascontiguousarray(rgba)).save(pngs / f"{index:08d}.png")
            values = {"image": crop.image, "alpha": crop.alpha, "class_id": crop.class_id}
            transaction.put(f"{index:08d}".encode(), pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL))
    env.close()
    env = lmdb.open(str(pickles), readonly=True, lock=False, readahead=False)
    shard, dtype = folder / SHARDS / "shard-000000.tar", bank.layout.dtype
    kept = tarfile.open(shard)  # noqa: SIM115
    kept.getmembers()

    def png(index: int) -> tuple[Any, Any]:
        with Image.open(pngs / f"{index:08d}.png") as picture:
            rgba = np.asarray(picture)
        return np.ascontiguousarray(rgba[..., :3].transpose(2, 0, 1)), rgba[None, ..., 3] > 0

    def pickled(index: int) -> object:
        with env.begin() as transaction:
            return pickle.loads(transaction.get(f"{index:08d}".encode()))

    def by_name(index: int, tar: tarfile.TarFile = kept) -> object:
        member = tar.extractfile(f"crop_{index:08d}.bin")
        assert member is not None
        return np.frombuffer(member.read(), dtype)

    def by_name_anew(index: int) -> object:
        with tarfile.open(shard) as tar:
            return by_name(index, tar)

    def streamed(index: int) -> object:
        samples = webdataset.WebDataset(str(shard), shardshuffle=False, empty_check=False)
        found = next(sample for sample in samples if sample["__key__"] == f"crop_{index:08d}")
        return np.frombuffer(found["bin"], dtype)

    return {PNG: png, PICKLES: pickled, BY_NAME: by_name, BY_NAME_ANEW: by_name_anew, STREAM: streamed}


def markdown(found: Mapping[str, Any]) -> str:
    """Return a table of microseconds per crop, and of the share of the copy's speed."""
    sizes = Sizes(**found["sizes"])
    single, batch = found["single"] | found["slow"], found["batch"]
    by_name = single[BY_NAME]
    body = []
    for name in (COPY, AGAIN, *WRITERS, PNG, PICKLES, BY_NAME, *SLOW):
        cells = [cell for times in (single, batch) for cell in _cells(times, name)]
        body.append([name, *cells, f"{timing.ratio(by_name, single[name])[0]:.3g}"])
    part = "of the copy's speed"
    head = ["", "bank[i], µs", part, "bank.read, µs a crop", part, "× by name, kept open"]
    about = (
        f"{sizes.crops} crops of {sizes.side}², {sizes.reads} at random in a call, {sizes.rounds} calls in turn; "
        "median and middle half."
    )
    return f"## Bank reads\n\n{about}\n\n{report.table(head, body)}"


def _cells(times: Mapping[str, timing.Summary], name: str) -> list[str]:
    if name not in times:
        return ["", ""]
    low, median, high = (times[name][key] * 1e3 for key in ("low_ms", "median_ms", "high_ms"))
    part = "" if COPY not in times else f"{times[COPY]['median_ms'] / times[name]['median_ms']:.0%}"
    return [f"{median:,.1f} ({low:,.1f}..{high:,.1f})", part]


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bank_reads", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer crops")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    timing.keep_freed_memory()
    torch.set_num_threads(1)
    found = measure(QUICK if args.quick else FULL)
    packages = ["lmdb", "pillow", "pyarrow", "webdataset"]
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine(packages), "bank_reads": found}
    print(f"{markdown(found)}\n\n{report.setting(results)}")
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
