"""Time `CopyPaste` on one sample at a time, as in a loader worker: this build, another one, and other libraries.

    python -m benchmarks.one_sample DATASET [--images FOLDER] [--against SRC] [--peers PYTHON] [--out FILE]

DATASET is a folder, a data YAML, or a file of COCO instances with ``--images``. Each contender is a process of its own
with one thread, which looks to torch like a loader worker; they take turns, so that a busy machine slows all of them.
Figures are CPU milliseconds of a call on a sample that is in memory: what a loader pays beyond reading it. SRC is the
folder ``src`` of another checkout, such as that of the last release; PYTHON that of an environment with other libraries
and this one's dependencies.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data._utils import worker
from torchvision import tv_tensors

from segpaste import BatchCopyPasteConfig, open_bank
from segpaste.bank import DatasetBank, build_bank
from segpaste.datasets import open_dataset
from segpaste.experimental import CopyPaste
from segpaste.types import DenseSample

from . import report, timing
from .machine import machine

NUM_SAMPLES, NUM_ROUNDS, NUM_CALLS = 50, 8, 25
ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "bank, 1 object, image and target": "of_pair",
    "bank, 1 object, `DenseSample`": "of_sample",
    "dataset, 4 objects, cold": "of_dataset",
}
PEERS = {
    "AlbumentationsX, 1 object, masks": "albumentationsx",
    "AlbumentationsX, 4 objects from files": "albumentationsx_files",
}
Call = Callable[[], object]


def placement(num: int) -> dict[str, Any]:
    """Options of a paste of so many objects into every image."""
    return {"paste_prob": 1.0, "k_range": (num, num), "layers": num, "grouping": "instance"}


def pair(sample: DenseSample) -> tuple[Any, dict[str, Any]]:
    """The sample as torchvision's dataset of COCO gives it, with masks of bytes."""
    assert sample.instance_masks is not None
    masks = tv_tensors.Mask(sample.instance_masks.as_subclass(torch.Tensor).to(torch.uint8))
    return sample.image, {"boxes": sample.boxes, "labels": sample.labels, "masks": masks}


def calls(dataset: Any, bank: Path, case: str) -> Iterator[Call]:
    """Yield calls of a case on one sample after another, without end."""
    config = BatchCopyPasteConfig(placement=placement(4 if case == "of_dataset" else 1))
    samples = [dataset[i] for i in range(min(NUM_SAMPLES, len(dataset)))]
    pool = DatasetBank(dataset, cache_bytes=0) if case == "of_dataset" else open_bank(bank)
    transform = CopyPaste(pool, config, label_map=None if case == "of_sample" else 0)
    inputs = [(sample,) if case == "of_sample" else pair(sample) for sample in samples]
    while True:
        for given in inputs:
            yield lambda given=given: transform(*given)


def serve(words: dict[str, Any]) -> None:
    """Time the calls of a contender: for each line of the input, print the milliseconds of some calls."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=None)  # for get_worker_info
    dataset = open_dataset(Path(words["dataset"]), images_dir=words["images"] and Path(words["images"]))
    if words["case"] in PEERS.values():
        from .peers import one_sample

        stream = one_sample.calls(dataset, Path(words["bank"]), words["case"])
    else:
        stream = calls(dataset, Path(words["bank"]), words["case"])
    for _ in range(NUM_CALLS):
        next(stream)()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps([_cpu(next(stream)) for _ in range(NUM_CALLS)]), flush=True)


def _cpu(call: Call) -> float:
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1e3


class Contender:
    """A process that times calls when it is asked to.

    Args:
        python: its interpreter.
        source: folder of its segpaste.
        words: arguments of `serve`.
    """

    def __init__(self, python: str, source: Path, words: dict[str, Any]) -> None:
        path = os.pathsep.join(map(str, (source, ROOT)))
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.one_sample", "--child", json.dumps(words)],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def turn(self) -> list[float]:
        """Milliseconds of the next calls."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return list(json.loads(self._answer()))

    def end(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"expected figures, the process ended with {self._process.wait()}")
        return line


def in_turns(contenders: dict[str, Contender]) -> dict[str, timing.Summary]:
    """Return the summary of each contender, over rounds in which each has a turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(NUM_ROUNDS):
        names = list(contenders) if number % 2 else list(contenders)[::-1]
        for name in names:
            times[name] += contenders[name].turn()
    for contender in contenders.values():
        contender.end()
    return timing.summaries(times)


def measure(cases: list[str], words: dict[str, Any], against: Path | None, peers: str | None) -> list[dict[str, Any]]:
    """One row for each case and contender; a case's contenders run at the same time, in turns."""
    rows = []
    for title, case in CASES.items():
        if case not in cases:
            continue
        builds = {"this build": ROOT / "src"} | ({} if against is None else {"the other build": against})
        contenders = {
            name: Contender(sys.executable, source, {**words, "case": case}) for name, source in builds.items()
        }
        for name, peer in PEERS.items() if peers else ():
            if ("files" in peer) == (case == "of_dataset"):
                contenders[name] = Contender(str(peers), ROOT / "src", {**words, "case": peer})
        rows += [{"case": title, "contender": name, **found} for name, found in in_turns(contenders).items()]
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    body = [
        [r["case"], r["contender"], f"{r['median_ms']:.2f}", f"{r['low_ms']:.2f} to {r['high_ms']:.2f}"] for r in rows
    ]
    return report.table(["case", "contender", "CPU ms", "middle half"], body)


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--against", type=Path, help="folder src of another checkout")
    parser.add_argument("--peers", help="Python of an environment with other libraries")
    parser.add_argument("--cases", nargs="+", choices=CASES.values(), default=[*CASES.values()])
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    args = parser.parse_args()
    timing.keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        dataset, bank = open_dataset(args.dataset, images_dir=args.images), Path(name) / "bank"
        build_bank(dataset, bank, class_names=dataset.class_names)
        words = {"dataset": str(args.dataset), "images": args.images and str(args.images), "bank": str(bank)}
        rows = measure(args.cases, words, args.against, args.peers)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine([]), "one_sample": rows}
    report.publish("One sample in a loader worker", markdown(rows), results, args.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        serve(json.loads(sys.argv[2]))
    else:
        main()
