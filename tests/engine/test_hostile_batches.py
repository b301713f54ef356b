"""The program of hostile batches: 300 of its batches on every run of the tests; and it reports faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from script_modules import SCRIPTS, script
from segpaste import BatchCopyPaste, BatchCopyPasteConfig

NUM = 300


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("hostile_batches")


@pytest.fixture(scope="module")
def given(program: ModuleType) -> list[Any]:
    return [program.hostile_inputs(seed) for seed in range(NUM)]


def test_nothing_is_wrong(program: ModuleType) -> None:
    found = list(program.run(range(NUM), "native"))
    assert [seed for seed, _, _ in found] == list(range(NUM))
    assert {seed: wrong for seed, _, wrong in found if wrong} == {}
    assert sum(placed for _, placed, _ in found) > 0.8 * NUM


def test_the_reference_says_the_same(program: ModuleType) -> None:
    found = list(program.run(range(1000, 1030), "reference"))
    assert {seed: wrong for seed, _, wrong in found if wrong} == {}
    assert sum(placed for _, placed, _ in found) > 10


def test_the_batches_go_where_trouble_is(program: ModuleType, given: list[Any]) -> None:
    """Some of the batches hold each hard case that they are drawn for; a seed gives the same batch again."""
    batches = [inputs.batch for inputs in given]
    cameras = [batch.camera_intrinsics for batch in batches if batch.camera_intrinsics is not None]
    reached = {
        "no image": sum(not batch.batch_size for batch in batches),
        "no slot": sum(not batch.max_instances for batch in batches),
        "one pixel": sum(batch.canvas_size == (1, 1) for batch in batches),
        "a wild camera": sum(not (camera.isfinite() & (camera > 0))[:, :2].all() for camera in cameras),
        "another layout": sum(not batch.images.is_contiguous() for batch in batches),
        "channels last": sum(
            not b.images.is_contiguous() and b.images.is_contiguous(memory_format=torch.channels_last) for b in batches
        ),
        "large ids": sum(b.instance_ids is not None and bool((b.instance_ids > 2**30).any()) for b in batches),
        "negative labels": sum(bool((batch.labels < 0).any()) for batch in batches),
        "padding": sum(batch.padding_mask is not None for batch in batches),
        "boxes for masks": sum(inputs.config.source.mask_from is not None for inputs in given),
        "metric depth": sum(batch.metric_depth for batch in batches),
        "in place": sum(inputs.inplace for inputs in given),
        "harmonised": sum(inputs.config.harmonize.is_active for inputs in given),
        "ClassMix": sum(inputs.config.emit_classmix for inputs in given),
        "crops": sum(inputs.staged is not None for inputs in given),
        "guarded": sum(inputs.config.max_hidden_frac < 1 for inputs in given),
        "patches": sum(inputs.config.placement.patch_aligned_paste for inputs in given),
        "objects": sum(inputs.config.placement.grouping == "instance" for inputs in given),
        "keypoints": sum(batch.keypoints is not None for batch in batches),
        "keypoints of crops": sum(i.staged is not None and i.staged.keypoints is not None for i in given),
        "crowds": sum(batch.crowd_mask is not None and bool(batch.crowd_mask.any()) for batch in batches),
        "priorities": sum(bool(i.config.panoptic and i.config.panoptic.contact_priority) for i in given),
    }
    assert {what: num for what, num in reached.items() if num < 5} == {}
    again = program.hostile_inputs(7)
    assert torch.equal(again.batch.images, batches[7].images)
    assert again.config == given[7].config


def test_every_value_of_every_option_is_drawn(program: ModuleType, given: list[Any]) -> None:
    options = script("hostile_options")
    counts = options.empty_counts()
    for inputs in given:
        options.add(counts, inputs.config)
    assert options.unused(counts) == []
    record = program.Record.opened(None, [], 0, NUM)
    for seed, inputs in enumerate(given):
        record.add(seed, 1, [], inputs)
    assert record.missing() == []


def test_an_option_that_is_never_drawn_is_told(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is that of the config models."""

    class Newer(BatchCopyPasteConfig):
        brightness: float = 0.0
        noise: bool = False

    monkeypatch.setattr(script("hostile_options"), "BatchCopyPasteConfig", Newer)
    record = program.Record.opened(None, [], 0, 1)
    assert {"brightness=other", "noise=true", "placement.layers=other"} <= set(record.missing())


def test_a_record_is_resumed(program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the same as one in a single run; few batches do not use every option."""
    files = [tmp_path / name for name in ("whole.json", "parts.json")]
    command = ["--num", "8", "--seed", "300", "--record"]
    assert program.main([*command, str(files[0])]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("no batch that pasted something used emit_")
    for num_left in range(7, 0, -1):
        assert program.main([*command, str(files[1]), "--seconds", "0"]) == 3
        assert f"\n{num_left} batches are missing" in capsys.readouterr().out
    assert program.main([*command, str(files[1]), "--seconds", "0"]) == 1
    whole, parts = (json.loads(file.read_text()) | {"seconds": 0} for file in files)
    assert whole == parts
    assert whole["num_done"] == 8 > whole["num_pasted"] > 0
    assert program.main([*command[:2], "--record", str(files[0])]) == 2
    assert "expected a record with command" in capsys.readouterr().err


def test_a_failure_is_told_with_its_seed(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forward = BatchCopyPaste.forward

    def careless(self: BatchCopyPaste, *arguments: Any, **options: Any) -> Any:
        out, report = forward(self, *arguments, **options)
        if out.depth is None or not out.depth.numel():
            return out, report
        return out.derived(depth=out.depth.index_fill(3, torch.tensor([0]), float("nan"))), report

    monkeypatch.setattr(BatchCopyPaste, "forward", careless)
    assert program.main(["--num", "12", "--seed", "300"]) == 1
    lines = capsys.readouterr().out
    assert "depth: a value that is not finite" in lines
    assert "; seeds 30" in lines.splitlines()[-1]


def test_backends_that_differ_are_told(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pasted = program._pasted

    def other(inputs: Any, backend: str) -> Any:
        out, report = pasted(inputs, "native")
        return (out, report) if backend == "native" else (out.derived(labels=out.labels + 1), report)

    monkeypatch.setattr(program, "_pasted", other)
    found = list(program.run(range(4), "reference"))
    assert any("labels: reference differs from native" in wrong for _, _, wrong in found)


def test_too_few_pastes_are_told(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Which batches paste something follows from the options that are drawn, so a run says it first."""
    placed = [placed for _, placed, _ in program.run(range(300, 312), "native")]
    num_pasted = sum(map(bool, placed))
    assert 0 < num_pasted < len(placed)
    command = ["--num", str(len(placed)), "--seed", "300", "--pasted"]
    assert program.main([*command, str(num_pasted)]) == 0
    assert program.main([*command, str(num_pasted + 1)]) == 1
    expected = f"expected at least {num_pasted + 1} batches that paste something, got {num_pasted}"
    assert capsys.readouterr().out.splitlines()[-1] == expected
    without = str(300 + placed.index(0))
    assert program.main(["--num", "2", "--seed", without, "--pasted", "1", "--seconds", "0"]) == 1


def test_nothing_wrong_is_told(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--num", "2"]) == 0
    assert capsys.readouterr().out.startswith("2 batches, ")


def test_from_the_command_line() -> None:
    """In a process of its own, so that Triton is interpreted where there is no GPU."""
    batches = ["--num", "4", "--seed", "308", "--backend", "reference", "triton"]
    command = [sys.executable, SCRIPTS / "hostile_batches.py", *batches]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("4 batches, 5 pastes, ")
