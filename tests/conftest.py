"""Setup of every test: workers, one torch thread, restored random states, hypothesis profiles, real photos."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from segpaste.engine import use_backend

# Several pytest workers run side by side; more threads would only make them wait for each other. The same
# holds for the processes that they start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray reads its mode of authentication once in a process, and without this writes a token into the home folder. A
# cluster that is started later with another mode could not call this process, and its actors would die.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

# too_slow measures the machine rather than the test, so a busy machine would fail a good test.
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=18, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("few", settings.get_profile("ci"), max_examples=6)
settings.register_profile("thorough", settings.get_profile("ci"), derandomize=False, max_examples=500)
settings.load_profile(os.environ.get("SEGPASTE_HYPOTHESIS", "ci"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give the tests of a file one worker, which then makes once what they share; long ones are shared out singly."""
    alone = item.get_closest_marker("xdist_group") or item.get_closest_marker("first")
    if item.config.getoption("loadgroup", False) and not alone:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Start tests that take minutes first, then files with slow ones, so that all workers end together."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("first", "slow")])
    grouped = [item.nodeid for item in items if item.get_closest_marker("xdist_group")]
    if config.getoption("loadgroup", False) and not all("@" in nodeid for nodeid in grouped):
        raise pytest.UsageError("pytest-xdist has grouped no tests; see the versions in constraints.txt")


def pytest_collection_finish() -> None:
    """Take what is imported and collected, millions of objects, out of what garbage collections visit from now on."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let what is frozen be collected when the process ends."""
    gc.unfreeze()


_real_fsync = os.fsync


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_disks() -> Iterator[None]:
    """Let files be flushed to the page cache only: no test lets a machine lose its power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _flushed)
        yield


def _flushed(file: Any) -> None:
    """Fail for what is no open file, as the real call does."""
    os.fstat(file if isinstance(file, int) else file.fileno())


@pytest.fixture
def real_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for disks after all."""
    monkeypatch.setattr(os, "fsync", _real_fsync)


@pytest.fixture(autouse=True)
def same_random_states() -> Iterator[None]:
    """Seed the global generators, and restore them after, so that a test draws the same in any order and company."""
    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002 (the global generator is the one to protect)
    torch_state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.default_generator.manual_seed(0)  # torch.manual_seed would queue a call for each device that is not there
    yield
    random.setstate(python_state)
    np.random.set_state(numpy_state)  # noqa: NPY002
    torch.set_rng_state(torch_state)
    if cuda_states is not None:
        torch.cuda.set_rng_state_all(cuda_states)


@pytest.fixture(autouse=True)
def forget_compiled_code() -> Iterator[None]:
    """Forget what was compiled, so that no test meets another's guards, counts or limits of recompilation."""
    yield
    if "torch._dynamo.utils" in sys.modules and torch._dynamo.utils.counters:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()


@pytest.fixture
def reference_kernels() -> Iterator[None]:
    """Run the reference writing of the kernels, for tests that reach into it."""
    with use_backend("reference"):
        yield


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of small annotated photo sets that SEGPASTE_TEST_DATA names."""
    folder = os.environ.get("SEGPASTE_TEST_DATA")
    if not folder:
        pytest.skip("set SEGPASTE_TEST_DATA=FOLDER to run on real photos")
    if not Path(folder).is_dir():
        pytest.fail(f"SEGPASTE_TEST_DATA={folder} is not a folder: correct it, or unset it to skip real photos")
    return Path(folder)
