"""Every arm takes two steps, pastes are what the arms say, and the page says what the runs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.plots import write_text
from evidence.protocol import Protocol, choices
from evidence.runs import Run, RunFolder
from evidence.scenes import NUM_CLASSES, held_out_samples, held_out_set, training_set
from evidence.what_helps import page
from evidence.what_helps.__main__ import NAME, validation_score
from evidence.what_helps.options import AGAINST, COUNTS, FURTHER, NAMES, SHARES, Picked, pick
from evidence.what_helps.pastes import batches
from evidence.what_helps.runs import train
from evidence.what_helps.tasks import TASKS, edges, object_map, token_maps
from evidence.what_helps.transformer import PATCH
from PIL import Image, ImageDraw
from torch import Tensor

PROTOCOL = Protocol.load(NAME)
SMALL = {
    "steps": 2,
    "batch_size": 2,
    "widths": [4, 4],
    "tokens": [8, 2, 1],
    "num_scenes": 10,
    "ratio": 2.0,
    "fewest": 1,
    "num_validation": 2,
    "num_test": 3,
}


def small_settings(arm: str, **paste: Any) -> dict[str, Any]:
    """Return the settings of a run of two steps."""
    settings = {**PROTOCOL.run_settings(arm, 1, 1e-3, None), **SMALL}
    return {**settings, "paste": {**settings["paste"], **paste}}


def first_batch(arm: str, **paste: Any) -> Any:
    """Return the first batch of a run."""
    settings = small_settings(arm, **paste)
    sets = training_set(1, 10, 2.0, 1, with_depth=settings["task"] == "depth")
    return next(iter(batches(settings, *sets)))


class TestArms:
    @pytest.mark.parametrize("arm", list(NAMES))
    def test_two_steps(self, arm: str) -> None:
        found = train(small_settings(arm))
        assert [point["step"] for point in found["curve"]] == [1, 2]
        assert found["validation"]["score"] == found["curve"][-1]["score"]
        for part in ("validation", "test"):
            assert len(found[part]["ious"]) == NUM_CLASSES + 1
            assert found[part]["score"] <= 1

    def test_same_result_each_time(self) -> None:
        first, second = (train(small_settings("depth_front")) for _ in range(2))
        assert first["test"] == second["test"]

    def test_all_are_in_the_protocol(self) -> None:
        assert list(PROTOCOL.strengths) == list(PROTOCOL.of_arm) == list(NAMES)
        compared = AGAINST.keys() | FURTHER.keys()
        assert compared | {"none", "default", "depth_none", "tokens_none"} == set(NAMES)
        for arm, other in {**AGAINST, **FURTHER}.items():
            ours, theirs = (PROTOCOL.of_arm[name] for name in (arm, other))
            assert ours["task"] == theirs["task"]
            changed = {
                key for key in ours["paste"] | theirs["paste"] if ours["paste"].get(key) != theirs["paste"].get(key)
            }
            assert len(changed) == 1 or changed == {"paste_prob", "depth"}
        assert set(TASKS) == set(page.TASKS) == {own["task"] for own in PROTOCOL.of_arm.values()}

    def test_no_seed_is_seen_before(self) -> None:
        assert not set(PROTOCOL.seeds) & set(PROTOCOL.tuning_seeds)
        assert len(set(PROTOCOL.seeds)) == 10


class TestPastes:
    def test_values_are_those_of_the_arms(self) -> None:
        for values, name in ((SHARES, "paste_prob"), (COUNTS, "objects")):
            assert {value: PROTOCOL.of_arm[arm]["paste"][name] for value, arm in values.items()} == {
                value: value for value in values
            }

    def test_images_are_the_same_but_for_the_pastes(self) -> None:
        plain, pasted = first_batch("none"), first_batch("share_100")
        kept = (plain.images == pasted.images).all(1).float().mean()
        assert 0.3 < kept < 1

    def test_in_front_hides_and_depth_aware_does_not(self) -> None:
        plain, front, aware = (
            first_batch(arm, paste_prob=p) for arm, p in (("depth_none", 0), ("depth_front", 1.0), ("depth_aware", 1.0))
        )
        assert front.images.shape[1] == 3
        assert front.depth_valid.dtype == torch.bool
        both = plain.depth_valid & aware.depth_valid
        assert (aware.depth[both] <= plain.depth[both]).all()
        changed = (front.images.round() != plain.images).any(1, keepdim=True) & plain.depth_valid & front.depth_valid
        assert (front.depth[changed] > plain.depth[changed]).any()
        assert (front.depth[~front.depth_valid] == 0).all()
        untouched = (front.images.round() == plain.images).all(1, keepdim=True) & plain.depth_valid & front.depth_valid
        assert (front.depth == plain.depth)[untouched].float().mean() > 0.9

    def test_boxes_of_aligned_pastes_lie_on_patches(self) -> None:
        plain = first_batch("tokens_none")
        is_on_grid = {}
        for arm in ("tokens_free", "tokens_grid"):
            pasted = first_batch(arm, paste_prob=1.0, objects=1)
            new = pasted.boxes[pasted.instance_valid & ~plain.instance_valid]
            assert len(new)
            is_on_grid[arm] = bool((new % PATCH == 0).all())
        assert is_on_grid == {"tokens_free": False, "tokens_grid": True}


class TestMeasures:
    def test_edges(self) -> None:
        objects = torch.zeros(1, 9, 11, dtype=torch.int64)
        objects[0, :, 6:] = 1
        assert edges(objects)[0].any(0).nonzero().flatten().tolist() == [4, 5, 6, 7]

    def test_object_map(self) -> None:
        masks = torch.zeros(2, 3, 3, dtype=torch.bool)
        masks[0, 0], masks[1, 2] = True, True
        assert object_map(masks).tolist() == [[1, 1, 1], [0, 0, 0], [2, 2, 2]]

    def test_token_maps(self) -> None:
        maps = torch.zeros(1, PATCH, 2 * PATCH, dtype=torch.int64)
        maps[0, :5, :PATCH] = 3
        maps[0, :, PATCH:] = 255
        assert token_maps(maps).tolist() == [[[3, 255]]]
        maps[0, 0, PATCH] = 2
        assert token_maps(maps).tolist() == [[[3, 2]]]

    def test_held_out_scenes_with_depth_are_the_same_scenes(self) -> None:
        images, _ = held_out_set("validation", 2)
        for image, sample in zip(images, held_out_samples("validation", 2, with_depth=True), strict=True):
            assert torch.equal(image, sample.image.as_subclass(Tensor))
            assert sample.depth is not None


def scores(**means: float) -> dict[str, dict[int, float]]:
    """Return scores around these means at ten seeds, paired but for a little noise."""
    return {
        arm: {seed: mean + 0.001 * ((seed * (i + 3)) % 5) for seed in range(10)}
        for i, (arm, mean) in enumerate(means.items())
    }


class TestPick:
    def test_smallest_that_is_not_worse(self) -> None:
        flat = scores(none=0.3, share_25=0.5, default=0.5, share_100=0.4)
        assert pick(SHARES, flat).value == 0.25

    def test_best_where_it_stands_alone(self) -> None:
        assert pick(SHARES, scores(none=0.1, share_25=0.2, default=0.3, share_100=0.4)) == Picked(1.0, 1.0)

    def test_nothing_where_nothing_helps(self) -> None:
        assert pick(SHARES, scores(none=0.4, share_25=0.4, default=0.4, share_100=0.2)).value == 0.0


def fake_runs(wanted: list[dict[str, Any]], gains: dict[str, float]) -> list[Run]:
    """Return runs of these settings, in which arms have a score of 0.5 and their gain."""
    runs = []
    for settings in wanted:
        value = 0.5 + gains.get(settings["arm"], 0.0) + (-1) ** settings["seed"] * len(settings["arm"]) / 1000
        figures = {"score": value, "ious": [value] * 7, "edge_error": 1 - value, "error": 0.3}
        points = [{"step": step, "loss": 0.5, **figures} for step in range(1, 9)]
        seconds = settings["steps"] * (0.01 if settings["arm"] == "none" else 0.02)
        runs.append(
            Run(
                settings,
                {"curve": points, "cpu_seconds": seconds, "validation": figures, "test": figures},
                {"cpu": "x"},
            )
        )
    return runs


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        (
            {"none": -0.2, "depth_aware": 0.1, "multiband": -0.1, "share_100": 0.1},
            [
                "**the default is better than no paste**",
                "*depth-aware pastes*: **better** than *pastes in front, depth*",
                "*harmonised, multiband*: **worse** than *default*",
                "*harmonised, reinhard*: **no significant difference** from *default*",
                "These options improve what they should: *depth-aware pastes*.",
                "stay off: *harmonised, reinhard*, *harmonised, multiband*, *cut-off objects included*, *pastes on",
                "`paste_prob` 1; the highest mean is at 1. The library's\n  default is 0.5: set the share that you",
            ],
        ),
        (
            {"default": -0.2, "share_25": -0.2, "share_100": -0.2},
            [
                "**the default is worse than no paste**",
                "`paste_prob` 0; the highest mean is at 0. The answer is not to",
                "default is 0.5: set the share that you train with",
            ],
        ),
        (
            {"none": -0.2, "share_25": -0.2},
            ["`paste_prob` 0.5; the highest mean is at 0.5. The library's\n  default is the same.\n"],
        ),
    ],
)
def test_page_says_what_the_runs_say(gains: dict[str, float], said: list[str], tmp_path: Path) -> None:
    folder, runs = RunFolder(tmp_path), []

    def add(wanted: list[dict[str, Any]]) -> None:
        runs.extend(fake_runs(folder.missing(wanted), gains))
        (tmp_path / folder.gathered).write_text("".join(json.dumps(run._asdict()) + "\n" for run in runs))

    add([trial for arm in PROTOCOL.strengths for trial in PROTOCOL.trials(arm)])
    chosen = choices(PROTOCOL, folder, validation_score)
    add(PROTOCOL.compared(chosen) + PROTOCOL.longer_runs(chosen))
    text = page.write(PROTOCOL, folder, validation_score, tmp_path / "docs").read_text()
    for sentence in said:
        assert sentence in text
    assert f"no paste, {2 * PROTOCOL.settings['steps']} steps" in text
    kinds = ("classes", "depth", "tokens", "curves")
    names = {f"{NAME}-{kind}.png" for kind in kinds}
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {f"{NAME}.md"} | names


def test_signs_that_the_font_lacks_are_written_in_its_letters() -> None:
    """A box instead of a letter stood in a title."""
    title = page.TASKS["depth"], "1 - relative error of depth near edges"
    for text, letters in (title, ("≤ 4 – 5 × é", "<= 4 - 5 x ?")):
        written, expected = (Image.new("RGB", (400, 30)) for _ in range(2))
        assert write_text(ImageDraw.Draw(written), (0, 0), text, (255, 255, 255)) > 20
        write_text(ImageDraw.Draw(expected), (0, 0), letters, (255, 255, 255))
        assert written.tobytes() == expected.tobytes()
