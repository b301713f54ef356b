"""Rows of a batch, shared out among threads that each process makes for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")

# One pool for each process: a forked child has no threads of its parent's.
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def share_out(num_rows: int, work: Callable[[int, int], T], num_threads: int | None = None) -> list[T]:
    """Do ``work(first, end)`` for all rows, in equal parts on as many threads as torch uses, the caller's too.

    Returns:
        What each part gave, in the order of the rows.
    """
    num_parts = max(1, min(num_threads or torch.get_num_threads(), num_rows))
    if num_parts == 1:
        return [work(0, num_rows)]
    parts = [(num_rows * i // num_parts, num_rows * (i + 1) // num_parts) for i in range(num_parts)]
    pool = thread_pool(num_parts - 1)
    helpers: list[Future[T]] = []
    try:
        for part in parts[1:]:
            helpers.append(pool.submit(work, *part))
        own = work(*parts[0])
    finally:
        wait(helpers)  # nobody writes any more when an error leaves here
    return [own, *(helper.result() for helper in helpers)]


def thread_pool(num_threads: int) -> ThreadPoolExecutor:
    """This process's pool, of at least so many threads."""
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] < num_threads:
        _pool = os.getpid(), num_threads, ThreadPoolExecutor(num_threads, thread_name_prefix="segpaste")
    return _pool[2]
