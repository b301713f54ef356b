"""Seamless cloning: keep the gradients of the paste, and take the colours of the target at its edge.

After Pérez, Gangnet, Blake, "Poisson Image Editing", ACM Transactions on Graphics 22(3), 2003. The unknown is the
change that is added to the paste. Between two pasted pixels its gradient should be 0. Across the edge of the paste it
should bring the pasted colour to that of the target's pixel next to it, since the source's colours beyond its mask are
not known and give no gradient. At the edge of the image and at padding there is no link, and no condition. This is the
Laplacian of a graph, solved by a fixed number of conjugate gradient steps, each with a multigrid cycle whose
coarse grids join blocks of 2 x 2 pixels, which allows masks of any shape (Briggs, Henson, McCormick, "A Multigrid
Tutorial", 2nd ed., SIAM 2000). After the six steps of the default the largest error is below 1e-3 of the largest
change, on the masks of the tests.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from segpaste.augmentation.config.paste import HarmonizeConfig

_STEPS = (1 / 1.7803301, 1 / 0.7196699)
"""Damping of two Jacobi sweeps: 1 over the Chebyshev roots on [0.5, 2], the upper part of the spectrum."""

_NEIGHBOURS = ((0, 1), (0, -1), (1, 0), (-1, 0))


class _Grid(NamedTuple):
    """Graph on one level, [B, 1, h, w] float32 each.

    Attributes:
        right: weight of the link to the right neighbour, 0 in the last column.
        down: weight of the link to the lower neighbour, 0 in the last row.
        fixed: weight of the links to pixels that do not change.
        total: the sum of all links of a pixel.
        inverse: 1 / ``total``; 0 where that is 0, so that pixels without links stay 0.
    """

    right: Tensor
    down: Tensor
    fixed: Tensor
    total: Tensor
    inverse: Tensor


def poisson(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Shift the composed colours to meet the target's at the edge of the paste, in ``poisson_cycles`` V-cycles."""
    grid, pull = _equations(composed, target, inside, outside)
    grids = [grid]
    while max(grids[-1].total.shape[-2:]) > 1:
        grids.append(_coarser(grids[-1]))
    return composed + _solved(grids, pull, config.poisson_cycles)


def _equations(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor) -> tuple[_Grid, Tensor]:
    """Return the graph of the pixels, and the right-hand side that its links to the target give, [B, C, H, W]."""
    pasted = inside.float()
    fixed, pull = torch.zeros_like(pasted), torch.zeros_like(composed)
    for step in _NEIGHBOURS:
        link = inside & _neighbour(outside, step)
        fixed = fixed + link.float()
        pull = pull + torch.where(link, _neighbour(target, step) - composed, 0.0)
    return _grid(pasted * _neighbour(pasted, (0, 1)), pasted * _neighbour(pasted, (1, 0)), fixed), pull


def _solved(grids: list[_Grid], pull: Tensor, num_cycles: int) -> Tensor:
    """Solve by conjugate gradients, preconditioned by a V-cycle that need not be symmetric; no step adds to the error.

    After Notay, "Flexible Conjugate Gradients", SIAM Journal on Scientific Computing 22(4), 2000.
    """
    change, rest = torch.zeros_like(pull), pull
    way, pushed, energy = change, change, total(change)
    for _ in range(num_cycles):
        better = _cycle(grids, rest)
        way = better - way * _quotient(total(better * pushed), energy)
        pushed = _applied(grids[0], way)
        energy = total(way * pushed)
        length = _quotient(total(way * rest), energy)
        change = change + way * length
        rest = rest - pushed * length
    return change


def _quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    return torch.where(denominator > 0, numerator / denominator, 0.0)


def _neighbour(image: Tensor, step: tuple[int, int]) -> Tensor:
    """Return, at each pixel, the value ``step`` (rows down, columns right) away from it, 0 beyond the canvas."""
    height, width = image.shape[-2:]
    return pad(image, (1, 1, 1, 1))[..., 1 + step[0] : 1 + step[0] + height, 1 + step[1] : 1 + step[1] + width]


def _grid(right: Tensor, down: Tensor, fixed: Tensor) -> _Grid:
    links = fixed + right + down + _neighbour(right, (0, -1)) + _neighbour(down, (-1, 0))
    return _Grid(right, down, fixed, links, torch.where(links > 0, 1.0 / links, 0.0))


def _coarser(grid: _Grid) -> _Grid:
    """Return the graph of blocks of 2 x 2; links between them are halved, since the distance of centres doubles."""
    right, down, fixed = (_even(x) for x in (grid.right, grid.down, grid.fixed))
    right = (right[..., ::2, 1::2] + right[..., 1::2, 1::2]) * 0.5
    down = (down[..., 1::2, ::2] + down[..., 1::2, 1::2]) * 0.5
    return _grid(right, down, _gathered(fixed))


def _cycle(grids: list[_Grid], pull: Tensor) -> Tensor:
    """Run one V-cycle from 0: smooth, correct the residual on the coarser grid, smooth."""
    grid, *coarser = grids
    if not coarser:
        return grid.inverse * pull
    change = _smoothed(grid, None, pull)
    rest = _gathered(_even(pull - _applied(grid, change)))
    correction = _spread(coarser[0], _cycle(coarser, rest), change.shape[-2:])
    change = change + torch.where(grid.total > 0, correction, 0.0)
    return _smoothed(grid, change, pull)


def _smoothed(grid: _Grid, change: Tensor | None, pull: Tensor) -> Tensor:
    """Run two Jacobi sweeps from ``change``, or from 0 if it is None."""
    for damping in _STEPS:
        rest, weight = pull if change is None else pull - _applied(grid, change), grid.inverse * damping
        change = rest * weight if change is None else change + rest * weight
    assert change is not None
    return change


def _applied(grid: _Grid, change: Tensor) -> Tensor:
    """Apply the Laplacian: over the links of each pixel, sum weight times (the pixel's value - its neighbour's)."""
    out = grid.total * change
    out[..., :, :-1] -= grid.right[..., :, :-1] * change[..., :, 1:]
    out[..., :, 1:] -= grid.right[..., :, :-1] * change[..., :, :-1]
    out[..., :-1, :] -= grid.down[..., :-1, :] * change[..., 1:, :]
    out[..., 1:, :] -= grid.down[..., :-1, :] * change[..., :-1, :]
    return out


def _even(image: Tensor) -> Tensor:
    """Append a row or column of 0 where a size is odd."""
    height, width = image.shape[-2:]
    return pad(image, (0, width % 2, 0, height % 2))


def _gathered(image: Tensor) -> Tensor:
    """Return the sums of blocks of 2 x 2."""
    rows = image[..., ::2, :] + image[..., 1::2, :]
    return rows[..., ::2] + rows[..., 1::2]


def _spread(grid: _Grid, blocks: Tensor, size: torch.Size) -> Tensor:
    """Interpolate from blocks to pixels, linearly between linked blocks, cropped to ``size``."""
    height, width = size
    wide = _between(blocks, (grid.right > 0).float(), -1)[..., :width]
    linked = (grid.down > 0).float().repeat_interleave(2, -1)[..., :width]
    return _between(wide, linked, -2)[..., :height, :]


def _between(blocks: Tensor, linked: Tensor, dim: int) -> Tensor:
    """Split blocks into two pixels along ``dim``, each a quarter of the way to the neighbour on its side if linked."""
    last = blocks.shape[dim] - 1
    slope = linked.narrow(dim, 0, last) * (blocks.narrow(dim, 1, last) - blocks.narrow(dim, 0, last)) * 0.25
    first, second = blocks.clone(), blocks.clone()
    first.narrow(dim, 1, last).sub_(slope)
    second.narrow(dim, 0, last).add_(slope)
    return torch.stack([first, second], blocks.ndim + dim + 1).flatten(dim - 1, dim)


def total(image: Tensor) -> Tensor:
    """Sum the pixels of [B, C, H, W] to [B, C, 1, 1]; halves are added until one value is left."""
    values = image.flatten(2)
    while values.shape[-1] > 1:
        half = (values.shape[-1] + 1) // 2
        head, tail = values[..., :half], values[..., half:]
        values = head + pad(tail, (0, half - tail.shape[-1]))
    return values[..., None]
