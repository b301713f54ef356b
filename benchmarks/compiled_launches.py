"""Count the launches of one compiled forward on a CUDA device, without a device.

    python -m benchmarks.compiled_launches

The cases are those of `benchmarks.launches`, and so is the way of counting. The forward runs as `torch.compile` traces
it: the engine is called through the operators of `segpaste.engine.operators`, whose backend runs on fake CUDA tensors,
too. Operations of torch outside of the operators count one by one; a compiler fuses most of them.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest import mock

import torch

from segpaste.engine import operators

from . import device_operations, launches, report
from .device_operations import CountingMode, Operations


class OperatorMode(CountingMode):
    """Mode that counts the operations inside the engine's operators instead of the operators themselves."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace != "segpaste":
            return super().__torch_dispatch__(func, types, args, kwargs)
        name = f"_{func.overloadpacket.__name__}"
        operator = getattr(operators, name)
        before, self.is_inside = self.is_inside, True
        try:
            with self:
                return operator._init_fn(*args, **(kwargs or {}))
        finally:
            self.is_inside = before


def count(case: launches.Case) -> Operations:
    """Count a forward after the first."""
    with (
        mock.patch.object(device_operations, "CountingMode", OperatorMode),
        mock.patch.object(torch.compiler, "is_compiling", return_value=True),
    ):
        _, later = launches.count(case)
    return later


def counted(*, quick: bool = False) -> str:
    """Return a table of the smallest and the largest number of launches of each preset, compiled and eager."""
    body: dict[str, list[tuple[int, ...]]] = {}
    for case in launches.cases(quick=quick):
        found, (_, eager) = count(case), launches.count(case)
        numbers = found.num_launches, found.num_launches - found.outside.total(), found.host.total()
        body.setdefault(case.preset, []).append((*numbers, eager.num_launches))
    lines = [
        [preset, str(len(rows)), *(f"{min(column)}..{max(column)}" for column in zip(*rows, strict=True))]
        for preset, rows in body.items()
    ]
    return report.table(["preset", "cases", "launches", "in operators", "host tensors", "launches, eager"], lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two subsets of modalities for each preset")
    print(counted(quick=parser.parse_args().quick))
