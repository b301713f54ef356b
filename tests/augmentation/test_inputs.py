"""The forward accepts, leaves alone and returns every kind of batch that a loader can produce."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from input_cases import INSTANCE, SMALL, SUBSETS, paste_with

from samples import EVERY_IMAGE, EVERY_OBJECT, SCHEMA, FromBatch, Schema, assert_same, make_batch, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig
from segpaste.types import FIELDS, BatchedDenseSample, Modality


class TestImageDtypes:
    """The range of the values is never guessed: a paste is linear in them."""

    @pytest.mark.parametrize(
        ("dtype", "unit", "tolerance"),
        [
            (torch.float32, 1, 0.51),  # the output of uint8 is rounded
            (torch.float32, 255, 0.51),
            (torch.float16, 1, 0.64),
            (torch.float16, 255, 0.64),
            (torch.bfloat16, 1, 1.01),
            (torch.bfloat16, 255, 2.01),
        ],
    )
    def test_the_same_picture(self, dtype: torch.dtype, unit: int, tolerance: float) -> None:
        batch = make_batch(modalities=INSTANCE)
        expected, report = paste_with(batch)
        out, _ = paste_with(replace(batch, images=(batch.images.float() / unit).to(dtype)))
        assert (report.visible_layer >= 0).sum() > 20
        assert out.images.dtype == dtype
        assert (out.images.float() * unit - expected.images.float()).abs().max() <= tolerance
        assert_same(replace(out, images=expected.images), expected)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
    def test_scaling_by_a_power_of_two_is_exact(self, dtype: torch.dtype) -> None:
        batch = make_batch(modalities=INSTANCE)
        batch = replace(batch, images=(batch.images.float() / 256 + 0.5).to(dtype))
        one, report = paste_with(batch)
        other, _ = paste_with(replace(batch, images=batch.images * 256))
        assert report.num_placed.any()
        assert torch.equal(one.images * 256, other.images)

    @pytest.mark.parametrize("num_channels", [1, 4, 7])
    def test_any_number_of_channels(self, num_channels: int) -> None:
        batch = make_batch(modalities=INSTANCE)
        expected, _ = paste_with(batch)
        images = batch.images[:, :1].repeat(1, num_channels, 1, 1)
        out, _ = paste_with(replace(batch, images=images))
        assert torch.equal(out.images, expected.images[:, :1].expand_as(images))

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_channels_last_stays(self, dtype: torch.dtype) -> None:
        batch = make_batch(image_dtype=dtype)
        expected, report = paste_with(batch)
        last = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        out, _ = paste_with(last)
        assert report.num_placed.any()
        assert out.images.is_contiguous(memory_format=torch.channels_last)
        assert not out.images.is_contiguous()
        assert_same(out, expected)


class TestTheInput:
    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_is_never_changed(self, modalities: frozenset[Modality]) -> None:
        batch = make_batch(modalities=modalities, padding=(1, 2), metric_depth=Modality.DEPTH in modalities)
        copy = batch.clone()
        out, report = paste_with(batch)
        assert_same(batch, copy)
        assert report.num_placed.any() == (Modality.INSTANCE in modalities)
        assert out.modalities == batch.modalities

    def test_shares_nothing_that_was_painted(self) -> None:
        batch = make_batch()
        out, _ = paste_with(batch)
        copy = batch.clone()
        for name in ("images", "instance_masks", "semantic_maps", "panoptic_maps", "depth", "depth_valid", "normals"):
            getattr(out, name).zero_()
        assert_same(batch, copy)


class TestSeeds:
    def test_other_seeds_give_another_placement(self) -> None:
        batch = make_batch()
        assert batch.sample_seeds is not None
        one, other = paste_with(batch)[1], paste_with(replace(batch, sample_seeds=batch.sample_seeds + 1))[1]
        assert not torch.equal(one.placement.scale_num, other.placement.scale_num)

    @pytest.mark.parametrize("with_seeds", [True, False])
    def test_a_generator_draws_them(self, with_seeds: bool) -> None:
        module, batch = (
            BatchCopyPaste(BatchCopyPasteConfig(placement=SMALL, source=EVERY_OBJECT)),
            make_batch(with_seeds=with_seeds),
        )
        before = torch.get_rng_state()
        one, same, other = (module(batch, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
        assert torch.equal(torch.get_rng_state(), before)
        assert_same(one, same)
        assert not torch.equal(one.sample_seeds, other.sample_seeds)
        assert_same(one, module(replace(batch, sample_seeds=one.sample_seeds)))

    def test_without_any_they_come_from_torch(self) -> None:
        module, batch = (
            BatchCopyPaste(BatchCopyPasteConfig(placement=SMALL, source=EVERY_OBJECT)),
            make_batch(with_seeds=False),
        )
        torch.manual_seed(7)
        one, other = module(batch), module(batch)
        torch.manual_seed(7)
        assert_same(module(batch), one)
        assert not torch.equal(one.sample_seeds, other.sample_seeds)
        assert_same(one, module(replace(batch, sample_seeds=one.sample_seeds)))


class TestSlots:
    def test_more_slots_than_the_batch_has(self) -> None:
        batch = make_batch(num_instances=3, max_instances=3, keypoints=True)
        out, report = paste_with(batch, max_instances=8)
        assert out.max_instances == report.slot_layer.shape[1] == 8
        assert report.num_placed.any()
        for field in FIELDS:
            if field.layout == "instance" or field.name == "instance_valid":
                assert getattr(out, field.batched_name).shape[1] == 8

    def test_more_slots_and_nothing_to_paste(self) -> None:
        batch = make_batch(batch_size=1)
        out, _ = paste_with(batch, max_instances=8)
        assert out.instance_valid.tolist() == [[True] * 3 + [False] * 5]
        assert_same(replace(out, **{n: getattr(out, n)[:, :5] for n in ROWS}), batch)

    def test_as_many(self) -> None:
        batch = make_batch()
        assert_same(paste_with(batch, max_instances=5)[0], paste_with(batch)[0])

    def test_fewer_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"max_instances >= the batch's 5 slots, got 4"):
            paste_with(make_batch(), max_instances=4)

    @pytest.mark.parametrize("config", [{"max_instances": None}, {"max_instances": 9}])
    def test_more_than_the_taxonomy_allows(self, config: dict[str, Any]) -> None:
        limit = 4 if config["max_instances"] is None else 8
        schema = Schema(SCHEMA.classes, max_instances_per_image=limit)
        panoptic = PanopticConfig.model_validate({"taxonomy": schema})
        with pytest.raises(ValueError, match=rf"max_instances_per_image={limit}.*got {config['max_instances'] or 5}"):
            paste_with(make_batch(), panoptic=panoptic, **config)


ROWS = ("boxes", "labels", "instance_ids", "instance_masks", "instance_valid")
GATED = {
    "emit_instance": ("instance_masks", "instance_ids"),
    "emit_panoptic": ("panoptic_maps",),
    "emit_depth": ("depth", "depth_valid"),
}


class TestGates:
    @pytest.mark.parametrize("gate", GATED)
    def test_open_and_missing(self, gate: str) -> None:
        batch = make_batch(modalities=[Modality.SEMANTIC, Modality.NORMALS])
        with pytest.raises(ValueError, match=rf"{' and '.join(GATED[gate])}.*{gate}=True.*\['image', 'normals'"):
            paste_with(batch, **{gate: True})

    @pytest.mark.parametrize("gate", GATED)
    def test_open_and_there(self, gate: str) -> None:
        batch = make_batch(metric_depth=True)
        assert_same(paste_with(batch, **{gate: True})[0], paste_with(batch)[0])

    @pytest.mark.parametrize("gate", ["emit_panoptic", "emit_depth"])
    def test_closed_it_plays_no_part(self, gate: str) -> None:
        batch = make_batch(metric_depth=True)
        less = replace(batch, **dict.fromkeys(GATED[gate]), metric_depth=gate != "emit_depth")
        assert_same(paste_with(batch, **{gate: False})[0], paste_with(less)[0])
        if gate == "emit_depth":
            assert not torch.equal(paste_with(batch)[1].visible_layer, paste_with(less)[1].visible_layer)

    def test_closed_for_instances_only_masks_and_ids_are_left_out(self) -> None:
        batch = make_batch()
        out, expected = paste_with(batch, emit_instance=False)[0], paste_with(batch)[0]
        assert_same(out, replace(expected, instance_masks=None, instance_ids=None))


class TestMetricDepth:
    @pytest.mark.parametrize("is_metric", [True, False])
    def test_one_side_only_is_refused(self, is_metric: bool) -> None:
        modalities = {Modality.INSTANCE, Modality.DEPTH}
        target, source = (make_batch(modalities=modalities, metric_depth=m) for m in (is_metric, not is_metric))
        module = BatchCopyPaste(source=FromBatch(source))
        with pytest.raises(ValueError, match=f"one metric_depth.*{is_metric} in the target and {not is_metric}"):
            module(target)

    def test_a_camera_without_the_flag_changes_nothing(self) -> None:
        with_camera, without = (make_batch(camera=c) for c in (True, False))
        out, report = paste_with(with_camera)
        assert report.num_placed.any()
        assert_same(replace(out, camera_intrinsics=None), paste_with(without)[0])


class TestWhatIsNotABatch:
    @pytest.mark.parametrize("form", ["list", "sample", "ragged", "tensor"])
    def test_is_refused_with_the_way_to_one(self, form: str) -> None:
        samples = make_samples(2)
        wrong = {
            "list": samples,
            "sample": samples[0],
            "ragged": BatchedDenseSample.from_samples(samples),
            "tensor": samples[0].image,
        }[form]
        with pytest.raises(TypeError, match=r"expected a PaddedBatchedDenseSample, got .*to_padded"):
            BatchCopyPaste(EVERY_IMAGE)(wrong)


def with_limit(limit: int) -> PanopticConfig:
    taxonomy = {"classes": dict(SCHEMA.classes), "max_instances_per_image": limit}
    return PanopticConfig.model_validate({"taxonomy": taxonomy})


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize(("num_slots", "modalities"), [(5, None), (6, [Modality.INSTANCE, Modality.SEMANTIC])])
def test_as_many_slots_as_the_taxonomy_has_or_more_where_it_plays_no_part(num_slots: int, modalities: Any) -> None:
    options = {} if modalities is None else {"modalities": modalities}
    batch = make_batch(max_instances=num_slots, **options)
    out = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=with_limit(5), source=EVERY_OBJECT)
    )(batch)
    assert out.max_instances == num_slots


def test_drawn_seeds_use_all_64_bits() -> None:
    batch = make_batch(16, max_instances=4, with_seeds=False, modalities=INSTANCE)
    seeds = BatchCopyPaste(EVERY_IMAGE)(batch, torch.Generator().manual_seed(0)).sample_seeds
    assert bool((seeds < 0).any())
    assert bool((seeds > 0).any())


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
def test_the_maps_of_a_batch_without_masks_have_scale_one() -> None:
    _, report = BatchCopyPaste(EVERY_IMAGE)(make_batch(modalities=[]), return_report=True)
    assert (report.placement.scale_num == report.placement.scale_den).all()
