"""`batch_violations` finds each fault in one batch, and nothing in a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from samples import OPTIONAL, SCHEMA, make_batch
from segpaste.invariants import InvariantError, batch_violations, check_batch
from segpaste.types import PaddedBatchedDenseSample

Spoil = Callable[[PaddedBatchedDenseSample], None]


sound = partial(make_batch, num_instances=3)


def set_at(name: str, at: tuple[int | slice, ...], value: float | bool) -> Spoil:
    def spoil(batch: PaddedBatchedDenseSample) -> None:
        getattr(batch, name)[at] = value

    return spoil


def repeat_an_id(batch: PaddedBatchedDenseSample) -> None:
    assert batch.instance_ids is not None
    batch.instance_ids[1, 2] = batch.instance_ids[1, 0]


def view_as_bool(name: str, at: tuple[int, ...]) -> Spoil:
    """Set a byte as `uint8.view(torch.bool)` of a mask of 0 and 255 does."""

    def spoil(batch: PaddedBatchedDenseSample) -> None:
        getattr(batch, name).view(torch.uint8)[at] = 255

    return spoil


def lose_a_thing_pixel(batch: PaddedBatchedDenseSample) -> None:
    assert batch.instance_masks is not None
    y, x = batch.instance_masks[1, 0].nonzero()[0]
    batch.instance_masks[1, 0, y, x] = False


def give_stuff_an_id(batch: PaddedBatchedDenseSample) -> None:
    assert batch.semantic_maps is not None
    assert batch.panoptic_maps is not None
    y, x = (batch.semantic_maps[1] == 11).nonzero()[0]
    batch.panoptic_maps[1, y, x] = 3


def spoil_a_depth(batch: PaddedBatchedDenseSample) -> None:
    assert batch.depth is not None
    assert batch.depth_valid is not None
    y, x = batch.depth_valid[1, 0].nonzero()[0]
    batch.depth[1, 0, y, x] = torch.inf


SPOILS: list[tuple[str, Spoil]] = [
    ("invalid_rows_zero", set_at("boxes", (1, 4, 2), 1.0)),
    ("invalid_rows_zero", set_at("labels", (1, 4), 1)),
    ("invalid_rows_zero", set_at("instance_ids", (1, 4), 9)),
    ("invalid_rows_zero", set_at("instance_masks", (1, 4, 0, 0), True)),
    ("bool_bytes", view_as_bool("instance_masks", (1, 0, 3, 3))),
    ("bool_bytes", view_as_bool("depth_valid", (1, 0, 3, 3))),
    ("bool_bytes", view_as_bool("instance_valid", (1, 0))),
    ("boxes_ordered", set_at("boxes", (1, 0, 0), 50.0)),
    ("boxes_ordered", set_at("boxes", (1, 0, 0), torch.nan)),
    ("boxes_enclose_masks", set_at("boxes", (1, 0, slice(None)), 0.0)),
    ("instance_ids_positive", set_at("instance_ids", (1, 0), 0)),
    ("instance_ids_unique", repeat_an_id),
    ("panoptic_pixel_bijection", lose_a_thing_pixel),
    ("panoptic_pixel_bijection", give_stuff_an_id),
    ("panoptic_thing_stuff_consistent", give_stuff_an_id),
    ("panoptic_thing_stuff_consistent", set_at("semantic_maps", (1, 0, 0), 200)),
    ("normals_unit_norm", set_at("normals", (1, slice(None), 2, 2), 1.0)),
    ("depth_finite_where_valid", spoil_a_depth),
]


@pytest.mark.parametrize(("name", "spoil"), SPOILS)
def test_spoiled_batch_is_reported(name: str, spoil: Spoil) -> None:
    batch = sound().clone()
    spoil(batch)
    broken = [v for v in batch_violations(batch, schema=SCHEMA) if v.invariant == name]
    assert {v.image_idx for v in broken} == {1}
    with pytest.raises(InvariantError, match=f"{name}: image 1: expected"):
        check_batch(batch, schema=SCHEMA)


@pytest.mark.parametrize("modalities", [OPTIONAL, ("instance",), ("semantic", "depth"), ()])
@pytest.mark.parametrize(("batch_size", "max_instances"), [(3, 5), (3, 3), (0, 5)])
def test_sound_batch(modalities: tuple[str, ...], batch_size: int, max_instances: int) -> None:
    batch = make_batch(batch_size, max_instances=max_instances, num_instances=3, modalities=modalities)
    assert batch_violations(batch, schema=SCHEMA, tight_boxes=True) == []


def test_batch_without_slots() -> None:
    check_batch(make_batch(2, max_instances=0, num_instances=0), schema=SCHEMA, tight_boxes=True)


def test_tight_boxes_are_asked_for_in_outputs_only() -> None:
    batch = sound()
    loose = replace(batch, boxes=(batch.boxes + torch.tensor([-0.25, 0, 0, 0.5])) * batch.instance_valid[..., None])
    check_batch(loose)
    with pytest.raises(InvariantError, match=r"boxes_fit_masks: image 0: expected the box of the mask"):
        check_batch(loose, tight_boxes=True)


def test_classes_are_looked_at_with_a_schema_only() -> None:
    batch = sound()
    assert batch.semantic_maps is not None
    batch.semantic_maps[0, 0, 0] = 200
    assert batch_violations(batch) == []
