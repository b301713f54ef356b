"""The value types of a sample: tagged tensors, camera intrinsics, modalities, the panoptic schema.

The tagged tensors are ``torchvision.tv_tensors``, so that ``torchvision.transforms.v2`` knows how to move each of
them (`segpaste.types.transforms.transforms_v2` registers the kernels). Inside a compiled region use plain tensors:
`PaddedBatchedDenseSample` strips the tags.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types.movable import Movable

IGNORE_INDEX = 255
"""The semantic class of pixels that carry no label."""


class Modality(enum.Enum):
    """What a sample can carry besides boxes and labels."""

    IMAGE = "image"
    INSTANCE = "instance"
    PANOPTIC = "panoptic"
    SEMANTIC = "semantic"
    DEPTH = "depth"
    NORMALS = "normals"


class InstanceMask(tv_tensors.Mask):
    """One boolean mask per instance, [N, H, W] (or [B, N, H, W])."""


class SemanticMap(tv_tensors.Mask):
    """The class of every pixel, [H, W] int64; 255 is ignored."""


class PanopticMap(tv_tensors.Mask):
    """The instance id of every pixel, [H, W] int64; 0 is stuff."""


class PaddingMask(tv_tensors.Mask):
    """True where a pixel is padding and not picture, [1, H, W] bool."""


class CrowdMask(tv_tensors.Mask):
    """True in regions whose objects are not told apart, [1, H, W] bool."""


class MovedPadding(PaddingMask):
    """A padding mask whose pixels a transform has moved; a padded batch then moves its pictures to the top left."""


class MovingBoxes(tv_tensors.BoundingBoxes):
    """Boxes on their way through transforms v2; a centre crop moves them exactly as it moves the image."""


class LooseBoxes(MovingBoxes):
    """Boxes that a transform moved only roughly; where there are masks, they are fitted to those again."""


class DepthMap(tv_tensors.TVTensor):
    """Depth on its way through transforms v2, [1, H, W] float32 with NaN where it is invalid."""


class DepthValidMask(tv_tensors.Mask):
    """Depth validity on its way through transforms v2, [1, H, W] bool."""


class NormalMap(tv_tensors.TVTensor):
    """Surface normals on their way through transforms v2, [3, H, W] float32, the zero vector where invalid."""


class IntrinsicsTensor(tv_tensors.TVTensor):
    """Camera intrinsics on their way through transforms v2: (fx, fy, cx, cy, H, W) as float64 [6] or [B, 6].

    The canvas travels among the values, because attributes of a tensor do not survive a clone.
    """

    @property
    def canvas_size(self) -> tuple[int, int]:
        """(H, W) of the image that the camera took."""
        height, width = (int(v) for v in self.as_subclass(torch.Tensor).view(-1, 6)[0, 4:])
        return height, width

    @classmethod
    def tag(cls, camera: CameraIntrinsics | Tensor, canvas_size: tuple[int, int]) -> IntrinsicsTensor:
        """The camera of an image of size ``(H, W)``, or the cameras [B, 4] of a batch of such images."""
        if isinstance(camera, CameraIntrinsics):
            camera = torch.tensor([camera.fx, camera.fy, camera.cx, camera.cy], dtype=torch.float64)
        canvas = torch.tensor(canvas_size, dtype=torch.float64, device=camera.device)
        return torch.cat([camera.double(), canvas.expand(*camera.shape[:-1], 2)], dim=-1).as_subclass(cls)


@dataclass(frozen=True, slots=True)
class CameraIntrinsics(Movable):
    """A pinhole camera in pixels, in continuous coordinates: pixel i has its centre at i + 0.5.

    A calibration whose pixel centres lie at integers (OpenCV) has ``cx`` and ``cy`` smaller by 0.5.

    Attributes:
        fx: focal length along x, pixels, > 0.
        fy: focal length along y, pixels, > 0.
        cx: principal point, pixels from the left edge of the image.
        cy: principal point, pixels from the top edge of the image.

    Raises:
        TypeError: a value is no real number; that of a tensor is ``float(value)``.
        ValueError: a value is not finite, or a focal length is not > 0.
    """

    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in ("fx", "fy", "cx", "cy")}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"CameraIntrinsics.{name}: expected a number, got {type(value).__name__} {value!r:.80}")
        if not (all(map(math.isfinite, values.values())) and self.fx > 0 and self.fy > 0):
            got = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ValueError(f"CameraIntrinsics: expected finite numbers and focal lengths > 0 px, got {got}")

    def resized(self, scale_x: float, scale_y: float) -> CameraIntrinsics:
        """The camera of the image scaled by these factors."""
        return CameraIntrinsics(self.fx * scale_x, self.fy * scale_y, self.cx * scale_x, self.cy * scale_y)

    def cropped(self, top: float, left: float) -> CameraIntrinsics:
        """The camera of the image cut at this top-left corner, pixels (negative: padded)."""
        return CameraIntrinsics(self.fx, self.fy, self.cx - left, self.cy - top)

    def hflipped(self, width: float) -> CameraIntrinsics:
        """The camera of the image of this width mirrored left to right."""
        return CameraIntrinsics(self.fx, self.fy, width - self.cx, self.cy)

    def vflipped(self, height: float) -> CameraIntrinsics:
        """The camera of the image of this height mirrored top to bottom."""
        return CameraIntrinsics(self.fx, self.fy, self.cx, height - self.cy)

    def to_tensor(self) -> Tensor:
        """(fx, fy, cx, cy) as float32 [4]."""
        return torch.tensor([self.fx, self.fy, self.cx, self.cy], dtype=torch.float32)

    @classmethod
    def from_tensor(cls, values: Tensor) -> CameraIntrinsics:
        """The inverse of `to_tensor`; what follows the first four values is left out."""
        fx, fy, cx, cy = (float(v) for v in values[:4])
        return cls(fx, fy, cx, cy)


@runtime_checkable
class PanopticSchema(Protocol):
    """Which classes are things and which are stuff; given by the user, never inferred from data."""

    @property
    def classes(self) -> Mapping[int, Literal["thing", "stuff"]]:
        """Class id to ``"thing"`` or ``"stuff"``."""
        ...

    @property
    def ignore_index(self) -> int:
        """The semantic class of unlabelled pixels."""
        ...

    @property
    def max_instances_per_image(self) -> int:
        """More instances than this in one image are an error."""
        ...


def tight_boxes(masks: Tensor) -> Tensor:
    """Return the boxes of masks, in continuous pixel edges: columns 3..5 give x1 = 3, x2 = 6.

    Not for masks with a batch dimension on a device: `segpaste.augmentation` measures those.

    Args:
        masks: [N, H, W] bool.

    Returns:
        [N, 4] float32 xyxy, zeros where a mask is empty.
    """
    edges = []
    pixels = masks.as_subclass(Tensor).view(torch.uint8)  # torch reduces bool many times slower
    for covered in (pixels.amax(1), pixels.amax(2)):
        first = covered.argmax(1)
        last = covered.shape[1] - covered.flip(1).argmax(1)
        edges.append(torch.stack([first, last], 1) * covered.amax(1, keepdim=True))
    return torch.stack(edges, 2).flatten(1).to(torch.float32)
