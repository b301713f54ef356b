"""Compile the Triton kernels as they would be launched, without a device, and print what must not be in them.

`test_cuda` runs this file in a process of its own, in which it stands in for the driver of a device.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from samples import OPTIONAL, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.kernels import cuda, reference, use_kernels
from segpaste.types import Modality

INEXACT = re.compile(
    r"\b(?:fma|mad)\.[\w.]*f(?:32|64)|\b(?:mul|add|sub)\.f32|\w+\.(?:full|approx)[\w.]*|[\w.]+\.ftz[\w.]*"
)
"""Fused, or left for the assembler to fuse; approximate; flushing small numbers to zero."""


class NoDevice:
    """What Triton asks a driver while it compiles."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def main(capability: int) -> None:
    driver.set_active(NoDevice(capability))
    real_run = triton.JITFunction.run
    compiled: dict[str, Any] = {}

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        found = real_run(kernel, *arguments, grid=grid, warmup=True, **options)
        compiled[f"{kernel.__name__} {found.hash}"] = found

    triton.JITFunction.run = run
    cuda._check_device = lambda *_: None
    for name in ("resolve", "measure", "render"):  # the reference's results go on, since nothing is launched
        pair = getattr(cuda, name), getattr(reference, name)
        setattr(cuda, name, lambda *arguments, pair=pair: [function(*arguments) for function in pair][1])
    plain = PanopticConfig.model_validate({"taxonomy": SCHEMA})
    ranked = PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {1: 1}})
    full = make_batch(2, size=(16, 32), max_instances=8, metric_depth=True, padding=(1, 2))
    odd = make_batch(2, size=(17, 11), max_instances=5, modalities=set(OPTIONAL) - {Modality.PANOPTIC})
    one = make_batch(2, size=(17, 11), max_instances=1, num_instances=1, modalities={Modality.INSTANCE})
    odd, one = replace(odd, images=odd.images.float()), replace(one, images=one.images.bfloat16())
    for batch, layers, panoptic in ((full, 2, plain), (full, 2, ranked), (odd, 1, plain), (one, 1, plain)):
        config = BatchCopyPasteConfig(placement=PlacementConfig(layers=layers), panoptic=panoptic)
        with use_kernels("cuda"):
            BatchCopyPaste(config)(batch)
    for name, found in compiled.items():
        print(name.partition(" ")[0], "cubin" in found.asm, *sorted(set(INEXACT.findall(found.asm["ptx"]))))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]))
