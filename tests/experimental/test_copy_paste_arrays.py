"""The transform on dictionaries of NumPy arrays, as AlbumentationsX returns them; its pipelines have a suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from coded_pastes import CODE, IDS, Photo, box_of, coded_bank, coded_config, coded_photo, expect_true
from segpaste import BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import MemmapBank
from segpaste.experimental import CopyPaste

NAMES = tuple(f"class {class_id}" for class_id in IDS)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return coded_bank(tmp_path_factory.mktemp("coded") / "bank")


def without_crowds(index: int) -> Photo:
    photo = coded_photo(index)
    return photo._replace(rows=[row._replace(is_crowd=False) for row in photo.rows])


def arrays_of(photo: Photo) -> dict[str, Any]:
    masks = np.array([row.mask for row in photo.rows], np.uint8).reshape(-1, *photo.pixels.shape[:2])
    return {"image": photo.pixels, "masks": masks, "labels": [row.label for row in photo.rows]}


def in_format(name: str, boxes: list[list[int]], size: tuple[int, int]) -> NDArray[np.float64]:
    """Boxes, one after another, in a format."""
    height, width = size
    found = []
    for x1, y1, x2, y2 in boxes:
        forms: dict[str, tuple[float, float, float, float]] = {
            "pascal_voc": (x1, y1, x2, y2),
            "coco": (x1, y1, x2 - x1, y2 - y1),
            "cxcywh": ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1),
            "albumentations": (x1 / width, y1 / height, x2 / width, y2 / height),
        }
        cx, cy, w, h = forms["cxcywh"]
        forms["yolo"] = (cx / width, cy / height, w / width, h / height)
        found.append(forms[name])
    return np.array(found).reshape(-1, 4)


def expect_arrays_true(photo: Photo, out: dict[str, Any], *, ids: Any = IDS) -> int:
    masks = np.asarray(out["masks"]).reshape(-1, *photo.pixels.shape[:2]) != 0
    boxes = np.array([box_of(mask) for mask in masks], np.float64).reshape(-1, 4)
    return expect_true(photo, out["image"], list(out["labels"]), boxes, masks, ids=ids)


@pytest.mark.parametrize("index", [0, 1, 4])
@pytest.mark.parametrize("name", ["pascal_voc", "coco", "cxcywh", "albumentations", "yolo"])
def test_labels_are_true_to_the_pixels(name: str, index: int, bank: MemmapBank) -> None:
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format=name), without_crowds(index)
    num_pasted = 0
    for seed in range(4):
        torch.manual_seed(seed)
        out = paste({**arrays_of(photo), "image_id": 3})
        num_pasted += expect_arrays_true(photo, out)
        assert out["image_id"] == 3
        expected = in_format(name, [box_of(mask != 0) for mask in out["masks"]], photo.pixels.shape[:2])
        assert np.allclose(out["bboxes"], expected, rtol=0, atol=1e-5)
        assert out["bboxes"].dtype == np.float32
    assert num_pasted > 2


def test_every_form_comes_back_as_it_was(bank: MemmapBank) -> None:
    photo = without_crowds(0)
    arrays = arrays_of(photo)
    boxes = in_format("coco", [box_of(row.mask) for row in photo.rows], photo.pixels.shape[:2])
    given = [
        {**arrays, "masks": list(arrays["masks"]), "bboxes": [tuple(box) for box in boxes.tolist()]},
        {
            **arrays,
            "masks": arrays["masks"] != 0,
            "bboxes": boxes.tolist(),
            "labels": np.array(arrays["labels"], np.int16),
        },
        {**arrays, "masks": tuple(arrays["masks"] * 255), "bboxes": boxes, "labels": tuple(arrays["labels"])},
        {**arrays, "image": np.ascontiguousarray(photo.pixels[:, ::-1])[:, ::-1]},  # negative strides
        {**arrays, "image": photo.pixels.astype(np.float32) / 255},
    ]
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format="coco")
    for data in given:
        torch.manual_seed(1)
        out = paste(data)
        if out["image"].dtype == np.float32:
            out["image"] = (out["image"] * 255).round().astype(np.uint8)
        else:
            assert out["image"].dtype == np.uint8
        assert expect_arrays_true(photo, out) == 2
        for name in ("masks", "labels", "bboxes"):
            assert type(out[name]) is type(data.get(name, out[name])), name
        assert getattr(out["labels"], "dtype", None) == getattr(data["labels"], "dtype", None)
        assert out["masks"][0].dtype == data["masks"][0].dtype
        if "bboxes" in data:
            assert type(out["bboxes"][0]) is type(data["bboxes"][0])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.uint16, np.int64])
@pytest.mark.parametrize("as_list", [True, False])
def test_masks_of_255_stay_masks_of_255(as_list: bool, dtype: type, bank: MemmapBank) -> None:
    paste, data = CopyPaste(bank, coded_config(), label_map=IDS[:3]), arrays_of(without_crowds(1))
    masks = data["masks"].astype(dtype) * dtype(255)
    torch.manual_seed(1)
    plain = paste(data)["masks"]
    torch.manual_seed(1)
    out = paste({**data, "masks": list(masks) if as_list else masks})["masks"]
    assert type(out) is (list if as_list else np.ndarray)
    assert out[0].dtype == dtype
    assert len(out) > len(masks)
    assert np.array_equal(np.asarray(out), (plain > 0) * 255)


def test_images_without_objects_get_masks_of_the_value_that_is_named(bank: MemmapBank) -> None:
    image = coded_photo(1).pixels
    for data in ({"image": image}, {"image": image, "masks": np.zeros((0, *image.shape[:2]), np.uint8), "labels": []}):
        out = CopyPaste(bank, coded_config(), label_map=IDS[:3], mask_value=255)(data)
        assert set(np.unique(out["masks"]).tolist()) == {0, 255}


@pytest.mark.parametrize("as_array", [True, False])
def test_labels_of_the_other_kind_are_refused(as_array: bool, bank: MemmapBank) -> None:
    """They are rejected also where nothing is pasted, so that the error does not wait for a paste."""
    data = arrays_of(without_crowds(1))
    form = np.array if as_array else list
    nothing = BatchCopyPasteConfig(source=SourceConfig(kind="bank"), placement=PlacementConfig(paste_prob=0.0))
    for config in (coded_config(), nothing):
        with pytest.raises(
            ValueError, match=r"expected numbers in 'labels', .* got .*car.*; give the text of each class"
        ):
            CopyPaste(bank, config, label_map=IDS[:3])({**data, "labels": form(["car"] * len(data["labels"]))})
        with pytest.raises(ValueError, match=r"expected texts in 'labels', .* got .*; give the number of each class"):
            CopyPaste(bank, config, label_map=NAMES[:3])({**data, "labels": form(data["labels"])})


@pytest.mark.parametrize("as_array", [True, False])
def test_labels_may_be_texts(as_array: bool, bank: MemmapBank) -> None:
    names, photo = ("car", "a longer name than the others", "zebra"), without_crowds(1)
    photo = photo._replace(rows=[row._replace(label=f"own {row.label}") for row in photo.rows])  # type: ignore[arg-type]
    data = arrays_of(photo)
    data["labels"] = np.array(data["labels"]) if as_array else data["labels"]
    data["what"] = data.pop("labels")
    paste = CopyPaste(bank, coded_config(), label_map=names, label_field="what")
    seen = set()
    for seed in range(8):
        torch.manual_seed(seed)
        out = paste(data)
        assert "bboxes" not in out
        assert expect_arrays_true(photo, {**out, "labels": out["what"]}, ids=names) == 2
        seen |= set(out["what"])
    assert names[1] in seen


@pytest.mark.parametrize("index", [1, 4])
@pytest.mark.parametrize("name", ["pascal_voc", "coco", "cxcywh", "albumentations", "yolo"])
def test_boxes_alone_are_pasted_over_as_boxes(name: str, index: int, bank: MemmapBank) -> None:
    photo = without_crowds(index)
    boxes, labels = [box_of(row.mask) for row in photo.rows], [row.label for row in photo.rows]
    within = [(x1 + 0.3, y1 + 0.55, x2 - 0.45, y2 - 0.1) for x1, y1, x2, y2 in boxes]  # rounded outwards: the same
    given = in_format(name, within, photo.pixels.shape[:2]).astype(np.float32)
    data = {"image": photo.pixels, "bboxes": given, "labels": labels}
    paste = CopyPaste(bank, coded_config(mask_from="boxes"), label_map=IDS[:3], bbox_format=name)
    torch.manual_seed(0)
    out = paste(data)
    assert "masks" not in out
    assert len(out["bboxes"]) == len(out["labels"])
    pasted = out["image"][..., 0] >= CODE
    own = iter(zip(out["labels"], out["bboxes"], strict=True))
    for (x1, y1, x2, y2), label, one, row in zip(boxes, labels, within, given, strict=True):
        mask = np.zeros_like(pasted)
        mask[y1:y2, x1:x2] = True
        if (mask & ~pasted).sum() * 10 < mask.sum():
            continue
        found_label, found = next(own)
        assert found_label == label
        visible = box_of(mask & ~pasted)
        if visible == [x1, y1, x2, y2]:
            assert np.array_equal(found, row), "a box that is not cut keeps every bit"
        left = np.clip(one, visible[:2] * 2, visible[2:] * 2)
        assert np.allclose(found, in_format(name, [left], photo.pixels.shape[:2]), rtol=0, atol=2e-3)
    assert len(list(own)) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": np.zeros((48, 64), np.uint8)}, r"expected an image \[H, W, 3\]"),
        *(
            ({"bboxes": np.zeros((2, 4)), **labels}, "A.Compose removes boxes but keeps their masks")
            for labels in ({}, {"labels": [1, 2]})  # A.Compose removes labels along with boxes
        ),
        ({"bboxes": np.zeros((7, 5))}, r"expected bboxes \[N, 4\]"),
        ({"labels": [1]}, "expected 'labels' with one value for each of 7 objects, got 1; label_field names"),
        (
            {"masks": np.zeros((7, 3, 3))},
            r"expected masks \[7, 48, 64\], one for each object in the size of the image, got \[7, 3, 3\]",
        ),
        (
            {"masks": np.full((7, 48, 64), 0.5)},
            "masks: expected 0 and 1, or 0 and 255, got 0.5, .*; choose a threshold",
        ),
        ({"masks": np.arange(7 * 48 * 64, dtype=np.uint8).reshape(7, 48, 64)}, "masks: expected 0 and 1, or 0 and 255"),
        (
            {"masks": [np.full((48, 64), n, np.uint8) for n in (0, 1, 255, 0, 0, 0, 0)]},
            "or 0 and 255, got 1 beside 255",
        ),
        ({"mask": np.zeros((48, 64))}, "got 'mask'"),
        ({"keypoints": np.zeros((3, 2))}, "got 'keypoints'"),
    ],
)
def test_dictionaries_that_are_refused(changes: dict[str, Any], message: str, bank: MemmapBank) -> None:
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format="coco")
    with pytest.raises(ValueError, match=message):
        paste({**arrays_of(without_crowds(0)), **changes})


def test_boxes_need_a_format(bank: MemmapBank) -> None:
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3])
    with pytest.raises(ValueError, match="expected bbox_format because there are bboxes"):
        paste({**arrays_of(without_crowds(0)), "bboxes": np.zeros((7, 4))})
    with pytest.raises(ValueError, match="expected bbox_format to be one of pascal_voc"):
        CopyPaste(bank, bbox_format="voc")
