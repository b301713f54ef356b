"""Verified writing: what a written dataset must hold, and its comparison with what our readers find in it."""
