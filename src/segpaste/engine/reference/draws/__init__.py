"""Draws of a paste: slots, scales and places."""
