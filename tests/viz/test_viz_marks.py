"""Marks of pictures: colours, outlines, letters and their plates."""

from __future__ import annotations

import colorsys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from viz_cases import NAMES, border_layer, masks_of, neighbours

from samples import Array
from segpaste.viz import _marks, _text, palette
from segpaste.viz._marks import blend, segment_borders
from segpaste.viz._text import plain
from segpaste.viz.palette import class_color, instance_color


class TestPalette:
    def test_ids_are_stable_and_far_apart(self) -> None:
        colours = np.array([palette.instance_color(i) for i in range(1, 65)], dtype=int)
        steps = np.abs(np.diff(colours, axis=0)).sum(-1)
        assert steps.min() > 90
        assert len(np.unique(colours, axis=0)) == 64
        assert palette.instance_color(3) == tuple(colours[2])

    def test_no_hue_is_near_the_highlight(self) -> None:
        def hue(colour: palette.RGB) -> float:
            return 360 * colorsys.rgb_to_hsv(*(c / 255 for c in colour))[0]

        for colour in (palette.instance_color, palette.class_color):
            assert min(abs(hue(colour(i)) - hue(palette.HIGHLIGHT)) for i in range(2000)) > 10

    @given(st.integers(0, 2**53))
    def test_any_id_has_a_colour(self, instance_id: int) -> None:
        assert all(0 <= c <= 255 for c in palette.instance_color(instance_id))

    def test_oklch_reference_values(self) -> None:
        white, black, red = palette.oklch_to_srgb(
            np.array([1.0, 0.0, 0.6279554]), np.array([0, 0, 0.2576833]), np.array([0, 0, 29.2338804])
        )
        assert np.allclose(white, 1, atol=1e-4)
        assert np.allclose(black, 0, atol=1e-4)
        assert np.allclose(red, [1, 0, 0], atol=1e-3)

    def test_text_has_contrast_on_every_plate(self) -> None:
        for i in range(1, 200):
            background = palette.instance_color(i)
            luminance = [
                float((((np.array(c) / 255 + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)) + 0.05
                for c in (background, palette.text_color(background))
            ]
            assert max(luminance) / min(luminance) > 3


class TestShapes:
    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((6, 5)))
    def test_outline_and_rim_against_the_slow_writing(self, mask: Array) -> None:
        assert np.array_equal(_marks.outline(mask), border_layer(mask))
        assert np.array_equal(_marks.rim(mask), neighbours(mask))
        two = neighbours(mask)
        assert np.array_equal(_marks.rim(mask, 2), two | neighbours(mask | two))

    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((7, 5)))
    def test_window_holds_the_mask(self, mask: Array) -> None:
        where = _marks.window(mask, 0)
        if where is None:
            assert not mask.any()
        else:
            assert mask[where].sum() == mask.sum()
            part = mask[where]
            assert all(edge.any() for edge in (part[0], part[-1], part[:, 0], part[:, -1]))

    def test_the_centre_of_a_lollipop_is_in_its_head(self) -> None:
        mask = np.zeros((200, 300), bool)
        mask[90:110, :] = True
        mask[50:150, 200:300] = True
        x, y = _marks.centre_of(mask)
        assert 230 < x < 270
        assert 80 < y < 120
        assert _marks.centre_of(np.zeros((3, 3), bool)) is None


class TestText:
    def test_names(self) -> None:
        assert _text.class_name(5, NAMES) == "cat"
        assert _text.class_name(6, NAMES) == "class 6"
        assert _text.class_name(1, ["a", "b"]) == "b"
        assert _text.class_name(-1, ["a", "b"]) == "class -1"
        assert _text.class_name(2, None) == "class 2"

    def test_only_letters_that_the_font_has(self) -> None:
        assert _text.plain("Café\nau\tlait") == "Cafe au lait"
        assert _text.plain("猫", fallback="class 3") == "class 3"
        assert len(_text.plain("x" * 99)) == 24

    def test_a_line_is_cut_to_its_width(self) -> None:
        short = _text.fitted("a_very_long_file_name_0000012345.jpg", 90, 13)
        assert short.endswith("...")
        assert _text.text_width(short, 13) <= 90
        assert _text.fitted("cat", 90, 13) == "cat"
        assert _text.fitted("cat", 2, 13) == ""

    def test_plates_keep_clear_of_each_other(self) -> None:
        blank = np.full((100, 200, 3), 255, np.uint8)
        plates = [_text.Plate("cat", palette.INK, (50, 30, 52, 32), centred=True)] * 3
        assert np.array_equal(_text.draw_plates(blank, plates[:1], 12), _text.draw_plates(blank, plates, 12))
        moved = [_text.Plate("cat", palette.INK, (50, 30, 90, 50))] * 3
        inked = [(_text.draw_plates(blank, moved[:n], 12) != 255).any(-1).sum() for n in (1, 2, 3)]
        assert inked[0] < inked[1] < inked[2]


def test_a_text_of_just_the_longest_length_is_kept() -> None:
    assert plain("x" * 24) == "x" * 24
    assert plain("x" * 25) == "x" * 21 + "..."


def test_borders_reach_as_far_as_asked() -> None:
    segments = np.array([[1, 1, 1, 1, 2, 2]])
    assert segment_borders(segments).tolist() == [[False] * 4 + [True] + [False]]
    assert segment_borders(segments, 2).tolist() == [[False] * 4 + [True] * 2]
    for px in (1, 2):
        np.testing.assert_array_equal(segment_borders(segments.T, px), segment_borders(segments, px).T)


def test_blending_rounds_to_the_nearest() -> None:
    picture = np.full((1, 1, 3), 10, np.uint8)
    blend(picture, np.ones((1, 1), bool), (11, 12, 13), 0.75)
    assert picture.ravel().tolist() == [11, 12, 12]


def test_class_colours_are_softer_than_those_of_instances() -> None:
    def spread(color: tuple[int, int, int]) -> int:
        return max(color) - min(color)

    assert all(class_color(c) != instance_color(c) for c in range(50))
    assert sum(spread(class_color(c)) for c in range(50)) < 0.9 * sum(spread(instance_color(c)) for c in range(50))
