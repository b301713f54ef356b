"""Pixels of an object that is cut out of its image, shrunk by one ratio of integers, and centred in a crop.

The native library does it in one pass. The functions on tensors are the reference, and read what the library does not:
depth and normals. The arithmetic is that of `segpaste.types.sampling`, in integers, so both give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.types import CameraIntrinsics, DenseSample, sampling


class CutSide(NamedTuple):
    """One axis of a cut, in the order of ``window_records.hpp``.

    Attributes:
        start, end: edges of the content in the image, pixels.
        length: number of pixels of the image.
        size: number of pixels of the content in the crop.
        before: number of padding pixels in front of the content.
        room: number of pixels of the crop.
    """

    start: int
    end: int
    length: int
    size: int
    before: int
    room: int

    @classmethod
    def of(cls, start: int, end: int, length: int, room: int, num: int, den: int) -> CutSide:
        """Return the axis of content at the scale ``num / den``, which fits the crop, in its middle."""
        size = max(1, -(-(2 * (end - start) * num - den) // (2 * den)))
        before = (room - size) // 2
        return cls(start, end, length, size, before, room)

    def reach(self, num: int, den: int) -> tuple[int, int]:
        """Return the first and one past the last pixel of the image that the crop may read."""
        beside = 0 if num == den else -(-den // num) + 1
        return max(self.start - beside, 0), min(self.end + beside, self.length)

    def within(self, first: int, end: int) -> CutSide:
        """Return the axis of the same content in a part of the image that holds `reach`."""
        return self._replace(start=self.start - first, end=self.end - first, length=end - first)


@dataclass(frozen=True, slots=True)
class CutAxis:
    """Positions in the image that the pixels of the content along one axis read.

    Attributes:
        side: the axis.
        nearest: nearest pixel of the image, [size] int64.
        linear: pixels of the image [size, 2] int64 and their weights [size, 2] float32.
        filter: pixels of the image [size, T] int64 and their weights [size, T] int64; the sum of the weights is
            `sampling.WEIGHT_ONE`.
    """

    side: CutSide
    nearest: Tensor
    linear: tuple[Tensor, Tensor]
    filter: tuple[Tensor, Tensor]


def axis_of(side: CutSide, num: int, den: int) -> CutAxis:
    """Return the positions along one axis."""
    start, end, length, size, *_ = side
    numerator = torch.tensor(num, dtype=torch.int64, device="cpu")
    position = sampling.source_position(torch.arange(size, device="cpu"), 0, numerator, den)
    nearest = sampling.nearest_index(position, numerator).clamp(max=end - start - 1) + start

    def taps(denominator: int, num_taps: int) -> tuple[Tensor, Tensor]:
        first, weights = sampling.filter_taps(position, numerator, denominator, num_taps)
        return (first[:, None] + torch.arange(num_taps, device="cpu") + start).clamp(0, length - 1), weights

    idx, weights = taps(num, 2)
    return CutAxis(side, nearest, (idx, weights / sampling.WEIGHT_ONE), taps(den, -(-2 * den // num)))


def cut_out(image: Tensor, mask: Tensor, rows: CutSide, cols: CutSide, scale: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Cut out an object: the image is averaged by the antialiasing triangle filter, the mask read at the nearest pixel.

    Args:
        image: [3, H, W] uint8 with any strides.
        mask: [H, W] bool.
        rows: the vertical axis, of length H.
        cols: the horizontal axis, of length W.
        scale: number of crop pixels per image pixel, as (num, den), at most 1.

    Returns:
        The crop [3, h, w] uint8, whose padding repeats the edge of the content, and its mask [1, h, w] bool.
    """
    from segpaste.datasets._windows import runs_natively  # importing segpaste does not import the native core
    from segpaste.engine.native import windows

    num, den = scale
    if runs_natively() and image.is_cpu and mask.is_cpu:
        size = rows.room, cols.room
        out = torch.empty(3, *size, dtype=torch.uint8, device="cpu")
        alpha = torch.empty(1, *size, dtype=torch.bool, device="cpu")
        windows.cut_out(image, mask, rows, cols, scale, out, alpha)
        return out, alpha
    down, along = axis_of(rows, num, den), axis_of(cols, num, den)
    alpha = torch.zeros(1, rows.room, cols.room, dtype=torch.bool, device="cpu")
    x, y = cols.before, rows.before
    alpha[0, y : y + rows.size, x : x + cols.size] = mask[down.nearest[:, None], along.nearest]
    return repeat_edges(_filtered(image, down, along), rows, cols), alpha


def cut_surfaces(sample: DenseSample, rows: CutSide, cols: CutSide, scale: tuple[int, int]) -> dict[str, Tensor]:
    """Return depth, its validity and normals of a crop, [., h, w] each, if the sample has them."""
    values: dict[str, Tensor] = {}
    if sample.depth is None and sample.normals is None:
        return values
    down, along = axis_of(rows, *scale), axis_of(cols, *scale)
    at = down.nearest[:, None], along.nearest
    (y, of_rows), (x, of_cols) = down.linear, along.linear
    weights = (of_rows[:, None, :, None] * of_cols[None, :, None, :]).flatten(-2)

    def taps(value: Tensor) -> Tensor:
        return value[..., y[:, None, :, None], x[None, :, None, :]].flatten(-2)

    if sample.depth is not None and sample.depth_valid is not None:
        depth, valid = sample.depth.as_subclass(Tensor), sample.depth_valid.as_subclass(Tensor)
        values["depth"], values["depth_valid"] = sampling.mix_depth(
            taps(depth), taps(valid), weights, depth[..., at[0], at[1]]
        )
    if sample.normals is not None:
        normals = sample.normals.as_subclass(Tensor)
        values["normals"] = sampling.mix_normals(taps(normals), weights, normals[..., at[0], at[1]])
    return {name: repeat_edges(value, rows, cols) for name, value in values.items()}


def repeat_edges(content: Tensor, rows: CutSide, cols: CutSide) -> Tensor:
    """Pad content [., rows, cols] to the size of the crop with its own edge."""
    y = torch.arange(-rows.before, rows.room - rows.before, device="cpu").clamp(0, rows.size - 1)
    x = torch.arange(-cols.before, cols.room - cols.before, device="cpu").clamp(0, cols.size - 1)
    return content.index_select(1, y).index_select(2, x)


def _filtered(image: Tensor, rows: CutAxis, cols: CutAxis) -> Tensor:
    """Average [3, H, W] uint8 to [3, rows, cols], rounded to the nearest, a half upwards."""
    x0, x1 = int(cols.filter[0].min()), int(cols.filter[0].max()) + 1
    wide = _weighed(image[:, :, x0:x1], 1, *rows.filter)
    total = _weighed(wide, 2, cols.filter[0] - x0, cols.filter[1])
    return ((total + (1 << (2 * sampling.WEIGHT_BITS - 1))) >> (2 * sampling.WEIGHT_BITS)).to(torch.uint8)


def _weighed(values: Tensor, dim: int, idx: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over taps along one dimension, int32; one tap at a time, so that memory stays small."""
    shape = [1, 1, 1]
    shape[dim] = -1
    total = torch.zeros((), dtype=torch.int32, device="cpu")
    for tap in range(idx.shape[1]):
        weight = weights[:, tap].int().view(shape)
        total = total + values.index_select(dim, idx[:, tap]).int() * weight
    return total


def moved_camera(
    camera: CameraIntrinsics, corner: tuple[int, int], scale: float, offset: tuple[int, int]
) -> NDArray[np.float32]:
    """Return the camera [4] of a crop; ``corner`` (x, y) of the image is at ``offset`` in the crop."""
    moved = camera.cropped(corner[1], corner[0]).resized(scale, scale).cropped(-offset[1], -offset[0])
    return np.array([moved.fx, moved.fy, moved.cx, moved.cy], np.float32)


def moved_points(points: Tensor, corner: tuple[int, int], scale: float, offset: tuple[int, int]) -> Tensor:
    """Return keypoints [P, 3] of an image in a crop; ``corner`` (x, y) of the image is at ``offset`` in the crop."""
    moved = points.double()
    shift = torch.tensor([*offset], dtype=torch.float64, device="cpu")
    moved[:, :2] = (moved[:, :2] - torch.tensor([*corner], dtype=torch.float64, device="cpu")) * scale + shift
    return torch.where(points[:, 2:] > 0, moved, 0.0).float()
