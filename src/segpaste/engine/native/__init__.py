"""The CPU backend: C++ in ``src``, built when the package is installed, called through ctypes.

Importing it loads nothing; `segpaste.engine.native.library.load` does, and says why it cannot.
"""

from segpaste.engine.native.binding import choose_rows, compose, draw, draw_classes, survey

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "survey"]
