"""Batches and modules for the Triton kernels, and how their results are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from backend_cases import module, outcomes
from quick_interpreter import patch_interpreter
from torch import Tensor

from samples import OPTIONAL, all_modality_subsets, assert_backends_agree, make_batch
from segpaste.augmentation import BatchCopyPaste
from segpaste.augmentation.sources.strategies import (
    LayerSources,
    Placement,
    PlacementCounts,
    PlacementRequest,
    draw_placement,
)
from segpaste.engine import Scene
from segpaste.engine.planes import ROWS
from segpaste.engine.reference import geometry, stages
from segpaste.engine.reference.plan import LayerPlan, Visible
from segpaste.engine.triton import composing, packed_slots
from segpaste.engine.triton.visibility import settling
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.sampling import outward_boxes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SUBSETS = [s for s in all_modality_subsets() if Modality.INSTANCE in s]
DTYPES = (torch.uint8, torch.float32, torch.float16, torch.bfloat16)
PAIRS = [(modalities, dtype) for modalities in SUBSETS for dtype in DTYPES]
if (
    DEVICE.type == "cpu"
):  # the interpreter takes seconds for each: every subset with one dtype, all modalities with each
    PAIRS = [(m, dtype) for i, (m, dtype) in enumerate(PAIRS) if i // 4 % 4 == i % 4 or m == set(OPTIONAL)]
MAPLESS = set(OPTIONAL) - {Modality.PANOPTIC}


def set_tiles(monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], parts: int) -> None:
    """Set the sizes of tiles; the stretches of flat planes are small where the tiles are."""
    rows, cols = tile
    sizes = {"TILE": tile, "MIX_TILE": tile, "LAST_TILE": tile, "PARTS": parts, "BLOCK": 64, "BINS": 8, "CHUNK": 8}
    for name, value in sizes.items():
        monkeypatch.setattr(settling, name, value)
    chunk = 4 * rows * cols
    sizes = {"TILE": tile, "SURFACE_TILE": tile, "BOX_TILE": tile, "MASK_CHUNK": chunk, "COPY_CHUNK": chunk}
    sizes |= {"LABEL_CHUNK": chunk // 8, "DEPTH_CHUNK": chunk // 4}
    for name, value in sizes.items():
        monkeypatch.setattr(composing, name, value)


def small_batch(**options: Any) -> PaddedBatchedDenseSample:
    """A batch with all fields, on the device, where interpreted kernels take seconds for each pixel."""
    small = {"batch_size": 2, "num_instances": (2, 3), "seed": 2, "keypoints": True, "crowd": True}
    return make_batch(**{**small, "value_range": (-20, 65), **options}).to(DEVICE)


def agreed(batch: PaddedBatchedDenseSample, paste: BatchCopyPaste, at_least: int = 1) -> Any:
    """The output and the report of both backends, which agree; something was pasted."""
    expected, found = outcomes(batch, paste, ("reference", "triton"))
    assert int(expected[1].num_placed.sum()) >= at_least
    assert_backends_agree(found, expected)
    return found


def placed(target: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample, **rules: int) -> Any:
    """A scene, and a placement of two layers that carry all they can."""
    num_images, num_slots = target.batch_size, source.max_instances
    layers = torch.arange(2, device=DEVICE).repeat(num_images, 1)
    placement = Placement(
        source_idx=layers % source.batch_size,
        layer_valid=torch.ones_like(layers, dtype=torch.bool),
        scale_num=torch.tensor([3, 4], device=DEVICE).repeat(num_images, 2, 1),
        scale_den=torch.tensor([4, 5], device=DEVICE).repeat(num_images, 2, 1),
        translate=torch.stack([layers, 2 * layers + 1], -1),
        hflip=layers == 1,
        vflip=layers == 0,
        swap_axes=layers == 1,
        carried=source.instance_valid[layers % source.batch_size] & (num_slots > 0),
    )
    paste = module()
    return Scene(target, source, paste._tables, paste._rules.paste(torch.device("cpu"))._replace(**rules)), placement


def settled_by_reference(scene: Scene, placement: Placement) -> tuple[Tensor, ...]:
    """Return what `settled_by_kernels` returns, from the reference."""
    settled = stages.settle(scene, stages.layer_plan(scene, placement))
    labels = scene.source.labels[placement.source_idx]
    slots = stages.assign(scene, settled, labels)
    rows = stages.merge_rows(scene.target, labels, slots, settled.measures)
    lost = stages.lost(slots.dropped, settled.measures)
    return flattened(settled.plan, settled.visible, slots, [rows[name] for name in ROWS], lost, settled.num_gone)


def settled_by_kernels(scene: Scene, placement: Placement, *, hides: bool = False) -> tuple[Tensor, ...]:
    """The plan, the visibility buffer, the slots and the rows: every tensor that the looks write.

    If it ``hides``, the buffer comes out of the target's masks, which are as before then.
    """
    rows = {name: torch.empty_like(getattr(scene.target, name)) for name in ROWS}
    settled = settling.settle(scene, placement, rows, hides)
    visible = hidden_visible(scene, settled.plan, settled.visible) if hides else settled.visible
    merged = [rows[name] for name in ROWS]
    return flattened(settled.plan, visible, settled.slots, merged, settled.lost, settled.num_gone)


def hidden_visible(scene: Scene, plan: LayerPlan, visible: Visible) -> Visible:
    """Take layer and owner out of the spare bits of the target's masks."""
    places = packed_slots.visible_arguments(scene, plan, visible)
    masks = scene.target.instance_masks.view(torch.uint8)
    digits = masks[:, places.first : places.end].int() >> 2
    masks &= 1
    code = sum(digits[:, i] << (i * packed_slots.SPARE_BITS) for i in range(digits.shape[1]))
    layer = (code & ((1 << places.shift) - 1)) - 1
    return Visible(layer.short(), torch.where(layer >= 0, code >> places.shift, -1).short())


def flattened(*records: Any) -> tuple[Tensor, ...]:
    """All tensors of nested records, in order."""
    tensors: list[Tensor] = []
    for record in records:
        tensors.extend([record] if isinstance(record, Tensor) else flattened(*record))
    return tuple(tensors)


def assert_all_equal(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=5e-7, equal_nan=True)


class Elsewhere:
    """Pastes from another batch, of any size."""

    def __init__(self, other: PaddedBatchedDenseSample) -> None:
        self.other = other

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        other = self.other
        layers = torch.arange(request.config.layers, device=DEVICE)
        rows = (torch.arange(target.batch_size, device=DEVICE)[:, None] + layers) % other.batch_size
        sources = LayerSources(
            source_idx=rows,
            layer_valid=torch.ones_like(rows, dtype=torch.bool),
            extent=geometry.valid_extent(other)[rows],
            boxes=outward_boxes(other.boxes)[rows],
            labels=other.labels[rows],
            eligible=other.instance_valid[rows],
        )
        return other, *draw_placement(request, sources)


@pytest.fixture(scope="module", autouse=True)
def patched_interpreter() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch_interpreter(patch)
        yield


@pytest.fixture(autouse=True)
def one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of whole images here, where the interpreter runs; those of the kernels on a device."""
    if DEVICE.type == "cpu":
        set_tiles(monkeypatch, (32, 16), 1)


@pytest.fixture
def small_tiles(one_tile: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles whose borders cut through everything, no size a multiple of theirs."""
    set_tiles(monkeypatch, (8, 8), 2)
