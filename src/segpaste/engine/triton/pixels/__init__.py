"""Pixels of a paste, in Triton: masks, kept pixels and pasted ones, out of place or in place."""

from segpaste.engine.triton.pixels.rendering import can_write, empty_planes, render

__all__ = ["can_write", "empty_planes", "render"]
