"""Evaluation of an encoder, and evidence from its codes."""
