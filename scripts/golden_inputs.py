"""Batches and crops for `golden_records`, each a pure function of its `Spec`, from integer arithmetic only.

The random numbers are those of splitmix64, written out here, so no release of NumPy or torch can change them. Floats
are integers over a power of two. Normals are Pythagorean quadruples over their length, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste import PaddedBatchedDenseSample, StagedCrops

T = TypeVar("T")
Array = NDArray[Any]

THINGS, STUFF, IGNORED = (1, 2, 3), (11, 12), 255
MODALITIES = ("instance", "panoptic", "semantic", "depth", "normals")
DTYPES = ("uint8", "float32", "float16", "bfloat16")
LAYOUTS = ("rows", "channels_last", "transposed")

_QUADRUPLES = ((1, 2, 2, 3), (2, 3, 6, 7), (4, 1, 8, 9), (6, 6, 7, 11), (4, 12, 3, 13), (10, 2, 11, 15), (0, 0, 1, 1))
"""Integers (a, b, c, d) with a² + b² + c² = d²."""


class Integers:
    """Random integers of a seed, one after another: splitmix64, Steele et al., OOPSLA 2014."""

    def __init__(self, seed: int) -> None:
        self._start = int(_mixed(np.array([seed], np.uint64))[0])
        self._num = 0

    def bits(self, *shape: int) -> Array:
        """Draw 64 random bits each."""
        num = int(np.prod(shape, dtype=np.int64))
        counter = np.arange(self._num + 1, self._num + num + 1, dtype=np.uint64)
        self._num += num
        step = np.full(num, 0x9E3779B97F4A7C15, np.uint64)
        return _mixed(np.full(num, self._start, np.uint64) + counter * step).reshape(shape)

    def below(self, limit: int, *shape: int) -> Array:
        """Draw integers from 0 to ``limit - 1``, int64."""
        return ((self.bits(*shape) >> np.uint64(33)) % np.uint64(limit)).astype(np.int64)

    def one_below(self, limit: int) -> int:
        """Draw one integer from 0 to ``limit - 1``."""
        return int(self.below(limit, 1)[0])

    def percent(self, chance: int, *shape: int) -> NDArray[np.bool_]:
        """Draw bools that are True with this chance in percent."""
        return np.asarray(self.below(100, *shape) < chance)

    def one_of(self, choices: Sequence[T]) -> T:
        """Choose one of them, each as likely."""
        return choices[self.one_below(len(choices))]


def _mixed(state: Array) -> Array:
    state = (state ^ (state >> np.uint64(30))) * np.full(1, 0xBF58476D1CE4E5B9, np.uint64)
    state = (state ^ (state >> np.uint64(27))) * np.full(1, 0x94D049BB133111EB, np.uint64)
    return np.asarray(state ^ (state >> np.uint64(31)))


@dataclass(frozen=True)
class CropSpec:
    """The sizes of staged crops.

    Attributes:
        num: crops for each target.
        size: (h, w).
        depth: whether they have depth.
        normals: whether they have normals.
        cameras: whether they have cameras, some of them unknown.
        scales: whether they have scales.
    """

    num: int = 3
    size: tuple[int, int] = (20, 24)
    depth: bool = False
    normals: bool = False
    cameras: bool = False
    scales: bool = False


@dataclass(frozen=True)
class Spec:
    """Inputs of one forward, besides its config.

    Attributes:
        seed: of all values.
        batch: B.
        size: (H, W).
        slots: K.
        instances: at most so many in an image.
        modalities: some of `MODALITIES`.
        dtype: of the images, one of `DTYPES`.
        channels: C.
        white: the value of white in float images; 0 for values of both signs.
        layout: one of `LAYOUTS`; with ``transposed`` that of every field.
        overlap: whether masks may overlap; not with panoptic maps.
        loose_boxes: whether boxes are wider than their masks; not with panoptic maps.
        large_ids: whether ids are large.
        padding: ``none``, ``edges``, or ``holes`` for padding of any pixels too.
        cameras: whether there are cameras.
        metric_depth: the flag.
        wild_depth: whether invalid depth is NaN, infinite or negative.
        filled_depth: whether invalid depth keeps its value.
        crops: staged crops, or None.
        source: which source strategy, one of `golden_sources.NAMES`.
        progress: (numerator, denominator) of how far training is, or None.
        inplace: of the module.
        report: whether the output comes from a call that asks for a report.
    """

    seed: int
    batch: int = 3
    size: tuple[int, int] = (40, 48)
    slots: int = 8
    instances: int = 4
    modalities: tuple[str, ...] = MODALITIES
    dtype: str = "uint8"
    channels: int = 3
    white: int = 1
    layout: str = "rows"
    overlap: bool = False
    loose_boxes: bool = False
    large_ids: bool = False
    padding: str = "none"
    cameras: bool = False
    metric_depth: bool = False
    wild_depth: bool = False
    filled_depth: bool = False
    crops: CropSpec | None = None
    source: str = "config"
    progress: tuple[int, int] | None = None
    inplace: bool = False
    report: bool = True

    def written(self) -> dict[str, Any]:
        """Return all fields as JSON has them."""
        return asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> Spec:
        """Return what `written` gave."""
        crops = values["crops"]
        if crops is not None:
            crops = CropSpec(**{**crops, "size": tuple(crops["size"])})
        progress = None if values["progress"] is None else tuple(values["progress"])
        pairs = {"size": tuple(values["size"]), "modalities": tuple(values["modalities"])}
        return cls(**{**values, **pairs, "progress": progress, "crops": crops})


def target_batch(spec: Spec) -> PaddedBatchedDenseSample:
    """Make the batch that is pasted into."""
    draws = Integers(spec.seed)
    shape = spec.batch, spec.slots
    valid = _valid_slots(draws, spec)
    masks = np.zeros((*shape, *spec.size), bool)
    for b, k in zip(*np.nonzero(valid), strict=True):
        masks[b, k] = _object(draws, spec.size, few=spec.instances <= 8)
    if not spec.overlap:  # the first slot owns a pixel
        covered = np.zeros((spec.batch, *spec.size), bool)
        for mask in np.moveaxis(masks, 1, 0):
            before = mask.copy()
            mask &= ~covered
            covered |= before
    labels = np.where(valid, np.array(THINGS)[draws.below(len(THINGS), *shape)], 0)
    ids = np.where(valid, _ids(draws, spec), 0)
    values: dict[str, Any] = {
        "images": _images(draws, spec),
        "boxes": _boxes(draws, masks, valid, spec.loose_boxes),
        "labels": labels,
        "instance_valid": valid,
        "sample_seeds": draws.bits(spec.batch).view(np.int64),
    }
    if "instance" in spec.modalities:
        values |= {"instance_masks": masks, "instance_ids": ids.astype(np.int32)}
    maps = _maps(draws, masks, labels, ids)
    values |= {f"{name}_maps": maps[name] for name in maps if name in spec.modalities}
    dense = spec.batch, 1, *spec.size
    surfaces = _depth(draws, dense, masks, spec) | {"normals": _normals(draws, (spec.batch, 3, *spec.size))}
    values |= {name: v for name, v in surfaces.items() if name.split("_")[0] in spec.modalities}
    if spec.padding != "none":
        values["padding_mask"] = _padding(draws, dense, spec.padding == "holes")
    if spec.cameras:
        values["camera_intrinsics"] = (draws.below(400, spec.batch, 4) + 100).astype(np.float32) / np.float32(16)
    tensors = {name: _tensor(value) for name, value in values.items()}
    tensors["images"] = tensors["images"].to(getattr(torch, spec.dtype))
    tensors = {name: _laid_out(name, value, spec.layout) for name, value in tensors.items()}
    return PaddedBatchedDenseSample(**tensors, metric_depth=spec.metric_depth)


def staged_crops(spec: Spec) -> StagedCrops | None:
    """Make the crops that come with the batch, if the spec has any."""
    if spec.crops is None:
        return None
    draws, size = Integers(spec.seed + (1 << 40)), spec.crops.size
    shape = spec.batch, spec.crops.num
    alphas = np.zeros((*shape, *size), bool)
    for b, k in zip(*np.nonzero(~draws.percent(8, *shape)), strict=True):
        alphas[b, k] = _object(draws, size, few=True)
    known = (*THINGS, *THINGS, STUFF[0], 77) if spec.seed % 3 == 0 else THINGS
    values: dict[str, Any] = {
        "images": draws.below(256, *shape, 3, *size).astype(np.uint8),
        "alphas": alphas[:, :, None],
        "class_ids": np.array(known)[draws.below(len(known), *shape)],
        "boxes": _tight_boxes(alphas),
        "crop_idx": draws.below(1000, *shape),
    }
    if spec.crops.scales:
        values["scales"] = (draws.below(60, *shape) + 4).astype(np.float32) / np.float32(64)
    flat = spec.batch * spec.crops.num, 1, *size
    if spec.crops.depth:
        surface = _depth(draws, flat, alphas.reshape(flat), spec)
        values |= {name: value.reshape(*shape, 1, *size) for name, value in surface.items()}
    if spec.crops.normals:
        values["normals"] = _normals(draws, (flat[0], 3, *size)).reshape(*shape, 3, *size)
    if spec.crops.cameras:
        cameras = (draws.below(400, *shape, 4) + 100).astype(np.float32) / np.float32(16)
        cameras[draws.percent(10, *shape)] = np.nan
        values["camera_intrinsics"] = cameras
    tensors: dict[str, Any] = {name: _tensor(value) for name, value in values.items()}
    return StagedCrops(**tensors, metric_depth=spec.metric_depth and spec.crops.depth)


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def _laid_out(name: str, tensor: Tensor, layout: str) -> Tensor:
    """Return the same values in another order in memory."""
    if layout == "channels_last" and name == "images":
        return tensor.contiguous(memory_format=torch.channels_last)
    if layout == "transposed" and tensor.ndim > 2:
        return tensor.mT.contiguous().mT
    return tensor


def _valid_slots(draws: Integers, spec: Spec) -> Array:
    """Choose the slots that hold an instance, [B, K] bool: any slots, one or more in most images."""
    valid = np.zeros((spec.batch, spec.slots), bool)
    most = min(spec.instances, spec.slots)
    for b in range(spec.batch if most else 0):
        num = 0 if draws.one_below(20) == 0 else 1 + (draws.one_below(2 * most) + most) % (2 * most) // 2
        valid[b, draws.bits(spec.slots).argsort(kind="stable")[:num]] = True
    return valid


def _object(draws: Integers, size: tuple[int, int], few: bool) -> Array:
    """Draw a mask, [H, W] bool: a rectangle, an ellipse, a ring, a rectangle with holes, a corner, or one pixel."""
    height, width = size
    spread = 4 if few else 12
    ry, rx = (1 + draws.one_below(max(side // spread, 1)) for side in size)
    cy, cx = draws.one_below(height), draws.one_below(width)
    dy, dx = np.abs(np.arange(height)[:, None] - cy), np.abs(np.arange(width) - cx)
    box: Array = (dy <= ry) & (dx <= rx)
    far: Array = (dy * rx) ** 2 + (dx * ry) ** 2
    kind = draws.one_of(("box", "ellipse", "ellipse", "ring", "holes", "corner", "pixel"))
    if kind == "ellipse":
        return np.asarray(far <= (rx * ry) ** 2)
    if kind == "ring":
        return np.asarray((far <= (rx * ry) ** 2) & (4 * far >= (rx * ry) ** 2))
    if kind == "holes":
        return np.asarray(box & ~draws.percent(30, *size))
    if kind == "corner":
        return np.asarray(box & ((dy * 2 > ry) | (np.arange(width) < cx)))
    return np.asarray((dy == 0) & (dx == 0)) if kind == "pixel" else np.asarray(box)


def _ids(draws: Integers, spec: Spec) -> Array:
    """Draw ids that are unique in an image, [B, K], with gaps and in any order."""
    ids = np.cumsum(1 + draws.below(4, spec.batch, spec.slots), 1) + (1_000_000_000 if spec.large_ids else 0)
    return np.take_along_axis(ids, draws.bits(spec.batch, spec.slots).argsort(1, kind="stable"), 1)


def _tight_boxes(masks: Array) -> Array:
    """Return the pixels that masks [..., H, W] span, [..., 4] int64 xyxy; zeros for an empty one."""
    edges = []
    for axis in (-2, -1):
        seen = np.asarray(masks.any(axis))
        length = seen.shape[-1]
        edges.append((seen.argmax(-1), length - seen[..., ::-1].argmax(-1)))
    (x1, x2), (y1, y2) = edges
    return np.where(np.asarray(masks.any((-2, -1)))[..., None], np.stack([x1, y1, x2, y2], -1), 0)


def _boxes(draws: Integers, masks: Array, valid: Array, loose: bool) -> Array:
    """Return boxes that enclose the masks, [B, K, 4] float32."""
    boxes = 16 * _tight_boxes(masks)
    if loose:
        height, width = masks.shape[-2:]
        sign = np.array([-1, -1, 1, 1])
        wider = np.clip(boxes + sign * draws.below(24, *boxes.shape), 0, 16 * np.array([width, height, width, height]))
        boxes = np.where(np.asarray(masks.any((-2, -1)))[..., None], wider, boxes)
    return np.where(valid[..., None], boxes, 0).astype(np.float32) / np.float32(16)


def _images(draws: Integers, spec: Spec) -> Array:
    """Draw images: a slope with noise; in uint8, or in floats that have more digits than that."""
    shape = spec.batch, spec.channels, *spec.size
    slope: Array = np.arange(spec.size[0])[:, None] * 3 + np.arange(spec.size[1]) * 2
    level = draws.below(160, spec.batch, spec.channels, 1, 1)
    values: Array = (level + slope % 64 + draws.below(32, *shape)) % 256
    if spec.dtype == "uint8":
        return values.astype(np.uint8)
    fine: Array = (values * 256 + draws.below(256, *shape)).astype(np.float32) / np.float32(1 << 16)
    if spec.white == 0:
        return np.asarray((fine - np.float32(0.5)) * np.float32(8))
    return np.asarray(fine * np.float32(256 if spec.white == 255 else 1))


def _maps(draws: Integers, masks: Array, labels: Array, ids: Array) -> dict[str, Array]:
    """Draw a semantic map, two areas of stuff with ignored pixels under the things, and the panoptic map."""
    num, _, height, width = masks.shape
    level = draws.below(max(height, 1), num, 1, 1)
    stuff = np.where(np.arange(height)[:, None] < level, *STUFF) + np.zeros((num, height, width), np.int64)
    stuff = np.where(draws.percent(5, num, height, width), IGNORED, stuff)
    semantic, panoptic = stuff, np.zeros_like(stuff)
    for k in reversed(range(masks.shape[1])):  # where masks overlap the first slot owns the pixel
        semantic = np.where(masks[:, k], labels[:, k, None, None], semantic)
        panoptic = np.where(masks[:, k], ids[:, k, None, None], panoptic)
    return {"semantic": semantic.astype(np.int64), "panoptic": panoptic.astype(np.int64)}


def _depth(draws: Integers, shape: tuple[int, ...], masks: Array, spec: Spec) -> dict[str, Array]:
    """Draw depth, a rough plane for each object before a background, and where it is valid; [B, 1, H, W] each."""
    plane = 256 + draws.below(1024, *masks.shape[:2], 1, 1)
    behind = 1280 + draws.below(1280, shape[0], 1, 1, 1)
    nearest = np.where(masks, plane, 1 << 20).min(1, keepdims=True, initial=1 << 20)
    units = np.minimum(nearest, behind) * 16 + draws.below(200, *shape)
    depth = units.astype(np.float32) / np.float32(1 << 12)
    valid: Array = ~draws.percent(8, *shape)
    if spec.wild_depth:
        invalid = np.array([np.nan, np.inf, -3, 0, -np.inf], np.float32)[draws.below(5, *shape)]
        depth = np.where(draws.percent(2, *shape), invalid, depth)
    else:
        invalid = depth if spec.filled_depth else np.zeros(shape, np.float32)
    return {"depth": np.where(valid, depth, invalid).astype(np.float32), "depth_valid": valid}


def _normals(draws: Integers, shape: tuple[int, ...]) -> Array:
    """Draw unit vectors, [B, 3, H, W], that face the camera, and some zeros."""
    pixels = shape[0], *shape[2:]
    chosen = np.array(_QUADRUPLES)[draws.below(len(_QUADRUPLES), *pixels)]
    sign = 1 - 2 * draws.below(2, *pixels, 2)
    parts = np.concatenate([chosen[..., :2] * sign, -chosen[..., 2:3]], -1) * ~draws.percent(5, *pixels)[..., None]
    unit = parts.astype(np.float32) / chosen[..., 3:].astype(np.float32)
    return np.moveaxis(unit + np.float32(0), -1, 1)


def _padding(draws: Integers, shape: tuple[int, ...], holes: bool) -> Array:
    """Draw padding to the right and below, [B, 1, H, W] bool, and pixels anywhere."""
    padding = np.zeros(shape, bool)
    for row in padding[:, 0]:
        row[shape[2] - draws.one_below(shape[2] // 3 + 1) :] = True
        row[:, shape[3] - draws.one_below(shape[3] // 3 + 1) :] = True
        if holes:
            row |= draws.percent(3, *row.shape)
    return padding
