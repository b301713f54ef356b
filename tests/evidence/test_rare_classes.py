"""Every arm takes two steps, tuning chooses what it should, and the page says what the runs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from evidence.protocol import Choice, Protocol, choices
from evidence.rare_classes import page
from evidence.rare_classes.__main__ import NAME, validation_score
from evidence.rare_classes.arms import ARMS, PLACEBO, batches, class_weights, repeat_factors
from evidence.rare_classes.runs import train
from evidence.runs import Run, RunFolder
from evidence.scenes import NUM_CLASSES, class_maps, held_out_set, instance_counts, training_set

from evidence import pages

PROTOCOL = Protocol.load(NAME)
SMALL = {
    "steps": 2,
    "batch_size": 2,
    "widths": [4, 4],
    "num_scenes": 10,
    "num_validation": 2,
    "num_test": 3,
    "fewest": 1,
}


def small_settings(arm: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a run of two steps."""
    strengths = PROTOCOL.strengths[arm]
    return {
        **PROTOCOL.run_settings(arm, 1, 1e-3, strengths[-1] if strengths else None),
        **SMALL,
        "ratio": 2.0,
        **changes,
    }


@pytest.fixture(scope="module")
def scenes() -> Any:
    return training_set(1, 10, 2.0, 1)


class TestTraining:
    @pytest.mark.parametrize("arm", list(ARMS))
    def test_two_steps(self, arm: str) -> None:
        found = train(small_settings(arm))
        assert [point["step"] for point in found["curve"]] == [1, 2]
        assert found["validation"] == found["curve"][-1]["ious"]
        for part in ("validation", "test", "natural_test"):
            assert len(found[part]) == NUM_CLASSES + 1
            assert all(0 <= value <= 1 for value in found[part])
        assert found["cpu_seconds"] > 0

    def test_same_result_each_time(self) -> None:
        first, second = (train(small_settings("bank_uniform")) for _ in range(2))
        assert first["test"] == second["test"]
        assert [point["loss"] for point in first["curve"]] == [point["loss"] for point in second["curve"]]


class TestArms:
    def test_all_are_in_the_protocol(self) -> None:
        assert list(PROTOCOL.strengths) == list(ARMS) == list(page.NAMES)

    def test_same_images_but_for_the_pastes(self, scenes: Any) -> None:
        plain = next(iter(batches(small_settings("none"), *scenes)))
        pasted = next(iter(batches(small_settings("bank_uniform", strength=1.0), *scenes)))
        kept = (plain.images == pasted.images).all(1).float().mean()
        assert 0.5 < kept < 1
        assert int(pasted.instance_valid.sum()) > int(plain.instance_valid.sum())

    def test_placebo_has_the_shapes_and_no_new_objects(self, scenes: Any) -> None:
        plain, pasted, placebo = (
            next(iter(batches(small_settings(arm, strength=1.0), *scenes)))
            for arm in ("none", "bank_uniform", "placebo")
        )
        is_placebo = (placebo.labels == PLACEBO) & placebo.instance_valid
        assert is_placebo.any()
        new = pasted.instance_masks[pasted.instance_valid & ~torch.isin(pasted.labels, torch.tensor([PLACEBO]))]
        shapes = placebo.instance_masks[is_placebo].flatten(1)
        assert all((new.flatten(1) == shape).all(1).any() for shape in shapes)
        before, after = class_maps(plain.semantic_maps), class_maps(placebo.semantic_maps)
        changed = before != after
        assert changed.any()
        assert (after[changed] == 0).all()

    def test_repeat_factors(self, scenes: Any) -> None:
        samples = scenes[1]
        factors = repeat_factors(samples, 1.0)
        shows = torch.stack([sample.labels.bincount(minlength=NUM_CLASSES) > 0 for sample in samples]).float()
        rarest = int(shows.mean(0).argmin())
        assert factors[shows[:, rarest] > 0].tolist() == pytest.approx(
            [float(shows.mean(0)[rarest] ** -0.5)] * int(shows[:, rarest].sum())
        )
        assert (factors >= 1).all()

    def test_class_weights(self, scenes: Any) -> None:
        counts = instance_counts(scenes[1])
        weights = class_weights(small_settings("weighted_loss", strength=1.0), scenes[1])
        assert weights is not None
        assert weights[0] == 1
        assert (weights[1:] * counts).tolist() == pytest.approx([float(counts.max())] * NUM_CLASSES)
        assert class_weights(small_settings("none"), scenes[1]) is None


def test_scenes_of_training_and_test_differ() -> None:
    images, maps = held_out_set("test", 3)
    assert images.shape == (3, 3, 48, 64)
    assert set(maps.unique().tolist()) <= {*range(NUM_CLASSES + 1), 255}
    samples = training_set(1, 10, 2.0, 1)[1]
    assert not any(torch.equal(image, sample.image) for image in images for sample in samples)


def fake_found(tail: float, head: float) -> dict[str, Any]:
    """Return what a run would find."""
    ious = [0.9, head, head, head, tail, tail, tail]
    curve = [{"step": step, "loss": 0.5, "ious": [value * step / 8 for value in ious]} for step in range(1, 9)]
    parts = {"validation": ious, "test": ious, "natural_test": ious}
    return {"instances": [100, 50, 20, 10, 9, 8], "cpu_seconds": 10.0, "curve": curve, **parts}


def filled(folder: RunFolder, ours: tuple[float, float], theirs: tuple[float, float]) -> None:
    """Write all runs of the protocol: ours and the others with these IoUs of tail and head, less at high rates."""

    def value(settings: dict[str, Any]) -> dict[str, Any]:
        tail, head = ours if settings["arm"] == PROTOCOL.ours else theirs
        noise = settings["seed"] % 10 / 1000 * (1 if settings["arm"] == PROTOCOL.ours else 2)
        found = fake_found(tail + noise, head + noise)
        found["cpu_seconds"] = settings["steps"] * (0.02 if settings["arm"] == PROTOCOL.ours else 0.01)
        if settings["lr"] != PROTOCOL.learning_rates[0]:
            found["validation"] = [0.0] * 7
        return found

    def write(wanted: list[dict[str, Any]]) -> None:
        runs = [*folder, *(Run(settings, value(settings), {"cpu": "none"}) for settings in folder.missing(wanted))]
        folder.folder.mkdir(exist_ok=True)
        (folder.folder / folder.gathered).write_text("".join(json.dumps(run._asdict()) + "\n" for run in runs))

    lr = PROTOCOL.learning_rates[0]
    write([trial for arm in PROTOCOL.strengths for trial in PROTOCOL.trials(arm) + PROTOCOL.trials(arm, lr)])
    chosen = choices(PROTOCOL, folder, validation_score)
    write(PROTOCOL.compared(chosen) + PROTOCOL.longer_runs(chosen))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ((0.6, 0.8), (0.3, 0.8), ["class-uniform is better than", "**keeps** the head"]),
        ((0.6, 0.5), (0.3, 0.8), ["class-uniform is better than", "**loses** more than 2 points of the head"]),
        ((0.2, 0.8), (0.3, 0.8), ["class-uniform is worse than", "**keeps** the head"]),
        ((0.305, 0.8), (0.3, 0.8), ["undecided between bank, class-uniform and"]),
    ],
)
def test_page_says_what_the_runs_say(
    ours: tuple[float, float],
    theirs: tuple[float, float],
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = RunFolder(tmp_path / "runs")
    filled(folder, ours, theirs)
    text = page.write(PROTOCOL, folder, validation_score, tmp_path / "docs").read_text()
    for sentence in said:
        assert sentence in text
    assert f"{2 * PROTOCOL.settings['steps']} steps" in text
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {
        f"{NAME}.md",
        f"{NAME}-runs.png",
        f"{NAME}-curves.png",
    }


def test_page_names_arms_whose_runs_failed() -> None:
    (line,) = page.failures_said({"steady": {1: 0.7, 2: 0.65, 3: 0.72}, "unsteady": {1: 0.7, 2: 0.71, 3: 0.4}})
    assert "*unsteady* (lowest 0.40, median 0.700)" in line
    assert "*steady*" not in line
    assert page.failures_said({"steady": {1: 0.7, 2: 0.65}}) == []


def test_page_counts_arms_at_the_edge_of_the_rates() -> None:
    low, high = min(PROTOCOL.learning_rates), max(PROTOCOL.learning_rates)
    of_arm = {"a": (low, True), "b": (high, True), "c": (0.01, False)}
    chosen = {arm: Choice(rate, None, is_edge, cpu_seconds=1.0) for arm, (rate, is_edge) in of_arm.items()}
    (line,) = pages.edges_said(chosen)
    assert line == f"For 2 of 3 arms the best learning rate was the lowest or highest tried, {low:g} or {high:g}."
    assert pages.edges_said({"c": chosen["c"]}) == []


@pytest.mark.parametrize(
    ("ours", "others", "is_gain", "said"),
    [
        (
            "middle",
            {"none": "high", "placebo": "high"},
            True,
            "of all other arms was the highest tried, 0.03: a higher",
        ),
        ("middle", {"none": "high", "placebo": "high"}, True, "may narrow this gain."),
        ("middle", {"none": "high", "placebo": "high"}, False, "may change this difference."),
        ("high", {"none": "high", "placebo": "high"}, True, "may change this difference."),
        ("low", {"none": "high", "placebo": "low"}, True, "The best learning rate of *no paste* was"),
        ("middle", {"none": "low", "placebo": "middle"}, True, ""),
    ],
)
def test_page_says_where_higher_rates_may_help(ours: str, others: dict[str, str], is_gain: bool, said: str) -> None:
    rates = dict(zip(("low", "middle", "high"), sorted(PROTOCOL.learning_rates), strict=True))
    of_arm = {arm: rates[name] for arm, name in {**others, PROTOCOL.ours: ours}.items()}
    chosen = {arm: Choice(rate, None, rate != rates["middle"], cpu_seconds=1.0) for arm, rate in of_arm.items()}
    text = page.rates_said(PROTOCOL, chosen, is_gain=is_gain)
    assert said in text
    assert bool(said) == bool(text)


def test_page_of_missing_runs(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="run the program"):
        page.write(PROTOCOL, RunFolder(tmp_path), validation_score, tmp_path)


class TestTuning:
    def test_strength_is_tried_at_the_best_rate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evidence.runs.write_whole", lambda path, content: path.write_bytes(content))  # no fsync
        monkeypatch.setattr("evidence.runs.machine", lambda: {"cpu": "none"})
        folder, best = RunFolder(tmp_path), PROTOCOL.learning_rates[1]
        for arm in PROTOCOL.strengths:
            for trial in PROTOCOL.trials(arm):
                folder.write(trial, fake_found(0.1, 0.5 if trial["lr"] == best else 0.4))
            for trial in PROTOCOL.trials(arm, best):
                folder.write(trial, fake_found(0.1, 0.6))
        found = choices(PROTOCOL, folder, validation_score)
        expected = 10.0 / PROTOCOL.settings["steps"]
        assert found["none"] == Choice(
            best, None, best in (min(PROTOCOL.learning_rates), max(PROTOCOL.learning_rates)), expected
        )
        assert found["bank_uniform"].lr == best
        assert found["bank_uniform"].strength == PROTOCOL.strengths["bank_uniform"][1]

    def test_no_seed_is_seen_before(self) -> None:
        assert not set(PROTOCOL.seeds) & set(PROTOCOL.tuning_seeds)
        assert len(set(PROTOCOL.seeds)) == 10
