"""Samples whose labels tell each pixel apart, and an oracle that reads from the moved image where its pixels come from.

The image holds its own coordinates. After a transform it says, for each pixel, which place of the input is seen there;
every label must show the same place. Nothing here uses the package's own geometry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchvision import tv_tensors
from transform_cases import SIZE

from samples import tight_boxes
from segpaste.types import CameraIntrinsics, DenseSample, InstanceMask, PaddingMask, PanopticMap, SemanticMap

H, W = SIZE
BASE = 2**30
BITS = 9
ROW, COL = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")


def codes(shift: int) -> Tensor:
    """[H, W] int64, from 1 to H * W: another number for each pixel."""
    return (ROW * W + COL + shift) % (H * W) + 1


def places(code: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """The rows and columns of codes."""
    number = (code - 1 - shift) % (H * W)
    return number // W, number % W


def coded_sample(shift: int, image_dtype: torch.dtype, *, with_maps: bool) -> DenseSample:
    """A sample of instances, and with maps of every other field.

    Instances 0 to 8 spell the codes of the pixels in binary digits; 9 is a rectangle; 10 has a box that leaves
    the canvas.
    """
    code = codes(shift)
    masks = torch.zeros(BITS + 2, H, W, dtype=torch.bool)
    masks[:BITS] = (code >> torch.arange(BITS)[:, None, None] & 1).bool()
    masks[BITS, 6:11, 3:7] = masks[BITS + 1, 2:5, 0:3] = True
    boxes = tight_boxes(masks.numpy())
    boxes[BITS + 1, 0] -= 2
    image = torch.stack([(COL + 1) / (W + 1), (ROW + 1) / (H + 1), torch.ones(H, W)])
    if image_dtype == torch.uint8:
        image = torch.stack([COL * 9, ROW * 7, code // 2]).to(torch.uint8)
    values: dict[str, Any] = {
        "image": tv_tensors.Image(image),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE),
        "labels": torch.arange(BITS + 2) + shift,
        "instance_ids": torch.arange(1, BITS + 3, dtype=torch.int32) + shift,
        "instance_masks": InstanceMask(masks),
    }
    if with_maps:
        slope = torch.stack([(COL + 0.5) / W, (ROW + 0.5) / H, torch.ones(H, W)])
        valid = code % 13 != 0
        values |= {
            "semantic_map": SemanticMap(code),
            "panoptic_map": PanopticMap(code + BASE),
            "depth": torch.where(valid, code / 7.0, 0.0)[None],
            "depth_valid": valid[None],
            "normals": slope / slope.norm(dim=0),
            "padding_mask": PaddingMask(((H - 1 == ROW) | (W - 2 <= COL))[None]),
            "camera_intrinsics": CameraIntrinsics(20.0 + shift, 22.0, 5.25, 9.0),
            "metric_depth": True,
        }
    return DenseSample(**values)


class Seen(NamedTuple):
    """Which place of the input each pixel of a moved image shows.

    Attributes:
        x: column, [H, W] float.
        y: row, [H, W] float.
        inside: [H, W] bool, a place of the input and nothing else.
        outside: [H, W] bool, no place of the input.
        exact: the transform moved whole pixels.
    """

    x: Tensor
    y: Tensor
    inside: Tensor
    outside: Tensor
    exact: bool

    @classmethod
    def in_image(cls, image: Tensor) -> Seen:
        plain = image.as_subclass(Tensor).double()
        x, y = plain[0] * (W + 1) - 1, plain[1] * (H + 1) - 1
        inside = plain[2] > 1 - 1e-4
        away = torch.cat([(v - v.round()).abs()[inside] for v in (x, y)])
        return cls(x, y, inside, plain[2] < 1e-4, bool((away < 1e-3).all()))

    @property
    def tolerance(self) -> float:
        return 1e-3 if self.exact else 1.0


def assert_shows(seen: Seen, code: Tensor, shift: int, what: str) -> None:
    """Assert that codes stand where the image shows their places."""
    rows, cols = places(code, shift)
    for place, expected in ((rows, seen.y), (cols, seen.x)):
        away = (place - expected).abs()[seen.inside]
        assert away.numel() == 0 or float(away.max()) <= seen.tolerance, f"{what}: {float(away.max())} pixels away"


def assert_follows(after: DenseSample, shift: int) -> None:
    """Assert that every label shows the place that the image shows.

    Args:
        after: `coded_sample` after a transform that moves pixels.
        shift: of that sample.
    """
    seen = Seen.in_image(after.image)
    masks = after.instance_masks.as_subclass(Tensor)
    spelt = (masks[:BITS].long() << torch.arange(BITS)[:, None, None]).sum(0)
    assert not masks[:, seen.outside].any()
    assert_shows(seen, torch.where(seen.inside, spelt, 1), shift, "instance_masks")
    assert (after.labels - shift).tolist() == (after.instance_ids - shift - 1).tolist() == list(range(BITS + 2))
    assert_boxes_fit(after)
    if after.semantic_map is not None:
        _assert_maps(seen, after, shift)
        _assert_normals(seen, after.normals)
        _assert_camera(seen, after.camera_intrinsics, shift)


def assert_boxes_fit(after: DenseSample) -> None:
    """Boxes enclose their masks; that of the rectangle fits it."""
    masks, boxes = after.instance_masks.as_subclass(Tensor), after.boxes.as_subclass(Tensor)
    assert after.boxes.canvas_size == after.canvas_size
    tight, seen = tight_boxes(masks.numpy()), masks.flatten(1).any(1)
    assert bool((boxes[:, :2].floor() <= tight[:, :2])[seen].all()), "boxes do not enclose their masks"
    assert bool((boxes[:, 2:].ceil() >= tight[:, 2:])[seen].all()), "boxes do not enclose their masks"


def _assert_maps(seen: Seen, after: DenseSample, shift: int) -> None:
    inside, outside = seen.inside, seen.outside
    for name, base, pad in (("semantic_map", 0, 255), ("panoptic_map", BASE, 0)):
        value = getattr(after, name).as_subclass(Tensor)
        assert bool((value[outside] == pad).all()), name
        assert_shows(seen, torch.where(inside, value - base, 1), shift, name)
    rows, cols = places(after.semantic_map.as_subclass(Tensor), shift)
    padded = (rows == H - 1) | (cols >= W - 2) | outside
    known = inside | outside
    assert torch.equal(after.padding_mask[0].as_subclass(Tensor)[known], padded[known])
    code = codes(shift)
    high, low = (_of_neighbours(code.float(), sign) for sign in (1, -1))
    valid, depth = after.depth_valid[0], after.depth[0]
    assert not valid[outside].any()
    assert bool((depth[~valid] == 0).all())
    at = seen.y.round().long().clamp(0, H - 1), seen.x.round().long().clamp(0, W - 1)
    if seen.exact:
        expected = torch.where(code % 13 != 0, code / 7.0, 0.0)[at]
        assert torch.equal(depth[inside], expected[inside])
        return
    where = inside & valid
    assert bool(((depth * 7 <= high[at] + 1e-3) & (depth * 7 >= low[at] - 1e-3))[where].all()), "depth"
    assert bool(valid[inside].any())
    unknown = _of_neighbours((code % 13 == 0).float(), 1)[at]
    assert bool((unknown[inside & ~valid] == 1).all()), "depth_valid"


def _of_neighbours(value: Tensor, sign: int) -> Tensor:
    """The largest value in 3 x 3 pixels, or with sign -1 the smallest."""
    return sign * torch.nn.functional.max_pool2d(sign * value[None, None], 3, 1, 1)[0, 0]


def _signs(seen: Seen) -> tuple[int, int]:
    """Return whether columns and rows run as in the input (1) or mirrored (-1)."""
    rows, cols = torch.meshgrid(*(torch.arange(size) for size in seen.x.shape), indexing="ij")
    x, y, inside = seen.x, seen.y, seen.inside
    along = [((a - a[inside].mean()) * (b - b[inside].float().mean()))[inside].sum() for a, b in ((x, cols), (y, rows))]
    return (1 if along[0] > 0 else -1), (1 if along[1] > 0 else -1)


def _assert_normals(seen: Seen, normals: Tensor) -> None:
    assert bool((normals[:, seen.outside] == 0).all())
    inside = normals[:, seen.inside].double()
    assert float((inside.norm(dim=0) - 1).abs().max()) < 1e-5
    for axis, (place, size) in enumerate(((seen.x, W), (seen.y, H))):
        slope = inside[axis] / inside[2] * _signs(seen)[axis]
        expected = (place[seen.inside] + 0.5) / size
        assert float((slope - expected).abs().max()) * size <= seen.tolerance, "normals"


def _assert_camera(seen: Seen, camera: CameraIntrinsics, shift: int) -> None:
    """A pixel looks along the ray along which its place looked before."""
    rows, cols = torch.meshgrid(*(torch.arange(size) for size in seen.x.shape), indexing="ij")
    for axis, (place, now) in enumerate(((seen.x, cols), (seen.y, rows))):
        f, c = ((20.0 + shift, 5.25), (22.0, 9.0))[axis]
        f_now, c_now = ((camera.fx, camera.cx), (camera.fy, camera.cy))[axis]
        ray, ray_now = (place + 0.5 - c) / f, (now + 0.5 - c_now) / f_now * _signs(seen)[axis]
        away = (
            (ray - ray_now).abs()[seen.inside].median() if not seen.exact else (ray - ray_now).abs()[seen.inside].max()
        )
        assert float(away) * f <= (1e-3 if seen.exact else 0.2), "camera_intrinsics"
