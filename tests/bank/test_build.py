"""A build is a pure function of the dataset: whoever makes it, in whatever order, however often it is interrupted."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_folder import NAMES, open_photos, tree, write_photos

from segpaste.bank import BankError, BuildSummary, Selection, build_bank, open_bank
from segpaste.bank.build import build_bank as build_module
from segpaste.bank.build import strays
from segpaste.bank.build.cropping import crop_object
from segpaste.bank.format import WRITERS
from segpaste.cli._inputs import open_scenes
from segpaste.datasets import CocoDetectionV2, DatasetError
from segpaste.types import DenseSample
from segpaste.workspace import Run

FORMATS = pytest.mark.parametrize("kind", WRITERS)
SIZE = (11, 8)
ALL = Selection(min_area_px=1)


def build(photos: Any, out: Path, **options: Any) -> BuildSummary:
    return build_bank(photos, out, **{"class_names": NAMES, "crop_size": SIZE, "selection": ALL, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture(scope="module")
def photos(folder: Path) -> CocoDetectionV2:
    return open_photos(folder)


@pytest.fixture(scope="module")
def expected(photos: CocoDetectionV2, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a bank that was built at one go."""
    out = tmp_path_factory.mktemp("whole") / "bank"
    build(photos, out)
    return tree(out)


class TestBytes:
    @FORMATS
    def test_a_second_build_and_two_workers(self, kind: str, photos: CocoDetectionV2, tmp_path: Path) -> None:
        one = build(photos, tmp_path / "one", format=kind)
        other = build(photos, tmp_path / "other", format=kind, workers=2)
        assert tree(tmp_path / "one") == tree(tmp_path / "other")
        assert (one.kept, one.skipped) == (other.kept, other.skipped)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]

    def test_the_order_of_the_file_does_not_matter(self, expected: dict[str, str], tmp_path: Path) -> None:
        shuffled = open_photos(write_photos(tmp_path / "photos", shuffled=True))
        build(shuffled, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected


class TestContent:
    def test_every_object_in_order(self, photos: CocoDetectionV2, tmp_path: Path) -> None:
        banks = []
        for kind in WRITERS:
            build(photos, tmp_path / kind, format=kind, margin_frac=0.3)
            banks.append(open_bank(tmp_path / kind).read(range(len(open_bank(tmp_path / kind)))))
        for other in banks[1:]:
            for name, rows in banks[0].items():
                np.testing.assert_array_equal(rows, other[name])
        keys = list(zip(banks[0]["image_id"].tolist(), banks[0]["annotation_id"].tolist(), strict=True))
        assert keys == sorted(keys)
        assert len(set(keys)) == len(keys)
        where = {photos.image_id(i): i for i in range(len(photos))}
        assert len(keys) == sum(photos[i].num_instances for i in range(len(photos)))
        for n, (image_id, annotation_id) in enumerate(keys):
            sample, position = photos[where[image_id]], photos.annotation_ids(where[image_id]).index(annotation_id)
            crop = crop_object(sample, position, SIZE, margin_frac=0.3, image_id=image_id, annotation_id=annotation_id)
            for name, rows in banks[0].items():
                np.testing.assert_array_equal(rows[n], getattr(crop, name))

    def test_photos(self, test_data: Path, tmp_path: Path) -> None:
        """All objects of tiny_coco, in three formats of equal content, whatever makes their parts."""
        path = test_data / "tiny_coco" / "annotations" / "instances_val2017.json"
        coco = Remembering(test_data / "tiny_coco" / "val2017", path)
        tables = json.loads(path.read_text())
        wanted = [(row["image_id"], row["id"]) for row in tables["annotations"] if not row["iscrowd"]]
        banks = []
        for kind in WRITERS:
            summary = build(coco, tmp_path / kind, format=kind, class_names=coco.class_names, crop_size=(24, 24))
            bank = open_bank(tmp_path / kind)
            bank.verify()
            banks.append(bank.read(range(len(bank))))
        assert all(np.array_equal(rows, other[name]) for other in banks[1:] for name, rows in banks[0].items())
        lost = summary.skipped["vanished"] + summary.skipped["empty"]
        assert summary.num_crops + lost == len(wanted)
        assert summary.skipped["crowd"] == len(tables["annotations"]) - len(wanted)
        keys = list(zip(banks[0]["image_id"].tolist(), banks[0]["annotation_id"].tolist(), strict=True))
        assert keys == [key for key in sorted(wanted) if key in set(keys)]
        assert len(keys) == len(wanted) - lost

    def test_scenes_have_every_modality(self, tmp_path: Path) -> None:
        inputs = open_scenes(3, 64, 4)
        build(inputs.photos, tmp_path / "bank", class_names=inputs.class_names, crop_size=(80, 80))
        bank = open_bank(tmp_path / "bank")
        assert bank.layout.groups == ("core", "provenance", "depth", "normals", "intrinsics")
        assert bank.metric_depth
        assert len(bank) == sum(inputs.photos[i].num_instances for i in range(4)) > 8
        for crop in (bank[i] for i in range(len(bank))):
            sample = inputs.photos[int(crop.image_id or 0)]
            assert sample.depth is not None
            ys, xs = np.nonzero(crop.alpha[0])
            box = np.array(crop.source_box).astype(int)
            y, x = ys - ys.min() + box[1], xs - xs.min() + box[0]
            np.testing.assert_array_equal(np.array(crop.depth)[0, ys, xs], sample.depth[0, y, x].numpy())
            np.testing.assert_array_equal(crop.image[:, ys, xs], sample.image.numpy()[:, y, x])
            fx, _, cx, _ = np.array(crop.intrinsics).tolist()
            camera = sample.camera_intrinsics
            assert camera is not None
            np.testing.assert_allclose((xs + 0.5 - cx) / fx, (x + 0.5 - camera.cx) / camera.fx, atol=1e-5)

    def test_fewer_columns(self, tmp_path: Path) -> None:
        inputs = open_scenes(3, 48, 1)
        build(inputs.photos, tmp_path / "bank", class_names=inputs.class_names, groups=["normals"])
        assert open_bank(tmp_path / "bank").layout.groups == ("core", "normals")


class TestSelection:
    @pytest.mark.parametrize(
        ("selection", "skipped"),
        [
            (ALL, {}),
            (Selection(min_area_px=2), {"small": 1}),
            (Selection(min_area_px=1, whole_only=True), {"cut_off": 1}),
            (Selection(min_area_px=1, min_fill_frac=0.5), {"sparse": 1}),
        ],
    )
    def test_what_is_left_out_is_counted(self, selection: Selection, skipped: dict[str, int], tmp_path: Path) -> None:
        few = open_photos(write_photos(tmp_path / "photos", num=1))
        with pytest.warns(UserWarning, match="has no pixel"):
            summary = build(few, tmp_path / "bank", selection=selection)
        assert {reason: n for reason, n in summary.skipped.items() if n} == {"crowd": 1, "empty": 1, **skipped}
        assert summary.num_crops + sum(summary.skipped.values()) == 1 + 5
        assert summary.num_crops == len(open_bank(tmp_path / "bank"))

    def test_what_vanishes(self, tmp_path: Path) -> None:
        """A line of one pixel that no pixel of the crop reads."""
        photos = Listed(1)
        summary = build(photos, tmp_path / "bank", crop_size=(4, 4), margin_frac=10.0)
        assert (summary.num_crops, summary.skipped["vanished"]) == (0, 1)

    @pytest.mark.parametrize("options", [{"min_area_px": 0}, {"min_fill_frac": 1.5}, {"min_part_frac": -0.1}])
    def test_bad_ones(self, options: dict[str, Any]) -> None:
        with pytest.raises(BankError, match="expected min_"):
            Selection(**options)


def with_a_stray(index: int, sample: DenseSample) -> DenseSample:
    """A square of 60 x 60 pixels, and in every other photo 3 pixels far away."""
    import torch

    mask = torch.zeros(1, 300, 200, dtype=torch.bool)
    mask[0, 20:80, 30:90] = True
    mask[0, 290, 190:193] = index % 2 == 1
    image = torch.full((3, 300, 200), index, dtype=torch.uint8)
    return DenseSample.from_masks(image, mask, torch.tensor([0]))


class TestStrays:
    def test_a_stray_does_not_shrink_the_crop(self, tmp_path: Path) -> None:
        summary = build(Listed(5, with_a_stray), tmp_path / "bank", crop_size=(80, 80))
        assert (summary.num_crops, summary.num_trimmed) == (5, 2)
        bank = open_bank(tmp_path / "bank")
        for crop in (bank[i] for i in range(5)):
            assert crop.scale == 1.0
            assert np.array(crop.source_box).tolist() == [30, 20, 90, 80]
            assert crop.alpha.sum() == 3600
        assert bank.meta.built_from["min_part_frac"] == 0.02

    def test_kept_when_asked_for(self, tmp_path: Path) -> None:
        selection = Selection(min_part_frac=0)
        summary = build(Listed(2, with_a_stray), tmp_path / "bank", crop_size=(80, 80), selection=selection)
        assert summary.num_trimmed == 0
        scales = open_bank(tmp_path / "bank").read([0, 1], ["scale"])["scale"]
        assert scales[0] == 1
        assert scales[1] < 0.3

    def test_whoever_cuts_them_off(self, tmp_path: Path) -> None:
        """The same bytes, and the same count, also of parts that an earlier call made."""
        one = build(Listed(70, with_a_stray), tmp_path / "one", crop_size=(80, 80))
        with pytest.raises(DatasetError, match="not now"):
            build(Listed(70, fails_late), tmp_path / "other", crop_size=(80, 80))
        other = build(Listed(70, with_a_stray), tmp_path / "other", crop_size=(80, 80), workers=2)
        assert tree(tmp_path / "one") == tree(tmp_path / "other")
        assert one.num_trimmed == other.num_trimmed == 35

    def test_another_fraction_is_another_build(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="not now"):
            build(Listed(70, fails_late), tmp_path / "bank", crop_size=(80, 80))
        with pytest.raises(BankError, match=r"min_part_frac 0\.02 there, 0\.1 now"):
            build(
                Listed(70, with_a_stray),
                tmp_path / "bank",
                crop_size=(80, 80),
                selection=Selection(1, min_part_frac=0.1),
            )

    def test_what_is_a_stray(self) -> None:
        """Small, and outside of the box of what is large; diagonal neighbours are one part."""
        import torch

        def cut_off(*boxes: tuple[int, int, int, int]) -> list[int]:
            mask = torch.zeros(100, 120, dtype=torch.bool)
            for left, top, right, bottom in boxes:
                mask[top:bottom, left:right] = True
            kept = strays.without_strays(mask, 0.02)
            assert not (kept & ~mask).any()
            return [n for n, (x, y, *_) in enumerate(boxes) if not kept[y, x]]

        ring = [(10, 10, 60, 12), (10, 12, 12, 60), (58, 12, 60, 60)]
        assert cut_off(*ring, (30, 30, 32, 31), (100, 90, 102, 91)) == [4]
        assert cut_off((0, 0, 30, 30), (30, 30, 31, 31), (32, 32, 33, 33)) == [2]
        assert cut_off(*((x, 0, x + 1, 2) for x in range(0, 120, 2))) == []
        assert cut_off((0, 0, 50, 50), (60, 0, 70, 10)) == []

    def test_parts_against_a_flood_fill(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(300):
            mask = rng.random(rng.integers(1, 12, 2)) < rng.random()
            runs = strays._runs(mask)
            found = np.full(mask.shape, -1)
            for part, row, start, end in zip(strays._parts(*runs, mask.shape[1]), *runs, strict=True):
                found[row, start:end] = part
            np.testing.assert_array_equal(found, flooded(mask))


def flooded(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Number the connected parts in reading order, -1 outside."""
    found, num = np.full(mask.shape, -1), 0
    for place in zip(*np.nonzero(mask), strict=True):
        waiting = [place] if found[place] < 0 else []
        while waiting:
            y, x = waiting.pop()
            if found[y, x] < 0:
                found[y, x] = num
                near = found[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
                inside = mask[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
                waiting += [
                    (max(y - 1, 0) + r, max(x - 1, 0) + c) for r, c in np.argwhere((near < 0) & inside).tolist()
                ]
        num = int(found.max()) + 1
    return found


def fails_late(index: int, sample: DenseSample) -> DenseSample:
    if index == 60:
        raise DatasetError("not now")
    return with_a_stray(index, sample)


class TestKilledAnywhere:
    """At every change of a name on the disk: the same call then makes the same bank, or says that it is there."""

    def killed(self, kind: str, out: Path, moment: int) -> bool:
        """Build in a child that dies before its operation of this number; whether it died."""
        if (child := os.fork()) == 0:
            left = iter(range(moment))

            def counted(function: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any, **options: Any) -> Any:
                    if next(left, None) is None:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*args, **options)

                return call

            for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "fsync"):
                setattr(os, name, counted(getattr(os, name)))
            build(Listed(3), out, format=kind)
            os._exit(0)
        return os.waitpid(child, 0)[1] == signal.SIGKILL

    @FORMATS
    def test_the_same_call_goes_on(self, kind: str, tmp_path: Path) -> None:
        build(Listed(3), tmp_path / "expected", format=kind)
        moment, out = 0, tmp_path / "bank"
        while self.killed(kind, out, moment):
            if (out / "meta.json").exists():
                with pytest.raises(BankError, match="expected a new or an empty folder"):
                    build(Listed(3), out, format=kind)
            else:
                build(Listed(3), out, format=kind)
            assert tree(out) == tree(tmp_path / "expected"), moment
            assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "expected"], moment
            shutil.rmtree(out)
            moment += 1
        assert moment > 20


class TestKilledAtTheEnd:
    """When the bank has its name, and its parts are still there."""

    def killed(self, out: Path, in_remove: Callable[[Path], None]) -> None:
        if (child := os.fork()) == 0:

            def die(run: Run) -> None:
                in_remove(run.folder)
                os.kill(os.getpid(), signal.SIGKILL)

            Run.remove = die  # type: ignore[method-assign]
            build(Listed(3), out)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL

    @pytest.mark.parametrize("stage", ["before", "within", "after"])
    def test_the_next_call_removes_them(self, stage: str, tmp_path: Path) -> None:
        def removes(work: Path) -> None:
            if stage != "before":
                shutil.rmtree(work / "parts")
            if stage == "after":
                (work / "run.json").unlink()

        self.killed(tmp_path / "bank", removes)
        assert (tmp_path / "bank.parts").is_dir()
        assert len(open_bank(tmp_path / "bank")) == 3
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            build(Listed(3), tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank"]

    def test_parts_of_another_build_stay(self, tmp_path: Path) -> None:
        """A bank that was moved there meanwhile says nothing about them."""
        with pytest.raises(DatasetError, match="not now"):
            build(Listed(70, fails_late), tmp_path / "bank")
        build(Listed(3), tmp_path / "moved", margin_frac=0.5)
        (tmp_path / "moved").rename(tmp_path / "bank")
        before = tree(tmp_path / "bank.parts")
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            build(Listed(70, with_a_stray), tmp_path / "bank")
        assert tree(tmp_path / "bank.parts") == before


class Listed:
    """Photos from memory, each with one line of one pixel's width; what a photo becomes can be changed."""

    def __init__(self, num: int, change: Callable[[int, DenseSample], DenseSample] | None = None) -> None:
        self.num = num
        self.change = change

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> DenseSample:
        import torch

        mask = torch.zeros(1, 40, 40, dtype=torch.bool)
        mask[0, 20, 15:30] = True
        image = torch.full((3, 40, 40), index % 256, dtype=torch.uint8)
        sample = DenseSample.from_masks(image, mask, torch.tensor([0]))
        return self.change(index, sample) if self.change else sample

    def image_id(self, index: int) -> int:
        return index

    def annotation_ids(self, index: int) -> list[int]:
        return [100 * index]

    def left_out(self, index: int) -> dict[str, int]:
        return {}


def kill_this_process(index: int, sample: DenseSample) -> DenseSample:
    if index == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


class Remembering(CocoDetectionV2):
    """Decodes every photo once."""

    @cache  # noqa: B019 (a test's)
    def __getitem__(self, index: int) -> DenseSample:
        return super().__getitem__(index)


class Slow(CocoDetectionV2):
    def __getitem__(self, index: int) -> DenseSample:
        time.sleep(0.01)
        return super().__getitem__(index)


def build_slowly(folder: Path, out: Path) -> None:
    build(Slow(folder, folder / "labels.json"), out)


def build_on_a_full_disk(folder: Path, out: Path, limit: int, kind: str, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        build(open_photos(folder), out, format=kind)
    except Exception as error:
        answer.put(str(error))
    else:
        answer.put("")


class TestGoingOn:
    def test_after_a_kill(self, folder: Path, expected: dict[str, str], tmp_path: Path) -> None:
        child = get_context("fork").Process(target=build_slowly, args=(folder, tmp_path / "bank"))
        child.start()
        first = tmp_path / "bank.parts" / "parts" / "000000.json"
        while not first.exists():
            assert child.is_alive()
            time.sleep(0.005)
        child.kill()
        child.join()
        assert not (tmp_path / "bank").exists()
        with pytest.raises(BankError, match="expected a bank"):
            open_bank(tmp_path / "bank.parts")
        seen = []
        photos = open_photos(folder)
        read = photos._read_sample
        photos._read_sample = lambda record: seen.append(record["id"]) or read(record)  # type: ignore[method-assign,func-returns-value]
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected
        assert len(set(seen)) <= 70 - 32 + 1
        assert os.listdir(tmp_path) == ["bank"]

    @pytest.mark.parametrize("workers", [1, 2])
    def test_after_a_photo_was_repaired(
        self, workers: int, expected: dict[str, str], tmp_path: Path, folder: Path
    ) -> None:
        own = write_photos(tmp_path / "photos")
        whole = (own / "3.png").read_bytes()
        (own / "3.png").write_bytes(whole[:90])
        with pytest.raises(DatasetError, match=r"3\.png.*bank\.parts keeps what is finished; the same call goes on"):
            build(open_photos(own), tmp_path / "bank", workers=workers)
        assert not (tmp_path / "bank").exists()
        (own / "3.png").write_bytes(whole)
        build(open_photos(own), tmp_path / "bank", workers=workers)
        assert tree(tmp_path / "bank") == expected

    def test_nothing_finished_nothing_left(self, tmp_path: Path) -> None:
        def no_masks(index: int, sample: DenseSample) -> DenseSample:
            return DenseSample(image=sample.image, boxes=sample.boxes, labels=sample.labels)

        with pytest.raises(BankError, match="image 0: expected instance_masks, got none; objects are cut out by their"):
            build(Listed(3, no_masks), tmp_path / "bank")
        assert list(tmp_path.iterdir()) == []

    def test_not_with_other_arguments(
        self, photos: CocoDetectionV2, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(build_module, "_write", interrupt)
            with pytest.raises(KeyboardInterrupt, match="keeps what is finished"):
                build(photos, tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank.parts"]
        with pytest.raises(
            BankError, match=r"unfinished run with other arguments: margin_frac 0\.0625 there, 0\.5 now"
        ):
            build(photos, tmp_path / "bank", margin_frac=0.5)
        build(photos, tmp_path / "bank", format="memmap", workers=2)
        assert tree(tmp_path / "bank") == expected

    def test_killed_in_the_first_part(self, photos: CocoDetectionV2, tmp_path: Path) -> None:
        """Nothing was finished, so the next build may have other arguments."""
        build(photos, tmp_path / "expected", margin_frac=0.5)
        parts = tmp_path / "bank.parts" / "parts"
        parts.mkdir(parents=True)
        (parts.parent / "run.json").write_text('{"margin_frac": 0.25}')
        (parts / "000000.images").write_text("half of a part")
        build(photos, tmp_path / "bank", margin_frac=0.5)
        assert tree(tmp_path / "bank") == tree(tmp_path / "expected")
        assert not parts.parent.exists()

    def test_a_part_that_was_changed(
        self, photos: CocoDetectionV2, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is found, and made anew by the next call."""
        write = build_module._write

        def change(maker: Any, writer: Any) -> Any:
            part = maker.notes.path(1, "rows")
            content = bytearray(part.read_bytes())
            content[5] ^= 1
            part.write_bytes(content)
            return write(maker, writer)

        with monkeypatch.context() as patch:
            patch.setattr(build_module, "_write", change)
            with pytest.raises(BankError, match=r"000001\.rows: expected what was written there, it was changed"):
                build(photos, tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank.parts"]
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected

    @pytest.mark.parametrize("harm", ["no rows", "cut rows", "empty json", "cut json", "no object"])
    def test_a_part_that_lost_a_file(
        self,
        harm: str,
        photos: CocoDetectionV2,
        expected: dict[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """As a crash of the machine may leave it; it counts as not done."""

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(build_module, "_write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                build(photos, tmp_path / "bank")
        rows, found = (tmp_path / "bank.parts" / "parts" / f"000001.{kind}" for kind in ("rows", "json"))
        if harm == "no rows":
            rows.unlink()
        else:
            path = rows if harm == "cut rows" else found
            length = 0 if harm == "empty json" else path.stat().st_size // 2
            path.write_bytes(b"[1]" if harm == "no object" else path.read_bytes()[:length])
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected

    def test_not_with_another_fingerprint(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is no part of the bank."""

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(build_module, "_write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                build(Listed(2), tmp_path / "bank", fingerprint={"folder": "a"})
        with pytest.raises(BankError, match='with other arguments: folder "a" there, "b" now'):
            build(Listed(2), tmp_path / "bank", fingerprint={"folder": "b"})
        build(Listed(2), tmp_path / "bank", fingerprint={"folder": "a"})
        build(Listed(2), tmp_path / "other")
        assert tree(tmp_path / "bank") == tree(tmp_path / "other")

    def test_a_worker_that_is_killed(self, tmp_path: Path) -> None:
        with pytest.raises(BankError, match="a worker process was killed"):
            build(Listed(70, kill_this_process), tmp_path / "bank", workers=2)
        assert not (tmp_path / "bank").exists()

    @pytest.mark.parametrize(("limit", "kind"), [(3_000, "memmap"), (32_000, "memmap"), (32_000, "lmdb")])
    def test_a_full_disk(self, limit: int, kind: str, folder: Path, expected: dict[str, str], tmp_path: Path) -> None:
        """In a part's file, and in the bank's own."""
        context = get_context("fork")
        answer = context.Queue()
        child = context.Process(target=build_on_a_full_disk, args=(folder, tmp_path / "bank", limit, kind, answer))
        child.start()
        message = answer.get(timeout=60)
        child.join()
        assert re.search(
            rf"{tmp_path}/bank.*(File too large|is the disk full)|File too large: .*{tmp_path}/bank", message
        )
        assert not (tmp_path / "bank").exists()
        assert not (tmp_path / "bank.partial").exists()
        assert (tmp_path / "bank.parts").exists() == (limit > 3_000)
        assert not list(tmp_path.rglob(".*.partial"))
        build(open_photos(folder), tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"format": "zip"}, f"expected a format among {', '.join(WRITERS)}, got 'zip'"),
            ({"engine": "dask"}, "expected the engine local or ray"),
            ({"workers": 0}, "expected workers >= 1"),
            ({"margin_frac": -1.0}, "margin_frac from 0 to 10"),
            ({"crop_size": (0, 4)}, "expected crop_size"),
            ({"groups": ["colour"]}, "expected groups of columns among"),
            ({"groups": ["depth"]}, "image 0: crop: expected depth, for the bank keeps depth, got None"),
            ({"class_names": []}, "image 0: expected labels from 0 to -1, got 0 to 0"),
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any], words: str, tmp_path: Path) -> None:
        with pytest.raises(BankError, match=words):
            build(Listed(2), tmp_path / "bank", **options)
        assert list(tmp_path.iterdir()) == []

    def test_a_url_takes_shards(self) -> None:
        with pytest.raises(BankError, match="expected format webdataset for a URL, got 'memmap'"):
            build(Listed(2), "s3://bucket/objects")  # type: ignore[arg-type]

    def test_a_file_url_is_a_path(self, tmp_path: Path) -> None:
        where = build(Listed(2), f"file://{tmp_path}/bank", work_dir=f"file://{tmp_path}/work").where  # type: ignore[arg-type]
        assert where == str(tmp_path / "bank")
        assert os.listdir(tmp_path) == ["bank"]

    @pytest.mark.parametrize(
        ("out", "work"), [("W/bank", "W"), ("V", "V"), ("V", "V/parts"), ("V", "X/../V"), ("V", "V.partial")]
    )
    def test_a_work_folder_that_is_not_apart(self, out: str, work: str, tmp_path: Path) -> None:
        with pytest.raises(BankError, match=r"expected a work folder that is neither in .*, nor around it"):
            build(Listed(2), tmp_path / out, work_dir=tmp_path / work)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(BankError, match="s3://b/w: expected a work folder on a disk"):
            build(Listed(2), tmp_path / out, work_dir="s3://b/w")

    def test_only_what_it_made_is_removed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write = build_module._write

        def add_a_file(maker: Any, writer: Any) -> Any:
            (tmp_path / "work" / "mine.txt").write_text("mine")
            return write(maker, writer)

        monkeypatch.setattr(build_module, "_write", add_a_file)
        build(Listed(2), tmp_path / "bank", work_dir=tmp_path / "work")
        assert os.listdir(tmp_path / "work") == ["mine.txt"]

    @pytest.mark.parametrize("kind", ["image", "annotation"])
    def test_ids_beyond_64_bits(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if kind == "image":
            monkeypatch.setattr(Listed, "image_id", lambda self, index: 2**70 + index)
        else:
            monkeypatch.setattr(Listed, "annotation_ids", lambda self, index: [2**70])
        with pytest.raises(BankError, match=rf"expected ids from .*, got the {kind} id {2**70}; give it another"):
            build(Listed(2), tmp_path / "bank")
        assert list(tmp_path.iterdir()) == []

    def test_a_bank_that_is_there(self, tmp_path: Path) -> None:
        build(Listed(2), tmp_path / "bank")
        before = tree(tmp_path)
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            build(Listed(3), tmp_path / "bank")
        assert tree(tmp_path) == before

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_leads_to_where_the_bank_goes(self, exists: bool, tmp_path: Path) -> None:
        if exists:
            (tmp_path / "far").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "far")
        build(Listed(2), tmp_path / "link")
        assert sorted(os.listdir(tmp_path)) == ["far", "link"]
        assert (tmp_path / "link").is_symlink()
        open_bank(tmp_path / "link").verify()

    def test_what_will_be_refused_is_refused_before_anything_is_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(build_module, "_make_missing", lambda *_: pytest.fail("cut"))
        (tmp_path / "foreign.partial").mkdir()
        (tmp_path / "foreign.partial" / "mine.txt").write_text("mine")
        (tmp_path / "file").write_text("mine")
        before = tree(tmp_path)
        cases: list[tuple[Any, dict[str, Any], str]] = [
            (tmp_path / "foreign", {}, r"foreign\.partial: expected no folder, .*, found mine\.txt; move it away"),
            (tmp_path / "file" / "x", {}, "expected a path within folders, .*file is a file"),
            (tmp_path / "new", {"work_dir": tmp_path / "file"}, "file: expected a work folder, it is a file"),
            ("foo://bucket/bank", {"format": "webdataset"}, "foo"),
        ]
        for out, options, words in cases:
            with pytest.raises((BankError, ValueError), match=words):
                build(Listed(2), out, **options)
        (tmp_path / "mount").mkdir()
        monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "mount")
        with pytest.raises(BankError, match="mount: expected a folder that can be renamed, it is a mount point"):
            build(Listed(2), tmp_path / "mount")
        (tmp_path / "mount").rmdir()
        assert tree(tmp_path) == before

    def test_no_photos_and_ids_that_come_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(BankError, match="expected at least one photo"):
            build(Listed(0), tmp_path / "bank")
        monkeypatch.setattr(Listed, "image_id", lambda self, index: index // 2)
        with pytest.raises(BankError, match="expected unique image ids, got 0 twice"):
            build(Listed(4), tmp_path / "bank")


@pytest.fixture
def ray() -> Iterator[None]:
    """A small Ray on this machine; what comes after it should not fork, so it is for the last test."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=80 << 20,
        )
        yield
        ray.shutdown()


def test_ray(folder: Path, expected: dict[str, str], tmp_path: Path, ray: None) -> None:
    """An error comes as it is, what was finished stays, and the bytes are those of a local build."""
    with pytest.raises(BankError, match="expected a Ray cluster of at least 3 CPUs, one for each worker, got 2"):
        build(open_photos(folder), tmp_path / "bank", engine="ray", workers=3)
    own = write_photos(tmp_path / "photos")
    (own / "3.png").rename(tmp_path / "away.png")
    with pytest.raises(DatasetError, match=r"^\S+3.png: expected an image, found no such file"):
        build(open_photos(own), tmp_path / "bank", engine="ray")
    (tmp_path / "away.png").rename(own / "3.png")
    build(open_photos(own), tmp_path / "bank", engine="ray")
    assert tree(tmp_path / "bank") == expected
