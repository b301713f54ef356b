"""Benchmarks: the cost of a step relative to a copy of its batch and to other libraries; programs, not tests.

`segpaste bench` runs all of them, and ``python -m benchmarks.step`` runs a single one. In an installed package they
are ``segpaste._benchmarks``.
"""
