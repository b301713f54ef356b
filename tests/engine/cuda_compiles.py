"""Compile the Triton kernels for real launches, without a device, and print what must not be in them.

`test_cuda` runs this file in a process of its own for each version of Triton. The file replaces the driver of a device.
The arguments of every launch are those of `segpaste.engine.triton`, so Triton specializes them as it does on a card: an
integer 1 becomes a constant, a multiple of 16 and an aligned pointer are marked, None is dropped.

What has no fault is on record, by its code, values, card and version of Triton; of that only one launch of each kernel
is compiled again, by one of the versions. What is not on record is named, so that it is written and not compiled each
time.

    export TRITON_INTERPRET= OMP_NUM_THREADS=1 PYTHONPATH=src:tests
    PYTHONPATH=.venv/triton-3.6:$PYTHONPATH python tests/engine/cuda_compiles.py 0 --write  # share of the oldest Triton
    python tests/engine/cuda_compiles.py 1 --write    # the other share; --write keeps the record of what has no fault
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import triton
from kernel_launches import Forward, forwards
from kernel_values import Launch, code_of, launch_of, missing, shares, widened
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from segpaste.engine import engine_for, use_backend
from segpaste.engine import triton as backend
from segpaste.engine.triton import composing, launching

INEXACT = re.compile(
    r"\b(?:fma|mad)\.[\w.]*f(?:32|64)|\b(?:mul|add|sub)\.f32|\w+\.(?:full|approx)[\w.]*|[\w.]+\.ftz[\w.]*"
)
"""Fused, or left for the assembler to fuse; approximate; flushing small numbers to zero."""

CEILINGS = {"REG": 128, "STACK": 0, "SHARED": 48 * 1024}
SPILLS = {"paste": 8}
"""Bytes of stack that a kernel may need: two launches on cards of 80 spill a number, since sources may be turned."""
CARDS = (80, 90, 100)
NUM_SHARES = 2
RECORD = Path(__file__).parents[1] / "golden" / "compiled_kernels.json"
"""Digests of what was compiled without a fault, with their share; see `digest_of`."""


class NoDevice:
    """Driver that answers what Triton asks while it compiles."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return self.capability  # a device of its own, whose kernels Triton compiles anew

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def launches_of(given: Iterable[Forward]) -> list[Launch]:
    """Return the launches of some forwards; a backend of the CPU supplies their results."""
    found: list[Launch] = []

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        found.append(launch_of(kernel, arguments, options))
        if (wide := widened(found[-1])) is not None:
            found.append(wide)

    with ExitStack() as stack:
        stack.enter_context(patch.object(triton.JITFunction, "run", run))
        stack.enter_context(patch.object(launching, "_check_device", lambda *_: None))
        stack.enter_context(patch.object(composing, "write_back", lambda batch, _: batch))  # there is nothing to write
        for name in backend.__all__:
            by_both = _by_both(getattr(engine_for(torch.device("cpu")), name), getattr(backend, name))
            stack.enter_context(patch.object(backend, name, by_both))
        stack.enter_context(use_backend("triton"))
        stack.enter_context(warnings.catch_warnings(action="ignore"))  # some batches have nothing to paste
        for forward in given:
            forward()
    return found


def _by_both(plain: Callable[..., Any], launching: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        found = plain(*arguments, **{**options, **({"in_place": False} if "in_place" in options else {})})
        launching(*arguments, **options)
        return found

    return call


def compiled_for(card: int, launch: Launch) -> Any:
    """A kernel as a card would get it."""
    driver.set_active(NoDevice(card))
    return launch.kernel.run(*launch.arguments, grid=(1,), warmup=True, **launch.options)


def faults(card: int, kernel: Any) -> list[str]:
    """Return what a compiled kernel must not contain, and what it needs beyond the ceilings."""
    is_for_card = f".target sm_{card}" in kernel.asm["ptx"] and "cubin" in kernel.asm
    inexact = sorted(set(INEXACT.findall(kernel.asm["ptx"])))
    return [*([] if is_for_card else ["not compiled"]), *inexact, *excesses(kernel)]


def excesses(kernel: Any) -> list[str]:
    """Return what a compiled kernel needs beyond the ceilings: registers of a thread, its stack, where registers are
    spilled to, and shared memory.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        reader = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
        done = subprocess.run([reader, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", done.stdout)}
    found["SHARED"] = kernel.metadata.shared
    ceilings = {**CEILINGS, "STACK": SPILLS.get(kernel.metadata.name, 0)}
    return [f"{name}:{found[name]}>{most}" for name, most in ceilings.items() if found[name] > most]


def digest_of(card: int, launch: Launch) -> str:
    """Return a digest of all that decides what is compiled, and of what is a fault in it."""
    rules = INEXACT.pattern, sorted(CEILINGS.items())
    parts = (
        triton.__version__,
        card,
        code_of(launch.kernel),
        sorted(launch.values),
        sorted(launch.options.items()),
        rules,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def main(share: str, *options: str) -> None:
    """Compile those of one share of the launches that are not on record, and the first of some kernels: the shares take
    turns.
    """
    launches = launches_of(forwards())
    print("triton", triton.__version__)
    print(*missing(launches), sep="\n", end="")
    known, good = json.loads(RECORD.read_text()), set[str]()
    again = {*sorted({launch.name for launch in launches})[int(share) :: NUM_SHARES]}
    for card, launch in shares(launches, CARDS, NUM_SHARES)[int(share)]:
        digest = digest_of(card, launch)
        is_new = digest not in known and "--write" not in options
        found = [] if digest in known and launch.name not in again else faults(card, compiled_for(card, launch))
        print(
            card,
            launch.name,
            *found,
            *([f"not on record: run {Path(__file__).name} {share} --write"] if is_new else []),
        )
        again.discard(launch.name)
        good |= set() if found else {digest}
    if "--write" in options:
        of_others = {digest: other for digest, other in known.items() if other != share}
        RECORD.write_text(
            json.dumps(dict(sorted({**of_others, **dict.fromkeys(good, share)}.items())), indent=0) + "\n"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
