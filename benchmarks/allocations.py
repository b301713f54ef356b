"""Compute the peak memory of one forward on a CUDA device, relative to the bytes of its batch, without a device.

    python -m benchmarks.allocations
    python -m benchmarks.allocations --out benchmarks/results/allocations.json

The forward runs on fake CUDA tensors, as in `benchmarks.launches`. A storage counts from the operation that makes it
until nothing refers to it. torch's allocator rounds sizes up and keeps freed blocks, which is not counted.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from segpaste.augmentation import BatchCopyPaste

from . import pasting
from .device_operations import counting, fake_device
from .launches import OPTIONAL, Case, fake_batch, without_a_card
from .plan import Plan

PLANES = {"image and masks": OPTIONAL[:1], "panoptic": OPTIONAL[:3], "five modalities": OPTIONAL}
SLOTS = (10, 20, 32, 64)


class AllocatingMode(TorchDispatchMode):
    """Adds up the bytes of the storages on the device that operations make, until nothing refers to them any more.

    Attributes:
        peak: most bytes at once, of storages that were made since the beginning.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._known: dict[int, StorageWeakRef] = {}
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._note(args, 0)
        out = func(*args, **(kwargs or {}))
        self._note(out, 1)
        self.peak = max(self.peak, sum(self._sizes.values()))
        return out

    def _note(self, tree: Any, times: int) -> None:
        """Remember storages that are new, with their size or as free, and forget those that are gone."""
        for key in [key for key, reference in self._known.items() if reference.expired()]:
            del self._known[key], self._sizes[key]
        for tensor in tree_leaves(tree):
            if isinstance(tensor, Tensor) and tensor.device.type == "cuda":
                storage = tensor.untyped_storage()
                if storage._cdata not in self._known:
                    self._known[storage._cdata] = StorageWeakRef(storage)
                    self._sizes[storage._cdata] = times * storage.nbytes()


@contextlib.contextmanager
def allocating() -> Iterator[AllocatingMode]:
    """Count inside of the ``with`` block, in a fake device's mode; tensors from outside are free."""
    mode = AllocatingMode()
    with mode:
        yield mode


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Count float32 batches with the sizes of the plan and some numbers of slots, with all planes and with few."""
    batch_size, size, _ = plan.memory
    rows = []
    for (planes, modalities), slots in product(PLANES.items(), SLOTS):
        for inplace, reports in ((False, False), (True, False), (True, True)):
            case = Case("documents", frozenset(modalities), inplace)
            found = peak(case, (batch_size, slots, (size, size)), reports=reports)
            rows.append({"planes": planes, "slots": slots, "inplace": inplace, "reports": reports, **found})
    return {"torch": torch.__version__, "batch": f"{batch_size} × {size}²", "rows": rows}


def peak(case: Case, sizes: tuple[int, int, tuple[int, int]], *, reports: bool = False) -> dict[str, int]:
    """Bytes of the batch, of new tensors that are returned, and the peak beyond the batch, of the second forward.

    Args:
        case: preset, modalities, and whether in place.
        sizes: B, K and (H, W).
        reports: ask for the report, too.
    """
    paste = BatchCopyPaste(case.config, inplace=case.inplace)
    with fake_device(), without_a_card(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            batch = fake_batch(case, sizes)
            old = {t.untyped_storage()._cdata for t in tree_leaves(batch)}
            with counting(), allocating() as mode:
                out = paste(batch, return_report=reports)
            new = [t for t in tree_leaves(out) if isinstance(t, Tensor) and t.untyped_storage()._cdata not in old]
        storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in new}
        return {
            "batch_bytes": pasting.num_bytes(batch),
            "new_bytes": sum(storages.values()),
            "peak_bytes": mode.peak,
        }


if __name__ == "__main__":
    from .programs import main

    main("allocations", __doc__, measure)
