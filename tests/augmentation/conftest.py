"""What several files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samples import CPU_BACKENDS
from segpaste.engine import use_backend


@pytest.fixture(params=CPU_BACKENDS)
def writing(request: pytest.FixtureRequest) -> Iterator[str]:
    """The writing of the kernels that runs on the CPU: each, one after the other."""
    with use_backend(request.param):
        yield request.param
