"""Forwards that use every Triton kernel, for checks on a device or in Triton's interpreter.

Canvases have many tiles, so that many programs of a row arrive at the counter whose last one decides.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "engine")]

from samples import EVERY_OBJECT, OPTIONAL, SCHEMA, make_batch  # noqa: E402
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample  # noqa: E402
from segpaste.augmentation import (  # noqa: E402
    OriginalsConfig,
    PanopticConfig,
    PasteReport,
    PlacementConfig,
    SourceConfig,
)
from segpaste.types import Modality, StagedCrops, tight_boxes  # noqa: E402

Copied = TypeVar("Copied", PaddedBatchedDenseSample, StagedCrops)
Outcome = tuple[PaddedBatchedDenseSample, PasteReport | None]
Call = Callable[[], Outcome]


@dataclass(frozen=True)
class Size:
    """Size of the batches.

    Attributes:
        num_images: B.
        canvas: (H, W), no multiple of a tile.
        slots: K.
        num_instances: of each image, cycled.
    """

    num_images: int
    canvas: tuple[int, int]
    slots: int
    num_instances: tuple[int, ...]


LARGE = Size(6, (517, 1027), 24, (9, 14, 5))
"""More programs than any card runs at once."""

SMALL = Size(2, (12, 20), 6, (2, 3))
"""For the interpreter, whose time goes by the tile: four of them."""


@dataclass(frozen=True)
class Case:
    """A config, and the batches that it is for.

    Attributes:
        config: of the module.
        options: of `samples.make_batch`.
        layout: of the images.
        reports: ask for the report; without one, in place, spare bits of the masks keep the visibility buffer.
    """

    config: BatchCopyPasteConfig
    options: Mapping[str, Any]
    layout: torch.memory_format = torch.contiguous_format
    reports: bool = True

    @property
    def ways(self) -> tuple[bool, ...]:
        """Return the values of ``inplace`` to run with: a batch that grows cannot be pasted into in place."""
        grows = self.config.placement.pad_to_multiple is not None or self.config.max_instances is not None
        return (False,) if grows else (False, True)

    def made(self, size: Size, seed: int) -> tuple[PaddedBatchedDenseSample, StagedCrops | None]:
        """Make a batch, and crops for it if the config is for a bank."""
        options = {"num_instances": size.num_instances, "max_instances": size.slots, **self.options}
        batch = make_batch(size.num_images, size=size.canvas, seed=seed, **options)
        batch = replace(batch, images=batch.images.contiguous(memory_format=self.layout))
        is_bank = self.config.source.kind == "bank"
        return batch, _crops(size, self.config.source.crops_per_target, seed) if is_bank else None


def cases(size: Size) -> dict[str, Case]:
    """Return the cases by name: every guard, rounds of removal, classes, parts of the draws, crops, floats, waiting."""
    every = {"modalities": set(OPTIONAL), "metric_depth": True, "padding": (2, 1), "keypoints": True, "crowd": True}
    no_depth = every | {"modalities": set(OPTIONAL) - {Modality.DEPTH}, "metric_depth": False}
    bare = {"modalities": {Modality.INSTANCE}, "image_dtype": torch.float32}
    roomy = {"modalities": set(OPTIONAL), "image_dtype": torch.uint8, "metric_depth": True, "max_instances": 40}
    half = {"modalities": set(OPTIONAL) - {Modality.PANOPTIC}, "image_dtype": torch.bfloat16, "metric_depth": True}
    area = size.canvas[0] * size.canvas[1]
    part: dict[str, Any] = {"max_cover_frac": 0.9, "max_attempts": 4}
    part["originals"] = OriginalsConfig(candidate_frac=0.7, k_to_available=True)
    part |= {"grouping": "instance", "class_temperature": 0.5, "partial": "clip", "min_visible_frac": 0.1}
    guards: dict[str, Any] = {"max_hidden_frac": 0.6, "min_residual_area_frac": 0.5}
    taxonomy = {"tau_stuff_px": area // 50}
    return {
        "guards": Case(_config(taxonomy, layers=3, **guards), no_depth),
        "ignored stuff": Case(_config({"stuff_policy": "ignore", "tau_stuff_px": area}, layers=2), every),
        "rounds of removal": Case(_config({"contact_priority": {1: 2, 2: -3, 12: 1}}, layers=6), every),
        "classes": Case(_config(taxonomy, layers=2, emit_classmix=True), every),
        "part of the objects": Case(_config(taxonomy, layers=5, **part), half),
        "floats, channels last": Case(_config({}, layers=2), bare, torch.channels_last),
        "all wait in the masks": Case(_config(taxonomy, layers=2), roomy, reports=False),
        "some wait in the masks": Case(_config({}, layers=2), bare | {"max_instances": 20}, reports=False),
        "padded, more slots": Case(_config({}, layers=2, pad_to_multiple=16, max_instances=size.slots + 2), every),
        "crops": Case(_config(taxonomy, source=SourceConfig(kind="bank", crops_per_target=3)), every),
    }


def _config(panoptic: dict[str, Any], **options: Any) -> BatchCopyPasteConfig:
    """Return a config; options of the placement are told from others by their names."""
    of_placement = {name: options.pop(name) for name in PlacementConfig.model_fields.keys() & options.keys()}
    if not options.get("emit_classmix"):
        of_placement = {"scale_range": (0.5, 1.5), **of_placement}
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 0, "tau_stuff_frac": 0.3, **panoptic})
    options = {"source": EVERY_OBJECT, **options}
    return BatchCopyPasteConfig(panoptic=rules, placement={"paste_prob": 1.0, **of_placement}, **options)


def _crops(size: Size, num: int, seed: int) -> StagedCrops:
    """Make crops with objects of any shape, a third as wide as the canvas."""
    generator = torch.Generator().manual_seed(seed)
    shape, sides = (size.num_images, num), (size.canvas[0] // 3, size.canvas[1] // 3)
    alphas = torch.rand(*shape, 1, *sides, generator=generator) < 0.8
    return StagedCrops(
        images=torch.randint(256, (*shape, 3, *sides), dtype=torch.uint8, generator=generator),
        alphas=alphas,
        class_ids=torch.randint(1, 4, shape, generator=generator),
        boxes=tight_boxes(alphas.flatten(0, 2)).view(*shape, 4).to(torch.int64),
        crop_idx=torch.zeros(shape, dtype=torch.int64),
        depth=1 + torch.rand(*shape, 1, *sides, generator=generator),
        depth_valid=torch.rand(*shape, 1, *sides, generator=generator) < 0.9,
        camera_intrinsics=torch.tensor([float(sides[1]), sides[1], 0, 0]).expand(*shape, 4).contiguous(),
        metric_depth=True,
    )


def copied(values: Copied) -> Copied:
    """Return a copy of a batch or of crops in memory of its own, in the same layout."""
    return values.map_tensors(lambda t: t.clone(memory_format=torch.preserve_format))


def forward(
    paste: BatchCopyPaste, batch: PaddedBatchedDenseSample, staged: StagedCrops | None, *, reports: bool = True
) -> Outcome:
    """Paste, and return the report if asked to, else None."""
    if reports:
        out, report = paste(batch, staged=staged, return_report=True)
        return out, report
    return paste(batch, staged=staged), None


def on_cpu(outcome: Outcome) -> Outcome:
    """Copy an outcome to the CPU."""
    out, report = outcome
    return out.to("cpu"), None if report is None else report.to("cpu")


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line with ``--device`` and ``--out``; on the CPU start again with Triton's interpreter."""
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: in Triton's interpreter")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON file of what was run")
    options = parser.parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a CUDA device, torch sees none; --device cpu runs small cases in Triton's interpreter")
    if options.device == "cpu":
        interpret()
    return options


def interpret() -> None:
    """Start this program again with Triton's interpreter, unless it runs already."""
    if os.environ.get("TRITON_INTERPRET") != "1":  # read when Triton is imported
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "TRITON_INTERPRET": "1"})


@contextmanager
def device_or_interpreter(name: str) -> Iterator[torch.device]:
    """Run the Triton kernels on this device; on the CPU in the interpreter, with tiles smaller than `SMALL`."""
    import pytest
    from cuda_cases import set_tiles
    from quick_interpreter import patch_interpreter

    from segpaste.engine import use_backend

    with pytest.MonkeyPatch.context() as patch, use_backend("triton"):
        if name == "cpu":
            patch_interpreter(patch)
            set_tiles(patch, (8, 16), 2)
        yield torch.device(name)


@contextmanager
def named_launches() -> Iterator[set[str]]:
    """Collect the names of the kernels that are launched meanwhile."""
    from segpaste.engine.triton import launching

    names, real = set[str](), launching.launch

    def launch(kernel: Any, *arguments: Any, **options: int) -> None:
        names.add(kernel.fn.__name__)
        real(kernel, *arguments, **options)

    modules = [module for name, module in sys.modules.items() if name.startswith("segpaste.engine.triton")]
    users = [module for module in modules if getattr(module, "launch", None) is real and module is not launching]
    for module in users:
        module.launch = launch  # type: ignore[attr-defined]
    try:
        yield names
    finally:
        for module in users:
            module.launch = real  # type: ignore[attr-defined]


def tensors_of(outcome: Outcome) -> dict[str, Tensor]:
    """Return every tensor of an output and its report, by name."""
    found: dict[str, Tensor] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found[name] = value
        elif hasattr(value, "_asdict"):
            value = value._asdict()
        elif hasattr(value, "__dataclass_fields__"):
            value = {field: getattr(value, field) for field in value.__dataclass_fields__}
        if isinstance(value, Mapping):
            for key, part in value.items():
                add(f"{name}.{key}" if name else key, part)

    add("", outcome[0])
    add("report", outcome[1])
    return found
