"""Compiled whole, `BatchCopyPaste` does what it does in eager, for every set of modalities and the options.

The backend is inductor, in which integer arithmetic, ties and fused reductions can go wrong; ``aot_eager``, which
traces and checks the same and compiles in seconds, stands in where only the trace matters, and for what is like
something that inductor has had: it compiles the reference for a minute each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiled_and_eager import INSTANCE, TOLERANCE, Modalities, assert_equal, make_input, make_module, num_graphs
from torch import Tensor, nn

from samples import OPTIONAL, FromBatch, all_modality_subsets, make_batch, placement_of, subset_id
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import Placement, prepare
from segpaste.engine import use_backend
from segpaste.types import Modality, PaddedBatchedDenseSample

# The gate has every subset on the CPU. The reference, slower to trace: each modality, with and without instances.
SUBSETS = [("native", frozenset(OPTIONAL))]
SUBSETS += [("reference", all_modality_subsets()[i]) for i in (0, 1, 6, 11, 12, 13, 15, 19)]


@pytest.mark.slow
@pytest.mark.usefixtures("writing")
class TestEqualsEager:
    @pytest.mark.parametrize(
        ("writing", "modalities"),
        SUBSETS,
        indirect=["writing"],
        ids=lambda v: v if isinstance(v, str) else subset_id(v),
    )
    def test_each_subset_with_its_report_and_without_recompiling(self, modalities: Modalities) -> None:
        module = make_module(modalities)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        num_placed = 0
        with torch._dynamo.config.patch(error_on_recompile=True):
            for seed in range(3):
                batch = make_input(modalities, seed)
                expected = module(batch, return_report=True)
                assert_equal(compiled(batch, return_report=True), expected)
                num_placed += int(expected[1].num_placed.sum())
        assert num_graphs() == 1
        assert (num_placed > 0) == (Modality.INSTANCE in modalities)

    def test_layers_attempts_float_channels_last(self) -> None:
        """The first of equally good places is taken, whatever the backend's argmax does."""
        modalities = frozenset(OPTIONAL)
        module = make_module(modalities, layers=2, max_attempts=3, scale_range=(0.5, 0.7))
        compiled = torch.compile(module, fullgraph=True)
        layers = set()
        for seed in range(6):
            batch = make_input(modalities, seed, image_dtype=torch.float32)
            batch = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
            expected = module(batch, return_report=True)
            actual = compiled(batch, return_report=True)
            assert_equal(actual, expected)
            assert actual[0].images.is_contiguous(memory_format=torch.channels_last)
            layers.update(expected[1].visible_layer.unique().tolist())
        assert num_graphs() == 1
        assert layers == {-1, 0, 1}

    def test_inside_a_training_step(self, writing: str) -> None:
        torch.manual_seed(0)
        module, model = make_module(INSTANCE), nn.Conv2d(3, 1, 3, padding=1)

        def loss_of(batch: PaddedBatchedDenseSample) -> Tensor:
            out = module(batch)
            assert out.instance_masks is not None
            wanted = out.instance_masks.any(1, keepdim=True).float()
            return nn.functional.binary_cross_entropy_with_logits(model(out.images), wanted)

        def gradients(step: Callable[[PaddedBatchedDenseSample], Tensor]) -> list[Tensor]:
            model.zero_grad()
            loss = step(make_input(INSTANCE, image_dtype=torch.float32))
            loss.backward()
            return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

        backend = "inductor" if writing == "native" else "aot_eager"
        actual = gradients(torch.compile(loss_of, fullgraph=True, backend=backend))
        expected = gradients(loss_of)
        assert num_graphs() == 1
        assert len(actual) == 3
        for one, other in zip(actual, expected, strict=True):
            assert other.abs().max() > 1e-3
            torch.testing.assert_close(one, other, rtol=TOLERANCE, atol=TOLERANCE)

    def test_a_hundred_batches_of_one_shape(self, writing: str) -> None:
        """One graph, whatever the values are."""
        modalities = frozenset(OPTIONAL)
        module = make_module(modalities)
        how = {"mode": "reduce-overhead"} if writing == "native" else {"backend": "aot_eager"}
        compiled = torch.compile(module, fullgraph=True, **how)
        num_batches = 100 if writing == "native" else 3
        with torch._dynamo.config.patch(error_on_recompile=True):
            for seed in range(num_batches):
                batch = make_input(modalities, seed)
                assert_equal(compiled(batch), module(batch))
        assert num_graphs() == 1

    def test_in_place(self, writing: str) -> None:
        modalities = frozenset(OPTIONAL)
        out_of_place = make_module(modalities)
        backend = "inductor" if writing == "native" else "aot_eager"
        compiled = torch.compile(BatchCopyPaste(out_of_place.config, inplace=True), fullgraph=True, backend=backend)
        for seed in range(3):
            batch = make_input(modalities, seed, image_dtype=torch.float32)
            own = batch.clone()
            out = compiled(own)
            assert_equal(out, out_of_place(batch))
            assert_equal(own, out)
            assert out.images.data_ptr() == own.images.data_ptr()
        assert num_graphs() == 1

    @pytest.mark.parametrize(
        ("options", "inplace"),
        [({}, False), ({}, True), ({"emit_classmix": True}, False), ({"placement": {"partial": "clip"}}, False)],
        ids=["plain", "in place", "classmix", "clip"],
    )
    def test_sizes_that_are_dynamic_from_the_start(self, options: dict[str, Any], inplace: bool) -> None:
        """The numbers of the config are not dynamic, or they could not be converted to fractions."""
        placement = {"paste_prob": 1.0, **options.get("placement", {})}
        config = BatchCopyPasteConfig.model_validate({**options, "placement": placement})
        paste = BatchCopyPaste(config, inplace=inplace)
        compiled = torch.compile(paste, fullgraph=True, dynamic=True, backend="aot_eager")
        for size in ((20, 24), (33, 21)):
            batch = make_batch(3, size=size, max_instances=9)
            assert_equal(compiled(batch.clone()), BatchCopyPaste(config)(batch))

    def test_other_sizes_and_a_smaller_last_batch(self, writing: str) -> None:
        """Shapes become symbols on the second call; that must not break the graph either."""
        modalities = frozenset(OPTIONAL) if writing == "native" else INSTANCE
        module = make_module(modalities)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        for options in ({}, {"batch_size": 3}, {"max_instances": 5, "size": (13, 19)}):
            batch = make_input(modalities, **options)
            assert_equal(compiled(batch, return_report=True), module(batch, return_report=True))


OPTIONS: dict[str, dict[str, Any]] = {
    "one object a layer, sizes": {
        "grouping": "instance",
        "layers": 3,
        "scale_range": (0.2, 4),
        "size_range": {"low": 3, "high": 9},
        "class_sizes": {2: {"low": 5, "high": 5}},
        "class_temperature": 0.5,
    },
    "cut": {"partial": "clip", "min_visible_frac": 0.3, "max_attempts": 2, "class_temperature": 1.0, "k_range": (1, 2)},
    "canvas on patches": {"pad_to_multiple": 4, "patch_aligned_paste": True, "scale_range": (0.5, 2)},
    "objects on patches": {
        "pad_to_multiple": 4,
        "patch_aligned_paste": True,
        "align": "instance",
        "grouping": "instance",
        "layers": 2,
    },
    "kept": {"position": "keep", "vflip_probability": 0.5, "quarter_turn_probability": 0.75},
    "least covering": {"k_range": (0, 9), "k_to_available": True, "max_cover_frac": 0.9, "candidate_frac": 0.7},
    "over void": {"cover_void": True, "layers": 2},
    "into objects": {"into_empty": False, "layers": 2},
    "on classes": {"region": {1: (1, 11), 2: (12,)}, "region_frac": 0.3, "max_attempts": 4, "scale_range": (0.3, 0.7)},
}


@pytest.mark.slow
class TestOptions:
    @pytest.mark.parametrize("name", OPTIONS)
    def test_each_equals_eager_in_one_graph(self, name: str, writing: str) -> None:
        modalities = frozenset({Modality.INSTANCE, Modality.DEPTH})
        modalities |= {Modality.SEMANTIC} if {"region", "cover_void"} & OPTIONS[name].keys() else set()
        update = {"perspective_depth": True, "depth_order": "value" if name == "over void" else "valid"}
        config = make_module(modalities, **OPTIONS[name]).config.model_copy(update=update)
        module = BatchCopyPaste(config)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        num_placed = 0
        with torch._dynamo.config.patch(error_on_recompile=True):
            for seed in range(3):
                batch = make_input(modalities, seed=seed)
                expected = module(batch, return_report=True)
                assert_equal(compiled(batch, return_report=True), expected)
                num_placed += int(expected[1].num_placed.sum())
        assert num_graphs() == 1
        assert num_placed > 0

    def test_a_mask_of_where_pastes_may_go(self, writing: str) -> None:
        module, batch = make_module(INSTANCE, max_attempts=4, scale_range=(0.3, 0.7)), make_input(INSTANCE)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        region = torch.ones(batch.batch_size, *batch.canvas_size, dtype=torch.bool)
        region[..., : batch.canvas_size[1] // 3] = False
        expected = module(batch, region=region, return_report=True)
        assert_equal(compiled(batch, region=region, return_report=True), expected)
        assert num_graphs() == 1
        assert expected[1].num_placed.any()

    def test_what_is_traced_of_the_draws_through_inductor(self) -> None:
        """On the CPU they are an operator; elsewhere they are compiled."""
        module = make_module(INSTANCE, **OPTIONS["one object a layer, sizes"])

        def placement(batch: PaddedBatchedDenseSample) -> Placement:
            batch = prepare.prepared(batch, module.config, None)
            return placement_of(module, batch)

        compiled, num_carried = torch.compile(placement, fullgraph=True), 0
        with use_backend("reference"):
            for seed in range(3):
                batch = make_input(INSTANCE, seed=seed)
                expected = placement(batch)
                assert_equal(compiled(batch), expected)
                num_carried += int(expected.carried.sum())
        assert num_graphs() == 1
        assert num_carried > 0

    def test_a_schedule_changes_a_hundred_times(self, writing: str) -> None:
        """One graph, which reads the numbers as they are when it runs."""
        module = make_module(INSTANCE)
        backend = "inductor" if writing == "native" else "aot_eager"
        compiled = torch.compile(module, fullgraph=True, backend=backend)
        batch, found, drawn = make_input(INSTANCE, batch_size=8, num_instances=6, max_instances=9), set(), set()
        batch.labels[batch.instance_valid] = torch.tensor([1, 1, 1, 1, 1, 2]).repeat(8)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for step in range(100 if writing == "native" else 10):
                temperature = step // 2 % 5 / 4
                module.schedule.set(paste_prob=step % 3 / 2, k_range=(1, 1 + step % 2), class_temperature=temperature)
                out, report = compiled(batch, return_report=True)
                assert_equal((out, report), module(batch, return_report=True))
                found.add((step % 3, step % 2, tuple(report.num_tried.tolist())))
                drawn.add((step % 3, step % 2, str(report.drawn.nonzero().tolist())))
        assert num_graphs() == 1
        assert all(not any(tried) for prob, _, tried in found if prob == 0)
        assert len({tried for prob, _, tried in found if prob == 2}) == 2
        assert len({slots for prob, most, slots in drawn if (prob, most) == (2, 0)}) > 1


class TestSeeds:
    def test_a_generator_is_for_eager_only(self) -> None:
        module, batch = make_module(INSTANCE), make_input(INSTANCE)
        assert module(batch, torch.Generator().manual_seed(1)).sample_seeds.shape == (4,)
        with pytest.raises(torch._dynamo.exc.Unsupported, match="Generator"):
            torch.compile(module, fullgraph=True)(batch, torch.Generator().manual_seed(1))

    def test_drawn_in_the_graph_they_are_returned(self) -> None:
        module = make_module(INSTANCE)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        batch = make_input(INSTANCE, with_seeds=False)
        one, other = compiled(batch), compiled(batch)
        assert not torch.equal(one.sample_seeds, other.sample_seeds)
        assert_equal(one, module(replace(batch, sample_seeds=one.sample_seeds)))

    def test_inductor_draws_all_64_bits(self) -> None:
        @torch.compile(fullgraph=True)
        def seeds_of(batch: PaddedBatchedDenseSample) -> Tensor:
            seeds = prepare.seeded(batch, None).sample_seeds
            assert seeds is not None
            return seeds

        batch = make_input(frozenset(), batch_size=128, size=(2, 2), num_instances=0, padding=None, with_seeds=False)
        torch.manual_seed(3)
        seeds, others = seeds_of(batch), seeds_of(batch)
        torch.manual_seed(3)
        assert torch.equal(seeds_of(batch), seeds)
        assert len({*seeds.tolist(), *others.tolist()}) == 256
        for bit in range(64):
            assert 32 < int(((seeds >> bit) & 1).sum()) < 96, f"bit {bit}"


ONE_SIDED = [("depth", "depth_valid"), ("normals",), ("padding_mask",)]
ONE_SIDED.append(("semantic_maps", *(name for names in ONE_SIDED for name in names)))


UNKNOWN = {"semantic_maps": 255, "depth": 0, "depth_valid": False, "normals": 0}


# Of the reference all fields at once, and depth, which decides who is seen.
SIDES = [("native", names) for names in ONE_SIDED] + [("reference", ONE_SIDED[0]), ("reference", ONE_SIDED[-1])]


class TestWithoutValidation:
    """Compiled runs construct containers unchecked, so what is missing on one side must be handled, not read."""

    @pytest.mark.parametrize(
        ("writing", "missing"), SIDES, indirect=["writing"], ids=lambda v: v if isinstance(v, str) else "+".join(v)
    )
    @pytest.mark.parametrize("side", ["target", "source"])
    @pytest.mark.usefixtures("writing")
    def test_a_field_on_one_side_only(self, missing: tuple[str, ...], side: str) -> None:
        modalities = frozenset(OPTIONAL) - {Modality.PANOPTIC}
        full = replace(make_input(modalities), metric_depth=False)
        less = replace(full, **dict.fromkeys(missing))
        target, source = (less, full) if side == "target" else (full, less)
        module = BatchCopyPaste(make_module(modalities).config, FromBatch(source))
        expected, report = module(target, return_report=True)
        assert report.num_placed.any()
        actual = torch.compile(module, fullgraph=True, backend="aot_eager")(target, return_report=True)
        assert_equal(actual, (expected, report))
        for name in missing:
            kept, out = getattr(target, name), getattr(actual[0], name)
            assert (out is None) == (kept is None), name
            if kept is not None:
                is_target = report.visible_layer < 0
                is_target = is_target if kept.ndim == 3 else is_target[:, None].expand_as(kept)
                assert torch.equal(out[is_target], kept[is_target]), name
                if side == "source" and name != "padding_mask":
                    assert (out[~is_target] == UNKNOWN[name]).all(), name
