"""Workers that end while their batches are being sent: they wait, since torch's functions cannot be cut off."""

from __future__ import annotations

import atexit
import subprocess
import sys
from typing import Any

import pytest

from segpaste import _worker_ends
from segpaste.bank import create_bank_dataloader
from segpaste.datasets.loader import Collate, LoadedBatch
from segpaste.types.tensors import MaskSlots
from small_bank import small_bank

SENDING = """
import sys, threading, time
import torch
from segpaste import _worker_ends
_worker_ends.get_worker_info, _worker_ends._LONGEST_S = (lambda: True), {longest}
def send():
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        torch.ones(1 << 18).share_memory_()
threading.Thread(target=send, daemon=True, name="QueueFeederThread").start()
_worker_ends.end_after_sending()
_worker_ends.end_after_sending()
time.sleep(0.2)
print("done", flush=True)
"""


@pytest.mark.parametrize(("seconds", "longest"), [(0.7, 60.0), (60.0, 0.1)], ids=["it ends", "it takes too long"])
def test_a_worker_waits_for_its_sending_thread(seconds: float, longest: float) -> None:
    code = SENDING.format(seconds=seconds, longest=longest)
    words = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=55)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("is_worker", [False, True])
def test_loaders_register_it_in_workers_once(is_worker: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(_worker_ends, "get_worker_info", lambda: True if is_worker else None)
    monkeypatch.setattr(atexit, "register", registered.append)
    for _ in range(2):
        Collate(3)(LoadedBatch([], MaskSlots(0, 3)))
    assert registered == [_worker_ends._wait] * is_worker
    _worker_ends._is_awaited.clear()
    next(iter(create_bank_dataloader(small_bank(tmp_path / "bank", [0, 1, 1]), batch_size=2, steps=1)))
    assert registered == [_worker_ends._wait] * 2 * is_worker
    _worker_ends._is_awaited.clear()
