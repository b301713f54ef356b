"""Bytes that the looks read and write, next to those of the model; and what the model says of large batches.

`test_cuda` runs this file as it does `cuda_checks`. `cuda_in_place` has the kernels of the pixels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from benchmarks import look_traffic, traffic
from cuda_cases import (  # noqa: F401
    DEVICE,
    hidden_visible,
    patched_interpreter,
    placed,
    set_tiles,
    small_batch,
)
from torch import Tensor
from triton.runtime import interpreter

from samples import OPTIONAL, make_batch
from segpaste.engine import Placement, Scene
from segpaste.engine.planes import ROWS
from segpaste.engine.reference.plan import LayerPlan
from segpaste.engine.triton import extend
from segpaste.engine.triton.composing import room_out_of_place
from segpaste.engine.triton.visibility import settling
from segpaste.types import Modality

NAMES = {"semantic": "semantic_maps", "panoptic": "panoptic_maps", "depth": "depth", "normals": "normals"}
READ = {**NAMES, "masks": "instance_masks", "depth_valid": "depth_valid"}
ONE_LAYER_DEEP = ("target.depth", "target.depth_valid")
"""Planes that are read once where several layers are seen one over the other: the model is an upper bound."""

READ_AGAIN = ("source.depth", "source.depth_valid")
"""Planes whose pixels are read once for each tap, as are masks that overlap, for the counts: the caches hold them."""


@pytest.mark.skipif(DEVICE.type != "cpu", reason="the interpreter counts")
class TestBytes:
    @pytest.mark.parametrize(("inplace", "hides"), [(False, False), (True, False), (True, True)])
    @pytest.mark.parametrize("modalities", [set(OPTIONAL), {Modality.INSTANCE}], ids=["all", "instances"])
    def test_the_first_look_moves_what_the_model_says(
        self, modalities: set[Modality], inplace: bool, hides: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two layers of another batch, tiles whose borders cut through everything, no paste removed.

        If spare bits of the masks hold the visibility buffer, the model is an upper bound.
        """
        set_tiles(monkeypatch, (16, 16), 2)
        options = {"modalities": modalities, "size": (23, 37), "max_instances": 6}
        target, source = (small_batch(**options, seed=seed) for seed in (3, 5))
        scene, placement = placed(target, source, min_area_px=0, stuff_num=0, stuff_px=0)
        read, written = counted(monkeypatch, scene)
        planes = None if inplace else room_out_of_place(target).planes
        rows = {name: torch.empty_like(getattr(target, name)) for name in ROWS}
        settled = settling.settle(scene, placement, rows, hides, planes)
        assert not settled.num_gone.any()
        visible = hidden_visible(scene, settled.plan, settled.visible) if hides else settled.visible
        assert (visible.layer >= 0).any()
        shape = shape_of(scene)
        looked = looked_at(scene, placement, settled.plan)
        assert looked.tried > looked.covered >= looked.open >= looked.shown > 0
        model = look_traffic.plane_reads(shape, looked, inplace=inplace)
        for name in READ_AGAIN if shape.panoptic else (*READ_AGAIN, "source.masks"):
            model.pop(name)
        for name in ONE_LAYER_DEEP:
            assert read[name] <= model.pop(name)
        added = read["target.masks"] - model.pop("target.masks")
        assert {name: read[name] for name in model} == model
        model = look_traffic.looks(shape, looked, inplace=inplace)
        spared = model["look"].written - written["look"]
        assert written["tables"] == model["tables"].written
        if hides:  # bytes of masks are read, to write digits into them, instead of the planes of the visibility buffer
            assert 0 < added < spared
        else:
            assert (added, spared) == (0, 0)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="the interpreter counts")
class TestExtension:
    @pytest.mark.parametrize(("size", "slots"), [((9, 13), 9), ((12, 16), 6), ((12, 13), 8)])
    def test_planes_move_what_the_model_says(
        self, size: tuple[int, int], slots: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        batch = make_batch(2, size=(9, 13), max_instances=6, image_dtype=torch.float32)
        moved = {"load": Counter[int](), "store": Counter[int]()}
        builder = interpreter.InterpreterBuilder
        for name, places in moved.items():
            monkeypatch.setattr(builder, f"create_masked_{name}", counting(builder, name, places))
        out = extend(batch, size, slots)
        fields = ("images", "instance_masks", "padding_mask", *READ.values())
        given, new = ({getattr(of, name) for name in fields} - {None} for of in (batch, out))
        read, written = bytes_in(moved["load"], given), bytes_in(moved["store"], new - given)
        maps = dict.fromkeys(NAMES, True)
        old, grown = (
            traffic.Shape(2, of.max_instances, *of.canvas_size, 4, **maps, num_classes=0) for of in (batch, out)
        )
        assert (read, written) == traffic.extension(old, grown)


def counting(builder: Any, name: str, places: Counter[int]) -> Any:
    """Count the bytes at each address that are loaded or stored from now on."""
    real = getattr(builder, f"create_masked_{name}")

    def call(self: Any, pointers: Any, *rest: Any) -> Any:
        mask = rest[1] if name == "store" else rest[0]
        size = pointers.get_element_ty().primitive_bitwidth // 8
        for address in pointers.data[mask.data].tolist():
            places[address] += size
        return real(self, pointers, *rest)

    return call


def bytes_in(places: Counter[int], planes: Iterable[Tensor]) -> int:
    spans = [(plane.data_ptr(), plane.data_ptr() + plane.nbytes) for plane in planes]
    return sum(size for address, size in places.items() if any(low <= address < high for low, high in spans))


def counted(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> tuple[Counter[str], Counter[str]]:
    """Bytes that the first look reads of each plane, and bytes that each kernel stores, from now on."""
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    spans = {f"{side}.{name}": plane for side, name, plane in planes_of(scene)}
    real_launch, builder, running = settling.launch, interpreter.InterpreterBuilder, [""]
    real_load, real_store = builder.create_masked_load, builder.create_masked_store

    def launch(kernel: Any, *arguments: Any, **options: Any) -> None:
        running[0] = kernel.fn.__name__ if arguments[-1] == 0 or kernel.fn.__name__ == "tables" else ""
        real_launch(kernel, *arguments, **options)

    def load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        if running[0] == "look":
            places = pointers.data[mask.data]
            for name, plane in spans.items():
                first, end = plane.data_ptr(), plane.data_ptr() + plane.nbytes
                read[name] += plane.element_size() * int(((places >= first) & (places < end)).sum())
        return real_load(self, pointers, mask, *rest)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if running[0]:
            written[running[0]] += pointers.get_element_ty().primitive_bitwidth // 8 * int(mask.data.sum())
        return real_store(self, pointers, value, mask, *rest)

    monkeypatch.setattr(settling, "launch", launch)
    monkeypatch.setattr(builder, "create_masked_load", load)
    monkeypatch.setattr(builder, "create_masked_store", store)
    return read, written


def planes_of(scene: Scene) -> list[tuple[str, str, Tensor]]:
    sides = ("target", scene.target), ("source", scene.source)
    found = [(side, name, getattr(batch, field)) for side, batch in sides for name, field in READ.items()]
    return [(side, name, plane) for side, name, plane in found if plane is not None]


def shape_of(scene: Scene) -> traffic.Shape:
    target, (height, width) = scene.target, scene.target.canvas_size
    maps = {name: getattr(target, field) is not None for name, field in NAMES.items()}
    num_classes = 0 if scene.watched is None else len(scene.watched)
    return traffic.Shape(target.batch_size, target.max_instances, height, width, 1, **maps, num_classes=num_classes)


def looked_at(scene: Scene, placement: Placement, plan: LayerPlan) -> look_traffic.Looked:
    """Return what the first look reads, computed the slow way."""
    target, source = scene.target, scene.source
    found: Counter[str] = Counter()
    for b in range(target.batch_size):
        found["boxes"] += sum(int(mask.sum()) for mask in boxed(plan.target_box[b], target)[target.instance_valid[b]])
        for j in range(plan.source_idx.shape[1]):
            row = int(plan.source_idx[b, j])
            y, x = plan.y.nearest[b, j].long(), plan.x.nearest[b, j].long()
            reached = (y >= 0)[:, None] & (x >= 0)[None]
            y, x = y.clamp(min=0)[:, None], x.clamp(min=0)[None]
            if plan.swap_axes[b, j]:  # the table of the columns holds rows of the source
                y, x = x, y
            covered = torch.zeros_like(reached)
            for k, box in enumerate(boxed(plan.paste_box[b, j], target)):
                if placement.carried[b, j, k]:
                    asked = reached & box & ~covered
                    found["tried"] += int(asked.sum())
                    covered |= asked & source.instance_masks[row, k][y, x]
            found["covered"] += int(covered.sum())
            if target.semantic_maps is not None:
                covered = covered & (target.semantic_maps[b] != scene.rules.ignore_index)
            found["open"] += int(covered.sum())
            if source.semantic_maps is not None:
                covered &= source.semantic_maps[row][y, x] != scene.rules.ignore_index
            found["shown"] += int(covered.sum())
    return look_traffic.Looked(
        **found,
        source=0,
        instances=int(target.instance_valid.sum()),
        pastes=int(placement.carried.sum()),
        num_layers=plan.source_idx.shape[1],
        source_slots=source.max_instances,
        taps=plan.x.filter_idx.shape[2],
        touched=0,
        counts_classes=scene.watched is not None,
        guards=scene.watched is not None and bool(scene.rules.reverts_stuff),
    )


def boxed(boxes: Tensor, target: Any) -> Tensor:
    """Pixels of the canvas in each box [N, 4], [N, H, W] bool."""
    (height, width), (x1, y1, x2, y2) = target.canvas_size, boxes[:, :, None].unbind(1)
    rows, cols = torch.arange(height), torch.arange(width)
    return ((rows >= y1) & (rows < y2))[:, :, None] & ((cols >= x1) & (cols < x2))[:, None]


class TestShares:
    def test_goals(self) -> None:
        """At most a tenth of a clone is added out of place; in place, little is moved where nothing is pasted."""
        for row in look_traffic.shares():
            assert row["out_of_place"] <= 1.1
            assert row["in_place"] < 0.55
            assert row["pixels_in_place"] < row["in_place"]
            if row["pasted"] == 0:
                assert row["in_place"] < 0.25

    def test_in_place_bytes_grow_with_the_pasted_pixels(self) -> None:
        """In proportion, beyond a constant part: the looks add a little to it as soon as anything is pasted."""
        rows = look_traffic.shares((0, 0.05, 0.1, 0.2))
        for same in (rows[i : i + 4] for i in range(0, len(rows), 4)):
            none, few, more, many = (row["pixels_in_place"] for row in same)
            assert [more - none, many - none] == pytest.approx([2 * (few - none), 4 * (few - none)], rel=0.001)
            none, few, more, many = (row["in_place"] for row in same)
            assert many - more == pytest.approx(2 * (more - few), rel=0.001)
            assert 0 <= (few - none) - (more - few) < 0.005
