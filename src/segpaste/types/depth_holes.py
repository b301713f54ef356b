"""Values for missing depth inside objects, by which pastes can be ordered.

Depth sensors miss pixels. A filled pixel gets the depth of the nearest valid pixel of its object, and stays invalid, so
that nothing learns from it; ``depth_order="value"`` of the paste config uses it. Not for training targets: the values
are guesses. Holes outside of objects are not filled, because nothing says which surface lies there.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from segpaste.types.sampling import usable_depth


def filled_depth(depth: Tensor, valid: Tensor, masks: Tensor) -> Tensor:
    """Return depth whose invalid pixels inside objects have the depth of the nearest valid pixel of their object.

    Distances are Euclidean, between pixel centres; of equally near pixels one is chosen by a fixed rule. If objects
    overlap, the first one fills a pixel. Objects without valid depth are not filled.

    Args:
        depth: [1, H, W] float32.
        valid: [1, H, W] bool, does not change.
        masks: [N, H, W] bool.

    Returns:
        A new tensor [1, H, W]; the other pixels keep their value.
    """
    known = usable_depth(depth, valid)[0]
    filled, open_holes = depth.clone(), ~valid[0]
    for mask in masks:
        inside, holes = mask & known, mask & open_holes
        if not holes.any() or not inside.any():
            continue
        rows, cols = (mask.any(dim).nonzero()[:, 0] for dim in (1, 0))
        box = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(cols[0]), int(cols[-1]) + 1)
        nearest = _nearest_value(depth[0][box], inside[box], holes[box])
        filled[0][box] = torch.where(holes[box], nearest, filled[0][box])
        open_holes &= ~holes
    return filled


def _nearest_value(values: Tensor, known: Tensor, wanted: Tensor) -> Tensor:
    """Return the value of the nearest known pixel at each wanted pixel; other pixels are meaningless; all [h, w].

    The nearest known pixel of each column comes first. Columns are then compared by their distance until no farther
    one can hold a nearer pixel.
    """
    height, width = known.shape
    far = height + width
    row = torch.arange(height, device=known.device)[:, None].expand(height, width)
    above = torch.where(known, row, -far).cummax(0).values
    below = torch.where(known, row, 2 * far).flip(0).cummin(0).values.flip(0)
    steps = torch.minimum(row - above, below - row).clamp(max=far)
    source = torch.where(row - above <= below - row, above, below).clamp(0, height - 1)
    in_column = values.gather(0, source)
    best, found = steps.square(), in_column
    for step in range(1, width):
        if step * step >= int(best[wanted].max()):
            break
        for padding in ((step, 0), (0, step)):
            start = 0 if padding[0] else step
            squared = pad(steps.square(), padding, value=far * far)[:, start : start + width] + step * step
            moved = pad(in_column, padding)[:, start : start + width]
            is_nearer = squared < best
            best, found = torch.where(is_nearer, squared, best), torch.where(is_nearer, moved, found)
    return found
