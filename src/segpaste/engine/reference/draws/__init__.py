"""Draws of a paste: which slots, at which scales, in which places."""
