"""Harmonisation: fit pasted colours to the image around them."""
