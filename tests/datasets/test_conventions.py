from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from torchvision import tv_tensors

from segpaste.datasets import convert_depth, convert_normals, convert_semantic
from segpaste.datasets.formats.conventions import _TOWARDS
from segpaste.types import CameraIntrinsics, DenseSample, SemanticMap

OPEN_GL = ("right", "up", "backward")


def one(*vector: float, dtype: Any = np.float32) -> Any:
    """A picture of one normal, [1, 1, 3]."""
    return np.array(vector, dtype).reshape(1, 1, 3)


class TestSemantic:
    @given(arrays(np.int16, st.tuples(st.integers(0, 5), st.integers(0, 5)), elements=st.integers(-1, 11)))
    def test_void_of_any_value_becomes_255_and_classes_stay(self, stored: Any) -> None:
        ours = convert_semantic(stored, void=(-1, 11))
        assert isinstance(ours, SemanticMap)
        assert ours.dtype == torch.int64
        for theirs, our in zip(stored.flatten().tolist(), ours.flatten().tolist(), strict=True):
            assert our == (255 if theirs in (-1, 11) else theirs)

    def test_zero_is_void_and_classes_start_at_one(self) -> None:
        ours = convert_semantic(np.array([[0, 1], [150, 2]], np.uint8), void=[0], first_class=1)
        assert ours.tolist() == [[255, 0], [149, 1]]

    def test_one_void_needs_no_list(self) -> None:
        assert convert_semantic(np.array([[11, 3]]), void=11).tolist() == [[255, 3]]

    def test_255_that_is_no_class_is_named(self) -> None:
        stored = np.array([[255, 254, 0]], np.uint8)
        assert convert_semantic(stored, void=[255]).tolist() == [[255, 254, 0]]
        with pytest.raises(ValueError, match=r"got \[255\]; name it in void"):
            convert_semantic(stored)

    @pytest.mark.parametrize(("stored", "first"), [([[-1]], 0), ([[0]], 1), ([[300]], 0), ([[65535]], 1)])
    def test_what_is_neither_void_nor_class_is_refused(self, stored: Any, first: int) -> None:
        with pytest.raises(ValueError, match="expected void"):
            convert_semantic(np.array(stored), void=[11], first_class=first)

    @pytest.mark.parametrize("stored", [np.zeros((2, 2)), np.zeros((2, 2, 3), np.uint8), np.zeros(4, int), [[True]]])
    def test_what_is_no_label_picture_is_refused(self, stored: Any) -> None:
        with pytest.raises(ValueError, match="expected integers"):
            convert_semantic(stored)


class TestDepth:
    def test_millimetres_and_metres_agree(self) -> None:
        millimetres = np.array([[0, 1, 999, 65535]], np.uint16)
        depth, valid = convert_depth(millimetres, metres_per_unit=0.001)
        assert depth.dtype == torch.float32
        assert valid.tolist() == [[[False, True, True, True]]]
        assert depth.tolist() == np.float32([[[0, 0.001, 0.999, 65.535]]]).tolist()
        again, also = convert_depth(depth[0].numpy(), metres_per_unit=1)
        assert torch.equal(again, depth)
        assert torch.equal(also, valid)

    def test_every_mark_of_no_measurement(self) -> None:
        stored = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 7.0, 1.5]], np.float16)
        depth, valid = convert_depth(stored, metres_per_unit=1, invalid=[7])
        assert valid.flatten().tolist() == [False] * 7 + [True]
        assert depth.flatten().tolist() == [0.0] * 7 + [1.5]

    def test_a_mark_is_found_in_the_type_of_the_file(self) -> None:
        _, valid = convert_depth(np.array([[99999.9, 1.0]], np.float32), metres_per_unit=1, invalid=[99999.9])
        assert valid.tolist() == [[[False, True]]]

    def test_what_float32_cannot_hold_is_invalid(self) -> None:
        depth, valid = convert_depth(np.array([[1e300, 1e-300]]), metres_per_unit=1)
        assert not valid.any()
        assert depth.tolist() == [[[0.0, 0.0]]]

    @pytest.mark.parametrize("unit", [0, -1, float("nan"), float("inf")])
    def test_a_unit_is_a_positive_number(self, unit: float) -> None:
        with pytest.raises(ValueError, match="metres_per_unit > 0"):
            convert_depth(np.ones((2, 2)), metres_per_unit=unit)

    @pytest.mark.parametrize(
        "stored", [np.ones((1, 2, 2)), np.ones(4), np.ones((2, 2), bool), np.ones((2, 2), complex)]
    )
    def test_what_is_no_depth_picture_is_refused(self, stored: Any) -> None:
        with pytest.raises(ValueError, match="expected numbers"):
            convert_depth(stored, metres_per_unit=1)


class TestNormals:
    def test_y_up_becomes_right_down_forward(self) -> None:
        assert convert_normals(one(0.6, 0.0, 0.8), axes=OPEN_GL).flatten().tolist() == pytest.approx([0.6, 0.0, -0.8])
        assert convert_normals(one(0.0, 1.0, 0.0), axes=OPEN_GL).flatten().tolist() == [0, -1, 0]
        assert convert_normals(one(0, 1, 0), axes=("right", "down", "forward")).flatten().tolist() == [0, 1, 0]
        assert convert_normals(one(1, 0, 0), axes=("forward", "left", "up")).flatten().tolist() == [0, 0, 1]

    @given(st.permutations(("right", "down", "forward")), st.tuples(*[st.booleans()] * 3), st.data())
    def test_every_frame(self, order: list[str], flips: tuple[bool, ...], data: st.DataObject) -> None:
        opposite = {"right": "left", "down": "up", "forward": "backward"}
        names = [opposite[name] if flip else name for name, flip in zip(order, flips, strict=True)]
        truth = np.array(data.draw(st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: sum(c * c for c in v) > 0.01)))
        truth /= np.linalg.norm(truth)
        ours = dict(zip(("right", "down", "forward"), truth, strict=True))
        theirs = [-ours[name] if flip else ours[name] for name, flip in zip(order, flips, strict=True)]
        got = convert_normals(one(*theirs, dtype=np.float64), axes=(names[0], names[1], names[2]))
        np.testing.assert_allclose(got.flatten(), truth, atol=1e-6)

    def test_marks_of_no_normal_become_zero(self) -> None:
        stored = np.array([[[-1, -1, -1], [0, 0, 0], [np.nan, 0, 1], [0.5, 0.5, 0.5], [0, 0, 1]]], np.float16)
        ours = convert_normals(stored, axes=OPEN_GL)
        assert ours[:, 0, :4].count_nonzero() == 0
        assert ours[:, 0, 4].tolist() == [0, 0, -1]

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
    def test_pictures_of_integers_become_unit_vectors(self, dtype: Any) -> None:
        most = np.iinfo(dtype).max
        vectors = np.random.default_rng(0).normal(size=(7, 5, 3))
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        ours = convert_normals(np.round((vectors + 1) / 2 * most).astype(dtype), axes=("right", "down", "forward"))
        np.testing.assert_allclose(ours.norm(dim=0), np.ones((7, 5)), atol=1e-6)
        np.testing.assert_allclose(ours.permute(1, 2, 0), vectors, atol=2.5 / most)

    @pytest.mark.parametrize("stored", [np.ones((3, 2, 2)), np.ones((2, 2)), np.ones((2, 2, 3), int)])
    def test_what_is_no_picture_of_normals_is_refused(self, stored: Any) -> None:
        with pytest.raises(ValueError, match="expected floats, uint8 or uint16"):
            convert_normals(stored, axes=OPEN_GL)

    @pytest.mark.parametrize("axes", [("x", "y", "z"), ("right", "left", "up"), ("right", "up"), ("right",) * 3])
    def test_what_is_no_frame_is_refused(self, axes: Any) -> None:
        with pytest.raises(ValueError, match="expected axes with one each"):
            convert_normals(one(0, 0, 1), axes=axes)

    def test_masked_arrays_are_refused(self) -> None:
        masked = np.ma.masked_equal(np.array([[1, 0]]), 0)
        for convert in (convert_semantic, lambda v: convert_depth(v, metres_per_unit=1)):
            with pytest.raises(ValueError, match="got a masked one"):
                convert(masked)

    def test_the_table_of_directions_is_ours(self) -> None:
        assert {name for name, (_, sign) in _TOWARDS.items() if sign == 1} == {"right", "down", "forward"}


class TestRealData:
    def test_camvid_void_is_eleven(self, test_data: Path) -> None:
        path = sorted((test_data / "camvid" / "trainannot").glob("*.png"))[0]
        with Image.open(path) as picture:
            stored = np.asarray(picture)
        ours = convert_semantic(stored, void=[11])
        np.testing.assert_array_equal(ours == 255, stored == 11)
        assert 0 < (ours == 255).sum() < ours.numel()
        assert int(ours[ours != 255].max()) <= 10

    def test_rgbd_frame_in_millimetres_makes_a_metric_sample(self, test_data: Path) -> None:
        folder = test_data / "rgbd_tsdf"
        path = sorted((folder / "rgbd-frames").glob("*depth.png"))[0]
        with Image.open(path) as picture:
            stored = np.asarray(picture)
        with Image.open(str(path).replace("depth", "color")) as photo:
            image = torch.from_numpy(np.array(photo.convert("RGB"))).permute(2, 0, 1)
        depth, valid = convert_depth(stored, metres_per_unit=0.001)
        fx, _, cx, _, fy, cy, *_ = np.loadtxt(folder / "camera-intrinsics.txt").flatten().tolist()
        sample = DenseSample(
            image=tv_tensors.Image(image),
            boxes=tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=stored.shape),
            labels=torch.zeros(0, dtype=torch.int64),
            depth=depth,
            depth_valid=valid,
            camera_intrinsics=CameraIntrinsics(fx, fy, cx, cy),
            metric_depth=True,
        )
        np.testing.assert_array_equal(valid[0], stored > 0)
        assert 0.3 < float(sample.depth[valid].median()) < 10  # type: ignore[index]

    def test_cleargrasp_normals_face_the_camera(self, test_data: Path) -> None:
        arrays_of = np.load(test_data / "cleargrasp" / "real-val" / "d435" / "000000130.npz")
        stored = arrays_of["normals"]
        ours = convert_normals(stored, axes=OPEN_GL)
        marked = (stored == -1).all(-1)
        valid = ours.norm(dim=0) > 0
        np.testing.assert_array_equal(~valid, marked)
        depth, depth_valid = convert_depth(arrays_of["depth_opaque"], metres_per_unit=1)
        text = (test_data / "cleargrasp" / "real-val" / "d435" / "camera_intrinsics.yaml").read_text()
        camera = {line.split(":")[0]: float(line.split(":")[1].split("#")[0]) for line in text.splitlines()[2:] if line}
        y, x = np.indices(stored.shape[:2]) + 0.5
        ray = np.stack([(x - camera["cx"]) / camera["fx"], (y - camera["cy"]) / camera["fy"], np.ones_like(x)])
        assert ((ours.numpy() * ray).sum(0)[valid] < 0).mean() > 0.99  # what is seen faces the camera
        agreement = normals_of_depth(depth[0].numpy(), camera)
        both = valid.numpy() & depth_valid[0].numpy() & np.isfinite(agreement).all(0)
        cosine = (ours.numpy() * agreement).sum(0)[both]
        flipped = (ours.numpy() * np.array([1, -1, 1]).reshape(3, 1, 1) * agreement).sum(0)[both]
        assert np.median(cosine) > 0.95
        assert np.median(flipped) < np.median(cosine) - 0.3


def normals_of_depth(depth: Any, camera: dict[str, float]) -> Any:
    """Normals [3, H, W] of a depth picture, right-down-forward, facing the camera, by cross products."""
    depth = np.where(depth > 0, depth, np.nan)
    y, x = np.indices(depth.shape) + 0.5
    points = np.stack([(x - camera["cx"]) / camera["fx"] * depth, (y - camera["cy"]) / camera["fy"] * depth, depth])
    step = 8
    across = np.roll(points, -step, 2) - np.roll(points, step, 2)
    down = np.roll(points, -step, 1) - np.roll(points, step, 1)
    normal = np.cross(down, across, axis=0)
    normal[:, :step], normal[:, -step:], normal[:, :, :step], normal[:, :, -step:] = [np.nan] * 4
    return normal / np.linalg.norm(normal, axis=0)
