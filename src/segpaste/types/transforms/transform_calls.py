"""Which transform of torchvision asks for the tensors of a container, and whether it may have them.

A transform flattens its input as a pytree, moves the leaves whose classes it knows, and passes the others through. A
padded batch holds plain tensors, since `torch.compile` wants them, so a transform would move its images alone. The
containers therefore look at the caller when they are flattened: a transform gets tagged tensors, or an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from torchvision.transforms import v2

_BETWEEN = (
    *("torch.utils._pytree", "torch._dynamo.eval_frame", "segpaste.types.movable"),
    "torchvision.transforms.v2._utils",  # looks for labels
)
_GEOMETRY = (
    "it moves pixels of images alone; use v2.ColorJitter or v2.RandomPhotometricDistort, and geometry that moves labels"
)
_MIXES = "paste with segpaste.BatchCopyPaste, or give it images and one-hot labels"
_SEVERAL = "it makes several images of one; use v2.RandomCrop or v2.CenterCrop"
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
"""Transforms that no container takes, and what to do instead."""

REFUSED_BY_BATCHES: Mapping[str, str] = {
    "RandomIoUCrop": "it chooses a crop by the boxes of one image; use batch.map_samples(transform) on a "
    "BatchedDenseSample (PaddedBatchedDenseSample.to_batched makes one)",
}
"""Transforms that a single sample takes, but no batch."""


def calling_transform() -> v2.Transform | None:
    """The transform that flattens a pytree, found among the callers; None where something else does.

    Call it from a flattening function that is registered with torch.utils._pytree.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    caller = frame.f_locals.get("self")
    return caller if isinstance(caller, v2.Transform) else None


def check_transform(transform: v2.Transform, container: str, *, batched: bool) -> None:
    """Raise if the transform would leave a container wrong.

    Raises:
        TypeError: naming the way that works.
    """
    for kind in type(transform).__mro__:
        advice = REFUSED.get(kind.__name__) or (REFUSED_BY_BATCHES.get(kind.__name__) if batched else None)
        if advice is not None and kind.__module__.startswith("torchvision.transforms.v2"):
            raise TypeError(f"transforms.v2 {kind.__name__}: cannot be applied to a {container}: {advice}")
