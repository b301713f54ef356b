"""Encoder, codes and losses."""
