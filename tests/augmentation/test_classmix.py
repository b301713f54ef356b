"""ClassMix: half of the classes of another image where they stand, by every kernel, equal to plain loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from chi_square import assert_uniform
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from loop_checks import assert_equal, assert_unchanged, run
from paste_cases import batches, configs
from pydantic import ValidationError
from torch._dynamo.testing import CompileCounterWithBackend

import brute_force
import brute_force_classmix
from brute_force_draws import Drawn
from samples import (
    CPU_BACKENDS,
    EVERY_IMAGE,
    OPTIONAL,
    SCHEMA,
    Pasted,
    all_modality_subsets,
    assert_backends_agree,
    assert_same,
    make_batch,
    paste,
    subset_id,
)
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PasteReport,
    Placement,
    PlacementConfig,
    PlacementCounts,
    SourceConfig,
)
from segpaste.engine import use_backend
from segpaste.engine.schema import SCALE_DEN
from segpaste.invariants import Case, check_all
from segpaste.types import Modality, PaddedBatchedDenseSample

pytestmark = pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
SUBSETS = [m for m in all_modality_subsets() if Modality.SEMANTIC in m]
MIXED = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True)
TAXONOMY = PanopticConfig(taxonomy=SCHEMA, tau_stuff_frac=0, tau_stuff_px=0)


@dataclass
class Expected:
    """Draws of the loops, as tensors."""

    placement: Placement
    counts: PlacementCounts

    @classmethod
    def of(cls, draws: list[Drawn], num_slots: int) -> Expected:
        layers = torch.tensor([d.source_idx for d in draws])
        carried = torch.zeros(*layers.shape, num_slots + 1, dtype=torch.bool)
        for b, drawn in enumerate(draws):
            for j, slots in enumerate(drawn.carried):
                carried[b, j, slots] = True
        one = torch.full((*layers.shape, 2), SCALE_DEN)
        off, valid = torch.zeros_like(layers, dtype=torch.bool), torch.tensor([d.layer_valid for d in draws])
        names = ("tried", "no_source", "no_free_slot", "does_not_fit")
        counts = PlacementCounts(*(torch.tensor([getattr(d, name) for d in draws]) for name in names))
        return cls(Placement(layers, valid, one, one, torch.zeros_like(one), off, carried), counts)


@st.composite
def mixings(draw: st.DrawFn, modalities: frozenset[Modality]) -> BatchCopyPasteConfig:
    placement = PlacementConfig(
        layers=draw(st.sampled_from([1, 1, 2, 3])),
        paste_prob=draw(st.sampled_from([1.0, 1.0, 0.5])),
        pad_to_multiple=draw(st.sampled_from([None, None, 4])),
    )
    config = draw(configs(modalities))
    panoptic = config.panoptic and config.panoptic.model_copy(update={"contact_priority": {}})
    return config.model_copy(update={"emit_classmix": True, "placement": placement, "panoptic": panoptic})


class TestForward:
    @pytest.mark.parametrize("modalities", SUBSETS, ids=subset_id)
    def test_equals_plain_loops(self, modalities: frozenset[Modality]) -> None:
        def check(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
            if batch.instance_masks is None:
                rows = {name: torch.zeros_like(getattr(batch, name)) for name in ("boxes", "labels", "instance_valid")}
                batch = replace(batch, **rows)
            out, report, _ = run(batch, config)
            num_slots = max(batch.max_instances, config.max_instances or 0)
            whole = batch
            if batch.instance_masks is None:
                masks = torch.zeros(*batch.boxes.shape[:2], *batch.canvas_size, dtype=torch.bool)
                whole = replace(batch, instance_masks=masks, instance_ids=torch.zeros_like(batch.labels).int())
            metric = batch.metric_depth and config.emit_depth is not False
            outcomes, draws = brute_force_classmix.mix(brute_force.prepared(whole, config), config, metric)
            expected = Expected.of(draws, num_slots)
            assert report.placement.source_idx.tolist() == [d.source_idx for d in draws]
            assert_equal(out, report, expected, outcomes)
            assert_unchanged(out, batch, ("camera_intrinsics", "sample_seeds", "sample_keys"))
            assert (out.instance_masks is None) == (batch.instance_masks is None or config.emit_instance is False)

        explore = settings(max_examples=max(1, settings().max_examples // 2))(
            given(batches(modalities), mixings(modalities))(check)
        )
        (seed(len(modalities))(explore) if settings().derandomize else explore)()


def stripes(num: int = 4, num_classes: int = 5, size: tuple[int, int] = (15, 12)) -> PaddedBatchedDenseSample:
    """Images without instances, each of as many equal stripes as there are classes, in colours of their own."""
    batch = make_batch(num, size=size, num_instances=0, max_instances=0, modalities=("semantic",))
    rows = torch.arange(size[0]) * num_classes // size[0]
    semantic = rows[:, None].expand(*size).repeat(num, 1, 1)
    images = (semantic[:, None] * 20 + torch.arange(num).view(-1, 1, 1, 1)).expand(num, 3, *size)
    return replace(batch, semantic_maps=semantic, images=images.to(batch.images.dtype).contiguous())


def mixed(
    kernels: str, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig = MIXED, seed: int = 0, **options: Any
) -> Pasted:
    return paste(batch, config, backend=kernels, seed=seed, **options)


@KERNELS
class TestClasses:
    @pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 5])
    def test_half_of_them_rounded_up(self, kernels: str, num_classes: int) -> None:
        """Each class is pasted whole or not at all, with its pixels, and nothing else is."""
        batch = stripes(num_classes=num_classes)
        out, report = mixed(kernels, batch)
        pasted = report.visible_layer >= 0
        for b, source in enumerate(report.placement.source_idx[:, 0].tolist()):
            assert source != b
            classes = batch.semantic_maps[source]
            chosen = classes[pasted[b]].unique().tolist()
            assert len(chosen) == -(-num_classes // 2)
            assert torch.equal(pasted[b], torch.isin(classes, torch.tensor(chosen)))
            assert torch.equal(out.images[b], torch.where(pasted[b], batch.images[source], batch.images[b]))
        assert torch.equal(out.semantic_maps, batch.semantic_maps)  # the stripes of all images agree

    def test_every_class_and_source_alike(self, kernels: str) -> None:
        classes, sources = torch.zeros(5, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
        batch = stripes()
        for start in range(150):
            _, report = mixed(kernels, batch, seed=start)
            classes += batch.semantic_maps[report.visible_layer >= 0].bincount(minlength=5)
            sources += report.placement.source_idx[:, 0].bincount(minlength=4)
        assert int(classes.sum()) == 150 * 4 * 3 * 36
        assert_uniform((classes // 36).numpy())
        assert_uniform(sources.numpy())

    def test_ignore_is_neither_pasted_nor_pasted_over(self, kernels: str) -> None:
        batch = stripes()
        semantic = batch.semantic_maps.clone()
        semantic[0, :, :3], semantic[1:, :, 8:] = 255, 255
        batch = replace(batch, semantic_maps=semantic)
        for start in range(8):
            out, report = mixed(kernels, batch, seed=start)
            pasted = report.visible_layer >= 0
            assert not pasted[0, :, :3].any()
            assert not pasted[:, :, 8:][1:].any()
            assert torch.equal(out.semantic_maps == 255, semantic == 255)

    def test_classes_beyond_the_table_stay(self, kernels: str) -> None:
        """These are classes from 1024 on without a taxonomy, and classes that the taxonomy does not know with one."""
        batch = stripes()
        far = replace(batch, semantic_maps=torch.where(batch.semantic_maps == 4, 5000, batch.semantic_maps))
        known = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=TAXONOMY)
        for start in range(6):
            _, report = mixed(kernels, far, seed=start)
            assert not (report.visible_layer >= 0)[far.semantic_maps == 5000].any()
            _, report = mixed(kernels, batch, known, seed=start)
            assert not (report.visible_layer >= 0)[(batch.semantic_maps == 0) | (batch.semantic_maps == 4)].any()

    def test_as_often_as_the_schedule_says(self, kernels: str) -> None:
        paste, batch = BatchCopyPaste(MIXED), stripes(6)
        with use_backend(kernels):
            paste.schedule.set(paste_prob=0)
            out, report = paste(batch, return_report=True)
        assert not report.num_tried.any()
        assert_same(out, replace(batch, sample_seeds=out.sample_seeds))

    @pytest.mark.parametrize("layers", [1, 3])
    def test_no_image(self, kernels: str, layers: int) -> None:
        batch = make_batch(0, size=(13, 11), num_instances=0, max_instances=2)
        config = BatchCopyPasteConfig(emit_classmix=True, placement=PlacementConfig(paste_prob=1.0, layers=layers))
        out, report = mixed(kernels, batch, config)
        assert out.batch_size == len(report.num_tried) == 0

    def test_no_other_image(self, kernels: str) -> None:
        with pytest.warns(UserWarning, match="no_source 1; batch at least two images whose semantic maps hold classes"):
            _, report = mixed(kernels, stripes(1), warns=True)
        assert report.num_dropped[0, 0] == report.num_tried[0] == 1


@KERNELS
class TestInstances:
    def test_those_of_the_classes_come_along(self, kernels: str) -> None:
        """They keep label and pixels; the check functions agree, for every modality."""
        config, num = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=TAXONOMY), 0
        for start in range(6):
            batch = make_batch(3, size=(13, 11), num_instances=3, max_instances=9, seed=start, metric_depth=True)
            out, report = mixed(kernels, batch, config, seed=start)
            check_all(Case(batch, out, report, config))
            pasted, rows = report.visible_layer >= 0, report.placement.source_idx[:, 0]
            for b, k in (report.slot_source >= 0).nonzero().tolist():
                source, slot = int(rows[b]), int(report.slot_source[b, k])
                assert out.labels[b, k] == batch.labels[source, slot]
                assert torch.equal(out.instance_masks[b, k], batch.instance_masks[source, slot] & pasted[b])
                num += 1
        assert num > 10

    def test_without_a_free_slot_their_pixels_stay_away(self, kernels: str) -> None:
        """An object without a row would be one that nothing names."""
        batch = make_batch(4, size=(13, 11), num_instances=3, max_instances=3, modalities=OPTIONAL)
        out, report = mixed(
            kernels, batch, BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=TAXONOMY)
        )
        assert report.num_dropped[:, DROP_REASONS.index("no_free_slot")].sum() > 0
        assert (report.visible_layer >= 0).any()
        assert not (out.panoptic_maps != 0)[report.visible_layer >= 0].any()
        masks = make_batch(4, size=(13, 11), num_instances=3, max_instances=3, modalities=("instance", "semantic"))
        _, report = mixed(kernels, masks)
        own = masks.instance_masks[report.placement.source_idx[:, 0]].any(1)
        assert report.num_dropped[:, DROP_REASONS.index("no_free_slot")].sum() > 0
        assert not (own & (report.visible_layer >= 0) & ~out_of_classes(masks, report)).any()

    def test_in_place(self, kernels: str) -> None:
        batch = make_batch(3, size=(13, 11), num_instances=3, max_instances=9)
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=TAXONOMY)
        out, _ = mixed(kernels, batch, config)
        own = batch.clone()
        over, _ = mixed(kernels, own, config, inplace=True)
        assert over.images is own.images
        assert_same(over, out)

    def test_boxes_for_masks(self, kernels: str) -> None:
        batch = make_batch(3, size=(13, 11), num_instances=2, max_instances=6, modalities=("semantic",))
        with pytest.raises(ValueError, match="expected instance masks with the boxes because emit_classmix=True"):
            mixed(kernels, batch)
        boxes = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, emit_classmix=True, source=SourceConfig(mask_from="boxes")
        )
        out, report = mixed(kernels, batch, boxes)
        assert report.num_placed.sum() > 3
        assert out.instance_masks is None


def out_of_classes(batch: PaddedBatchedDenseSample, report: PasteReport) -> torch.Tensor:
    """Return the mask of source pixels whose class is that of no instance over them, [B, H, W]."""
    rows = report.placement.source_idx[:, 0]
    semantic, masks = batch.semantic_maps[rows], batch.instance_masks[rows]
    return ~(masks & (batch.labels[rows][:, :, None, None] == semantic[:, None])).any(1)


class TestCompiled:
    @pytest.mark.slow
    @pytest.mark.parametrize("modalities", [("semantic",), OPTIONAL], ids=["semantic", "all"])
    def test_one_graph_equal_to_eager(self, modalities: tuple[Modality, ...]) -> None:
        """Nothing is compiled again, whatever is pasted, and however often."""
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=TAXONOMY)
        paste, counter = BatchCopyPaste(config), CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(paste, fullgraph=True, backend=counter)
        for start in range(4):
            num = 2 if Modality.INSTANCE in modalities else 0
            batch = make_batch(3, size=(13, 11), num_instances=num, max_instances=6, modalities=modalities, seed=start)
            batch = replace(batch, sample_seeds=torch.arange(3) + start)
            assert_backends_agree(compiled(batch, return_report=True), paste(batch, return_report=True))
        assert counter.frame_count == 1


class TestErrors:
    def test_without_semantic_maps(self) -> None:
        with pytest.raises(ValueError, match=r"expected semantic_maps in the batch because emit_classmix=True, got"):
            BatchCopyPaste(MIXED)(make_batch(2, modalities=("instance",)))

    @pytest.mark.parametrize("option", [{"scale_range": (1, 2)}, {"grouping": "instance"}, {"k_range": (1, 2)}])
    def test_placement_that_plays_no_part(self, option: dict[str, Any]) -> None:
        with pytest.raises(
            ValidationError, match=f"emit_classmix: expected no options of placement but .* got {next(iter(option))}"
        ):
            BatchCopyPasteConfig(emit_classmix=True, placement=PlacementConfig(**option))

    def test_priorities_of_objects(self) -> None:
        priorities = PanopticConfig(taxonomy=SCHEMA, contact_priority={1: 2})
        with pytest.raises(
            ValidationError, match=r"emit_classmix: expected no panoptic.contact_priority, .* got {1: 2}"
        ):
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, panoptic=priorities)

    def test_a_source_that_names_no_rows(self) -> None:
        class Other:
            def sample(self, *_: Any) -> Any: ...

        with pytest.raises(ValueError, match=r"expected a source with a method rows .*, got a Other"):
            BatchCopyPaste(MIXED, Other())

    def test_it_reads_semantic_maps(self) -> None:
        assert Modality.SEMANTIC in BatchCopyPaste(MIXED).read_modalities
        assert Modality.SEMANTIC not in BatchCopyPaste(EVERY_IMAGE).read_modalities
