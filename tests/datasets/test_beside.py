"""Depth, normals and cameras beside annotations: every written format is read again with them."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from segpaste.cli import main
from segpaste.datasets import convert_dataset, make_large_scale_jittering, open_dataset
from segpaste.datasets.conversion.entries import (
    BEYOND_FLOAT32,
    INVALID_DEPTH,
    NO_NORMAL,
    ROUNDED_DEPTH,
    ROUNDED_NORMALS,
)
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.pixel_bytes import DepthFormat, npy_bytes, picture_bytes
from segpaste.datasets.writers.dataset_writer import UNREAD_DEPTH, DatasetWriter
from segpaste.types import DenseSample
from segpaste.workspace import WholeFiles

NUM = 2


@pytest.fixture(scope="module")
def rgbd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An augmented dataset of scenes, whose files lie in folders without splits."""
    out = tmp_path_factory.mktemp("rgbd") / "out"
    assert main(["augment", "scenes", "--out", str(out), "--num", str(NUM), "--size", "40", "--gallery", "0"]) == 0
    return out


def assert_same_geometry(one: DenseSample, other: DenseSample) -> None:
    assert one.depth is not None
    assert one.depth_valid is not None
    assert one.normals is not None
    assert other.normals is not None
    assert torch.equal(one.depth, other.depth)
    assert torch.equal(one.depth_valid, other.depth_valid)
    assert (one.normals - other.normals).abs().max() < 1e-6
    assert one.camera_intrinsics == other.camera_intrinsics
    assert one.metric_depth
    assert other.metric_depth


@pytest.mark.parametrize("to", ["coco", "coco-panoptic", "lvis", "roboflow", "yolo", "voc", "label-maps"])
def test_every_format_keeps_them(rgbd: Path, to: str, tmp_path: Path) -> None:
    """Twice, for the second conversion has folders of splits to read."""
    first = convert_dataset(rgbd, tmp_path / "first", to)
    second = convert_dataset(tmp_path / "first", tmp_path / "second", to)
    assert not {name for losses in (first.losses, second.losses) for name in losses if "folder" in name}
    own = open_dataset(rgbd)
    for out in ("first", "second"):
        photos = open_dataset(tmp_path / out)
        assert len(photos) == NUM
        for index in range(NUM):
            assert_same_geometry(own[index], photos[index])


def test_a_camera_of_the_entry(rgbd: Path, tmp_path: Path) -> None:
    shutil.copytree(rgbd, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/intrinsics")
    assert_same_geometry(open_dataset(rgbd)[1], open_dataset(tmp_path / "out")[1])


def test_jittered_samples_have_them(rgbd: Path) -> None:
    jitter = make_large_scale_jittering(24)
    photos = open_dataset(rgbd, format="coco")
    sample = photos.read_jittered(0, jitter, 5)
    assert_same_geometry(jitter(photos[0], 5), sample)


def test_depth_in_other_files_is_named(rgbd: Path, tmp_path: Path) -> None:
    """Millimetres of PNG files are read by a declaration alone: other datasets mean other units."""
    losses = convert_dataset(rgbd, tmp_path / "png", "coco", depth_format="png").losses
    assert losses[UNREAD_DEPTH] == NUM
    shutil.rmtree(tmp_path / "png/normals")
    assert open_dataset(tmp_path / "png")[0].depth is None
    losses = convert_dataset(tmp_path / "png", tmp_path / "out", "coco").losses
    assert losses == {"folder 'depth'": 1, "folder 'intrinsics'": 1}


@pytest.mark.parametrize("to", ["coco", "coco-panoptic", "lvis", "roboflow", "yolo", "voc", "label-maps"])
def test_depth_as_png_is_read_again_or_named(rgbd: Path, to: str, tmp_path: Path) -> None:
    losses = convert_dataset(rgbd, tmp_path / "out", to, depth_format="png").losses
    sample = open_dataset(tmp_path / "out")[0]
    assert losses.get(UNREAD_DEPTH, 0) == (NUM if sample.depth is None else 0)
    assert (sample.depth is not None) == (to == "label-maps")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("depth/000002.npy", None, "depth/000002.npy: expected a map, found no such file"),
        ("depth_valid/000002.png", None, "depth_valid/000002.png: expected a map, found no such file"),
        ("depth/000002.npy", np.ones((7, 5), np.float32), r"expected \[7, 5\] pixels like depth, got \[40, 40\]"),
        ("normals/000002.npy", np.ones((7, 5, 3), np.float32), "000002.png: depth, normals or camera beside it"),
        ("normals/000002.npy", np.ones((40, 40), np.float32), "normals/000002.npy: convert_normals: expected floats"),
    ],
)
def test_broken_files(rgbd: Path, tmp_path: Path, name: str, change: object, message: str) -> None:
    shutil.copytree(rgbd, tmp_path / "out")
    path = tmp_path / "out" / name
    path.unlink()
    if isinstance(change, np.ndarray):
        np.save(path, change)
    photos = open_dataset(tmp_path / "out")
    assert photos[0].depth is not None
    with pytest.raises(DatasetError, match=message):
        photos[1]


def test_a_broken_camera(rgbd: Path, tmp_path: Path) -> None:
    shutil.copytree(rgbd, tmp_path / "out")
    (tmp_path / "out/intrinsics/000001.txt").write_text("0 0\n")
    with pytest.raises(DatasetError, match=r"intrinsics/000001.txt"):
        open_dataset(tmp_path / "out")[0]


def test_maps_alone_are_checked_by_what_is_known(
    tmp_path: Path, rgbd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Maps in the folder of the photos are no photos, and objects in their pixels are unknown without decoding."""
    (tmp_path / "in").mkdir()
    for path in sorted((rgbd / "images").iterdir()):
        shutil.copy(path, tmp_path / "in" / path.name)
        shutil.copy(rgbd / "depth_valid" / path.name, tmp_path / "in" / f"{path.stem}.mask.png")
    lines = "root: in", "classes: [floor, thing]", "photos: '{name}.png'"
    text = "\n".join([*lines, "instances: {files: '{name}.mask.png', encoding: mask, class: thing}\n"])
    (tmp_path / "segpaste.yaml").write_text(text)
    assert main(["check", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "unlisted_photo" not in printed
    assert "no_annotation" not in printed
    assert "objects    unknown" in printed
    assert main(["check", str(tmp_path), "--decode"]) == 0
    printed = capsys.readouterr().out
    assert f"{NUM} images, {NUM} objects of 2 classes" in printed
    assert "unlisted_photo" not in printed


def test_a_declaration_is_no_table(rgbd: Path, tmp_path: Path) -> None:
    convert_dataset(rgbd, tmp_path / "maps", "label-maps")
    assert not convert_dataset(tmp_path / "maps", tmp_path / "again", "label-maps").losses


@pytest.mark.parametrize("to", ["coco", "yolo", "label-maps"])
def test_stored_normals_and_cameras_are_written_bit_by_bit(rgbd: Path, to: str, tmp_path: Path) -> None:
    """Also those of another length, which samples have as unit vectors or as invalid ones."""
    shutil.copytree(rgbd, tmp_path / "in")
    for path in sorted((tmp_path / "in/normals").iterdir()):
        normals = np.load(path)
        normals[:5] *= np.float32(0.95)
        normals[5:9] *= np.float32(0.5)
        normals[9, :2] = [[0, np.nan, -0.0], [0.1, 0.2, -0.97]]
        np.save(path, normals)
        camera = tmp_path / "in/intrinsics" / f"{path.stem}.txt"
        camera.write_text("50.1 0 31.7\n0 51.3 22.9\n0 0 1\n")
    own = open_dataset(tmp_path / "in")
    convert_dataset(tmp_path / "in", tmp_path / "first", to)
    convert_dataset(tmp_path / "first", tmp_path / "second", "coco")
    for out in (tmp_path / "first", tmp_path / "second"):
        for index, path in enumerate(sorted((tmp_path / "in/normals").iterdir())):
            assert np.load(next(out.glob(f"normals/**/{path.name}"))).tobytes() == np.load(path).tobytes()
            text = next(out.glob(f"intrinsics/**/{path.stem}.txt")).read_text()
            assert list(map(float, text.split())) == [50.1, 0, 31.7, 0, 51.3, 22.9, 0, 0, 1]
            assert_same_geometry(own[index], open_dataset(out)[index])


def _write_wide(folder: Path) -> None:
    """Depth and normals of float64: three rows of them invalid in ways of their own, one masked, one pixel too far."""
    for path in sorted((folder / "depth").iterdir()):
        depth = np.full(np.load(path).shape, 1.5)
        depth[0], depth[1], depth[2], depth[4, 0], depth[5, 0] = np.nan, -2, np.inf, 1e300, 1 / 3
        np.save(path, depth)
        valid = np.full(depth.shape, 255, np.uint8)
        valid[3] = 0
        Image.fromarray(valid).save(folder / "depth_valid" / f"{path.stem}.png")
    path = min((folder / "normals").iterdir())
    np.save(path, np.load(path).astype(np.float64) / 3)


@pytest.mark.parametrize("to", ["coco", "label-maps"])
def test_values_that_are_written_otherwise(
    rgbd: Path, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are named with their number; they are no losses, since what is invalid stays invalid."""
    shutil.copytree(rgbd, tmp_path / "in")
    _write_wide(tmp_path / "in")
    own = open_dataset(tmp_path / "in")
    summary = convert_dataset(tmp_path / "in", tmp_path / "out", to)
    width = own[0].canvas_size[1]
    assert summary.losses.pop(BEYOND_FLOAT32) == NUM  # type: ignore[attr-defined]
    assert BEYOND_FLOAT32 not in summary.changes
    assert summary.changes == {INVALID_DEPTH: 4 * width * NUM, ROUNDED_DEPTH: NUM, ROUNDED_NORMALS: 1}
    for index in range(NUM):
        assert torch.equal(own[index].depth_valid, open_dataset(tmp_path / "out")[index].depth_valid)  # type: ignore
    for path in (tmp_path / "in/depth").iterdir():
        depth = np.load(path)
        depth[4, 0] = np.nan
        np.save(path, depth)
    capsys.readouterr()
    words = ["convert", str(tmp_path / "in"), "--to", to, "--out", str(tmp_path / "strict"), "--strict"]
    assert main(words) == int(bool(summary.losses))
    printed = capsys.readouterr().out
    assert "changed  written otherwise, with the same meaning:" in printed
    assert f"{INVALID_DEPTH:<48} {(4 * width + 1) * NUM:>10,}" in printed
    again = convert_dataset(tmp_path / "strict", tmp_path / "again", to)
    assert not again.changes


def test_values_of_a_declaration_that_are_written_otherwise(tmp_path: Path) -> None:
    """Markers of invalid depth, and colours that are no unit vectors."""
    for name in ("photos", "depth", "normals"):
        (tmp_path / "in" / name).mkdir(parents=True)
    depth = np.full((8, 9), 1500, np.uint16)
    depth[0], depth[1, :4] = 0, 65535
    Image.fromarray(depth).save(tmp_path / "in/depth/a.png")
    normals = np.full((8, 9, 3), 128, np.uint8)
    normals[3:, :, 2] = 255
    Image.fromarray(normals).save(tmp_path / "in/normals/a.png")
    Image.fromarray(normals).save(tmp_path / "in/photos/a.png")
    (tmp_path / "in/segpaste.yaml").write_text(
        "photos: 'photos/{name}.png'\ndepth: {files: 'depth/{name}.png', unit: mm, invalid: [65535]}\n"
        "normals: {files: 'normals/{name}.png', axes: [right, down, forward]}\n"
    )
    summary = convert_dataset(tmp_path / "in", tmp_path / "out", "label-maps")
    assert (summary.losses, summary.changes) == ({}, {INVALID_DEPTH: 4, NO_NORMAL: 3 * 9})


def _changed(content: bytes) -> bytes:
    """Depth in which one value is another one."""
    if content[:4] == b"\x89PNG":
        pixels = np.asarray(Image.open(BytesIO(content))).copy()
        pixels[20, 20] += 1
        return picture_bytes(pixels)
    values = np.load(BytesIO(content))
    values[20, 20] += 1
    return npy_bytes(values)


@pytest.mark.parametrize("to", ["coco", "yolo", "voc", "label-maps"])
@pytest.mark.parametrize(("folder", "depth_format"), [("depth", "npy"), ("depth", "png"), ("normals", "npy")])
def test_each_map_is_read_again(
    to: str, folder: str, depth_format: DepthFormat, rgbd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the depth that the dataset's reader does not read: a changed value in the last file is found."""
    real = WholeFiles.write

    def write(self: WholeFiles, file: Any, content: Any) -> Path:
        is_last = Path(file).stem == "000002" and folder in Path(file).parts
        return real(self, file, _changed(content) if is_last else content)

    monkeypatch.setattr(WholeFiles, "write", write)
    with pytest.raises(DatasetError, match=rf"000002\.png: expected the values in {folder}/.*000002\.\w+ as they were"):
        convert_dataset(rgbd, tmp_path / "out", to, depth_format=depth_format)


@pytest.mark.parametrize("to", ["coco", "coco-panoptic", "lvis", "roboflow", "yolo", "voc", "label-maps"])
def test_the_reader_finds_what_is_written(to: str, rgbd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files where the reader does not look are no dataset, however right their values are."""
    monkeypatch.setattr(DatasetWriter, "stem", lambda self, image: f"elsewhere/{image.stem}")
    words = r"expected files of 'depth'" if to == "label-maps" else r"find \w+/elsewhere/\d+\.\w+ as it is, got nothing"
    with pytest.raises(DatasetError, match=words):
        convert_dataset(rgbd, tmp_path / "out", to)
    assert not (tmp_path / "out").exists()
