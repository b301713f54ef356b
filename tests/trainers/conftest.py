"""Fixtures shared by the suites of all trainers."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Let each test draw the same, whatever ran before it."""
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 (trainers draw from it)
    torch.manual_seed(3)
