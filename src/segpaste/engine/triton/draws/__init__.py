"""Survey and draws of the triton backend."""
