"""CPU backend: C++ in ``src``, built when the package is installed, called through ctypes.

Importing it does not load the library. `segpaste.engine.native.library.load` does, or raises an error that says why it
cannot.
"""

from segpaste.engine.native.binding import choose_rows, draw, draw_classes, survey
from segpaste.engine.native.composing import compose
from segpaste.engine.native.steps import step
from segpaste.engine.reference import extend, stage_crops

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "step", "survey"]
