"""Check of the image: a paste changes no pixel outside of it."""

from __future__ import annotations

from segpaste.invariants.case import Case, invariant
from segpaste.invariants.violation import Violation, found
from segpaste.types import Modality


@invariant(Modality.IMAGE)
def image_kept_outside_pastes(case: Case) -> list[Violation]:
    """Check that the image outside of pastes is that of the target, bit for bit (NaN stays NaN)."""
    before, after = case.before.images, case.after.images
    same = ((before == after) | ((before != before) & (after != after))).all(1)
    return found("image_kept_outside_pastes", ~case.pasted & ~same, "the target's colours", "others")
