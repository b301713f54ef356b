"""End of the spawned workers of a loader: only after the thread that sends their batches.

That thread shares tensors by functions of C++. If the interpreter ends meanwhile, it ends the thread inside such a
function, and C++ aborts the process with "terminate called without an active exception". Torch does not wait for it.
"""

from __future__ import annotations

import atexit
import os
import threading

from torch.utils.data import get_worker_info

_LONGEST_S = 1.0
"""A thread that takes longer may wait for the reader of a full pipe; nobody needs its batches."""
_is_awaited = threading.Event()


def end_after_sending() -> None:
    """Let this process wait for its sending thread when it ends, if it is a worker; once, however often it is called.

    A forked worker ends without an end of its interpreter, so it does not wait.
    """
    if not _is_awaited.is_set() and get_worker_info() is not None:
        _is_awaited.set()
        atexit.register(_wait)


def _wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":  # the name that multiprocessing gives it
            thread.join(_LONGEST_S)
            if thread.is_alive():
                os._exit(0)  # ends all threads where they are, and aborts nothing
