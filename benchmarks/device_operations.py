"""Count the operations, kernels, waits and tensors from the host of a CUDA device, without a device."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from segpaste.types import tracing

ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
METADATA = frozenset({"lift_fresh", "_unsafe_view", "_reshape_alias", "is_same_size", "set_"})
COPIES = frozenset({"_to_copy", "copy_", "to"})
DATA_DEPENDENT = frozenset(
    {"nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "equal", "is_nonzero"}
)
"""Operations whose result, or its shape, the host reads."""

ENGINE = ("extend", "survey", "choose_rows", "draw", "draw_classes", "stage_crops", "compose")
"""Functions of the engine."""

_KINDS = ("torch", "kernels", "waits", "host", "outside")


@dataclass
class Operations:
    """Operations that a CUDA device would run, by name.

    Attributes:
        torch: operations of torch that run on the device; views, allocations and empty results do not.
        kernels: launches of this package's Triton kernels.
        waits: operations after which the host has to wait for the device.
        host: operations that bring a tensor from the host to the device.
        outside: those of ``torch`` that no engine function asks for, see `ENGINE`.
    """

    torch: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    host: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)

    @property
    def num_launches(self) -> int:
        """Launches of either kind."""
        return self.torch.total() + self.kernels.total()

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON takes them."""
        found = {name: dict(getattr(self, name)) for name in _KINDS}
        return {"launches": self.num_launches, **found}


class CountingMode(TorchDispatchMode):
    """Mode that counts operations on fake CUDA tensors; those that would wait give 0, so no shape depends on them."""

    def __init__(self, found: Operations) -> None:
        super().__init__()
        self.found, self.is_inside = found, False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            if _on_device(given):
                self.found.waits[name] += 1
                return 0
            return func(*args, **kwargs)
        if name in DATA_DEPENDENT and _on_device(given):
            self.found.waits[name] += 1
            self.found.torch[name] += 1
            return _nothing_found(name, given[0])
        out = func(*args, **kwargs)
        made = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        is_async = bool(kwargs.get("non_blocking", name == "copy_" and args[2:] == (True,)))
        self._count(func, name, given, made, is_async=is_async)
        return out

    def _count(self, func: Any, name: str, given: list[Tensor], made: list[Tensor], *, is_async: bool) -> None:
        if func.namespace == "prim" or func.is_view or name in ALLOCATIONS | METADATA:
            return
        if not (_on_device(given) or _on_device(made)) or not any(t.numel() for t in made):
            return
        self.found.torch[name] += 1
        if not self.is_inside:
            self.found.outside[name] += 1
        if name in COPIES and not _all_on_device([*given[-1:], *made]):
            if not _on_device(made):
                self.found.waits[f"{name} to the host"] += 1
            else:
                self.found.host[name] += 1
                if not is_async:
                    self.found.waits[f"{name} from the host"] += 1
        if name.startswith("index") and any(t.dtype == torch.bool for t in given[1:]):
            self.found.waits[f"{name} by a mask"] += 1


def _nothing_found(name: str, like: Tensor) -> Any:
    """Return the result of a data-dependent operation that finds nothing."""
    if name in ("equal", "is_nonzero"):
        return False
    return like.new_empty((0, like.ndim) if name == "nonzero" else (0,), dtype=torch.int64)


def _on_device(tensors: list[Tensor]) -> bool:
    return any(t.device.type == "cuda" for t in tensors)


def _all_on_device(tensors: list[Tensor]) -> bool:
    return all(t.device.type == "cuda" for t in tensors)


@contextlib.contextmanager
def counting() -> Iterator[Operations]:
    """Count inside of the ``with`` block, in which no tensor has values; see `fake_device`."""
    found = Operations()

    def launch(kernel: Any, num_programs: int, *arguments: Any, **options: int) -> None:
        if num_programs:
            found.kernels[kernel.__name__] += 1

    mode = CountingMode(found)
    with _launching(launch), _watching(mode), mode:
        yield found


@contextlib.contextmanager
def fake_device() -> Iterator[None]:
    """Let ``device="cuda"`` work without a card: tensors have shapes and no values; the engine takes them for real."""
    with FakeTensorMode(allow_non_fake_inputs=True), mock.patch.object(tracing, "_mode", return_value=None):
        yield


@contextlib.contextmanager
def _launching(launch: Callable[..., None]) -> Iterator[None]:
    """Replace the function that launches the kernels, in every module of the backend that has imported it."""
    backend = importlib.import_module("segpaste.engine.triton")
    names = [info.name for info in pkgutil.walk_packages(backend.__path__, f"{backend.__name__}.")]
    modules = [backend, *map(importlib.import_module, names)]
    real = importlib.import_module(f"{backend.__name__}.launching").launch
    with contextlib.ExitStack() as stack:
        for module in modules:
            if getattr(module, "launch", None) is real:
                stack.enter_context(mock.patch.object(module, "launch", launch))
        yield


@contextlib.contextmanager
def _watching(mode: CountingMode) -> Iterator[None]:
    """Tell the mode when a function of the engine runs."""

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            before, mode.is_inside = mode.is_inside, True
            try:
                return function(*arguments, **options)
            finally:
                mode.is_inside = before

        return run

    backend = importlib.import_module("segpaste.engine.triton")
    real = {name: getattr(backend, name) for name in ENGINE}
    with mock.patch.multiple(backend, **{name: watched(function) for name, function in real.items()}):
        yield
