"""Every public transform of torchvision.transforms.v2, made so that it acts on each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import DenseSample

SIZE = (23, 19)
Kind = Literal["geometry", "colour", "other"]


class Case(NamedTuple):
    """Transforms of one class.

    Attributes:
        kind: what moves: ``geometry`` moves pixels, ``colour`` changes those of the image and no label.
        makers: of the transforms; lambdas, since what a transform draws may be drawn when it is made.
        image_dtype: of the image that it needs.
    """

    kind: Kind
    makers: tuple[Callable[[], object], ...]
    image_dtype: torch.dtype = torch.float32


def moved(sample: DenseSample, transform: Callable[[Any], Any]) -> DenseSample:
    """Return the sample that the transform makes of the sample's fields."""
    return DenseSample.from_dict(transform(sample.to_dict()))


def _case(kind: Kind, *makers: Callable[[], object], image_dtype: torch.dtype = torch.float32) -> Case:
    return Case(kind, makers, image_dtype)


def _lighter(image: torch.Tensor) -> torch.Tensor:
    return image + 0.25


_FLAT = 3 * SIZE[0] * SIZE[1]
_FLIP, _SHRINK = v2.RandomHorizontalFlip(1.0), v2.Resize((9, 7))

CASES: Mapping[str, Case] = {
    "CenterCrop": _case("geometry", lambda: v2.CenterCrop((8, 5)), lambda: v2.CenterCrop((30, 6))),
    "ElasticTransform": _case("geometry", lambda: v2.ElasticTransform(20.0, 2.0)),
    "FiveCrop": _case("geometry", lambda: v2.FiveCrop(5)),
    "Pad": _case("geometry", lambda: v2.Pad([1, 2, 3, 4])),
    "RandomAffine": _case("geometry", lambda: v2.RandomAffine((10, 20), translate=(0.1, 0.1))),
    "RandomCrop": _case("geometry", lambda: v2.RandomCrop((9, 7)), lambda: v2.RandomCrop((30, 21), pad_if_needed=True)),
    "RandomHorizontalFlip": _case("geometry", lambda: v2.RandomHorizontalFlip(1.0)),
    "RandomIoUCrop": _case("geometry", lambda: v2.RandomIoUCrop(max_scale=0.8, sampler_options=[0.1])),
    "RandomPerspective": _case("geometry", lambda: v2.RandomPerspective(p=1.0)),
    "RandomResize": _case("geometry", lambda: v2.RandomResize(6, 9), lambda: v2.RandomResize(20, 30)),
    "RandomResizedCrop": _case("geometry", lambda: v2.RandomResizedCrop((13, 7), scale=(0.3, 0.6))),
    "RandomRotation": _case(
        "geometry", lambda: v2.RandomRotation((10, 80)), lambda: v2.RandomRotation(45, expand=True)
    ),
    "RandomShortestSize": _case("geometry", lambda: v2.RandomShortestSize([9, 14], max_size=20)),
    "RandomVerticalFlip": _case("geometry", lambda: v2.RandomVerticalFlip(1.0)),
    "RandomZoomOut": _case("geometry", lambda: v2.RandomZoomOut(p=1.0)),
    "Resize": _case("geometry", lambda: v2.Resize((34, 22)), lambda: v2.Resize(8), lambda: v2.Resize((9, 22))),
    "ScaleJitter": _case("geometry", lambda: v2.ScaleJitter((32, 32))),
    "TenCrop": _case("geometry", lambda: v2.TenCrop(5)),
    "Compose": _case("geometry", lambda: v2.Compose([_FLIP, _SHRINK])),
    "RandomApply": _case("geometry", lambda: v2.RandomApply([_FLIP, _SHRINK], p=1.0)),
    "RandomChoice": _case("geometry", lambda: v2.RandomChoice([_FLIP, _SHRINK])),
    "RandomOrder": _case("geometry", lambda: v2.RandomOrder([_FLIP, _SHRINK])),
    "AugMix": _case("colour", v2.AugMix, image_dtype=torch.uint8),
    "AutoAugment": _case("colour", v2.AutoAugment, image_dtype=torch.uint8),
    "ColorJitter": _case("colour", lambda: v2.ColorJitter(0.5, 0.5, 0.5, 0.2)),
    "CutMix": _case("colour", lambda: v2.CutMix(num_classes=9)),
    "GaussianBlur": _case("colour", lambda: v2.GaussianBlur(3)),
    "GaussianNoise": _case("colour", v2.GaussianNoise),
    "Grayscale": _case("colour", lambda: v2.Grayscale(3), v2.Grayscale),
    "JPEG": _case("colour", lambda: v2.JPEG(20), image_dtype=torch.uint8),
    "LinearTransformation": _case(
        "colour", lambda: v2.LinearTransformation(torch.eye(_FLAT).flip(0) / 2, torch.zeros(_FLAT))
    ),
    "MixUp": _case("colour", lambda: v2.MixUp(num_classes=9)),
    "Normalize": _case("colour", lambda: v2.Normalize([0.5] * 3, [0.25] * 3)),
    "RandAugment": _case("colour", v2.RandAugment, image_dtype=torch.uint8),
    "RandomAdjustSharpness": _case("colour", lambda: v2.RandomAdjustSharpness(2.0, p=1.0)),
    "RandomAutocontrast": _case("colour", lambda: v2.RandomAutocontrast(p=1.0)),
    "RandomChannelPermutation": _case("colour", v2.RandomChannelPermutation),
    "RandomEqualize": _case("colour", lambda: v2.RandomEqualize(p=1.0), image_dtype=torch.uint8),
    "RandomErasing": _case("colour", lambda: v2.RandomErasing(p=1.0)),
    "RandomGrayscale": _case("colour", lambda: v2.RandomGrayscale(p=1.0)),
    "RandomInvert": _case("colour", lambda: v2.RandomInvert(p=1.0)),
    "RandomPhotometricDistort": _case("colour", lambda: v2.RandomPhotometricDistort(p=1.0)),
    "RandomPosterize": _case("colour", lambda: v2.RandomPosterize(2, p=1.0), image_dtype=torch.uint8),
    "RandomSolarize": _case("colour", lambda: v2.RandomSolarize(0.5, p=1.0)),
    "TrivialAugmentWide": _case("colour", v2.TrivialAugmentWide, image_dtype=torch.uint8),
    "ClampBoundingBoxes": _case("other", v2.ClampBoundingBoxes),
    "ClampKeyPoints": _case("other", lambda: v2.ClampKeyPoints()),
    "ConvertBoundingBoxFormat": _case("other", lambda: v2.ConvertBoundingBoxFormat("XYWH")),
    "ConvertImageDtype": _case("colour", lambda: v2.ConvertImageDtype(torch.float32), image_dtype=torch.uint8),
    "Identity": _case("other", v2.Identity),
    "Lambda": _case("colour", lambda: v2.Lambda(_lighter, tv_tensors.Image)),
    "PILToTensor": _case("other", v2.PILToTensor),
    "RGB": _case("other", v2.RGB),
    "SanitizeBoundingBoxes": _case(
        "other", lambda: v2.SanitizeBoundingBoxes(9, labels_getter=None), v2.SanitizeBoundingBoxes
    ),
    "SanitizeKeyPoints": _case("other", lambda: v2.SanitizeKeyPoints()),
    "SetClampingMode": _case("other", lambda: v2.SetClampingMode("hard")),
    "ToDtype": _case(
        "colour",
        lambda: v2.ToDtype(torch.float32, scale=True),
        lambda: v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
        image_dtype=torch.uint8,
    ),
    "ToImage": _case("other", v2.ToImage),
    "ToPILImage": _case("other", v2.ToPILImage),
    "ToPureTensor": _case("other", v2.ToPureTensor),
    "ToTensor": _case("other", v2.ToTensor),
    "UniformTemporalSubsample": _case("other", lambda: v2.UniformTemporalSubsample(2)),
}
