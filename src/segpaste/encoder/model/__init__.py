"""The encoder, its codes, and its losses."""
