"""Transforms of torchvision that a container rejects, because they would make its labels wrong."""

from __future__ import annotations

from collections.abc import Mapping

from torchvision.transforms import v2

_GEOMETRY = (
    "it moves pixels of images only; use v2.ColorJitter or v2.RandomPhotometricDistort, and geometry that moves labels"
)
_MIXES = "paste with segpaste.BatchCopyPaste, or give it images and one-hot labels"
_SEVERAL = "it returns several images; use v2.RandomCrop or v2.CenterCrop"
_CLASSES = "a container keeps the classes of its tensors; give it the tensors themselves, such as sample.to_dict()"
_SANITIZE = "it does not know instance ids and maps; use segpaste.datasets.SanitizeInstances on samples"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"), _GEOMETRY),
    "ConvertImageDtype": "it converts masks too; use v2.ToDtype(dtype, scale=True)",
    **dict.fromkeys(("CutMix", "MixUp"), _MIXES),
    **dict.fromkeys(("FiveCrop", "TenCrop"), _SEVERAL),
    **dict.fromkeys(("ToPILImage", "ToPureTensor"), _CLASSES),
    **dict.fromkeys(("SanitizeBoundingBoxes", "SanitizeKeyPoints"), _SANITIZE),
}
"""Transforms that all containers reject, with advice."""

REFUSED_BY_BATCHES: Mapping[str, str] = {
    "RandomIoUCrop": "it chooses a crop by the boxes of one image; use batch.map_samples(transform) on a "
    "BatchedDenseSample (PaddedBatchedDenseSample.to_batched returns one)",
}
"""Transforms that batches reject, but not samples, with advice."""


def check_transform(transform: v2.Transform, container: str, *, batched: bool) -> None:
    """Reject a transform that would make the labels of a container wrong.

    Raises:
        TypeError: the transform is rejected; the message says what to use instead.
    """
    for kind in type(transform).__mro__:
        advice = REFUSED.get(kind.__name__) or (REFUSED_BY_BATCHES.get(kind.__name__) if batched else None)
        if advice is not None and kind.__module__.startswith("torchvision.transforms.v2"):
            raise TypeError(f"transforms.v2 {kind.__name__}: cannot be applied to a {container}: {advice}")
