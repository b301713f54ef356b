"""The tables of differences themselves: a field that differs must be explained, and an explained one must differ."""

from __future__ import annotations

import pytest
import torch
from differences import Differences, Row

THEIRS = {"a": torch.tensor([1, 2]), "list": [{"b": torch.zeros(2, 3)}, {"b": torch.zeros(4, 3)}], "theirs": 7}
OURS = {"a": torch.tensor([1, 2]), "list": [{"b": torch.zeros(2, 3)}, {"b": torch.full((4, 3), 2.5e-7)}]}
WHY = {"list.b": "rounding", "theirs": "not ours"}


def test_rows() -> None:
    table = Differences(WHY)
    table.compare(THEIRS, OURS)
    assert table.rows() == [
        Row("a", "int64 [2]", "int64 [2]", "the same", ""),
        Row("list.b", "float32 [*, 3]", "float32 [*, 3]", "< 1e-6", "rounding"),
        Row("theirs", "int64", "–", "–", "not ours"),
    ]


@pytest.mark.parametrize(
    "change",
    [torch.tensor([1, 3]), torch.tensor([1]), torch.tensor([1.0, 2.0]), None],
    ids=["value", "shape", "dtype", "missing"],
)
def test_a_difference_must_be_explained(change: torch.Tensor | None) -> None:
    table = Differences(WHY)
    table.compare(THEIRS, OURS)
    table.compare({"a": torch.tensor([1, 2])}, {} if change is None else {"a": change})
    with pytest.raises(AssertionError, match="Row"):
        table.rows()


def test_an_explained_field_must_differ() -> None:
    table = Differences({**WHY, "a": "no reason"})
    table.compare(THEIRS, OURS)
    with pytest.raises(AssertionError, match="a"):
        table.rows()


def test_the_guide_must_have_the_table() -> None:
    table = Differences(WHY)
    table.compare(THEIRS, OURS)
    with pytest.raises(AssertionError, match=r"docs/guide/torchvision.md lacks the table"):
        table.expect_in_guide("torchvision.md")
