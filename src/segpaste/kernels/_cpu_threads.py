"""Rows of a batch, shared out among threads that each process makes for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import TypeVar, cast

import torch

T = TypeVar("T")

_PARTS_PER_THREAD = 4

# One pool for each process: a forked child has no threads of its parent's.
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def share_out(num_rows: int, work: Callable[[int, int], T], num_threads: int | None = None) -> list[T]:
    """Do ``work(first, end)`` for all rows on as many threads as torch uses, the caller's too.

    Rows are not equally much work: who has finished a part takes the next one.

    Returns:
        What each part gave, in the order of the rows.
    """
    num_threads = max(1, min(num_threads or torch.get_num_threads(), num_rows))
    if num_threads == 1:
        return [work(0, num_rows)]
    num_parts = min(num_rows, _PARTS_PER_THREAD * num_threads)
    done: list[T | None] = [None] * num_parts
    parts, lock = iter(range(num_parts)), Lock()

    def take_parts() -> None:
        while True:
            with lock:
                part = next(parts, None)
            if part is None:
                return
            done[part] = work(num_rows * part // num_parts, num_rows * (part + 1) // num_parts)

    pool = thread_pool(num_threads - 1)
    helpers: list[Future[None]] = []
    try:
        for _ in range(num_threads - 1):
            helpers.append(pool.submit(take_parts))
        take_parts()
    finally:
        wait(helpers)  # nobody writes any more when an error leaves here
    for helper in helpers:
        helper.result()
    return cast("list[T]", done)


def thread_pool(num_threads: int) -> ThreadPoolExecutor:
    """This process's pool, of at least so many threads."""
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] < num_threads:
        _pool = os.getpid(), num_threads, ThreadPoolExecutor(num_threads, thread_name_prefix="segpaste")
    return _pool[2]
