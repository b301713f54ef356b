"""`segpaste augment --bank`: what is pasted is of the bank, as balanced as promised, and is made again by replay."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_world import check_instances, one_error, read_json, write_instances

from on_disk import tree
from segpaste.augmenting import draws
from segpaste.augmenting.options import AugmentError
from segpaste.bank import Crop, Layout, MemmapBank, MemmapWriter, open_bank
from segpaste.bank.read.class_draws import class_probabilities
from segpaste.cli import main
from segpaste.replay import read_records
from segpaste.workspace import Workspace

NAMES, COUNTS = ("cup", "car", "zebra", "unused"), (40, 9, 1, 0)
NUM = 24


def write_bank(path: Path, names: tuple[str, ...] = NAMES) -> MemmapBank:
    """Squares of one colour, a few of them cups, in an order of classes of its own."""
    rng = np.random.default_rng(0)
    with MemmapWriter(path, Layout((8, 8), ["provenance"]), names) as writer:
        for label in np.repeat(np.arange(4), COUNTS).tolist():
            alpha = np.zeros((1, 8, 8), bool)
            alpha[:, 1:6, 2:7] = True
            writer.add(
                Crop(
                    image=np.full((3, 8, 8), rng.integers(0, 256), np.uint8),
                    alpha=alpha,
                    class_id=label,
                    content_box=np.array([0, 0, 8, 8], np.int32),
                    source_size=np.array([50, 50], np.int32),
                    source_box=np.array([0, 0, 8, 8], np.float32),
                    scale=1.0,
                    image_id=7,
                    annotation_id=100 + writer.num_crops,
                )
            )
        return MemmapBank(writer.finish())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    write_bank(folder / "bank")
    return folder


def augment(folder: Path, out: str, *words: str) -> int:
    start = ["augment", str(folder / "labels.json"), "--images", str(folder / "photos"), "--num", str(NUM)]
    return main([*start, "--out", str(folder / out), "--seed", "3", "--gallery", "1", *words])


@pytest.fixture(scope="module")
def out(world: Path) -> Path:
    words = ["--bank", str(world / "bank"), "--balance", "class_uniform", "source.crops_per_target=4"]
    assert augment(world, "out", *words) == 0
    return world / "out"


class TestOutput:
    def test_is_true_to_its_pixels(self, world: Path, out: Path) -> None:
        assert check_instances(out)

    def test_objects_say_where_they_are_of(self, world: Path, out: Path) -> None:
        bank = open_bank(world / "bank")
        categories = {row["id"]: row["name"] for row in read_json(out / "annotations.json")["categories"]}
        pasted = [a for a in read_json(out / "annotations.json")["annotations"] if a["segpaste"]["pasted"]]
        assert len(pasted) > NUM
        for row in pasted:
            crop = bank[row["segpaste"]["source_crop"]]
            assert categories[row["category_id"]] == NAMES[crop.class_id]
            assert row["segpaste"]["source_annotation_id"] == crop.annotation_id
            assert row["segpaste"]["source_image_id"] == 7

    def test_the_rarest_class_gets_the_share_that_was_said(self, world: Path, out: Path) -> None:
        """Each class a third, within what so few draws allow; as they occur it would be one in fifty."""
        records = read_records(out / "replay.jsonl")
        drawn = Counter(open_bank(world / "bank")[layer.crop or 0].class_id for r in records for layer in r.layers)
        expected = class_probabilities(COUNTS, "class_uniform") * drawn.total()
        assert drawn.total() > 2 * NUM
        assert np.abs([drawn[c] for c in range(4)] - expected).max() < 3 * np.sqrt(drawn.total() * 2 / 9)
        assert drawn[2] > 10

    def test_again_and_otherwise(self, world: Path, out: Path) -> None:
        words = ["--bank", str(world / "bank"), "--balance", "class_uniform", "source.crops_per_target=4"]
        assert augment(world, "again", *words) == 0
        assert tree(world / "again") == tree(out)
        assert augment(world, "other", "--bank", str(world / "bank"), "source.crops_per_target=4") == 0
        assert tree(world / "other") != tree(out)

    def test_tempered_classes_get_the_share_of_their_temperature(self, world: Path) -> None:
        shares = []
        for temperature in ("0", "0.5", "1"):
            words = ["--bank", str(world / "bank"), "--balance", "tempered", "source.crops_per_target=4"]
            assert augment(world, f"by{temperature}", *words, "--temperature", temperature) == 0
            records = read_records(world / f"by{temperature}" / "replay.jsonl")
            drawn = Counter(open_bank(world / "bank")[layer.crop or 0].class_id for r in records for layer in r.layers)
            expected = class_probabilities(COUNTS, "tempered", temperature=float(temperature)) * drawn.total()
            assert np.abs([drawn[c] for c in range(4)] - expected).max() < 3 * np.sqrt(drawn.total() / 4)
            shares.append(drawn[2] / drawn.total())
        assert shares == sorted(shares)
        assert shares[0] < 0.1 < 0.25 < shares[2]

    def test_the_temperature_belongs_to_the_run(
        self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--bank", str(world / "bank"), "--balance", "tempered", "--temperature"]
        with monkeypatch.context() as patch:
            patch.setattr(Workspace, "publish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            assert augment(world, "left", *words, "0.3") == 130
        assert augment(world, "left", *words, "0.4") == 2
        assert "--temperature 0.3 there, 0.4 now" in capsys.readouterr().err


class TestReplay:
    def replay(self, world: Path, *words: str) -> int:
        start = ["replay", str(world / "out"), "--dataset", str(world / "labels.json")]
        return main([*start, "--images", str(world / "photos"), *words])

    def test_all_are_identical(self, world: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.replay(world, "--check", str(out), "--bank", str(world / "bank")) == 0
        assert f"{NUM} of {NUM} identical" in capsys.readouterr().out

    def test_without_its_bank(self, world: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.replay(world, "--check", str(out)) == 2
        assert "expected --bank, because the records use crops of a bank" in capsys.readouterr().err

    @pytest.mark.parametrize("words", [["--check", "changed"], ["--out", "again"]], ids=lambda words: words[0])
    def test_a_class_that_is_not_there(
        self, world: Path, out: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.copytree(out, tmp_path / "changed")
        lines = (out / "replay.jsonl").read_text().splitlines()
        record = next(values for values in map(json.loads, lines) if values["layers"])
        record["layers"][0]["label"], record["digest"] = 3, None
        (tmp_path / "changed" / "replay.jsonl").write_text(json.dumps(record))
        start = ["replay", str(tmp_path / "changed"), "--dataset", str(world / "labels.json")]
        start += ["--images", str(world / "photos"), "--bank", str(world / "bank"), words[0], str(tmp_path / words[1])]
        assert main(start) == (1 if words[0] == "--check" else 2)
        assert "expected labels below 3, the number of classes" in "".join(capsys.readouterr())

    def test_with_another_bank(
        self, world: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_bank(tmp_path / "bank", ("cup", "car", "zebra", "other"))
        assert self.replay(world, "--check", str(out), "--bank", str(tmp_path / "bank")) == 2
        assert "of the bank, as in the records" in capsys.readouterr().err


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["source.kind=bank"], "source.kind=bank: expected --bank, the bank to paste from, got none; give it"),
            (["--preset", "xpaste"], "--preset xpaste: expected --bank, the bank to paste from, got none; give it"),
            (["--bank", "BANK", "source.kind=intra_batch"], "source.kind: expected bank, since --bank is given"),
            (["--balance", "tempered"], "expected --bank, or placement.grouping=instance"),
            (["--bank", "BANK", "--threshold", "2"], "expected a number above 0, up to 1, got '2'"),
            (["--temperature", "0.5"], "expected --bank, or placement.grouping=instance"),
            (
                ["--bank", "BANK", "--temperature", "0.5"],
                "--temperature: expected --balance tempered with this option, got",
            ),
            (["--bank", "nowhere"], "expected a bank, a folder with meta.json, found none"),
            (["--bank", "BANK", "placement.layers=2"], "expected placement.layers=1"),
        ],
    )
    def test_one_line(self, world: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
        named = [str(world / "bank") if word == "BANK" else word for word in words]
        assert augment(world, "refused", *named) == 2
        assert line in one_error(capsys)
        assert not (world / "refused").exists()

    def test_a_class_that_the_dataset_lacks(
        self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_bank(tmp_path / "bank", ("cup", "boat", "zebra", "unused"))
        assert augment(world, "refused", "--bank", str(tmp_path / "bank")) == 2
        assert "expected classes of the dataset" in (err := capsys.readouterr().err)
        assert "got boat" in err


class TestClasses:
    """Banks and datasets are matched by the names of classes, as far as those are clear."""

    def test_equal_lists_are_matched_by_place(self, tmp_path: Path) -> None:
        names = ("cup", "cup", "zebra", "unused")
        assert draws.match_classes(write_bank(tmp_path / "bank", names), names) == (0, 1, 2, 3)

    @pytest.mark.parametrize(
        ("names", "classes", "words"),
        [
            (("cup", "cup", "zebra", "unused"), ("zebra", "cup"), "the bank: expected a unique name for each class"),
            (("cup", "car", "zebra", "unused"), ("car", "cup", "zebra", "cup"), "the dataset: expected a unique name"),
        ],
        ids=["bank", "dataset"],
    )
    def test_a_name_of_several(
        self, tmp_path: Path, names: tuple[str, ...], classes: tuple[str, ...], words: str
    ) -> None:
        bank = write_bank(tmp_path / "bank", names)
        with pytest.raises(AugmentError, match=f"{words}.*got cup several times;"):
            draws.match_classes(bank, classes)

    def test_names_that_nothing_has_do_not_matter(self, tmp_path: Path) -> None:
        """The fourth class of the bank has no crops, two of the dataset are none of the bank."""
        bank = write_bank(tmp_path / "bank", ("cup", "car", "zebra", "cup"))
        assert draws.match_classes(bank, ("zebra", "sky", "car", "cup", "sky")) == (3, 2, 0, 3)


def test_federated_lists_stay_true(world: Path, out: Path) -> None:
    """A dataset without them gets none."""
    assert "neg_category_ids" not in json.dumps(read_json(out / "annotations.json")["images"])
