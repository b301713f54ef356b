"""Keypoints: what containers accept, and that every transform moves them with the image."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from test_transforms_v2 import CUTS, H, W, moved, numbered
from torch import Tensor
from torch.utils._pytree import tree_map
from torchvision.transforms import v2

from samples import POINTS, assert_same, make_batch, make_sample
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask, KeypointSchema


class TestSchema:
    def test_sides_swap(self) -> None:
        schema = KeypointSchema.of_sides(("nose", "left_eye", "tail", "right_eye", "left_over"), ((0, 1), (0, 3)))
        assert schema.flip_pairs == ((1, 3),)
        assert schema.flip_order == (0, 3, 2, 1, 4)
        assert schema.num_points == 5

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"names": ()}, "expected at least one name"),
            ({"names": "abc"}, "expected a list of names, got 'abc'"),
            ({"names": (1, 2)}, "expected a list of names"),
            ({"names": ("a", "b"), "skeleton": ((0.2, 1.7),)}, "integer"),
            ({"names": ("a", "a")}, "each once"),
            (
                {"names": ("a", "b"), "skeleton": ((0, 2),)},
                r"skeleton: expected pairs of two points below 2, got \(0, 2\)",
            ),
            ({"names": ("a", "b"), "flip_pairs": ((1, 1),)}, r"flip_pairs: expected pairs of two points"),
            ({"names": ("a", "b", "c"), "flip_pairs": ((0, 1), (1, 2))}, "each point in one pair at most"),
        ],
    )
    def test_what_is_refused(self, fields: dict[str, Any], message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            KeypointSchema(**fields)


class TestContainers:
    def test_batches_and_back(self) -> None:
        samples = [make_sample(num_instances=n, seed=n, keypoints=True, crowd=True) for n in (3, 0, 2)]
        batch = BatchedDenseSample.from_samples(samples)
        padded = batch.to_padded(4)
        assert padded.keypoints is not None
        assert padded.keypoints.shape == (3, 4, POINTS.num_points, 3)
        assert torch.equal(padded.keypoints[2, :2], samples[2].keypoints)
        assert not padded.keypoints[~padded.instance_valid].any()
        assert_same(padded.to_batched(), batch)
        for one, other in zip(padded.to_batched().to_samples(), samples, strict=True):
            assert_same(one, other)
        empty = BatchedDenseSample.from_samples([], empty_like=batch).to_padded(4)
        assert empty.keypoints is not None
        assert empty.keypoints.shape == (0, 4, POINTS.num_points, 3)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"keypoint_schema": None}, r"keypoint_schema: expected a value beside keypoints"),
            ({"keypoints": None}, r"keypoints: expected a value beside keypoint_schema"),
            ({"keypoint_schema": KeypointSchema(("a",))}, "expected 1 points for each object"),
            ({"keypoint_schema": ("a",)}, "expected KeypointSchema, got tuple"),
            ({"keypoints": torch.full((3, 4, 3), torch.nan)}, "expected finite numbers"),
            ({"keypoints": torch.full((3, 4, 3), 3.0)}, r"expected v to be 0 .* got \[3.0\]"),
            ({"keypoints": torch.tensor([1.0, 2, 0]).expand(3, 4, 3)}, "expected x = y = 0 where v = 0"),
            ({"keypoints": torch.zeros(2, 4, 3)}, "keypoints"),
            ({"keypoints": torch.tensor([-0.5, 3, 2]).expand(3, 4, 3)}, r"points on the canvas, .* got \[-0.5, 3.0\]"),
            (
                {"keypoints": torch.tensor([5.0, 17.5, 1]).expand(3, 4, 3)},
                r"0 <= x <= 11 and 0 <= y <= 17, got \[5.0, 17",
            ),
        ],
    )
    def test_what_is_refused(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            dataclasses.replace(make_sample(keypoints=True), **changes)

    def test_rows_that_are_not_valid_are_zero(self) -> None:
        batch = make_batch(keypoints=True)
        assert batch.keypoints is not None
        with pytest.raises(ValueError, match=r"keypoints: expected zeros in rows whose instance_valid is False"):
            dataclasses.replace(batch, keypoints=torch.where(batch.keypoints == 0, 1.0, batch.keypoints))

    def test_samples_of_two_schemas_are_no_batch(self) -> None:
        one = make_sample(keypoints=True)
        other = dataclasses.replace(one, keypoint_schema=KeypointSchema(tuple("abcd")))
        with pytest.raises(ValueError, match="expected one keypoint_schema"):
            BatchedDenseSample.from_samples([one, other])


class TestTrees:
    """Functions of pytrees, and operations that remove the classes of tensors."""

    @pytest.mark.parametrize("make", ["sample", "ragged", "padded"])
    def test_a_mapped_tree_is_the_same(self, make: str) -> None:
        sample = make_sample(keypoints=True, crowd=True, metric_depth=True)
        batch = BatchedDenseSample.from_samples([sample, sample])
        one = {"sample": sample, "ragged": batch, "padded": batch.to_padded(4)}[make]
        assert_same(tree_map(torch.clone, one), one)

    def test_plain_tensors_come_back(self) -> None:
        sample = make_sample(keypoints=True)
        assert_same(DenseSample.from_dict(v2.ToPureTensor()(sample.to_dict())), sample)

    def test_a_saved_batch_loads_safely(self, tmp_path: Path) -> None:
        batch = make_batch(keypoints=True)
        torch.save(batch, tmp_path / "batch.pt")
        assert_same(torch.load(tmp_path / "batch.pt", weights_only=True), batch)


def at_centres() -> DenseSample:
    """A numbered sample whose keypoints are centres of pixels; no two points are in one pixel."""
    sample = numbered()
    num = sample.num_instances * POINTS.num_points
    places = torch.randperm(H * W, generator=torch.Generator().manual_seed(1))[:num].view(-1, POINTS.num_points)
    x, y = places % W + 0.5, torch.div(places, W, rounding_mode="floor") + 0.5
    v = torch.arange(num).view_as(places) % 3
    points = torch.where(v[..., None] > 0, torch.stack([x, y, v.float()], -1), 0.0)
    return dataclasses.replace(sample, keypoints=points, keypoint_schema=POINTS)


def numbers_at(sample: DenseSample) -> Tensor:
    """The number of the pixel that each labelled keypoint is in, [N, P]; 0 for the others."""
    assert sample.keypoints is not None
    x, y, v = sample.keypoints.unbind(-1)
    number = sample.image[0].as_subclass(Tensor)
    return torch.where(v > 0, number[y.long().clamp(0, H * 3), x.long()], 0.0)


class TestTransforms:
    @pytest.mark.parametrize("transform", CUTS, ids=repr)
    def test_points_stay_in_their_pixel(self, transform: Any) -> None:
        """Whole pixels move, so the pixel of a point has the number that it had; points cut off are unlabelled."""
        sample = at_centres()
        before = numbers_at(sample)
        names = repr(transform)
        order = (
            [*POINTS.flip_order] if "RandomHorizontalFlip" in names or "RandomVerticalFlip" in names else [0, 1, 2, 3]
        )
        if "Compose" in names:  # mirrored twice
            order = [0, 1, 2, 3]
        for seed in range(5):
            torch.manual_seed(seed)
            after = moved(sample, transform)
            assert after.keypoints is not None
            shown = after.image[0].as_subclass(Tensor)
            expected = torch.where(torch.isin(before, shown), before, 0.0)[:, order]
            assert torch.equal(numbers_at(after), expected)
            assert sample.keypoints is not None
            assert torch.equal(after.keypoints[..., 2], torch.where(expected > 0, sample.keypoints[:, order, 2], 0.0))

    @pytest.mark.parametrize("size", [(34, 22), (51, 33), (9, 13), (17, 11)])
    def test_resize(self, size: tuple[int, int]) -> None:
        sample = at_centres()
        after = moved(sample, v2.Resize(size))
        assert sample.keypoints is not None
        scale = torch.tensor([size[1] / W, size[0] / H, 1])
        torch.testing.assert_close(after.keypoints, sample.keypoints * scale)

    @pytest.mark.parametrize(
        ("transform", "far"),
        [
            (v2.RandomRotation((30, 30)), 0.75),
            (v2.RandomRotation((90, 90), expand=True), 0.01),
            (v2.RandomAffine((20, 20), (0.1, 0.1), (1.2, 1.2), (5, 5)), 0.75),
            (v2.RandomPerspective(0.3, 1.0), 1.5),
            (v2.ElasticTransform(30.0, 4.0), 2.0),
        ],
        ids=lambda v: type(v).__name__,
    )
    def test_turns(self, transform: Any, far: float) -> None:
        """The point is where a spot of 3 x 3 pixels about it is found again."""
        side = 48
        places = torch.tensor([[20, 24], [30, 15], [24, 33], [15, 20]])
        masks = torch.zeros(len(places), side, side, dtype=torch.bool)
        for mask, (x, y) in zip(masks, places.tolist(), strict=True):
            mask[y - 1 : y + 2, x - 1 : x + 2] = True
        points = torch.cat([places + 0.5, torch.full((4, 1), 2.0)], 1)[:, None]
        image = torch.zeros(3, side, side, dtype=torch.uint8)
        sample = DenseSample.from_masks(
            image, masks, torch.zeros(4, dtype=torch.int64), keypoints=points, keypoint_schema=KeypointSchema(("spot",))
        )
        torch.manual_seed(0)
        after = moved(sample, transform)
        assert isinstance(after.instance_masks, InstanceMask)
        assert after.keypoints is not None
        for mask, (x, y, v) in zip(after.instance_masks, after.keypoints[:, 0].tolist(), strict=True):
            rows, cols = mask.nonzero(as_tuple=True)
            assert v == 2
            assert abs(float(cols.float().mean()) + 0.5 - x) <= far
            assert abs(float(rows.float().mean()) + 0.5 - y) <= far

    @pytest.mark.parametrize("center", [None, [10.0, 20.0], [40.0, 25.0]])
    @pytest.mark.parametrize("angle", [53, 17, 90, 211])
    def test_a_turned_canvas_is_that_of_the_image(self, angle: int, center: list[float] | None) -> None:
        """The point stays on the bright block that it marks, unless they leave the canvas."""
        image = torch.zeros(3, 40, 50, dtype=torch.uint8)
        image[:, 18:23, 28:33] = 255
        sample = DenseSample.from_masks(
            image,
            torch.zeros(1, 40, 50, dtype=torch.bool),
            torch.zeros(1, dtype=torch.int64),
            keypoints=torch.tensor([[[30.5, 20.5, 2.0]]]),
            keypoint_schema=KeypointSchema(("block",)),
        )
        after = v2.RandomRotation((angle, angle), expand=True, center=center)(sample.to_dict())
        assert after["keypoints"].canvas_size == after["image"].shape[-2:]
        rows, columns = (after["image"][0] > 100).nonzero(as_tuple=True)
        ((x, y, v),) = DenseSample.from_dict(after).keypoints[0].tolist()
        assert v == 2 or (center is not None and len(rows) < 13)  # of 25 pixels
        if v and len(rows) > 20:
            assert abs(x - columns.float().mean() - 0.5) < 0.6
            assert abs(y - rows.float().mean() - 0.5) < 0.6

    def test_a_padded_batch_moves_as_its_samples(self) -> None:
        samples = [make_sample(seed=seed, keypoints=True, crowd=True, padding=(3, 2)) for seed in range(3)]
        batch = BatchedDenseSample.from_samples(samples)
        for transform in (v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0), v2.Resize((23, 31)), v2.Pad(2)):
            padded = transform(batch.to_padded(4)).to_batched()
            plain = transform(batch)
            if isinstance(transform, v2.Resize):
                assert_same(padded, plain)
            for moved_points, own in zip(padded.keypoints, plain.keypoints, strict=True):
                assert moved_points.shape == own.shape
                assert torch.equal(moved_points[..., 2], own[..., 2])
