"""`segpaste augment` on small COCO instances: what is written is true to the pixels, to its sources, to the seed."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import (
    CATEGORIES,
    CROWD_ID,
    SIZES,
    check_instances,
    decode,
    masks_of,
    read_json,
    read_pixels,
    write_instances,
)

from on_disk import Mask, noise, tree
from segpaste.augmenting import steps
from segpaste.cli import main
from segpaste.replay import read_records
from segpaste.seeding import derive_seed

NUM, SEED = 11, 1


def augment(folder: Path, out: Path, *words: str, num: int = NUM, seed: int = SEED) -> int:
    arguments = ["augment", str(folder / "labels.json"), "--images", str(folder / "photos"), "--out", str(out)]
    return main([*arguments, "--num", str(num), "--seed", str(seed), "--gallery", "1", *words])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    return folder


@pytest.fixture(scope="module")
def out(world: Path) -> Path:
    assert augment(world, world / "out") == 0
    return world / "out"


def _failing_at(number: int, written: Any) -> Any:
    """A maker of images that fails at its image of this number, from 0."""

    def fails(self: Any, augmented: Any, *how: Any) -> Any:
        if augmented.pick.position == number:
            raise ValueError("disk pulled")
        return written(self, augmented, *how)

    return fails


def pasted_mask(source: Mask, origin: dict[str, Any], size: tuple[int, int]) -> Mask:
    """The source's mask as the provenance says it was pasted, one pixel at a time."""
    scales = [tuple(map(int, scale.split("/"))) for scale in origin["scale"]]
    mask = np.zeros(size, bool)
    for y in range(size[0]):
        for x in range(size[1]):
            at_x, at_y = (
                (2 * (p - t) + 1) * den // (2 * num)
                for p, t, (num, den) in zip((x, y), origin["translate"], scales, strict=True)
            )
            if 0 <= at_x < source.shape[1] and 0 <= at_y < source.shape[0]:
                mask[y, x] = source[at_y, source.shape[1] - 1 - at_x if origin["hflip"] else at_x]
    return mask


class TestTables:
    def test_masks_have_exactly_their_boxes_and_areas(self, out: Path) -> None:
        assert len(check_instances(out)) > NUM

    def test_images(self, out: Path) -> None:
        images = read_json(out / "annotations.json")["images"]
        assert [row["id"] for row in images] == list(range(1, NUM + 1))
        assert sorted(p.name for p in (out / "images").iterdir()) == [row["file_name"] for row in images]
        for row in images:
            assert (row["height"], row["width"]) == SIZES[row["segpaste"]["source_image_id"] - 500]

    def test_every_photo_comes_once_per_epoch(self, out: Path) -> None:
        origins = [row["segpaste"] for row in read_json(out / "annotations.json")["images"]]
        epochs = [[o["source_image_id"] for o in origins if o["epoch"] == e] for e in range(3)]
        assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(500, 505))
        assert epochs[0] != epochs[1]
        assert len(epochs[2]) == 1

    def test_seeds(self, out: Path) -> None:
        for i, row in enumerate(read_json(out / "annotations.json")["images"]):
            assert row["segpaste"]["position"] == i
            assert row["segpaste"]["seed"] == derive_seed(SEED, i // len(SIZES), 0, 0, i)

    def test_categories_are_those_of_the_input(self, out: Path) -> None:
        assert read_json(out / "annotations.json")["categories"] == CATEGORIES

    def test_info_says_how_it_was_made_and_nothing_else(self, out: Path, world: Path) -> None:
        info = read_json(out / "annotations.json")["info"]
        assert info["segpaste"]["seed"] == SEED
        assert info["segpaste"]["config"]["placement"]["layers"] == 1
        assert "--num 11 --seed 1" in info["segpaste"]["command"]
        assert str(world) not in (out / "annotations.json").read_text()
        assert str(world) not in (out / "report.html").read_text()

    def test_what_is_there(self, out: Path) -> None:
        names = {path.name for path in out.iterdir()}
        assert names == {"annotations.json", "images", "replay.jsonl", "report.html", "gallery.png"}
        assert not (out.parent / "out.partial").exists()


class TestProvenance:
    def test_every_object_is_what_its_provenance_says(self, out: Path, world: Path) -> None:
        tables, sources = read_json(out / "annotations.json"), masks_of(world)
        num_pasted = num_survivors = 0
        for image in tables["images"]:
            size = image["height"], image["width"]
            own = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
            pasted = [row for row in own if row["segpaste"]["pasted"]]
            covered = np.zeros(size, bool)
            for row in pasted:
                origin = row["segpaste"]
                expected = pasted_mask(sources[origin["source_annotation_id"]], origin, size)
                np.testing.assert_array_equal(decode(row["segmentation"]), expected)
                assert origin["scale_float"] == [float(Fraction(scale)) for scale in origin["scale"]]
                assert origin["seed"] == image["segpaste"]["seed"]
                covered |= expected
            for row in own:
                if not row["segpaste"]["pasted"]:
                    assert row["segpaste"]["source_image_id"] == image["segpaste"]["source_image_id"]
                    expected = sources[row["segpaste"]["source_annotation_id"]] & ~covered
                    np.testing.assert_array_equal(decode(row["segmentation"]), expected)
                    num_survivors += 1
            num_pasted += len(pasted)
            index = image["segpaste"]["source_image_id"] - 500
            pixels = read_pixels(out / "images" / image["file_name"])
            np.testing.assert_array_equal(pixels[~covered], noise(SIZES[index], index)[~covered])
        assert num_pasted > 5
        assert num_survivors > 5

    def test_labels_are_those_of_the_sources(self, out: Path, world: Path) -> None:
        category_of = {row["id"]: row["category_id"] for row in read_json(world / "labels.json")["annotations"]}
        for row in read_json(out / "annotations.json")["annotations"]:
            assert row["category_id"] == category_of[row["segpaste"]["source_annotation_id"]]

    def test_crowds_keep_their_rows_and_are_never_pasted(self, out: Path) -> None:
        """Each is its annotation without what was pasted over it: `test_every_object_is_what_its_provenance_says`."""
        rows = read_json(out / "annotations.json")["annotations"]
        crowds = [row for row in rows if row["iscrowd"]]
        assert len(crowds) == sum(
            row["segpaste"]["source_image_id"] == 500 for row in read_json(out / "annotations.json")["images"]
        )
        for row in rows:
            assert (row["segpaste"]["source_annotation_id"] == CROWD_ID) == bool(row["iscrowd"])
        assert not any(row["segpaste"]["pasted"] for row in crowds)

    def test_one_photo_pastes_into_itself_on_request(self, tmp_path: Path) -> None:
        write_instances(tmp_path, SIZES[:1])
        assert augment(tmp_path, tmp_path / "out", "source.kind=same_image", num=3) == 0
        rows = check_instances(tmp_path / "out")
        assert any(row["segpaste"]["pasted"] for row in rows)
        assert {row["segpaste"]["source_image_id"] for row in rows} == {500}

    def test_nothing_to_paste_is_exit_code_1(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_instances(tmp_path)
        tables = read_json(tmp_path / "labels.json")
        (tmp_path / "labels.json").write_text(json.dumps({**tables, "annotations": []}))
        assert augment(tmp_path, tmp_path / "out", num=2) == 1
        assert not (tmp_path / "out").exists()
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert captured.err.startswith("segpaste: error: labels.json: nothing to paste: expected objects")
        assert augment(tmp_path, tmp_path / "out", "placement.grouping=instance", num=2) == 1
        assert "nothing to paste" in capsys.readouterr().err


class TestDeterminism:
    def test_same_seed_same_bytes(self, world: Path, out: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "elsewhere" / "again") == 0
        assert tree(tmp_path / "elsewhere" / "again") == tree(out)

    def test_other_seed_other_bytes(self, world: Path, out: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", seed=2) == 0
        assert tree(tmp_path / "out")["images/000001.png"] != tree(out)["images/000001.png"]

    @pytest.mark.parametrize("num", [1, 6])
    def test_an_output_does_not_depend_on_how_many_there_are(
        self, world: Path, out: Path, tmp_path: Path, num: int
    ) -> None:
        assert augment(world, tmp_path / "out", num=num) == 0
        fewer, all_files = tree(tmp_path / "out" / "images"), tree(out / "images")
        assert len(fewer) == num
        assert fewer.items() <= all_files.items()
        rows = read_json(out / "annotations.json")["annotations"]
        expected = [row for row in rows if row["image_id"] <= num]
        assert read_json(tmp_path / "out" / "annotations.json")["annotations"] == expected


class TestOptions:
    def test_without_pastes_the_photos_come_back_as_they_are(self, world: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "placement.paste_prob=0", num=6) == 1
        for row in read_json(tmp_path / "out" / "annotations.json")["images"]:
            index = row["segpaste"]["source_image_id"] - 500
            pixels = read_pixels(tmp_path / "out" / "images" / row["file_name"])
            np.testing.assert_array_equal(pixels, noise(SIZES[index], index))
        assert not any(row["segpaste"]["pasted"] for row in check_instances(tmp_path / "out"))

    def test_words_go_over_the_file_which_goes_over_the_defaults(self, world: Path, tmp_path: Path) -> None:
        (tmp_path / "paste.yaml").write_text("min_area_px: 4\nplacement:\n  scale_range: [0.5, 0.5]\n  layers: 3\n")
        words = ("--config", str(tmp_path / "paste.yaml"), "placement.layers=2", "placement.hflip_probability=1")
        assert augment(world, tmp_path / "out", *words, num=4) == 0
        config = read_json(tmp_path / "out" / "annotations.json")["info"]["segpaste"]["config"]
        assert config["min_area_px"] == 4
        assert config["placement"]["scale_range"] == [0.5, 0.5]
        assert config["placement"]["layers"] == 2
        pasted = [row["segpaste"] for row in check_instances(tmp_path / "out") if row["segpaste"]["pasted"]]
        assert pasted
        assert all(origin["hflip"] and origin["scale"] == ["32768/65536"] * 2 for origin in pasted)
        assert {origin["layer"] for origin in pasted} == {0, 1}

    def test_max_instances_bounds_the_pastes(self, world: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "max_instances=3") == 0
        rows = check_instances(tmp_path / "out")
        assert max(sum(row["image_id"] == i for row in rows) for i in range(1, NUM + 1)) == 3

    def test_jpg(self, world: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "--format", "jpg", num=2) == 0
        check_instances(tmp_path / "out")
        assert (tmp_path / "out" / "images" / "000002.jpg").read_bytes().startswith(b"\xff\xd8")

    def test_gallery_of_none(self, world: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "--gallery", "0", num=2) == 0
        assert not (tmp_path / "out" / "gallery.png").exists()
        assert 'class="card"' not in (tmp_path / "out" / "report.html").read_text()

    def test_gallery_of_some_and_by_default_of_all(self, world: Path, tmp_path: Path) -> None:
        words = ["augment", str(world / "labels.json"), "--images", str(world / "photos"), "--num", "4"]
        for given, num_cards in ((["--gallery", "3"], 3), ([], 4)):
            out = tmp_path / str(num_cards)
            assert main([*words, "--out", str(out), *given]) == 0
            assert (out / "report.html").read_text().count('class="card"') == num_cards

    def test_lost_objects_are_counted(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """For each class and its regions, those before, pasted and lost ones add up to those that are written."""
        words = ["placement.scale_range=[2,4]", "placement.k_range=[4,9]", "--gallery", str(NUM)]
        assert augment(world, tmp_path / "out", *words) == 0
        text = capsys.readouterr().out
        rows = re.findall(r"^  (\w+(?: \(crowd region\))?) +(\d+) +(\d+) +(\d+) +(\d+)$", text, re.MULTILINE)
        names = {row["id"]: row["name"] for row in CATEGORIES}
        written = Counter(
            names[row["category_id"]] + " (crowd region)" * row["iscrowd"]
            for row in read_json(tmp_path / "out" / "annotations.json")["annotations"]
        )
        assert {name: int(after) for name, *_, after in rows if int(after)} == written
        for _, *numbers in rows:
            before, pasted, lost, after = map(int, numbers)
            assert before + pasted - lost == after
        total = sum(int(row[3]) for row in rows)
        before = sum(int(row[1]) for row in rows)
        assert total > 0
        assert f"lost     {total} of {before} objects of the images ({total / before:.1%})" in text
        assert re.search(r"\n  hidden +\d+  lower max_hidden_frac, or set placement.max_cover_frac\n", text)
        page = (tmp_path / "out" / "report.html").read_text()
        assert f"Objects of the images that were lost: {total} ({total / before:.1%})" in page
        assert "<p>Lost: " in page
        assert "depth" not in text + page
        assert "panoptic" not in text + page

    def test_the_advice_on_lost_objects_works(self, world: Path, tmp_path: Path) -> None:
        words = ["placement.scale_range=[2,4]", "placement.k_range=[4,9]", "max_hidden_frac=0.5"]
        assert augment(world, tmp_path / "out", *words) == 0
        assert "that were lost" not in (tmp_path / "out" / "report.html").read_text()

    def test_the_speed_is_that_of_the_run(
        self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The images of an earlier run are not counted, and those of all workers are."""
        with monkeypatch.context() as patch:
            patch.setattr(steps.StepMaker, "written", _failing_at(9, steps.StepMaker.written))
            assert augment(world, tmp_path / "out", num=20) == 2
        capsys.readouterr()
        assert augment(world, tmp_path / "out", "--workers", "2", num=20) == 0
        text = capsys.readouterr().out
        found = re.search(
            r"^speed +([\d.,]+) images/s, 12 made in this run with 2 workers; 8 were there", text, re.MULTILINE
        )
        seconds = re.search(r"^time +([\d.]+) s in total$", text, re.MULTILINE)
        assert found is not None
        assert seconds is not None
        least, most = (12 / (float(seconds[1]) + rounded) for rounded in (0.05, -0.05))
        assert least - 0.1 <= float(found[1]) <= most + 0.1

    def test_an_empty_folder_is_a_fine_place(self, world: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        assert augment(world, tmp_path / "out", num=1) == 0
        check_instances(tmp_path / "out")


class TestRealPhotos:
    @pytest.mark.slow
    def test_tiny_coco(self, test_data: Path, tmp_path: Path) -> None:
        from pycocotools.coco import COCO

        folder, out = test_data / "tiny_coco", tmp_path / "out"
        labels = folder / "annotations" / "instances_train2017.json"
        words = ["--images", str(folder / "train2017"), "--out", str(out), "--num", "25", "--seed", "1"]
        assert main(["augment", str(labels), *words, "--gallery", "2"]) == 0
        rows = check_instances(out)
        assert sum(row["segpaste"]["pasted"] for row in rows) > 50
        assert len(list((out / "images").iterdir())) == 25
        assert len(COCO(str(out / "annotations.json")).getImgIds()) == 25
        source = read_json(labels)
        crowds = {row["id"] for row in source["annotations"] if row["iscrowd"]}
        assert crowds
        assert not crowds & {row["segpaste"]["source_annotation_id"] for row in rows}
        written = [row for row in read_json(out / "annotations.json")["annotations"] if row["iscrowd"]]
        assert written
        assert {row["segpaste"]["source_annotation_id"] for row in written} <= crowds


def test_a_photo_missing_midway_loses_nothing(
    out: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose head is whole, so that it is found when it is decoded."""
    monkeypatch.setattr(steps, "IMAGES_PER_STEP", 1)
    first = read_records(out / "replay.jsonl")[0]
    index = min(set(range(len(SIZES))) - {photo.index for photo in first.photos or ()})
    write_instances(tmp_path / "world")
    lost = tmp_path / "world" / "photos" / f"p{index}.png"
    pixels = lost.read_bytes()
    lost.write_bytes(pixels[:200])
    assert augment(tmp_path / "world", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert f"{lost}: expected an image, could not decode it" in message
    assert f"{tmp_path / 'out.partial'} keeps what is finished" in message
    assert not (tmp_path / "out").exists()
    lost.write_bytes(pixels)
    assert augment(tmp_path / "world", tmp_path / "out") == 0
    assert tree(tmp_path / "out") == tree(out)
