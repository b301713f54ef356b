"""Draws of the instance slots to paste: a random subset of the eligible ones, optionally weighted by class.

Slots are drawn one after another without replacement, in proportion to their weights w = n ** -temperature, where n is
the number of objects of the slot's class: Efraimidis and Spirakis, "Weighted random sampling with a reservoir"
(Information Processing Letters, 2006). The largest keys u ** (1 / w) of the paper are the smallest -log2(u) / w, the
shortest waiting times. All arithmetic is in integers and gives the same bits on every machine and device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.engine.schema import DrawRules, DrawTables, LayerRows, Sources, Targets

_HIGHEST = (1 << 62) - 1


class Draw(NamedTuple):
    """Inputs of the draws of a placement.

    Attributes:
        targets: B images.
        sources: a row for each layer, [B, L, ...] instead of [S, ...].
        rows: row of the sources that each layer takes.
        tables: parameters that may change between steps.
        rules: fixed parameters.
    """

    targets: Targets
    sources: Sources
    rows: LayerRows
    tables: DrawTables
    rules: DrawRules


class Choice(NamedTuple):
    """Slots to paste if they fit into the image.

    Attributes:
        chosen: [B, L, K_s] bool.
        num_tried: [B] int64, slots that were drawn.
        num_chosen: [B] int64, those of them that the target has free slots for; all of them if only a part of the
            fitting ones is pasted.
        no_source: [B] int64, 1 where a paste was drawn and no layer has a source.
    """

    chosen: Tensor
    num_tried: Tensor
    num_chosen: Tensor
    no_source: Tensor


def choose(draw: Draw) -> Choice:
    """Choose a random subset of the eligible slots of all layers, at most as many as the target has free slots.

    If only a part of the fitting ones is pasted, `least_covering` limits them to the free slots.
    """
    available = draw.sources.eligible & draw.rows.layer_valid[..., None]
    priority = _priorities(draw, available)
    num_available = (priority >= 0).sum((1, 2))
    limit = num_available if draw.rules.counts_available else None
    tries, wanted = draw_counts(draw.tables.limits, draw.targets.seeds, limit)
    if draw.rules.needs_objects:
        boxes = draw.targets.occupied
        has_objects = (boxes[..., 2:] > boxes[..., :2]).all(-1).any(1)
        tries, wanted = tries & has_objects, wanted * has_objects
    num_tried = torch.minimum(wanted, num_available)
    chosen = largest(priority, wanted if draw.rules.takes_part else torch.minimum(wanted, draw.targets.num_free))
    no_source = (tries & ~draw.rows.layer_valid.any(1)).to(torch.int64)
    return Choice(chosen, num_tried, chosen.sum((1, 2)), no_source)


def draw_counts(limits: Tensor, seeds: Tensor, num_available: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Draw whether each image is pasted into, [B] bool, and the number of slots, [B] int64; see `DrawTables.limits`.

    With ``num_available`` [B] int64 the range of the number is limited to it.
    """
    threshold, low, high, _ = limits.to(seeds.device).unbind()
    if num_available is not None:
        low, high = torch.minimum(low, num_available), torch.minimum(high, num_available)
    tries = seeding.random_u32(seeds, "paste") < threshold
    return tries, seeding.random_integers(seeds, "count", low, high) * tries


def _priorities(draw: Draw, available: Tensor) -> Tensor:
    """Draw a non-negative priority for each slot that may be chosen, -1 for the others, [B, L, K_s] int64.

    If each layer carries one object, the layers of one source take its slots in random order, each a different one.
    """
    seeds = draw.targets.seeds[:, None, None]
    layers = torch.arange(available.shape[1], device=seeds.device)[:, None]
    slots = torch.arange(available.shape[2], device=seeds.device)
    lead = random_bits_62(seeds, "layer", layers) if draw.rules.one_each else None
    first, turn = (layers, None) if lead is None else _turns(draw, lead)
    bits = random_bits_62(seeds, "slot", first, slots)
    order = torch.where(available, weighted(bits, draw.sources.labels, available, draw.tables), -1)
    if lead is None:
        return order
    rank = order.argsort(dim=2, descending=True, stable=True).argsort(dim=2, stable=True)
    return torch.where(available & (rank == turn), lead, -1)


def _turns(draw: Draw, lead: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first layer with the same source, and how many such layers take a slot earlier, [B, L, 1] each.

    At temperature 0 layers take slots in the order of their index. Otherwise layers of larger ``lead`` [B, L, 1] come
    first. They are also kept first if not all layers are kept, so the kept slots of a source are the first ones drawn.
    """
    num_layers, rows = lead.shape[1], draw.rows
    layers = torch.arange(num_layers, device=lead.device)
    same = rows.source_idx[:, :, None] == rows.source_idx[:, None, :]
    first = torch.where(same, layers, num_layers).amin(2, keepdim=True)
    stands_before = layers < layers[:, None]
    other = torch.where(rows.layer_valid[..., None], lead, -1).mT
    leads = (other > lead) | ((other == lead) & stands_before)
    is_before = torch.where(draw.tables.limits[3].to(lead.device) == 0, stands_before, leads)
    return first, (same & is_before).sum(2, keepdim=True)


def random_bits_62(seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """Return 62 random bits, int64."""
    return (seeding.random_bits(seeds, name, *indices) >> 2) & _HIGHEST


def random_where(condition: Tensor, seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """Return 62 random bits where the condition holds, else -1, int64."""
    return torch.where(condition, random_bits_62(seeds, name, *indices), -1)


def largest(priority: Tensor, size: Tensor) -> Tensor:
    """Mark the ``size`` [B] entries of [B, ...] with the highest priority, never negative ones, bool."""
    flat = priority.flatten(1)
    rank = flat.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    return ((rank < size[:, None]) & (flat >= 0)).view_as(priority)


def weighted(bits: Tensor, labels: Tensor, available: Tensor, tables: DrawTables) -> Tensor:
    """Turn random bits into priorities: slots with larger ones are drawn first.

    Args:
        bits: [B, L, K_s] int64, 62 random bits for each slot.
        labels: [B, L, K_s] int64.
        available: [B, L, K_s] bool, slots that may be drawn. The n of a slot counts those of its class in its layer.
        tables: the temperature, and the tables of weights.

    Returns:
        [B, L, K_s] int64 in [0, 2**62); the bits themselves if the temperature is 0.
    """
    same = labels[..., None] == labels[..., None, :]  # [B, L, K_s, K_s], less memory than the tried places
    num_alike = (same & available[..., None, :]).sum(-1)
    temperature, inverse, table = (
        t.to(bits.device) for t in (tables.limits[3], tables.inverse_weights, tables.log_table)
    )
    waits = negative_log2(bits, table) * inverse[num_alike.clamp(max=len(inverse) - 1)]  # at most 62 * 2**(32 + 24)
    return torch.where(temperature == 0, bits, _HIGHEST - waits)


def negative_log2(bits: Tensor, table: Tensor) -> Tensor:
    """Return -log2((bits + 1) / 2**62) of 62 bits, the waiting times of slots of rate 1.

    Values between the entries of the table are interpolated linearly. They exceed the exact ones by at most one part in
    a thousand plus the last bit. They never increase with the bits, so slots of equal rates keep the order of the bits.

    Args:
        bits: int64 in [0, 2**62), any shape.
        table: `segpaste.augmentation.tables.log_table`.

    Returns:
        int64 in units of 2**-32, from 0 to 62.
    """
    number, zeros = bits + 1, torch.zeros_like(bits)
    for num_places in (32, 16, 8, 4, 2, 1):
        shift = (number < 1 << (63 - num_places)) * num_places
        number, zeros = number << shift, zeros + shift
    step, between = (number >> 54) & 255, (number >> 24) & ((1 << 30) - 1)
    low, high = table[step], table[step + 1]
    return (zeros << 32) - low - ((high - low) * between >> 30)
