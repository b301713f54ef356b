"""How good an encoder is, and evidence from its codes."""
