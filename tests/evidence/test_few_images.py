"""Targets and decoding of instances agree, average precision is that of pycocotools, and every arm takes two steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from evidence.few_images import page, photos
from evidence.few_images import runs as of_runs
from evidence.few_images.__main__ import NAME, validation_score
from evidence.few_images.instances import Found, average_precision, decoded, loss_of, targets_of
from evidence.few_images.runs import METHODS, batches, train
from evidence.protocol import Protocol, choices
from evidence.runs import Run, RunFolder
from torch import Tensor

from segpaste.datasets.scenes import SceneConfig, scene_batch
from segpaste.types import IGNORE_INDEX

SMALL = {
    "seed": 1,
    "photos": 4,
    "lr": 1e-3,
    "steps": 2,
    "batch_size": 2,
    "widths": [4, 4],
    "objects": 3,
    "paste_prob": 1.0,
    "scale_range": [0.8, 1.25],
    "max_attempts": 4,
}


def perfect_outputs(batch: Any) -> Tensor:
    """Return the outputs of a model that knows the targets."""
    maps, centers, offsets, _ = targets_of(batch)
    classes = torch.nn.functional.one_hot(maps, 7).permute(0, 3, 1, 2) * 20.0
    heat = torch.logit(centers.clamp(1e-4, 1 - 1e-4))
    return torch.cat([classes, heat[:, None], offsets], 1)


def objects_of(batch: Any, b: int) -> Found:
    """Return the true objects of an image."""
    valid = batch.instance_valid[b]
    masks = batch.instance_masks[b][valid].as_subclass(Tensor)
    return Found(masks, batch.labels[b][valid], torch.ones(len(masks)))


class TestInstances:
    def test_perfect_outputs_give_the_objects(self) -> None:
        batch = scene_batch(3, 12, SceneConfig(height=96, width=128, num_objects_range=(3, 4), num_classes=6))
        outputs = perfect_outputs(batch)
        truth = [objects_of(batch, b) for b in range(3)]
        found = [decoded(output) for output in outputs]
        assert average_precision(truth, found, 6)["ap50"] > 0.85  # centres may be close to one another
        assert loss_of(outputs, batch) < 0.01
        assert loss_of(torch.zeros_like(outputs), batch) > 1

    def test_average_precision_of_the_truth_and_of_nothing(self) -> None:
        batch = scene_batch(2, 12, SceneConfig(height=48, width=64, num_classes=6))
        truth = [objects_of(batch, b) for b in range(2)]
        assert average_precision(truth, truth, 6) == {"ap": 1.0, "ap50": 1.0}
        nothing = [Found(found.masks[:0], found.labels[:0], found.scores[:0]) for found in truth]
        assert average_precision(truth, nothing, 6) == {"ap": 0.0, "ap50": 0.0}

    def test_padding_is_ignored(self) -> None:
        batch = scene_batch(1, 12, SceneConfig(height=48, width=64))
        padded = torch.zeros(1, 1, 48, 64, dtype=torch.bool)
        padded[..., 40:, :] = True
        maps, _, _, known = targets_of(batch.derived(padding_mask=padded))
        assert (maps[:, 40:] == IGNORE_INDEX).all()
        assert not known[:, 40:].any()
        assert known[:, :40].all()

    def test_no_peak_is_no_object(self) -> None:
        output = torch.full((10, 16, 16), -20.0)
        assert len(decoded(output).masks) == 0


class TestArms:
    @pytest.fixture(autouse=True)
    def data(self, test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEGPASTE_TEST_DATA", str(test_data))

    @pytest.mark.parametrize("method", [name for name in METHODS if name != "albumentationsx"])
    def test_two_steps(self, method: str) -> None:
        found = train({**SMALL, "method": method})
        assert [point["step"] for point in found["curve"]] == [1, 2]
        for part in ("validation", "test", "training"):
            assert set(found[part]) == {"ap", "ap50"}
            assert all(0 <= value <= 1 for value in found[part].values())

    def test_splits(self) -> None:
        parts = photos.split(1, 8)
        assert [len(part) for part in parts] == [8, 3, 7]
        assert len({id(sample) for part in parts for sample in part}) == 18
        fewer = photos.split(1, 4)
        assert [id(sample) for sample in fewer[0]] == [id(sample) for sample in parts[0][:4]]
        assert [id(sample) for sample in fewer[2]] == [id(sample) for sample in parts[2]]
        assert [id(sample) for sample in photos.split(2, 4)[1]] == [id(sample) for sample in parts[1]]
        with pytest.raises(ValueError, match="at most 8"):
            photos.split(1, 9)

    def test_peer_gets_the_donors_of_the_bank(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given: dict[str, list[Tensor]] = {}

        def paste(settings: dict[str, Any]) -> Any:
            def call(batch: Any, *, staged: Any) -> Any:
                given.setdefault(settings["method"], []).append(staged.crop_idx)
                return batch

            return call

        monkeypatch.setattr(of_runs, "_paste", paste)
        samples = photos.split(1, 4)[0]
        for method in ("bank", "albumentationsx"):
            assert len(list(batches({**SMALL, "method": method}, samples))) == 2
        assert all(map(torch.equal, given["bank"], given["albumentationsx"]))
        assert given["bank"][0].shape == (2, 3)
        assert "albumentations" not in sys.modules


def fake_runs(wanted: list[dict[str, Any]], ours: float, theirs: float) -> list[Run]:
    """Return runs of these settings, in which arms with a bank have one AP and the others another."""
    runs = []
    for settings in wanted:
        noise = settings["seed"] % 10 / 1000
        value = ours + noise if settings["method"] == "bank" else theirs + 0.009 - noise
        points = [{"step": step, "loss": 0.5, "validation": {"ap": value, "ap50": value}} for step in range(1, 9)]
        scores = {part: {"ap": value, "ap50": value} for part in ("validation", "test", "training")}
        seconds = settings["steps"] * (0.2 if settings["method"] == "bank" else 0.1)
        runs.append(Run(settings, {"curve": points, "cpu_seconds": seconds, **scores}, {"cpu": "none"}))
    return runs


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [(0.5, 0.3, "is better than"), (0.3, 0.5, "is worse than"), (0.3, 0.3, "undecided between")],
)
def test_page_says_what_the_runs_say(ours: float, theirs: float, said: str, tmp_path: Path) -> None:
    protocol, folder = Protocol.load(NAME), RunFolder(tmp_path)
    runs: list[Run] = []

    def add(wanted: list[dict[str, Any]]) -> None:
        runs.extend(fake_runs(folder.missing(wanted), ours, theirs))
        (tmp_path / folder.gathered).write_text("".join(json.dumps(run._asdict()) + "\n" for run in runs))

    add([trial for arm in protocol.strengths for trial in protocol.trials(arm)])
    chosen = choices(protocol, folder, validation_score)
    add(protocol.compared(chosen) + protocol.longer_runs(chosen))
    text = page.write(protocol, folder, validation_score, tmp_path / "docs").read_text()
    assert f"Mask AP: **{'' if 'undecided' in said else 'segpaste, bank, 4 photos '}{said}" in text
    assert f"no paste, 4 photos, {2 * protocol.settings['steps']} steps" in text
    assert {path.suffix for path in (tmp_path / "docs").iterdir()} == {".md", ".png"}
