"""The tables of differences themselves: a field that differs must be explained, and an explained one must differ."""

from __future__ import annotations

import pytest
import torch
from differences import Differences, Objects, Row

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


BOXES = torch.tensor([[1.0, 1.0], [5.0, 5.0], [5.2, 5.0], [9.0, 9.0]])
LABELS = torch.tensor([[0], [1], [1], [1]])


def rows_of_objects(order: list[int], moved: float) -> list[Row]:
    table = Differences({"box": "why", "label": "why"}, Objects(same=("label",), near="box"))
    table.compare({"label": LABELS, "box": BOXES}, {"label": LABELS[order], "box": BOXES[order] + moved})
    return table.rows()


@pytest.mark.parametrize(
    ("order", "moved", "label", "box"),
    [
        ([0, 2, 3], 0.0625, "1 row of one side, 0", "1 row of one side, 0.0625"),
        ([3, 0, 2, 1], 0.0, "order, 0", "order, 0"),
        ([3, 0, 2, 1], 0.0625, "order, 0", "order, 0.0625"),
        ([3, 2], 0.0, "2 rows of one side, order, 0", "2 rows of one side, order, 0"),
    ],
)
def test_objects_are_compared_with_themselves(order: list[int], moved: float, label: str, box: str) -> None:
    """By label first, then the nearest box, so that a missing row or another order hides no difference."""
    assert {row.field: row.largest for row in rows_of_objects(order, moved)} == {"label": label, "box": box}


def test_a_field_that_is_the_same_in_another_order_is_the_same() -> None:
    table = Differences({"box": "order"}, Objects(same=("label",), near="box"))
    table.compare({"label": LABELS, "box": BOXES}, {"label": LABELS, "box": BOXES[[0, 3, 2, 1]]})
    assert {row.field: row.largest for row in table.rows()} == {"label": "the same", "box": "order, 0"}


def test_the_same_objects_in_the_same_order_differ_in_nothing() -> None:
    table = Differences({}, Objects(same=("label",), near="box"))
    table.compare({"label": LABELS, "box": BOXES}, {"label": LABELS, "box": BOXES})
    assert {row.largest for row in table.rows()} == {"the same"}
