"""What the constructors and the forward refuse: each argument of the wrong kind, with what to write instead."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from staged_cases import make_staged

from samples import SCHEMA, assert_same, make_batch, make_samples
from segpaste import BankSource, BatchCopyPaste, BatchCopyPasteConfig, IntraBatchSource, get_preset, stage_bank_batch
from segpaste.augmentation import PanopticConfig, PlacementConfig, SourceConfig
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

BANK = SourceConfig(kind="bank")
OF_BANK = BatchCopyPasteConfig(source=BANK)
PADDED_FIELDS = (
    *("images", "boxes", "labels", "instance_valid", "instance_ids", "instance_masks", "semantic_maps"),
    *("panoptic_maps", "depth", "depth_valid", "normals", "padding_mask", "camera_intrinsics", "sample_seeds"),
)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small_bank(tmp_path_factory.mktemp("arguments") / "bank", [1, 2, 3, 1, 1, 2, 1, 1], surfaces=True)


class TestTheConstructor:
    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ({}, r"got dict {}; make one with BatchCopyPasteConfig\.model_validate\(values\)"),
            ({"max_instances": 3}, r"got dict .*BatchCopyPasteConfig\.model_validate"),
            ("paste.yaml", r"got str 'paste\.yaml'; read a file with BatchCopyPasteConfig\.load\(path\)"),
            (Path("paste.yaml"), r"BatchCopyPasteConfig\.load"),
            (PlacementConfig(), r"got PlacementConfig; give BatchCopyPasteConfig\(placement=\.\.\.\)"),
            (BANK, r"got SourceConfig; give BatchCopyPasteConfig\(source=\.\.\.\)"),
            (get_preset("classmix"), "got Preset; give its config attribute"),
            (BatchCopyPasteConfig, "got ModelMetaclass"),
            (0, "got int 0"),
            (False, "got bool False"),
        ],
        ids=repr,
    )
    def test_config(self, config: Any, words: str) -> None:
        with pytest.raises(TypeError, match=f"BatchCopyPaste: expected config to be a BatchCopyPasteConfig .*{words}"):
            BatchCopyPaste(config)

    def test_panoptic_config_as_config(self) -> None:
        with pytest.raises(TypeError, match=r"give BatchCopyPasteConfig\(panoptic=\.\.\.\)"):
            BatchCopyPaste(PanopticConfig.model_validate({"taxonomy": SCHEMA}))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("x", "got str 'x'"),
            ("", "got str ''"),
            (0, "got int 0"),
            (BANK, r"got SourceConfig; give BatchCopyPasteConfig\(source=\.\.\.\) as config"),
            (IntraBatchSource, r"make an object: IntraBatchSource\(\.\.\.\)"),
        ],
        ids=repr,
    )
    def test_source(self, source: Any, words: str) -> None:
        with pytest.raises(TypeError, match=f"BatchCopyPaste: expected source to be a SourceStrategy.*{words}"):
            BatchCopyPaste(source=source)

    def test_a_source_of_another_kind_than_the_config(self) -> None:
        with pytest.raises(ValueError, match="expected the BankSource to have the config's source"):
            BatchCopyPaste(source=BankSource(BANK))
        with pytest.raises(ValueError, match="expected the BankSource to have the config's source"):
            BatchCopyPaste(OF_BANK, BankSource(SourceConfig(kind="bank", crops_per_target=2)))
        with pytest.raises(ValueError, match=r"expected source\.kind='intra_batch'.* got 'bank'"):
            BatchCopyPaste(OF_BANK, IntraBatchSource())
        assert BatchCopyPaste(OF_BANK, BankSource(BANK)).config is OF_BANK

    def test_a_source_that_only_names_rows(self) -> None:
        class Rows:
            rows = IntraBatchSource.rows

        with pytest.raises(ValueError, match="expected emit_classmix=True because the source, a Rows, only names"):
            BatchCopyPaste(source=Rows())  # type: ignore[arg-type]
        assert BatchCopyPaste(BatchCopyPasteConfig(emit_classmix=True), Rows())  # type: ignore[arg-type]

    @pytest.mark.parametrize("inplace", ["no", 1, None])
    def test_inplace(self, inplace: Any) -> None:
        with pytest.raises(TypeError, match="expected inplace to be True or False, got"):
            BatchCopyPaste(inplace=inplace)


class TestTheForward:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"generator": 5},
                r"expected generator to be a torch\.Generator or None, got int 5; give torch\.Generator",
            ),
            ({"generator": np.random.default_rng(5)}, r"expected generator .* got Generator"),
            ({"return_report": "yes"}, "expected return_report to be True or False, got str 'yes'"),
            ({"return_report": 1}, "expected return_report"),
            (
                {"staged": torch.zeros(3, 1, 5, 4, 4)},
                r"expected staged to be StagedCrops .* got Tensor; .*stage_bank_batch",
            ),
        ],
        ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
    )
    @pytest.mark.parametrize("config", [BatchCopyPasteConfig(), OF_BANK], ids=["rows", "bank"])
    def test_an_argument_of_another_class(self, config: BatchCopyPasteConfig, options: Any, words: str) -> None:
        with pytest.raises(TypeError, match=f"BatchCopyPaste: {words}"):
            BatchCopyPaste(config)(make_batch(), **options)

    @pytest.mark.parametrize("emit_classmix", [False, True])
    def test_crops_that_nothing_would_read(self, emit_classmix: bool) -> None:
        module = BatchCopyPaste(BatchCopyPasteConfig(emit_classmix=emit_classmix))
        with pytest.raises(ValueError, match=r"expected source\.kind='bank' because staged crops are given"):
            module(make_batch(), staged=make_staged(3, 1))

    def test_crops_for_a_source_of_ones_own(self) -> None:
        class Own(IntraBatchSource):
            pass

        class Reader:
            def sample(self, target: Any, eligible: Any, request: Any) -> Any:
                assert request.staged is not None
                return IntraBatchSource().sample(target, eligible, request)

        BatchCopyPaste(source=Reader())(make_batch(), staged=make_staged(3, 1))
        with pytest.raises(ValueError, match="staged crops are given"):
            BatchCopyPaste(source=Own())(make_batch(), staged=make_staged(3, 1))

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"loader": 5}, TypeError, "expected loader to yield batches, got int 5"),
            ({"loader": make_batch()}, TypeError, "expected loader to yield batches, got PaddedBatchedDenseSample"),
            ({"max_instances": "3"}, TypeError, "max_instances: expected an integer, got str '3'"),
            ({"max_instances": 2.0}, TypeError, "max_instances: expected an integer"),
            ({"max_instances": True}, TypeError, "max_instances: expected an integer"),
            ({"max_instances": -1}, ValueError, "max_instances: expected at least 0, got -1"),
            ({"device": 1.5}, TypeError, "expected device to be"),
            ({"device": "gpu"}, ValueError, "expected a device such as 'cuda:0', got 'gpu'"),
            ({"source_pool": 5}, TypeError, "expected source_pool to be a bank"),
            ({"config": {}}, TypeError, "expected config to be"),
            ({"inplace": "yes"}, TypeError, "expected inplace to be"),
        ],
        ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
    )
    def test_from_dataloader(self, options: Any, error: type[Exception], words: str) -> None:
        arguments = {"loader": [make_batch()], "max_instances": 5, **options}
        with pytest.raises(error, match=words):
            BatchCopyPaste.from_dataloader(**arguments)


class TestWhatTheDocumentsWrite:
    def test_a_bank_as_the_source_pool(self, bank: Any) -> None:
        """Crops are drawn by the seed of their target alone: not by its place, nor by what was drawn before."""
        augment = BatchCopyPaste(source_pool=bank)
        assert augment.config == OF_BANK
        batch = make_batch(4, num_instances=1, modalities={Modality.INSTANCE, Modality.DEPTH, Modality.NORMALS})
        out, report = augment(batch, return_report=True)
        assert report.num_placed.any()
        assert augment.crops is not None
        staged = augment.crops.staged(out.sample_seeds)
        assert_same(BatchCopyPaste(OF_BANK)(batch, staged=staged), out)
        backwards = augment(batch.map_tensors(lambda t: t.flip(0)))
        assert_same(backwards.map_tensors(lambda t: t.flip(0)), out)
        assert_same(pickle.loads(pickle.dumps(augment))(batch), copy.deepcopy(augment)(batch))

    def test_every_class_is_drawn(self, bank: Any) -> None:
        """By its repeat factor, which for so few classes is its share."""
        crops = BatchCopyPaste(
            BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=4)), source_pool=bank
        ).crops
        assert crops is not None
        drawn = crops.staged(torch.arange(500)).class_ids
        assert drawn.shape == (500, 4)
        shares = torch.bincount(drawn.flatten(), minlength=4) / drawn.numel()
        assert torch.allclose(shares, torch.tensor([0, 5 / 8, 2 / 8, 1 / 8]), atol=0.03)
        assert crops.staged(torch.zeros(0, dtype=torch.int64)).batch_size == 0

    def test_given_crops_come_before_the_pool(self, bank: Any) -> None:
        batch, staged = make_batch(2, modalities={Modality.INSTANCE}), stage_bank_batch(bank, [[0], [3]])
        assert_same(
            BatchCopyPaste(source_pool=bank)(batch, staged=staged), BatchCopyPaste(OF_BANK)(batch, staged=staged)
        )

    def test_compiled_code_reads_no_bank(self, bank: Any) -> None:
        step = torch.compile(BatchCopyPaste(source_pool=bank), fullgraph=True, backend="eager")
        with pytest.raises(RuntimeError, match=r"expected staged crops in compiled code.*augment\.crops\.staged"):
            step(make_batch(modalities={Modality.INSTANCE}))

    def test_a_bank_in_the_place_of_something_else(self, bank: Any) -> None:
        with pytest.raises(
            TypeError, match=r"expected source to be .* got MemmapBank.*; give the bank as source_pool=bank"
        ):
            BatchCopyPaste(OF_BANK, bank)
        with pytest.raises(TypeError, match=r"expected config to be .*; give the bank as source_pool=bank"):
            BatchCopyPaste(bank)
        with pytest.raises(TypeError, match=r"BankSource: expected a SourceConfig, got MemmapBank; write BatchCopy"):
            BankSource(bank)
        with pytest.raises(
            TypeError, match=r"BankSource: expected a SourceConfig, got dict; give SourceConfig\(kind='bank"
        ):
            BankSource({})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"expected source\.kind='bank' because source_pool is given"):
            BatchCopyPaste(BatchCopyPasteConfig(), source_pool=bank)
        for wrong in ("bank", [1], make_staged(1, 1)):
            with pytest.raises(TypeError, match=r"expected source_pool to be a bank, got .*open_bank\(path\)"):
                BatchCopyPaste(source_pool=wrong)  # type: ignore[arg-type]

    def test_modalities_of_the_class(self) -> None:
        assert BatchCopyPaste.read_modalities == {Modality.IMAGE}
        assert BatchCopyPaste.write_modalities == set(Modality)
        module = BatchCopyPaste(BatchCopyPasteConfig(emit_instance=True, emit_depth=False))
        assert module.read_modalities == {Modality.IMAGE, Modality.INSTANCE}
        assert module.write_modalities == set(Modality) - {Modality.DEPTH}
        assert BatchCopyPaste.read_modalities == {Modality.IMAGE}

    @pytest.mark.parametrize(
        ("key", "place"),
        [
            ("max_attempts", "placement.max_attempts"),
            ("scale_range", "placement.scale_range"),
            ("scale_rage", "placement.scale_range"),
            ("mask_from", "source.mask_from"),
            ("taxonomy", "panoptic.taxonomy"),
            ("min_area", "min_area_px"),
        ],
    )
    def test_a_key_on_another_level(self, key: str, place: str) -> None:
        with pytest.raises(ValidationError, match=rf"got '{key}'; the nearest is '{place}'"):
            BatchCopyPasteConfig.model_validate({key: 3})

    @pytest.mark.parametrize("key", ["inplace", "source_pool"])
    def test_an_argument_of_the_module_as_a_key(self, key: str) -> None:
        with pytest.raises(
            ValidationError, match=f"got '{key}', which is an argument of the module: .*{key}="
        ) as caught:
            BatchCopyPasteConfig.model_validate({key: 3})
        assert "nearest" not in str(caught.value)

    @pytest.mark.parametrize("loader", [{}, {"images": 3}, "x", 5])
    def test_loaders_of_nothing(self, loader: Any) -> None:
        with pytest.raises(TypeError, match="from_dataloader: expected loader to yield batches, got"):
            BatchCopyPaste.from_dataloader(loader, 8)

    @pytest.mark.parametrize("pool", [[1], (1, 2), {}, {"bank": 3}, 5])
    def test_pools_of_nothing(self, pool: Any) -> None:
        with pytest.raises(
            TypeError, match=r"expected source_pool to be a bank or a loader of staged crops, got .*open_"
        ):
            BatchCopyPaste.from_dataloader([make_batch()], 5, source_pool=pool)
        assert BatchCopyPaste.from_dataloader([make_batch()], 5, source_pool=[make_staged(3, 1)]) is not None


class TestConfigValues:
    @pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
    def test_numbers_that_are_not_finite(self, value: float) -> None:
        places: list[dict[str, Any]] = [
            {"source": {"kind": "bank", "value_range": value}},
            {"placement": {"scale_range": (1, value)}},
            {"placement": {"paste_prob": value}},
            {"placement": {"grouping": "instance", "size_range": {"low": 1, "high": value}}},
            {"harmonize": {"max_gain": value}},
            {"max_hidden_frac": value},
            {"max_instances": value},
        ]
        for values in places:
            with pytest.raises(ValidationError):
                BatchCopyPasteConfig.model_validate(values)

    @pytest.mark.parametrize("value", [1e39, 3.4e38, 2e9, 1e-50, 9e-7])
    def test_a_white_that_float32_does_not_hold(self, value: float) -> None:
        with pytest.raises(
            ValidationError, match=r"value_range\n.*expected the value of white from 1e-6 to 1e9, .*got"
        ):
            SourceConfig(kind="bank", value_range=value)

    @pytest.mark.parametrize("white", [1e-6, 1.0, 65535.0, 1e9])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_a_white_that_half_images_do_not_hold(self, dtype: torch.dtype, white: float) -> None:
        """What is accepted comes out finite, and not black."""
        taxonomy = {"taxonomy": {"classes": {i: "thing" for i in range(256) if i != 255}}}
        source = SourceConfig(kind="bank", value_range=white)
        module = BatchCopyPaste(BatchCopyPasteConfig.model_validate({"source": source, "panoptic": taxonomy}))
        batch, staged = make_batch(image_dtype=dtype, modalities=["instance"]), make_staged(3, 1)
        if dtype == torch.float16 and not 1e-4 < white < 65504:
            message = (
                r"expected source\.value_range from 6\.104e-05 to 6\.55e\+04, for the images are torch\.float16, got"
            )
            with pytest.raises(ValueError, match=message):
                module(batch, staged=staged)
            return
        batch = batch.derived(images=torch.zeros_like(batch.images))
        out, report = module(batch, staged=staged, return_report=True)
        assert int(report.num_placed.sum()) > 0
        assert bool(out.images.isfinite().all())
        assert white / 10 < float(out.images.max()) <= white * 1.01

    def test_a_switch_for_a_number(self) -> None:
        places: list[dict[str, Any]] = [
            {"max_instances": True},
            {"min_residual_area_frac": False},
            {"placement": {"layers": True}},
            {"placement": {"scale_range": [True, 2]}},
            {"placement": {"grouping": "instance", "size_range": {"low": True, "high": 2}}},
            {"source": {"kind": "bank", "value_range": True}},
            {"harmonize": {"pyramid_levels": True}},
            {"panoptic": {"taxonomy": {"classes": {True: "thing"}}}},
            {"panoptic": {"taxonomy": {"classes": {1: "thing"}}, "contact_priority": {1: True}}},
        ]
        for values in places:
            with pytest.raises(ValidationError, match="expected no True or False, got"):
                BatchCopyPasteConfig.model_validate(values)
        assert BatchCopyPasteConfig(emit_depth=True, antialias=False).emit_depth is True


class TestContainers:
    @pytest.mark.parametrize("name", PADDED_FIELDS)
    def test_a_padded_batch_of_something_else_than_tensors(self, name: str) -> None:
        batch = make_batch(metric_depth=True, padding=(1, 1))
        value = getattr(batch, name)
        for wrong in (value.numpy(), value.tolist(), 5, "x"):
            with pytest.raises(TypeError, match=rf"PaddedBatchedDenseSample\.{name}: expected a torch\.Tensor, got"):
                replace(batch, **{name: wrong})

    def test_no_images(self) -> None:
        with pytest.raises(ValueError, match=r"PaddedBatchedDenseSample\.image: expected a value, got None"):
            replace(make_batch(), images=None)

    def test_a_padded_batch_whose_flag_is_none(self) -> None:
        with pytest.raises(TypeError, match=r"metric_depth: expected bool, got str 'no'"):
            replace(make_batch(metric_depth=True), metric_depth="no")

    @pytest.mark.parametrize("name", ["boxes", "labels", "instance_ids", "instance_masks", "camera_intrinsics"])
    def test_a_ragged_batch_of_one_tensor_for_all_images(self, name: str) -> None:
        samples = make_samples(2, num_instances=2, metric_depth=True)
        batch = BatchedDenseSample.from_samples(samples)
        column = getattr(batch, name)
        stacked = torch.zeros(2, 4) if name == "camera_intrinsics" else torch.stack([*column])
        for wrong in (stacked, np.zeros(2), 5):
            with pytest.raises(TypeError, match=rf"BatchedDenseSample\.{name}: expected a list of 2 entries, one per"):
                replace(batch, **{name: wrong})
        with pytest.raises(ValueError, match=rf"BatchedDenseSample\.{name}: expected a list of 2 entries.*got 1"):
            replace(batch, **{name: column[:1]})
        if name == "camera_intrinsics":
            with pytest.raises(TypeError, match=r"camera_intrinsics\[1\]: expected CameraIntrinsics, got Tensor"):
                replace(batch, camera_intrinsics=[column[0], column[1].to_tensor()])

    @pytest.mark.parametrize("slots", ["3", 3.0, True, None])
    def test_slots(self, slots: Any) -> None:
        with pytest.raises(TypeError, match="to_padded: max_instances: expected an integer, got"):
            BatchedDenseSample.from_samples(make_samples(2)).to_padded(slots)

    @pytest.mark.parametrize("name", ["image", "boxes", "labels", "instance_masks", "depth"])
    def test_a_sample_of_arrays(self, name: str) -> None:
        sample = make_samples(1)[0]
        with pytest.raises(TypeError, match=rf"DenseSample\.{name}: expected a torch\.Tensor, got ndarray; convert it"):
            replace(sample, **{name: getattr(sample, name).numpy()})
        assert isinstance(sample, DenseSample)

    @pytest.mark.parametrize("name", ["images", "alphas", "class_ids", "boxes", "crop_idx", "scales", "depth"])
    def test_staged_crops_of_arrays(self, name: str) -> None:
        staged = make_staged(2, 1, with_surfaces=True)
        for wrong in (getattr(staged, name).numpy(), getattr(staged, name).tolist()):
            with pytest.raises(TypeError, match=rf"StagedCrops\.{name}: expected Tensor, got"):
                replace(staged, **{name: wrong})
        if name != "scales":
            with pytest.raises(ValueError, match=name):
                replace(staged, **{name: None})

    def test_pytree_functions_still_put_anything_in_the_place_of_tensors(self) -> None:
        for container in (make_batch(metric_depth=True), make_staged(1, 1)):
            for placeholder in (None, (1, 2), torch.uint8):
                mapped = torch.utils._pytree.tree_map_only(torch.Tensor, lambda _, p=placeholder: p, container)
                assert mapped.images == placeholder


class TestCameras:
    @pytest.mark.parametrize("value", [float("nan"), 0.0, -3.0, float("inf"), float("-inf")])
    @pytest.mark.parametrize("place", range(4))
    def test_of_a_padded_batch(self, place: int, value: float) -> None:
        batch = make_batch(metric_depth=True)
        cameras = batch.camera_intrinsics.clone()  # type: ignore[union-attr]
        cameras[1, place] = value
        if place > 1 and value in (0.0, -3.0):  # a principal point may lie anywhere
            assert replace(batch, camera_intrinsics=cameras).camera_intrinsics is cameras
            return
        message = (
            r"PaddedBatchedDenseSample\.camera_intrinsics\[1\]: expected finite numbers .* focal lengths > 0 px, got"
        )
        with pytest.raises(ValueError, match=message):
            replace(batch, camera_intrinsics=cameras)

    def test_of_no_image(self) -> None:
        assert make_batch(0, metric_depth=True).batch_size == 0
        assert isinstance(make_batch(0), PaddedBatchedDenseSample)
