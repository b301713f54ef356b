"""Pastes in place by the Triton kernels, next to the reference's out of place; and the bytes that kernels write.

`test_cuda` runs this file as it does `cuda_checks`. `test_in_place` has what else must hold, for other backends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from backend_cases import module
from benchmarks import traffic
from cuda_cases import (  # noqa: F401
    DEVICE,
    MAPLESS,
    Elsewhere,
    one_tile,
    patched_interpreter,
    small_batch,
    small_tiles,
)
from torch import Tensor
from triton.runtime import interpreter

from samples import OPTIONAL, assert_backends_agree, with_overlaps
from segpaste.augmentation import BatchCopyPaste
from segpaste.engine import Scene, planes, use_backend
from segpaste.engine.planes import PLANES
from segpaste.engine.reference import plan as plan_records
from segpaste.engine.reference.plan import LayerPlan, Region, SlotPlan, Visible, in_boxes
from segpaste.engine.triton import composing
from segpaste.engine.triton.visibility import settling
from segpaste.types import FIELDS, Modality, PaddedBatchedDenseSample


def losing_rows(**options: Any) -> BatchCopyPaste:
    """Instances lose their row with their first pixel."""
    return BatchCopyPaste(module(**options).config.model_copy(update={"min_residual_area_frac": 1.0}))


def agreed_in_place(batch: PaddedBatchedDenseSample, paste: BatchCopyPaste, *, reports: bool = True) -> Any:
    """The report of a paste in place, which agrees with the reference's out of place; something was pasted.

    Without a report, the visibility buffer need not be returned.
    """
    own = batch.map_tensors(lambda t: t.detach().clone(memory_format=torch.preserve_format))
    source = paste.source
    with use_backend("reference"):
        expected = paste(batch, return_report=True)
    if isinstance(source, Elsewhere) and source.other.images.data_ptr() == batch.images.data_ptr():
        source = Elsewhere(own.map_tensors(lambda t: t[:1]))
    with use_backend("triton"):
        found = BatchCopyPaste(paste.config, source, inplace=True)(own, return_report=reports)
    assert int(expected[1].num_placed.sum()) > 0
    out, report = found if reports else (found, None)
    for name in PLANES:
        assert getattr(out, name) is None or getattr(out, name).data_ptr() == getattr(own, name).data_ptr()
    assert int(out.instance_masks.view(torch.uint8).max()) == 1
    assert_backends_agree(found if reports else (out, expected[1]), expected)
    return report


class TestEqualsOutOfPlace:
    """A batch that is its own source, unless a case says otherwise."""

    @pytest.mark.parametrize(
        ("modalities", "options"),
        [
            (set(OPTIONAL), {}),
            (set(OPTIONAL), {"stuff_policy": "ignore", "tau_stuff_px": 1000}),
            (MAPLESS, {}),
            ({Modality.INSTANCE}, {}),
        ],
        ids=["all", "ignore", "no maps", "instances"],
    )
    def test_equals_out_of_place(self, modalities: set[Modality], options: dict[str, Any]) -> None:
        """Rows are each other's sources, masks overlap and have holes where they may, and many instances lose their
        row.
        """
        batch = small_batch(modalities=modalities, max_instances=6, seed=3)
        if Modality.PANOPTIC not in modalities:
            batch = with_overlaps(batch)
            chance = torch.rand(batch.instance_masks.shape, generator=torch.Generator().manual_seed(3))
            batch = replace(batch, instance_masks=batch.instance_masks & (chance < 0.6).to(DEVICE))
        report = agreed_in_place(batch, losing_rows(panoptic=options, scale_range=(0.8, 1.3)))
        refilled = (report.slot_layer >= 0) & batch.instance_valid
        assert refilled.any()

    @pytest.mark.usefixtures("small_tiles")
    def test_borders_of_tiles(self) -> None:
        batch = small_batch(image_dtype=torch.bfloat16, max_instances=6, padding=(2, 1))
        batch = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        agreed_in_place(batch, losing_rows(scale_range=(0.8, 1.3)))

    def test_sources_of_other_memory(self) -> None:
        """Another batch, classes of this one, and views of it."""
        batch, other = small_batch(max_instances=8), small_batch(seed=5)
        agreed_in_place(batch, module(Elsewhere(other)))
        agreed_in_place(batch, module(Elsewhere(batch.map_tensors(lambda t: t[:1]))))

    def test_depth_that_is_no_number(self) -> None:
        batch = small_batch(max_instances=8, modalities={Modality.INSTANCE, Modality.DEPTH})
        depth = batch.depth.clone()
        depth[:, :, ::5, ::3] = float("nan")
        agreed_in_place(replace(batch, depth=depth), module())

    def test_boxes_one_pixel_short(self) -> None:
        """Such a batch breaks the contract; slots that lose their instance are empty all the same."""
        batch = small_batch(modalities={Modality.INSTANCE})
        short = batch.boxes - torch.tensor([0.0, 0, 1, 1], device=DEVICE) * batch.instance_valid[..., None]
        with use_backend("triton"):
            out = BatchCopyPaste(losing_rows().config, inplace=True)(replace(batch.clone(), boxes=short))
        assert not out.instance_masks[~out.instance_valid].any()


class TestSpareBits:
    """With enough slots, the bytes of the masks also hold layers and values, and few planes are made."""

    @pytest.fixture(autouse=True)
    def made(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Planes that were made, by name."""
        names: list[str] = []

        def empty_plane(name: str, like: Tensor) -> Tensor:
            names.append(name)
            return planes.empty_plane(name, like)

        def empty_visible(scene: Scene) -> Visible:
            names.append("visible")
            return plan_records.empty_visible(scene)

        monkeypatch.setattr(composing, "empty_plane", empty_plane)
        monkeypatch.setattr(settling, "empty_visible", empty_visible)
        return names

    @pytest.mark.parametrize(
        ("modalities", "dtype", "slots", "expected"),
        [
            (set(OPTIONAL), torch.float32, 64, []),
            (set(OPTIONAL), torch.float32, 40, ["depth"]),
            (MAPLESS, torch.bfloat16, 64, []),
            (MAPLESS, torch.bfloat16, 40, ["semantic_maps"]),
            ({Modality.INSTANCE}, torch.uint8, 8, []),
            ({Modality.INSTANCE}, torch.float16, 8, ["images"]),
            ({Modality.INSTANCE}, torch.float32, 19, []),
        ],
        ids=lambda v: str(v) if isinstance(v, (torch.dtype, int)) else "",
    )
    def test_enough_slots_need_no_planes(
        self, modalities: set[Modality], dtype: torch.dtype, slots: int, expected: list[str], made: list[str]
    ) -> None:
        batch = bare_batch(modalities=modalities, image_dtype=dtype, max_instances=slots, seed=3)
        if Modality.PANOPTIC not in modalities:
            batch = with_overlaps(batch)
        if batch.semantic_maps is not None:
            wide = torch.where(batch.semantic_maps == 255, 255, batch.semantic_maps - (1 << 40))
            batch = replace(batch, semantic_maps=wide) if Modality.PANOPTIC not in modalities else batch
        made.clear()
        agreed_in_place(batch, losing_rows(scale_range=(0.8, 1.3)), reports=False)
        assert made == expected

    @pytest.mark.usefixtures("small_tiles")
    def test_borders_of_tiles(self, made: list[str]) -> None:
        batch = bare_batch(image_dtype=torch.float16, max_instances=48, padding=(2, 1))
        batch = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        agreed_in_place(batch, losing_rows(scale_range=(0.8, 1.3)), reports=False)
        assert not made

    def test_looks_after_guards_and_removals(self, made: list[str]) -> None:
        """Later looks write over what the earlier ones kept."""
        options = {"contact_priority": {1: 2, 2: -3, 12: 1}, "tau_stuff_px": 40}
        paste = module(layers=3, scale_range=(0.8, 1.5), panoptic=options)
        paste = BatchCopyPaste(paste.config.model_copy(update={"max_hidden_frac": 0.3}))
        for seed in (1, 2):
            agreed_in_place(bare_batch(max_instances=64, seed=seed), paste, reports=False)
        assert not made

    def test_another_batch_is_pasted_at_once(self, made: list[str]) -> None:
        batch, other = bare_batch(max_instances=8), small_batch(seed=5)
        agreed_in_place(batch, module(Elsewhere(other)), reports=False)
        assert not made


def test_without_memory_the_batch_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes for values that find no spare bits are allocated before anything is written."""

    def no_memory(name: str, plane: Tensor) -> Tensor:
        raise MemoryError(name)

    monkeypatch.setattr(composing, "empty_plane", no_memory)
    batch = bare_batch(max_instances=8, seed=3, image_dtype=torch.float32)
    before = batch.clone()
    with use_backend("triton"), pytest.raises(MemoryError, match="images"):
        BatchCopyPaste(module(scale_range=(0.8, 1.3)).config, inplace=True)(batch)
    for field in FIELDS:
        one, other = (getattr(which, field.batched_name) for which in (batch, before))
        assert one is other or torch.equal(one.view(torch.uint8), other.view(torch.uint8)), field.batched_name


def bare_batch(**options: Any) -> PaddedBatchedDenseSample:
    """A batch without keypoints and crowd, which would need the visibility buffer as a plane."""
    return small_batch(keypoints=False, crowd=False, **options)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="the interpreter counts")
class TestBytes:
    @pytest.mark.parametrize(("in_place", "slots"), [(False, 6), (True, 6), (True, 64)])
    @pytest.mark.parametrize("modalities", [set(OPTIONAL), {Modality.INSTANCE}], ids=["all", "instances"])
    def test_kernels_write_what_the_traffic_model_says(
        self, modalities: set[Modality], slots: int, in_place: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        batch = bare_batch(modalities=modalities, max_instances=slots, seed=3, image_dtype=torch.float32)
        counted, given, real_render = counted_stores(monkeypatch), [], composing.render

        def render(*arguments: Any) -> dict[str, Tensor]:
            counted.clear()
            planes = real_render(*arguments)
            given.append([*arguments[1:4], batch.instance_masks, planes["instance_masks"]])
            return planes

        monkeypatch.setattr(composing, "render", render)
        paste = (losing_rows if Modality.PANOPTIC in modalities else module)(scale_range=(0.8, 1.3))
        with use_backend("triton"):
            paste(batch)
            if in_place:
                BatchCopyPaste(paste.config, inplace=True)(batch.clone())
        height, width = batch.canvas_size
        maps = {name: getattr(batch, field) is not None for name, field in _FIELDS.items()}
        shape = traffic.Shape(batch.batch_size, slots, height, width, 4, num_layers=2, **maps)
        what = change(*given[0])
        assert what.dropped if Modality.PANOPTIC in modalities else what.hidden
        kernels = (traffic.in_place if in_place else traffic.out_of_place)(shape, what)
        assert {name: moved.written for name, moved in kernels.items()} == counted


_FIELDS = {"semantic": "semantic_maps", "panoptic": "panoptic_maps", "depth": "depth", "normals": "normals"}


def counted_stores(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that each kernel stores from now on."""
    counted: dict[str, int] = {}
    real_launch, builder, running = composing.launch, interpreter.InterpreterBuilder, [""]
    real_store = builder.create_masked_store

    def launch(kernel: Any, *arguments: Any, **options: Any) -> None:
        running[0] = kernel.fn.__name__
        real_launch(kernel, *arguments, **options)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        size = pointers.get_element_ty().primitive_bitwidth // 8
        counted[running[0]] = counted.get(running[0], 0) + size * int(mask.data.sum())
        return real_store(self, pointers, value, mask, *rest)

    monkeypatch.setattr(composing, "launch", launch)
    monkeypatch.setattr(builder, "create_masked_store", store)
    return counted


def change(plan: LayerPlan, visible: Visible, slots: SlotPlan, before: Tensor, after: Tensor) -> traffic.Change:
    """Return the changes that a paste makes, computed the slow way."""
    num_images, num_slots, height, width = before.shape
    seen, whole = visible.layer >= 0, Region(slice(0, height), slice(0, width))
    boxes = in_boxes(plan.target_box, whole)
    images = torch.arange(num_images)[:, None].expand(num_images, num_slots)
    is_paste = slots.paste_layer >= 0
    paste_box = plan.paste_box[images, slots.paste_layer.clamp(min=0), slots.paste_slot.clamp(min=0)]
    lost = before & boxes & slots.dropped[:, :, None, None]
    return traffic.Change(
        pasted=int(seen.sum()),
        source=0,
        kept_boxes=int(boxes[slots.survives].sum()),
        paste_boxes=int(in_boxes(paste_box, whole)[is_paste].sum()),
        mask_pixels=int(after[is_paste].sum()),
        hidden=int((boxes & seen[:, None])[slots.survives].sum()),
        dropped=int(slots.dropped.sum()),
        dropped_pixels=int((before | after)[slots.dropped].sum()),
        lost=int(lost.any(1).sum()),
        orphans=int((lost.any(1) & ~seen).sum()),
    )
