"""Every arm that is installed takes two steps with two workers, and the page says what the repeats say."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from evidence.runs import RunFolder
from evidence.throughput import page
from evidence.throughput.__main__ import wanted
from evidence.throughput.arms import Loading
from evidence.throughput.measuring import Bench

from segpaste.tuning.statistics import Interval, median_interval

SMALL = {
    "side": 64,
    "batch_size": 2,
    "workers": 2,
    "threads": 1,
    "num_images": 4,
    "num_objects": [2, 3],
    "pasted": 2,
    "warm_up": 1,
    "steps": 2,
    "arms": [name for name in page.NAMES if name != "segpaste_compiled"],
}
SPEEDS = {"none": 10.0, "none_again": 10.0, "segpaste_sample": 8.0, "segpaste_step": 12.0, "ultralytics": 10.0}


@pytest.fixture
def bench() -> Iterator[Bench]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    made = [Bench(SMALL)]
    yield made[0]
    made.clear()
    gc.collect()  # ends the workers
    torch.set_num_threads(threads)


def test_every_arm_takes_two_steps(bench: Bench) -> None:
    found = bench.repeat(1)
    assert {"none", "segpaste_sample", "segpaste_batch", "segpaste_step", "torchvision"} <= set(found["arms"])
    assert set(found["arms"]) | set(found["skipped"]) == set(SMALL["arms"])
    for turn in found["arms"].values():
        assert turn["images_per_second"] > 0
        assert 0 <= turn["wait_share"] <= 1
        assert turn["step_cpu_ms"] > turn["paste_cpu_ms"] >= 0


def test_arms_paste(bench: Bench) -> None:
    loading = Loading.of(SMALL)
    torch.manual_seed(1)
    samples = [loading.jitter(loading.images[i], i) for i in range(2)]
    before = loading.collate(samples)
    for name, arm in bench.arms.items():
        own = samples if arm.per_sample is None else [arm.per_sample(sample) for sample in samples]
        batch = loading.collate(own)
        for paste in (arm.per_batch, arm.in_step):
            batch = batch if paste is None else paste(batch)
        is_same = torch.equal(batch.images, before.images)
        assert is_same == (name in ("none", "none_again")), name


def test_workers_end_with_the_bench() -> None:
    made = [Bench({**SMALL, "arms": ["none"]})]
    made[0].repeat(1)
    assert len(made[0].feeds["none"].pids) == 2
    pids = set(made[0].feeds["none"].pids)
    made.clear()
    gc.collect()
    assert not pids & {process.pid for process in multiprocessing.active_children()}


def test_median_interval() -> None:
    found = median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found.mean == 3.0
    assert 1.0 <= found.low < 3.0 < found.high <= 100.0
    assert median_interval([2.0]) == Interval(2.0, 2.0, 2.0)


def fake_repeats(folder: RunFolder, settings: list[dict[str, Any]]) -> None:
    """Write repeats in which the arms have these speeds."""
    for one in settings:
        noise = 1 + 0.01 * (one["repeat"] % 3 - 1)
        turns = {
            name: {
                "images_per_second": speed * (noise if name != "none" else 1),
                "wait_share": 0.1,
                "step_cpu_ms": 50.0,
                "paste_cpu_ms": 1.0,
                "worker_cpu_ms": 4.0,
            }
            for name, speed in SPEEDS.items()
        }
        skipped = {"albumentationsx": "not installed: albumentations"}
        folder.write(one, {"arms": turns, "skipped": skipped, "versions": {"torchvision": "0"}, "load": 3.0})


def test_page_says_what_the_repeats_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.runs.machine", lambda: {"cpu": "none"})
    folder = RunFolder(tmp_path / "runs")
    settings = wanted({"settings": SMALL, "repeats": [1, 2, 3, 4, 5, 6]})
    with pytest.raises(LookupError, match="expected 6 repeats"):
        page.write(folder, settings, tmp_path / "docs")
    fake_repeats(folder, settings)
    text = page.write(folder, settings, tmp_path / "docs").read_text()
    assert "*segpaste, sample in a worker* is **slower** than no paste: 0.80" in text
    assert "*Ultralytics, in a worker* is **not significantly different** from no paste" in text
    assert "*segpaste, in the step* is **faster** than no paste, which can only be noise" in text
    assert "*AlbumentationsX, in a worker* is left out: not installed: albumentations." in text
    assert "| 500 |" in text
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"throughput.md", "throughput-runs.png"}
