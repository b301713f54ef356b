"""The three pixel functions for CUDA devices, written in Triton, which never wait for the device.

Without such a device they run on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.records import Scene
from segpaste.engine.reference.pixels import slot_ranks
from segpaste.engine.reference.plan import LayerPlan, Measures, Visible, empty_measures, empty_visible
from segpaste.engine.triton import _visibility
from segpaste.engine.triton.launching import launch, plain, power_of_two
from segpaste.engine.triton.pixels.arguments import plan_arguments, plane_arguments
from segpaste.engine.triton.pixels.rendering import render

__all__ = ["measure", "render", "resolve"]

TILE = (8, 128)
"""Rows and columns of a tile: a row of bytes fills a cache line, and each of 256 threads has 4 pixels."""

PARTS = 16
"""Number of programs that share the box of a slot in `measure`: enough to keep a device busy with few slots."""

STRETCH = 2048
"""Number of pixels whose classes one program counts."""

BINS = 128
"""Number of classes that it counts at once."""

SLOT_BLOCK = 128
"""Number of slots whose measures one program writes."""


class RankArguments(NamedTuple):
    """Priorities of the target's classes and of the source's instances as kernel arguments; None if all are equal."""

    of_class: Tensor | None
    of_slot: Tensor | None
    num_classes: int


def resolve(scene: Scene, plan: LayerPlan, protected: Tensor) -> Visible:
    """See `segpaste.engine.reference.pixels.resolve`."""
    visible, source = empty_visible(scene), scene.source
    rows, cols = TILE
    launch(
        _visibility.resolve,
        len(visible.layer) * _num_tiles(scene, TILE),
        visible.layer,
        visible.owner if scene.needs_owner else None,
        plane_arguments(scene.target),
        plane_arguments(source),
        plan_arguments(plan),
        plain(protected),
        protected.shape[1],
        _rank_arguments(scene),
        scene.rules.ignore_index,
        ROWS=rows,
        COLS=cols,
        SLOTS=power_of_two(source.max_instances),
        num_warps=8,
    )
    return visible


def measure(scene: Scene, plan: LayerPlan, visible: Visible) -> Measures:
    """See `segpaste.engine.reference.pixels.measure`."""
    measures, target = empty_measures(scene, plan), scene.target
    num_kept, num_pasted = measures.area.numel(), measures.paste_area.numel()
    found = torch.zeros(num_kept + num_pasted, 6, dtype=torch.int32, device=target.device)
    layer, owner = plain(visible.layer), plain(visible.owner) if scene.is_panoptic else None
    rows, cols = TILE
    launch(
        _visibility.measure,
        len(found) * PARTS,
        found,
        layer,
        owner,
        plane_arguments(target),
        plane_arguments(scene.source),
        plan_arguments(plan),
        len(layer),
        PARTS=PARTS,
        ROWS=rows,
        COLS=cols,
        num_warps=8,
    )
    height, width = target.canvas_size
    num_blocks = -(-len(found) // SLOT_BLOCK)
    launch(
        _visibility.write_measures, num_blocks, found, measures, num_kept, num_pasted, width, height, SLOTS=SLOT_BLOCK
    )
    _count_classes(scene, measures, layer)
    return measures


def _count_classes(scene: Scene, measures: Measures, layer: Tensor) -> None:
    target, num_classes = scene.target, measures.class_before.shape[1]
    measures.class_before.zero_()
    measures.class_after.zero_()
    if not num_classes or target.semantic_maps is None:
        return
    height, width = target.canvas_size
    launch(
        _visibility.count_classes,
        len(layer) * -(-height * width // STRETCH),
        measures.class_before,
        measures.class_after,
        plain(target.semantic_maps),
        layer,
        height * width,
        num_classes,
        PIXELS=STRETCH,
        BINS=BINS,
    )


def _num_tiles(scene: Scene, tile: tuple[int, int]) -> int:
    """Return the number of tiles of one image."""
    height, width = scene.target.canvas_size
    return -(-height // tile[0]) * -(-width // tile[1])


def _rank_arguments(scene: Scene) -> RankArguments:
    of_slot = slot_ranks(scene)
    if scene.rank is None or of_slot is None:
        return RankArguments(None, None, 0)
    return RankArguments(plain(scene.rank.to(of_slot.device)), plain(of_slot), len(scene.rank))
