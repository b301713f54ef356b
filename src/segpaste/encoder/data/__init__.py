"""Labelled vectors from CSV files and banks, pairs of them, and codes in banks."""
