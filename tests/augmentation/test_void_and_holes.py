"""Void of the target that pastes may cover, and filled holes in depth that decide what is nearer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from samples import CPU_BACKENDS, Pasted, assert_same, make_batch, paste, put_box
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.invariants import Case, violations
from segpaste.types import Modality, PaddedBatchedDenseSample

VOID, SIZE = 255, (16, 20)
BOX = slice(4, 12), slice(4, 16)
"""Rows and columns of the object of the second image, which is pasted into the first at its own place."""

BACKENDS = pytest.mark.parametrize("backend", CPU_BACKENDS)


def scene(*modalities: Modality) -> PaddedBatchedDenseSample:
    """Two images: the first has no object, the second one of class 2 that fills `BOX`."""
    batch = make_batch(2, size=SIZE, num_instances=0, modalities={Modality.INSTANCE, *modalities}, max_instances=2)
    put_box(batch, 1, 0, (4, 4, 16, 12), 2)
    return batch


def kept(batch: PaddedBatchedDenseSample, backend: str, inplace: bool = False, **options: Any) -> Pasted:
    placement = {"paste_prob": 1.0, "position": "keep", "hflip_probability": 0.0, **options.pop("placement", {})}
    config = BatchCopyPasteConfig(placement=placement, **options)
    out, report = paste(batch.clone() if inplace else batch, config, backend=backend, inplace=inplace)
    assert violations(Case(batch, out, report, config)) == []
    return out, report


class TestCoverVoid:
    def batch(self) -> PaddedBatchedDenseSample:
        """Void lines cross the object's place in the target, and one crosses the object itself."""
        batch = scene(Modality.SEMANTIC)
        batch.semantic_maps[0], batch.semantic_maps[1] = 7, 2
        batch.semantic_maps[0, :, 5:7] = batch.semantic_maps[0, 2:6] = VOID
        batch.semantic_maps[1, :, 13] = VOID
        return batch

    @BACKENDS
    @pytest.mark.parametrize("inplace", [False, True])
    def test_pastes_cover_it_and_never_carry_it(self, backend: str, inplace: bool) -> None:
        batch = self.batch()
        place = torch.zeros(SIZE, dtype=torch.bool)
        place[BOX] = True
        place[:, 13] = False
        is_void = batch.semantic_maps[0] == VOID
        off, _ = kept(batch, backend, inplace)
        on, report = kept(batch, backend, inplace, placement={"cover_void": True})
        assert torch.equal(on.instance_masks[0, 0], place)
        assert torch.equal(off.instance_masks[0, 0], place & ~is_void)
        assert torch.equal(report.visible_layer[0] >= 0, place)
        assert torch.equal(on.semantic_maps[0], torch.where(place, 2, batch.semantic_maps[0]))
        assert torch.equal(off.semantic_maps[0], torch.where(place & ~is_void, 2, batch.semantic_maps[0]))
        assert torch.equal(on.images[0], torch.where(place, batch.images[1], batch.images[0]))

    def test_padding_stays(self) -> None:
        batch = self.batch()
        padding = torch.zeros(2, 1, *SIZE, dtype=torch.bool)
        padding[0, :, :, 5:7] = True
        out, _ = kept(replace(batch, padding_mask=padding), "native", placement={"cover_void": True})
        assert not out.instance_masks[0, 0, :, 5:7].any()

    def test_classmix_knows_it(self) -> None:
        batch = self.batch()
        for cover_void in (False, True):
            config = BatchCopyPasteConfig(
                emit_classmix=True, placement={"paste_prob": 1.0, "cover_void": cover_void}, min_residual_area_frac=0
            )
            out, report = paste(batch, config)
            assert violations(Case(batch, out, report, config)) == []
            is_void = batch.semantic_maps[0] == VOID
            assert bool((report.visible_layer[0] >= 0)[is_void].any()) == cover_void

    def test_the_check_demands_that_it_stays_otherwise(self) -> None:
        batch = self.batch()
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0, "position": "keep", "cover_void": True})
        out, report = paste(batch, config)
        without = config.model_copy(update={"placement": config.placement.model_copy(update={"cover_void": False})})
        assert {found.invariant for found in violations(Case(batch, out, report, without))} >= {
            "semantic_ignore_preserved"
        }


class TestDepthOrder:
    def batch(self) -> PaddedBatchedDenseSample:
        """An object at 2 before a wall at 3, which is 1 in some rows; holes on both sides have values."""
        batch = scene(Modality.DEPTH)
        batch.depth[0], batch.depth[1] = 3.0, 2.0
        batch.depth[0, 0, 8:10] = 1.0
        batch.depth_valid[:] = True
        batch.depth_valid[1, 0, :, 6:9] = False  # a hole in the object
        batch.depth_valid[0, 0, 7:11, 10:13] = False  # a hole in the wall, before and behind the object
        return batch

    @BACKENDS
    @pytest.mark.parametrize("inplace", [False, True])
    @pytest.mark.parametrize("layers", [1, 2])
    def test_values_decide_and_validity_is_as_before(self, backend: str, inplace: bool, layers: int) -> None:
        batch = self.batch()
        placement = {"layers": layers}
        off, _ = kept(batch, backend, inplace, placement=placement)
        on, report = kept(batch, backend, inplace, depth_order="value", placement=placement)
        place = torch.zeros(SIZE, dtype=torch.bool)
        place[BOX] = True
        nearer, valid = batch.depth[0, 0] > 2, batch.depth_valid[:, 0]
        assert torch.equal(report.visible_layer[0] >= 0, place & nearer)
        assert torch.equal(on.instance_masks[0, 0], place & nearer)
        assert torch.equal(off.instance_masks[0, 0], place & ((nearer & valid[1]) | ~valid[0]))
        written = torch.where(valid[1], 2.0, 0.0)
        assert torch.equal(on.depth[0, 0], torch.where(place & nearer, written, batch.depth[0, 0]))
        assert torch.equal(on.depth_valid[0, 0], torch.where(place & nearer, valid[0] & valid[1], valid[0]))

    @BACKENDS
    def test_a_depth_without_a_value_orders_nothing(self, backend: str) -> None:
        batch = self.batch()
        holes = ~batch.depth_valid
        empty = replace(batch, depth=torch.where(holes, 0.0, batch.depth))
        for value in (0.0, -1.0, float("nan"), float("inf")):
            batch = replace(batch, depth=torch.where(holes, value, batch.depth))
            on, _ = kept(batch, backend, depth_order="value")
            off, _ = kept(empty, backend)
            assert torch.equal(on.instance_masks, off.instance_masks)

    def test_the_default_is_the_rule_of_valid_depth(self) -> None:
        batch = self.batch()
        assert_same(kept(batch, "native")[0], kept(batch, "native", depth_order="valid")[0])

    def test_it_needs_depth(self) -> None:
        with pytest.raises(ValidationError, match="expected emit_depth=None or True"):
            BatchCopyPasteConfig(emit_depth=False, depth_order="value")
