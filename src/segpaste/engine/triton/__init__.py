"""Backend for CUDA devices, in Triton kernels; the survey and the draws are those of the reference.

Without such a device it runs on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from segpaste.engine.reference import choose_rows, draw, draw_classes, survey
from segpaste.engine.triton.composing import compose

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "survey"]
