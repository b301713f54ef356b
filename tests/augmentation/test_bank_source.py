"""Objects from a bank, pasted: equal to plain loops, by every kernel, compiled, on targets of every modality."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from loop_checks import assert_equal, assert_unchanged
from paste_cases import batches, configs
from staged_cases import bank_cases, make_staged
from test_against_brute_force import assert_draws_equal
from torch._dynamo.testing import CompileCounterWithBackend

import brute_force_bank
from samples import (
    CPU_BACKENDS,
    OPTIONAL,
    SCHEMA,
    all_modality_subsets,
    assert_backends_agree,
    assert_same,
    make_batch,
    paste,
    subset_id,
)
from segpaste.augmentation import (
    BankSource,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    Placement,
    PlacementConfig,
    PlacementCounts,
    SourceConfig,
)
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.engine import use_backend
from segpaste.invariants import Case, violations
from segpaste.types import Modality, StagedCrops

pytestmark = [
    pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing"),
    pytest.mark.filterwarnings("ignore:BatchCopyPaste. expected at least 4 scales"),
]

WITH_MASKS = [m for m in all_modality_subsets() if Modality.INSTANCE in m]
EVERYTHING = frozenset(OPTIONAL)


class Recording(BankSource):
    """Source that keeps the placement as it was drawn."""

    placement: Placement
    counts: PlacementCounts

    def sample(self, *args: Any) -> Any:
        source, self.placement, self.counts = super().sample(*args)
        return source, self.placement, self.counts


def bank_config(crops_per_target: int = 1, **options: Any) -> BatchCopyPasteConfig:
    """Return a config with a taxonomy, unless another one or none is given."""
    names = ("value_range", "relative_to", "without_depth")
    given = {name: options.pop(name) for name in names if name in options}
    source = SourceConfig(kind="bank", crops_per_target=crops_per_target, **given)
    defaults = {"source": source, "panoptic": PanopticConfig(taxonomy=SCHEMA), "placement": {"paste_prob": 1.0}}
    return BatchCopyPasteConfig(**{**defaults, **options})


class TestForward:
    @pytest.mark.parametrize("modalities", WITH_MASKS, ids=subset_id)
    def test_equals_plain_loops(self, modalities: frozenset[Modality]) -> None:
        @seed(WITH_MASKS.index(modalities))
        @settings(max_examples=max(1, settings().max_examples // 4))
        @given(st.data(), batches(modalities), configs(modalities))
        def check(data: st.DataObject, batch: Any, config: BatchCopyPasteConfig) -> None:
            batch, config, staged = data.draw(bank_cases(batch, config))
            if max(batch.max_instances, config.max_instances or 0) == 0:
                return
            outcomes = []
            for name in CPU_BACKENDS:
                recording = Recording(config.source)
                with use_backend(name):
                    out, report = paste(batch, config, recording, staged=staged)
                outcomes.append((out, report, recording))
            for other in outcomes[1:]:
                assert_backends_agree(other[:2], outcomes[0][:2])
            for b in range(batch.batch_size):
                assert_draws_equal(recording, b, brute_force_bank.draw(batch, staged, config, b))  # type: ignore[arg-type]
            out, report, recording = outcomes[0]
            expected = brute_force_bank.paste(batch, staged, config, recording.placement)
            assert_equal(out, report, recording, expected)
            assert_unchanged(out, batch, ("camera_intrinsics", "sample_seeds", "sample_keys"))

        check()

    def test_in_place(self) -> None:
        batch = make_batch(3, size=(20, 24), max_instances=8, seed=4)
        staged = make_staged(3, 4, seed=1)
        expected = BatchCopyPaste(bank_config(3))(batch, staged=staged)
        found = BatchCopyPaste(bank_config(3), inplace=True)(batch.clone(), staged=staged)
        assert_same(found, expected)

    def test_classes_below_0_are_never_pasted(self) -> None:
        batch = make_batch(2, size=(20, 24), max_instances=8, seed=4)
        staged = replace(make_staged(2, 6, seed=3), class_ids=torch.tensor([[1, -1] * 3] * 2))
        out, report = paste(batch, bank_config(6), staged=staged)
        assert int(report.num_placed.sum()) > 0
        assert set(report.placement.source_idx[report.placement.layer_valid].remainder(2).tolist()) == {0}
        assert out.labels[out.instance_valid].min() >= 0

    def test_which_crops_does_not_depend_on_the_batch(self) -> None:
        batch = make_batch(4, size=(20, 24), max_instances=8, seed=4)
        staged, augment = make_staged(4, 5, seed=3), BatchCopyPaste(bank_config(2))
        whole = augment(batch, staged=staged)
        for b in range(4):
            row = batch.map_tensors(lambda t, b=b: t[b : b + 1])  # type: ignore[misc]
            crops = replace(
                staged, **{n: t[b : b + 1] for n, t in vars_of(staged).items() if isinstance(t, torch.Tensor)}
            )
            alone = augment(row, staged=crops)
            assert_same(alone, whole.map_tensors(lambda t, b=b: t[b : b + 1]))  # type: ignore[misc]


def vars_of(staged: StagedCrops) -> dict[str, Any]:
    return {name: getattr(staged, name) for name in staged.__dataclass_fields__}


@pytest.mark.parametrize("modalities", WITH_MASKS, ids=subset_id)
def test_invariants_hold(modalities: frozenset[Modality]) -> None:
    """All public checks that compare an input with its output pass."""
    batch = make_batch(3, size=(20, 24), max_instances=8, seed=4, modalities=modalities)
    config = bank_config(3)
    staged = make_staged(3, 4, seed=1, with_surfaces=True)
    out, report = paste(batch, config, staged=staged)
    assert bool(report.num_placed.any())
    assert violations(Case(batch, out, report, config, source_batch(staged, batch, config.source))) == []


class TestColours:
    def test_no_dark_fringe(self) -> None:
        """An edge is as bright as the object at every scale, since the crop's colours continue behind it."""
        alphas = torch.zeros(1, 1, 1, 12, 12, dtype=torch.bool)
        alphas[..., 2:10, 2:10] = True
        staged = replace(
            make_staged(1, 1, (12, 12)),
            images=torch.full((1, 1, 3, 12, 12), 200, dtype=torch.uint8),
            alphas=alphas,
            boxes=torch.tensor([[[2, 2, 10, 10]]]),
            class_ids=torch.ones(1, 1, dtype=torch.int64),
        )
        batch = make_batch(1, size=(40, 40), num_instances=[0], max_instances=2, modalities={Modality.INSTANCE})
        for sample_seed in range(20):
            out = BatchCopyPaste(bank_config())(batch.derived(sample_seeds=torch.tensor([sample_seed])), staged=staged)
            assert bool(out.instance_valid.any())
            assert (out.images[0][:, out.instance_masks[0].any(0)] == 200).all()  # type: ignore[index]

    @pytest.mark.parametrize("white", [1, 255])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
    def test_floats_are_as_bright_as_the_target_says(self, dtype: torch.dtype, white: int) -> None:
        staged = make_staged(2, 2, seed=7)
        staged = replace(staged, images=torch.full_like(staged.images, 255))
        batch = make_batch(2, size=(20, 24), max_instances=6, image_dtype=dtype, modalities={Modality.INSTANCE})
        out, report = paste(batch, bank_config(2, value_range=white), staged=staged)
        seen = report.visible_layer >= 0
        assert bool(seen.any())
        assert (out.images.permute(0, 2, 3, 1)[seen] == white).all()

    def test_floats_of_unknown_white_are_refused(self) -> None:
        batch = make_batch(2, image_dtype=torch.float32, modalities={Modality.INSTANCE})
        with pytest.raises(ValueError, match=r"expected source\.value_range, the value of white"):
            BatchCopyPaste(bank_config())(batch, staged=make_staged(2, 1))


class TestGates:
    def test_stuff_is_not_pasted(self) -> None:
        batch = make_batch(4, size=(20, 24), max_instances=8, seed=4)
        staged = make_staged(4, 6, seed=5)
        config = bank_config(6, panoptic=PanopticConfig(taxonomy=SCHEMA))
        _, report = paste(batch, config, staged=staged)
        labels = staged.class_ids.flatten()[report.placement.source_idx[report.drawn.any(2)]]
        assert len(labels)
        assert all(SCHEMA.classes.get(int(label)) == "thing" for label in labels)

    @pytest.mark.parametrize("without_depth", ["invalid", "skip"])
    def test_crops_without_depth(self, without_depth: str) -> None:
        batch = make_batch(3, size=(20, 24), max_instances=8, seed=4)
        config = bank_config(4, without_depth=without_depth)
        out, report = paste(batch, config, staged=make_staged(3, 4, seed=2))
        seen = report.visible_layer >= 0
        assert bool(seen.any()) == (without_depth == "invalid")
        assert out.depth_valid is not None
        assert not out.depth_valid[:, 0][seen].any()

    def test_schedule(self) -> None:
        batch, staged = make_batch(3, size=(20, 24), max_instances=8, seed=4), make_staged(3, 4, seed=2)
        augment = BatchCopyPaste(bank_config(4))
        _, report = augment(batch, staged=staged, return_report=True)
        assert int(report.num_tried.sum()) > 3
        augment.schedule.set(k_range=(1, 1))
        _, report = augment(batch, staged=staged, return_report=True)
        assert int(report.num_tried.sum()) == 3
        augment.schedule.set(paste_prob=0)
        out, report = augment(batch, staged=staged, return_report=True)
        assert int(report.num_tried.sum()) == 0
        assert torch.equal(out.images, batch.images)

    @pytest.mark.parametrize("align", ["canvas", "instance"])
    def test_patches(self, align: Any) -> None:
        """No edge of the crop or of the object is off the grid."""
        batch = make_batch(3, size=(48, 64), num_instances=[1, 0, 2], max_instances=8, seed=4)
        staged = make_staged(3, 4, (32, 24), seed=2)
        placement = PlacementConfig(
            paste_prob=1.0,
            pad_to_multiple=8,
            patch_aligned_paste=True,
            align=align,
            grouping="instance" if align == "instance" else "image",
            partial="drop",
        )
        _, report = paste(batch, bank_config(4, placement=placement), staged=staged)
        drawn, maps = report.drawn[..., 0], report.placement
        assert bool(drawn.any())
        boxes = staged.boxes.flatten(0, 1)[maps.source_idx] if align == "instance" else torch.tensor([0, 0, 24, 32])
        boxes = boxes.expand(3, 4, 4)
        x1, y1, x2, y2 = boxes.unbind(-1)
        flipped = torch.stack([24 - x2, y1, 24 - x1, y2], -1)
        boxes = torch.where(maps.hflip[..., None], flipped, boxes)
        edges = boxes * maps.scale_num.repeat(1, 1, 2) / maps.scale_den.repeat(1, 1, 2)
        edges = torch.ceil(edges - 0.5) + maps.translate.repeat(1, 1, 2)
        assert (edges[drawn] % 8 == 0).all()


class TestRefused:
    def test_no_staged_crops(self) -> None:
        with pytest.raises(ValueError, match=r"expected staged crops because source.kind='bank', got none; .*staged="):
            BatchCopyPaste(bank_config())(make_batch(2))

    @pytest.mark.parametrize(("num_targets", "num_crops"), [(3, 2), (2, 1)])
    def test_too_few(self, num_targets: int, num_crops: int) -> None:
        with pytest.raises(ValueError, match="expected staged crops for 2 targets, at least crops_per_target=2"):
            BatchCopyPaste(bank_config(2))(make_batch(2), staged=make_staged(num_targets, num_crops))

    def test_semantic_maps_whose_classes_nobody_names(self) -> None:
        """A taxonomy is required, or the pixels of every paste would be ignored."""
        batch = make_batch(2, modalities={Modality.INSTANCE, Modality.SEMANTIC})
        with pytest.raises(ValueError, match=r"expected config\.panoptic because source\.kind='bank'"):
            BatchCopyPaste(bank_config(panoptic=None))(batch, staged=make_staged(2, 1))

    def test_no_scale(self) -> None:
        staged = replace(make_staged(2, 1), scales=None)
        with pytest.raises(ValueError, match="expected a bank with provenance"):
            BatchCopyPaste(bank_config(relative_to="photo"))(make_batch(2), staged=staged)

    def test_metric_depth_that_differs(self) -> None:
        batch = make_batch(2, metric_depth=True)
        with pytest.raises(ValueError, match="expected one metric_depth on both sides"):
            BatchCopyPaste(bank_config())(batch, staged=make_staged(2, 2, with_surfaces=True))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"placement": {"layers": 2}}, "expected placement.layers=1"),
            ({"placement": {"class_temperature": 0.5}}, "expected placement.class_temperature=0"),
            ({"emit_classmix": True}, "expected emit_classmix=False"),
            (
                {
                    "source": {"kind": "bank", "relative_to": "photo"},
                    "placement": {"grouping": "instance", "size_range": {"low": 1, "high": 2}},
                },
                "expected neither placement.size_range nor",
            ),
            ({"source": {"crops_per_target": 2}}, "expected kind='bank' with crops_per_target"),
            ({"source": {"kind": "bank", "value_range": 0}}, "greater than 0"),
        ],
    )
    def test_settings(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            BatchCopyPasteConfig.model_validate({"source": {"kind": "bank"}, **options})

    def test_a_config_for_other_sources(self) -> None:
        with pytest.raises(ValueError, match="expected a SourceConfig of kind='bank'"):
            BankSource(SourceConfig())


class TestCompiled:
    @pytest.mark.parametrize(("kernels", "crops_per_target"), [(CPU_BACKENDS[-1], 1), *((k, 8) for k in CPU_BACKENDS)])
    def test_one_graph_that_equals_eager(self, kernels: str, crops_per_target: int) -> None:
        """The graph also stays the same when values change: seeds, crops, schedule."""
        config = bank_config(crops_per_target, panoptic=PanopticConfig(taxonomy=SCHEMA))
        batch = make_batch(3, size=(20, 24), max_instances=12, seed=4, metric_depth=True)
        backend = CompileCounterWithBackend("aot_eager")
        with use_backend(kernels):
            eager = BatchCopyPaste(config)
            compiled = torch.compile(eager, fullgraph=True, backend=backend)
            for step in range(4):
                eager.schedule.set(k_range=(1, 1 + step))
                seeded = batch.derived(sample_seeds=batch.sample_seeds + step)  # type: ignore[operator]
                staged = make_staged(3, 8, seed=step, with_surfaces=True, metric_depth=True)
                found = compiled(seeded, staged=staged, return_report=True)
                assert_backends_agree(found, eager(seeded, staged=staged, return_report=True))
        assert backend.frame_count == 1


class TestWarning:
    @pytest.mark.filterwarnings("default")
    def test_nothing_that_can_be_pasted(self) -> None:
        staged = make_staged(2, 1)
        staged = replace(staged, alphas=torch.zeros_like(staged.alphas), boxes=torch.zeros_like(staged.boxes))
        with pytest.warns(
            UserWarning, match=r"no_source 2; each staged crop needs an object of a .* a mask that is not"
        ):
            BatchCopyPaste(bank_config())(make_batch(2), staged=staged)
