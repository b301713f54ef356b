"""One photo as a batch of one row and back, however large it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from samples import make_sample
from segpaste.seeding import SampleKey
from segpaste.types import BatchedDenseSample, DenseSample, PaddingMask, rows
from segpaste.types.fields import SAMPLE_FIELDS

KEY = SampleKey(1, 2, 0, 0, 5)


@pytest.fixture(params=[0, 1 << 40], ids=["large", "small"])
def sample(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DenseSample:
    monkeypatch.setattr(rows, "_LARGE_BYTES", request.param)
    return make_sample(num_instances=5)


def test_a_row_is_what_padding_gives(sample: DenseSample) -> None:
    expected = BatchedDenseSample.from_samples([sample]).to_padded(7)
    row = rows.one_row(sample, 7, KEY)
    for field in SAMPLE_FIELDS:
        one, other = getattr(row, field.batched_name), getattr(expected, field.batched_name)
        assert (one is None) == (other is None), field.name
        assert one is None or torch.equal(one, other), field.name
    assert torch.equal(row.instance_valid, expected.instance_valid)
    assert row.sample_keys is not None
    assert row.sample_keys.tolist() == [list(KEY)]


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4], [1, 4], [0, 2, 3], []], ids=str)
def test_back_without_empty_slots(sample: DenseSample, kept: list[int]) -> None:
    row = rows.one_row(sample, 7, KEY)
    valid = torch.zeros(1, 7, dtype=torch.bool)
    valid[0, kept] = True
    row = replace(
        row,
        instance_valid=valid,
        **{
            field.batched_name: torch.where(valid.view(1, 7, *[1] * (value.ndim - 2)), value, torch.zeros_like(value))
            for field in SAMPLE_FIELDS
            if field.layout == "instance" and (value := getattr(row, field.batched_name)) is not None
        },
    )
    expected = row.to_batched().to_samples()[0]
    found = rows.row_sample(row)
    for field in SAMPLE_FIELDS:
        one, other = getattr(found, field.name), getattr(expected, field.name)
        assert type(one) is type(other), field.name
        assert one is None or (torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other), field.name


def test_a_row_of_its_own_shares_no_memory_with_the_sample(sample: DenseSample) -> None:
    row, expected = rows.own_row(sample, 7), rows.one_row(sample, 7)
    assert row.sample_seeds is None
    for field in SAMPLE_FIELDS:
        one, other = getattr(row, field.batched_name), getattr(expected, field.batched_name)
        given = getattr(sample, field.name)
        assert (one is None) == (other is None), field.name
        if one is not None:
            assert torch.equal(one, other), field.name
            is_shared = isinstance(given, torch.Tensor) and one.data_ptr() == given.data_ptr()
            assert not is_shared, field.name


def test_padding_on_the_left_is_refused() -> None:
    sample = make_sample(num_instances=2)
    padding = torch.zeros(1, *sample.canvas_size, dtype=torch.bool)
    padding[..., :3] = True
    with pytest.raises(ValueError, match="padding to the right and below only"):
        rows.one_row(replace(sample, padding_mask=PaddingMask(padding)), 2)


def test_slots_that_are_all_kept_are_not_copied() -> None:
    column = torch.arange(6).view(3, 2)
    assert rows.kept_slots(column, torch.tensor([0, 1, 2])) is column
    assert rows.kept_slots(column, torch.tensor([0, 2])).tolist() == [[0, 1], [4, 5]]
