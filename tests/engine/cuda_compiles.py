"""Compile the Triton kernels for real launches, without a device, and print what must not be in them.

`test_cuda` runs this file in a process of its own, for several cards and versions of Triton. The file replaces the
driver of a device. The arguments of every launch are those of `segpaste.engine.triton`, so Triton specializes
them as it does on a card: an integer 1 becomes a constant, a multiple of 16 and an aligned pointer are marked, None is
dropped.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import triton
from draw_cases import Case, draw_case
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from samples import EVERY_OBJECT, OPTIONAL, SCHEMA, FromBatch, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import reference, use_backend
from segpaste.engine import triton as backend
from segpaste.engine.records import Classes
from segpaste.engine.triton import launching
from segpaste.types import Modality, PaddedBatchedDenseSample

INEXACT = re.compile(
    r"\b(?:fma|mad)\.[\w.]*f(?:32|64)|\b(?:mul|add|sub)\.f32|\w+\.(?:full|approx)[\w.]*|[\w.]+\.ftz[\w.]*"
)
"""Fused, or left for the assembler to fuse; approximate; flushing small numbers to zero."""


CEILINGS = {"REG": 128, "STACK": 0, "SHARED": 48 * 1024}


class NoDevice:
    """What Triton asks a driver while it compiles."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return self.capability  # a device of its own, whose kernels Triton compiles anew

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def launches() -> Iterator[tuple[BatchCopyPaste, PaddedBatchedDenseSample]]:
    """Modules and batches: each dtype, layout, modality and one-sided field, and sizes of 1, of 16 and odd ones."""
    no_panoptic, instance = set(OPTIONAL) - {Modality.PANOPTIC}, {Modality.INSTANCE}
    full = make_batch(2, size=(16, 32), max_instances=8, metric_depth=True, padding=(1, 2))
    odd = make_batch(2, modalities=no_panoptic, image_dtype=torch.float32)
    wide = make_batch(2, size=(17, 22), modalities=no_panoptic, image_dtype=torch.float16, padding=(1, 2))
    bare = make_batch(2, size=(17, 22), modalities=instance, image_dtype=torch.float16)
    maps = make_batch(2, modalities={*instance, Modality.SEMANTIC}, image_dtype=torch.bfloat16)
    tiny = make_batch(1, size=(1, 1), max_instances=1, num_instances=1, modalities=instance, image_dtype=torch.bfloat16)
    yield module(3, contact_priority={1: 1}), full
    yield module(3, contact_priority={1: 1}), channels_last(full)
    yield module(1), odd
    yield module(2), channels_last(odd)
    yield module(1, FromBatch(wide)), every_second(bare)
    yield module(2, FromBatch(bare)), every_second(wide)
    yield module(1), tiny
    yield module(2), channels_last(maps)
    yield module(1), make_batch(2, modalities=(), num_instances=0)
    yield module(2), full
    yield in_place(module(2)), full
    yield in_place(module(1, stuff_policy="ignore")), channels_last(odd)
    yield in_place(module(1, FromBatch(bare))), wide
    roomy = {"size": (16, 32), "max_instances": 64}  # slots in whose masks everything waits
    yield in_place(module(2)), make_batch(2, image_dtype=torch.float32, **roomy)
    yield in_place(module(1)), channels_last(make_batch(2, modalities=no_panoptic, image_dtype=torch.bfloat16, **roomy))
    yield extended(module(1), 10), full
    yield extended(module(1), 8), channels_last(maps)


def draws() -> Iterator[tuple[PaddedBatchedDenseSample, Classes, Case]]:
    """Batches, taxonomies and draws that use every kernel of a survey and of the draws: many slots, and few."""
    options = {"modalities": set(OPTIONAL) - {Modality.PANOPTIC}, "max_instances": 8}
    many, _ = draw_case("everything on patches", 0, num_layers=64, num_slots=300, num_targets=300)
    few, _ = draw_case("candidates", 0)
    yield make_batch(2, size=(16, 32), max_instances=8, padding=(1, 2)), module(1)._tables, many
    yield make_batch(2, size=(17, 22), **options), Classes(), few


def draw_all(
    batch: PaddedBatchedDenseSample, classes: Classes, case: Case, engine: dict[str, Callable[..., Any]]
) -> None:
    engine["survey"](batch, classes, 255, whole_only=True)
    found = reference.survey(batch, classes, 255)
    engine["choose_rows"](found.eligible.any(1), batch.sample_seeds, 2)
    rows = reference.choose_rows(found.eligible.any(1), batch.sample_seeds, 2)
    engine["draw_classes"](batch, found, rows, case.tables)
    engine["draw"](*case)


def module(layers: int, source: Any = None, **panoptic: Any) -> BatchCopyPaste:
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, **panoptic})
    return BatchCopyPaste(
        BatchCopyPasteConfig(placement=PlacementConfig(layers=layers), panoptic=rules, source=EVERY_OBJECT), source
    )


def in_place(augment: BatchCopyPaste) -> BatchCopyPaste:
    return BatchCopyPaste(augment.config, augment.source, inplace=True)


def extended(augment: BatchCopyPaste, num_slots: int) -> BatchCopyPaste:
    """The canvas is padded, and slots are added."""
    placement = augment.config.placement.model_copy(update={"pad_to_multiple": 5})
    return BatchCopyPaste(augment.config.model_copy(update={"placement": placement, "max_instances": num_slots}))


def channels_last(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    return replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))


def every_second(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The same batch, with image strides that are all above 1, and a first pixel that is not aligned."""
    images = batch.images.repeat_interleave(2, dim=3)[..., 1::2]
    assert min(images.stride()) > 1
    return replace(batch, images=images)


def excesses(kernel: Any) -> list[str]:
    """What a compiled kernel needs beyond the ceilings: registers of a thread, its stack, where registers are spilled
    to, and shared memory.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        reader = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
        done = subprocess.run([reader, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", done.stdout)}
    found["SHARED"] = kernel.metadata.shared
    return [f"{name}:{found[name]}>{most}" for name, most in CEILINGS.items() if found[name] > most]


def main(*cards: str) -> None:
    """Compile for each card, written ``capability:first:step``, every ``step``-th launch from the ``first`` on."""
    real_run = triton.JITFunction.run
    compiled: dict[str, Any] = {}

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        found = real_run(kernel, *arguments, grid=grid, warmup=True, **options)
        compiled[f"{card} {kernel.__name__} {found.hash}"] = found

    triton.JITFunction.run = run
    launching._check_device = lambda *_: None
    engine = {name: getattr(backend, name) for name in ("survey", "choose_rows", "draw", "draw_classes")}
    for name in engine:  # compiled by `draw_all`, not at every launch
        setattr(backend, name, getattr(reference, name))
    compose = backend.compose

    def compiled_only(*arguments: Any, **options: Any) -> Any:
        compose(*arguments, **options)
        return reference.compose(*arguments, **options)  # these results go on, since nothing is launched

    backend.compose = compiled_only
    for card in cards:
        capability, first, step = map(int, card.split(":"))
        driver.set_active(NoDevice(capability))
        for augment, batch in islice(launches(), first, None, step):
            with use_backend("triton"):
                augment(batch)
        for of_draws in islice(draws(), first, None, step):
            draw_all(*of_draws, engine)
    print("triton", triton.__version__)
    for name, found in compiled.items():
        capability_of, kernel, _ = name.split(" ")
        target = f".target sm_{capability_of.partition(':')[0]}" in found.asm["ptx"]
        wrong = [*sorted(set(INEXACT.findall(found.asm["ptx"]))), *excesses(found)]
        print(capability_of, kernel, target and "cubin" in found.asm, *wrong)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
