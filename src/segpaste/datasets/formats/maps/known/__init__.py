"""Declarations of known layouts, and hints for the declaration of others."""
