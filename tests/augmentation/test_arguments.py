"""The constructors and the forward reject each argument of the wrong kind and say what to write instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from staged_cases import make_staged

from samples import SCHEMA, make_batch, make_samples
from segpaste import BankSource, BatchCopyPaste, BatchCopyPasteConfig, IntraBatchSource, get_preset
from segpaste.augmentation import PanopticConfig, PlacementConfig, SourceConfig
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

BANK = SourceConfig(kind="bank")
OF_BANK = BatchCopyPasteConfig(source=BANK)
PADDED_FIELDS = (
    *("images", "boxes", "labels", "instance_valid", "instance_ids", "instance_masks", "semantic_maps"),
    *("panoptic_maps", "depth", "depth_valid", "normals", "padding_mask", "camera_intrinsics", "sample_seeds"),
)


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

        with pytest.raises(ValueError, match="expected emit_classmix=True because the source, a Rows, has a"):
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

    @pytest.mark.parametrize("name", ["instance_masks", "instance_valid", "crowd_mask", "padding_mask", "depth_valid"])
    def test_bools_of_other_bytes(self, name: str) -> None:
        """Constructors of batches do not read them; the first call does."""
        batch = make_batch(crowd=True, padding=(1, 2))
        spoiled = batch.derived(**{name: (getattr(batch, name).view(torch.uint8) * 255).view(torch.bool)})
        with pytest.raises(ValueError, match=f"BatchCopyPaste: {name}: expected bool values stored as 0 or 1"):
            BatchCopyPaste()(spoiled)

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


def test_a_batch_without_data() -> None:
    """A model is looked at on the meta device too; in eval mode nothing is pasted, so nothing is read."""
    with pytest.raises(ValueError, match="expected a batch with data, got one on the device meta"):
        BatchCopyPaste()(make_batch(2).to("meta"))
