"""Colours in another range than the adapters take are rejected by each of them, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from samples import make_batch, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, get_preset
from segpaste.integrations._training import expect_augmentation
from segpaste.integrations.huggingface import (
    CopyPasteCollator,
    to_detr,
    to_mask_labels,
    to_oneformer,
    with_copy_paste,
)
from segpaste.integrations.rfdetr import Form, from_nested
from segpaste.integrations.torchvision import from_detection, to_detection
from segpaste.targets.annotated import set_value
from segpaste.targets.colours import expect_colours

COLOURS: dict[str, Any] = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
TEXTS: dict[str, Any] = {"class_names": list("abcdef"), "num_text": 3, "tasks": ["instance"], "max_length": 4}
NO_TARGETS = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}] * 2


def tokens(lines: list[str], **_: Any) -> dict[str, Tensor]:
    return {"input_ids": torch.ones(len(lines), 4).long(), "attention_mask": torch.ones(len(lines), 4).long()}


ADAPTERS: dict[str, Callable[..., Any]] = {
    "to_mask_labels": partial(to_mask_labels, **COLOURS),
    "to_oneformer": partial(to_oneformer, **COLOURS, **TEXTS, tokenizer=tokens),
    "to_detr": partial(to_detr, **COLOURS),
    "to_detection": partial(to_detection, label_map=1),
}


def values(low: float, high: float) -> Tensor:
    return torch.linspace(low, high, 2 * 3 * 17 * 11).view(2, 3, 17, 11)


WRONG = {
    "0..1 for 0..255": (
        values(0, 1),
        255.0,
        r"0\.\.255, got 0\.\.1 in all images; multiply .* by 255, or give scale=1$",
    ),
    "0..255 for 0..1": (values(0, 255), 1.0, r"0\.\.1, got 0\.\.255; divide the images by 255, or give scale=255$"),
    "a little too bright": (values(0, 1.1), 1.0, r"0\.\.1, got 0\.\.1\.1; divide"),
    "16 bits": (values(0, 65535), 255.0, r"0\.\.255, got 0\.\.6\.\w*\+04; divide the images"),
    "normalised": (values(-2, 2), 1.0, r"0\.\.1, got -2\.\.2; paste first and normalise afterwards"),
    "normalised for 0..255": (
        values(-0.9, 2),
        255.0,
        r"0\.\.255, got -0\.9\.\.2; paste first and normalise afterwards",
    ),
    "NaN": (values(0, 1).sqrt().where(values(0, 1) != 1, torch.nan), 1.0, r"0\.\.1, got NaN; find the transform"),
    "infinite": (values(0, 1).where(values(0, 1) != 1, torch.inf), 1.0, r"0\.\.1, got 0\.\.inf"),
    "bytes for 0..1": (
        torch.zeros(2, 3, 17, 11, dtype=torch.uint8),
        1.0,
        r"0\.\.1, got uint8 images, which have 0\.\.255",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ADAPTERS)
def test_colours_out_of_range_are_refused(name: str, wrong: str) -> None:
    images, white, message = WRONG[wrong]
    batch = make_batch(2, modalities=["instance"])
    with pytest.raises(ValueError, match=f"^images: expected colours in {message}"):
        ADAPTERS[name](batch.derived(images=images), scale=white)


RIGHT = {
    "0..1": (values(0, 1), 1.0),
    "0..255": (values(0, 255), 255.0),
    "bytes": (values(0, 255).to(torch.uint8), 255.0),
    "dark bytes": (values(0, 1.9).to(torch.uint8), 255.0),
    "black": (values(0, 0), 255.0),
    "black of 0..1": (values(0, 0), 1.0),
    "dark whole numbers": (values(0, 1.9).floor(), 255.0),
    "rounding": (values(-1e-6, 1 + 1e-6), 1.0),
    "no image": (torch.zeros(0, 3, 17, 11), 255.0),
}


@pytest.mark.parametrize("right", RIGHT)
def test_colours_in_range_are_taken(right: str) -> None:
    images, white = RIGHT[right]
    batch = make_batch(len(images), modalities=["instance"]).derived(images=images)
    for convert in ADAPTERS.values():
        if len(images):
            convert(batch, scale=white)
    expect_colours("images", [images], white)
    expect_colours("images", list(images), white)


def test_one_bright_image_tells_that_a_dark_one_is_dark() -> None:
    expect_colours("images", [values(0, 0.5), values(0, 200)], 255.0)
    with pytest.raises(ValueError, match=r"got 0\.\.0\.75 in all images"):
        expect_colours("images", [values(0, 0.75), values(0, 0)], 255.0)


def test_the_collator_refuses_them_too() -> None:
    samples = make_samples(2, modalities=["instance"], image_dtype=torch.float32)
    collator = CopyPasteCollator(
        lambda batch: batch.derived(images=batch.images / batch.images.amax()), 8, partial(to_detr, **COLOURS)
    )
    with pytest.raises(ValueError, match=r"^images: expected colours in 0\.\.255, got .* in all images; multiply"):
        collator(samples)


@pytest.mark.parametrize("wrong", ["0..255 for 0..1", "normalised", "NaN"])
def test_lists_of_images_out_of_range_are_refused(wrong: str) -> None:
    images, _, message = WRONG[wrong]
    for given in (list(images), [images[1], images[0]], [torch.zeros(3, 5, 4, dtype=torch.uint8), images[1]]):
        if wrong == "normalised" and given[0].dtype == torch.uint8:
            given = [given[0], images[0]]
        with pytest.raises(ValueError, match="^images: expected colours in " + message.partition(", got")[0]):
            from_detection(given, NO_TARGETS, label_map=1, max_instances=2)


class Nested:
    """A `NestedTensor` of RF-DETR without padding."""

    def __init__(self, tensors: Tensor) -> None:
        self.tensors, self.mask, self.no_padding = tensors, None, True


@pytest.mark.parametrize(
    ("images", "normalized", "message"),
    [
        (values(0, 255), True, r"normalised by mean .*: expected colours in 0\.\.1, got 0\.\d*\.\.\d+"),
        (values(0, 255), False, r"in 0\.\.1: expected colours in 0\.\.1, got 0\.\.255"),
        (values(-2, 2), False, r"in 0\.\.1: expected colours in 0\.\.1, got -2\.\.2"),
        (values(0, 1) * torch.nan, True, "expected colours in 0..1, got NaN"),
    ],
)
def test_nested_tensors_out_of_range_are_refused(images: Tensor, normalized: bool, message: str) -> None:
    with pytest.raises(
        ValueError,
        match=f"samples, read as images {message}.*; give the loader's images unchanged"
        if "NaN" not in message
        else message,
    ):
        from_nested(Nested(images), NO_TARGETS, 4, Form(normalized=normalized))


@pytest.mark.parametrize(
    ("num", "came"), [(1, r"1 \(grey\); repeat it"), (4, r"4 \(with transparency\?\); keep"), (7, "7; ")]
)
def test_channels_are_named(num: int, came: str) -> None:
    images = torch.zeros(2, num, 17, 11)
    batch = make_batch(2, modalities=["instance"]).derived(images=images)
    for name in ("to_mask_labels", "to_oneformer", "to_detr"):
        with pytest.raises(ValueError, match=f"^images: expected 3 channels, as in mean and std.*got {came}"):
            ADAPTERS[name](batch)
    with pytest.raises(ValueError, match=f"^samples: expected images of 3 channels, got {came}"):
        from_nested(Nested(images), NO_TARGETS, 4, Form())


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        (torch.tensor([0, 1]), 1),
        (torch.tensor([0, 255], dtype=torch.uint8), 255),
        (torch.tensor([0, 255], dtype=torch.uint16), 255),
        (torch.tensor([1.0, 1.0]), 1),
        (torch.tensor([1, 1], dtype=torch.uint8), 1),
        (torch.tensor([255, 255], dtype=torch.uint8), 255),
        (torch.zeros(2, dtype=torch.uint8), None),
        (torch.tensor([0, 1], dtype=torch.int8), 1),
        (torch.tensor([False, True]), 1),
        (torch.tensor([False]), None),
        (torch.tensor([0, 255], dtype=torch.uint8).view(torch.bool), 1),
        (torch.zeros(2), None),
        (torch.zeros(0), None),
    ],
)
def test_the_value_of_masks(masks: Tensor, expected: int | None) -> None:
    assert set_value("masks", masks) == expected


@pytest.mark.parametrize("values", [[0, 2], [0, 1, 255], [1, 255], [0, 254, 255], [128, 255], [0, 127], [255, 127]])
def test_other_bytes_are_no_mask(values: list[int]) -> None:
    with pytest.raises(ValueError, match="masks: expected 0 and 1, or 0 and 255, got"):
        set_value("masks", torch.tensor(values, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (BatchCopyPasteConfig(), r"give BatchCopyPaste\(config\)"),
        (get_preset("documents"), r"give BatchCopyPaste\(preset\.config\)"),
        (BatchCopyPaste, r"try BatchCopyPaste\(\)"),
        (None, r"try BatchCopyPaste\(\)"),
    ],
)
def test_what_is_no_augmentation_is_refused_before_training(given: object, advice: str) -> None:
    with pytest.raises(TypeError, match=f"with_copy_paste: expected an augmentation, got .*; {advice}"):
        expect_augmentation("with_copy_paste", given)
    with pytest.raises(TypeError, match=advice):
        CopyPasteCollator(given, 8, dict)  # type: ignore[arg-type]


def test_a_second_argument_of_the_trainer() -> None:
    trainer = type("Trainer", (), {"get_eval_dataloader": None})
    with pytest.raises(TypeError, match="belongs to the collator: data_collator=CopyPasteCollator"):
        with_copy_paste(trainer, BatchCopyPasteConfig())
