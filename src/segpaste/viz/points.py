"""Keypoints over a picture: skeletons in the colours of their instances, a disc for a visible point, else a ring."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from segpaste.types import DenseSample
from segpaste.types.keypoints import UNLABELLED, VISIBLE
from segpaste.viz.marks import as_numpy, line_px
from segpaste.viz.palette import INK, PAPER, UInt8Image, instance_color


def draw_keypoints(picture: UInt8Image, sample: DenseSample) -> None:
    """Draw the keypoints of a sample that has some into its picture [H, W, 3], in place."""
    if sample.keypoints is None or sample.keypoint_schema is None:
        return
    line = line_px(picture)
    radius = 1.5 * line
    image = Image.fromarray(picture)
    pen = ImageDraw.Draw(image)
    numbers = range(1, sample.num_instances + 1) if sample.instance_ids is None else sample.instance_ids.tolist()
    for number, points in zip(numbers, as_numpy(sample.keypoints), strict=True):
        color = instance_color(int(number))
        places = [(float(x), float(y)) for x, y in points[:, :2] - 0.5]  # Pillow counts from the centre of a pixel
        for one, other in sample.keypoint_schema.skeleton:
            if UNLABELLED not in (points[one, 2], points[other, 2]):
                pen.line([places[one], places[other]], fill=color, width=line)
        for (x, y), v in zip(places, points[:, 2], strict=True):
            if v != UNLABELLED:
                disc = x - radius, y - radius, x + radius, y + radius
                pen.ellipse(
                    disc, fill=PAPER if v == VISIBLE else None, outline=INK if v == VISIBLE else PAPER, width=line
                )
    picture[:] = np.asarray(image)
