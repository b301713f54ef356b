"""The encoder, its losses, and both as one module."""
