"""Threads that open, read and close one bank at once: every read is right, and each file is open once."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from format_cases import FORMATS, NUM, assert_equal, make_crop, write

from segpaste.bank import StoredBank, open_bank

NUM_THREADS = 8


def num_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def at_once(calls: list[Callable[[], Any]]) -> None:
    """Run all calls in threads that start together; raise the first error."""
    errors: list[Exception] = []
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            call()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def switching(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make threads switch as often as they can."""
    import sys

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def read_one(bank: StoredBank, index: int) -> None:
    assert_equal(bank[index], make_crop(bank.layout, index))


@pytest.mark.usefixtures("switching")
@FORMATS
class TestFirstRead:
    def test_of_one_bank(self, kind: str, tmp_path: Path) -> None:
        """The bank keeps one set of handles, however many threads ask for the first crop."""
        path = write(kind, tmp_path / "bank")
        read_one(open_bank(path), 0)
        before = num_descriptors()
        for _ in range(30):
            bank = open_bank(path)
            at_once([lambda i=i, bank=bank: read_one(bank, i) for i in range(NUM_THREADS)])
            bank.close()
        assert num_descriptors() == before

    def test_of_many_banks_on_the_same_files(self, kind: str, tmp_path: Path) -> None:
        """LMDB allows one environment of a file to a process."""
        path = write(kind, tmp_path / "bank")
        before = num_descriptors()
        for _ in range(10):
            banks = [open_bank(path) for _ in range(NUM_THREADS)]
            at_once([lambda i=i, bank=bank: read_one(bank, i) for i, bank in enumerate(banks)])
            at_once([bank.close for bank in banks])
        assert num_descriptors() == before


@pytest.mark.usefixtures("switching")
@FORMATS
def test_closing_while_others_read(kind: str, tmp_path: Path) -> None:
    """A read that is under way keeps its files; the next one opens them again."""
    bank = open_bank(write(kind, tmp_path / "bank"))
    stop = threading.Event()

    def close_often() -> None:
        while not stop.is_set():
            bank.close()

    def read_often(seed: int) -> None:
        try:
            for step in range(150):
                read_one(bank, (7 * step + seed) % NUM)
        finally:
            stop.set()

    at_once([close_often, *(lambda seed=seed: read_often(seed) for seed in range(3))])


@FORMATS
def test_fork_while_another_thread_opens(kind: str, tmp_path: Path) -> None:
    """The child finds no lock that nobody will ever release."""
    path = write(kind, tmp_path / "bank")
    bank = open_bank(path)
    stop = threading.Event()

    def open_often() -> None:
        while not stop.is_set():
            bank.close()
            bank[0]

    thread = threading.Thread(target=open_often)
    thread.start()
    try:
        for _ in range(20):
            if (child := os.fork()) == 0:
                threading.Timer(20, os._exit, (1,)).start()
                try:
                    read_one(bank, 3)
                    read_one(open_bank(path), 4)
                    os._exit(0)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
