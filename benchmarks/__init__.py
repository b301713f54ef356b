"""What a step costs next to a copy of its batch, and next to other ways to do it; programs, not tests.

`segpaste bench` runs them all, ``python -m benchmarks.step`` and its like one of them. In an installed package they
are ``segpaste._benchmarks``.
"""
