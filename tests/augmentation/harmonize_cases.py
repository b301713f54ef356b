"""Images with pastes for the tests of harmonising, and slow obvious references in float64 NumPy.

A reference takes one image: composed and target [C, H, W], inside and outside [H, W]; what it gives counts inside only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

Array = np.ndarray[Any, Any]

SIZES = [(1, 1), (1, 9), (7, 1), (5, 6), (11, 8), (17, 13), (23, 32)]


class Pasted(NamedTuple):
    """Images [B, C, H, W] before and after, where pastes are seen [B, H, W], and padding [B, 1, H, W]."""

    composed: Tensor
    target: Tensor
    visible: Tensor
    padding_mask: Tensor | None

    @property
    def outside(self) -> Tensor:
        """[B, H, W], pixels of the target that count."""
        return ~self.visible if self.padding_mask is None else ~self.visible & ~self.padding_mask[:, 0]


def make_pasted(
    size: tuple[int, int] = (17, 13),
    batch_size: int = 3,
    channels: int = 3,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    padding: tuple[int, int] | None = None,
) -> Pasted:
    """Random colours (uint8: all of 0..255; floats: a quarter below 0), of which pastes are brighter and flatter.

    The first mask is a shape that may touch the edge, the second random pixels, the third all of the picture, the
    fourth nothing, and so on.
    """
    rng = np.random.default_rng([seed, *size, channels])
    target = rng.uniform(-0.25, 0.75, (batch_size, channels, *size))
    source = rng.uniform(0.2, 0.9, target.shape)
    rows, cols = np.mgrid[: size[0], : size[1]]
    visible = np.zeros((batch_size, *size), bool)
    for b in range(batch_size):
        centre, radius = rng.uniform(0, size), rng.uniform(0.3, 0.7) * max(size)
        shape = np.hypot(rows - centre[0], cols - centre[1]) <= radius
        visible[b] = [shape, rng.random(size) < 0.6, np.ones(size, bool), np.zeros(size, bool)][b % 4]
    padding_mask = np.zeros((batch_size, 1, *size), bool)
    if padding is not None:
        padding_mask[..., size[0] - padding[0] :, :] = padding_mask[..., size[1] - padding[1] :] = True
    visible &= ~padding_mask[:, 0]
    target = np.where(padding_mask, 0, target)
    images = [torch.from_numpy(x) for x in (np.where(visible[:, None], source, target), target)]
    if dtype == torch.uint8:
        images = [((x + 0.25) * 240).round().to(dtype) for x in images]
    masks = torch.from_numpy(visible), None if padding is None else torch.from_numpy(padding_mask)
    return Pasted(*(x.to(dtype) for x in images), *masks)


@st.composite
def pasted_images(draw: st.DrawFn, *dtypes: torch.dtype) -> Pasted:
    size = draw(st.sampled_from(SIZES))
    return make_pasted(
        size=size,
        batch_size=draw(st.integers(1, 4)),
        channels=draw(st.sampled_from([3, 1, 5])),
        dtype=draw(st.sampled_from(dtypes or (torch.float32,))),
        seed=draw(st.integers(0, 10**6)),
        padding=draw(st.sampled_from([None, (0, 0), (2, 1), (0, 3)])) if min(size) > 4 else None,
    )


def reference_reinhard(
    composed: Array, target: Array, inside: Array, outside: Array, surround_px: int, max_gain: float
) -> Array:
    around = np.zeros_like(inside)
    for y, x in np.argwhere(inside):
        around[max(y - surround_px, 0) : y + surround_px + 1, max(x - surround_px, 0) : x + surround_px + 1] = True
    around &= outside
    out = composed.copy()
    if not inside.any() or not around.any():
        return out
    for c in range(len(composed)):
        pasted, ground = composed[c][inside], target[c][around]
        flat = pasted.max() == pasted.min()
        gain = 1.0 if flat else float(np.clip(ground.std() / pasted.std(), 1 / max_gain, max_gain))
        out[c] = (composed[c] - pasted.mean()) * gain + ground.mean()
    return out


def reference_poisson(composed: Array, target: Array, inside: Array, outside: Array) -> Array:
    """Least squares of the equations of the pixels: a part of a paste that meets no target stays as it is."""
    index = np.full(inside.shape, -1)
    index[inside] = np.arange(inside.sum())
    matrix, right = np.zeros((inside.sum(), inside.sum())), np.zeros((inside.sum(), len(composed)))
    for y, x in np.argwhere(inside):
        i = index[y, x]
        for v, u in ((y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x)):
            if not (0 <= v < inside.shape[0] and 0 <= u < inside.shape[1]):
                continue
            if inside[v, u]:
                matrix[i, i] += 1
                matrix[i, index[v, u]] -= 1
                right[i] += composed[:, y, x] - composed[:, v, u]
            elif outside[v, u]:
                matrix[i, i] += 1
                right[i] += target[:, v, u]
    out = composed.copy()
    start = composed[:, inside].T
    out[:, inside] = (start + np.linalg.lstsq(matrix, right - matrix @ start, rcond=1e-10)[0]).T
    return out


def reference_multiband(composed: Array, target: Array, inside: Array, outside: Array, levels: int) -> Array:
    """The pyramid as matrices."""
    totals, covered, known = [(composed - target) * inside], [inside * 1.0], [(inside | outside) * 1.0]
    while len(totals) < levels and max(totals[-1].shape[-2:]) > 1:
        for pyramid in (totals, covered, known):
            down = [reduction(n) for n in pyramid[-1].shape[-2:]]
            pyramid.append(down[0] @ pyramid[-1] @ down[1].T)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [np.where(m > 0, t / m, 0.0) for t, m in zip(totals, covered, strict=True)]
        weights = [np.where(k > 0, np.clip(2 * m / k - 1, 0, 1), 0.0) for m, k in zip(covered, known, strict=True)]
    out = np.zeros_like(totals[0])
    for level in range(len(means)):
        band = means[level] - (enlarged(means[level + 1], means[level].shape) if level + 1 < len(means) else 0)
        band = band * weights[level]
        for finer in reversed(means[:level]):
            band = enlarged(band, finer.shape)
        out += band
    return target + out


def reduction(size: int) -> Array:
    """[ceil(size / 2), size]: the binomial filter at every other pixel, nothing beyond the ends."""
    matrix = np.zeros(((size + 1) // 2, size))
    for i in range(len(matrix)):
        for tap, weight in zip(range(2 * i - 2, 2 * i + 3), (1, 4, 6, 4, 1), strict=True):
            if 0 <= tap < size:
                matrix[i, tap] = weight / 16
    return matrix


def enlarged(image: Array, shape: tuple[int, ...]) -> Array:
    """Each pixel of the larger image is the mean of its neighbours in the smaller one, weighed by the same filter."""
    out = np.zeros(shape)
    small = image.shape[-2:]
    for y, x in np.ndindex(*shape[-2:]):
        total = 0.0
        for v in range(y // 2 - 1, y // 2 + 2):
            for u in range(x // 2 - 1, x // 2 + 2):
                weight = binomial(y - 2 * v) * binomial(x - 2 * u) / 64
                out[..., y, x] += weight * image[..., min(max(v, 0), small[0] - 1), min(max(u, 0), small[1] - 1)]
                total += weight
        assert total == 1
    return out


def binomial(offset: int) -> int:
    return (1, 4, 6, 4, 1)[offset + 2] if abs(offset) <= 2 else 0


def reference_blur(inside: Array, outside: Array, sigma: float) -> Array:
    """A mask smoothed by a Gaussian, from all pairs of pixels; where nothing is known, nothing counts."""
    known, grid = inside | outside, np.stack(np.indices(inside.shape), -1)
    weight = np.ones(inside.shape)
    for y, x in np.argwhere(inside):
        near = np.abs(grid - (y, x)).max(-1) <= np.ceil(3 * sigma)
        density = np.exp(-((grid - (y, x)) ** 2).sum(-1) / (2 * sigma**2)) * near
        weight[y, x] = density[inside].sum() / density[known].sum()
    return weight


def reference_edge_weight(inside: Array, outside: Array, feather_px: int) -> Array:
    weight = np.ones(inside.shape)
    centres = np.argwhere(outside)
    for y, x in np.argwhere(inside):
        if len(centres):
            nearest = np.hypot(*(centres - (y, x)).T).min()
            weight[y, x] = min(1.0, (nearest - 0.5) / feather_px)
    return weight
