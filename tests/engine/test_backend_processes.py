"""Every backend computes the same wherever it runs: in threads, in processes, after a fork."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from backend_cases import module, roomy_batch
from torch.utils.data import DataLoader, Dataset

from samples import assert_same, make_batch
from segpaste.engine import use_backend
from segpaste.engine.native import library
from segpaste.types import PaddedBatchedDenseSample


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Use three threads for batches of any size."""
    monkeypatch.setattr(library, "_BYTES_PER_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


class TestThreads:
    def test_change_no_bit_and_no_setting(self, three_threads: None) -> None:
        batch = roomy_batch(image_dtype=torch.float32)
        with use_backend("native"):
            many = module()(batch)
            assert torch.get_num_threads() == 3
            torch.set_num_threads(1)
            assert_same(module()(batch), many)

    @pytest.mark.parametrize("num_threads", [2, 5])
    def test_the_runtime_of_torch_gives_them(self, num_threads: int) -> None:
        """The threads meet, so they run at once."""
        found: list[int] = []
        start = threading.Barrier(num_threads)

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def work(_: Any) -> None:
            start.wait(10)
            found.append(threading.get_ident())

        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        assert library.parallel()
        ctypes.CFUNCTYPE(None, *kinds)(library.parallel())(ctypes.cast(work, ctypes.c_void_p), None, num_threads, 0)
        assert len(set(found)) == num_threads

    def test_at_most_one_for_each_row(self, three_threads: None) -> None:
        assert [library.num_threads(rows, 1 << 30) for rows in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]

    def test_at_most_one_for_each_mebibyte(self, three_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library, "_BYTES_PER_THREAD", 1 << 20)
        sizes = 0, (1 << 21) - 1, 1 << 21, 3 << 20, 9 << 20
        assert [library.num_threads(8, size) for size in sizes] == [1, 1, 2, 3, 3]

    def test_without_a_runtime_one_thread_does_all(self, monkeypatch: pytest.MonkeyPatch, three_threads: None) -> None:
        batch = roomy_batch(image_dtype=torch.float32)
        with use_backend("native"):
            many = module()(batch)
            monkeypatch.setattr(library, "parallel", lambda: 0)
            assert library.num_threads(5, 1 << 30) == 1
            assert_same(module()(batch), many)

    def test_callers_at_once_have_teams_of_their_own(self, three_threads: None) -> None:
        batches = [roomy_batch(image_dtype=torch.float32, seed=i) for i in range(4)]
        with use_backend("native"):
            expected = [module()(batch) for batch in batches]
            with ThreadPoolExecutor(4) as pool:
                for _ in range(5):
                    for found, wanted in zip(pool.map(lambda b: module()(b), batches), expected, strict=True):
                        assert_same(found, wanted)


class Pasting(Dataset[Any]):
    """Pastes inside the process that reads it."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        with use_backend("native"):
            out = module()(make_batch(4, size=(31, 37), max_instances=8, seed=index))
        return out.images.sum(dtype=torch.int64), out.instance_masks.sum()  # type: ignore[union-attr]


class TestProcesses:
    @pytest.mark.parametrize(("context", "num"), [("fork", 2), ("spawn", 1)])
    def test_workers_paste_after_their_parent_has(self, context: str, num: int) -> None:
        expected = [tuple(map(int, Pasting()[i])) for i in range(6)]
        loader = DataLoader(Pasting(), batch_size=None, num_workers=num, multiprocessing_context=context, timeout=60)
        assert [tuple(map(int, item)) for item in loader] == expected

    def test_a_forked_child_works_alone(self, three_threads: None) -> None:
        """The threads of its parent are not there, and the runtime would wait for them."""
        batch = roomy_batch()
        with use_backend("native"):
            expected = _paste_with_threads(batch)
            assert expected[0] == 3
            # The pool ends its processes by a signal, for which other tests of this process may have handlers.
            with get_context("fork").Pool(2, signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
                results = [pool.apply_async(_paste_with_threads, (batch,)) for _ in range(4)]
                assert [result.get(timeout=60) for result in results] == [(1, *expected[1:])] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_first_paste_after_a_fork_works_alone() -> None:
    """The parent has started the runtime's threads and imported no backend yet."""
    code = """
import os, sys, torch
from samples import make_batch
from segpaste import BatchCopyPaste
torch.set_num_threads(2)
batch, paste = make_batch(4, size=(40, 40)), BatchCopyPaste()
(torch.randn(1 << 22) + 1).sum()
assert "segpaste.engine.native.library" not in sys.modules
child = os.fork()
if child == 0:
    paste(batch)
    from segpaste.engine.native import library
    os._exit(library.num_threads(4, 1 << 30))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(  # not fresh_output, whose processes are forks themselves
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.strip() == "1"


def _paste_with_threads(batch: PaddedBatchedDenseSample) -> tuple[int, int]:
    """Return the number of threads of a paste, and the sum of its output; tensors are too small for torch's threads."""
    out = module()(batch)
    return library.num_threads(4, 1 << 30), int(out.images.sum(dtype=torch.int64))
