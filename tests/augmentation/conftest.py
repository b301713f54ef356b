"""Fixtures shared by several files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samples import CPU_BACKENDS
from segpaste.engine import use_backend


@pytest.fixture(params=CPU_BACKENDS)
def writing(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each backend of the kernels that runs on the CPU, one after the other."""
    with use_backend(request.param):
        yield request.param
