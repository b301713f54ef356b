"""Count launches, waits, host tensors and bytes of one eager forward on a CUDA device, without a device.

    python -m benchmarks.launches
    python -m benchmarks.launches --out benchmarks/results/launches.json

Every preset, without harmonisation, on every subset of modalities that it takes, and a module that was left on the CPU;
and every option that takes launches of its own, see `benchmarks.launch_options`. The forward runs on fake CUDA tensors,
which have shapes and no values: each operation of torch that would run on the device counts as one launch (some are
two), and each Triton kernel of this package as one. The first call also moves the module's tables and may look whether
anything was pasted; it is counted apart from the calls after it. The bytes are those of a model,
`benchmarks.look_traffic`. The program exits with 1 if a forward after the first waits, or if without an option it makes
more than `MOST_LAUNCHES` (`MOST_WITHOUT_MASKS` for crops that are pasted into a batch without instance masks).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any
from unittest import mock

import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, HarmonizeConfig, PanopticConfig, arguments
from segpaste.presets import get_preset, list_presets
from segpaste.types import Modality, PaddedBatchedDenseSample, StagedCrops

from .device_operations import Operations, counting, fake_device
from .launch_options import OPTIONS, Option
from .plan import QUICK, Plan

OPTIONAL = (Modality.INSTANCE, Modality.PANOPTIC, Modality.SEMANTIC, Modality.DEPTH, Modality.NORMALS)
SIZE, BATCH_SIZE, SLOTS, CLASSES, CROP = (56, 84), 4, 8, 20, 24
"""Shapes of the counted batch: (H, W), which are multiples of the presets' patches, B, K, classes, sides of crops."""


MOST_LAUNCHES, MOST_WITHOUT_MASKS = 12, 27
"""Of a forward after the first, with every preset and every subset of modalities; and where crops are pasted into a
batch without instance masks, whose images of boxes are kept as they are."""


@dataclass(frozen=True)
class Case:
    """One forward.

    Attributes:
        preset: its name.
        modalities: of the batch, besides the image.
        inplace: paste into the batch's own tensors.
        padding: the batch has a padding mask.
        option: one of `OPTIONS`, or nothing.
    """

    preset: str
    modalities: frozenset[Modality]
    inplace: bool = False
    padding: bool = False
    option: str = ""

    @property
    def config(self) -> BatchCopyPasteConfig:
        """The preset's config without harmonisation, with a taxonomy where it or the batch needs one."""
        config = get_preset(self.preset).config
        changes: dict[str, Any] = {"harmonize": HarmonizeConfig()}
        if config.source.kind == "bank":
            changes["source"] = config.source.model_copy(update={"value_range": 1.0})
        if Modality.SEMANTIC in self.modalities and config.panoptic is None:
            classes = {c: "thing" if c < CLASSES // 2 else "stuff" for c in range(CLASSES)}
            changes["panoptic"] = PanopticConfig.model_validate({"taxonomy": {"classes": classes}})
        return self.changes.config(config.model_copy(update=changes))

    @property
    def changes(self) -> Option:
        """Changes that the option makes."""
        return OPTIONS.get(self.option, Option())

    @property
    def most_launches(self) -> int:
        """Ceiling without an option."""
        takes_crops = self.config.source.kind == "bank"
        return MOST_WITHOUT_MASKS if takes_crops and Modality.INSTANCE not in self.modalities else MOST_LAUNCHES

    @property
    def name(self) -> str:
        """The modalities in a few letters."""
        return "+".join(m.value for m in OPTIONAL if m in self.modalities) or "image"


def subsets() -> Iterator[frozenset[Modality]]:
    """All subsets of the modalities that a batch can have: a panoptic map comes with instances and semantics."""
    for size in range(len(OPTIONAL) + 1):
        for chosen in map(frozenset, combinations(OPTIONAL, size)):
            if Modality.PANOPTIC not in chosen or {Modality.SEMANTIC, Modality.INSTANCE} <= chosen:
                yield chosen


def cases(*, quick: bool = False) -> Iterator[Case]:
    """Every preset with every subset that it takes, both with and without padding, out of place and in place.

    With ``quick`` each preset has the smallest and the largest of its subsets, out of place.
    """
    for preset in list_presets():
        required = BatchCopyPaste(Case(preset, frozenset({Modality.SEMANTIC})).config).read_modalities
        taken = [s for s in subsets() if required <= {Modality.IMAGE, *s} and s]
        for modalities in (taken[0], taken[-1]) if quick else taken:
            yield from (Case(preset, modalities, inplace, padding) for inplace, padding in _ways(quick=quick))


def option_cases() -> Iterator[Case]:
    """Every option with the presets that show it, on instances alone and on all that it takes, in both ways."""
    for name, option in OPTIONS.items():
        for preset, modalities in product(option.presets, dict.fromkeys((option.fewest, option.most))):
            ways = (False, True) if option.works_in_place else (False,)
            yield from (Case(preset, modalities, inplace, padding=True, option=name) for inplace in ways)


def _ways(*, quick: bool) -> list[tuple[bool, bool]]:
    return [(False, True)] if quick else [(False, False), (False, True), (True, True)]


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Count every case; nothing is timed."""
    from . import look_traffic  # needs triton

    rows = []
    for case in (*cases(quick=plan is QUICK), *option_cases()):
        first, later = count(case)
        row = {"preset": case.preset, "modalities": case.name, "inplace": case.inplace, "padding": case.padding}
        row |= {"option": case.option, "most": case.most_launches}
        rows.append({**row, **later.to_dict(), "first": first.to_dict()})
    return {"torch": torch.__version__, "rows": rows, "errors": list(errors(rows)), "traffic": look_traffic.shares()}


def errors(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what must not be: too many launches, and waits for the device."""
    for row in rows:
        name = ", ".join(filter(None, (row["preset"], row["modalities"], row["option"], "in place" * row["inplace"])))
        if not row["option"] and row["launches"] > row["most"]:
            yield f"{name}: {row['launches']} launches, expected at most {row['most']}"
        if row["waits"]:
            yield f"{name}: waits for the device: {', '.join(row['waits'])}"


def count(case: Case) -> tuple[Operations, Operations]:
    """Count the first forward of a module, and the one after it."""
    with _on_the_fake_device():
        paste = BatchCopyPaste(case.config, inplace=case.inplace)
        first, later = (_forward(paste, case) for _ in range(2))
    return first, later


def count_later(cases: Sequence[Case]) -> list[Operations]:
    """Count a forward of each case that is not the first paste of its module; modules are shared by cases."""
    modules: dict[tuple[str, bool], BatchCopyPaste] = {}
    have_pasted, found = set[BatchCopyPaste](), []
    with _on_the_fake_device():
        for case in cases:
            key = case.config.model_dump_json(), case.inplace
            if key not in modules:
                modules[key] = BatchCopyPaste(case.config, inplace=case.inplace)
            paste = modules[key]
            operations = _forward(paste, case)
            if operations.kernels and paste not in have_pasted:
                have_pasted.add(paste)
                operations = _forward(paste, case)
            found.append(operations)
    return found


def _forward(paste: BatchCopyPaste, case: Case) -> Operations:
    batch, staged = case.changes.batch(fake_batch(case)), fake_crops(case)
    arguments = case.changes.arguments(batch)
    with counting() as operations:
        paste(batch, staged=staged, **arguments)
    return operations


@contextlib.contextmanager
def _on_the_fake_device() -> Iterator[None]:
    with fake_device(), without_a_card(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def without_a_card() -> Iterator[None]:
    """Answer what only a card can, and leave out the checks of addresses, which fake tensors do not have."""
    with (
        mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=False),
        mock.patch.object(arguments, "_check_apart"),
        mock.patch("segpaste.engine.triton.composing.share_memory", return_value=False),
    ):
        yield


def fake_batch(
    case: Case, sizes: tuple[int, int, tuple[int, int]] = (BATCH_SIZE, SLOTS, SIZE)
) -> PaddedBatchedDenseSample:
    """Make a batch of float32 images on the fake device, with seeds; ``sizes`` are B, K and (H, W)."""
    b, k, (height, width) = sizes

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(b, *shape, dtype=dtype, device="cuda")

    fields: dict[str, Any] = {
        "images": empty(3, height, width),
        "boxes": empty(k, 4),
        "labels": empty(k, dtype=torch.int64),
        "instance_valid": empty(k, dtype=torch.bool),
        "sample_seeds": empty(dtype=torch.int64),
    }
    if Modality.INSTANCE in case.modalities:
        fields["instance_ids"] = empty(k, dtype=torch.int32)
        fields["instance_masks"] = empty(k, height, width, dtype=torch.bool)
    if Modality.SEMANTIC in case.modalities:
        fields["semantic_maps"] = empty(height, width, dtype=torch.int64)
    if Modality.PANOPTIC in case.modalities:
        fields["panoptic_maps"] = empty(height, width, dtype=torch.int64)
    if Modality.DEPTH in case.modalities:
        fields |= {"depth": empty(1, height, width), "depth_valid": empty(1, height, width, dtype=torch.bool)}
        fields |= {"metric_depth": True, "camera_intrinsics": empty(4)}
    if Modality.NORMALS in case.modalities:
        fields["normals"] = empty(3, height, width)
    if case.padding:
        fields["padding_mask"] = empty(1, height, width, dtype=torch.bool)
    return PaddedBatchedDenseSample(**fields)


def fake_crops(case: Case) -> StagedCrops | None:
    """Make the crops of a bank for a preset that takes some, with depth and normals where the batch has them."""
    config = case.config
    if config.source.kind != "bank":
        return None
    b, k = BATCH_SIZE, config.source.crops_per_target

    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(b, k, *shape, dtype=dtype, device="cuda")

    has_depth = Modality.DEPTH in case.modalities
    return StagedCrops(
        images=empty(3, CROP, CROP, dtype=torch.uint8),
        alphas=empty(1, CROP, CROP, dtype=torch.bool),
        class_ids=empty(dtype=torch.int64),
        boxes=empty(4, dtype=torch.int64),
        crop_idx=empty(dtype=torch.int64),
        scales=empty(dtype=torch.float32),
        depth=empty(1, CROP, CROP, dtype=torch.float32) if has_depth else None,
        depth_valid=empty(1, CROP, CROP, dtype=torch.bool) if has_depth else None,
        normals=empty(3, CROP, CROP, dtype=torch.float32) if Modality.NORMALS in case.modalities else None,
        camera_intrinsics=empty(4, dtype=torch.float32) if has_depth else None,
        metric_depth=has_depth,
    )


if __name__ == "__main__":
    from .programs import main

    main("launches", __doc__, measure)
