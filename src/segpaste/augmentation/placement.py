"""Where objects go: the draws of a placement, and nothing that touches a pixel.

Each draw is a pure function of the target's seed, a name and an index (`segpaste.seeding`), so a sample draws the
same wherever it stands in a batch. Which slots is told by `segpaste.augmentation.draw_slots`, how large by
`segpaste.augmentation.draw_scales`, where by `segpaste.augmentation.draw_places`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from segpaste import engine, seeding
from segpaste.augmentation import draw_places, draw_scales, draw_slots, geometry
from segpaste.augmentation.placement_config import PlacementConfig
from segpaste.augmentation.slots import as_decimal
from segpaste.types.movable import Movable, register_pytree

if TYPE_CHECKING:
    from segpaste.augmentation.panoptic import ClassTables
    from segpaste.augmentation.schedule import Schedule
    from segpaste.types import PaddedBatchedDenseSample, StagedCrops

SCALE_DEN = draw_scales.SCALE_DEN


@dataclass(frozen=True, slots=True, eq=False)
class Placement(Movable):
    """L layers for each of B targets: a source row, a map, and the instance slots that it carries.

    Attributes:
        source_idx: [B, L] int64, row of the source batch (0 where the layer is not valid).
        layer_valid: [B, L] bool.
        scale_num: [B, L, 2] int64; the scales of (x, y) are ``scale_num / scale_den``.
        scale_den: [B, L, 2] int64.
        translate: [B, L, 2] int64, (x, y) in target pixels; may be negative.
        hflip: [B, L] bool, mirror about the source's valid width before scaling.
        carried: [B, L, K_s] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PlacementCounts(Movable):
    """What became of the pastes that a placement tried, [B] int64 each; one try is counted where no source is.

    Attributes:
        tried: pastes that were drawn.
        no_source: no row of the source has an eligible instance.
        no_free_slot: beyond the free instance slots of the target.
        does_not_fit: its box would leave the target's picture.
    """

    tried: Tensor
    no_source: Tensor
    no_free_slot: Tensor
    does_not_fit: Tensor


register_pytree(Placement)
register_pytree(PlacementCounts)


class PlacementText(NamedTuple):
    """A config and what an operator takes in its place.

    Attributes:
        config: the ranges and probabilities.
        text: the same as JSON.
    """

    config: PlacementConfig
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """What a placement is drawn for.

    Attributes:
        seeds: [B] int64, the targets' seeds.
        extent: [B, 2] int64, (width, height) of the targets' pictures.
        occupied: [B, K_t, 4] int64, pixel boxes of the targets' instances, zero where there is none.
        num_free: [B] int64, instance slots that a paste may take.
        canvas_size: (H, W) of the target.
        config: the ranges and probabilities, ``layers`` and ``grouping`` as the source makes them.
        schedule: those of them that may change from step to step, as tensors.
        classes: things and stuff, if the config has a taxonomy.
        staged: crops of a bank, for a source that takes them from there.
        text: of ``config``, for operators; None where there is none, and draws are traced.
    """

    seeds: Tensor
    extent: Tensor
    occupied: Tensor
    num_free: Tensor
    canvas_size: tuple[int, int]
    config: PlacementConfig
    schedule: Schedule
    classes: ClassTables | None = None
    staged: StagedCrops | None = None
    text: PlacementText | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LayerSources:
    """The source rows that were chosen for the layers.

    Attributes:
        source_idx: [B, L] int64.
        layer_valid: [B, L] bool.
        extent: [B, L, 2] int64, (width, height) of the sources' pictures.
        boxes: [B, L, K_s, 4] int64, pixel boxes of their instances.
        labels: [B, L, K_s] int64, their classes.
        eligible: [B, L, K_s] bool, instances that may be pasted.
        canvas_size: (H, W) of the sources; None where it is that of the targets.
        shrunk: [B, L] int64, over `SCALE_DEN`: scales that are drawn are divided by it; None for 1.
    """

    source_idx: Tensor
    layer_valid: Tensor
    extent: Tensor
    boxes: Tensor
    labels: Tensor
    eligible: Tensor
    canvas_size: tuple[int, int] | None = None
    shrunk: Tensor | None = None

    @classmethod
    def of_rows(cls, source: PaddedBatchedDenseSample, source_idx: Tensor, eligible: Tensor) -> LayerSources:
        """Return what a placement needs to know of rows of a batch.

        Args:
            source: the batch, S rows and K_s slots.
            source_idx: [B, L] int64, the row that each layer takes.
            eligible: [S, K_s] bool, instances that may be pasted. A layer whose row has none is not valid.
        """
        extent = geometry.valid_extent(source.padding_mask, source.batch_size, source.canvas_size, source.device)
        return cls(
            source_idx=source_idx,
            layer_valid=eligible.any(1)[source_idx],
            extent=extent[source_idx],
            boxes=geometry.pixel_boxes(source.boxes)[source_idx],
            labels=source.labels[source_idx],
            eligible=eligible[source_idx],
            canvas_size=source.canvas_size,
        )


def draw_placement(request: PlacementRequest, sources: LayerSources) -> tuple[Placement, PlacementCounts]:
    """Draw slots, scale, flip and place for every layer.

    Returns:
        The placement, whose ``carried`` holds the slots that fit, and what became of the others.
    """
    config, seeds = request.config, request.seeds[:, None]
    layers = torch.arange(config.layers, device=seeds.device)
    hflip = seeding.random_bernoulli(seeds, "hflip", config.hflip_probability, layers)
    choice = draw_slots.choose(request, sources)
    boxes = geometry.mirrored(sources.boxes, sources.extent[:, :, None, 0], hflip[:, :, None])
    scale_num, scale_den = draw_scales.draw_scales(request, sources, choice.chosen, boxes)
    scaled = geometry.scaled_boxes(boxes, scale_num[:, :, None], scale_den[:, :, None])
    translate, carried = draw_places.draw_places(request, choice.chosen, scaled)
    placement = Placement(sources.source_idx, sources.layer_valid, scale_num, scale_den, translate, hflip, carried)
    counts = PlacementCounts(
        tried=choice.num_tried + choice.no_source,
        no_source=choice.no_source,
        no_free_slot=choice.num_tried - choice.num_chosen,
        does_not_fit=choice.num_chosen - carried.sum((1, 2)),
    )
    return placement, counts


def draw_at_once(request: PlacementRequest, eligible: Tensor, labels: Tensor) -> tuple[Placement, PlacementCounts]:
    """What `segpaste.augmentation.source.IntraBatchSource` chooses and draws, where the kernels do it at once.

    Args:
        request: the targets, which are the sources too.
        eligible: [B, K] bool.
        labels: [B, K] int64.
    """
    found = engine.Survey(eligible, request.occupied, request.num_free, request.extent, labels)
    numbers = request.schedule.tables, request.config.layers, _ranges(request)
    source_idx, layer_valid, draws = engine.draw(request.seeds, found, *numbers)
    maps = draws.scale_num, draws.scale_den, draws.translate, draws.hflip, draws.carried
    counts = PlacementCounts(draws.tried, draws.no_source, draws.no_free_slot, draws.does_not_fit)
    return Placement(source_idx, layer_valid, *maps), counts


def _ranges(request: PlacementRequest) -> engine.DrawRanges:
    """What the loops draw from."""
    config = request.config
    on_grid = config.patch_aligned_paste and config.align == "canvas"
    low, high, den = *draw_scales.scale_limits(config), SCALE_DEN
    if on_grid:
        low, high, den = draw_scales.canvas_grid(config, request.canvas_size)
    seen = as_decimal(config.min_visible_frac)
    return engine.DrawRanges(
        low_scale=low,
        high_scale=high,
        scale_den=den,
        size_den=draw_scales.SIZE_DEN,
        flip_threshold=round(config.hflip_probability * (1 << 32)),
        max_attempts=config.max_attempts,
        patch=(config.pad_to_multiple or 1) if config.patch_aligned_paste else 1,
        on_grid=on_grid,
        grid_tries=draw_scales.GRID_TRIES,
        whole_patches=config.align == "instance",
        one_each=config.grouping == "instance",
        clips=config.partial == "clip",
        seen_num=seen.numerator,
        seen_den=seen.denominator,
    )
