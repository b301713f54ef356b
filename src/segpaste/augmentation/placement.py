"""Where objects go: the draws of a placement, and nothing that touches a pixel.

Each draw is a pure function of the target's seed, a name and an index (`segpaste.seeding`), so a sample draws the
same wherever it stands in a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from segpaste import kernels, seeding
from segpaste.augmentation import geometry
from segpaste.augmentation.config import PlacementConfig

SCALE_DEN = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """L layers for each of B targets: a source row, a map, and the instance slots that it carries.

    Attributes:
        source_idx: [B, L] int64, row of the source batch (0 where the layer is not valid).
        layer_valid: [B, L] bool.
        scale_num: [B, L] int64; the scale is ``scale_num / scale_den``.
        translate: [B, L, 2] int64, (x, y) in target pixels; may be negative.
        hflip: [B, L] bool, mirror about the source's valid width before scaling.
        carried: [B, L, K_s] bool.
        scale_den: common denominator of all scales.
    """

    source_idx: Tensor
    layer_valid: Tensor
    scale_num: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor
    scale_den: int = SCALE_DEN


@dataclass(frozen=True, slots=True, eq=False)
class PlacementCounts:
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


torch.export.register_dataclass(Placement)
torch.export.register_dataclass(PlacementCounts)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """What a placement is drawn for.

    Attributes:
        seeds: [B] int64, the targets' seeds.
        extent: [B, 2] int64, (width, height) of the targets' pictures.
        occupied: [B, K_t, 4] int64, pixel boxes of the targets' instances, zero where there is none.
        num_free: [B] int64, instance slots that a paste may take.
        config: the ranges and probabilities.
    """

    seeds: Tensor
    extent: Tensor
    occupied: Tensor
    num_free: Tensor
    config: PlacementConfig


@dataclass(frozen=True, slots=True, eq=False)
class LayerSources:
    """The source rows that were chosen for the layers.

    Attributes:
        source_idx: [B, L] int64.
        layer_valid: [B, L] bool.
        extent: [B, L, 2] int64, (width, height) of the sources' pictures.
        boxes: [B, L, K_s, 4] int64, pixel boxes of their instances.
        eligible: [B, L, K_s] bool, instances that may be pasted.
    """

    source_idx: Tensor
    layer_valid: Tensor
    extent: Tensor
    boxes: Tensor
    eligible: Tensor


def draw_placement(request: PlacementRequest, sources: LayerSources) -> tuple[Placement, PlacementCounts]:
    """Draw slots, scale, flip and place for every layer.

    Returns:
        The placement, whose ``carried`` holds the slots that fit, and what became of the others.
    """
    config, seeds = request.config, request.seeds[:, None]
    layers = torch.arange(config.layers, device=seeds.device)
    scale_num = seeding.random_integers(seeds, "scale", *scale_limits(config), layers)
    hflip = seeding.random_bernoulli(seeds, "hflip", config.hflip_probability, layers)

    tries = seeding.random_bernoulli(request.seeds, "paste", config.paste_prob)
    wanted = seeding.random_integers(request.seeds, "count", *config.k_range) * tries
    available = sources.eligible & sources.layer_valid[..., None]
    priority = _slot_priority(request.seeds, available)
    chosen = _largest(priority, torch.minimum(wanted, request.num_free))

    mirrored = geometry.mirrored(sources.boxes, sources.extent[:, :, None, 0], hflip[:, :, None])
    scaled = geometry.scaled_boxes(mirrored, scale_num[:, :, None], SCALE_DEN)
    translate, carried = _translate(request, chosen, scaled)

    placement = Placement(sources.source_idx, sources.layer_valid, scale_num, translate, hflip, carried)
    has_source = sources.layer_valid.any(1)
    tried = torch.minimum(wanted, available.sum((1, 2)))
    num_chosen = chosen.sum((1, 2))
    no_source = (tries & ~has_source).to(torch.int64)
    counts = PlacementCounts(tried + no_source, no_source, tried - num_chosen, num_chosen - carried.sum((1, 2)))
    return placement, counts


def scale_limits(config: PlacementConfig) -> tuple[int, int]:
    """The smallest and the largest numerator of a scale over `SCALE_DEN`."""
    low, high = config.scale_range
    first = math.ceil(low * SCALE_DEN)
    return first, max(first, math.floor(high * SCALE_DEN))


def draw_at_once(request: PlacementRequest, eligible: Tensor) -> tuple[Placement, PlacementCounts]:
    """What `segpaste.augmentation.source.IntraBatchSource` chooses and draws, where the kernels do it at once.

    Args:
        request: the targets, which are the sources too.
        eligible: [B, K] bool.
    """
    config, one = request.config, 1 << 32
    ranges = kernels.DrawRanges(
        *scale_limits(config),
        SCALE_DEN,
        *config.k_range,
        round(config.paste_prob * one),
        round(config.hflip_probability * one),
        config.max_attempts,
    )
    found = kernels.Survey(eligible, request.occupied, request.num_free, request.extent)
    source_idx, layer_valid, draws = kernels.draw(request.seeds, found, config.layers, ranges)
    placement = Placement(source_idx, layer_valid, draws.scale_num, draws.translate, draws.hflip, draws.carried)
    return placement, PlacementCounts(draws.tried, draws.no_source, draws.no_free_slot, draws.does_not_fit)


def _slot_priority(seeds: Tensor, available: Tensor) -> Tensor:
    """A random non-negative number for each available slot of each layer, -1 for the others, [B, L, K_s]."""
    layers = torch.arange(available.shape[1], device=seeds.device)[:, None]
    slots = torch.arange(available.shape[2], device=seeds.device)
    bits = seeding.random_bits(seeds[:, None, None], "slot", layers, slots)
    return torch.where(available, (bits >> 2) & ((1 << 62) - 1), -1)


def _largest(priority: Tensor, size: Tensor) -> Tensor:
    """The ``size`` [B] entries of [B, L, K_s] of highest priority, those of -1 never: a uniformly random subset."""
    flat = priority.flatten(1)
    rank = flat.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    return ((rank < size[:, None]) & (flat >= 0)).view_as(priority)


def _translate(request: PlacementRequest, chosen: Tensor, scaled: Tensor) -> tuple[Tensor, Tensor]:
    """Places for every layer, and the chosen slots that lie inside the picture there.

    The rectangle around all chosen boxes is uniform over where it fits; where it is larger than the picture it is
    uniform over where it covers it.

    Args:
        request: the targets.
        chosen: [B, L, K_s] bool.
        scaled: [B, L, K_s, 4] int64, boxes after scale and flip.

    Returns:
        translate [B, L, 2] int64 and carried [B, L, K_s] bool.
    """
    far = 1 << 44  # more than any coordinate or overlap
    corner = torch.where(chosen[..., None], scaled[..., :2], far).amin(2)
    opposite = torch.where(chosen[..., None], scaled[..., 2:], -far).amax(2)
    is_empty = ~chosen.any(2, keepdim=True)
    first = torch.where(is_empty, 0, -corner)
    last = torch.where(is_empty, 0, request.extent[:, None] - opposite)
    low, high = torch.minimum(first, last).unsqueeze(2), torch.maximum(first, last).unsqueeze(2)

    device = chosen.device
    layers = torch.arange(chosen.shape[1], device=device)[:, None, None]
    attempts = torch.arange(request.config.max_attempts, device=device)[:, None]
    axes = torch.arange(2, device=device)
    seeds = request.seeds[:, None, None, None]
    candidates = seeding.random_integers(seeds, "translate", low, high, layers, attempts, axes)  # [B, L, A, 2]

    placed = scaled[:, :, None] + candidates.repeat(1, 1, 1, 2)[:, :, :, None]  # [B, L, A, K_s, 4]
    fits = chosen[:, :, None] & geometry.inside_extent(placed, request.extent[:, None, None, None])
    if request.config.max_attempts == 1:
        return candidates[:, :, 0], fits[:, :, 0]
    overlap = geometry.box_overlap(placed, request.occupied[:, None, None]).sum(-1)
    score = fits.sum(-1) * far - (overlap * fits).sum(-1)
    num_attempts = request.config.max_attempts
    untied = score * num_attempts - attempts[:, 0]  # which of equal maxima argmax takes is up to the compiler
    best = untied.argmax(2, keepdim=True)
    translate = candidates.gather(2, best[..., None].expand(-1, -1, -1, 2))[:, :, 0]
    carried = fits.gather(2, best[..., None].expand(-1, -1, -1, fits.shape[-1]))[:, :, 0]
    return translate, carried
