"""Random batches and configs of edge cases, each a pure function of its seed.

The batches keep the contract of the containers, but for the cameras of some: those are what tracing lets through.
Canvases are small, so that thousands run in minutes. `hostile_batches` pastes them and looks at what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hostile_configs import STUFF, THINGS, Draws, hostile_config
from numpy.typing import NDArray
from torch import Tensor

from segpaste import BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.types import KeypointSchema, StagedCrops, tight_boxes
from segpaste.types.check import MAX_FED_BACK_ID

Array = NDArray[Any]

IGNORED = 255
TINY = ((1, 1), (1, 7), (9, 1), (2, 3))
SIZES = ((5, 17), (13, 19), (11, 7), (24, 21), (16, 16), (23, 8))
FOCAL = (1e-45, 1e-38, 1e-20, 1e-3, 1.0, 7.5, 900.0, 1e9, 1e20, 3.4e38)
MAGNITUDES = (1.0, 1.0, 1e-38, 1e-20, 1e20, 4e37)
NO_CAMERA = (float("nan"), 0.0, -0.0, -5.0, float("inf"), float("-inf"))
SKELETONS = (
    KeypointSchema(names=("stem",)),
    KeypointSchema(names=("left", "right", "tip"), flip_pairs=((0, 1),)),
)


@dataclass(frozen=True)
class Inputs:
    """Arguments of one forward.

    Attributes:
        batch: the target.
        config: of the module.
        staged: crops of a bank, where the config asks for them.
        inplace: of the module.
        region: pixels that pastes may go to, [B, H, W] bool, or None.
        progress: of training, from 0 to 1, for the schedule of the module.
    """

    batch: PaddedBatchedDenseSample
    config: BatchCopyPasteConfig
    staged: StagedCrops | None
    inplace: bool
    region: Tensor | None
    progress: float


def hostile_inputs(seed: int) -> Inputs:
    """Draw everything from a seed, >= 0."""
    draws = Draws(seed)
    kind = draws.one_of(("rows", "rows", "rows", "classmix", "bank", "bank"))
    inplace = draws.chance(0.3)
    batch = _batch(draws, kind)
    config = hostile_config(draws, kind, batch, inplace)
    staged = _crops(draws, batch, config) if kind == "bank" else None
    batch = _laid_out(draws, batch, with_views=not inplace)
    if batch.camera_intrinsics is not None and draws.chance(0.3):
        wild = torch.tensor([draws.one_of((*NO_CAMERA, 20.0)) for _ in range(batch.camera_intrinsics.numel())])
        batch = batch.derived(camera_intrinsics=wild.to(torch.float32).view_as(batch.camera_intrinsics))
    (own,) = (Draws(rng) for rng in draws.rng.spawn(1))  # other draws stay as they are
    region = _region(own, batch) if kind != "classmix" and own.chance(0.15) else None
    if staged is not None:
        shrunk = own.rng.choice([1.0, 0.3, 0.01, 1e-9, 64.0], (staged.batch_size, staged.num_crops))
        staged = replace(staged, scales=torch.from_numpy(shrunk).float())
    batch, staged = _with_points_and_crowds(Draws(np.random.default_rng((seed, 1))), batch, staged)
    return Inputs(batch, config, staged, inplace, region, own.one_of((0.0, 0.5, 0.8, 0.99)))


def _batch(draws: Draws, kind: str) -> PaddedBatchedDenseSample:
    """A batch of any modalities, in row-major order."""
    size = draws.one_of(TINY if draws.chance(0.15) else SIZES)
    num = draws.one_of((0, 1)) if draws.chance(0.1) else draws.one_of((2, 3, 4))
    slots = draws.one_of((0, 1)) if draws.chance(0.1) else draws.one_of((2, 3, 5, 8))
    has_masks = draws.chance(0.9)
    has_panoptic = has_masks and draws.chance(0.35)
    valid = draws.noise(num, slots) < draws.one_of((0.0, 1.0) if draws.chance(0.1) else (0.3, 0.5, 0.7))
    masks = np.zeros((num, slots, *size), bool)
    for place in zip(*np.nonzero(valid), strict=True):
        masks[place] = _shape(draws, size)
    if has_panoptic or draws.chance(0.5):  # the first slot owns a pixel
        masks &= ~(np.cumsum(masks, 1) - masks).astype(bool)
    known = has_panoptic or draws.chance(0.7)
    labels = np.where(valid, draws.rng.choice(THINGS if known else (*THINGS, *STUFF, -1, 77, 10**9), valid.shape), 0)
    ids = np.stack([_ids(draws, slots) for _ in range(num)]) if num else np.zeros((0, slots), np.int64)
    ids = np.where(valid, ids, 0)
    values: dict[str, Any] = {
        "images": _images(draws, (num, 3 if kind == "bank" else draws.one_of((3, 3, 1, 4)), *size)),
        "boxes": _boxes(draws, masks, valid, may_be_loose=not has_panoptic),
        "labels": torch.from_numpy(labels),
        "instance_valid": torch.from_numpy(valid),
        "sample_seeds": torch.from_numpy(draws.rng.integers(-(1 << 63), 1 << 63, num)),
    }
    if has_masks:
        values |= {"instance_masks": torch.from_numpy(masks), "instance_ids": torch.from_numpy(ids.astype(np.int32))}
    if has_panoptic or kind == "classmix" or draws.chance(0.4):
        values |= _maps(draws, masks, labels, ids, has_panoptic)
    if draws.chance(0.4):
        values["padding_mask"] = _padding(draws, (num, 1, *size))
    if draws.chance(0.5):
        values |= _depth(draws, (num, 1, *size))
    if draws.chance(0.4):
        values["normals"] = _normals(draws, (num, 3, *size))
    return PaddedBatchedDenseSample(**values)


def _shape(draws: Draws, size: tuple[int, int]) -> Array:
    """The mask of one instance, [H, W]."""
    height, width = size
    y1, x1 = draws.rng.integers(0, height), draws.rng.integers(0, width)
    y2, x2 = draws.rng.integers(y1, height) + 1, draws.rng.integers(x1, width) + 1
    mask = np.zeros(size, bool)
    kind = draws.one_of(("all", "none") if draws.chance(0.15) else ("box", "box", "holes", "pixel"))
    if kind == "pixel":
        mask[y1, x1] = True
    elif kind == "all":
        mask[:] = True
    elif kind != "none":
        mask[y1:y2, x1:x2] = True if kind == "box" else draws.noise(y2 - y1, x2 - x1) < 0.5
    return mask


def _ids(draws: Draws, num: int) -> Array:
    """Ids of an image: from 1, with gaps, or as large as a batch may hold."""
    highest = draws.one_of((num, 50 + num, MAX_FED_BACK_ID))
    return draws.rng.permutation(highest - draws.rng.choice(min(highest, 50 + num), num, replace=False))


def _boxes(draws: Draws, masks: Array, valid: Array, may_be_loose: bool) -> Tensor:
    """Boxes that enclose their masks."""
    num, slots, height, width = masks.shape
    boxes = tight_boxes(torch.from_numpy(masks).flatten(0, 1)).view(num, slots, 4)
    if may_be_loose and draws.chance(0.3):
        room = torch.tensor([width, height, width, height], dtype=torch.float32)
        outwards = torch.tensor([-1.5, -1.5, 1.5, 1.5]) * torch.from_numpy(draws.noise(num, slots, 4)).float()
        boxes = (boxes + outwards).clamp(min=0).minimum(room)
    return boxes * torch.from_numpy(valid)[..., None]


def _images(draws: Draws, shape: tuple[int, ...]) -> Tensor:
    """Any dtype and range; finite."""
    dtype = draws.one_of((torch.uint8, torch.uint8, torch.float32, torch.float16, torch.bfloat16))
    if dtype == torch.uint8:
        return torch.from_numpy(draws.rng.integers(0, 256, shape, np.uint8))
    low, high = draws.one_of(((0, 1), (0, 255), (-3, 3), (-6e4, 6e4), (0.25, 0.25)))
    return torch.from_numpy(low + (high - low) * draws.noise(*shape)).to(dtype)


def _maps(draws: Draws, masks: Array, labels: Array, ids: Array, has_panoptic: bool) -> dict[str, Tensor]:
    """A semantic map, and a panoptic one whose things have the masks' ids."""
    num, _, height, width = masks.shape
    kinds = STUFF if has_panoptic or draws.chance(0.7) else (*STUFF, *THINGS, 0, -7, 300, 10**12)
    semantic = draws.rng.choice((*kinds, *kinds, IGNORED), (num, height, width)).astype(np.int64)
    if draws.chance(0.5):  # areas, not speckles
        semantic[:] = semantic[:, :1, :1]
    is_thing = masks.any(1)
    owned = [np.where(masks, values[:, :, None, None], 0).sum(1) for values in (labels, ids)]
    if has_panoptic:
        maps = {"semantic_maps": np.where(is_thing, owned[0], semantic), "panoptic_maps": owned[1].astype(np.int64)}
    else:
        maps = {"semantic_maps": semantic}
    return {name: torch.from_numpy(values) for name, values in maps.items()}


def _padding(draws: Draws, shape: tuple[int, ...]) -> Tensor:
    """Padding on two sides, with holes, over instances, of a whole image, or none."""
    padding = np.zeros(shape, bool)
    for row in padding[:, 0]:
        row[shape[2] - draws.rng.integers(0, shape[2] // 2 + 1) :] = True
        row[:, shape[3] - draws.rng.integers(0, shape[3] // 2 + 1) :] = True
        row ^= draws.noise(*row.shape) < draws.one_of((0.0, 0.0, 0.1))
        row |= draws.chance(0.05)
    return torch.from_numpy(padding)


def _depth(draws: Draws, shape: tuple[int, ...]) -> dict[str, Any]:
    """Depth of any magnitude, with steps, ties and neighbours a bit apart; where it is invalid it may be anything."""
    depth = draws.rng.choice([1.0, 2.0, 5.0], shape) + draws.one_of((0.0, 1e-7, 0.05, 3.0)) * draws.noise(*shape)
    depth *= np.array([draws.one_of(MAGNITUDES) for _ in range(shape[0])]).reshape(-1, 1, 1, 1)
    depth = depth.astype(np.float32)
    valid = draws.noise(*shape) >= draws.one_of((0.0, 0.1, 0.9))
    depth[~valid] = draws.rng.choice([np.nan, np.inf, -np.inf, 0.0, -3.0, 0.01], (~valid).sum())
    depth[draws.noise(*shape) < draws.one_of((0.0, 0.05))] = draws.one_of((np.nan, np.inf))
    values: dict[str, Any] = {"depth": torch.from_numpy(depth), "depth_valid": torch.from_numpy(valid)}
    if draws.chance(0.6):
        cameras = [[draws.one_of(FOCAL), draws.one_of(FOCAL), *draws.rng.normal(0, 1e4, 2)] for _ in range(shape[0])]
        values["camera_intrinsics"] = torch.tensor(cameras, dtype=torch.float32).view(-1, 4)
        values["metric_depth"] = draws.chance(0.8)
    return values


def _normals(draws: Draws, shape: tuple[int, ...]) -> Tensor:
    """Unit vectors, or zero; some turn about from pixel to pixel."""
    normals = draws.rng.normal(size=shape)
    if draws.chance(0.3):
        normals[:] = normals[..., :1] * np.where(np.arange(shape[3]) % 2, 1, -1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals *= (draws.noise(shape[0], 1, *shape[2:]) >= draws.one_of((0.0, 0.1))).astype(float)
    return torch.from_numpy(normals.astype(np.float32))


def _with_points_and_crowds(
    draws: Draws, batch: PaddedBatchedDenseSample, staged: StagedCrops | None
) -> tuple[PaddedBatchedDenseSample, StagedCrops | None]:
    """Give some batches keypoints, in their crops, too, and some crowd regions; in any layout."""
    added: dict[str, Any] = {}
    if draws.chance(0.3):
        schema = draws.one_of(SKELETONS)
        added = {
            "keypoints": _points(draws, batch.instance_valid, schema, batch.canvas_size),
            "keypoint_schema": schema,
        }
        if staged is not None and draws.chance(0.7):
            has_object = staged.alphas.flatten(2).any(-1)
            staged = replace(
                staged, **added | {"keypoints": _points(draws, has_object, schema, staged.crop_size, beyond=3.0)}
            )
    if draws.chance(0.3):
        crowds = draws.noise(batch.batch_size, 1, *batch.canvas_size) < draws.one_of((0.0, 0.2, 0.9, 1.0))
        crowds[..., crowds.shape[-1] // 2 :] &= draws.chance(0.5)
        added["crowd_mask"] = torch.from_numpy(crowds)
    laid_out = {name: draws.one_of(LAYOUTS)(t) if isinstance(t, Tensor) else t for name, t in added.items()}
    return batch.derived(**laid_out), staged


def _points(draws: Draws, valid: Tensor, schema: KeypointSchema, size: tuple[int, int], beyond: float = 0.0) -> Tensor:
    """Points on a canvas, its last edges included, or ``beyond`` it, of each valid instance; x = y = 0 where v = 0."""
    shape, edges = (*valid.shape, schema.num_points), np.array(size[::-1])
    v = draws.rng.integers(0, 3, shape) * valid.numpy()[..., None]
    places = (edges + 2 * beyond) * draws.noise(*shape, 2) - beyond
    places = np.where(draws.noise(*shape, 1) < 0.5, places.round(), places) * (v > 0)[..., None]
    return torch.from_numpy(np.concatenate([places, v[..., None]], -1).astype(np.float32))


def _region(draws: Draws, batch: PaddedBatchedDenseSample) -> Tensor:
    """Most of each image, some with holes."""
    region = draws.noise(batch.batch_size, *batch.canvas_size) < draws.one_of((1.0, 1.0, 0.98))
    for row in region:
        row[:, row.shape[1] - draws.rng.integers(0, row.shape[1] // 3 + 1) :] = False
    return torch.from_numpy(region)


def _crops(draws: Draws, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> StagedCrops:
    """Crops for each target: some without an object, of odd classes, or with wild cameras."""
    multiple = config.placement.pad_to_multiple
    size = draws.one_of(((1, 1), (9, 6), (5, 12), (17, 20)))
    if config.placement.patch_aligned_paste and config.placement.align == "canvas" and multiple is not None:
        size = multiple, 2 * multiple
    shape = batch.batch_size, config.source.crops_per_target + int(draws.rng.integers(0, 2))
    alphas = np.zeros((*shape, 1, *size), bool)
    for place in np.ndindex(*shape):
        alphas[place][0] = _shape(draws, size)
    masks, rows = torch.from_numpy(alphas), shape[0] * shape[1]
    values: dict[str, Any] = {"metric_depth": False}
    takes_depth = batch.depth is not None and config.emit_depth is not False
    if draws.chance(0.6):
        values = {name: v for name, v in _depth(draws, (rows, 1, *size)).items() if name != "camera_intrinsics"}
        values |= {"normals": _normals(draws, (rows, 3, *size)), "metric_depth": takes_depth and batch.metric_depth}
        focal = [draws.one_of((*FOCAL, *NO_CAMERA)) for _ in range(rows * 4)]
        values["camera_intrinsics"] = torch.tensor(focal, dtype=torch.float32).view(rows, 4)
    flat = {name: v.view(*shape, *v.shape[1:]) if isinstance(v, Tensor) else v for name, v in values.items()}
    return StagedCrops(
        images=torch.from_numpy(draws.rng.integers(0, 256, (*shape, 3, *size), np.uint8)),
        alphas=masks,
        class_ids=torch.from_numpy(
            draws.rng.choice(THINGS if draws.chance(0.7) else (*THINGS, *STUFF, 77, -1, 10**9), shape)
        ),
        boxes=tight_boxes(masks.flatten(0, 2)).view(*shape, 4).to(torch.int64),
        crop_idx=torch.from_numpy(draws.rng.integers(0, 1000, shape)),
        **flat,
    )


LAYOUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda t: t.repeat_interleave(2, 0)[::2],
    lambda t: torch.nn.functional.pad(t, [2, 3])[..., 2:-3] if t.ndim > 2 else t,
    lambda t: t.mT.contiguous().mT if t.ndim > 2 else t,
    lambda t: t.transpose(0, 1).contiguous().transpose(0, 1) if t.ndim > 1 else t,
    lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t,
    lambda t: t.permute(*reversed(range(t.ndim))).contiguous().permute(*reversed(range(t.ndim))),
)
"""The same values in other places."""


def _laid_out(draws: Draws, batch: PaddedBatchedDenseSample, with_views: bool) -> PaddedBatchedDenseSample:
    """The batch, or the same with each tensor in another order, or as a view of fewer values."""
    if with_views and draws.chance(0.15):
        grey = batch.images[:, :1].expand_as(batch.images)
        cameras = batch.camera_intrinsics
        same = None if cameras is None or not len(cameras) else cameras[:1].expand_as(cameras)
        batch = batch.derived(images=grey, camera_intrinsics=same if same is not None else cameras)
    if draws.chance(0.5):
        return batch
    return batch.map_tensors(lambda t: draws.one_of(LAYOUTS)(t) if draws.chance(0.7) else t)
