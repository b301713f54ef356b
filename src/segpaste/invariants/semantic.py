"""What holds for semantic maps: one class per pixel, never mixed, and the ignored stays ignored."""

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
    """A pixel has one class: the nearest source pixel's in a paste, elsewhere the target's, or ignore."""
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
    """Ignored pixels of the target stay, those of a source are not pasted, and no rule but two makes new ones.

    The two, both panoptic: what a dropped thing leaves, and stuff that ``stuff_policy="ignore"`` gives up.
    """
    name, ignore = "semantic_ignore_preserved", case.config.ignore_index
    before, after = _semantic(case.before) == ignore, _semantic(case.after) == ignore
    values = {"layer": case.report.visible_layer, "label": _semantic(case.after)}
    allowed = stuff_made_ignore(case)
    if Modality.PANOPTIC in case.modalities:
        allowed = allowed | case.orphans
    new = after & ~before & ~case.pasted & ~allowed
    return [
        *found(name, before & case.pasted, "an ignored pixel without paste", "layer {layer}", **values),
        *found(name, before & ~after, "an ignored pixel as before", "class {label}", **values),
        *found(
            name, after & ~before & case.pasted, "nothing ignored in a paste", "ignore from layer {layer}", **values
        ),
        *found(name, new, "a class as before", "ignore", **values),
    ]


def _semantic(batch: PaddedBatchedDenseSample) -> Tensor:
    return not_none(batch.semantic_maps)
