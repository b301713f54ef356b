"""Harmonisation: fits pasted colours to the image around them."""
