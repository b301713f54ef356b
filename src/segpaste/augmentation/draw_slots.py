"""Which instance slots are pasted: a uniformly random subset of the eligible ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from segpaste import seeding

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
    priority = _priorities(request.seeds, sources.source_idx, available, request.config.grouping == "instance")
    tries, wanted = request.schedule.draw_counts(request.seeds)
    num_tried = torch.minimum(wanted, (priority >= 0).sum((1, 2)))
    chosen = largest(priority, torch.minimum(wanted, request.num_free))
    no_source = (tries & ~sources.layer_valid.any(1)).to(torch.int64)
    return Choice(chosen, num_tried, chosen.sum((1, 2)), no_source)


def _priorities(seeds: Tensor, source_idx: Tensor, available: Tensor, one_each: bool) -> Tensor:
    """A random non-negative number for each slot that may be chosen, -1 for the others, [B, L, K_s].

    Where each layer carries ``one_each``, layers of one source take its slots in random order, each another one.
    """
    num_layers, num_slots = available.shape[1:]
    layers = torch.arange(num_layers, device=seeds.device)
    slots = torch.arange(num_slots, device=seeds.device)
    if not one_each:
        return random_where(available, seeds[:, None, None], "slot", layers[:, None], slots)
    same = source_idx[:, :, None] == source_idx[:, None, :]
    first = torch.where(same, layers, num_layers).amin(2, keepdim=True)
    turn = (same & (layers < layers[:, None])).sum(2, keepdim=True)
    order = random_where(available, seeds[:, None, None], "slot", first, slots)
    rank = order.argsort(dim=2, descending=True, stable=True).argsort(dim=2, stable=True)
    return random_where(available & (rank == turn), seeds[:, None, None], "layer", layers[:, None])


def random_where(condition: Tensor, seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """62 random bits where the condition holds, else -1."""
    bits = seeding.random_bits(seeds, name, *indices)
    return torch.where(condition, (bits >> 2) & ((1 << 62) - 1), -1)


def largest(priority: Tensor, size: Tensor) -> Tensor:
    """The ``size`` [B] entries of [B, L, K_s] of highest priority, those of -1 never: a uniformly random subset."""
    flat = priority.flatten(1)
    rank = flat.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    return ((rank < size[:, None]) & (flat >= 0)).view_as(priority)
