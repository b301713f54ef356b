"""Keypoints and crowds in pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from samples import make_sample
from segpaste import viz
from segpaste.types import CrowdMask, DenseSample, KeypointSchema
from segpaste.viz.palette import INK, PAPER

SIZE = (60, 80)


def joined_points(points: list[list[float]]) -> DenseSample:
    """A grey image with one object of two joined points."""
    image = torch.full((3, *SIZE), 120, dtype=torch.uint8)
    schema = KeypointSchema(("one", "other"), ((0, 1),))
    return DenseSample.from_masks(
        image,
        torch.zeros(1, *SIZE, dtype=torch.bool),
        torch.zeros(1, dtype=torch.int64),
        keypoints=torch.tensor([points]),
        keypoint_schema=schema,
    )


def picture_of(points: list[list[float]]) -> np.ndarray:
    return viz.draw_instances(joined_points(points), show_boxes=False, show_labels=False)


def test_a_visible_point_is_a_disc_and_a_hidden_one_a_ring() -> None:
    picture = picture_of([[20.5, 30.5, 2], [60.5, 30.5, 1]])
    assert tuple(picture[30, 20]) == PAPER
    assert (picture[28:33, 18:23] == INK).all(-1).any()
    assert tuple(picture[30, 60]) != PAPER
    assert (picture[28:33, 58:63] == PAPER).all(-1).any()


def test_joined_points_have_a_line_and_unlabelled_ones_nothing() -> None:
    joined = picture_of([[20.5, 30.5, 2], [60.5, 30.5, 1]])
    alone = picture_of([[20.5, 30.5, 2], [0, 0, 0]])
    assert (joined[30, 25:55] != 120).any(-1).all()
    assert (alone[:, 25:] == 120).all()
    assert (alone[:10] == 120).all()


def test_crowds_are_hatched() -> None:
    sample = joined_points([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    region = torch.zeros(1, *SIZE, dtype=torch.bool)
    region[0, 10:30, 40:70] = True
    picture = viz.draw_instances(replace(sample, crowd_mask=CrowdMask(region)), show_boxes=False, show_labels=False)
    assert np.array_equal((picture != 120).any(-1), region[0].numpy())


def test_a_sample_with_everything_is_drawn() -> None:
    assert viz.draw_instances(make_sample(SIZE, keypoints=True, crowd=True)).shape == (*SIZE, 3)


def test_enlarging_moves_points_with_their_object() -> None:
    sample = joined_points([[20.5, 30.5, 2], [0.0, 0.0, 0.0]])
    _, instances = viz.compare(sample, sample, tile_px=3 * SIZE[1])
    marked = (instances.before != 120).any(-1)
    marked[: 3 * 3] = False  # the label at the corner, where the empty box is
    rows, cols = np.flatnonzero(marked.any(1)), np.flatnonzero(marked.any(0))
    assert abs((rows[0] + rows[-1] + 1) / 2 - 3 * 30.5) <= 1
    assert abs((cols[0] + cols[-1] + 1) / 2 - 3 * 20.5) <= 1
