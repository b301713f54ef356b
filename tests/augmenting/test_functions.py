"""`augment_dataset`, `replay_dataset` and `convert_dataset` do what the commands do, with words for Python."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import ConcatDataset, Subset

from kept_scenes import KeptScenes
from on_disk import tree
from samples import assert_same
from segpaste import BatchCopyPasteConfig, DenseSample, augment_dataset, convert_dataset, replay_dataset
from segpaste.augmenting import AugmentError, AugmentSummary, NothingToPasteError, ReplaySummary
from segpaste.augmenting.inputs import of_samples
from segpaste.augmenting.options import option
from segpaste.augmenting.photos import RECORDS
from segpaste.cli import main
from segpaste.datasets import AnnotatedDataset, open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset

NUM, SIDE = 3, 48
OPTIONS: dict[str, Any] = {"seed": 5, "size": SIDE, "gallery": 1, "overrides": {"placement.layers": 2}}
WORDS = ["--num", str(NUM), "--seed", "5", "--size", str(SIDE), "--gallery", "1", "placement.layers=2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small augmented dataset that the command has written."""
    out = tmp_path_factory.mktemp("made") / "out"
    assert main(["augment", "scenes", "--out", str(out), *WORDS]) == 0
    return out


@cache
def rooms(num: int, seed: int) -> KeptScenes:
    config = SceneConfig(height=SIDE, width=SIDE, num_objects_range=(2, 3))
    return KeptScenes(num, config, seed, modalities=("image", "instance"))


class Rooms(AnnotatedDataset):
    """A dataset of Python, of which only samples and class names are known."""

    def __init__(self, num: int = 4, seed: int = 1) -> None:
        self.scenes = rooms(num, seed)
        self.class_names = tuple(self.scenes.config.thing_names)

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: int) -> DenseSample:
        return self.scenes[index]


class Relabelled(Rooms):
    """The same images; one object of one of them has another class."""

    def __getitem__(self, index: int) -> DenseSample:
        sample = super().__getitem__(index)
        labels = sample.labels.clone()
        labels[:1] = (labels[:1] + (index == 2)) % len(self.class_names)
        return replace(sample, labels=labels)


class Drawn(Rooms):
    """A dataset whose images differ whenever they are read."""

    num_read = 0

    def __getitem__(self, index: int) -> DenseSample:
        self.num_read += 1
        sample = super().__getitem__(index)
        return replace(sample, image=type(sample.image)(sample.image + self.num_read))


class Named(Rooms):
    digest = "rooms"


def _concatenated(seed: int) -> Any:
    return ConcatDataset([Rooms(2, seed), Rooms(2, seed + 1)])


OTHERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "images": (Rooms, lambda: Rooms(seed=2)),
    "labels": (Rooms, Relabelled),
    "concatenated": (lambda: _concatenated(1), lambda: _concatenated(5)),
    "selected": (lambda: Subset(Rooms(), [0, 1]), lambda: Subset(Rooms(), [0, 2])),  # type: ignore[type-var]
    "selected of a known one": (lambda: Subset(Named(), [0, 1]), lambda: Subset(Named(), [0, 2])),  # type: ignore[type-var]
    "selected of concatenated": (lambda: Subset(_concatenated(1), [0, 1]), lambda: Subset(_concatenated(5), [0, 1])),
}


class TestEqualToTheCommands:
    def test_augment(self, made: Path, tmp_path: Path) -> None:
        seen: list[tuple[str, int, int]] = []
        summary = augment_dataset("scenes", tmp_path / "out", num=NUM, progress=lambda *at: seen.append(at), **OPTIONS)
        assert tree(tmp_path / "out") == tree(made)
        assert (summary.state, summary.out) == ("made", tmp_path / "out")
        assert (summary.num_images, summary.num_made) == (NUM, NUM)
        assert summary.verified.images == NUM
        assert seen[0] == ("image", 0, NUM)
        assert seen[-1] == ("image", NUM, NUM)

    def test_a_panoptic_dataset_of_python(self, tmp_path: Path) -> None:
        scenes = SceneDataset(4, SceneConfig(height=SIDE, width=SIDE))
        augment_dataset(scenes, tmp_path / "out", num=NUM, gallery=0)
        written = open_dataset(tmp_path / "out")
        assert written.schema is not None
        assert dict(written.schema.classes) == dict(scenes.schema.classes)
        assert written.class_names == scenes.class_names
        remade = replay_dataset(tmp_path / "out", scenes, check=tmp_path / "out")
        assert list(remade.differences.values()) == [[]] * NUM

    def test_replay(self, made: Path, tmp_path: Path) -> None:
        assert main(["replay", str(made), "--dataset", "scenes", "--out", str(tmp_path / "a")]) == 0
        seen: list[tuple[str, int, int]] = []
        summary = replay_dataset(made, "scenes", tmp_path / "b", progress=lambda *at: seen.append(at))
        assert tree(tmp_path / "b") == tree(tmp_path / "a")
        assert (summary.num_images, summary.verified.images, seen[-1]) == (NUM, NUM, ("image", NUM, NUM))

    def test_replay_compares(self, made: Path, tmp_path: Path) -> None:
        assert replay_dataset(made, "scenes", check=made).is_identical
        shutil.copytree(made, tmp_path / "other")
        (tmp_path / "other" / "depth" / "000002.npy").unlink()
        found = replay_dataset(made, "scenes", check=tmp_path / "other")
        assert not found.is_identical
        assert [name for name, words in found.differences.items() if words] == ["000002.png"]

    def test_convert(self, made: Path, tmp_path: Path) -> None:
        assert main(["convert", str(made), "--to", "yolo", "--out", str(tmp_path / "a")]) == 0
        seen: list[tuple[str, int, int]] = []
        convert_dataset(made, tmp_path / "b", "yolo", progress=lambda *at: seen.append(at))
        assert tree(tmp_path / "b") == tree(tmp_path / "a")
        assert seen[-1] == ("image", NUM, NUM)


class TestConfigs:
    def test_of_an_object_its_set_values_count(self, made: Path, tmp_path: Path) -> None:
        given = {**OPTIONS, "overrides": {}, "config": BatchCopyPasteConfig(placement={"layers": 2})}
        augment_dataset("scenes", tmp_path / "out", num=NUM, **given)
        assert (tmp_path / "out" / "replay.jsonl").read_bytes() == (made / "replay.jsonl").read_bytes()

    def test_values_need_no_yaml(self, tmp_path: Path) -> None:
        values = {"placement.scale_range": (0.5, 0.75), "placement": {"layers": 3}, "placement.grouping": "instance"}
        summary = augment_dataset("scenes", tmp_path / "out", num=1, size=SIDE, overrides=values, dry_run=True)
        place = summary.config.placement
        assert (place.scale_range, place.layers, place.grouping) == ((0.5, 0.75), 3, "instance")


class TestStates:
    def test_a_finished_dataset(self, made: Path, tmp_path: Path) -> None:
        before = tree(made)
        summary = augment_dataset("scenes", made, num=NUM, **OPTIONS)
        assert (summary.state, summary.num_images, summary.num_made) == ("there", NUM, 0)
        assert tree(made) == before
        with pytest.raises(AugmentError, match=r"^num: expected 3, .* got 4; .* another num: .* another out$"):
            augment_dataset("scenes", made, num=NUM + 1, **OPTIONS)

    def test_shards(self, made: Path, tmp_path: Path) -> None:
        options = {**OPTIONS, "num": 9, "gallery": 0}
        first = augment_dataset("scenes", tmp_path / "out", shard=(1, 2), **options)
        assert (first.state, first.waiting_for, first.num_made) == ("waiting", "missing: 2", 8)
        assert not (tmp_path / "out").exists()
        assert augment_dataset("scenes", tmp_path / "out", shard=(2, 2), **options).state == "made"

    def test_an_estimate_writes_nothing(self, tmp_path: Path) -> None:
        summary = augment_dataset("scenes", tmp_path / "out", num=100, dry_run=True, size=32)
        assert (summary.state, summary.num_images) == ("estimated", 16)
        assert not list(tmp_path.iterdir())


def _interrupt(kind: str, done: int, num: int) -> None:
    if 0 < done < num:
        raise KeyboardInterrupt


class TestDatasetsOfPython:
    def test_it_is_written_and_remade(self, tmp_path: Path) -> None:
        augment_dataset(Rooms(), tmp_path / "out", num=5, gallery=0)
        written = open_dataset(tmp_path / "out")
        assert len(written) == 5
        assert written.class_names == Rooms().class_names
        assert replay_dataset(tmp_path / "out", Rooms(), check=tmp_path / "out").is_identical
        with pytest.raises(AugmentError, match="give the dataset that was augmented"):
            replay_dataset(tmp_path / "out", Rooms(5), check=tmp_path / "out")

    @pytest.mark.parametrize("name", OTHERS)
    def test_another_one_of_the_same_length_is_refused(self, name: str, tmp_path: Path) -> None:
        first, other = OTHERS[name]
        out, options = tmp_path / "out", {"num": 9, "gallery": 0}
        with pytest.raises(KeyboardInterrupt):
            augment_dataset(first(), out, **options, progress=_interrupt)
        with pytest.raises(AugmentError, match="annotations"):
            augment_dataset(other(), out, **options)
        assert augment_dataset(first(), out, **options).num_made == 1
        assert augment_dataset(first(), out, **options).state == "there"
        with pytest.raises(AugmentError, match="give the dataset that was augmented"):
            replay_dataset(out, other(), check=out)
        assert replay_dataset(out, first(), check=out).is_identical

    @pytest.mark.parametrize("grouping", ["image", "instance"])
    def test_its_samples_stay_as_they_are(self, grouping: str, tmp_path: Path) -> None:
        """Those of a list, for example, are read again and again."""
        dataset = Rooms()
        before = [deepcopy(sample) for sample in dataset]
        augment_dataset(dataset, tmp_path / "out", num=5, gallery=0, overrides={"placement.grouping": grouping})
        assert all(dataset[index] is dataset[index] for index in range(len(dataset)))
        for one, other in zip(before, dataset, strict=True):
            assert_same(one, other)

    def test_one_whose_samples_are_drawn_anew_resumes(self, tmp_path: Path) -> None:
        out, options = tmp_path / "out", {"num": 9, "gallery": 0}
        with pytest.raises(KeyboardInterrupt):
            augment_dataset(Drawn(), out, **options, progress=_interrupt)
        assert augment_dataset(Drawn(), out, **options).num_made == 1

    def test_records_with_the_digest_of_its_facts(self, tmp_path: Path) -> None:
        """Such records say less of the dataset; whoever has them can still replay them."""
        out = tmp_path / "out"
        augment_dataset(Rooms(), out, num=2, gallery=0)
        inputs = of_samples(Rooms())
        records = (out / RECORDS).read_text()
        assert inputs.digest in records
        (out / RECORDS).write_text(records.replace(inputs.digest, inputs.known_as))
        assert replay_dataset(out, Rooms(), check=out).is_identical

    def test_its_own_digest_is_enough(self) -> None:
        inputs = of_samples(Named())
        assert (inputs.digest, inputs.known_as) == ("rooms", "")

    @pytest.mark.parametrize(
        ("dataset", "words"),
        [
            ([], "list: expected at least one sample, got none"),
            ([Rooms()[0]], "list: expected at least one class name"),
        ],
    )
    def test_what_is_missing(self, dataset: Any, words: str, tmp_path: Path) -> None:
        with pytest.raises(AugmentError, match=words):
            augment_dataset(dataset, tmp_path / "out", num=1)

    def test_options_of_files(self, tmp_path: Path) -> None:
        with pytest.raises(AugmentError, match="Rooms: expected no images_dir and no split"):
            augment_dataset(Rooms(), tmp_path / "out", num=1, images_dir=tmp_path, split="val")


BAD: list[tuple[dict[str, Any], str, list[str], str]] = [
    ({"num": 0}, "num: expected an integer of at least 1, got 0", ["--num", "0"], "argument --num: .*at least 1"),
    ({"seed": -1}, "seed: expected an integer from 0 to", ["--seed", "-1"], "argument --seed: .*from 0 to"),
    ({"seed": True}, "seed: expected an integer from 0 to", [], ""),
    ({"size": 31}, "size: expected .*32 to 4096", ["--size", "31"], "argument --size: .*32 to 4096"),
    ({"size": (64, 32)}, "size: expected one side", ["--size", "32x64"], "--size: expected one side.*--size PX"),
    ({"layout": "pdf"}, "layout: expected coco, .*got 'pdf'", ["--layout", "pdf"], "argument --layout: .*'pdf'"),
    ({"engine": "x"}, "engine: expected local, ray, got 'x'", ["--engine", "x"], "argument --engine"),
    ({"shard": (3, 2)}, r"shard: expected \(I, N\)", ["--shard", "3/2"], "argument --shard"),
    (
        {"balance": "natural", "temperature": 0.5},
        "temperature: expected balance='tempered' with this option, got natural",
        ["--balance", "natural", "--temperature", "0.5"],
        "--temperature: expected --balance tempered with this option, got natural",
    ),
    ({"split": "val"}, "scenes: expected no split; leave", ["--split", "val"], "scenes: expected no --split; leave"),
    (
        {"preset": "ultralytics_flip", "bank": "objects"},
        "preset='ultralytics_flip'.*since bank is given",
        ["--preset", "ultralytics_flip", "--bank", "objects"],
        "--preset ultralytics_flip.*since --bank is given",
    ),
    ({"layout": "yolo", "task": "pose"}, "task='pose': .*", ["--layout", "yolo", "--task", "pose"], "--task pose: .*"),
]


class TestRefusals:
    @pytest.mark.parametrize(("given", "words", "argv", "line"), BAD, ids=lambda value: str(value)[:40])
    def test_each_caller_is_told_its_own_options(
        self, given: dict[str, Any], words: str, argv: list[str], line: str, tmp_path: Path, capsys: Any
    ) -> None:
        with pytest.raises(AugmentError, match=words):
            augment_dataset("scenes", tmp_path / "out", **{"num": 1, **given})
        if argv:
            assert main(["augment", "scenes", "--out", str(tmp_path / "out"), "--num", "1", *argv]) == 2
            assert re.search(line, capsys.readouterr().err)
        assert not list(tmp_path.iterdir())
        assert option("num") == "num"  # also after the command

    def test_unreadable_images_and_what_helps(self, made: Path, tmp_path: Path, capsys: Any) -> None:
        shutil.copytree(made, tmp_path / "in")
        (tmp_path / "in" / "images" / "000002.png").write_bytes(b"no image")
        given: dict[str, Any] = {"num": 2, "gallery": 0, "verify": "off"}
        with pytest.raises(AugmentError, match="skip_unreadable=True leaves them out"):
            augment_dataset(tmp_path / "in", tmp_path / "out", **given)
        assert main(["augment", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--num", "2"]) == 2
        assert "--skip-unreadable leaves them out" in capsys.readouterr().err
        summary = augment_dataset(tmp_path / "in", tmp_path / "out", skip_unreadable=True, **given)
        assert [*summary.unreadable] == ["1"]

    def test_nothing_to_paste(self, tmp_path: Path, capsys: Any) -> None:
        with pytest.raises(NothingToPasteError, match=r"more than one image.*\(give source.kind=same_image, bank, or"):
            augment_dataset(Rooms(1), tmp_path / "out", num=1)

    def test_replay_takes_one_of_two(self, made: Path, tmp_path: Path) -> None:
        for given in ({}, {"out": tmp_path / "out", "check": made}):
            with pytest.raises(AugmentError, match="expected out or check, got both or none"):
                replay_dataset(made, "scenes", **given)
        with pytest.raises(AugmentError, match="expected index or image, got both"):
            replay_dataset(made, "scenes", check=made, index=0, image="000001.png")
        with pytest.raises(AugmentError, match=r"^index: expected a number below 3"):
            replay_dataset(made, "scenes", check=made, index=3)


def test_summaries_start_empty() -> None:
    assert not AugmentSummary().has_pastes
    assert ReplaySummary(0).is_identical
