"""Failures of other systems, each as a test case where no other test has one."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import torch
from torch import Tensor

from samples import EVERY_IMAGE, SCHEMA, THINGS, FromBatch, make_batch, paste
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PanopticTaxonomy,
    PlacementConfig,
)
from segpaste.augmentation.tables import ClassTables
from segpaste.engine.reference import geometry
from segpaste.engine.schema import SCALE_DEN
from segpaste.invariants import check_batch
from segpaste.types import Modality
from segpaste.types.check import MAX_INSTANCE_ID

PANOPTIC = PanopticConfig(taxonomy=SCHEMA, tau_stuff_px=0, tau_stuff_frac=0.0)


class TestManyClasses:
    def test_things_are_things_however_many_classes_there_are(self) -> None:
        kinds = {c: "thing" if c % 3 else "stuff" for c in range(251) if c % 7}  # the last, 250, is a thing
        tables = ClassTables(PanopticConfig(taxonomy=PanopticTaxonomy(classes=kinds)))  # type: ignore[arg-type]
        labels = torch.randint(-5, 300, (4, 97))
        expected = torch.tensor([[kinds.get(int(c)) == "thing" for c in row] for row in labels])
        assert torch.equal(tables.things(labels), expected)


class TestLargeIds:
    def test_they_survive_a_paste_and_fresh_ones_follow(self) -> None:
        batch = make_batch(max_instances=8)
        offset = 256**3 + 1
        assert batch.instance_ids is not None
        assert batch.panoptic_maps is not None
        moved = replace(
            batch,
            instance_ids=(batch.instance_ids + offset).int() * batch.instance_valid,
            panoptic_maps=torch.where(batch.panoptic_maps > 0, batch.panoptic_maps + offset, 0),
        )
        small, large = (
            BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=PANOPTIC))(b)
            for b in (batch, moved)
        )
        assert torch.equal(large.instance_ids, (small.instance_ids + offset) * small.instance_valid)
        assert torch.equal(large.panoptic_maps, torch.where(small.panoptic_maps > 0, small.panoptic_maps + offset, 0))

    def test_an_id_with_pixels_and_no_row_is_not_given_again(self) -> None:
        batch = make_batch(max_instances=8)
        assert batch.instance_ids is not None
        stray = int(batch.instance_ids.max()) + 1
        maps = batch.panoptic_maps.clone()  # type: ignore[union-attr]
        maps[:, :3, :3] = stray
        out, report = paste(
            replace(batch, panoptic_maps=maps), BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=PANOPTIC)
        )
        assert report.num_placed.any()
        assert (out.instance_ids[report.slot_layer >= 0] > stray).all()

    def test_ids_without_room_are_refused(self) -> None:
        batch = make_batch()
        ids = batch.instance_ids.clone()  # type: ignore[union-attr]
        ids[0, 0] = 2**31 - 1
        with pytest.raises(ValueError, match="leaves room for fresh ones"):
            replace(batch, instance_ids=ids)

    @pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_the_largest_id_that_samples_may_have_leaves_room(self, compiled: bool) -> None:
        """The output is a batch again, and can be pasted into again."""
        batch = make_batch(max_instances=8)
        ids = batch.instance_ids.clone()  # type: ignore[union-attr]
        maps = batch.panoptic_maps.clone()  # type: ignore[union-attr]
        for b in range(batch.batch_size):
            maps[b][maps[b] == int(ids[b, 0])] = MAX_INSTANCE_ID
            ids[b, 0] = MAX_INSTANCE_ID
        module = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=PANOPTIC))
        step = torch.compile(module, fullgraph=True, backend="aot_eager") if compiled else module
        batch = replace(batch, instance_ids=ids, panoptic_maps=maps)
        for _ in range(2):
            batch, report = step(batch, return_report=True)
            check_batch(batch)
            assert (batch.instance_ids[report.slot_layer >= 0] > MAX_INSTANCE_ID).all()  # type: ignore[index]


class TestDepthThatIsNoNumber:
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"modalities": {Modality.DEPTH}}, {"max_instances": 0}])
    def test_is_0_and_invalid_in_every_output(self, value: float, options: dict[str, Any]) -> None:
        """This also holds where the input calls it valid, where nothing is pasted, and where the source has it."""
        if options.get("max_instances") == 0:
            options = {**options, "num_instances": 0}
        batch = make_batch(**{"max_instances": 8, **options})
        depth, valid = batch.depth.clone(), batch.depth_valid.clone()  # type: ignore[union-attr]
        depth[:, :, ::2, ::3] = value
        valid[:, :, ::4] = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = BatchCopyPaste(EVERY_IMAGE)(replace(batch, depth=depth, depth_valid=valid))
        assert out.depth is not None
        assert out.depth.isfinite().all()
        outside = (out.depth == depth) & (out.depth_valid == valid)
        assert (outside | ~depth.isfinite() | (out.images != batch.images).any(1, keepdim=True)).all()
        assert not (out.depth_valid & (out.depth == 0) & ~depth.isfinite()).any()  # type: ignore[operator]


class TestNormalsThatAreNoNumbers:
    def test_do_not_spread(self) -> None:
        batch = make_batch(2, max_instances=8, size=(31, 37))
        normals = batch.normals.clone()  # type: ignore[union-attr]
        normals[1, :, ::3, ::3] = torch.nan
        out, report = paste(replace(batch, normals=normals))
        assert (report.visible_layer[0] >= 0).any()
        assert out.normals[0].isfinite().all()  # type: ignore[index]

    def test_scale_1_copies_them_bit_for_bit(self) -> None:
        batch = make_batch(2, max_instances=8, size=(31, 37), modalities={Modality.INSTANCE, Modality.NORMALS})
        same = PlacementConfig(paste_prob=1.0, scale_range=(1, 1), hflip_probability=0)
        out, report = paste(batch, BatchCopyPasteConfig(placement=same))
        num_compared = 0
        for b in range(2):
            x, y = report.placement.translate[b, 0].tolist()
            for at in (report.visible_layer[b] >= 0).nonzero().tolist():
                there = batch.normals[1 - b, :, at[0] - y, at[1] - x]  # type: ignore[index]
                assert torch.equal(out.normals[b, :, at[0], at[1]], there)  # type: ignore[index]
                num_compared += 1
        assert num_compared > 20


class TestReprojection:
    def test_a_pasted_object_keeps_its_metric_width(self) -> None:
        """Width in pixels * depth / focal length is the object's width in metres, before and after."""
        batch = make_batch(2, max_instances=8, num_instances=1, metric_depth=True, size=(31, 37))
        assert batch.depth is not None
        depth = torch.full_like(batch.depth, 9.0)
        depth[1] = 2.0
        camera = torch.tensor([[40.0, 40.0, 18.0, 15.0], [20.0, 20.0, 18.0, 15.0]])
        batch = replace(
            batch, depth=depth, depth_valid=torch.ones_like(depth, dtype=torch.bool), camera_intrinsics=camera
        )
        same_size = PlacementConfig(paste_prob=1.0, scale_range=(1, 1), hflip_probability=0)
        out, report = paste(batch, BatchCopyPasteConfig(placement=same_size))
        slot = int((report.slot_layer[0] >= 0).nonzero()[0, 0])
        seen = out.instance_masks[0, slot]  # type: ignore[index]
        width_px = (out.boxes[0, slot, 2] - out.boxes[0, slot, 0]).item()
        source_px = (batch.boxes[1, 0, 2] - batch.boxes[1, 0, 0]).item()
        z = out.depth[0, 0][seen]  # type: ignore[index]
        assert width_px == source_px
        torch.testing.assert_close(width_px * z / 40.0, torch.full_like(z, source_px * 2.0 / 20.0))


class TestZeroDepth:
    @pytest.mark.parametrize("nothing", [0.0, -1.0])
    def test_it_never_wins_even_if_marked_valid(self, nothing: float) -> None:
        batch = make_batch(2, max_instances=8, modalities=["instance", "depth"])
        assert batch.depth is not None
        depth = torch.full_like(batch.depth, 2.0)
        depth[1] = nothing
        batch = replace(batch, depth=depth, depth_valid=torch.ones_like(depth, dtype=torch.bool))
        _, report = paste(batch)
        assert not (report.visible_layer[0] >= 0).any()


class TestSourceThatLacksAField:
    """Labels under a paste never stay those of the target."""

    def pasted(self, missing: tuple[str, ...], config: BatchCopyPasteConfig) -> tuple[Any, Tensor]:
        batch = make_batch(max_instances=8)
        source = replace(batch, **dict.fromkeys(missing))
        out, report = paste(batch, config, FromBatch(source))
        shown = report.visible_layer >= 0
        assert shown.any()
        return out, shown

    def test_depth_becomes_invalid(self) -> None:
        out, shown = self.pasted(("depth", "depth_valid"), BatchCopyPasteConfig(placement={"paste_prob": 1.0}))
        assert not out.depth_valid[:, 0][shown].any()
        assert (out.depth[:, 0][shown] == 0).all()

    def test_normals_become_zero(self) -> None:
        out, shown = self.pasted(("normals",), BatchCopyPasteConfig(placement={"paste_prob": 1.0}))
        assert (out.normals.permute(0, 2, 3, 1)[shown] == 0).all()

    def test_semantic_is_the_label_of_a_thing_else_ignore(self) -> None:
        missing = ("semantic_maps", "panoptic_maps")
        out, shown = self.pasted(missing, BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=PANOPTIC))
        assert torch.isin(out.semantic_maps[shown], torch.tensor(THINGS)).all()
        of_row = (out.instance_masks * out.labels[..., None, None]).amax(1)
        assert torch.equal(out.semantic_maps[shown], of_row[shown])
        out, shown = self.pasted(missing, BatchCopyPasteConfig(placement={"paste_prob": 1.0}))
        assert (out.semantic_maps[shown] == 255).all()


class TestTaxonomyTravels:
    def test_config_and_module_are_copied_pickled_hashed(self) -> None:
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=PANOPTIC)
        for twin in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
            assert twin == config
            assert hash(twin) == hash(config)
        batch = make_batch()
        module = BatchCopyPaste(config)
        for twin_module in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert torch.equal(twin_module(batch).images, module(batch).images)

    @pytest.mark.parametrize("wrong", [{"ignore_index": 0}, {"classes": {1: "thing", 255: "stuff"}}])
    def test_only_255_is_ignored(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="255"):
            PanopticTaxonomy(**({"classes": {1: "thing"}} | wrong))


class TestPaddingBeforeThePicture:
    @pytest.mark.parametrize("side", [0, 1])
    def test_is_refused_when_a_batch_is_made(self, side: int) -> None:
        batch = make_batch(padding=(2, 2), modalities=[Modality.INSTANCE])
        assert batch.padding_mask is not None
        mask = batch.padding_mask.clone()
        mask.select(3 - side, 0).fill_(True)
        with pytest.raises(ValueError, match="padding to the right and below only"):
            replace(batch, padding_mask=mask).to_batched().to_padded(8)


class TestScales:
    @pytest.mark.parametrize("edge", [16383, 9999, 641])
    def test_edges_are_exact_where_float32_is_not(self, edge: int) -> None:
        """The edge e goes to ceil(e * scale - 1/2): at scales about those where that turns to the next pixel."""
        turns = [(2 * k + 1) * SCALE_DEN // (2 * edge) for k in range(1, 60 * edge, edge // 50)]
        nums = [turn + step for turn in turns for step in (0, 1)]
        num = torch.tensor(nums)[:, None].expand(-1, 2)
        boxes = geometry.scaled_boxes(torch.full((len(nums), 4), edge), num, torch.full_like(num, SCALE_DEN))
        wanted = [ceil(edge * Fraction(num, SCALE_DEN) - Fraction(1, 2)) for num in nums]
        assert boxes.tolist() == [[want] * 4 for want in wanted]
