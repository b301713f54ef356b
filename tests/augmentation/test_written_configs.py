"""Configs as the documents write them, and values that they refuse."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from staged_cases import make_staged

from samples import assert_same, make_batch
from segpaste import BankSource, BatchCopyPaste, BatchCopyPasteConfig, stage_bank_batch
from segpaste.augmentation import SourceConfig
from segpaste.types import Modality
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

    @pytest.mark.parametrize(
        "given",
        [{}, {"placement": {"paste_prob": 1.0}}, {"source": {"whole_only": False}, "min_area_px": 3}],
    )
    def test_a_pool_turns_the_kind_of_the_batch_into_bank(
        self, bank: Any, tmp_path: Path, given: dict[str, Any]
    ) -> None:
        config = BatchCopyPasteConfig.model_validate(given)
        wanted = BatchCopyPasteConfig.model_validate({**given, "source": {**given.get("source", {}), "kind": "bank"}})
        assert BatchCopyPaste(config, source_pool=bank).config == wanted
        pasting = BatchCopyPaste.from_dataloader([make_batch(2)], 5, config, source_pool=bank)
        assert isinstance(pasting.augment, BatchCopyPaste)
        assert pasting.augment.config == wanted
        assert config.source.kind == "intra_batch"
        assert BatchCopyPaste(config).config == config
        config.save(tmp_path / "paste.yaml")  # writes every key, so this file sets the kind
        assert BatchCopyPaste(BatchCopyPasteConfig.load(tmp_path / "paste.yaml"), source_pool=bank).config == wanted

    def test_layers_become_crops_of_a_pool(self, bank: Any) -> None:
        config = BatchCopyPasteConfig(placement={"layers": 3})
        for made in (
            BatchCopyPaste(config, source_pool=bank),
            BatchCopyPaste.from_dataloader([], 5, config, source_pool=bank).augment,
        ):
            assert isinstance(made, BatchCopyPaste)
            assert (made.config.source.crops_per_target, made.config.placement.layers) == (3, 1)

    def test_every_class_is_drawn(self, bank: Any) -> None:
        """Classes are drawn by repeat factor, whose threshold is the mean share of the three classes."""
        crops = BatchCopyPaste(
            BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=4)), source_pool=bank
        ).crops
        assert crops is not None
        drawn = crops.staged(torch.arange(500)).class_ids
        assert drawn.shape == (500, 4)
        weights = [share * max(1, math.sqrt(1 / 3 / share)) for share in (5 / 8, 2 / 8, 1 / 8)]
        expected = [weight / sum(weights) for weight in weights]
        shares = torch.bincount(drawn.flatten(), minlength=4) / drawn.numel()
        assert torch.allclose(shares, torch.tensor([0, *expected]), atol=0.03)
        assert crops.staged(torch.zeros(0, dtype=torch.int64)).batch_size == 0

    def test_given_crops_come_before_the_pool(self, bank: Any) -> None:
        batch, staged = make_batch(2, modalities={Modality.INSTANCE}), stage_bank_batch(bank, [[0], [3]])
        assert_same(
            BatchCopyPaste(source_pool=bank)(batch, staged=staged), BatchCopyPaste(OF_BANK)(batch, staged=staged)
        )

    def test_compiled_code_reads_no_bank(self, bank: Any) -> None:
        step = torch.compile(BatchCopyPaste(source_pool=bank), fullgraph=True, backend="eager")
        with pytest.raises(RuntimeError, match=r"a bank is not read in compiled code.*augment\.crops\.staged"):
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
        with pytest.raises(ValueError, match=r"expected source\.kind='bank' because source_pool is given, .*; leave"):
            BatchCopyPaste(BatchCopyPasteConfig(source=SourceConfig(kind="same_image")), source_pool=bank)
        for wrong in ("bank", [1], make_staged(1, 1)):
            with pytest.raises(
                TypeError, match=r"expected source_pool to be a bank or a dataset, got .*open_bank\(path\)"
            ):
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
            TypeError, match=r"expected source_pool to be a bank, a dataset or a loader of staged crops, got .*open_"
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
        with pytest.raises(ValidationError, match=r"value_range\n.*expected a value of white from 1e-6 to 1e9, .*got"):
            SourceConfig(kind="bank", value_range=value)

    @pytest.mark.parametrize("white", [1e-6, 1.0, 65535.0, 1e9])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_a_white_that_half_images_do_not_hold(self, dtype: torch.dtype, white: float) -> None:
        """An accepted value gives finite images that are not black."""
        taxonomy = {"taxonomy": {"classes": {i: "thing" for i in range(256) if i != 255}}}
        source = SourceConfig(kind="bank", value_range=white)
        module = BatchCopyPaste(BatchCopyPasteConfig.model_validate({"source": source, "panoptic": taxonomy}))
        batch, staged = make_batch(image_dtype=dtype, modalities=["instance"]), make_staged(3, 1)
        if dtype == torch.float16 and not 1e-4 < white < 65504:
            message = (
                r"expected source\.value_range from 6\.104e-05 to 6\.55e\+04, since the images are torch\.float16, got"
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
            with pytest.raises(ValidationError, match=r"expected (a number|numbers), got"):
                BatchCopyPasteConfig.model_validate(values)
        assert BatchCopyPasteConfig(emit_depth=True, antialias=False).emit_depth is True
