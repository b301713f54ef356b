"""Input positions of output pixels, against exact rational arithmetic and slow loops."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from segpaste.types import sampling

SIZES = st.integers(1, 40)
OFFSETS = st.integers(-50, 50)


def reference_position(x: int, offset: int, num: int, den: int) -> Fraction:
    """x_src, exactly."""
    return (Fraction(2 * x + 1, 2) - offset) * Fraction(den, num) - Fraction(1, 2)


def reference_taps(centre: Fraction, radius: Fraction) -> dict[int, int]:
    """Source index to weight of the triangle filter, in 1/2048, rounded so that they sum to 2048."""
    raw = {i: radius - abs(i - centre) for i in range(floor(centre - radius), ceil(centre + radius) + 1)}
    raw = {i: w for i, w in raw.items() if w > 0}
    upto = [floor(2048 * part / sum(raw.values())) for part in itertools.accumulate(raw.values())]
    return {i: high - low for i, low, high in zip(raw, [0, *upto], upto, strict=False)}


def taps_of(first: Tensor, weights: Tensor) -> dict[int, int]:
    """Return the weight of each source index, without weights of zero."""
    return {int(first) + t: w for t, w in enumerate(weights.tolist()) if w}


class TestPosition:
    @given(st.lists(st.integers(-99, 99), min_size=1), OFFSETS, SIZES, SIZES)
    def test_is_the_pixel_convention(self, xs: list[int], offset: int, num: int, den: int) -> None:
        position = sampling.source_position(torch.tensor(xs), offset, num, den)
        assert position.dtype == torch.int64
        got = [Fraction(p, 2 * num) for p in position.tolist()]
        assert got == [reference_position(x, offset, num, den) for x in xs]

    def test_scale_one_copies(self) -> None:
        x = torch.arange(-3, 9)
        assert torch.equal(sampling.nearest_index(sampling.source_position(x, 4, 7, 7), 7), x - 4)

    def test_broadcasts_over_layers(self) -> None:
        offset, num = torch.tensor([[-5], [0], [7]]), torch.tensor([[3], [16], [40]])
        together = sampling.source_position(torch.arange(11), offset, num, 16)
        for row, o, n in zip(together, offset.flatten().tolist(), num.flatten().tolist(), strict=True):
            assert torch.equal(row, sampling.source_position(torch.arange(11), o, n, 16))


class TestNearest:
    @given(st.integers(-99, 99), OFFSETS, SIZES, SIZES)
    def test_is_the_pixel_that_holds_the_point(self, x: int, offset: int, num: int, den: int) -> None:
        position = sampling.source_position(torch.tensor(x), offset, num, den)
        want = floor(reference_position(x, offset, num, den) + Fraction(1, 2))
        assert int(sampling.nearest_index(position, num)) == want

    @given(SIZES, SIZES)
    def test_of_a_resize(self, size: int, out_size: int) -> None:
        position = sampling.source_position(torch.arange(out_size), 0, out_size, size)
        want = [floor((x + Fraction(1, 2)) * size / out_size) for x in range(out_size)]
        assert sampling.nearest_index(position, out_size).tolist() == want
        assert min(want) >= 0
        assert max(want) < size


class TestFilterTaps:
    @given(st.integers(-60, 60), OFFSETS, SIZES, SIZES, st.integers(0, 3))
    def test_triangle_filter(self, x: int, offset: int, num: int, den: int, spare: int) -> None:
        radius = max(Fraction(1), Fraction(den, num))
        position = sampling.source_position(torch.tensor(x), offset, num, den)
        first, weights = sampling.filter_taps(position, torch.tensor(num), den, ceil(2 * radius) + spare)
        assert first.dtype == weights.dtype == torch.int64
        assert int(weights.sum()) == sampling.WEIGHT_ONE == 2048
        assert int(weights.min()) >= 0
        want = reference_taps(reference_position(x, offset, num, den), radius)
        assert taps_of(first, weights) == {i: w for i, w in want.items() if w}

    @given(st.integers(-60, 60), OFFSETS, SIZES, SIZES)
    def test_plain_linear_taps_at_any_scale(self, x: int, offset: int, num: int, den: int) -> None:
        position = sampling.source_position(torch.tensor(x), offset, num, den)
        first, weights = sampling.filter_taps(position, torch.tensor(num), torch.tensor(num), 2)
        centre = reference_position(x, offset, num, den)
        upper = centre - floor(centre)
        want = {floor(centre): floor(2048 * (1 - upper)), floor(centre) + 1: 2048 - floor(2048 * (1 - upper))}
        assert taps_of(first, weights) == {i: w for i, w in want.items() if w}

    @pytest.mark.parametrize("num", [1, 2, 7, 16])
    def test_scale_one_reads_one_pixel(self, num: int) -> None:
        position = sampling.source_position(torch.arange(9), -2, num, num)
        first, weights = sampling.filter_taps(position, torch.tensor(num), num, 2)
        assert [taps_of(f, w) for f, w in zip(first, weights, strict=True)] == [{x + 2: 2048} for x in range(9)]

    def test_broadcasts_over_layers(self) -> None:
        num, offset = torch.tensor([[5], [16], [31]]), torch.tensor([[0], [-4], [9]])
        position = sampling.source_position(torch.arange(11), offset, num, 16)
        first, weights = sampling.filter_taps(position, num, 16, 7)
        for layer, scale in enumerate(num.flatten()):
            alone = sampling.filter_taps(position[layer], scale, 16, 7)
            assert torch.equal(first[layer], alone[0])
            assert torch.equal(weights[layer], alone[1])

    @pytest.mark.parametrize(("size", "out_size"), [(40, 13), (37, 8), (17, 16), (31, 31), (11, 29)])
    def test_agrees_with_torch_away_from_the_border(self, size: int, out_size: int) -> None:
        ramp = torch.rand(size, generator=torch.Generator().manual_seed(size))
        position = sampling.source_position(torch.arange(out_size), 0, out_size, size)
        radius = max(1.0, size / out_size)
        first, weights = sampling.filter_taps(position, torch.tensor(out_size), size, ceil(2 * radius))
        inside = (first >= 0) & (first + weights.shape[1] <= size)
        index = first[:, None] + torch.arange(weights.shape[1])
        got = (ramp[index.clamp(0, size - 1)] * weights).sum(1) / 2048
        want = torch.nn.functional.interpolate(
            ramp.reshape(1, 1, 1, -1), (1, out_size), mode="bilinear", antialias=True, align_corners=False
        ).flatten()
        assert int(inside.sum()) >= out_size - 4
        torch.testing.assert_close(got[inside], want[inside], rtol=0, atol=4 / 2048)


def reference_mix_depth(taps: list[float], valid: list[bool], weights: list[float], nearest: float) -> float | None:
    """Depth, or None where it is invalid."""
    used = [n for n, w in enumerate(weights) if w > 0]
    if not all(valid[n] and np.isfinite(taps[n]) for n in used):
        return None
    low, high = min(taps[n] for n in used), max(taps[n] for n in used)
    if high - low > 0.05 * high:
        return nearest
    return sum(taps[n] * weights[n] for n in used)


NUMBERS = st.sampled_from([0.5, 1.0, 1.02, 1.04, 1.5, 2.0, 7.0, float("nan"), float("inf")])
WEIGHTS = st.lists(st.integers(0, 8), min_size=4, max_size=4).filter(any)


class TestMixDepth:
    @given(st.lists(NUMBERS, min_size=4, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4), WEIGHTS)
    def test_against_a_slow_writing(self, taps: list[float], valid: list[bool], shares: list[int]) -> None:
        weights = [s / sum(shares) for s in shares]
        nearest = taps[int(np.argmax(shares))]
        depth, ok = sampling.mix_depth(
            torch.tensor([taps]), torch.tensor([valid]), torch.tensor([weights]), torch.tensor([nearest])
        )
        want = reference_mix_depth(taps, valid, weights, nearest)
        assert bool(ok) == (want is not None)
        assert float(depth) == pytest.approx(0.0 if want is None else want, rel=1e-6)

    @given(st.floats(0.125, 1e4, width=32), WEIGHTS)
    def test_one_plane_stays_bit_for_bit(self, plane: float, shares: list[int]) -> None:
        taps, weights = torch.full((1, 4), plane), torch.tensor([shares]) / sum(shares)
        depth, _ = sampling.mix_depth(taps, taps > 0, weights, taps[:, 0])
        assert torch.equal(depth, taps[:, 0])

    def test_a_weightless_invalid_tap_does_no_harm(self) -> None:
        taps, weights = torch.tensor([[2.0, torch.nan]]), torch.tensor([[1.0, 0.0]])
        depth, ok = sampling.mix_depth(taps, torch.tensor([[True, False]]), weights, torch.tensor([2.0]))
        assert (float(depth), bool(ok)) == (2.0, True)

    @pytest.mark.parametrize(("far", "want"), [(1.04, 1.02), (1.06, 1.0)])
    def test_where_an_edge_begins(self, far: float, want: float) -> None:
        taps = torch.tensor([[1.0, far]])
        depth, _ = sampling.mix_depth(taps, taps > 0, torch.tensor([[0.5, 0.5]]), torch.tensor([1.0]))
        assert float(depth) == pytest.approx(want)


def unit(*vector: float) -> Tensor:
    return torch.nn.functional.normalize(torch.tensor(vector), dim=0)


def mix(vectors: list[Tensor], weights: list[float], nearest: int = 0) -> Tensor:
    return sampling.mix_normals(
        torch.stack(vectors, -1)[:, None], torch.tensor([weights]), vectors[nearest][:, None]
    ).flatten()


class TestMixNormals:
    @given(st.integers(0, 999), WEIGHTS)
    def test_unit_and_along_the_mean(self, seed: int, shares: list[int]) -> None:
        vectors = np.random.default_rng(seed).normal(size=(3, 4))
        vectors[2] = -abs(vectors[2]) - 0.5
        vectors = (vectors / np.linalg.norm(vectors, axis=0)).astype(np.float32)
        weights = (np.array(shares) / sum(shares)).astype(np.float32)
        mean = (vectors.astype(np.float64) * weights).sum(1)
        taps = torch.from_numpy(vectors)
        nearest = taps[:, [int(weights.argmax())]]
        got = sampling.mix_normals(taps[:, None], torch.from_numpy(weights)[None], nearest)
        np.testing.assert_allclose(got[:, 0], mean / np.linalg.norm(mean), atol=1e-6)

    def test_opposite_vectors_leave_the_nearest(self) -> None:
        up = unit(0.0, -1.0, 0.0)
        assert torch.equal(mix([up, -up], [0.5, 0.5], nearest=1), -up)

    def test_a_pixel_read_at_its_centre_is_copied(self) -> None:
        long = torch.tensor([0.6, 0.8, 1e-3])  # its length is not 1 to the last bit
        assert torch.equal(mix([long, unit(1.0, 2.0, -2.0)], [1.0, 0.0]), long)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_what_is_no_number_is_no_normal(self, value: float) -> None:
        normal, hole = unit(1.0, 2.0, -2.0), torch.tensor([0.0, value, 1.0])
        torch.testing.assert_close(mix([normal, hole], [0.6, 0.4]), normal)
        assert torch.equal(mix([hole, normal], [0.6, 0.4]), torch.zeros(3))

    def test_invalid_nearest_is_invalid(self) -> None:
        assert torch.equal(mix([torch.zeros(3), unit(1.0, 2.0, -2.0)], [0.6, 0.4]), torch.zeros(3))

    def test_invalid_neighbour_does_not_shorten(self) -> None:
        normal = unit(1.0, 2.0, -2.0)
        torch.testing.assert_close(mix([normal, torch.zeros(3)], [0.6, 0.4]), normal)


class TestWeightedSum:
    def test_order_is_fixed(self) -> None:
        generator = torch.Generator().manual_seed(0)
        taps, weights = torch.randn(2, 13, 7, generator=generator), torch.rand(13, 7, generator=generator)
        slow = np.zeros((2, 13), np.float32)
        for t in range(7):
            slow = slow + taps[..., t].numpy() * weights[..., t].numpy()
        whole = sampling.weighted_sum(taps, weights)
        assert torch.equal(whole, torch.from_numpy(slow))
        assert torch.equal(whole[:, 3:5], sampling.weighted_sum(taps[:, 3:5], weights[3:5]))

    def test_norm3(self) -> None:
        assert sampling.norm3(torch.tensor([[2.0, 0.0], [3.0, 0.0], [6.0, 0.0]])).tolist() == [7.0, 0.0]


@pytest.mark.parametrize(("near", "far", "want"), [(1.0, 1.051, 1.0255), (38.0, 40.0, 39.0)])
def test_an_edge_is_more_than_the_fraction_of_the_larger(near: float, far: float, want: float) -> None:
    taps = torch.tensor([[near, far]])
    depth, _ = sampling.mix_depth(taps, taps > 0, torch.tensor([[0.5, 0.5]]), torch.tensor([near]))
    assert float(depth) == pytest.approx(want)


def test_a_sum_that_all_but_vanishes_leaves_the_nearest() -> None:
    up, nearly_down = torch.tensor([0.0, -1.0, 0.0]), torch.tensor([1e-3, 1.0, 0.0])
    taps, weights = torch.stack([up, nearly_down], -1)[:, None], torch.tensor([[0.5, 0.5]])
    assert torch.equal(sampling.mix_normals(taps, weights, up[:, None])[:, 0], up)
