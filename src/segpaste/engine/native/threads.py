"""Threads that work on one step together; each process makes them for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

# One pool for each process: a forked child has no threads of its parent's.
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def on_threads(num_threads: int, work: Callable[[], T]) -> list[T]:
    """Call ``work`` on so many threads at once, the caller's too, and return what each call gave."""
    if num_threads <= 1:
        return [work()]
    pool = thread_pool(num_threads - 1)
    helpers: list[Future[T]] = []
    try:
        for _ in range(num_threads - 1):
            helpers.append(pool.submit(work))
        own = work()
    finally:
        wait(helpers)  # nobody writes any more when an error leaves here
    return [own, *(helper.result() for helper in helpers)]


def thread_pool(num_threads: int) -> ThreadPoolExecutor:
    """Return this process's pool, of at least so many threads."""
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] < num_threads:
        _pool = os.getpid(), num_threads, ThreadPoolExecutor(num_threads, thread_name_prefix="segpaste")
    return _pool[2]
