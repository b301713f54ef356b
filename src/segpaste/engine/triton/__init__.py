"""Backend for CUDA devices, in Triton kernels.

Without a CUDA device the kernels run on the CPU, slowly, in Triton's interpreter: set ``TRITON_INTERPRET=1`` before
triton is imported. Modules with an underscore are kernels, whose types Triton infers, so mypy does not check them.
"""

from segpaste.engine.triton.composing import compose
from segpaste.engine.triton.draws.draw import choose_rows, draw, draw_classes
from segpaste.engine.triton.draws.survey import survey
from segpaste.engine.triton.inputs import extend, stage_crops

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "survey"]
