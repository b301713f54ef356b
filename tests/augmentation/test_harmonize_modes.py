"""Each mode against its slow reference, and what holds for all of them: where they write, ranges, rows, devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from harmonize_cases import (
    SIZES,
    Array,
    Pasted,
    make_pasted,
    pasted_images,
    reference_blur,
    reference_edge_weight,
    reference_multiband,
    reference_poisson,
    reference_reinhard,
)
from hypothesis import given, settings

from segpaste import seeding
from segpaste.augmentation import HarmonizeConfig, poisson
from segpaste.augmentation.harmonize import MODES, Harmonizer, edge_weight, fitted, is_near

ALL_MODES = pytest.mark.parametrize("mode", sorted(MODES))
DTYPES = (torch.float32, torch.uint8, torch.float16, torch.bfloat16)


def make_config(mode: str, **values: Any) -> HarmonizeConfig:
    return HarmonizeConfig.model_validate({"mode": mode, "prob": 1.0, "surround_px": 3, **values})


def run(pasted: Pasted, config: HarmonizeConfig) -> torch.Tensor:
    seeds = torch.arange(len(pasted.composed)) * 7919 + 1
    return Harmonizer(config)(pasted.composed, pasted.target, pasted.visible, seeds, pasted.padding_mask)


def raw(pasted: Pasted, config: HarmonizeConfig) -> torch.Tensor:
    """Return the result of the mode before it is rounded and clamped to the range."""
    images = pasted.composed.float(), pasted.target.float()
    return MODES[config.mode](*images, pasted.visible[:, None], pasted.outside[:, None], config)


def assert_as_reference(pasted: Pasted, config: HarmonizeConfig, reference: Callable[..., Array], atol: float) -> None:
    actual = raw(pasted, config).double().numpy()
    for b in range(len(actual)):
        images = pasted.composed[b].double().numpy(), pasted.target[b].double().numpy()
        inside = pasted.visible[b].numpy()
        expected = reference(*images, inside, pasted.outside[b].numpy())
        np.testing.assert_allclose(actual[b][:, inside], expected[:, inside], rtol=0, atol=atol)


EXPLORED = settings(max_examples=settings().max_examples * 4 // 3)
"""24 images, and 666 with SEGPASTE_HYPOTHESIS=thorough."""


class TestAgainstReferences:
    @EXPLORED
    @given(pasted=pasted_images())
    def test_reinhard(self, pasted: Pasted) -> None:
        config = make_config("reinhard", max_gain=1.5)
        assert_as_reference(pasted, config, lambda *image: reference_reinhard(*image, 3, 1.5), 1e-5)

    @EXPLORED
    @given(pasted=pasted_images())
    def test_multiband(self, pasted: Pasted) -> None:
        for levels in (1, 2, 5, 12):
            config = make_config("multiband", pyramid_levels=levels)
            assert_as_reference(pasted, config, lambda *image, n=levels: reference_multiband(*image, n), 1e-5)

    @EXPLORED
    @given(pasted=pasted_images())
    def test_poisson(self, pasted: Pasted) -> None:
        assert_as_reference(pasted, make_config("poisson"), reference_poisson, 1e-3)

    @EXPLORED
    @given(pasted=pasted_images())
    def test_feather(self, pasted: Pasted) -> None:
        for feather_px in (1, 2, 7):
            config = HarmonizeConfig(feather_px=feather_px)
            weight = edge_weight(pasted.visible[:, None], pasted.outside[:, None], config)[:, 0]
            for b in range(len(weight)):
                inside, outside = pasted.visible[b].numpy(), pasted.outside[b].numpy()
                expected = reference_edge_weight(inside, outside, feather_px)
                np.testing.assert_allclose(weight[b].numpy(), expected, rtol=0, atol=1e-6)
            blend = pasted.target + (pasted.composed - pasted.target) * weight[:, None]
            torch.testing.assert_close(run(pasted, config), blend, rtol=0, atol=1e-6)

    @EXPLORED
    @given(pasted=pasted_images())
    def test_blur(self, pasted: Pasted) -> None:
        for blur_px in (0.5, 1.0, 3.3):
            config = HarmonizeConfig(blur_px=blur_px)
            weight = edge_weight(pasted.visible[:, None], pasted.outside[:, None], config)[:, 0]
            for b in range(len(weight)):
                inside, outside = pasted.visible[b].numpy(), pasted.outside[b].numpy()
                expected = np.where(inside, reference_blur(inside, outside, blur_px), 1.0)
                np.testing.assert_allclose(weight[b].numpy(), expected, rtol=0, atol=2e-3)
            blend = pasted.target + (pasted.composed - pasted.target) * weight[:, None]
            torch.testing.assert_close(run(pasted, config), blend, rtol=0, atol=1e-6)


ROWS, COLS = np.mgrid[:150, :131]
SHAPES = {
    "disc": np.hypot(ROWS - 75, COLS - 60) < 58,
    "corner": (ROWS < 120) & (COLS < 100),
    "comb": (ROWS < 130) & ((COLS % 9 < 5) | (ROWS < 8)),
    "snake": (ROWS % 2 == 0) | ((COLS == 0) & (ROWS % 4 == 1)) | ((COLS == 130) & (ROWS % 4 == 3)),
    "all but one": (ROWS > 0) | (COLS > 0),
    "holes": np.random.default_rng(1).random(ROWS.shape) < 0.97,
    "sieve": np.random.default_rng(1).random(ROWS.shape) < 0.6,
}


class TestReinhard:
    def test_mean_and_spread_become_those_around(self) -> None:
        images = make_pasted((40, 50), 1, seed=5)
        out = raw(images, make_config("reinhard", surround_px=4096, max_gain=100))
        inside = images.visible[0]
        for c in range(3):
            pasted, ground = out[0, c][inside], images.target[0, c][~inside]
            torch.testing.assert_close(pasted.mean(), ground.mean(), rtol=0, atol=1e-5)
            torch.testing.assert_close(pasted.std(correction=0), ground.std(correction=0), rtol=1e-4, atol=0)

    def test_one_colour_stays_one_colour(self) -> None:
        """Rounding in a mean must not look like a spread, which would be stretched to that of the surroundings."""
        pasted = make_pasted((40, 50), 1)
        for colour in (0.1, 100.3, -7.7, 3e-5):
            composed = torch.where(pasted.visible[:, None], colour, pasted.composed)
            out = raw(pasted._replace(composed=composed), make_config("reinhard", max_gain=1e6))
            mean = pasted.target[0][:, is_near(pasted.visible[:, None], 3)[0, 0] & ~pasted.visible[0]].mean(1)
            for c in range(3):
                assert (out[0, c][pasted.visible[0]] - mean[c]).abs().max() < 1e-5


class TestPoisson:
    @pytest.mark.parametrize("name", sorted(SHAPES))
    @pytest.mark.parametrize("is_smooth", [True, False])
    def test_converges(self, name: str, is_smooth: bool) -> None:
        """The largest error is small, next to the largest change, where the change that solves it is known."""
        rng = np.random.default_rng(0)
        exact = rng.uniform(-1, 1, ROWS.shape)
        exact = exact.cumsum(0).cumsum(1) if is_smooth else exact
        inside = torch.from_numpy(SHAPES[name])[None, None]
        change = torch.where(inside, torch.from_numpy(exact / np.abs(exact).max()).float(), 0.0)
        target = torch.zeros_like(change)
        grid, _ = poisson._equations(target, target, inside, ~inside)
        grids = [grid]
        while max(grids[-1].total.shape[-2:]) > 1:
            grids.append(poisson._coarser(grids[-1]))
        found = poisson._solved(grids, poisson._applied(grid, change), HarmonizeConfig().poisson_cycles)
        assert (found - change).abs().max() < 1e-3

    def test_padding_and_the_end_of_the_canvas_are_alike(self) -> None:
        images = make_pasted((12, 16), 1)
        visible = torch.zeros_like(images.visible)
        visible[:, 4:, 5:] = True
        target = images.target
        composed = torch.where(visible[:, None], images.composed + 0.3, target)
        cut = run(Pasted(composed, target, visible, None), make_config("poisson", feather_px=3))
        wide = [torch.nn.functional.pad(x, (0, 5, 0, 3)) for x in (composed, target, visible)]
        is_padding = torch.nn.functional.pad(torch.zeros_like(visible), (0, 5, 0, 3), value=True)[:, None]
        padded = run(Pasted(*wide, is_padding), make_config("poisson", feather_px=3))
        torch.testing.assert_close(padded[..., :12, :16], cut, rtol=0, atol=1e-4)

    def test_a_shift_of_all_colours_is_undone(self) -> None:
        """A region that is cut out of the target and pasted back brighter becomes the target again."""
        target = make_pasted((33, 41), 1).target
        visible = make_pasted((33, 41), 1, seed=3).visible
        smooth = target.cumsum(-1).cumsum(-2) / 1000
        composed = torch.where(visible[:, None], smooth + 0.3, smooth)
        out = run(Pasted(composed, smooth, visible, None), make_config("poisson"))
        jump = 0.3 + (smooth.diff(dim=-1).abs().max() + smooth.diff(dim=-2).abs().max())
        assert (out - smooth).abs().max() < 0.2 * jump


class TestEveryMode:
    @ALL_MODES
    @settings(max_examples=40, deadline=None)
    @given(pasted=pasted_images(*DTYPES))
    def test_writes_inside_of_pastes_only_and_stays_in_range(self, pasted: Pasted, mode: str) -> None:
        for feather_px in (0, 3):
            before = pasted.composed.clone(), pasted.target.clone()
            out = run(pasted, make_config(mode, feather_px=feather_px))
            assert out.dtype == pasted.composed.dtype
            assert out.isfinite().all()
            unseen = ~pasted.visible[:, None].expand_as(out)
            assert torch.equal(out[unseen], pasted.target[unseen])
            assert torch.equal(pasted.composed, before[0])
            assert torch.equal(pasted.target, before[1])
            for b in range(len(out)):
                both = torch.stack([pasted.composed[b], pasted.target[b]]).float()
                if out.is_floating_point():
                    assert both.min() <= out[b].float().min()
                    assert out[b].float().max() <= both.max()

    @ALL_MODES
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_does_something(self, mode: str, dtype: torch.dtype) -> None:
        pasted = make_pasted(batch_size=4, dtype=dtype)
        moved = (run(pasted, make_config(mode)).float() - pasted.composed.float()).abs().amax((1, 2, 3))
        assert (moved > 1e-5).tolist() == [True, True, False, False]  # the third is all paste, the fourth has none

    @ALL_MODES
    @pytest.mark.parametrize(("factor", "offset"), [(255.0, 0.0), (4.0, -2.0), (1e-3, 100.0), (-1.0, 0.0)])
    def test_any_range_of_values(self, mode: str, factor: float, offset: float) -> None:
        pasted = make_pasted((17, 13), 4)
        moved = pasted._replace(composed=pasted.composed * factor + offset, target=pasted.target * factor + offset)
        actual, expected = (run(g, make_config(mode)) for g in (moved, pasted))
        atol = 2e-5 * abs(factor) + 2e-6 * abs(offset)
        torch.testing.assert_close(actual, expected * factor + offset, rtol=0, atol=atol)

    @ALL_MODES
    def test_uint8_is_the_float_result_rounded(self, mode: str) -> None:
        pasted = make_pasted((17, 13), 4, dtype=torch.uint8)
        wide = pasted._replace(composed=pasted.composed.float(), target=pasted.target.float())
        out, exact = run(pasted, make_config(mode)), raw(wide, make_config(mode))
        expected = torch.where(pasted.visible[:, None], exact, wide.composed).round().clamp(0, 255)
        assert torch.equal(out.float(), expected)

    @ALL_MODES
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("size", SIZES, ids=str)
    def test_a_row_does_not_depend_on_the_others(self, mode: str, dtype: torch.dtype, size: tuple[int, int]) -> None:
        """A row is the same bit for bit, alone or in any batch, in the operator and where rows run together."""
        pasted = make_pasted(size, 4, dtype=dtype)
        config = make_config(mode, feather_px=2)
        masks = pasted.visible[:, None], pasted.outside[:, None]
        drawn = torch.ones(4, dtype=torch.bool)
        together = fitted(pasted.composed, pasted.target, *masks, drawn, config)
        assert torch.equal(together, run(pasted, config))
        for b in range(4):
            one = [x[b : b + 1] for x in (pasted.composed, pasted.target, *masks, drawn)]
            assert torch.equal(fitted(*one, config)[0], together[b])
        swapped = fitted(*(x.flip(0) for x in (pasted.composed, pasted.target, *masks, drawn)), config)
        assert torch.equal(swapped.flip(0), together)
        mixed = torch.tensor([True, False, False, True])
        some = fitted(pasted.composed, pasted.target, *masks, mixed, make_config(mode))
        assert torch.equal(some[~mixed], pasted.composed[~mixed])

    @ALL_MODES
    def test_one_colour_all_over(self, mode: str) -> None:
        pasted = make_pasted((11, 8), 4)
        flat = torch.full_like(pasted.target, -0.3)
        for composed in (flat, torch.where(pasted.visible[:, None], 0.7, flat)):
            out = run(pasted._replace(composed=composed, target=flat), make_config(mode, feather_px=1))
            assert out.isfinite().all()
            if composed is flat:
                torch.testing.assert_close(out, flat, rtol=0, atol=1e-6)

    @ALL_MODES
    def test_the_step_at_the_edge_shrinks(self, mode: str) -> None:
        """The paste is brighter all over."""
        rows, cols = np.mgrid[:64, :64]
        visible = torch.from_numpy((np.hypot(rows - 30, cols - 30) < 22) | (rows > 58))[None]
        target = torch.from_numpy(rows + cols).float()[None, None] / 400
        composed = torch.where(visible[:, None], target + 0.4, target)
        out = run(Pasted(composed, target, visible, None), make_config(mode))
        edge = visible[:, :, 1:] != visible[:, :, :-1]
        step, was = (x.diff(dim=-1).abs()[:, 0][edge].mean() for x in (out, composed))
        assert step < 0.4 * was

    @pytest.mark.parametrize("num_padded", [0, 1, 9])
    def test_multiband_and_feather_keep_the_end_of_the_picture(self, num_padded: int) -> None:
        """Far from the edge of a paste that reaches the end, the paste is unchanged there."""
        visible = torch.zeros(1, 21, 64, dtype=torch.bool)
        visible[..., 8 : 64 - num_padded] = True
        is_padding = torch.zeros(1, 1, 21, 64, dtype=torch.bool)
        is_padding[..., 64 - num_padded :] = True
        target = torch.zeros(1, 3, 21, 64)
        composed = torch.where(visible[:, None], 0.5 + torch.rand(target.shape), target)
        config = make_config("multiband", pyramid_levels=4, feather_px=5)
        out = run(Pasted(composed, target, visible, is_padding), config)
        torch.testing.assert_close(out[..., 8 + 32 :], composed[..., 8 + 32 :], rtol=0, atol=1e-6)
        assert (out[..., 8] < 0.2 * composed[..., 8]).all()

    @ALL_MODES
    def test_memory_format_is_kept(self, mode: str) -> None:
        pasted = make_pasted(batch_size=4)
        last = [x.contiguous(memory_format=torch.channels_last) for x in pasted[:2]]
        out = run(Pasted(*last, *pasted[2:]), make_config(mode, feather_px=2))
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(out, run(pasted, make_config(mode, feather_px=2)))

    @ALL_MODES
    def test_only_images_that_are_drawn(self, mode: str) -> None:
        pasted = make_pasted((5, 6), 1, seed=4)
        pasted = Pasted(*(x.repeat(40, *[1] * (x.ndim - 1)) for x in pasted[:3]), None)
        seeds = torch.arange(40) * 31 - 7
        drawn = seeding.random_bernoulli(seeds, "harmonize", 0.4)
        assert 5 < int(drawn.sum()) < 35
        out = Harmonizer(make_config(mode, prob=0.4))(*pasted[:3], seeds)
        assert torch.equal((out != pasted.composed).flatten(1).any(1), drawn)
        feathered = Harmonizer(make_config(mode, prob=0.4, feather_px=1))(*pasted[:3], seeds)
        assert (feathered != pasted.composed).flatten(1).any(1).all()

    @ALL_MODES
    def test_no_image(self, mode: str) -> None:
        pasted = Pasted(*(x[:0] for x in make_pasted()[:3]), None)
        assert run(pasted, make_config(mode, feather_px=1)).shape == (0, 3, 17, 13)
