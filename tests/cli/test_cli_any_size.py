"""`segpaste augment` on whole datasets: where objects come from, who makes images, what is skipped, what is told."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import (
    SIZES,
    box_of,
    check_instances,
    decode,
    masks_of,
    one_error,
    pasted_of,
    read_json,
    read_pixels,
    write_instances,
)
from folder_runs import check_photos

from on_disk import tree
from segpaste.augmenting import photos as _photos
from segpaste.augmenting import steps
from segpaste.cli import main
from segpaste.replay import read_records
from segpaste.types import rows as _rows
from segpaste.workspace import Workspace, shards

NUM = 9
BY_OBJECT = ("placement.grouping=instance", "placement.layers=3")


def augment(folder: Path, out: Path, *words: str, num: int = NUM) -> int:
    start = ["augment", str(folder / "labels.json"), "--images", str(folder / "photos"), "--out", str(out)]
    return main([*start, "--num", str(num), "--gallery", "1", "min_area_px=4", *words])


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "IMAGES_PER_STEP", 2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    return folder


@pytest.fixture(scope="module")
def out(world: Path) -> Path:
    assert augment(world, world / "out") == 0
    return world / "out"


@pytest.fixture(scope="module")
def by_object(world: Path) -> Path:
    assert augment(world, world / "by_object", *BY_OBJECT, num=24) == 0
    return world / "by_object"


def test_the_recorded_command_has_the_size_as_it_was_given(world: Path, tmp_path: Path) -> None:
    assert augment(world, tmp_path / "out", "--size", "48x32", num=1) == 0
    tables = read_json(tmp_path / "out" / "annotations.json")
    assert "--size 48x32" in tables["info"]["segpaste"]["command"]
    assert (tables["images"][0]["width"], tables["images"][0]["height"]) == (48, 32)


class TestSources:
    def test_photos_are_drawn_from_the_whole_dataset(self, world: Path, tmp_path: Path) -> None:
        """Each image has one other photo with objects; neighbours do not share it."""
        assert augment(world, tmp_path / "out", num=30) == 0
        sources = [
            p.photos[1].index for p in read_records(tmp_path / "out" / "replay.jsonl") if len(p.photos or ()) > 1
        ]
        assert set(sources) == {0, 1, 3, 4}  # the third has no object
        assert all(
            target["source_image_id"] != origin["source_image_id"] for target, origin in pasted_of(tmp_path / "out")
        )
        assert any(one != other for one, other in itertools.pairwise(sources))

    def test_each_layer_has_a_photo_of_its_own(self, world: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "placement.layers=3", num=12) == 0
        records = read_records(tmp_path / "out" / "replay.jsonl")
        assert max(len({layer.source for layer in record.layers}) for record in records) == 3

    def test_objects_are_drawn_from_all_annotations(self, by_object: Path) -> None:
        origins = pasted_of(by_object)
        ids = Counter(origin["source_annotation_id"] for _, origin in origins)
        assert len(ids) > 5
        assert all(target["source_image_id"] != origin["source_image_id"] for target, origin in origins)
        records = read_records(by_object / "replay.jsonl")
        assert all(len(record.photos or ()) == 1 and record.crop_size is not None for record in records)

    def test_objects_keep_their_size(self, by_object: Path, world: Path) -> None:
        """An object pasted at scale s has about s * s times the area of its annotation."""
        area = {number: mask.sum() for number, mask in masks_of(world).items()}
        for row in check_instances(by_object):
            if (origin := row["segpaste"])["pasted"]:
                expected = area[origin["source_annotation_id"]] * origin["scale_float"][0] ** 2
                assert row["area"] <= expected * 1.35 + 12
                assert not origin.get("source_window")

    @pytest.mark.parametrize("low", [1, 3], ids=["own size", "shrunk"])
    def test_place_in_the_photo(self, low: int, world: Path, tmp_path: Path) -> None:
        """The annotation's box, moved as the provenance says, is that of the paste, but for a pixel of the crop."""
        words = ("placement.grouping=instance", f"placement.scale_range=[{low},{low}]")
        assert augment(world, tmp_path / "out", *words, num=16) == 0
        masks = masks_of(world)
        found = set()
        for row in check_instances(tmp_path / "out"):
            if not (origin := row["segpaste"])["pasted"]:
                continue
            x, y, w, h = box_of(masks[origin["source_annotation_id"]])
            left, top, whole, _ = origin["source_crop_window"]
            shrunk = origin.get("source_crop_scale", 1)
            columns = np.array([x - left, x + w - left])
            columns = sorted(whole - columns if origin["hflip"] else columns)
            scales = [scale * shrunk for scale in origin["scale_float"]]
            edges = [*(edge * scales[0] + origin["translate"][0] for edge in columns)]
            edges += [edge * scales[1] + origin["translate"][1] for edge in (y - top, y + h - top)]
            x, y, w, h = row["bbox"]
            np.testing.assert_allclose([x, x + w, y, y + h], edges, atol=0 if shrunk == 1 else low)
            found.add(shrunk == 1)
        assert (low == 1) in found

    def test_classes_first(self, world: Path, tmp_path: Path) -> None:
        words = (*BY_OBJECT, "--balance", "class_uniform", "placement.scale_range=[0.5,0.6]")
        assert augment(world, tmp_path / "out", *words, num=40) == 0
        drawn = Counter(layer.label for r in read_records(tmp_path / "out" / "replay.jsonl") for layer in r.layers)
        assert min(drawn.values()) > 0.2 * drawn.total()
        assert len(drawn) == 3

    @pytest.mark.parametrize("kind", ["out", "by_object"])
    def test_replay(
        self, world: Path, kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder: Path = request.getfixturevalue(kind)
        num = len(read_json(folder / "annotations.json")["images"])
        capsys.readouterr()
        assert check_photos(world, folder) == 0
        assert capsys.readouterr().out == f"{num} of {num} identical\n"

    def test_a_bank_is_not_asked_for(self, world: Path, by_object: Path, capsys: pytest.CaptureFixture[str]) -> None:
        start = ["replay", str(by_object), "--dataset", str(world / "labels.json"), "--images", str(world / "photos")]
        assert main([*start, "--check", str(by_object), "--bank", "bank"]) == 2
        assert "expected no --bank, because the records use the dataset's own objects" in capsys.readouterr().err


class TestLargePhotos:
    """Large sources are seen through a window; what is large is made small here."""

    @pytest.fixture
    def windowed(self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(_photos, "_LARGE_BYTES", 0)
        monkeypatch.setattr(_rows, "_LARGE_BYTES", 0)
        assert augment(world, tmp_path / "out", "placement.scale_range=[1,1]", num=16) == 0
        return tmp_path / "out"

    def test_what_is_pasted_is_what_the_window_shows(self, world: Path, windowed: Path) -> None:
        """At scale 1: the annotation, cut by the window, mirrored and moved as the provenance says."""
        masks = masks_of(world)
        num = 0
        for row in check_instances(windowed):
            origin = row["segpaste"]
            if "source_window" not in origin:
                continue
            left, top, width, height = origin["source_window"]
            whole = masks[origin["source_annotation_id"]]
            seen = whole[top : top + height, left : left + width]
            assert seen.sum() == whole.sum(), "only whole objects are pasted"
            seen = seen[:, ::-1] if origin["hflip"] else seen
            found, (x, y) = decode(row["segmentation"]), origin["translate"]
            ys, xs = np.nonzero(seen)
            expected = np.zeros_like(found)
            expected[ys + y, xs + x] = True
            np.testing.assert_array_equal(found, expected)
            num += 1
        assert num > 3

    def test_replay(self, world: Path, windowed: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The records name the windows, and do not depend on what counts as large."""
        capsys.readouterr()
        assert check_photos(world, windowed) == 0
        assert any(photo.window for r in read_records(windowed / "replay.jsonl") for photo in r.photos or ())


class TestSize:
    def test_jitter(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert augment(world, tmp_path / "out", "--size", "48x40") == 0
        check_instances(tmp_path / "out")
        tables = read_json(tmp_path / "out" / "annotations.json")
        assert {(row["width"], row["height"]) for row in tables["images"]} == {(48, 40)}
        assert tables["info"]["segpaste"]["jitter"]["scale_range"] == [0.1, 2.0]
        assert any(row["iscrowd"] for row in tables["annotations"])
        capsys.readouterr()
        assert check_photos(world, tmp_path / "out") == 0

    def test_the_jitter_of_a_preset(self, world: Path, tmp_path: Path) -> None:
        words = ("--preset", "simple_copy_paste")
        assert augment(world, tmp_path / "out", *words, num=4) == 0
        assert read_pixels(tmp_path / "out" / "images" / "000001.png").shape == (1024, 1024, 3)
        assert augment(world, tmp_path / "own", *words, "--size", "own", num=5) == 0
        shapes = {read_pixels(path).shape[:2] for path in (tmp_path / "own" / "images").iterdir()}
        assert shapes == set(SIZES)


class TestWhoMakesThem:
    def test_workers(self, world: Path, out: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "--workers", "2") == 0
        assert tree(tmp_path / "out") == tree(out)

    @pytest.mark.parametrize("kind", ["out", "by_object"])
    def test_shards_in_any_order(
        self, world: Path, kind: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words, num = ((), NUM) if kind == "out" else (BY_OBJECT, 24)
        for number in (3, 1):
            assert augment(world, tmp_path / "out", *words, "--shard", f"{number}/3", num=num) == 0
        assert "shard    1/3 is complete; missing: 2" in capsys.readouterr().out
        assert not (tmp_path / "out").exists()
        assert augment(world, tmp_path / "out", *words, "--shard", "2/3", num=num) == 0
        assert tree(tmp_path / "out") == tree(request.getfixturevalue(kind))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.log"]

    def test_shards_that_are_missing_are_made(self, world: Path, out: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", "--shard", "2/2") == 0
        assert augment(world, tmp_path / "out") == 0
        assert tree(tmp_path / "out") == tree(out)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.log"]

    def test_shards_of_another_command(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert augment(world, tmp_path / "out", "--shard", "2/2", "--seed", "3") == 0
        assert augment(world, tmp_path / "out") == 2
        assert (
            "002-of-002: expected a shard of the same command, got one of another command; delete the"
            in capsys.readouterr().err
        )

    def test_killed_while_shards_are_put_together(
        self, world: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After the files of a step have been moved, and before its note."""
        assert augment(world, tmp_path / "out", "--shard", "1/2") == 0
        rename, num = shards.rename_flushed, 0

        def killed(*arguments: Any) -> None:
            nonlocal num
            num += 1
            if num == 2:
                raise KeyboardInterrupt
            rename(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(shards, "rename_flushed", killed)
            assert augment(world, tmp_path / "out", "--shard", "2/2") == 130
        assert augment(world, tmp_path / "out", "--shard", "2/2") == 0
        assert tree(tmp_path / "out") == tree(out)

    @pytest.mark.slow
    def test_ray(self, world: Path, by_object: Path, tmp_path: Path) -> None:
        assert augment(world, tmp_path / "out", *BY_OBJECT, "--engine", "ray", "--workers", "2", num=24) == 0
        assert tree(tmp_path / "out") == tree(by_object)


class TestResuming:
    def left(self, world: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *words: str, num: int = NUM) -> None:
        """Leave a run that stopped before its end."""
        make = steps.StepMaker.make

        def stop(maker: Any, step: int) -> None:
            if step == 3:
                raise KeyboardInterrupt
            make(maker, step)

        with monkeypatch.context() as patch:
            patch.setattr(steps.StepMaker, "make", stop)
            assert augment(world, out, *words, num=num) == 130

    @pytest.mark.parametrize("num", [7, 11])
    def test_with_another_number_workers_and_gallery(
        self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num: int
    ) -> None:
        self.left(world, tmp_path / "out", monkeypatch, num=NUM)
        assert augment(world, tmp_path / "out", "--workers", "2", "--gallery", "2", num=num) == 0
        assert augment(world, tmp_path / "whole", "--gallery", "2", num=num) == 0
        assert tree(tmp_path / "out") == tree(tmp_path / "whole")

    def test_with_more_images_than_the_last_step_was_made_for(
        self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Workspace, "publish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            assert augment(world, tmp_path / "out", num=5) == 130
        assert augment(world, tmp_path / "out", num=6) == 0
        assert augment(world, tmp_path / "whole", num=6) == 0
        assert tree(tmp_path / "out") == tree(tmp_path / "whole")

    def test_with_fewer_images_than_were_made(
        self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.left(world, tmp_path / "out", monkeypatch)
        assert augment(world, tmp_path / "out", num=3) == 0
        assert augment(world, tmp_path / "whole", num=3) == 0
        assert tree(tmp_path / "out") == tree(tmp_path / "whole")

    def test_a_finished_run_is_complete(
        self, world: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = tree(out)
        capsys.readouterr()
        assert augment(world, out, "--workers", "3", "--gallery", "0") == 0
        assert capsys.readouterr().out == f"complete {out}/ already, with 9 images\n"
        assert tree(out) == before
        assert augment(world, out, "--seed", "5") == 2
        assert "expected --out to be new or an empty folder" in capsys.readouterr().err

    def test_a_finished_run_that_is_no_longer_whole(
        self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is not complete, and another number of images is refused by name; --workers 0 is this process."""
        out = tmp_path / "out"
        assert augment(world, out, "--workers", "0", num=3) == 0
        assert augment(world, out, num=3) == 0
        assert augment(world, out, num=4) == 2
        assert "--num: expected 3, the number of images" in capsys.readouterr().err
        (out / "images" / "000002.png").unlink()
        assert augment(world, out, num=3) == 2
        assert (
            "of this finished run, 1 missing, such as images/000002.png; remove the folder" in capsys.readouterr().err
        )

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_link_is_followed(self, world: Path, out: Path, tmp_path: Path, is_there: bool) -> None:
        if is_there:
            (tmp_path / "far").mkdir()
        (tmp_path / "out").symlink_to(tmp_path / "far")
        assert augment(world, tmp_path / "out") == 0
        assert (tmp_path / "out").is_symlink()
        assert tree(tmp_path / "far") == tree(out)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "far.log", "out"]


class TestUnreadable:
    @pytest.fixture
    def broken(self, tmp_path: Path) -> Path:
        """A missing photo, and one that breaks off behind its head."""
        write_instances(tmp_path / "world")
        photos = tmp_path / "world" / "photos"
        (photos / "p1.png").unlink()
        content = (photos / "p4.png").read_bytes()
        (photos / "p4.png").write_bytes(content[: len(content) // 2])
        return tmp_path / "world"

    def test_all_are_listed_before_any_work(
        self, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (broken / "photos" / "p3.png").write_text("text")
        assert augment(broken, tmp_path / "out") == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].endswith("p1.png: expected an image, found no such file; check the folder and the name")
        assert lines[1].endswith("p3.png: expected an image, got another file; replace it")
        assert "2 of 5 images cannot be read; --skip-unreadable leaves them out" in lines[2]
        assert len(lines) == 3
        assert not list(tmp_path.glob("out*"))

    @pytest.mark.parametrize("words", [(), BY_OBJECT], ids=["photos", "objects"])
    def test_they_are_skipped_and_counted(
        self, broken: Path, tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert augment(broken, tmp_path / "out", *words, "--skip-unreadable", num=14) == 0
        assert "skipped  2 images that cannot be read" in capsys.readouterr().out
        tables = read_json(tmp_path / "out" / "annotations.json")
        assert len(tables["images"]) == 14
        shown = {row["segpaste"]["source_image_id"] for row in tables["images"] + tables["annotations"]}
        assert shown == {500, 502, 503}
        check_instances(tmp_path / "out")
        assert check_photos(broken, tmp_path / "out") == 0
        assert augment(broken, tmp_path / "again", *words, "--skip-unreadable", "--workers", "2", num=14) == 0
        assert tree(tmp_path / "again") == tree(tmp_path / "out")
        assert re.search(
            r"skipped: .*p1\.png: expected an image, found no such file", (tmp_path / "out.log").read_text()
        )

    @pytest.mark.parametrize("num_bytes", [None, 200], ids=["missing", "truncated"])
    def test_the_first_photo(self, num_bytes: int | None, tmp_path: Path) -> None:
        """Objects are drawn from the others, and a replay does not need it either."""
        write_instances(tmp_path / "world")
        path = tmp_path / "world" / "photos" / "p0.png"
        content = path.read_bytes()
        path.unlink()
        if num_bytes is not None:
            path.write_bytes(content[:num_bytes])
        assert augment(tmp_path / "world", tmp_path / "out", *BY_OBJECT, "--skip-unreadable", num=4) == 0
        assert {origin["source_image_id"] for _, origin in pasted_of(tmp_path / "out")} <= {501, 503, 504}
        assert check_photos(tmp_path / "world", tmp_path / "out") == 0

    def test_other_images_stay_as_they_are(self, broken: Path, world: Path, tmp_path: Path) -> None:
        """Those that show none of the skipped photos, and were to be pasted none of."""
        assert augment(broken, tmp_path / "out", "--skip-unreadable", num=14) == 0
        assert augment(world, tmp_path / "whole", num=14) == 0
        whole = read_records(tmp_path / "whole" / "replay.jsonl")
        same = 0
        for one, other in zip(read_records(tmp_path / "out" / "replay.jsonl"), whole, strict=True):
            if (one.photos or ())[0].index == (other.photos or ())[0].index:
                same += 1
            else:
                assert (other.photos or ())[0].index in (1, 4)
        assert 6 < same < 14

    def test_none_is_left(self, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for path in (broken / "photos").iterdir():
            path.write_text("")
        assert augment(broken, tmp_path / "out", "--skip-unreadable") == 2
        assert "(none of 5 images can be read)" in capsys.readouterr().err


class TestTold:
    def test_summary(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Every number can be counted in the tables."""
        assert (
            augment(world, tmp_path / "out", "placement.scale_range=[1,3]", "placement.scale_to_fit=false", num=12) == 0
        )
        text, err = capsys.readouterr()
        assert "images/s, 12 made in this run\n" in text
        assert err == ""
        rows = check_instances(tmp_path / "out")
        into = {row["image_id"] for row in rows if row["segpaste"]["pasted"]}
        pasted = sum(row["segpaste"]["pasted"] for row in rows)
        assert f"pasted   {pasted} of " in text
        assert f"intended, into {len(into)} of 12 images" in text
        assert 0 < len(into) < 12
        assert f"without  a paste: {12 - len(into)} of 12 images" in text
        assert re.search(r"does not fit +\d+  lower placement.scale_range", text)
        source = read_json(world / "labels.json")
        shown = [
            row["segpaste"]["source_image_id"] for row in read_json(tmp_path / "out" / "annotations.json")["images"]
        ]
        for name, category in (("car", 3), ("cup", 7), ("zebra", 90)):
            own = [a for a in source["annotations"] if a["category_id"] == category and not a["iscrowd"]]
            before = sum(a["image_id"] == image for image in shown for a in own)
            after = [row for row in rows if row["category_id"] == category]
            now = sum(row["segpaste"]["pasted"] for row in after)
            lost = before + now - len(after)
            assert re.search(rf"  {name} +{before} +{now} +{lost} +{len(after)}\n", text)

    def test_nothing_pasted_is_exit_code_1(
        self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert augment(world, tmp_path / "out", "placement.scale_range=[60,64]", num=2) == 1
        assert "nothing was pasted into any image" in capsys.readouterr().err
        assert augment(world, tmp_path / "none", "placement.paste_prob=0", num=1) == 1
        assert "no paste was drawn (placement.paste_prob)" in capsys.readouterr().out
        assert len(check_instances(tmp_path / "out")) > 0

    def test_dry_run(self, world: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert augment(world, tmp_path / "out", "--dry-run") == 0
        text = capsys.readouterr().out
        assert list(tmp_path.iterdir()) == []
        rows = check_instances(out)
        pasted = Counter(row["category_id"] for row in rows if row["segpaste"]["pasted"])
        assert "would make 9 images of labels.json; nothing is written. Estimate from the first 9:" in text
        assert f"pastes   about {pasted.total()} of " in text
        assert re.search(rf"  car +{pasted[3]}\n", text)
        size = sum(path.stat().st_size for path in (out / "images").iterdir())
        assert f"disk     about {size / 1e3:.0f} kB" in text
        assert augment(world, tmp_path / "out", "--dry-run", *BY_OBJECT, num=1000) == 0
        assert "objects of the dataset, drawn one by one" in capsys.readouterr().out

    def test_log(self, world: Path, out: Path) -> None:
        lines = (out.parent / "out.log").read_text().splitlines()
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d segpaste .*: segpaste augment labels.json --num 9 .*", lines[0]
        )
        text = "\n".join(lines)
        for expected in (r"made images 1 to \d\n", r"made images 9 to 9\n", "complete\n", "pasted   "):
            assert re.search(expected, text)

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["--preset", "depth_aware"], "--preset depth_aware: expected depth in labels.json, got image, instance"),
            (["emit_depth=true"], "emit_depth=true: expected depth in labels.json, got image, instance"),
            (["--preset", "panoptic_lsj"], "--preset panoptic_lsj: expected panoptic in labels.json"),
            (["--preset", "classmix"], "--preset classmix: expected semantic in labels.json"),
            (["placement.scale_range=2,0.5"], "such as [0.5, 2], got '2,0.5'; write placement.scale_range=[0.5,2]"),
            (["--shard", "3/2"], "--shard: expected I/N, shard I of N from 1/N to N/N, got '3/2'"),
            (["--balance", "natural"], "expected --bank, or placement.grouping=instance"),
        ],
    )
    def test_messages(
        self, world: Path, tmp_path: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert augment(world, tmp_path / "out", *words) == 2
        error = one_error(capsys)
        assert line in error
        assert "BatchCopyPaste" not in error
        assert list(tmp_path.iterdir()) == []

    def test_boxes_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_instances(tmp_path)
        tables = read_json(tmp_path / "labels.json")
        tables["annotations"] = [{**row, "segmentation": [], "iscrowd": 0} for row in tables["annotations"]]
        (tmp_path / "labels.json").write_text(json.dumps(tables))
        assert augment(tmp_path, tmp_path / "out") == 2
        assert "expected masks, got boxes only, so nothing can be pasted" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_fuller_images_than_max_instances_stay(world: Path, tmp_path: Path) -> None:
    assert augment(world, tmp_path / "out", "max_instances=1", num=5) == 0
    rows = check_instances(tmp_path / "out")
    of_photo = Counter(row["segpaste"]["source_image_id"] for row in rows if not row["segpaste"]["pasted"])
    assert max(of_photo.values()) == 3
    assert np.unique([row["image_id"] for row in rows if row["segpaste"]["pasted"]]).size <= 2
