"""The random cases reach what the invariants check: without such cases an invariant would hold trivially."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from invariant_cases import EVERYTHING, Subset, cases, num_cases, subsets_with

from samples import SCHEMA, subset_id
from segpaste.augmentation import DROP_REASONS
from segpaste.invariants import Case, batch_violations
from segpaste.invariants.maps import stuff_made_ignore
from segpaste.invariants.surfaces import _outranked
from segpaste.types import Modality, PaddedBatchedDenseSample

EVERYTHING_GROUP = pytest.mark.xdist_group(f"invariants-{subset_id(EVERYTHING)}")


def _shown(case: Case, what: torch.Tensor) -> bool:
    """Return whether ``what`` [B, L] is true of a visible layer."""
    seen = torch.stack([(case.report.visible_layer == layer).flatten(1).any(1) for layer in range(what.shape[1])], 1)
    return bool((seen & what).any())


def _drops(reason: str) -> Callable[[Case], bool]:
    return lambda case: int(case.report.num_dropped[:, DROP_REASONS.index(reason)].sum()) > 0


def _has(batch: PaddedBatchedDenseSample, where: torch.Tensor, name: str, value: float) -> bool:
    plane: torch.Tensor | None = getattr(batch, name)
    return plane is not None and bool((where & (plane.reshape(where.shape) == value)).any())


REACHED: dict[str, Callable[[Case], bool]] = {
    "a paste": lambda case: bool(case.pasted.any()),
    "a cut survivor": lambda case: bool((case.survives & (case.area_left < case.area_before)).any()),
    "a dropped thing that leaves pixels": lambda case: bool(case.orphans.any()),
    "a paste in the slot of a dropped thing": lambda case: bool(
        (case.is_paste[:, : case.before.max_instances] & case.before.instance_valid).any()
    ),
    "two layers": lambda case: bool(
        ((case.report.visible_layer == 0).flatten(1).any(1) & (case.report.visible_layer > 0).flatten(1).any(1)).any()
    ),
    "a flip": lambda case: _shown(case, case.report.placement.hflip),
    "no flip": lambda case: _shown(case, ~(case.report.placement.hflip | case.report.placement.vflip)),
    "a quarter turn": lambda case: _shown(case, case.report.placement.swap_axes),
    "a vertical flip": lambda case: _shown(case, case.report.placement.vflip),
    "a smaller paste": lambda case: _shown(
        case, (case.report.placement.scale_num < case.report.placement.scale_den).any(-1)
    ),
    "a larger paste": lambda case: _shown(
        case, (case.report.placement.scale_num > case.report.placement.scale_den).any(-1)
    ),
    "an invalid target under a paste": lambda case: _has(case.before, case.pasted, "depth_valid", 0),
    "an invalid paste": lambda case: bool((case.pasted & ~case.seen_surface.maybe_valid).any()),
    "a metric paste": lambda case: case.before.metric_depth and bool(case.pasted.any()),
    "a paste without normal": lambda case: bool(
        case.after.normals is not None and (case.pasted & (case.after.normals == 0).all(1)).any()
    ),
    "padding": lambda case: bool(case.before.padding_mask is not None and case.before.padding_mask.any()),
    "stuff that becomes ignore": lambda case: bool(stuff_made_ignore(case).any()),
    "priorities that keep a paste out": lambda case: bool(
        (outranked := _outranked(case)) is not None and torch.stack(outranked).any()
    ),
    "more slots": lambda case: case.after.max_instances > case.before.max_instances,
    **{f"a try that is dropped: {reason}": _drops(reason) for reason in DROP_REASONS if reason != "eval_mode"},
    **{
        f"an image of {dtype}": lambda case, dtype=dtype: case.before.images.dtype == dtype
        for dtype in (torch.uint8, torch.float32, torch.float16, torch.bfloat16)
    },
}


@EVERYTHING_GROUP
@pytest.mark.parametrize("what", REACHED)
def test_cases_reach(what: str) -> None:
    assert sum(REACHED[what](case) for case in cases(EVERYTHING)) >= 5


@pytest.mark.xdist_group("invariants-instance")
def test_cases_reach_overlaps_and_empty_masks() -> None:
    instance: Subset = frozenset({Modality.INSTANCE})
    batches = [case.before for case in cases(instance)]
    masks = [batch.instance_masks for batch in batches if batch.instance_masks is not None]
    assert len(masks) == num_cases(instance)
    assert sum(bool((m.sum(1) > 1).any()) for m in masks) >= 20
    empty = [b.instance_valid & ~m.flatten(2).any(2) for b, m in zip(batches, masks, strict=True)]
    assert sum(bool(e.any()) for e in empty) >= 20


@pytest.mark.parametrize("subset", subsets_with())
def test_batches_are_sound_before_and_after(subset: Subset) -> None:
    tight = Modality.INSTANCE in subset
    for number, case in enumerate(cases(subset)):
        broken = [*batch_violations(case.before, schema=SCHEMA)]
        broken += batch_violations(case.after, schema=SCHEMA, tight_boxes=tight)
        assert not broken, f"case {number} of {subset_id(subset)}: {broken[0]}"
