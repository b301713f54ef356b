"""`segpaste.experimental.CopyPaste` after pipelines of AlbumentationsX, and before the rest of them."""

from __future__ import annotations

from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from albumentations.core import bbox_utils
from albumentations.pytorch import ToTensorV2
from torch.utils.data import DataLoader, Dataset

from coded_pastes import IDS, Photo, Row, box_of, coded_bank, coded_config, coded_photo, expect_true
from segpaste.bank import MemmapBank
from segpaste.experimental import CopyPaste
from segpaste.viz import show

FORMATS = ("pascal_voc", "coco", "cxcywh", "albumentations", "yolo")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return coded_bank(tmp_path_factory.mktemp("coded") / "bank")


def arrays_of(photo: Photo) -> dict[str, Any]:
    masks = np.array([row.mask for row in photo.rows], np.uint8).reshape(-1, *photo.pixels.shape[:2])
    return {"image": photo.pixels, "masks": masks, "labels": [row.label for row in photo.rows]}


def photo_of(data: dict[str, Any]) -> Photo:
    """The photo that a pipeline returned; objects without a pixel have no row after a paste, whatever is pasted."""
    rows = [Row(label, mask != 0) for label, mask in zip(data["labels"], data["masks"], strict=True)]
    return Photo(data["image"], [row for row in rows if row.mask.any()])


def expect_arrays_true(photo: Photo, out: dict[str, Any], boxes: Any) -> int:
    return expect_true(photo, out["image"], list(out["labels"]), boxes, out["masks"] != 0, ids=IDS)


@pytest.mark.parametrize("index", range(6))
def test_after_geometry_without_boxes(index: int, bank: MemmapBank) -> None:
    """Boxes are made of the masks, also where a crop has cut off objects."""
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format="pascal_voc")
    geometry = A.Compose([A.RandomCrop(30, 40), A.HorizontalFlip(), A.RandomBrightnessContrast()], seed=index)
    num_pasted, num_cut_off = 0, 0
    for seed in range(8):
        moved = geometry(**arrays_of(coded_photo(index)))
        moved["image"] = moved["image"].clip(max=199)  # brighter pixels would count as pasted
        photo = photo_of(moved)
        torch.manual_seed(seed)
        out = paste(moved)
        num_pasted += expect_arrays_true(photo, out, out["bboxes"])
        num_cut_off += len(moved["labels"]) - len(photo.rows)
    assert num_pasted >= 8
    assert num_cut_off > 0 or index in (3, 4)  # small images, or none with objects


@pytest.mark.parametrize("name", FORMATS)
def test_after_and_before_pipelines_with_boxes(name: str, bank: MemmapBank) -> None:
    params = A.BboxParams(coord_format=name, label_fields=["labels"])
    first = A.Compose([A.HorizontalFlip(p=1.0), A.Transpose(p=1.0)], bbox_params=params, seed=0)
    last = A.Compose([A.HorizontalFlip(p=1.0), A.Normalize(), ToTensorV2()], bbox_params=params, seed=0)
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format=name), coded_photo(1)
    boxes = np.array([box_of(row.mask) for row in photo.rows], np.float32)
    given = {**arrays_of(photo), "bboxes": converted(boxes, "pascal_voc", name, photo.pixels.shape[:2])}
    moved = first(**given)
    torch.manual_seed(0)
    out = paste(moved)
    size = out["image"].shape[:2]
    corners = converted(out["bboxes"], name, "pascal_voc", size).round(3)
    assert expect_arrays_true(photo_of(moved), out, corners) == 2
    assert {key: type(value) for key, value in out.items()} == {key: type(value) for key, value in moved.items()}
    done = last(**out)
    assert done["image"].shape == (3, *size)
    assert len(done["bboxes"]) == len(done["masks"]) == len(out["labels"])
    for box, mask in zip(converted(done["bboxes"], name, "pascal_voc", size), done["masks"], strict=True):
        assert box.round(3).tolist() == box_of(np.asarray(mask) != 0)


def converted(boxes: Any, source: str, target: str, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Boxes in another format, by the package's own conversion."""
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    to_inner, from_inner = bbox_utils.convert_bboxes_to_albumentations, bbox_utils.convert_bboxes_from_albumentations
    inner = boxes if source == "albumentations" else to_inner(boxes, source, size, "hbb")
    return np.asarray(inner if target == "albumentations" else from_inner(inner, target, size, "hbb"))


def test_what_a_pipeline_returns_is_shown_alike_in_all_formats() -> None:
    photo, pages = coded_photo(1), []
    boxes = np.array([box_of(row.mask) for row in photo.rows], np.float32)
    for name in FORMATS:
        params = A.BboxParams(coord_format=name, label_fields=["labels"])
        pipeline = A.Compose([A.HorizontalFlip(p=1.0), ToTensorV2()], bbox_params=params)
        given = {**arrays_of(photo), "bboxes": converted(boxes, "pascal_voc", name, photo.pixels.shape[:2])}
        pages.append(np.asarray(show(pipeline(**given), bbox_format=name)))
    flipped = {"image": photo.pixels[:, ::-1], "labels": [row.label for row in photo.rows]}
    flipped["masks"] = [row.mask[:, ::-1].copy() for row in photo.rows]
    flipped["bboxes"] = [box_of(mask) for mask in flipped["masks"]]
    expected = np.asarray(show(flipped, bbox_format="pascal_voc"))
    assert all(np.array_equal(page, expected) for page in pages)


def test_filtered_boxes_beside_all_masks_are_refused(bank: MemmapBank) -> None:
    params = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
    crop, photo = A.Compose([A.Crop(0, 0, 20, 20)], bbox_params=params), coded_photo(1)
    moved = crop(**arrays_of(photo), bboxes=np.array([box_of(row.mask) for row in photo.rows], np.float32))
    assert len(moved["masks"]) > len(moved["bboxes"])
    with pytest.raises(ValueError, match=r"A\.Compose removes boxes but keeps their masks"):
        CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format="pascal_voc")(moved)


class Augmented(Dataset[dict[str, Any]]):
    """A pipeline, pastes, and the rest of the pipeline."""

    def __init__(self, bank: MemmapBank) -> None:
        self.geometry = A.Compose([A.Resize(40, 50), A.HorizontalFlip(p=0.0)])
        self.paste = CopyPaste(bank, coded_config(), label_map=bank.class_names, bbox_format="coco")
        self.rest = A.Compose([A.Normalize(), ToTensorV2()])

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        data = arrays_of(coded_photo(index % 4))
        data["labels"] = [f"class {label}" for label in data["labels"]]  # texts, as those of the bank
        found: dict[str, Any] = self.rest(**self.paste(self.geometry(**data)))
        return found


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_loader(workers: int, bank: MemmapBank) -> None:
    def images(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        loader = DataLoader(Augmented(bank), batch_size=2, num_workers=workers, collate_fn=list)
        return [sample["image"] for batch in loader for sample in batch]

    first, again, other = images(0), images(0), images(1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert sum(torch.equal(a, b) for a, b in zip(first, other, strict=True)) < 2
    assert not any(torch.equal(a, b) for a, b in zip(first[:4], first[4:], strict=True))
    assert all(image.dtype == torch.float32 and image.shape == (3, 40, 50) for image in first)
