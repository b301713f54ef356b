"""Processes that inherit nothing, as spawned ones, but share one import of torch, which takes seconds."""

from __future__ import annotations

from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext


def fork_server() -> ForkServerContext:
    """Start the process that they are forked from; they have its environment, and what is pickled for them."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision.tv_tensors", "segpaste.datasets", "segpaste.bank"])
    forkserver.ensure_running()
    return context
