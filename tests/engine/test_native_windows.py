"""The native reader of images, masks and run lengths against torchvision, NumPy and pycocotools."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_native import LEVELS
from torch import Tensor

from fresh_process import fresh_output
from samples import tight_boxes
from segpaste.datasets.cutting import CutSide, cut_out
from segpaste.engine.native import library, windows
from segpaste.engine.select import use_backend
from segpaste.types.sampling import Window


def make_window(sizes: Any, corner: tuple[int, int], flip: bool) -> Window:
    """Return a window whose corner is taken modulo the places where it fits."""
    canvas, resized, size = sizes
    top, left = (c % (max(r - s, 0) + 1) for c, r, s in zip(corner, resized, size, strict=True))
    return Window(canvas, resized, flip, (top, left), size)


sides = st.one_of(st.integers(1, 9), st.integers(1, 70))
pairs = st.tuples(sides, sides)
any_window = st.builds(
    make_window, st.tuples(pairs, pairs, pairs), st.tuples(st.integers(0, 99), st.integers(0, 99)), st.booleans()
)


def noise(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def _reference_cut(resized: Tensor, window: Window, fill: int) -> Tensor:
    """Flip, cut and pad [..., H, W] that is resized already."""
    value = resized.flip(-1) if window.flip else resized
    (top, left), (height, width) = window.corner, window.inside
    out = torch.full((*value.shape[:-2], *window.size), fill, dtype=value.dtype)
    out[..., :height, :width] = value[..., top : top + height, left : left + width]
    return out


def _reference_image(image: Tensor, window: Window, fill: int) -> Tensor:
    """Resize by torch's own kernel of uint8."""
    resized = torch.nn.functional.interpolate(image[None], window.resized, mode="bilinear", antialias=True)[0]
    return _reference_cut(resized, window, fill)


def _reference_planes(planes: Tensor, window: Window, fill: int) -> Tensor:
    """Look for the square that holds each centre, one pixel at a time."""
    rows, cols = (
        [min((2 * i + 1) * size // (2 * out), size - 1) for i in range(out)]
        for size, out in zip(window.canvas_size, window.resized, strict=True)
    )
    return _reference_cut(planes[..., rows, :][..., cols], window, fill)


def _reference_runs(mask: np.ndarray[Any, Any]) -> list[int]:
    flat = mask.T.flatten().tolist()
    return ([0] if flat[0] else []) + [len(list(group)) for _, group in itertools.groupby(flat)]


class TestReadImage:
    @given(any_window, st.integers(1, 4), st.sampled_from([0, 1, 3, 4, 5]), st.integers(0, 255), st.integers(0, 99))
    def test_equals_torch(self, window: Window, channels: int, pixel_size: int, fill: int, seed: int) -> None:
        image = noise((channels, *window.canvas_size), seed)
        if pixel_size:  # channels are adjacent in pixels of at least so many bytes, of which they are the last ones
            pixels = noise((*window.canvas_size, max(pixel_size, channels)), seed + 1)
            pixels[..., -channels:] = image.permute(1, 2, 0)
            image = pixels.permute(2, 0, 1)[-channels:]
        if not windows.takes_image(image, window):
            assert window.resized == (1, 1)
            return
        out = torch.full((channels, *window.size), 17, dtype=torch.uint8)
        windows.read_image(image, window, fill, out)
        assert torch.equal(out, _reference_image(image.contiguous(), window, fill))

    @pytest.mark.parametrize("resized", [(48, 64), (480, 640), (601, 900), (3, 1000), (700, 2), (1, 7)])
    @pytest.mark.parametrize("value", [0, 255])
    def test_black_and_white_stay(self, resized: tuple[int, int], value: int) -> None:
        image = torch.full((3, 60, 80), value, dtype=torch.uint8)
        out = torch.empty(3, *resized, dtype=torch.uint8)
        windows.read_image(image, Window((60, 80), resized, False, (0, 0), resized), 9, out)
        assert torch.equal(out, _reference_image(image, Window((60, 80), resized, False, (0, 0), resized), 9))

    def test_same_size_is_a_copy(self) -> None:
        image, out = noise((3, 23, 31), 0), torch.empty(3, 23, 31, dtype=torch.uint8)
        windows.read_image(image, Window((23, 31), (23, 31), False, (0, 0), (23, 31)), 0, out)
        assert torch.equal(out, image)

    def test_what_lies_around_does_not_count_and_stays(self) -> None:
        window = Window((7, 5), (9, 11), True, (0, 2), (9, 8))
        expected = None
        for surround in (0, 255):
            block = torch.full((3 * 7 * 5 + 128,), surround, dtype=torch.uint8)
            block[64 : 64 + 105] = noise((105,), 1)
            image = block[64 : 64 + 105].view(7, 5, 3).permute(2, 0, 1)
            room = torch.full((3 * 72 + 128,), 77, dtype=torch.uint8)
            windows.read_image(image, window, 0, room[64 : 64 + 216].view(3, 9, 8))
            assert (room[:64] == 77).all()
            assert (room[-64:] == 77).all()
            expected = room if expected is None else expected
            assert torch.equal(room, expected)

    def test_takes_images_of_few_channels_and_bytes(self) -> None:
        window = Window((4, 4), (5, 5), False, (0, 0), (5, 5))
        assert windows.takes_image(noise((4, 4, 4), 0), window)
        assert not windows.takes_image(noise((5, 4, 4), 0), window)
        assert not windows.takes_image(noise((3, 4, 4), 0).float(), window)
        assert not windows.takes_image(noise((3, 4, 4), 0), window._replace(resized=(1, 1)))

    @pytest.mark.parametrize("shape", [(3, 5, 5), (2, 6, 5), (3, 6, 4)])
    def test_other_shapes_are_refused(self, shape: tuple[int, int, int]) -> None:
        window = Window((4, 4), (6, 5), False, (0, 0), (6, 5))
        with pytest.raises(ValueError, match=r"expected \(4, 4\) pixels into \(3, 6, 5\)"):
            windows.read_image(noise((3, 4, 4), 0), window, 0, torch.empty(shape, dtype=torch.uint8))
        with pytest.raises(ValueError, match="dense"):
            windows.read_image(noise((3, 4, 4), 0), window, 0, torch.empty(3, 5, 6, dtype=torch.uint8).mT)


class TestReadPlanes:
    @given(any_window, st.integers(0, 3), st.sampled_from([0.0, 0.03, 0.5, 1.0]), st.integers(0, 99))
    def test_masks_and_their_measures(self, window: Window, num: int, density: float, seed: int) -> None:
        masks = torch.from_numpy(np.random.default_rng(seed).random((num, *window.canvas_size)) < density)
        out = torch.ones(num, *window.size, dtype=torch.bool)
        found = windows.read_planes(masks, window, 0, out)
        expected = _reference_planes(masks, window, 0)
        assert torch.equal(out, expected)
        assert found is not None
        assert found[:, 0].tolist() == expected.sum((1, 2)).tolist()
        assert found[:, 1:].tolist() == tight_boxes(expected.numpy()).tolist()

    @given(any_window, st.integers(0, 99))
    def test_maps_and_padding(self, window: Window, seed: int) -> None:
        labels = torch.from_numpy(np.random.default_rng(seed).integers(-(2**62), 2**62, (1, *window.canvas_size)))
        out = torch.empty(1, *window.size, dtype=torch.int64)
        assert windows.read_planes(labels, window, 255, out) is None
        assert torch.equal(out, _reference_planes(labels, window, 255))
        padding = labels > 0
        padded = torch.empty(1, *window.size, dtype=torch.bool)
        windows.read_planes(padding, window, 1, padded)
        assert torch.equal(padded, _reference_planes(padding, window, 1))


class TestReadRuns:
    @given(any_window, st.sampled_from([0.0, 0.03, 0.5, 1.0]), st.booleans(), st.integers(0, 99))
    def test_equals_the_mask_resized(self, window: Window, density: float, as_text: bool, seed: int) -> None:
        mask = np.random.default_rng(seed).random(window.canvas_size) < density
        counts: Any = np.array(_reference_runs(mask), np.int64)
        if as_text:
            from pycocotools import mask as coco_mask

            counts = coco_mask.encode(np.asfortranarray(mask.view(np.uint8)))["counts"]
        out = torch.zeros(window.size, dtype=torch.bool)
        shown = windows.read_runs(counts, window, out)
        expected = _reference_planes(torch.from_numpy(mask), window, 0)
        assert torch.equal(out, expected)
        assert shown is not None
        assert (shown.source_area, shown.area) == (mask.sum(), expected.sum())
        assert list(shown.box) == tight_boxes(expected[None].numpy())[0].tolist()
        assert windows.read_runs(counts, window) == shown

    def test_runs_that_touch(self) -> None:
        """Foreground may be split by background of no length, also at the end of a column."""
        window = Window((3, 2), (6, 4), True, (1, 0), (4, 4))
        out = torch.zeros(4, 4, dtype=torch.bool)
        windows.read_runs(np.array([1, 1, 0, 1, 0, 2, 1], np.int64), window, out)
        mask = torch.tensor([[False, True], [True, True], [True, False]])
        assert torch.equal(out, _reference_planes(mask, window, 0))

    @pytest.mark.parametrize(
        "counts",
        [b"", b"\x20", b"\x7f", b"P", b"PPPPPPP0", b"0", np.array([5]), np.array([7]), np.array([7, -1]), np.array([])],
    )
    def test_broken_runs(self, counts: Any) -> None:
        window = Window((3, 2), (3, 2), False, (0, 0), (3, 2))
        assert windows.read_runs(counts, window) is None

    def test_lengths_whose_sum_overflows(self) -> None:
        window = Window((3, 2), (3, 2), False, (0, 0), (3, 2))
        assert windows.read_runs(np.array([2**63 - 1, 2**63 - 1, 8], np.int64), window) is None


@cache
def digest_of_windows() -> str:
    """Return a digest of what windows of many sizes show."""
    found, draw = hashlib.sha256(), random.Random(5)
    for seed in range(60):
        sizes = [(draw.randint(1, 90), draw.randint(1, 90)) for _ in range(3)]
        window = make_window(sizes, (draw.randint(0, 99), draw.randint(0, 99)), draw.random() < 0.5)
        image = noise((1 + seed % 4, *window.canvas_size), seed)
        for planes, read in ((image, windows.read_image), (image // 128, windows.read_planes)):
            if read is windows.read_image and not windows.takes_image(image, window):
                continue
            out = torch.empty(len(planes), *window.size, dtype=torch.uint8)
            read(planes, window, 3, out)  # type: ignore[operator]
            found.update(out.numpy().tobytes())
    for num in (7, 5, 3):
        size, (rows, cols), scale = make_cut((61, 83), ((3, 90), (5, 77)), (8 * num, 9 * num), 7)
        for layout in ("planes", "pixels"):
            for part in cut_out(picture(size, layout), noise(size, 1) < 99, rows, cols, scale):
                found.update(part.numpy().tobytes())
    return found.hexdigest()


def make_cut(sizes: Any, edges: Any, room: tuple[int, int], den: int) -> tuple[tuple[int, int], Any, tuple[int, int]]:
    """Return the size of an image, the axes of a cut in it, and its scale, at which the content fits."""
    content = []
    for size, (one, other) in zip(sizes, edges, strict=True):
        start = one % size
        content.append((start, start + 1 + other % (size - start)))
    num = min([den, *(den * most // (end - start) for (start, end), most in zip(content, room, strict=True))])
    scale = max(num, 1), den
    sides = [CutSide.of(*pair, size, most, *scale) for pair, size, most in zip(content, sizes, room, strict=True)]
    return sizes, [side._replace(room=max(side.room, side.size)) for side in sides], scale


edges = st.tuples(st.integers(0, 99), st.integers(0, 99))
any_cut = st.builds(make_cut, pairs, st.tuples(edges, edges), pairs, st.integers(1, 9))


def picture(size: tuple[int, int], layout: str) -> Tensor:
    """Return noise [3, H, W], whose channels are planes, or adjacent in memory, or of a wider pixel."""
    if layout == "planes":
        return noise((3, *size), 3)
    return noise((*size, 3 if layout == "pixels" else 4), 3).permute(2, 0, 1)[:3]


@pytest.mark.parametrize("layout", ["planes", "pixels", "wide pixels"])
@given(cut=any_cut)
def test_cuts_are_those_of_the_reference(cut: Any, layout: str) -> None:
    size, (rows, cols), scale = cut
    image, mask = picture(size, layout), noise(size, 4) < 128
    rows, cols = (side._replace(before=max(0, (side.room - side.size) // 2)) for side in (rows, cols))
    found = cut_out(image, mask, rows, cols, scale)
    with use_backend("reference"):
        expected = cut_out(image, mask, rows, cols, scale)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@given(cut=any_cut)
def test_a_part_of_the_image_is_enough(cut: Any) -> None:
    size, (rows, cols), scale = cut
    image, mask = noise((3, *size), 5), noise(size, 6) < 128
    rows, cols = (side._replace(before=0) for side in (rows, cols))
    (y1, y2), (x1, x2) = rows.reach(*scale), cols.reach(*scale)
    part = image[:, y1:y2, x1:x2], mask[y1:y2, x1:x2], rows.within(y1, y2), cols.within(x1, x2)
    expected = cut_out(image, mask, rows, cols, scale)
    assert all(torch.equal(one, other) for one, other in zip(cut_out(*part, scale), expected, strict=True))


def test_a_cut_outside_of_the_image_is_refused() -> None:
    side, image, mask = CutSide.of(0, 5, 5, 5, 1, 1), noise((3, 5, 5), 0), torch.ones(5, 5, dtype=torch.bool)
    for wrong in (side._replace(end=6), side._replace(start=-1), side._replace(size=6), side._replace(before=1)):
        for rows, cols in ((side, wrong), (wrong, side)):
            with pytest.raises(ValueError, match="expected CutSide"):
                cut_out(image, mask, rows, cols, (1, 1))
    for scale in ((2, 1), (0, 1)):
        with pytest.raises(ValueError, match="expected CutSide"):
            cut_out(image, mask, side, side, scale)


@pytest.mark.parametrize("level", LEVELS)
def test_all_instruction_sets_give_the_same_bits(level: str) -> None:
    if library.load().segpaste_level() < LEVELS[level]:
        pytest.skip(f"this processor has no {level}")
    code = "from test_native_windows import digest_of_windows; print(digest_of_windows())"
    assert fresh_output(code, SEGPASTE_ISA=level) == digest_of_windows()


def test_records_are_as_long_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is longer on one side would be read beyond its end."""
    found: list[int] = []
    call = windows._call

    def measured(name: str, words: list[int]) -> int:
        found.append(8 * len(words))
        return call(name, words)

    monkeypatch.setattr(windows, "_call", measured)
    window = Window((3, 2), (3, 2), False, (0, 0), (3, 2))
    image = noise((1, 3, 2), 0)
    windows.read_image(image, window, 0, image.clone())
    windows.read_planes(image, window, 0, image.clone())
    windows.read_runs(b"", window)
    side = CutSide.of(0, 1, 1, 1, 1, 1)
    rgb, mask = noise((3, 1, 1), 0), torch.ones(1, 1, 1, dtype=torch.bool)
    windows.cut_out(rgb, mask[0], side, side, (1, 1), rgb.clone(), mask.clone())
    assert found == list((ctypes.c_int64 * 4).in_dll(library.load(), "segpaste_window_sizes"))
