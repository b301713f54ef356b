"""Configs: frozen pydantic models that reject unknown keys."""
