"""Processes that train together: those that torchrun started, or this one alone."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, distributed, nn

from segpaste._ranks import mark_own, mark_said

_Made = TypeVar("_Made")
_TIMEOUT = timedelta(days=7)  # for processes that wait while the first validates; if it dies, torchrun ends them


@dataclass(frozen=True)
class Processes:
    """Group of the processes that train together, seen from this process.

    Attributes:
        rank: number of this process.
        world_size: number of processes.
        device: device of this process.
        backend: backend of torch.distributed, ``gloo`` or ``nccl``; None for a single process.
    """

    rank: int
    world_size: int
    device: torch.device
    backend: str | None = None

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and prints."""
        return self.rank == 0

    def from_first(self, make: Callable[[], _Made]) -> _Made:
        """Call ``make`` in the first process, and return its result in all.

        If it fails, all processes raise its error; the others mark it as printed by another process.
        """
        made, error = _attempt(make) if self.is_first else (None, None)
        if self.world_size > 1:
            shared: list[Any] = [made, _sendable(error)]
            distributed.broadcast_object_list(shared, src=0, device=self.device)
            if not self.is_first:
                made, error = shared
        return _outcome(made, error, is_own=self.is_first)

    def on_all(self, make: Callable[[], _Made]) -> _Made:
        """Call ``make`` in each process, and return its result.

        If some fail, all processes raise the error of the first of them; the others mark it as in `from_first`.
        """
        made, error = _attempt(make)
        rank = self.rank
        if self.world_size > 1:
            errors: list[Exception | None] = [None] * self.world_size
            distributed.all_gather_object(errors, _sendable(error))
            rank = next((rank for rank, other in enumerate(errors) if other is not None), self.rank)
            error = error if rank == self.rank else errors[rank]
        return _outcome(made, error, is_own=rank == self.rank)

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Set tensors, in all processes, to those of the first process."""
        if self.world_size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients of parameters over all processes; all must have gradients for the same parameters.

        They are summed as one vector, always in the same order. DistributedDataParallel regroups them after the first
        step, so with more than two processes the sums after an interruption would differ in their last bits.
        """
        found = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.world_size == 1 or not found:
            return
        flat = self.all_reduce_(torch.cat([grad.flatten() for grad in found])) / self.world_size
        for grad, part in zip(found, torch.split(flat, [grad.numel() for grad in found]), strict=True):
            grad.copy_(part.view_as(grad))

    def all_reduce_(self, values: Tensor) -> Tensor:
        """Sum values over all processes, in place, and return them."""
        if self.world_size > 1:
            distributed.all_reduce(values)
        return values


@contextlib.contextmanager
def joined(
    device: Literal["auto", "cpu", "cuda"] = "auto", backend: Literal["auto", "gloo", "nccl"] = "auto"
) -> Iterator[Processes]:
    """Join the process group that ``RANK`` and ``WORLD_SIZE`` in the environment describe, and leave it at the end.

    An existing group of torch.distributed is used, and not destroyed.

    Raises:
        ValueError: the device does not exist, or the backend is nccl on the CPU.
    """
    found = _device(device)
    name = ("nccl" if found.type == "cuda" else "gloo") if backend == "auto" else backend
    if name == "nccl" and found.type != "cuda":
        raise ValueError("trainer.backend: expected gloo on the CPU, got nccl; use gloo, or auto")
    is_there = distributed.is_initialized()
    if not is_there and "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        distributed.init_process_group(name, timeout=_TIMEOUT)
    try:
        if distributed.is_initialized():
            spoken = distributed.get_backend() if distributed.get_world_size() > 1 else None
            yield Processes(distributed.get_rank(), distributed.get_world_size(), found, spoken)
        else:
            yield Processes(0, 1, found)
    except BaseException as error:
        if distributed.is_initialized() and distributed.get_rank() > 0:
            mark_own(error)
        raise
    finally:
        if not is_there and distributed.is_initialized():
            distributed.destroy_process_group()


def _attempt(make: Callable[[], _Made]) -> tuple[_Made | None, Exception | None]:
    try:
        return make(), None
    except Exception as error:
        return None, error


def _outcome(made: _Made | None, error: Exception | None, is_own: bool) -> _Made:
    """Return what was made, or raise the error, marked if another process prints it."""
    if error is None:
        return cast(_Made, made)
    if not is_own:
        mark_said(error)
    raise error


def _sendable(error: Exception | None) -> Exception | None:
    """Return the error, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _device(name: Literal["auto", "cpu", "cuda"]) -> torch.device:
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    number, num = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= num:
        error = ValueError(f"trainer.device: expected at least {number + 1} CUDA devices, got {num}; use cpu")
        if number == num > 0:  # the processes before this one have a device
            mark_own(error)
        raise error
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device
