"""Invariants of every paste, one public check per invariant, for users and for the tests of this package.

A check takes a `Case`, one forward with its report, computes the expected result from first principles, without the
code that made the paste, and returns a list of `Violation`, empty if the invariant holds. Unless it says otherwise, it
returns at most one for each image and each rule of its description. It raises ValueError for a case without the fields
that it reads, see `applicable`.

    >>> out, report = paste(batch, return_report=True)
    >>> violations(Case(batch, out, report, paste.config))
    []

The checks read every pixel several times: use them in tests and to find the cause of an error, not in training steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from segpaste.invariants.batch import batch_violations, check_batch
from segpaste.invariants.case import Case, Check, InvariantError, Violation, what_is_missing
from segpaste.invariants.instance import (
    crowd_never_under_paste,
    instance_bbox_recomputed_from_mask,
    instance_given_bbox_kept,
    instance_hidden_area_limited,
    instance_identity_preserved,
    instance_no_same_class_overlap,
    instance_small_area_dropped,
    instance_target_masks_subtract_paste_union,
    keypoints_visible_only_on_own_pixels,
)
from segpaste.invariants.maps import (
    image_kept_outside_pastes,
    panoptic_contact_priority,
    panoptic_fresh_instance_ids,
    panoptic_pixel_bijection,
    panoptic_stuff_area_threshold,
    panoptic_thing_stuff_consistent,
    semantic_ignore_preserved,
    semantic_single_class_per_pixel,
)
from segpaste.invariants.surfaces import (
    depth_metric_intrinsics_rescale,
    depth_monotonicity,
    depth_validity_join,
    normals_camera_frame_convention,
    normals_unit_norm_on_valid,
)

INVARIANTS: tuple[Check, ...] = (
    image_kept_outside_pastes,
    instance_identity_preserved,
    instance_target_masks_subtract_paste_union,
    instance_bbox_recomputed_from_mask,
    instance_given_bbox_kept,
    instance_small_area_dropped,
    instance_hidden_area_limited,
    instance_no_same_class_overlap,
    panoptic_thing_stuff_consistent,
    panoptic_pixel_bijection,
    panoptic_fresh_instance_ids,
    panoptic_stuff_area_threshold,
    panoptic_contact_priority,
    semantic_single_class_per_pixel,
    semantic_ignore_preserved,
    depth_monotonicity,
    depth_validity_join,
    depth_metric_intrinsics_rescale,
    normals_unit_norm_on_valid,
    normals_camera_frame_convention,
    keypoints_visible_only_on_own_pixels,
    crowd_never_under_paste,
)
"""All checks of one forward, in the order of the modalities."""

__all__ = [
    "INVARIANTS",
    "Case",
    "InvariantError",
    "Violation",
    "applicable",
    "batch_violations",
    "check",
    "check_all",
    "check_batch",
    "crowd_never_under_paste",
    "depth_metric_intrinsics_rescale",
    "depth_monotonicity",
    "depth_validity_join",
    "image_kept_outside_pastes",
    "instance_bbox_recomputed_from_mask",
    "instance_given_bbox_kept",
    "instance_hidden_area_limited",
    "instance_identity_preserved",
    "instance_no_same_class_overlap",
    "instance_small_area_dropped",
    "instance_target_masks_subtract_paste_union",
    "keypoints_visible_only_on_own_pixels",
    "normals_camera_frame_convention",
    "normals_unit_norm_on_valid",
    "panoptic_contact_priority",
    "panoptic_fresh_instance_ids",
    "panoptic_pixel_bijection",
    "panoptic_stuff_area_threshold",
    "panoptic_thing_stuff_consistent",
    "semantic_ignore_preserved",
    "semantic_single_class_per_pixel",
    "violations",
]


def applicable(case: Case) -> tuple[Check, ...]:
    """Return the checks whose modalities are in input and output."""
    return tuple(check for check in INVARIANTS if what_is_missing(check.__name__, case) is None)


def violations(case: Case) -> list[Violation]:
    """Return the violations of all applicable checks; empty if every invariant holds."""
    return [violation for check in applicable(case) for violation in check(case)]


def check(found: Iterable[Violation]) -> None:
    """Raise if a check found a violation: ``check(depth_monotonicity(case))``.

    Raises:
        InvariantError: there are violations; the message has each invariant and image.
    """
    if broken := tuple(found):
        raise InvariantError(broken)


def check_all(case: Case) -> None:
    """Raise if any applicable check finds a violation.

    Raises:
        InvariantError: there are violations; the message has each invariant and image.
    """
    check(violations(case))
