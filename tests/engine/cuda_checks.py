"""The Triton kernels next to the reference, on a CUDA device, or on the CPU in Triton's interpreter.

`test_cuda` runs this file in a process of its own, for the interpreter has to be switched on before triton is imported
and is not for all the other tests. The interpreter's time goes by the tile, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from backend_cases import module
from cuda_cases import (  # noqa: F401
    DEVICE,
    DTYPES,
    MAPLESS,
    PAIRS,
    Elsewhere,
    agreed,
    assert_all_equal,
    one_tile,
    patched_interpreter,
    placed,
    settled_by_kernels,
    settled_by_reference,
    small_batch,
    small_tiles,
)
from torch import Tensor

from samples import (
    EVERY_OBJECT,
    OPTIONAL,
    SCHEMA,
    assert_backends_agree,
    assert_same,
    free_boxes,
    subset_id,
    with_overlaps,
)
from segpaste.augmentation import DROP_REASONS, BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig
from segpaste.engine import engine_for, triton, use_backend
from segpaste.engine.planes import PLANES, ROWS, present_planes
from segpaste.engine.reference import stages
from segpaste.invariants import Case, instance_given_bbox_kept
from segpaste.types import Modality

COMPOSES = (stages.compose, triton.compose)


class TestAgree:
    @pytest.mark.parametrize(("modalities", "dtype"), PAIRS, ids=lambda v: str(v) if v in DTYPES else subset_id(v))
    def test_every_subset_and_dtype(self, modalities: frozenset[Modality], dtype: torch.dtype) -> None:
        agreed(
            small_batch(image_dtype=dtype, modalities=modalities, metric_depth=Modality.DEPTH in modalities), module()
        )

    @pytest.mark.parametrize(("dtype", "layers"), [(torch.uint8, 3), (torch.float32, 1)], ids=str)
    @pytest.mark.usefixtures("small_tiles")
    def test_borders_of_tiles(self, layers: int, dtype: torch.dtype) -> None:
        batch = small_batch(image_dtype=dtype, max_instances=8, metric_depth=True, padding=(2, 1))
        agreed(batch, module(layers=layers, scale_range=(0.5, 1.0)), layers)

    def test_masks_that_overlap(self) -> None:
        for modalities in (MAPLESS, set(OPTIONAL)):
            agreed(with_overlaps(small_batch(modalities=modalities)), module(scale_range=(0.5, 1.0)))

    def test_a_mask_reaches_as_far_as_its_box(self) -> None:
        batch = small_batch(modalities=MAPLESS)
        x1, y1, x2, y2 = batch.boxes.unbind(-1)
        agreed(replace(batch, boxes=torch.stack([x1, y1, (x1 + x2) / 2, (y1 + y2) / 2], -1)), module(layers=1))

    @pytest.mark.parametrize("mask_from", ["boxes", "ellipse"])
    def test_boxes_without_masks(self, mask_from: str) -> None:
        """What no paste overlaps keeps every bit; all other boxes are equal on all backends."""
        batch = free_boxes(small_batch(modalities={Modality.SEMANTIC}, max_instances=7), np.random.default_rng(1))
        source = EVERY_OBJECT.model_copy(update={"mask_from": mask_from})
        config = module(scale_range=(0.5, 2.0)).config.model_copy(update={"source": source, "panoptic": None})
        out, report = agreed(batch, BatchCopyPaste(config))
        case = Case(batch.to("cpu"), out.to("cpu"), report.to("cpu"), config)
        assert instance_given_bbox_kept(case) == []

    @pytest.mark.parametrize("policy", ["revert", "ignore"])
    def test_stuff_that_is_wiped_out(self, policy: str) -> None:
        batch = small_batch(max_instances=8)
        rules = {"stuff_policy": policy, "tau_stuff_px": 1000}
        out, report = agreed(batch, module(panoptic=rules, scale_range=(0.5, 1.0)), 0 if policy == "revert" else 1)
        if policy == "revert":
            assert report.num_dropped[:, 4].any()
        else:
            assert ((out.semantic_maps == 255) & (batch.semantic_maps > 10) & (report.visible_layer < 0)).any()

    @pytest.mark.parametrize(
        ("modalities", "layers"), [({*OPTIONAL}, 3), ({*OPTIONAL} - {Modality.DEPTH}, 1)], ids=["depth", "no depth"]
    )
    def test_priorities_of_classes(self, layers: int, modalities: set[Modality]) -> None:
        """Masks may overlap; equal priorities count as none."""
        options: dict[str, Any] = {"layers": layers, "scale_range": (0.5, 1.5)}
        alike = {"contact_priority": dict.fromkeys(SCHEMA.classes, 7)}
        batch = with_overlaps(small_batch(modalities=modalities, max_instances=8, seed=1))
        _, report = agreed(batch, module(panoptic={"contact_priority": {1: 2, 2: -3, 12: 1}}, **options), 0)
        with use_backend("reference"):
            plain = module(**options)(batch, return_report=True)
        assert not torch.equal(report.visible_layer, plain[1].visible_layer)
        assert_backends_agree(agreed(batch, module(panoptic=alike, **options)), plain)

    def test_things_that_lose_their_row(self) -> None:
        batch = small_batch(max_instances=8, modalities=set(OPTIONAL) - {Modality.DEPTH})
        paste = module(scale_range=(1.0, 1.5))
        paste = BatchCopyPaste(paste.config.model_copy(update={"min_residual_area_frac": 0.9}))
        out, report = agreed(batch, paste)
        left = (batch.panoptic_maps > 0) & (report.visible_layer < 0)
        assert ((out.panoptic_maps == 0) & left).any()

    def test_objects_that_must_not_be_hidden(self) -> None:
        paste = module(scale_range=(1.0, 1.5))
        paste = BatchCopyPaste(paste.config.model_copy(update={"max_hidden_frac": 0.2}))
        _, report = agreed(small_batch(max_instances=8, padding=(1, 2)), paste)
        assert report.num_dropped[:, DROP_REASONS.index("reverted")].any()

    @pytest.mark.parametrize("modalities", [set(OPTIONAL), MAPLESS, {Modality.SEMANTIC}], ids=subset_id)
    def test_classes(self, modalities: set[Modality]) -> None:
        num = (2, 3) if Modality.INSTANCE in modalities else 0
        batch = small_batch(
            image_dtype=torch.float32, modalities=modalities, num_instances=num, max_instances=7, padding=(1, 2)
        )
        rules = PanopticConfig(taxonomy=SCHEMA, tau_stuff_px=0, tau_stuff_frac=0)
        agreed(
            batch,
            BatchCopyPaste(
                BatchCopyPasteConfig(
                    placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=rules, source=EVERY_OBJECT
                )
            ),
            2,
        )

    def test_many_slots(self) -> None:
        """The last slots are those that are taken."""
        batch = small_batch(max_instances=24, num_instances=9, modalities={Modality.INSTANCE})
        names = ("boxes", "labels", "instance_ids", "instance_valid", "instance_masks", "keypoints")
        agreed(replace(batch, **{name: getattr(batch, name).flip(1) for name in names}), module(layers=1), 5)

    @pytest.mark.parametrize(("slots", "layers"), [(300, 64)] if torch.cuda.is_available() else [(300, 4), (24, 64)])
    def test_most_slots_and_layers(self, slots: int, layers: int) -> None:
        """The image without objects receives all that find a place. Both at once take the interpreter a minute."""
        batch = small_batch(max_instances=slots, num_instances=(0, 9), modalities={Modality.INSTANCE})
        agreed(batch, module(layers=layers), 3)

    @pytest.mark.parametrize("modalities", [{Modality.INSTANCE}, {Modality.INSTANCE, Modality.SEMANTIC}], ids=subset_id)
    def test_holes_in_the_picture(self, modalities: set[Modality]) -> None:
        """Pixels of padding, and of no label, in the midst of the source and of the target."""
        batch = small_batch(modalities=modalities, max_instances=8, padding=(1, 1))
        chance = torch.rand(2, *batch.padding_mask.shape, generator=torch.Generator().manual_seed(4)).to(DEVICE)
        holed = replace(batch, padding_mask=batch.padding_mask | (chance[0] < 0.2))
        if batch.semantic_maps is not None:
            ignored = batch.semantic_maps.masked_fill(chance[1, :, 0] < 0.2, 255)
            holed = replace(holed, semantic_maps=ignored, padding_mask=batch.padding_mask)
        _, report = agreed(holed, module())
        _, plain = agreed(batch, module())
        assert not torch.equal(report.visible_layer, plain.visible_layer)


class TestShapes:
    @pytest.mark.parametrize(
        "options", [{"batch_size": 0}, {"max_instances": 0, "num_instances": 0}, {"size": (1, 1), "num_instances": 1}]
    )
    def test_degenerate_batches(self, options: dict[str, Any]) -> None:
        agreed(small_batch(**options), module(), 0)

    def test_a_target_without_slots(self) -> None:
        """Nothing stays and nothing finds a row, yet layers are drawn."""
        batch, source = small_batch(modalities=MAPLESS), small_batch(modalities=MAPLESS, seed=5)
        empty = replace(
            batch,
            **{name: getattr(batch, name)[:, :0] for name in (*ROWS, "instance_masks", "keypoints")},
        )
        scene, placement = placed(empty, source)
        found, expected = (settle(scene, placement) for settle in (settled_by_kernels, settled_by_reference))
        assert_all_equal(found, expected)
        outcomes = [compose(scene, placement, with_layer=True, in_place=False) for compose in COMPOSES]
        assert (outcomes[0].visible_layer >= 0).any()
        assert_all_equal(*(tuple(present_planes(outcome.batch).values()) for outcome in outcomes))

    def test_tensors_of_any_layout(self) -> None:
        layouts: dict[str, Callable[[Tensor], Tensor]] = {
            "channels last": lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t,
            "cut out of larger": lambda t: torch.nn.functional.pad(t, [2, 3])[..., 2:-3] if t.ndim > 2 else t,
            "last two dimensions swapped": lambda t: t.mT.contiguous().mT if t.ndim > 2 else t,
        }
        batch = small_batch(image_dtype=torch.bfloat16)
        plain = agreed(batch, module())
        for name, layout in layouts.items():
            out, report = agreed(batch.map_tensors(layout), module())
            is_last = out.images.is_contiguous(memory_format=torch.channels_last)
            assert is_last == (name == "channels last")
            assert_backends_agree((replace(out, images=out.images.contiguous()), report), plain)

    def test_images_of_one_channel_and_of_one_seen_thrice(self) -> None:
        batch = small_batch(image_dtype=torch.float32, modalities={Modality.INSTANCE})
        agreed(replace(batch, images=batch.images[:, :1]), module())
        agreed(replace(batch, images=batch.images[:, :1].expand(-1, 3, -1, -1)), module())

    @torch.no_grad()
    def test_inputs_that_require_grad(self) -> None:
        batch = small_batch(image_dtype=torch.float32)
        asking = batch.map_tensors(lambda t: t.clone().requires_grad_() if t.is_floating_point() else t)
        with use_backend("triton"):
            assert_same(module()(asking).map_tensors(Tensor.detach), module()(batch))


class TestValues:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_numbers_that_are_none(self, dtype: torch.dtype) -> None:
        """They are in images, depth and normals, of the source and of the target."""
        batch = small_batch(image_dtype=dtype, max_instances=8)
        generator = torch.Generator().manual_seed(3)

        def spoiled(plane: Tensor) -> Tensor:
            chance = torch.rand(plane.shape, generator=generator).to(DEVICE)
            plane = torch.where(chance < 0.04, float("nan"), plane)
            plane = torch.where((chance >= 0.04) & (chance < 0.05), float("inf"), plane)
            return torch.where((chance >= 0.05) & (chance < 0.06), -float("inf"), plane)

        broken = replace(
            batch, images=spoiled(batch.images), depth=spoiled(batch.depth), normals=spoiled(batch.normals)
        )
        for scale in (1.0, 0.75, 1.5):
            agreed(broken, module(layers=1, scale_range=(scale, scale)))

    def test_depth_that_is_nearly_equal(self) -> None:
        """The last bit of a depth decides who is seen."""
        batch = small_batch(max_instances=8, modalities={Modality.INSTANCE, Modality.DEPTH})
        ulps = torch.randint(0, 3, batch.depth.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
        flat = torch.full_like(batch.depth, 1.7).view(torch.int32).add(ulps.int()).view(torch.float32)
        agreed(replace(batch, depth=flat), module(layers=3, scale_range=(0.9, 1.6)), 3)

    def test_whole_pixels_are_copied(self) -> None:
        """Normals too are copied bit for bit, where a layer is not scaled."""
        batch = small_batch(max_instances=8, modalities={Modality.INSTANCE, Modality.NORMALS})
        paste = module(scale_range=(1.0, 1.0))
        out, _ = agreed(batch, paste)
        with use_backend("reference"):
            assert_same(out, paste(batch))

    def test_halves_round_to_even(self) -> None:
        """The mean of neighbours in half precision, too, is rounded as torch does."""
        batch = small_batch(modalities={Modality.INSTANCE})
        for dtype in DTYPES[2:]:
            values = torch.randint(1, 4, batch.images.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
            images = (1 + values.float() * torch.finfo(dtype).eps).to(dtype)
            agreed(replace(batch, images=images), module(scale_range=(2.0, 2.0)))


class TestForeignSource:
    @pytest.mark.parametrize("size", [(7, 9), (30, 23)])
    @pytest.mark.parametrize("modalities", [set(OPTIONAL), MAPLESS], ids=subset_id)
    def test_of_another_size(self, size: tuple[int, int], modalities: set[Modality]) -> None:
        """The other batch has another canvas, another number of images and of slots."""
        options = {"modalities": modalities, "padding": (1, 2)}
        other = small_batch(batch_size=3, size=size, max_instances=4, seed=7, **options)
        agreed(small_batch(max_instances=7, **options), module(Elsewhere(other), scale_range=(0.5, 0.8)), 2)

    @pytest.mark.parametrize("missing", ["semantic_maps", "depth", "normals"])
    def test_without_some_fields(self, missing: str) -> None:
        batch = small_batch(max_instances=8)
        also = {"semantic_maps": "panoptic_maps", "depth": "depth_valid"}.get(missing, missing)
        agreed(batch, module(Elsewhere(replace(batch, **{missing: None, also: None}))))

    def test_with_more_fields(self) -> None:
        source, batch = small_batch(padding=(1, 1)), small_batch(modalities={Modality.INSTANCE}, max_instances=8)
        agreed(batch, module(Elsewhere(source)))


class TestDevice:
    def test_a_cuda_device_takes_these_kernels(self) -> None:
        assert engine_for(torch.device("cuda")) is triton

    @pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a CUDA device")
    def test_nothing_waits_for_the_device(self) -> None:
        """A CUDA graph of a composition, replayed with other values."""
        batch, other = small_batch(image_dtype=torch.float32), small_batch(image_dtype=torch.float32, seed=9)
        scene, placement = placed(batch, batch)
        triton.compose(scene, placement, with_layer=True, in_place=False)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = triton.compose(scene, placement, with_layer=True, in_place=False)
        for name in PLANES:
            getattr(batch, name).copy_(getattr(other, name))
        graph.replay()
        expected = stages.compose(scene, placement, with_layer=True, in_place=False)
        assert_all_equal(tuple(found[1:]), tuple(expected[1:]))
        assert_same(found.batch, expected.batch)
