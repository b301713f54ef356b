"""A build is a pure function of the dataset: whoever makes it, in whatever order; what it keeps and refuses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from build_cases import ALL, FORMATS, SIZE, Listed, build, fails_late, joined, with_a_stray, write_parts
from photo_folder import open_photos, write_photos

from on_disk import tree
from segpaste.augmenting.inputs import open_scenes
from segpaste.bank import BankError, Selection, open_bank
from segpaste.bank.building import _strays
from segpaste.bank.building import build_bank as build_module
from segpaste.bank.building.cropping import crop_object
from segpaste.bank.format import WRITERS
from segpaste.datasets import CocoDetectionV2, DatasetError
from segpaste.datasets.mask_parts import parts_of, runs_of
from segpaste.types import DenseSample


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

        def first_is_wide(index: int, sample: DenseSample) -> DenseSample:
            return with_a_stray(0, sample) if index == 0 else sample

        summary = build(Listed(2, first_is_wide), tmp_path / "bank", crop_size=(4, 4), margin_frac=10.0)
        assert (summary.num_crops, summary.skipped["vanished"]) == (1, 1)

    @pytest.mark.parametrize("kind", WRITERS)
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"crop_size": (4, 4), "margin_frac": 10.0}, r"\(no pixel left after shrinking: 40\); raise crop_size \("),
            ({"selection": Selection()}, r"\(smaller than the minimum area: 40\); lower min_area_px \(--min-area\)"),
        ],
    )
    def test_no_object_at_all(self, options: dict[str, Any], message: str, kind: Any, tmp_path: Path) -> None:
        """Nothing is left, so that a build with other options can follow at once."""
        with pytest.raises(
            BankError, match=rf"bank: expected at least one object to cut .*none in 40 images {message}"
        ):
            build(Listed(40), tmp_path / "bank", format=kind, **options)
        assert os.listdir(tmp_path) == []
        assert build(Listed(40), tmp_path / "bank", format=kind).num_crops == 40

    def test_no_annotation_at_all(self, tmp_path: Path) -> None:
        def without_objects(index: int, sample: DenseSample) -> DenseSample:
            return DenseSample.from_masks(sample.image, torch.zeros(0, 40, 40, dtype=torch.bool), torch.zeros(0).long())

        photos = Listed(2, without_objects)
        with pytest.raises(BankError, match=r"in 2 images \(no annotation of an object\); check the annotations"):
            build(photos, tmp_path / "bank")

    def test_reasons_of_the_dataset(self, tmp_path: Path) -> None:
        photos = Listed(3)
        photos.left_out = lambda index: {"crowd": index, "empty": 1}  # type: ignore[method-assign]
        skipped = build(photos, tmp_path / "bank").skipped
        assert {reason: num for reason, num in skipped.items() if num} == {"crowd": 3, "empty": 3}
        photos.left_out = lambda index: {"dont care": 1}  # type: ignore[method-assign]
        with pytest.raises(
            BankError, match=r"image 0: left_out\(0\): expected reasons among crowd, .* got 'dont care'"
        ):
            build(photos, tmp_path / "other")
        assert os.listdir(tmp_path) == ["bank"]

    @pytest.mark.parametrize(
        "left_out", [None, ["crowd"], 3, {"crowd": -5}, {"crowd": 1, "empty": 2.5}, {"crowd": "1"}, {"crowd": True}]
    )
    def test_counts_of_the_dataset_that_are_none(self, left_out: Any, tmp_path: Path) -> None:
        photos = Listed(1)
        photos.left_out = lambda index: left_out  # type: ignore[method-assign]
        words = (
            "image 0: left_out(0): expected a dictionary of counts by reason, whole numbers >= 0, such as "
            f"{{'crowd': 2}}, or {{}}, got {left_out!r}"
        )
        with pytest.raises(BankError, match=rf"^{re.escape(words)}$"):
            build(photos, tmp_path / "bank")

    def test_counts_of_numpy(self, tmp_path: Path) -> None:
        photos = Listed(2)
        photos.left_out = lambda index: {"crowd": np.int64(index)}  # type: ignore[dict-item, method-assign]
        assert build(photos, tmp_path / "bank").skipped["crowd"] == 1

    @pytest.mark.parametrize("error", [DatasetError("not now"), FileNotFoundError("a.png")])
    def test_no_image_that_can_be_read(self, error: Exception, tmp_path: Path) -> None:
        def fails(index: int, sample: DenseSample) -> DenseSample:
            raise error

        with pytest.raises(BankError, match=r"got none in 3 images \(unreadable images: 3\); repair the images"):
            build(Listed(3, fails), tmp_path / "bank", skip_unreadable=True)
        with pytest.raises(type(error), match=str(error)):
            build(Listed(3, fails), tmp_path / "bank")
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("options", [{"min_area_px": 0}, {"min_fill_frac": 1.5}, {"min_part_frac": -0.1}])
    def test_bad_ones(self, options: dict[str, Any]) -> None:
        with pytest.raises(BankError, match="expected min_"):
            Selection(**options)


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
        """The bytes are the same, and so is the count, also of parts that an earlier call made."""
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
        """A stray is small, and outside the box of the large part; diagonal neighbours are one part."""
        import torch

        def cut_off(*boxes: tuple[int, int, int, int]) -> list[int]:
            mask = torch.zeros(100, 120, dtype=torch.bool)
            for left, top, right, bottom in boxes:
                mask[top:bottom, left:right] = True
            kept = _strays.without_strays(mask, 0.02)
            assert not (kept & ~mask).any()
            return [n for n, (x, y, *_) in enumerate(boxes) if not kept[y, x]]

        ring = [(10, 10, 60, 12), (10, 12, 12, 60), (58, 12, 60, 60)]
        assert cut_off(*ring, (30, 30, 32, 31), (100, 90, 102, 91)) == [4]
        assert cut_off((0, 0, 30, 30), (30, 30, 31, 31), (32, 32, 33, 33)) == [2]
        assert cut_off(*((x, 0, x + 1, 2) for x in range(0, 120, 2))) == []
        assert cut_off((0, 0, 50, 50), (60, 0, 70, 10)) == []
        assert cut_off((0, 0, 50, 50), (60, 50, 62, 51)) == [1]  # one run in each row
        assert cut_off((60, 0, 110, 50), (50, 50, 52, 51)) == [1]

    def test_parts_against_a_flood_fill(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(300):
            mask = rng.random(rng.integers(1, 12, 2)) < rng.random()
            runs = runs_of(mask)
            found = np.full(mask.shape, -1)
            for part, row, start, end in zip(parts_of(runs, mask.shape[1]), *runs, strict=True):
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


class Remembering(CocoDetectionV2):
    """Decodes every photo once."""

    @cache  # noqa: B019 (a test's)
    def __getitem__(self, index: int) -> DenseSample:
        return super().__getitem__(index)


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"format": "zip"}, f"expected a format among {', '.join(WRITERS)}, got 'zip'"),
            ({"engine": "dask"}, "expected the engine local or ray"),
            ({"workers": 0}, "expected workers >= 1"),
            ({"margin_frac": -1.0}, "margin_frac from 0 to 10"),
            ({"crop_size": (0, 4)}, r"crop_size: expected \(height, width\) in pixels, .* got \(0, 4\)"),
            ({"groups": ["colour"]}, "expected groups of columns among"),
            ({"groups": ["depth"]}, "image 0: crop: expected depth, since the bank keeps depth, got None"),
            ({"class_names": []}, "image 0: expected labels from 0 to -1, got 0 to 0"),
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any], words: str, tmp_path: Path) -> None:
        with pytest.raises(BankError, match=words):
            build(Listed(2), tmp_path / "bank", **options)
        assert list(tmp_path.iterdir()) == []

    def test_datasets_with_invalid_ids(self, tmp_path: Path) -> None:
        of_text, too_few = Listed(1), Listed(1)
        of_text.image_id = lambda index: "a.png"  # type: ignore[assignment, method-assign, return-value]
        with pytest.raises(BankError, match=r"expected an integer as image id, got 'a\.png'; number them"):
            build(of_text, tmp_path / "bank")
        too_few.annotation_ids = lambda index: []  # type: ignore[assignment, method-assign]
        with pytest.raises(BankError, match=r"image 0: expected \d+ ids of annotation_ids\(0\), since .* got 0"):
            build(too_few, tmp_path / "other")

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
        with pytest.raises(BankError, match=r"expected a work folder that is neither inside nor a parent of"):
            build(Listed(2), tmp_path / out, work_dir=tmp_path / work)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(BankError, match="s3://b/w: expected a work folder on a disk"):
            build(Listed(2), tmp_path / out, work_dir="s3://b/w")

    def test_only_what_it_made_is_removed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write = build_module._write

        def add_a_file(*args: Any) -> Any:
            (tmp_path / "work" / "mine.txt").write_text("mine")
            return write(*args)

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
            (tmp_path / "new", {"work_dir": tmp_path / "file"}, "file: expected a work folder, got a file"),
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
        with pytest.raises(BankError, match="expected at least one image"):
            build(Listed(0), tmp_path / "bank")
        monkeypatch.setattr(Listed, "image_id", lambda self, index: index // 2)
        with pytest.raises(BankError, match="expected unique image ids, got 0 twice"):
            build(Listed(4), tmp_path / "bank")


@pytest.fixture
def ray() -> Iterator[None]:
    """A small Ray on this machine; what comes after it should not fork, so it is for the last test."""
    import ray

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


def test_ray(tmp_path: Path, ray: None) -> None:
    """An error comes as it is, what was finished stays, and the bytes are those of a local build."""
    parts = write_parts(tmp_path / "parts")
    photos = joined(parts)
    build(photos, tmp_path / "local", class_names=["cup"])
    with pytest.raises(BankError, match="expected a Ray cluster of at least 3 CPUs, one for each worker, got 2"):
        build(photos, tmp_path / "bank", class_names=["cup"], engine="ray", workers=3)
    missing = parts[1] / "3.png"
    missing.rename(tmp_path / "away.png")
    with pytest.raises(DatasetError, match=r"^\S+3.png: expected an image, found no such file"):
        build(photos, tmp_path / "bank", class_names=["cup"], engine="ray")
    assert (tmp_path / "bank.parts").is_dir()
    (tmp_path / "away.png").rename(missing)
    build(photos, tmp_path / "bank", class_names=["cup"], engine="ray")
    assert tree(tmp_path / "bank") == tree(tmp_path / "local")
