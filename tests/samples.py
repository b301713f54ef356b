"""Small, consistent samples for every test: random, seeded, and true to the contract of the containers.

In each sample masks are disjoint and not empty, boxes are tight, every thing pixel has exactly one mask and carries
that mask's id and label, depth is positive with some pixels invalid (0 there), normals are unit or zero and face the
camera, and padding carries nothing. Do not use it where exact scene geometry matters: depth here is one plane per
instance, unrelated to the normals.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torchvision import tv_tensors

from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    IntraBatchSource,
    PasteReport,
    PlacementConfig,
    PlacementCounts,
    PlacementRequest,
    SourceConfig,
    SourceStrategy,
)
from segpaste.engine import Placement, engine_for, use_backend
from segpaste.types import (
    FIELDS,
    IGNORE_INDEX,
    BatchedDenseSample,
    CameraIntrinsics,
    CrowdMask,
    DenseSample,
    InstanceMask,
    KeypointSchema,
    Modality,
    PaddedBatchedDenseSample,
    PaddingMask,
    PanopticMap,
    SemanticMap,
    StagedCrops,
)
from segpaste.types.fields import FLAGS

THINGS = (1, 2, 3)
STUFF = (11, 12)

EVERY_OBJECT = SourceConfig(whole_only=False)
"""Also pastes the objects that touch the border of their image, which are many in such small samples."""

EVERY_IMAGE = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0))
"""Pastes into every image, not into half of them, which is the default."""

CPU_BACKENDS = ("reference", "native")
"""The backends that run on the CPU as it is, the reference first."""


@dataclass(frozen=True)
class Schema:
    """The `PanopticSchema` of all samples made here."""

    classes: Mapping[int, Literal["thing", "stuff"]]
    ignore_index: int = IGNORE_INDEX
    max_instances_per_image: int = 256


SCHEMA = Schema(MappingProxyType({**dict.fromkeys(THINGS, "thing"), **dict.fromkeys(STUFF, "stuff")}))

POINTS = KeypointSchema(("nose", "left_ear", "right_ear", "tail"), ((0, 1), (0, 2)), ((1, 2),))
"""The keypoints of samples that have some."""

Array = np.ndarray[Any, Any]

OPTIONAL = (Modality.INSTANCE, Modality.PANOPTIC, Modality.SEMANTIC, Modality.DEPTH, Modality.NORMALS)
"""The modalities that a sample may lack."""

Modalities = Iterable[Modality | str]

Sampled = tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]
"""Result of a source."""

Pasted = tuple[PaddedBatchedDenseSample, PasteReport]
"""Result of a module."""


def free_boxes(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Boxes of data without masks: with fractions, thinner than a pixel or flat, and beyond the image."""
    height, width = batch.canvas_size
    sides = rng.choice([0.3, 0.9, 1.0, 2.5, 4.0, 7.7, 20.0], (*batch.labels.shape, 2)) * rng.random((1, 1, 2))
    corners = rng.random((*batch.labels.shape, 2)) * [width + 4, height + 4] - 2
    corners[rng.random(batch.labels.shape) < 0.2] = np.float32(-0.0)
    whole = rng.random(batch.labels.shape) < 0.2
    corners[whole], sides[whole] = corners[whole].round(), sides[whole].round()
    boxes = torch.from_numpy(np.concatenate([corners, corners + sides], -1)).float().to(batch.device)
    return dataclasses.replace(batch, boxes=torch.where(batch.instance_valid[..., None], boxes, 0.0))


def all_modality_subsets() -> list[frozenset[Modality]]:
    """The 20 legal subsets of `OPTIONAL`: panoptic comes with semantic and instance. The image is always there."""
    subsets = map(frozenset, chain.from_iterable(combinations(OPTIONAL, n) for n in range(len(OPTIONAL) + 1)))
    return [s for s in subsets if Modality.PANOPTIC not in s or {Modality.SEMANTIC, Modality.INSTANCE} <= s]


def subset_id(modalities: Modalities) -> str:
    """A pytest id such as ``instance+depth``."""
    wanted = {Modality(m) for m in modalities}
    return "+".join(m.value for m in OPTIONAL if m in wanted) or "image"


def make_sample(
    size: tuple[int, int] = (17, 11),
    num_instances: int = 3,
    modalities: Modalities = OPTIONAL,
    seed: int = 0,
    *,
    image_dtype: torch.dtype = torch.uint8,
    metric_depth: bool = False,
    camera: bool | None = None,
    padding: tuple[int, int] | None = None,
    keypoints: bool = False,
    crowd: bool = False,
) -> DenseSample:
    """One random sample, the same for the same arguments; dropping a modality changes no other field.

    Args:
        size: (H, W) of the canvas.
        num_instances: N, at most the number of pixels that are not padding.
        modalities: what it carries besides the image.
        seed: of everything random.
        image_dtype: uint8 (0..255) or float32 (0..1).
        metric_depth: the flag; with depth it needs ``camera``.
        camera: whether it has intrinsics; by default where ``metric_depth`` asks for them.
        padding: (rows at the bottom, columns at the right) that are padding; None leaves ``padding_mask`` out.
        keypoints: whether it has keypoints, those of `POINTS`; visible ones lie in their instance.
        crowd: whether it has a crowd mask.
    """
    wanted = {Modality(m) for m in modalities}
    rng = np.random.default_rng([seed, *size, num_instances])
    bottom, right = padding or (0, 0)
    is_padding = np.zeros(size, bool)
    is_padding[size[0] - bottom :] = is_padding[:, size[1] - right :] = True
    owner = _owners(rng, ~is_padding, num_instances)
    masks = owner == np.arange(num_instances)[:, None, None]
    labels = rng.choice(THINGS, num_instances).astype(np.int64)
    made = _labelled(rng, owner, masks, labels, is_padding) | _surfaces(rng, owner, num_instances, is_padding)
    image = torch.from_numpy(rng.integers(0, 256, (3, *size), dtype=np.uint8))
    fx, fy = (float(np.float32(f)) for f in rng.uniform(8, 30, 2))
    fields: dict[str, Any] = {
        "image": tv_tensors.Image(image if image_dtype == torch.uint8 else image.to(image_dtype) / 255),
        "boxes": tv_tensors.BoundingBoxes(tight_boxes(masks), format="XYXY", canvas_size=size),
        "labels": torch.from_numpy(labels),
        "metric_depth": metric_depth,
    }
    fields |= {name: value for modality in wanted & set(OPTIONAL) for name, value in made[modality].items()}
    if padding is not None:
        fields["padding_mask"] = PaddingMask(torch.from_numpy(is_padding[None]))
    if metric_depth if camera is None else camera:
        fields["camera_intrinsics"] = CameraIntrinsics(fx, fy, size[1] / 2 - 0.25, size[0] / 2 + 0.5)
    rng = np.random.default_rng([seed, *size, num_instances, 1])
    if keypoints:
        fields |= {"keypoints": _keypoints(rng, masks, is_padding), "keypoint_schema": POINTS}
    if crowd:
        fields["crowd_mask"] = CrowdMask(torch.from_numpy((~is_padding & (rng.random(size) < 0.3))[None]))
    return DenseSample(**fields)


def make_samples(
    batch_size: int = 3, *, num_instances: int | Sequence[int] = (3, 1, 2), seed: int = 0, **options: Any
) -> list[DenseSample]:
    """``batch_size`` samples that differ; ``num_instances`` is cycled, ``options`` go to `make_sample`."""
    counts = [num_instances] if isinstance(num_instances, int) else list(num_instances)
    return [
        make_sample(num_instances=counts[b % len(counts)], seed=seed * 1000 + b, **options) for b in range(batch_size)
    ]


def make_batch(
    batch_size: int = 3,
    *,
    max_instances: int = 5,
    num_instances: int | Sequence[int] = (3, 1, 2),
    seed: int = 0,
    with_seeds: bool = True,
    image_dtype: torch.dtype = torch.uint8,
    value_range: tuple[float, float] = (0.0, 1.0),
    **options: Any,
) -> PaddedBatchedDenseSample:
    """`make_samples` with K = ``max_instances`` slots each; B may be 0 and K may equal or exceed every count.

    Args:
        batch_size: B.
        max_instances: K.
        num_instances: instances of each image, cycled.
        seed: of everything random, ``sample_seeds`` too.
        with_seeds: whether the batch has ``sample_seeds``.
        image_dtype: uint8 (0..255), or float32, float16, bfloat16.
        value_range: of images of floats.
        options: to `make_sample`.
    """
    sample_dtype = image_dtype if image_dtype == torch.uint8 else torch.float32
    samples = make_samples(
        max(batch_size, 1), num_instances=num_instances, seed=seed, image_dtype=sample_dtype, **options
    )
    batch = BatchedDenseSample.from_samples(samples)
    if batch_size == 0:
        batch = BatchedDenseSample.from_samples([], empty_like=batch)
    seeds = torch.arange(batch_size) * 7919 + seed * 1_000_003 + 1 if with_seeds else None
    padded = batch.to_padded(max_instances, sample_seeds=seeds)
    low, high = (0, 1) if image_dtype == torch.uint8 else value_range
    return padded.map_tensors(lambda t: (t * (high - low) + low).to(image_dtype) if t is padded.images else t)


def batch_of(samples: Iterable[DenseSample], max_instances: int, **options: Any) -> PaddedBatchedDenseSample:
    """These samples with K = ``max_instances`` slots each; ``options`` go to `to_padded`."""
    return BatchedDenseSample.from_samples(list(samples)).to_padded(max_instances, **options)


def put_box(
    batch: PaddedBatchedDenseSample, rows: int | slice, slot: int, box: Sequence[int], label: int
) -> PaddedBatchedDenseSample:
    """The batch, with an object that fills the box (x1, y1, x2, y2) in this free slot of these rows; its id is new."""
    x1, y1, x2, y2 = box
    assert batch.instance_masks is not None
    batch.instance_masks[rows, slot, y1:y2, x1:x2] = True
    batch.boxes[rows, slot] = torch.tensor([x1, y1, x2, y2], dtype=torch.float32)
    batch.labels[rows, slot], batch.instance_ids[rows, slot], batch.instance_valid[rows, slot] = label, slot + 1, True
    return batch


def with_overlaps(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The batch with masks that grow over each other, which they should not beside a panoptic map."""
    assert batch.instance_masks is not None
    grown = torch.nn.functional.max_pool2d(batch.instance_masks.float(), 5, stride=1, padding=2) > 0
    grown &= batch.instance_valid[..., None, None]
    reach, size = (batch.boxes.new_tensor(v) for v in ((-2, -2, 2, 2), [*batch.canvas_size[::-1]] * 2))
    boxes = (batch.boxes + reach).clamp(min=0).minimum(size)
    return dataclasses.replace(batch, instance_masks=grown, boxes=boxes * batch.instance_valid[..., None])


def tensors_of(batch: PaddedBatchedDenseSample) -> dict[str, torch.Tensor]:
    """The tensors of the fields that the batch has, by name."""
    return {f.batched_name: v for f in FIELDS if (v := getattr(batch, f.batched_name)) is not None}


def plain(tensor: torch.Tensor) -> Array:
    """Return the values of a tensor, whatever its class."""
    return tensor.as_subclass(torch.Tensor).numpy()


def tight_boxes(masks: Array) -> torch.Tensor:
    """[N, 4] float32 xyxy pixel edges of [N, H, W] masks; zeros for an empty one."""
    boxes = torch.zeros(len(masks), 4)
    for n, mask in enumerate(masks):
        rows, cols = np.nonzero(mask)
        if rows.size:
            boxes[n] = torch.tensor([cols.min(), rows.min(), cols.max() + 1, rows.max() + 1])
    return boxes


def assert_same(one: Any, other: Any) -> None:
    """Two containers of one class hold the same fields, types and values, bit for bit (NaN equals NaN)."""
    assert type(one) is type(other)
    names = {n for f in FIELDS for n in (f.name, f.batched_name)} | set(FLAGS)
    for name in sorted(n for n in names if hasattr(one, n) and not callable(getattr(one, n))):
        _assert_same_value(name, getattr(one, name), getattr(other, name))


def assert_backends_agree(one: Any, other: Any) -> None:
    """Two pairs of an output and its report are equal bit for bit."""
    (out, report), (expected, expected_report) = one, other
    assert_same(out, expected)
    for field in dataclasses.fields(report):
        if isinstance(value := getattr(report, field.name), torch.Tensor):
            _assert_same_value(field.name, value, getattr(expected_report, field.name))


def _assert_same_value(name: str, one: Any, other: Any) -> None:
    assert type(one) is type(other), f"{name}: {type(one)} and {type(other)}"
    if isinstance(one, list):
        assert len(one) == len(other), f"{name}: {len(one)} and {len(other)} entries"
        for a, b in zip(one, other, strict=True):
            _assert_same_value(name, a, b)
    elif isinstance(one, torch.Tensor):
        one, other = one.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor)
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{name}: {m}")
    else:
        assert one == other, f"{name}: {one} and {other}"


def _owners(rng: np.random.Generator, free: Array, num: int) -> Array:
    """[H, W] int64, which instance owns a pixel, -1 for none: ellipses and rectangles, each with a pixel of its own."""
    height, width = free.shape
    owner = np.full(free.shape, -1, np.int64)
    places = rng.permutation(np.flatnonzero(free))[:num]
    if len(places) < num:
        raise ValueError(f"make_sample: expected at most {len(places)} instances on {height}x{width}, got {num}")
    rows, cols = np.mgrid[:height, :width]
    for n, place in enumerate(places):
        cy, cx = divmod(place, width)
        ry, rx = rng.uniform(0.5, max(1.0, height / 3)), rng.uniform(0.5, max(1.0, width / 3))
        dy, dx = np.abs(rows - cy) / ry, np.abs(cols - cx) / rx
        shape = dy**2 + dx**2 <= 1 if rng.random() < 0.5 else np.maximum(dy, dx) <= 1
        owner[shape & free] = n
    owner.flat[places] = np.arange(num)
    return owner


def _labelled(
    rng: np.random.Generator, owner: Array, masks: Array, labels: Array, is_padding: Array
) -> dict[Modality, dict[str, Any]]:
    """Ids that are not 1..N; maps in which an owned pixel is its thing and any other one of two stuffs, or ignored."""
    ids = rng.permutation(np.arange(1, 3 * len(labels) + 1))[: len(labels)].astype(np.int32)
    is_upper = np.arange(len(owner))[:, None] < rng.integers(1, len(owner) + 1)
    is_ignored = is_padding | (rng.random(owner.shape) < 0.05)
    stuff = np.where(is_ignored, IGNORE_INDEX, np.where(is_upper, *STUFF))
    semantic = np.where(owner < 0, stuff, np.append(labels, 0)[owner])
    panoptic = np.where(owner < 0, 0, np.append(ids, 0)[owner]).astype(np.int64)
    instance = {"instance_ids": torch.from_numpy(ids), "instance_masks": InstanceMask(torch.from_numpy(masks))}
    return {
        Modality.INSTANCE: instance,
        Modality.SEMANTIC: {"semantic_map": SemanticMap(torch.from_numpy(semantic))},
        Modality.PANOPTIC: {"panoptic_map": PanopticMap(torch.from_numpy(panoptic))},
    }


def _surfaces(rng: np.random.Generator, owner: Array, num: int, is_padding: Array) -> dict[Modality, dict[str, Any]]:
    """Depth, a rough plane per instance before a background, 0 where invalid; unit normals with n_z < 0, or zero."""
    planes = np.append(rng.uniform(1, 6, num), rng.uniform(5, 10))
    valid = ~is_padding & (rng.random(owner.shape) >= 0.1)
    depth = np.where(valid, planes[owner] + rng.uniform(0, 0.2, owner.shape), 0).astype(np.float32)
    normals = rng.normal(size=(3, *owner.shape))
    normals[2] = -np.abs(normals[2]) - 0.1
    normals /= np.linalg.norm(normals, axis=0)
    normals = np.where(is_padding | (rng.random(owner.shape) < 0.05), 0, normals).astype(np.float32)
    return {
        Modality.DEPTH: {"depth": torch.from_numpy(depth[None]), "depth_valid": torch.from_numpy(valid[None])},
        Modality.NORMALS: {"normals": torch.from_numpy(normals)},
    }


def _keypoints(rng: np.random.Generator, masks: Array, is_padding: Array) -> torch.Tensor:
    """[N, P, 3] float32: visible points anywhere in a pixel of their own, hidden ones in any pixel of the picture."""
    points = np.zeros((len(masks), POINTS.num_points, 3), np.float32)
    for mask, own in zip(masks, points, strict=True):
        for point in own:
            point[2] = rng.choice([0, 1, 2], p=[0.2, 0.2, 0.6])
            if point[2]:
                rows, cols = np.nonzero(mask if point[2] == 2 else ~is_padding)
                place = rng.integers(len(rows))
                point[:2] = np.array([cols[place], rows[place]]) + rng.choice([0.0, 0.25, 0.5, 0.875], 2)
    return torch.from_numpy(points)


class FromBatch:
    """A source: pastes from the batch that it is given, whose fields may differ, placed as within the target."""

    def __init__(self, source: PaddedBatchedDenseSample) -> None:
        self.source = source

    def sample(self, target: PaddedBatchedDenseSample, eligible: torch.Tensor, request: PlacementRequest) -> Sampled:
        _, placement, counts = IntraBatchSource().sample(target, eligible, request)
        return self.source, placement, counts


def paste(
    batch: PaddedBatchedDenseSample,
    config: BatchCopyPasteConfig | None = None,
    source: SourceStrategy | None = None,
    *,
    backend: str | None = None,
    seed: int | None = None,
    staged: StagedCrops | None = None,
    inplace: bool = False,
    warns: bool = False,
) -> Pasted:
    """One forward of a new module.

    Args:
        batch: the target.
        config: of the module; by default `EVERY_IMAGE`.
        source: of the module.
        backend: its name; by default the one that is chosen.
        seed: of a generator; by default the batch's ``sample_seeds`` are used.
        staged: crops of a bank.
        inplace: of the module.
        warns: whether it warns where nothing can be pasted; the report says so anyway.
    """
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    module = BatchCopyPaste(config or EVERY_IMAGE, source, inplace=inplace)
    with use_backend(backend) if backend else nullcontext(), warnings.catch_warnings():
        if not warns:
            warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
        return module(batch, generator, staged=staged, return_report=True)


def placement_of(module: BatchCopyPaste, batch: PaddedBatchedDenseSample) -> Placement:
    """Return what a module draws for a prepared batch, without its pixels."""
    engine = engine_for(batch.device)
    return module._sampled(engine, batch, engine.survey(batch, module._tables), None)[1][0]
