"""Value types of a sample: tagged tensors, camera intrinsics, modalities, the panoptic schema.

The tagged tensors are ``torchvision.tv_tensors``, so that ``torchvision.transforms.v2`` can transform them
(`segpaste.types.transforms_v2` registers the kernels). Inside a compiled region use plain tensors:
`PaddedBatchedDenseSample` removes the tags.
"""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Literal, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torchvision import tv_tensors

from segpaste._pixels import IGNORE_INDEX as IGNORE_INDEX
from segpaste.types.movable import Movable
from segpaste.types.tracing import is_traced

_IS_SENT: Final[ContextVar[bool]] = ContextVar("is_sent", default=False)
_SLOTS: Final[ContextVar[tuple[MaskSlots, int] | None]] = ContextVar("slots", default=None)


class Modality(enum.Enum):
    """Kind of data that a sample can hold besides boxes and labels."""

    IMAGE = "image"
    INSTANCE = "instance"
    PANOPTIC = "panoptic"
    SEMANTIC = "semantic"
    DEPTH = "depth"
    NORMALS = "normals"


def tensor_of(value: Any) -> Tensor:
    """Return a value as a plain tensor: a tensor stays on its device, an array or a list comes to the CPU."""
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
    return tensor.as_subclass(Tensor)


class _Staying:
    """Tagged tensor that stays on the device of its data; torchvision moves data to the default device."""

    def __new__(cls, data: Any, *, device: torch.device | str | int | None = None, **options: Any) -> Self:
        device = data.device if device is None and isinstance(data, Tensor) else device
        return super().__new__(cls, data, device=device, **options)  # type: ignore[call-arg]


class InstanceMask(_Staying, tv_tensors.Mask):
    """Boolean mask of each instance, [N, H, W] (or [B, N, H, W])."""


class SemanticMap(_Staying, tv_tensors.Mask):
    """Class of each pixel, [H, W] int64; 255 is ignored."""


class PanopticMap(_Staying, tv_tensors.Mask):
    """Instance id of each pixel, [H, W] int64; 0 is stuff."""


class PaddingMask(_Staying, tv_tensors.Mask):
    """Mask of padding, [1, H, W] bool, True where a pixel does not belong to the image."""


class CrowdMask(_Staying, tv_tensors.Mask):
    """Mask of regions whose objects are not annotated individually, [1, H, W] bool."""


class MovedPadding(PaddingMask):
    """Padding mask whose pixels a transform has moved; a padded batch then moves its images to the top left."""


class MovingBoxes(_Staying, tv_tensors.BoundingBoxes):
    """Boxes inside transforms v2; a centre crop moves them exactly as it moves the image."""


class LooseBoxes(MovingBoxes):
    """Boxes that a transform moved only approximately; if there are masks, the boxes are fitted to them again."""


class DepthMap(tv_tensors.TVTensor):
    """Depth inside transforms v2, [1, H, W] float32, NaN where it is invalid."""


class DepthValidMask(_Staying, tv_tensors.Mask):
    """Validity of depth inside transforms v2, [1, H, W] bool."""


class NormalMap(tv_tensors.TVTensor):
    """Surface normals inside transforms v2, [3, H, W] float32, the zero vector where invalid."""


class IntrinsicsTensor(tv_tensors.TVTensor):
    """Camera intrinsics inside transforms v2: (fx, fy, cx, cy, H, W) as float64 [6] or [B, 6].

    The canvas size is stored as values, because attributes of a tensor do not survive a clone.
    """

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of the image of the camera, (H, W)."""
        height, width = (int(v) for v in self.as_subclass(torch.Tensor).view(-1, 6)[0, 4:])
        return height, width

    @classmethod
    def tag(cls, camera: CameraIntrinsics | Tensor, canvas_size: tuple[int, int]) -> IntrinsicsTensor:
        """Convert the camera of an image of size ``(H, W)``, or the cameras [B, 4] of a batch of such images."""
        if isinstance(camera, CameraIntrinsics):
            camera = torch.tensor([camera.fx, camera.fy, camera.cx, camera.cy], dtype=torch.float64, device="cpu")
        canvas = torch.tensor(canvas_size, dtype=torch.float64, device=camera.device)
        return torch.cat([camera.double(), canvas.expand(*camera.shape[:-1], 2)], dim=-1).as_subclass(cls)


@dataclass(frozen=True, slots=True)
class CameraIntrinsics(Movable):
    """Intrinsics of a pinhole camera in pixels, in continuous coordinates: pixel i has its centre at i + 0.5.

    In calibrations with pixel centres at integers (OpenCV), ``cx`` and ``cy`` are smaller by 0.5.

    Attributes:
        fx: focal length along x, pixels, > 0.
        fy: focal length along y, pixels, > 0.
        cx: principal point, pixels from the left edge of the image.
        cy: principal point, pixels from the top edge of the image.

    Raises:
        TypeError: a value is not a real number; convert a tensor with ``float(value)``.
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
        """Return the camera of the image scaled by these factors."""
        return CameraIntrinsics(self.fx * scale_x, self.fy * scale_y, self.cx * scale_x, self.cy * scale_y)

    def cropped(self, top: float, left: float) -> CameraIntrinsics:
        """Return the camera of the image cropped at this top-left corner, in pixels (negative: padded)."""
        return CameraIntrinsics(self.fx, self.fy, self.cx - left, self.cy - top)

    def hflipped(self, width: float) -> CameraIntrinsics:
        """Return the camera of the image, of this width, flipped horizontally."""
        return CameraIntrinsics(self.fx, self.fy, width - self.cx, self.cy)

    def vflipped(self, height: float) -> CameraIntrinsics:
        """Return the camera of the image, of this height, flipped vertically."""
        return CameraIntrinsics(self.fx, self.fy, self.cx, height - self.cy)

    def to_tensor(self) -> Tensor:
        """Return (fx, fy, cx, cy) as float32 [4]."""
        return torch.tensor([self.fx, self.fy, self.cx, self.cy], dtype=torch.float32, device="cpu")

    @classmethod
    def from_tensor(cls, values: Tensor) -> CameraIntrinsics:
        """Create a camera from the first four values of a tensor: the inverse of `to_tensor`."""
        fx, fy, cx, cy = (float(v) for v in values[:4])
        return cls(fx, fy, cx, cy)


@runtime_checkable
class PanopticSchema(Protocol):
    """Division of the classes into things and stuff; given by the user, never inferred from data."""

    @property
    def classes(self) -> Mapping[int, Literal["thing", "stuff"]]:
        """``"thing"`` or ``"stuff"`` for each class id."""
        ...

    @property
    def ignore_index(self) -> int:
        """Semantic class of unlabelled pixels."""
        ...

    @property
    def max_instances_per_image(self) -> int:
        """Maximum number of instances in one image; more are an error."""
        ...


def pixel_counts(masks: Tensor) -> Tensor:
    """Return the number of pixels of each mask [N, H, W] bool, [N] int64."""
    plain = masks.as_subclass(Tensor)
    if plain.is_cpu and not is_traced():  # NumPy counts bools many times faster than torch adds them
        counts = [np.count_nonzero(mask) for mask in plain.numpy()]
        return torch.tensor(counts, dtype=torch.int64, device="cpu")
    return plain.flatten(1).sum(1)


def _ends(line: bytes) -> tuple[int, int]:
    """Return the first and one past the last byte of a line that is not 0; zeros without one."""
    first = len(line) - len(line.lstrip(b"\0"))
    return (first, len(line.rstrip(b"\0"))) if first < len(line) else (0, 0)


def _boxes_on_cpu(pixels: Tensor) -> Tensor:
    """Return `tight_boxes` of masks [N, H, W] uint8 on the CPU: rows from words of 8 pixels, columns of those rows."""
    are_words = pixels.numel() and pixels.shape[2] % 8 == pixels.storage_offset() % 8 == 0 and pixels.is_contiguous()
    filled = (pixels.view(torch.int64) if are_words else pixels) != 0  # bytes of bool tensors may have any value
    covered = filled.view(torch.uint8).amax(2).numpy()
    boxes = np.zeros((len(pixels), 4), np.float32)
    for n, plane in enumerate(pixels.numpy()):
        top, bottom = _ends(covered[n].tobytes())
        if bottom:
            left, right = _ends(plane[top:bottom].max(0).tobytes())
            boxes[n] = left, top, right, bottom
    return torch.from_numpy(boxes)


def tight_boxes(masks: Tensor) -> Tensor:
    """Return the boxes of masks, in continuous pixel edges: columns 3..5 give x1 = 3, x2 = 6.

    Do not use it for masks with a batch dimension on a device: `segpaste.augmentation` measures those.

    Args:
        masks: [N, H, W] bool.

    Returns:
        [N, 4] float32 xyxy, zeros where a mask is empty.
    """
    pixels = masks.as_subclass(Tensor).view(torch.uint8)  # torch reduces bool tensors many times slower
    if pixels.is_cpu and not is_traced():
        return _boxes_on_cpu(pixels)
    edges = []
    for covered in (pixels.amax(1), pixels.amax(2)):
        first = covered.argmax(1)
        last = covered.shape[1] - covered.flip(1).argmax(1)
        edges.append(torch.stack([first, last], 1) * covered.amax(1, keepdim=True))
    return torch.stack(edges, 2).flatten(1).to(torch.float32)


def untouched(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return zeros on the CPU, in memory that the system provides only when it is written; torch writes its zeros."""
    return torch.from_numpy(np.zeros(shape, torch.empty(0, dtype=dtype, device="cpu").numpy().dtype))


@contextlib.contextmanager
def sent_batch() -> Iterator[None]:
    """Let a loader worker make the batch inside of the block in shared memory, in which it is sent without a copy.

    Only what is sent belongs there: each tensor holds a file descriptor for as long as it exists.
    """
    token = _IS_SENT.set(get_worker_info() is not None)
    try:
        yield
    finally:
        _IS_SENT.reset(token)


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros for a batch: `untouched` on the CPU, for a `sent_batch` in shared memory.

    Empty slots, most bytes of a batch, are never written.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    if 0 in shape or not _IS_SENT.get():
        return untouched(shape, dtype)
    num_bytes = math.prod(shape) * dtype.itemsize
    storage = torch.UntypedStorage._new_shared(num_bytes, device="cpu")  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=dtype, device=device).set_(storage).view(*shape)  # new, so zeros


def stacked(rows: Sequence[Tensor]) -> Tensor:
    """Return the rows of a batch as one tensor, see `zeros`."""
    if not _IS_SENT.get():
        return torch.stack([*rows])
    return torch.stack([*rows], out=zeros((len(rows), *rows[0].shape), rows[0].dtype, rows[0].device))


class MaskSlots:
    """Masks of a batch that is being read, [B, K, H, W] bool: what a sample draws in its slots needs no copy.

    Args:
        num_samples: samples of the batch, B.
        max_instances: instance slots of a sample, K.
    """

    def __init__(self, num_samples: int, max_instances: int) -> None:
        self._shape = num_samples, max_instances
        self._masks: Tensor | None = None
        self._given: dict[int, Tensor] = {}
        self._kept: dict[int, int] = {}

    @contextlib.contextmanager
    def drawing(self, b: int) -> Iterator[None]:
        """Let `mask_planes` return slots of sample ``b`` inside of the block."""
        token = _SLOTS.set((self, b))
        try:
            yield
        finally:
            _SLOTS.reset(token)

    def give(self, b: int, num: int, size: tuple[int, int]) -> Tensor | None:
        """Return the first ``num`` slots of a sample; None if it was given some, or if there is no room for them."""
        if b in self._given or not 0 < num <= self._shape[1] or 0 in size:
            return None
        if self._masks is None:
            with sent_batch():
                self._masks = zeros((*self._shape, *size), torch.bool, torch.device("cpu"))
        if self._masks.shape[2:] != size:
            return None
        self._given[b] = self._masks[b, :num]
        return self._given[b]

    def keep(self, b: int, planes: Tensor, num: int) -> None:
        """Note how many of its planes are the masks of a sample; the others are zeros."""
        if planes is self._given.get(b):
            self._kept[b] = num

    def filled(self, rows: Sequence[Tensor]) -> Tensor | None:
        """Return the slots with the masks of all samples, [N, H, W] each; None if no sample was drawn in them.

        Masks that are not those drawn there, such as those of a dataset that has selected some, are copied.
        """
        if self._masks is None or any(row.shape[1:] != self._masks.shape[2:] for row in rows):
            return None
        for b, row in enumerate(rows):
            given = self._given.get(b)
            is_there = given is not None and row.data_ptr() == given.data_ptr() and len(row) == self._kept.get(b)
            if not (is_there and row.is_contiguous()):
                row = row.clone() if given is not None else row  # it may be a part of what is cleared
                if given is not None:
                    given.zero_()
                self._masks[b, : len(row)] = row
        return self._masks


def mask_planes(num: int, size: tuple[int, int]) -> Tensor:
    """Return zeros [num, H, W] bool on the CPU for the masks of a sample, if possible in its slots of a `MaskSlots`."""
    place = _SLOTS.get()
    given = place[0].give(place[1], num, size) if place else None
    return untouched((num, *size), torch.bool) if given is None else given


def kept_planes(planes: Tensor, num: int) -> Tensor:
    """Return the first of the `mask_planes` of a sample, its masks; the others must be zeros."""
    if (place := _SLOTS.get()) is not None:
        place[0].keep(place[1], planes, num)
    return planes[:num]
