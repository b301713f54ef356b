"""Which instance slots are pasted: a random subset of the eligible ones, weighed by class if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.augmentation import draw_weights

if TYPE_CHECKING:
    from segpaste.augmentation.placement import LayerSources, PlacementRequest


class Choice(NamedTuple):
    """What is to be pasted, if it fits.

    Attributes:
        chosen: [B, L, K_s] bool.
        num_tried: [B] int64, slots that were drawn.
        num_chosen: [B] int64, those that the target has room for.
        no_source: [B] int64, 1 where something was to be pasted and there is nothing to paste from.
    """

    chosen: Tensor
    num_tried: Tensor
    num_chosen: Tensor
    no_source: Tensor


def choose(request: PlacementRequest, sources: LayerSources) -> Choice:
    """A subset of the eligible slots of all layers, as many as drawn, as far as the target has free slots."""
    available = sources.eligible & sources.layer_valid[..., None]
    priority = _priorities(request, sources, available)
    tries, wanted = request.schedule.draw_counts(request.seeds)
    num_tried = torch.minimum(wanted, (priority >= 0).sum((1, 2)))
    chosen = largest(priority, torch.minimum(wanted, request.num_free))
    no_source = (tries & ~sources.layer_valid.any(1)).to(torch.int64)
    return Choice(chosen, num_tried, chosen.sum((1, 2)), no_source)


def _priorities(request: PlacementRequest, sources: LayerSources, available: Tensor) -> Tensor:
    """A random non-negative number for each slot that may be chosen, -1 for the others, [B, L, K_s].

    Where each layer carries one object, layers of one source take its slots in random order, each another one.
    """
    seeds, one_each = request.seeds[:, None, None], request.config.grouping == "instance"
    layers = torch.arange(available.shape[1], device=seeds.device)[:, None]
    slots = torch.arange(available.shape[2], device=seeds.device)
    lead = _random_bits(seeds, "layer", layers) if one_each else None
    first, turn = (layers, None) if lead is None else _turns(request, sources, lead)
    bits = _random_bits(seeds, "slot", first, slots)
    order = torch.where(available, draw_weights.weighted(bits, sources.labels, available, request.schedule), -1)
    if lead is None:
        return order
    rank = order.argsort(dim=2, descending=True, stable=True).argsort(dim=2, stable=True)
    return torch.where(available & (rank == turn), lead, -1)


def _turns(request: PlacementRequest, sources: LayerSources, lead: Tensor) -> tuple[Tensor, Tensor]:
    """The first layer of those that have a layer's source, and how many of them take a slot before it, [B, L, 1] each.

    At temperature 0 layers take slots as they stand. Else those with the largest ``lead`` [B, L, 1] go first, as they
    do where not all layers are kept: whatever is kept of a source is then the first of its slots in their order.
    """
    num_layers = lead.shape[1]
    layers = torch.arange(num_layers, device=lead.device)
    same = sources.source_idx[:, :, None] == sources.source_idx[:, None, :]
    first = torch.where(same, layers, num_layers).amin(2, keepdim=True)
    stands_before = layers < layers[:, None]
    other = torch.where(sources.layer_valid[..., None], lead, -1).mT
    leads = (other > lead) | ((other == lead) & stands_before)
    is_before = torch.where(request.schedule.limits[3].to(lead.device) == 0, stands_before, leads)
    return first, (same & is_before).sum(2, keepdim=True)


def _random_bits(seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """62 random bits."""
    return (seeding.random_bits(seeds, name, *indices) >> 2) & ((1 << 62) - 1)


def random_where(condition: Tensor, seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """62 random bits where the condition holds, else -1."""
    return torch.where(condition, _random_bits(seeds, name, *indices), -1)


def largest(priority: Tensor, size: Tensor) -> Tensor:
    """The ``size`` [B] entries of [B, ...] of highest priority, those of -1 never."""
    flat = priority.flatten(1)
    rank = flat.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    return ((rank < size[:, None]) & (flat >= 0)).view_as(priority)
