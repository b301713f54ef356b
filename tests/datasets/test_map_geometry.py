"""Depth, disparity, normals and intrinsics from every kind of file; real frames against a slow reader of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import map_files
from map_files import NUM, disparities, millimetres, save, save_photo, scene, write_yaml
from samples import plain
from segpaste import CameraIntrinsics
from segpaste.datasets import DatasetError, open_dataset
from segpaste.datasets.formats.maps.geometry import read_calibration
from segpaste.datasets.formats.stored_pixels import read_array

H, W = map_files.SIZE


def open_depth(root: Path, depth: str, more: str = "") -> Any:
    """Open frames whose depth is as declared."""
    for index in range(NUM):
        save_photo(root / "rgb" / f"{index}.png", scene(index))
    return open_dataset(write_yaml(root, f"photos: rgb/{{name}}.png\ndepth: {depth}\n{more}"))


@pytest.mark.parametrize(("unit", "factor"), [("mm", 0.001), ("0.0002", 0.0002)])
def test_depth_of_16_bits(tmp_path: Path, unit: str, factor: float) -> None:
    for index in range(NUM):
        stored = millimetres(scene(index))
        stored[0, :5] = 65535
        save(tmp_path / "depth" / f"{index}.png", stored)
    frames = open_depth(tmp_path, f"{{files: 'depth/{{name}}.png', unit: {unit}, invalid: [65535]}}")
    for index in range(NUM):
        stored = millimetres(scene(index))
        stored[0, :5] = 0
        sample = frames[index]
        assert (plain(sample.depth_valid)[0] == (stored > 0)).all()
        assert (plain(sample.depth)[0] == (stored * factor).astype(np.float32)).all()
        assert (sample.metric_depth, sample.camera_intrinsics) == (False, None)
        assert sample.instance_masks is None


def test_depth_of_floats_with_a_validity(tmp_path: Path) -> None:
    """NaN, infinite and negative values and those of the picture are invalid."""
    depth = plain(scene(0).depth)[0].copy()
    depth[:, 0], depth[:, 1], depth[:, 2] = np.nan, np.inf, -1
    valid = np.full((H, W), 255, np.uint8)
    valid[3] = 0
    for index in range(NUM):
        (tmp_path / "d").mkdir(exist_ok=True)
        np.savez(tmp_path / "d" / f"{index}.npz", depth=depth[None], other=depth)
        save(tmp_path / "valid" / f"{index}.png", valid)
    frames = open_depth(tmp_path, "{files: 'd/{name}.npz', key: depth, unit: m, valid: 'valid/{name}.png'}")
    wanted = plain(scene(0).depth_valid)[0].copy()
    wanted[:, :3] = wanted[3] = False
    assert (plain(frames[0].depth_valid)[0] == wanted).all()
    assert (plain(frames[0].depth)[0] == np.where(wanted, depth, 0)).all()


def test_disparity_with_the_camera_of_each_photo(tmp_path: Path) -> None:
    """Cityscapes: depth is baseline times fx over (p - 1) / 256; 0 is invalid, and 1, which is infinitely far."""
    frames = open_dataset(map_files.write_cityscapes(tmp_path, "instanceIds.png", disparity=True))
    sample, stored = frames[0], disparities(scene(0)).astype(np.float64)
    valid = stored > 1
    wanted = np.where(valid, 90.0 * 0.25 * 256 / np.where(valid, stored - 1, 1), 0)
    assert (plain(sample.depth_valid)[0] == valid).all()
    np.testing.assert_allclose(plain(sample.depth)[0], wanted, rtol=1e-6)
    assert sample.camera_intrinsics == CameraIntrinsics(90.0, 91.0, 22.0, 14.5)
    assert sample.metric_depth
    assert sample.panoptic_map is not None


def encoded(vectors: Any, dtype: Any) -> Any:
    """Unit vectors as integers: 0 is -1, the largest is 1."""
    return np.round((vectors + 1) / 2 * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize(
    ("suffix", "dtype", "tolerance"), [("png", np.uint8, 0.02), ("png", np.uint16, 1e-4), ("npy", np.float32, 1e-6)]
)
@pytest.mark.parametrize("axes", [("right", "up", "backward"), ("forward", "left", "up")])
def test_normals(tmp_path: Path, suffix: str, dtype: Any, tolerance: float, axes: tuple[str, str, str]) -> None:
    """Any axes, 8 and 16 bits, floats; stored zeros are invalid."""
    where = {"right": (0, 1), "left": (0, -1), "up": (1, -1), "backward": (2, -1), "forward": (2, 1)}
    ours = plain(scene(0).normals)
    stored = np.stack([where[name][1] * ours[where[name][0]] for name in axes], -1)
    save(tmp_path / f"n.{suffix}", encoded(stored, dtype) if suffix == "png" else stored)
    save_photo(tmp_path / "n_rgb.png", scene(0))
    text = f"photos: '{{name}}_rgb.png'\nnormals: {{files: '{{name}}.{suffix}', axes: {json.dumps(axes)}}}"
    found = plain(open_dataset(write_yaml(tmp_path, text))[0].normals)
    np.testing.assert_allclose(found, ours, atol=tolerance)
    valid = (ours != 0).any(0)
    assert ((found != 0).any(0) == valid).all()
    np.testing.assert_allclose(np.square(found).sum(0)[valid], 1, rtol=1e-5)


def test_normals_of_floats_from_0_to_1_by_planes(tmp_path: Path) -> None:
    ours = plain(scene(0).normals)
    save(tmp_path / "n.npy", (ours + 1) / 2)
    save_photo(tmp_path / "n.png", scene(0))
    text = "photos: '{name}.png'\nnormals: {files: '{name}.npy', axes: [right, down, forward], range: [0, 1]}"
    np.testing.assert_allclose(plain(open_dataset(write_yaml(tmp_path, text))[0].normals), ours, atol=1e-6)


def test_exr(tmp_path: Path) -> None:
    """Half and full floats; channels by name, layers, RGB."""
    import OpenEXR as openexr

    rng = np.random.default_rng(0)
    planes = {name: rng.random((5, 7)).astype(np.float32) for name in ("R", "G", "B", "Z", "N.X", "N.Y", "N.Z")}
    planes["H"] = planes["Z"].astype(np.float16)

    def write(name: str, *channels: str) -> Path:
        with openexr.File({"compression": openexr.ZIP_COMPRESSION}, {c: planes[c] for c in channels}) as file:
            file.write(str(tmp_path / name))
        return tmp_path / name

    everything = write("all.exr", *planes)
    assert (read_array(everything, "Z") == planes["Z"]).all()
    assert read_array(everything, "H").dtype == np.float16
    assert (read_array(everything, "N") == np.stack([planes[f"N.{c}"] for c in "XYZ"], -1)).all()
    assert (read_array(write("one.exr", "Z")) == planes["Z"]).all()
    assert (read_array(write("rgb.exr", "R", "G", "B")) == np.stack([planes[c] for c in "RGB"], -1)).all()
    with pytest.raises(DatasetError, match=r"a channel or layer, among B, G, H, N\.X, N\.Y, N\.Z, R, Z, got None"):
        read_array(everything)
    (tmp_path / "cut.exr").write_bytes(everything.read_bytes()[:-300])
    with pytest.raises(DatasetError, match=r"cut.exr: expected an OpenEXR file, could not read it"):
        read_array(tmp_path / "cut.exr", "Z")


CAMERAS = {
    "k.txt": "500 0 320\n0 510 240\n0 0 1\n",
    "four.txt": "500, 510, 320, 240",
    "pose.txt": "500 0 320 0\n0 510 240 0\n0 0 1 0\n0 0 0 1",
    "flat.yaml": "camera_name: D435\nxres: 640\nyres: 480\nfx: 500\nfy: 510\ncx: 320\ncy: 240",
    "opencv.yaml": "%YAML:1.0\n---\ncamera_matrix: !!opencv-matrix\n  rows: 3\n  cols: 3\n  dt: d\n"
    "  data: [500., 0., 320., 0., 510., 240., 0., 0., 1.]\nimage_width: 640\nimage_height: 480",
    "ros.yaml": "image_width: 640\nimage_height: 480\nK: [500, 0, 320, 0, 510, 240, 0, 0, 1]",
    "open3d.json": '{"width": 640, "height": 480, "intrinsic_matrix": [500, 0, 0, 0, 510, 0, 320, 240, 1]}',
    "rows.json": '{"K": [[500, 0, 320], [0, 510, 240], [0, 0, 1]]}',
    "nested.json": '{"intrinsic": {"fx": 500, "fy": 510, "u0": 320, "v0": 240}, "extrinsic": {"baseline": 0.2}}',
    "realsense.json": '{"color": {"width": 640, "height": 480, "fx": 500, "fy": 510, "ppx": 320, "ppy": 240}}',
}


@pytest.mark.parametrize("name", CAMERAS)
def test_cameras(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CAMERAS[name])
    found = read_calibration(tmp_path / name)
    assert (found.focal, found.centre) == ((500, 510), (320, 240))
    assert found.size in (None, (640, 480))
    assert (found.size is None) == ("640" not in CAMERAS[name])
    assert found.baseline_m == (0.2 if "baseline" in CAMERAS[name] else None)


def test_a_camera_of_another_size_is_scaled_and_its_pixels_counted_as_declared(tmp_path: Path) -> None:
    """Ours has pixel i's centre at i + 0.5; the ray through the middle of a pixel is the same before and after."""
    for index in range(NUM):
        save(tmp_path / "depth" / f"{index}.png", millimetres(scene(index)))
    depth = "{files: 'depth/{name}.png', unit: mm}"
    numbers = "fx: 80, fy: 82, cx: 40, cy: 30"
    frames = open_depth(tmp_path, depth, f"camera: {{{numbers}, size: [{2 * W}, {2 * H}]}}")
    assert frames[0].camera_intrinsics == CameraIntrinsics(40, 41, 20.25, 15.25)
    frames = open_depth(tmp_path, depth, f"camera: {{{numbers}, pixel_center: 0.5}}")
    assert frames[0].camera_intrinsics == CameraIntrinsics(80, 82, 40, 30)
    frames = open_depth(tmp_path, depth, f"camera: {{{numbers}, size: [{2 * W}, {3 * H}]}}")
    with pytest.raises(DatasetError, match="images of the shape 43 x 29, got one for 86 x 87"):
        frames[0]


def slow_png(path: Path) -> Any:
    """The stored values, pixel by pixel."""
    with Image.open(path) as picture:
        width, height = picture.size
        return np.array([[picture.getpixel((x, y)) for x in range(width)] for y in range(height)])


def test_frames_of_rgbd_tsdf(test_data: Path, tmp_path: Path) -> None:
    root = test_data / "rgbd_tsdf"
    text = f"root: {root}\nphotos: 'rgbd-frames/{{name}}.color.png'\n"
    text += "depth: {files: 'rgbd-frames/{name}.depth.png', unit: mm}\ncamera: {files: camera-intrinsics.txt}"
    frames = open_dataset(write_yaml(tmp_path, text, "tsdf.segpaste.yaml"))
    assert len(frames) == 6
    stored = slow_png(root / "rgbd-frames" / "frame-000150.depth.png")
    sample = frames[0]
    assert frames.file_name(0) == "rgbd-frames/frame-000150.color.png"
    assert (plain(sample.depth_valid)[0] == (stored != 0)).all()
    np.testing.assert_allclose(plain(sample.depth)[0], stored / 1000, rtol=1e-6)
    numbers = [float(word) for word in (root / "camera-intrinsics.txt").read_text().split()]
    assert sample.camera_intrinsics == CameraIntrinsics(numbers[0], numbers[4], numbers[2] + 0.5, numbers[5] + 0.5)


CLEARGRASP = """
root: {root}
photos: '{{name}}-transparent-rgb-img.jpg'
classes: {{0: background, 255: glass}}
semantic: {{files: '{{name}}-mask.png'}}
depth: {{files: '{{name}}.npz', key: depth_opaque, unit: m}}
normals: {{files: '{{name}}.npz', key: normals, axes: [right, up, backward]}}
camera: {{files: camera_intrinsics.yaml}}
"""


def test_a_frame_of_cleargrasp(test_data: Path, tmp_path: Path) -> None:
    """Normals agree with those that the depth and the camera give."""
    root = test_data / "cleargrasp" / "real-val" / "d435"
    sample = open_dataset(write_yaml(tmp_path, CLEARGRASP.format(root=root), "a.segpaste.yaml"))[0]
    with np.load(root / "000000130.npz") as arrays:
        stored, depth = arrays["normals"].astype(np.float64), arrays["depth_opaque"].astype(np.float64)
    valid = np.abs(np.sqrt((stored**2).sum(-1)) - 1) < 0.1
    found = plain(sample.normals)
    assert ((found != 0).any(0) == valid).all()
    np.testing.assert_allclose(found[:, valid].T, stored[valid] * [1, -1, -1], atol=0.1)
    assert (plain(sample.depth)[0] == depth.astype(np.float32)).all()
    assert (plain(sample.semantic_map) == (slow_png(root / "000000130-mask.png") > 0)).all()
    assert sample.camera_intrinsics == CameraIntrinsics(921, 921, 642.5, 359.5)
    of_depth = normals_of_depth(depth, sample.camera_intrinsics)
    both = valid & np.isfinite(of_depth).all(-1)
    cosine = (found.transpose(1, 2, 0)[both] * of_depth[both]).sum(-1)
    assert np.median(cosine) > 0.98


def normals_of_depth(depth: Any, camera: CameraIntrinsics, reach: int = 12) -> Any:
    """Normals of the surface through the points of pixels that lie some columns and rows apart, NaN where unknown."""
    rows, columns = np.mgrid[: depth.shape[0], : depth.shape[1]] + 0.5
    z = np.where(depth > 0, depth, np.nan)
    points = np.stack([(columns - camera.cx) * z / camera.fx, (rows - camera.cy) * z / camera.fy, z], -1)
    across = np.roll(points, -reach, 1) - np.roll(points, reach, 1)
    down = np.roll(points, -reach, 0) - np.roll(points, reach, 0)
    found = np.cross(down, across)
    found /= np.sqrt((found**2).sum(-1, keepdims=True))
    found[:reach] = found[-reach:] = found[:, :reach] = found[:, -reach:] = np.nan
    return found
