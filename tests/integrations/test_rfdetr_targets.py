"""Targets of RF-DETR after a paste, without RF-DETR; `tests/trainers` runs its training."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from segpaste.integrations.rfdetr import Form, class_names_of, from_nested, to_nested

FORM = Form(normalized=False)


def loaded() -> tuple[Any, list[dict[str, torch.Tensor]]]:
    """Two images as RF-DETR's loader gives them, with two objects and with none."""
    samples = SimpleNamespace(tensors=torch.rand(2, 3, 12, 16), mask=None, no_padding=True)
    masks = torch.zeros(2, 12, 16, dtype=torch.bool)
    masks[0, 1:4, 2:8] = masks[1, 6:9, 3:5] = True
    boxes = torch.tensor([[2.0, 1, 8, 4], [3, 6, 5, 9]])
    sizes = {"size": torch.tensor([12, 16]), "orig_size": torch.tensor([12, 16])}
    targets = []
    for number, rows in enumerate((slice(2), slice(0))):
        target = {"boxes": boxes[rows], "labels": torch.tensor([3, 5])[rows], "masks": masks[rows]}
        target |= {"area": torch.tensor([18.0, 6.0])[rows], "iscrowd": torch.zeros(2)[rows].long()}
        targets.append({**target, **sizes, "image_id": torch.tensor([number])})
    return samples, targets


def test_unknown_entries_with_a_row_for_each_object_are_left_out_by_name() -> None:
    samples, targets = loaded()
    for target in targets:
        num = len(target["labels"])
        target |= {"keypoints": torch.zeros(num, 4, 3), "scores": torch.zeros(num), "gain": torch.tensor([1.0, 2, 3])}
        target["shift"] = torch.tensor([1.0, 2.0])  # as many as the first image has objects
    batch = from_nested(samples, targets, 4, FORM)
    with pytest.warns(UserWarning, match=r"targets: left out 'keypoints', 'scores', in this and in later batches"):
        _, again = to_nested(batch, samples, targets, FORM)
    for target, own in zip(again, targets, strict=True):
        assert set(own) - set(target) == {"keypoints", "scores"}
        assert torch.equal(target["shift"], own["shift"])


def test_entries_of_one_target_and_lists_are_seen_and_areas_may_lack() -> None:
    samples, targets = loaded()
    targets = [targets[1], targets[0]]
    targets[1] |= {"scores": torch.zeros(2), "names": ["cat", "dog"]}  # type: ignore[dict-item]
    for target in targets:
        del target["area"]
    batch = from_nested(samples, targets, 4, FORM)
    with pytest.warns(UserWarning, match="targets: left out 'names', 'scores'"):
        _, again = to_nested(batch, samples, targets, FORM)
    assert not {"names", "scores"} & set(again[1])
    assert again[1]["area"].tolist() == [18.0, 6.0]


def test_what_rfdetr_gives_is_all_known() -> None:
    """This includes an entry as long as the number of objects, and batches where no image has objects."""
    samples, targets = loaded()
    for given in (targets, [targets[1], targets[1]], [targets[0], targets[0]]):
        batch = from_nested(samples, given, 4, FORM)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _, again = to_nested(batch, samples, given, FORM)
        for target, own in zip(again, given, strict=True):
            assert set(target) == set(own)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (SimpleNamespace(coco=SimpleNamespace(cats={7: {"name": "dog"}, 2: {"name": "cat"}})), ("cat", "dog")),
        (SimpleNamespace(classes=["box", "other"]), ("box", "other")),
        (SimpleNamespace(), None),
    ],
)
def test_names_are_in_the_order_of_our_labels(dataset: Any, expected: tuple[str, ...] | None) -> None:
    assert class_names_of(dataset) == expected
