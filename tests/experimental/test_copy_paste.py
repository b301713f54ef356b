"""The transform of one sample: equal to a batch of one, in every form that it takes, with labels true to the pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from coded_pastes import CODE, IDS, Photo, Row, coded_bank, coded_config, coded_photo, expect_true
from samples import OPTIONAL, POINTS, SCHEMA, assert_same, make_sample
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig, PlacementConfig, SourceConfig
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.bank import MemmapBank
from segpaste.experimental import CopyPaste
from segpaste.invariants import Case, violations
from segpaste.types import BatchedDenseSample, DenseSample
from small_bank import small_bank

pytestmark = [
    pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing"),
    pytest.mark.filterwarnings("ignore:CopyPaste pasted nothing"),
]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return coded_bank(tmp_path_factory.mktemp("coded") / "bank")


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return small_bank(tmp_path_factory.mktemp("surfaces") / "bank", [0, 1, 2, 1, 0], surfaces=True)


def target_of(photo: Photo) -> dict[str, Any]:
    """The target of a photo, as torchvision's wrapped detection datasets make it."""
    size = photo.pixels.shape[:2]
    masks = np.array([row.mask for row in photo.rows], bool).reshape(-1, *size)
    plain = DenseSample.from_masks(torch.zeros(3, *size), torch.from_numpy(masks), torch.zeros(len(masks)).long())
    return {
        "image_id": 5,
        "boxes": plain.boxes,
        "masks": tv_tensors.Mask(torch.from_numpy(masks.astype(np.uint8))),
        "labels": torch.tensor([row.label for row in photo.rows], dtype=torch.int64),
        "iscrowd": [int(row.is_crowd) for row in photo.rows],
        "area": torch.tensor([float(row.mask.sum()) + 0.5 for row in photo.rows]),  # as polygons have it
    }


def image_of(photo: Photo) -> tv_tensors.Image:
    return tv_tensors.Image(torch.from_numpy(photo.pixels).permute(2, 0, 1))


def expect_target_true(photo: Photo, image: torch.Tensor, target: dict[str, Any]) -> int:
    """Compare a target in the form of `target_of` with the pixels; return the number of pastes."""
    return expect_true(
        photo,
        image.permute(1, 2, 0).numpy(),
        target["labels"].tolist(),
        target["boxes"].numpy(),
        target["masks"].numpy() != 0,
        ids=IDS,
        is_crowd=target["iscrowd"],
        areas=target["area"].tolist(),
    )


CONFIGS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "plain": (["instance"], {}),
    "boxes": ([], {"source": SourceConfig(kind="bank", mask_from="boxes")}),
    "nothing": ([], {}),
    "surfaces": (["instance", "depth", "normals"], {}),
    "panoptic": ([m.value for m in OPTIONAL], {"panoptic": PanopticConfig(taxonomy=SCHEMA)}),
    "left out": (["instance", "depth"], {"emit_depth": False}),
    "patches": (["instance"], {"placement": PlacementConfig(paste_prob=1.0, pad_to_multiple=8)}),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("num_instances", [0, 1, 4])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_sample_is_a_batch_of_one(name: str, num_instances: int, dtype: torch.dtype, surfaces: MemmapBank) -> None:
    modalities, options = CONFIGS[name]
    defaults = {"source": SourceConfig(kind="bank", crops_per_target=2), "placement": {"paste_prob": 1.0}}
    config = BatchCopyPasteConfig(**{**defaults, **options})
    bits = config.model_copy(update={"source": config.source.model_copy(update={"value_range": 1.0})})
    paste, batched = CopyPaste(surfaces, config).eval(), BatchCopyPaste(bits, source_pool=surfaces)
    sample = make_sample((31, 23), num_instances, modalities, image_dtype=dtype, keypoints=name == "plain", crowd=True)
    before = sample.map_tensors(torch.clone)
    batch = BatchedDenseSample.from_samples([sample]).to_padded(num_instances + config.num_layers)
    num_pasted = 0
    for seed in range(4):
        torch.manual_seed(seed)
        out = paste(sample)
        torch.manual_seed(seed)
        expected, report = batched(batch, return_report=True)
        num_pasted += int(report.num_placed.sum())
        assert_same(out, expected.to_batched().to_samples()[0])
        if modalities:
            seeded = batch.derived(sample_seeds=expected.sample_seeds)
            assert batched.crops is not None
            source = source_batch(batched.crops.staged(expected.sample_seeds), seeded, bits.source)
            assert violations(Case(seeded, expected, report, bits, source)) == []
    assert num_pasted > 0 or name == "nothing"
    assert_same(sample, before)


@pytest.mark.parametrize("index", range(6))
def test_labels_are_true_to_the_pixels(index: int, bank: MemmapBank) -> None:
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3]), coded_photo(index)
    image, target = image_of(photo), target_of(photo)
    num_pasted = 0
    for seed in range(8):
        torch.manual_seed(seed)
        out, found = paste(image, target)
        num_pasted += expect_target_true(photo, out, found)
        assert list(found) == list(target)
        assert found["image_id"] == 5
        assert found["boxes"].canvas_size == out.shape[-2:] == photo.pixels.shape[:2]
    assert num_pasted > 8


def test_objects_and_crowds_that_are_hidden_have_no_row(bank: MemmapBank) -> None:
    """One small object and one small crowd, until a paste has hidden each."""
    paste = CopyPaste(bank, coded_config(2), label_map=IDS[:3])
    masks = np.zeros((2, 20, 24), bool)
    masks[0, 4:7, 4:7] = masks[1, 15, 18:20] = True
    photo = Photo(np.zeros((20, 24, 3), np.uint8), [Row(IDS[5], masks[0]), Row(IDS[0], masks[1], is_crowd=True)])
    left = set()
    for seed in range(16):
        torch.manual_seed(seed)
        image, target = paste(image_of(photo), target_of(photo))
        expect_target_true(photo, image, target)
        left.add((photo.rows[0].label in target["labels"].tolist(), 1 in target["iscrowd"]))
    assert {own for own, _ in left} == {crowd for _, crowd in left} == {True, False}


FORMS: dict[str, Callable[[tv_tensors.Image, dict[str, Any]], tuple[Any, dict[str, Any]]]] = {
    "as datasets give them": lambda image, target: (image, target),
    "PIL": lambda image, target: (F.to_pil_image(image), target),
    "plain tensors": lambda image, target: (
        image.as_subclass(torch.Tensor),
        {n: v.as_subclass(torch.Tensor) if isinstance(v, torch.Tensor) else v for n, v in target.items()},
    ),
    "XYWH": lambda image, target: (
        image,
        {**target, "boxes": F.convert_bounding_box_format(target["boxes"], new_format="XYWH")},
    ),
    "CXCYWH": lambda image, target: (
        image,
        {**target, "boxes": F.convert_bounding_box_format(target["boxes"], new_format="CXCYWH").to(torch.float64)},
    ),
    "lists": lambda image, target: (
        image,
        {
            **target,
            "labels": target["labels"].tolist(),
            "area": target["area"].tolist(),
            "boxes": target["boxes"].tolist(),
        },
    ),
    "arrays": lambda image, target: (image, {**target, "iscrowd": np.array(target["iscrowd"], np.int8)}),
    "bool masks": lambda image, target: (image, {**target, "masks": target["masks"].bool()}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_comes_back_as_it_was(form: str, bank: MemmapBank) -> None:
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3]), coded_photo(0)
    given, given_target = FORMS[form](image_of(photo), target_of(photo))
    torch.manual_seed(1)
    plain, expected = paste(image_of(photo), target_of(photo))
    torch.manual_seed(1)
    image, target = paste(given, given_target)
    assert type(image) is type(given)
    assert {name: type(value) for name, value in target.items()} == {n: type(v) for n, v in given_target.items()}
    for name, value in target.items():
        assert getattr(value, "dtype", None) == getattr(given_target[name], "dtype", None), name
    if isinstance(image, Image.Image):
        image = F.pil_to_tensor(image)
    assert torch.equal(image, plain)
    boxes = target["boxes"]
    if isinstance(boxes, tv_tensors.BoundingBoxes):
        assert boxes.format == given_target["boxes"].format
        boxes = F.convert_bounding_box_format(boxes, new_format="XYXY")
    assert torch.equal(torch.as_tensor(boxes).float(), expected["boxes"])
    for name in ("labels", "iscrowd", "area", "masks"):
        assert torch.equal(torch.as_tensor(target[name]).long(), torch.as_tensor(expected[name]).long()), name


@pytest.mark.parametrize("num_own", [0, 1])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64, torch.int16])
def test_masks_of_255_stay_masks_of_255(dtype: torch.dtype, num_own: int, bank: MemmapBank) -> None:
    """cv2 and PIL give such masks; for an image without objects only an option says it."""
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3], **({} if num_own else {"mask_value": 255}))
    photo = coded_photo(1)
    photo = photo._replace(rows=[row._replace(is_crowd=False) for row in photo.rows[:num_own]])
    target = target_of(photo)
    torch.manual_seed(1)
    plain = paste(image_of(photo), target)[1]["masks"]
    torch.manual_seed(1)
    masks = paste(image_of(photo), {**target, "masks": target["masks"].to(dtype) * 255})[1]["masks"]
    assert masks.dtype == dtype
    assert len(masks) > num_own
    assert torch.equal(masks, (plain > 0).to(dtype) * 255)


def test_masks_of_other_bytes_are_masks(bank: MemmapBank) -> None:
    """``uint8.view(torch.bool)`` of a mask of 0 and 255 has bytes with which torch computes wrong results."""
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3]), coded_photo(1)
    target = target_of(photo)
    bools = (target["masks"] > 0).as_subclass(torch.Tensor)
    spoiled = (bools.view(torch.uint8) * 255).view(torch.bool)
    found = []
    for masks in (bools, spoiled):
        torch.manual_seed(1)
        found.append(paste(image_of(photo), {**target, "masks": masks})[1])
    for name in ("masks", "boxes", "labels"):
        assert torch.equal(found[0][name], found[1][name]), name
    assert int(found[1]["masks"].view(torch.uint8).max()) == 1


def test_a_pair_and_one_dictionary_are_the_same(bank: MemmapBank) -> None:
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3]), coded_photo(1)
    image, target = image_of(photo), target_of(photo)
    found = []
    for given in [(image, target), [image, target], {**target, "image": image}]:
        torch.manual_seed(2)
        out = paste(given)
        assert type(out) is type(given)
        found.append((out["image"], {n: v for n, v in out.items() if n != "image"}) if isinstance(out, dict) else out)
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0])
        assert torch.equal(found[0][1]["masks"], other[1]["masks"])


def test_the_dictionary_of_a_sample(surfaces: MemmapBank) -> None:
    sample = make_sample((31, 23), 3, ["instance", "depth"], keypoints=True)
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"))
    paste = CopyPaste(surfaces, config)
    torch.manual_seed(0)
    out = paste(sample)
    torch.manual_seed(0)
    assert_same(DenseSample.from_dict(paste(sample.to_dict())), DenseSample.from_dict(out.to_dict()))


def test_floats_have_colours_in_0_to_1(bank: MemmapBank) -> None:
    paste, photo = CopyPaste(bank, coded_config(), label_map=IDS[:3]), coded_photo(0)
    torch.manual_seed(3)
    plain, _ = paste(image_of(photo), target_of(photo))
    torch.manual_seed(3)
    floats, target = paste(F.to_dtype(image_of(photo), torch.float32, scale=True), target_of(photo))
    assert (plain >= CODE).any()
    assert torch.equal((floats * 255).round().to(torch.uint8), plain)
    expect_target_true(photo, (floats * 255).round().to(torch.uint8), target)


def test_a_given_value_range_stays(bank: MemmapBank) -> None:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", value_range=255.0))
    assert CopyPaste(bank, config).augment.config.source.value_range == 255.0


@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_without_masks_are_pasted_over_as_boxes(form: str, bank: MemmapBank) -> None:
    photo = coded_photo(0)
    boxes = target_of(photo)
    boxes.pop("masks")
    corners = boxes["boxes"]
    within = tv_tensors.wrap(
        corners + torch.tensor([0.3, 0.55, -0.45, -0.1]), like=corners
    )  # rounded outwards: the same
    boxes["boxes"] = given = F.convert_bounding_box_format(within, new_format=form)
    with pytest.raises(ValueError, match="expected masks for"):
        CopyPaste(bank, coded_config(), label_map=IDS[:3])(image_of(photo), boxes)
    paste = CopyPaste(bank, coded_config(mask_from="boxes"), label_map=IDS[:3])
    filled = Photo(photo.pixels, [])
    for row, (x1, y1, x2, y2) in zip(photo.rows, corners.int().tolist(), strict=True):
        mask = np.zeros_like(row.mask)
        mask[y1:y2, x1:x2] = True
        filled.rows.append(row._replace(mask=mask))
    num_kept = 0
    for seed in range(4):
        torch.manual_seed(seed)
        image, target = paste(image_of(photo), boxes)
        torch.manual_seed(seed)
        with_masks, expected = CopyPaste(bank, coded_config(), label_map=IDS[:3])(image_of(photo), target_of(filled))
        expect_target_true(filled, with_masks, expected)
        assert "masks" not in target
        assert torch.equal(image, with_masks)
        found = F.convert_bounding_box_format(target["boxes"], new_format="XYXY")
        whole = torch.cat([found[:, :2].floor(), found[:, 2:].ceil()], 1)
        assert torch.equal(whole, expected["boxes"])
        for box, row in zip(expected["boxes"].tolist(), target["boxes"].tolist(), strict=True):
            if box in corners.tolist():
                assert row == given[corners.tolist().index(box)].tolist(), "a box that is not cut keeps every bit"
                num_kept += 1
        assert target["labels"].tolist() == expected["labels"].tolist()
        assert target["iscrowd"] == expected["iscrowd"]
        sides = found[:, 2:] - found[:, :2]
        own = torch.tensor([not crowd for crowd in target["iscrowd"]])
        assert torch.allclose(target["area"][own], sides.prod(1)[own], rtol=1e-5)
    assert num_kept > 4


@pytest.mark.parametrize(("mask_from", "names"), [(None, {"boxes", "labels", "masks"}), ("boxes", {"boxes", "labels"})])
def test_an_image_without_any_entry_gets_them(mask_from: str | None, names: set[str], bank: MemmapBank) -> None:
    """torchvision's wrapper gives such images without annotations."""
    options = {} if mask_from is None else {"mask_from": mask_from}
    paste, photo = CopyPaste(bank, coded_config(**options), label_map=IDS[:3]), Photo(coded_photo(0).pixels, [])
    image, target = paste(image_of(photo), {"image_id": 7})
    assert set(target) == {"image_id", *names}
    assert len(target["boxes"]) == len(target["labels"]) == 2
    if mask_from is None:
        expect_target_true(photo, image, {**target, "iscrowd": [0, 0], "area": target["masks"].sum((1, 2))})


def test_keypoints_that_a_schema_names_follow(bank: MemmapBank) -> None:
    sample = make_sample((40, 48), 4, ["instance"], keypoints=True)
    assert sample.instance_masks is not None
    assert sample.keypoints is not None
    target = {"boxes": sample.boxes, "labels": sample.labels, "masks": sample.instance_masks}
    target = {**target, "keypoints": sample.keypoints, "iscrowd": torch.tensor([0, 1, 0, 0])}
    paste = CopyPaste(bank, coded_config(6), label_map=0, keypoint_schema=POINTS)
    hidden = 0
    for seed in range(6):
        torch.manual_seed(seed)
        image, found = paste(sample.image, target)
        pasted = (image[0] >= CODE) & (image != sample.image).any(0)
        for row, points in enumerate(found["keypoints"]):
            for x, y, v in points.tolist():
                if v == 2 and not found["iscrowd"][row]:
                    assert found["masks"][row, int(y), int(x)]
                    assert not pasted[int(y), int(x)]
                hidden += v == 1
    assert hidden > int((sample.keypoints[..., 2] == 1).sum()) * 6
