"""Checks of semantic maps: one class per pixel, never mixed, and ignored pixels stay ignored."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.invariants.case import Case, invariant
from segpaste.invariants.panoptic import stuff_made_ignore
from segpaste.invariants.violation import Violation, found
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.check import not_none


@invariant(Modality.SEMANTIC)
def semantic_single_class_per_pixel(case: Case) -> list[Violation]:
    """Check that a pixel has one class: in pastes that of the nearest source pixel, elsewhere its own, or ignore."""
    name, before, after = "semantic_single_class_per_pixel", _semantic(case.before), _semantic(case.after)
    if after.shape != before.shape or after.dtype != torch.int64:
        came = f"{list(after.shape)} {after.dtype}"
        return [Violation(name, b, "one int64 class per pixel", came) for b in range(len(before))]
    changed = ~case.pasted & (after != before) & (after != case.config.ignore_index)
    violations = found(name, changed, "the target's class {before}", "{after}", before=before, after=after)
    if case.source_batch.semantic_maps is None:
        return violations
    pasted = case.seen.nearest(_semantic(case.source_batch))
    mixed = case.pasted & (after != pasted)
    return violations + found(name, mixed, "the source's class {pasted}", "{after}", pasted=pasted, after=after)


@invariant(Modality.SEMANTIC)
def semantic_ignore_preserved(case: Case) -> list[Violation]:
    """Check that ignored pixels of the target stay, those of a source are not pasted, and only two rules make new ones.

    Both rules are panoptic: the rest of a dropped thing, and stuff with ``stuff_policy="ignore"``. With
    ``placement.cover_void`` pastes may cover ignored pixels.
    """
    name, ignore = "semantic_ignore_preserved", case.config.ignore_index
    before, after = _semantic(case.before) == ignore, _semantic(case.after) == ignore
    values = {"layer": case.report.visible_layer, "label": _semantic(case.after)}
    allowed = stuff_made_ignore(case)
    if Modality.PANOPTIC in case.modalities:
        allowed = allowed | case.orphans
    new = after & ~before & ~case.pasted & ~allowed
    kept = before & ~case.pasted if case.config.placement.cover_void else before
    return [
        *found(name, kept & case.pasted, "an ignored pixel without paste", "layer {layer}", **values),
        *found(name, kept & ~after, "an ignored pixel as before", "class {label}", **values),
        *found(
            name, after & ~before & case.pasted, "nothing ignored in a paste", "ignore from layer {layer}", **values
        ),
        *found(name, new, "a class as before", "ignore", **values),
    ]


def _semantic(batch: PaddedBatchedDenseSample) -> Tensor:
    return not_none(batch.semantic_maps)
