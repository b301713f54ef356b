"""Records of kernel arguments of the draws."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from segpaste.engine.schema import DrawRules, PlacementCounts
from segpaste.engine.triton.launching import plain
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


class RuleArguments(NamedTuple):
    """Rules as kernel arguments: the fields of `segpaste.engine.schema.DrawRules`, then its properties.

    Numbers are integers, and flags are constants.
    """

    num_layers: int
    low_scale: int
    high_scale: int
    scale_den: int
    flip_threshold: int
    max_attempts: int
    patch: int
    on_grid: tl.constexpr
    whole_patches: tl.constexpr
    one_each: tl.constexpr
    clips: tl.constexpr
    seen_num: int
    seen_den: int
    keeps_place: tl.constexpr
    hides_cuts: tl.constexpr
    fits_scale: tl.constexpr
    region_num: int
    region_den: int
    counts_available: tl.constexpr
    cover_num: int
    cover_den: int
    candidate_num: int
    candidate_den: int
    needs_objects: tl.constexpr
    limits_cover: tl.constexpr
    takes_part: tl.constexpr


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


class DrawnArguments(NamedTuple):
    """Tensors of a `segpaste.engine.schema.Placement` to write, bools as bytes.

    Attributes:
        places: [B, L, A, 2] int64, the translations that are tried; ``translate`` itself if only one is.
        cover: [B, L, K_s] int64, larger for objects that cover less, -1 for those that are not carried; None if all
            objects that may be pasted are.
    """

    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    places: Tensor
    hflip: Tensor
    carried: Tensor
    cover: Tensor | None


class CountArguments(NamedTuple):
    """Fields of `segpaste.engine.schema.PlacementCounts`."""

    tried: Tensor
    no_source: Tensor
    no_free_slot: Tensor
    does_not_fit: Tensor
    outside_region: Tensor
    covers_too_much: Tensor


def plain_arguments(record: Any) -> Any:
    """Return a named tuple of tensors as kernel arguments, None where one is absent."""
    return record._make(None if tensor is None else plain(tensor) for tensor in record)


def rule_arguments(rules: DrawRules) -> RuleArguments:
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
        return PlacementCounts(*(torch.empty_like(seeds) for _ in CountArguments._fields))
    tries = (random_u32(seeds, "paste") < limits[0]).to(torch.int64)
    if needed is not None:
        tries = tries * (needed[..., 2:] > needed[..., :2]).all(-1).any(1)
    return PlacementCounts(tries, tries.clone(), *(torch.zeros_like(tries) for _ in CountArguments._fields[2:]))


def count_arguments(counts: PlacementCounts) -> CountArguments:
    """Return counts as kernel arguments."""
    return CountArguments(*(getattr(counts, name) for name in CountArguments._fields))
