"""Boxes of masks.

Not for masks with a batch dimension on a device: `segpaste.augmentation` measures those.
"""

from __future__ import annotations

import torch
from torch import Tensor


def tight_boxes(masks: Tensor) -> Tensor:
    """The boxes of masks, in continuous pixel edges: columns 3..5 give x1 = 3, x2 = 6.

    Args:
        masks: [N, H, W] bool.

    Returns:
        [N, 4] float32 xyxy, zeros where a mask is empty.
    """
    edges = []
    pixels = masks.as_subclass(Tensor).view(torch.uint8)  # torch reduces bool many times slower
    for covered in (pixels.amax(1), pixels.amax(2)):
        first = covered.argmax(1)
        last = covered.shape[1] - covered.flip(1).argmax(1)
        edges.append(torch.stack([first, last], 1) * covered.amax(1, keepdim=True))
    return torch.stack(edges, 2).flatten(1).to(torch.float32)
