"""One photo as a batch of one row and back, however large it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from samples import make_sample
from segpaste.replay import rows
from segpaste.seeding import SampleKey
from segpaste.types import BatchedDenseSample, DenseSample
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
