"""Pytree functions, by path too, and torch.export see the tensors of every record and nothing else."""

from __future__ import annotations

import dataclasses
import io
import warnings
from typing import Any

import pytest
import torch
from record_cases import FULL, RECORDS, make_records
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from samples import EVERY_IMAGE, OPTIONAL, assert_same, make_batch, make_sample
from segpaste import BatchCopyPaste
from segpaste.types import CameraIntrinsics, DenseSample, PaddedBatchedDenseSample


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    return make_records()


def fields_of(record: Any) -> list[str]:
    """Return the paths of its tensors, in order."""
    found = []
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if isinstance(value, (Tensor, CameraIntrinsics)):
            found.append(f"['{item.name}']")
        elif isinstance(value, list):
            found += [f"['{item.name}'][{index}]" for index in range(len(value))]
        elif dataclasses.is_dataclass(value):
            found += [f"['{item.name}']{path}" for path in fields_of(value)]
    return found


@pytest.mark.parametrize("name", RECORDS)
class TestPaths:
    def test_name_every_tensor(self, records: dict[str, Any], name: str) -> None:
        pairs, spec = pytree.tree_flatten_with_path({"x": records[name]})
        assert [pytree.keystr(path) for path, _ in pairs] == [f"['x']{p}" for p in fields_of(records[name])]
        leaves, plain_spec = pytree.tree_flatten({"x": records[name]})
        assert spec == plain_spec
        assert all(isinstance(leaf, Tensor) for leaf in leaves)
        for one, (_, other) in zip(leaves, pairs, strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())

    def test_map_changes_the_named_tensor_only(self, records: dict[str, Any], name: str) -> None:
        record = records[name]
        (first, *others) = fields_of(record)

        def change(path: Any, tensor: Tensor) -> Tensor:
            return tensor.clone().add_(1) if pytree.keystr(path) == first else tensor

        changed = pytree.tree_map_with_path(change, record)
        assert type(changed) is type(record)
        before, after = pytree.tree_leaves(record), pytree.tree_leaves(changed)
        assert torch.equal(after[0], before[0] + 1)
        assert len(before) == len(others) + 1
        for one, other in zip(before[1:], after[1:], strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())
        for item in dataclasses.fields(record):
            value = getattr(record, item.name)
            if not isinstance(value, (Tensor, list)) and not dataclasses.is_dataclass(value):
                assert getattr(changed, item.name) == value

    def test_the_structure_survives_json(self, records: dict[str, Any], name: str) -> None:
        leaves, spec = pytree.tree_flatten(records[name])
        loaded = pytree.treespec_loads(pytree.treespec_dumps(spec))
        assert loaded == spec
        assert type(pytree.tree_unflatten(leaves, loaded)) is type(records[name])


class Darker(nn.Module):
    """Takes a batch and a number, gives a batch and a tensor."""

    def forward(self, batch: PaddedBatchedDenseSample, by: int) -> tuple[PaddedBatchedDenseSample, Tensor]:
        return batch.derived(images=batch.images // by), batch.boxes.mean()


@pytest.mark.parametrize("strict", [False, True])
class TestExport:
    @pytest.mark.parametrize("modalities", [OPTIONAL, []], ids=["all", "none"])
    def test_of_a_module_that_takes_a_batch(self, strict: bool, modalities: Any) -> None:
        batch = make_batch(modalities=modalities, **FULL)
        program = torch.export.export(Darker(), (batch, 2), strict=strict)
        for seed in range(2):
            other = make_batch(modalities=modalities, seed=seed, **FULL)
            (out, mean), (expected, expected_mean) = program.module()(other, 2), Darker()(other, 2)
            assert_same(out, expected)
            assert torch.equal(mean, expected_mean)

    def test_of_the_paste(self, strict: bool) -> None:
        module = BatchCopyPaste(EVERY_IMAGE)
        program = torch.export.export(module, (make_batch(**FULL),), strict=strict)
        for seed in range(3):
            batch = make_batch(seed=seed, **FULL)
            assert_same(program.module()(batch), module(batch))
        assert not torch.equal(module(batch).images, batch.images)

    def test_of_the_paste_without_seeds_draws_anew(self, strict: bool) -> None:
        batch = make_batch(8, with_seeds=False)
        program = torch.export.export(BatchCopyPaste(EVERY_IMAGE), (batch,), strict=strict).module()
        assert len({tuple(program(batch).images.flatten().tolist()) for _ in range(3)}) == 3


def test_an_exported_program_is_saved_and_loaded() -> None:
    batch, file = make_batch(**FULL), io.BytesIO()
    torch.export.save(torch.export.export(Darker(), (batch, 2)), file)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = torch.export.load(file)
    assert_same(program.module()(batch, 2)[0], Darker()(batch, 2)[0])


def test_batches_and_samples_load_as_weights_only() -> None:
    for record in (make_batch(**FULL), BatchCopyPaste(EVERY_IMAGE)(make_batch(), return_report=True)[1].placement):
        file = io.BytesIO()
        torch.save(record, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
        assert type(loaded) is type(record)
        for one, other in zip(pytree.tree_leaves(record), pytree.tree_leaves(loaded), strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())


def test_a_sample_survives_a_map_over_two() -> None:
    one, other = (make_sample(seed=seed, camera=True) for seed in range(2))
    added = pytree.tree_map(lambda a, b: torch.maximum(a, b) if type(a) is Tensor else a, one, other)
    assert isinstance(added, DenseSample)
    assert torch.equal(added.labels, torch.maximum(one.labels, other.labels))
