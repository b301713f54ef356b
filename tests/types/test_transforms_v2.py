"""torchvision.transforms.v2 moves every field of a sample to the same place, boxes and labels included.

What happens to depth, normals and the camera is in ``test_transforms_v2_depth.py``.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from transform_cases import moved

from samples import IGNORE_INDEX, Array, assert_same, make_sample, tight_boxes
from segpaste.types import DenseSample, InstanceMask, PanopticMap, SemanticMap
from segpaste.types.transforms_v2 import cut

H, W = 17, 11
SIDES = st.integers(1, 30)
CORNERS = st.integers(-25, 25)


def numbered() -> DenseSample:
    """Every pixel is told apart: the image and the panoptic map number them from 1; all labels are present."""
    number = torch.arange(1, H * W + 1).reshape(H, W)
    sample = make_sample((H, W), seed=3, metric_depth=True, padding=(2, 1))
    return dataclasses.replace(
        sample,
        image=tv_tensors.Image(number.float().expand(3, H, W).clone()),
        panoptic_map=PanopticMap(number),
        semantic_map=SemanticMap(number % 7),
    )


def assert_follows_the_image(before: DenseSample, after: DenseSample) -> None:
    """Every field's pixel is that of the image's pixel; what came from outside carries the field's pad value."""
    number = after.image[0].as_subclass(Tensor).long()
    outside = number == 0
    rows, cols = torch.div(number - 1, W, rounding_mode="floor"), (number - 1) % W
    want: dict[str, tuple[Tensor, Any]] = {
        "panoptic_map": (before.panoptic_map, 0),
        "semantic_map": (before.semantic_map, IGNORE_INDEX),
        "instance_masks": (before.instance_masks, False),
        "padding_mask": (before.padding_mask, True),
        "depth": (before.depth, 0.0),
        "depth_valid": (before.depth_valid, False),
    }
    for name, (value, pad_value) in want.items():
        expected = value.as_subclass(Tensor)[..., rows, cols].masked_fill(outside, pad_value)
        assert torch.equal(getattr(after, name).as_subclass(Tensor), expected), name
        assert type(getattr(after, name)) is type(getattr(before, name)), name
    normals = before.normals[..., rows, cols].masked_fill(outside, 0).abs()
    assert torch.equal(after.normals.abs(), normals)
    assert torch.equal(after.labels, before.labels)
    assert torch.equal(after.instance_ids, before.instance_ids)
    assert after.boxes.canvas_size == after.canvas_size


CUTS: list[Any] = [
    v2.RandomHorizontalFlip(1.0),
    v2.RandomVerticalFlip(1.0),
    v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Pad((1, 2, 3, 4)), v2.RandomVerticalFlip(1.0), v2.CenterCrop(9)]),
    *(v2.Pad(padding) for padding in (3, [2], [1, 4], [4, 3, 2, 1])),
    *(v2.CenterCrop(size) for size in (8, [9], (5, 6), (20, 6), (6, 20), (18, 12), (20, 16), (40, 41), (17, 11))),
    *(v2.RandomCrop(size) for size in (7, (17, 3))),
    v2.RandomCrop((20, 19), pad_if_needed=True),
    v2.RandomCrop((10, 10), padding=(1, 2)),
    v2.RandomZoomOut(p=1.0),
    v2.RandomIoUCrop(),
]


class TestCuts:
    """Crops, pads and flips move whole pixels, so every field must show exactly the pixels that the image shows."""

    @pytest.mark.parametrize("transform", CUTS, ids=repr)
    def test_transform(self, transform: Any) -> None:
        sample = numbered()
        for seed in range(5):
            torch.manual_seed(seed)
            assert_follows_the_image(sample, moved(sample, transform))

    @given(CORNERS, CORNERS, SIDES, SIDES)
    def test_any_crop(self, top: int, left: int, height: int, width: int) -> None:
        # A crop wholly above or left of the picture gets another size from torchvision's image kernel.
        assume(top + height > 0 and left + width > 0)
        sample = numbered()
        after = moved(sample, lambda d: {k: crop_value(v, top, left, height, width) for k, v in d.items()})
        assert after.canvas_size == (height, width)
        assert_follows_the_image(sample, after)

    @given(CORNERS, CORNERS, SIDES, SIDES, st.sampled_from([0, 255, -3]))
    def test_cut_is_pad_and_slice(self, top: int, left: int, height: int, width: int, pad_value: int) -> None:
        value = np.random.default_rng(0).integers(0, 2**40, (2, H, W))
        around = 60
        padded = np.pad(value, ((0, 0), (around, around), (around, around)), constant_values=pad_value)
        want = padded[:, around + top : around + top + height, around + left : around + left + width]
        got = cut(torch.from_numpy(value), (top, left, height, width), pad_value)
        np.testing.assert_array_equal(got, want)

    def test_cut_never_shares_memory(self) -> None:
        value = torch.zeros(4, 4)
        cut(value, (0, 0, 4, 4), 0).fill_(1)
        assert not value.any()

    @pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
    def test_padding_that_would_invent_objects(self, mode: str) -> None:
        with pytest.raises(ValueError, match=f"expected padding_mode='constant' for label fields, got '{mode}'"):
            F.pad(numbered().to_dict()["semantic_map"], [1, 1, 1, 1], padding_mode=mode)


def crop_value(value: Any, top: int, left: int, height: int, width: int) -> Any:
    return F.crop(value, top, left, height, width) if isinstance(value, tv_tensors.TVTensor) else value


def reference_resize(value: Array, out_size: tuple[int, int]) -> Array:
    """Pixel by pixel: the source pixel under the centre of the output pixel."""
    out = np.zeros((*value.shape[:-2], *out_size), value.dtype)
    for y in range(out_size[0]):
        for x in range(out_size[1]):
            row = floor((y + Fraction(1, 2)) * value.shape[-2] / out_size[0])
            col = floor((x + Fraction(1, 2)) * value.shape[-1] / out_size[1])
            out[..., y, x] = value[..., row, col]
    return out


RESIZES: list[Any] = [
    *(v2.Resize(size) for size in (5, [23], (34, 22), (8, 29), (17, 11), (1, 1))),
    v2.Resize(20, max_size=25),
    v2.Resize(None, max_size=31),
    v2.RandomResizedCrop((13, 7)),
    v2.ScaleJitter((32, 32)),
    v2.RandomShortestSize([9, 14], max_size=20),
    v2.RandomResize(6, 30),
]


class TestResize:
    @given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES))
    def test_labels_are_read_under_the_pixel_centre(self, size: tuple[int, int], out_size: tuple[int, int]) -> None:
        padding = size[0] // 3, size[1] // 4
        sample = make_sample(size, num_instances=1, padding=padding, image_dtype=torch.float32)
        after = moved(sample, v2.Resize(out_size))
        for name in ("instance_masks", "semantic_map", "panoptic_map", "padding_mask"):
            want = reference_resize(getattr(sample, name).numpy(), out_size)
            np.testing.assert_array_equal(getattr(after, name), want, err_msg=name)

    @given(st.tuples(SIDES, SIDES), st.integers(0, 99))
    def test_panoptic_ids_survive_exactly(self, out_size: tuple[int, int], seed: int) -> None:
        ids = np.random.default_rng(seed).integers(2**40 - 2**30, 2**40, (H, W), endpoint=True)
        resized = F.resize(PanopticMap(torch.from_numpy(ids)), list(out_size))
        assert resized.dtype == torch.int64
        np.testing.assert_array_equal(resized, reference_resize(ids, out_size))

    @pytest.mark.parametrize("transform", RESIZES, ids=repr)
    def test_all_fields_get_the_images_size(self, transform: Any) -> None:
        for seed in range(5):
            torch.manual_seed(seed)
            fields = transform(numbered().to_dict())
            after = DenseSample.from_dict(fields)  # refuses fields of different sizes
            assert fields["camera_intrinsics"].canvas_size == after.canvas_size
            assert after.boxes.canvas_size == after.canvas_size

    @given(st.tuples(SIDES, SIDES))
    def test_labels_stay_under_the_image(self, out_size: tuple[int, int]) -> None:
        """The image, read linearly, shows the position to which the labels were rounded: half a pixel away at most."""
        positions = torch.stack(torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij"))
        image = F.resize(tv_tensors.Image(positions.float()), list(out_size), antialias=False)
        labels = [F.resize(PanopticMap(p), list(out_size)) for p in positions]
        assert float((image - torch.stack(labels)).abs().max()) <= 0.5 + 1e-4

    @given(CORNERS, CORNERS, SIDES, SIDES, st.tuples(SIDES, SIDES))
    def test_resized_crop(self, top: int, left: int, height: int, width: int, out_size: tuple[int, int]) -> None:
        ids = np.arange(1, H * W + 1).reshape(H, W)
        box = (top, left, height, width)
        got = F.resized_crop(PanopticMap(torch.from_numpy(ids)), *box, list(out_size))
        want = reference_resize(cut(torch.from_numpy(ids), box, 0).numpy(), out_size)
        np.testing.assert_array_equal(got, want)
        assert F.resized_crop(tv_tensors.Image(torch.zeros(1, H, W)), *box, list(out_size)).shape[-2:] == got.shape


class TestNoInstance:
    @pytest.mark.parametrize("transform", [*CUTS, *RESIZES], ids=repr)
    def test_stays_a_sample(self, transform: Any) -> None:
        sample = make_sample((H, W), 0, image_dtype=torch.float32, metric_depth=True, padding=(2, 1))
        after = moved(sample, transform)
        assert after.num_instances == 0
        assert after.instance_masks.shape == (0, *after.canvas_size)


class TestBoxes:
    """An object of 4 columns by 5 rows, which is its box, before and after."""

    def rectangle(self) -> DenseSample:
        mask = torch.zeros(1, H, W, dtype=torch.bool)
        mask[0, 6:11, 3:7] = True
        return dataclasses.replace(
            make_sample((H, W), 1, ["instance"], image_dtype=torch.float32),
            boxes=tv_tensors.BoundingBoxes(tight_boxes(mask.numpy()), format="XYXY", canvas_size=(H, W)),
            instance_masks=InstanceMask(mask),
        )

    def test_a_flip_moves_an_edge_x_to_width_minus_x(self) -> None:
        assert moved(self.rectangle(), v2.RandomHorizontalFlip(1.0)).boxes.tolist() == [[W - 7, 6, W - 3, 11]]
        assert moved(self.rectangle(), v2.RandomVerticalFlip(1.0)).boxes.tolist() == [[3, H - 11, 7, H - 6]]

    @pytest.mark.parametrize("transform", CUTS, ids=repr)
    def test_stay_tight_when_whole_pixels_move(self, transform: Any) -> None:
        for seed in range(5):
            torch.manual_seed(seed)
            after = moved(self.rectangle(), transform)
            if after.instance_masks.any():
                assert after.boxes.tolist() == tight_boxes(after.instance_masks.numpy()).tolist()

    @given(st.tuples(SIDES, SIDES))
    def test_follow_a_resize_to_half_a_pixel(self, out_size: tuple[int, int]) -> None:
        after = moved(self.rectangle(), v2.Resize(out_size))
        scale = torch.tensor([out_size[1] / W, out_size[0] / H]).repeat(2)
        torch.testing.assert_close(after.boxes.as_subclass(Tensor), torch.tensor([[3.0, 6, 7, 11]]) * scale)
        if after.instance_masks.any():
            tight = tight_boxes(after.instance_masks.numpy())
            assert float((after.boxes - tight).abs().max()) <= 0.5 + 1e-4

    @given(st.tuples(SIDES, SIDES))
    def test_rounded_outwards_enclose_their_masks_after_a_resize(self, out_size: tuple[int, int]) -> None:
        after = moved(self.rectangle(), v2.Resize(out_size))
        if after.instance_masks.any():
            tight, boxes = tight_boxes(after.instance_masks.numpy()), after.boxes.as_subclass(Tensor)
            assert bool((boxes[:, :2].floor() <= tight[:, :2]).all())
            assert bool((boxes[:, 2:].ceil() >= tight[:, 2:]).all())


REFUSALS: list[Any] = [
    v2.RandomRotation((10, 20)),
    v2.RandomAffine(10),
    v2.RandomPerspective(p=1.0),
    v2.ElasticTransform(sigma=0.5),
]
FALSIFIED = ["semantic_map", "panoptic_map", "depth", "depth_valid", "normals", "padding_mask", "camera_intrinsics"]


class TestOtherTransforms:
    @pytest.mark.parametrize("transform", REFUSALS, ids=lambda t: type(t).__name__)
    @pytest.mark.parametrize("name", FALSIFIED)
    def test_refuse_a_field_that_they_would_falsify(self, transform: Any, name: str) -> None:
        fields = numbered().to_dict()
        with pytest.raises(TypeError, match=f"expected only resize, crop, pad or flip for {name}, got .*Drop"):
            transform({"image": fields["image"], name: fields[name]})

    @pytest.mark.parametrize("transform", REFUSALS, ids=lambda t: type(t).__name__)
    def test_move_images_boxes_and_masks(self, transform: Any) -> None:
        after = moved(make_sample(modalities=["instance"]), transform)
        assert after.modalities == make_sample(modalities=["instance"]).modalities

    @pytest.mark.parametrize(
        "transform",
        [v2.ColorJitter(0.5, 0.5, 0.5, 0.2), v2.ToDtype(torch.float32, scale=True), v2.RandomErasing(p=1.0)],
        ids=lambda t: type(t).__name__,
    )
    def test_of_colour_leave_the_labels_alone(self, transform: Any) -> None:
        sample = make_sample(metric_depth=True, padding=(2, 1))
        after = moved(sample, transform)
        assert not torch.equal(after.image, sample.image)
        assert_same(dataclasses.replace(after, image=sample.image), sample)

    def test_torchvisions_own_masks_keep_their_kernels(self) -> None:
        mask = tv_tensors.Mask(torch.ones(1, 4, 4, dtype=torch.uint8))
        assert F.pad(mask, [1, 1, 1, 1]).sum() == 16
        assert type(F.rotate(mask, 30.0)) is tv_tensors.Mask


@pytest.mark.parametrize("name", ["crop", "pad", "center_crop"])
def test_the_cameras_canvas_is_the_images(name: str) -> None:
    arguments = {"crop": (3, 2, 9, 7), "pad": ([1, 2, 3, 4],), "center_crop": ([6, 20],)}[name]
    fields = make_sample((17, 11), metric_depth=True).to_dict()
    camera, image = (getattr(F, name)(fields[key], *arguments) for key in ("camera_intrinsics", "image"))
    assert camera.canvas_size == tuple(image.shape[-2:])
