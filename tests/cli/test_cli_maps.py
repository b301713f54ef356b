"""Datasets of maps through the commands, and what pastes do to the points of RGB-D frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import map_files
from map_files import NAMES, NUM, THINGS, save, save_photo, scene, write_yaml
from samples import plain
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, BatchedDenseSample, CameraIntrinsics
from segpaste.cli import main
from segpaste.datasets import open_dataset


def cityscapes(root: Path) -> Path:
    return map_files.write_cityscapes(root, "instanceIds.png", disparity=True)


def masks(root: Path) -> Path:
    for index in range(NUM):
        save_photo(root / "images" / f"{index}.png", scene(index))
        for k, mask in enumerate(plain(scene(index).instance_masks)):
            save(root / "masks" / str(index) / f"{k}.png", mask.astype(np.uint8))
    text = "photos: images/{name}.png\nclasses: [thing]\n"
    write_yaml(root, text + "instances: {files: 'masks/{name}/*.png', encoding: mask, class: thing}")
    return root


def rgbd(root: Path) -> Path:
    """All modalities, declared in a file beside the folder."""
    for index in range(NUM):
        semantic, panoptic = map_files.maps_of(scene(index))
        save_photo(root / "in" / f"{index}.rgb.png", scene(index))
        save(root / "in" / f"{index}.class.png", semantic.astype(np.uint8))
        save(root / "in" / f"{index}.object.png", panoptic.astype(np.uint8))
        save(root / "in" / f"{index}.depth.png", map_files.millimetres(scene(index)))
        save(root / "in" / f"{index}.normals.npy", plain(scene(index).normals))
    text = f"""
root: in
photos: '{{name}}.rgb.png'
classes: {json.dumps(list(NAMES))}
things: {json.dumps(list(THINGS))}
semantic: {{files: '{{name}}.class.png', void: [255]}}
instances: {{files: '{{name}}.object.png', encoding: number}}
depth: {{files: '{{name}}.depth.png', unit: mm}}
normals: {{files: '{{name}}.normals.npy', axes: [right, down, forward]}}
camera: {{fx: 40, fy: 41, cx: 21, cy: 14}}
"""
    return write_yaml(root, text, "frames.segpaste.yaml")


@pytest.mark.parametrize("write", [cityscapes, masks, rgbd])
def test_the_commands(tmp_path: Path, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects are counted, cut out and pasted; what is written has the modalities of what was read."""
    dataset = write(tmp_path / "dataset")
    num = sum(scene(index).num_instances for index in range(NUM))
    assert main(["stats", str(dataset), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert sum(row["objects"] for row in counted["classes"]) == num
    assert main(["bank", "build", str(dataset), "--out", str(tmp_path / "bank"), "--min-area", "1"]) == 0
    assert f"kept     {num} crops from {NUM} images" in capsys.readouterr().out
    words = ["--num", "6", "--gallery", "1", "min_area_px=4", "placement.scale_range=[0.5,0.7]"]
    assert main(["augment", str(dataset), "--out", str(tmp_path / "out"), *words]) == 0
    tables = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert len(tables["images"]) == 6
    pasted = [row["segpaste"]["pasted"] for row in tables["annotations"]]
    assert any(pasted)
    assert not all(pasted)
    names = {row["id"]: row["name"] for row in tables["categories"]}
    photos = open_dataset(dataset)
    assert list(names.values()) == list(photos.class_names)
    assert (tmp_path / "out" / "panoptic.json").is_file() == (photos.schema is not None)
    assert (tmp_path / "out" / "depth").is_dir() == (photos[0].depth is not None)
    assert (tmp_path / "out" / "normals").is_dir() == (photos[0].normals is not None)


def test_an_undeclared_folder_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = masks(tmp_path)
    (root / "segpaste.yaml").unlink()
    assert main(["augment", str(root), "--out", str(tmp_path / "out"), "--num", "2"]) == 2
    assert "expected segpaste.yaml with folders of maps" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def points(depth: Any, camera: CameraIntrinsics) -> Any:
    """The point of each pixel in metres, [H, W, 3]: through its centre, as far as its depth along the axis."""
    height, width = depth.shape
    found = np.zeros((height, width, 3))
    for row in range(height):
        for column in range(width):
            z = float(depth[row, column])
            found[row, column] = (column + 0.5 - camera.cx) / camera.fx * z, (row + 0.5 - camera.cy) / camera.fy * z, z
    return found


def test_points_of_rgbd_frames_before_and_after(test_data: Path, tmp_path: Path) -> None:
    """Outside of pastes every point stays; inside, the source's points keep their shape under another camera.

    A depth is scaled by the ratio of the focal lengths, so that a pasted surface has its metric size: its points are
    those of the source, moved across the view.
    """
    for index in range(2):
        mask = np.zeros((480, 640), np.uint8)
        mask[150:260, 120 + 90 * index : 300 + 90 * index] = 1
        save(tmp_path / "masks" / f"{150 + 9 * index:06}.png", mask)
        camera = {"fx": 585.0 - 90 * index, "fy": 585.0 - 90 * index, "cx": 320.0, "cy": 240.0 + index}
        (tmp_path / "masks" / f"{150 + 9 * index:06}.json").write_text(json.dumps(camera))
    text = f"""
root: {test_data}/rgbd_tsdf
photos: 'rgbd-frames/frame-{{name}}.color.png'
classes: [thing]
instances: {{files: '{tmp_path}/masks/{{name}}.png', encoding: number, class: thing}}
depth: {{files: 'rgbd-frames/frame-{{name}}.depth.png', unit: mm}}
camera: {{files: '{tmp_path}/masks/{{name}}.json'}}
"""
    with pytest.warns(UserWarning, match="left out 4 images: 4 without instances"):
        frames = open_dataset(write_yaml(tmp_path, text, "tsdf.segpaste.yaml"))
    before = [frames[0], frames[1]]
    batch = BatchedDenseSample.from_samples(before).to_padded(4)
    config = {"placement": {"paste_prob": 1, "scale_range": (1, 1), "hflip_probability": 0}, "min_area_px": 1}
    out, report = BatchCopyPaste(BatchCopyPasteConfig(**config))(
        batch, torch.Generator().manual_seed(4), return_report=True
    )
    for b, after in enumerate(out.to_batched().to_samples()):
        source = before[int(report.placement.source_idx[b, 0])]
        pasted = plain(report.visible_layer[b]) == 0
        theirs, ours = before[b].camera_intrinsics, after.camera_intrinsics
        assert ours == theirs
        valid = plain(after.depth_valid)[0]
        assert (valid[~pasted] == plain(before[b].depth_valid)[0][~pasted]).all()
        found = points(plain(after.depth)[0], ours)
        kept = points(plain(before[b].depth)[0], ours)
        assert np.abs(found - kept)[valid & ~pasted].max() <= 1e-3
        left, top = report.placement.translate[b, 0].tolist()
        of_source = np.roll(points(plain(source.depth)[0], source.camera_intrinsics), (top, left), (0, 1))
        ratio = np.sqrt(ours.fx * ours.fy / (source.camera_intrinsics.fx * source.camera_intrinsics.fy))
        wanted = of_source * [1, 1, ratio]
        shift = (left + source.camera_intrinsics.cx - ours.cx, top + source.camera_intrinsics.cy - ours.cy)
        for axis, focal in enumerate((source.camera_intrinsics.fx, source.camera_intrinsics.fy)):
            wanted[..., axis] += shift[axis] / focal * of_source[..., 2]
        inside = pasted & valid
        assert inside.sum() > 1000
        assert np.abs(found - wanted)[inside].max() <= 1e-3
