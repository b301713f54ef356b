"""Layouts that are known, as declarations, and what to declare for others."""
