"""`Window`: which pixels of a picture an output of fixed size shows, and where.

A picture is resized, perhaps flipped left to right, cut at a place and padded at the right and at the bottom. It only
holds the numbers: `segpaste.datasets.jitter` draws them, `segpaste.engine.native.windows` reads pixels by them.
"""

from __future__ import annotations

from typing import NamedTuple

Size = tuple[int, int]


class Window(NamedTuple):
    """All sizes are (H, W), in pixels.

    Attributes:
        canvas_size: of the picture as stored.
        resized: of the picture before it is cut.
        flip: whether it is mirrored left to right after it is resized.
        corner: (top, left) of the cut in the resized and flipped picture.
        size: of the output.
    """

    canvas_size: Size
    resized: Size
    flip: bool
    corner: Size
    size: Size

    @property
    def inside(self) -> Size:
        """(H, W) of what the picture fills, at the top left of the output; the rest is padding."""
        return min(self.resized[0], self.size[0]), min(self.resized[1], self.size[1])
