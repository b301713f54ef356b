"""Pixels of a paste, in Triton: masks, kept pixels and pasted ones, out of place or in place."""

from segpaste.engine.triton.pixels.rendering import can_write, render, room_in_place, room_out_of_place

__all__ = ["can_write", "render", "room_in_place", "room_out_of_place"]
