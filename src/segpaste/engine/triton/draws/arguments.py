"""Records of kernel arguments of the draws."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from segpaste.engine.record_fields import empty, names_of
from segpaste.engine.schema import DrawRules, LayerRows, Placement, PlacementCounts
from segpaste.engine.triton.launching import argument_tuple, plain
from segpaste.seeding import random_u32

REGISTERS = 128
"""Largest number of registers of a thread. Without a limit the assembler aims at fewer, and spills some."""

FLAGS: Final = (
    "on_grid",
    "whole_patches",
    "one_each",
    "clips",
    "keeps_place",
    "hides_cuts",
    "fits_scale",
    "counts_available",
    "needs_objects",
    "limits_cover",
    "takes_part",
)
"""Rules that are known when a kernel is compiled."""


class PriorityArguments(NamedTuple):
    """Priorities by which slots are chosen.

    Attributes:
        order: [B, L, K_s] int64, the priority of each slot that may be chosen, -1 for the others.
        lead: [B, L] int64, if each layer carries one object: the priority of that object, -1 if there is none.
        kept_slot: [B, L] int64, likewise: its slot, -1 if there is none.
    """

    order: Tensor
    lead: Tensor | None
    kept_slot: Tensor | None


RuleArguments = argument_tuple("RuleArguments", *names_of(DrawRules, "triton"), "limits_cover", "takes_part")
"""Rules as kernel arguments: numbers are integers, and flags are constants."""


class SizeArguments(NamedTuple):
    """Sizes as kernel arguments.

    Attributes:
        num_slots: K_s.
        num_targets: K_t.
        num_size_classes: entries of the table of sizes.
        num_region_classes: entries of the table of regions.
        num_regions: R, 0 without regions.
        region_height: rows of a table of sums.
        region_width: columns of it.
        has_slots: whether K_s is above 0.
    """

    num_slots: int
    num_targets: int
    num_size_classes: int
    num_region_classes: int
    num_regions: int
    region_height: int
    region_width: int
    has_slots: tl.constexpr


MAPS = tuple(name for name in names_of(Placement, "triton") if name not in LayerRows._fields)
"""Tensors of a `segpaste.engine.schema.Placement` that kernels write."""

DrawnArguments = argument_tuple("DrawnArguments", *MAPS, "places", "cover")
"""`MAPS`, bools as bytes, and tensors to work with.

- ``places``: [B, L, A, 2] int64, the translations that are tried; ``translate`` itself if only one is.
- ``cover``: [B, L, K_s] int64, larger for objects that cover less, -1 if not carried; None if all objects
  that may be pasted are.
"""

CountArguments = argument_tuple("CountArguments", *names_of(PlacementCounts, "triton"))


def plain_arguments(record: Any) -> Any:
    """Return a named tuple of tensors as kernel arguments, None where one is absent."""
    return record._make(None if tensor is None else plain(tensor) for tensor in record)


def rule_arguments(rules: DrawRules) -> Any:
    """Return rules as kernel arguments."""
    values = {**rules._asdict(), "limits_cover": rules.limits_cover, "takes_part": rules.takes_part}
    if rules.keeps_place:
        values["max_attempts"] = 1
    return RuleArguments(**{**values, **{name: tl.constexpr(bool(values[name])) for name in FLAGS}})


def empty_counts(seeds: Tensor, limits: Tensor, num_layers: int, needed: Tensor | None = None) -> PlacementCounts:
    """Allocate the counts of the targets of ``seeds``, for the kernels, which have a program for each layer.

    Without layers no program runs, and the counts are filled in here: a paste that is drawn has no source. ``needed``
    are boxes [B, K, 4], of which one must have an area.
    """
    if num_layers:
        return empty(PlacementCounts, seeds.device, {"B": len(seeds)})
    tries = (random_u32(seeds, "paste") < limits[0]).to(torch.int64)
    if needed is not None:
        tries = tries * (needed[..., 2:] > needed[..., :2]).all(-1).any(1)
    zeros = {name: torch.zeros_like(tries) for name in CountArguments._fields[2:]}
    return PlacementCounts(tries, tries.clone(), **zeros)


def map_arguments(placement: Placement) -> dict[str, Tensor]:
    """Return the `MAPS` of a placement by name."""
    return {name: plain(getattr(placement, name)) for name in MAPS}


def count_arguments(counts: PlacementCounts) -> Any:
    """Return counts as kernel arguments."""
    return CountArguments(*(getattr(counts, name) for name in CountArguments._fields))
