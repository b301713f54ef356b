"""Void that is a contour, and holes in depth: the commands set, print and record the options, and replay obeys them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_cli_maps import rgbd

from cutout_files import write_backgrounds
from map_files import NUM, save
from segpaste.bank import DatasetBank, build_bank, open_bank
from segpaste.cli import main
from segpaste.datasets import open_dataset
from segpaste.datasets.formats.registry import FORMATS
from segpaste.replay import read_records

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
from drawn_files import write_voc

WORDS = ["--num", "4", "--layout", "label-maps", "--gallery", "0"]


def said(capsys: pytest.CaptureFixture[str], start: str) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(start)]


class TestVoid:
    def test_only_voc_has_contours(self) -> None:
        assert [known.name for known in FORMATS if known.void_is_contour] == ["voc"]

    @pytest.mark.parametrize(("word", "is_covered"), [([], True), (["placement.cover_void=false"], False)])
    def test_augment_and_replay(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], word: list[str], is_covered: bool
    ) -> None:
        dataset, out = write_voc(tmp_path / "voc"), tmp_path / "out"
        assert main(["augment", str(dataset), "--out", str(out), *WORDS, *word]) == 0
        (line,) = said(capsys, "void")
        assert line.endswith(f"(placement.cover_void={str(is_covered).lower()})")
        records = list(read_records(out / "replay.jsonl"))
        assert {record.config.placement.cover_void for record in records} == {is_covered}
        assert main(["replay", str(out), "--dataset", str(dataset), "--check", str(out)]) == 0

    def test_a_dry_run_says_so_and_other_formats_say_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["augment", "--out", str(tmp_path / "out"), "--num", "2", "--dry-run"]
        assert main([*words, str(write_voc(tmp_path / "voc"))]) == 0
        assert len(said(capsys, "void")) == 1
        assert main([*words, "scenes"]) == 0
        assert said(capsys, "void") == []


class TestBackgrounds:
    @pytest.mark.parametrize("layout", ["voc", "label-maps", "coco"])
    def test_are_background_in_the_maps(self, tmp_path: Path, layout: str) -> None:
        """Backgrounds beside VOC have maps of its background, into which objects are pasted."""
        dataset, rooms, out = write_voc(tmp_path / "voc"), write_backgrounds(tmp_path / "rooms", 3), tmp_path / "out"
        inputs = [str(dataset), "--backgrounds", str(rooms)]
        words = ["--num", "12", "--layout", layout, "--gallery", "0", "placement.scale_range=[0.5,0.8]"]
        assert main(["augment", *inputs, "--out", str(out), *words]) == 0
        records = list(read_records(out / "replay.jsonl"))
        assert main(["replay", str(out), "--dataset", *inputs, "--check", str(out)]) == 0
        if layout == "coco":
            return
        folder = out / ("SegmentationClass" if layout == "voc" else "semantic/train")
        values = [set(np.unique(np.array(Image.open(file))).tolist()) for file in sorted(folder.glob("*.png"))]
        found = [own for own, record in zip(values, records, strict=True) if record.photos[0].index >= 3]
        assert len(found) == 6
        assert all(0 in own and 255 not in own for own in found)
        assert sum(bool(own & {1, 2}) for own in found) > 3

    def test_are_no_sources_of_classes(self, tmp_path: Path) -> None:
        """Classes are taken from annotated images; a room would cover its target with background."""
        dataset, rooms, out = write_voc(tmp_path / "voc"), write_backgrounds(tmp_path / "rooms", 3), tmp_path / "out"
        words = ["--num", "12", "--layout", "label-maps", "--gallery", "0", "emit_classmix=true"]
        assert main(["augment", str(dataset), "--backgrounds", str(rooms), "--out", str(out), *words]) == 0
        records = list(read_records(out / "replay.jsonl"))
        assert {photo.index for record in records for photo in record.photos[1:]} == {0, 1, 2}


@pytest.fixture(scope="module")
def holes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RGB-D frames of a sensor that misses every third column."""
    root = tmp_path_factory.mktemp("holes")
    path = rgbd(root)
    for index in range(NUM):
        file = root / "in" / f"{index}.depth.png"
        stored = np.array(Image.open(file))
        stored[:, ::3] = 0
        save(file, stored)
    return path


def in_objects(sample: Any) -> torch.Tensor:
    """Holes inside objects."""
    return ~sample.depth_valid & sample.instance_masks.as_subclass(torch.Tensor).any(0)


class TestHoles:
    def test_readers(self, holes: Path) -> None:
        plain, filled = open_dataset(holes), open_dataset(holes, depth_fill=True)
        for index in range(NUM):
            before, after = plain[index], filled[index]
            inside = in_objects(before)
            assert inside.any()
            assert (before.depth[inside] == 0).all()
            assert (after.depth[inside] > 0).all()
            assert torch.equal(after.depth[~inside], before.depth[~inside])
            assert torch.equal(after.depth_valid, before.depth_valid)

    @pytest.mark.parametrize("opens", [False, True])
    def test_banks(self, holes: Path, tmp_path: Path, opens: bool) -> None:
        photos = open_dataset(holes, depth_fill=opens)
        build_bank(photos, tmp_path / "bank", class_names=photos.class_names, depth_fill=not opens, crop_size=(32, 32))
        for bank in (open_bank(tmp_path / "bank"), DatasetBank(open_dataset(holes, depth_fill=True))):
            crops = bank.read(range(len(bank)))
            missing = ~crops["depth_valid"].astype(bool) & crops["alpha"].astype(bool)
            known = (crops["depth_valid"].astype(bool) & crops["alpha"].astype(bool)).any((1, 2, 3))
            assert missing[known].any()
            assert (crops["depth"][known][missing[known]] > 0).all()

    def test_the_commands(self, holes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "out"
        words = ["--num", "4", "--gallery", "0", "--size", "40x40", "placement.scale_range=[0.5,0.7]"]
        assert main(["augment", str(holes), "--out", str(out), "--depth-fill", *words]) == 0
        assert said(capsys, "depth")[0].endswith("(depth_order=value)")
        records = list(read_records(out / "replay.jsonl"))
        assert {(record.depth_fill, record.config.depth_order) for record in records} == {(True, "value")}
        for file in (out / "depth").rglob("*.npy"):
            valid = np.load(file) > 0
            mask = file.relative_to(out / "depth").with_suffix(".png")
            assert not (valid & ~(np.array(Image.open(out / "depth_valid" / mask)) > 0)).any()
        assert main(["replay", str(out), "--dataset", str(holes), "--check", str(out)]) == 0
