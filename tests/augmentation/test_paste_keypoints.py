"""Keypoints and crowds under a paste: compiled, in place, from banks and from sources without any.

What must hold of every paste is in tests/invariants/test_keypoints.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from samples import (
    CPU_BACKENDS,
    EVERY_OBJECT,
    POINTS,
    SCHEMA,
    FromBatch,
    assert_backends_agree,
    batch_of,
    make_batch,
    paste,
)
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    IntraBatchSource,
    PanopticConfig,
    PlacementConfig,
    SourceConfig,
)
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.bank import MemmapWriter, build_bank, open_bank, stage_bank_batch
from segpaste.datasets import SceneConfig, SceneDataset
from segpaste.datasets.jitter import FixedSizeCrop
from segpaste.engine import use_backend
from segpaste.invariants import Case, check_all
from segpaste.types import DenseSample, KeypointSchema

pointed_batch = partial(make_batch, 4, size=(19, 23), max_instances=9, keypoints=True, crowd=True)


def config_of(**options: Any) -> BatchCopyPasteConfig:
    placement = PlacementConfig(paste_prob=1.0, layers=2, scale_range=(0.5, 1.5), max_attempts=4)
    defaults = {"placement": placement, "panoptic": PanopticConfig(taxonomy=SCHEMA), "source": EVERY_OBJECT}
    return BatchCopyPasteConfig(**{**defaults, **options})


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_in_place_is_out_of_place(backend: str) -> None:
    batch = pointed_batch()
    with use_backend(backend):
        expected = paste(batch, config_of())
        own = batch.clone()
        out, report = paste(own, config_of(), inplace=True)
    assert_backends_agree((out, report), expected)
    for name in ("keypoints", "crowd_mask"):
        assert getattr(out, name).data_ptr() == getattr(own, name).data_ptr()
        assert not torch.equal(getattr(out, name), getattr(batch, name))


@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_is_eager(inplace: bool) -> None:
    module = BatchCopyPaste(config_of(), inplace=inplace)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        expected = module(pointed_batch(seed=seed).clone(), return_report=True)
        assert_backends_agree(compiled(pointed_batch(seed=seed).clone(), return_report=True), expected)


def test_classmix() -> None:
    batch, config = pointed_batch(), config_of(emit_classmix=True, placement=PlacementConfig(paste_prob=1.0, layers=2))
    out, report = paste(batch, config)
    assert int(report.num_placed.sum()) > 0
    check_all(Case(batch, out, report, config))
    assert (out.crowd_mask != batch.crowd_mask).any()


def test_images_without_a_paste_keep_all(recwarn: pytest.WarningsRecorder) -> None:
    placement = PlacementConfig(paste_prob=0.0)
    batch = pointed_batch()
    out = BatchCopyPaste(config_of(placement=placement))(batch)
    assert torch.equal(out.keypoints, batch.keypoints)
    assert torch.equal(out.crowd_mask, batch.crowd_mask)


@pytest.mark.parametrize("padding", [0, 4])
def test_edges_are_those_of_the_picture(padding: int) -> None:
    """A point on its last edge belongs to the last pixel, with or without padding behind it; one in padding to none."""
    samples = []
    for first in (0, 10):
        masks = torch.zeros(1, 10, 20, dtype=torch.bool)
        masks[:, :, first:] = True
        sample = DenseSample.from_masks(
            torch.zeros(3, 10, 20, dtype=torch.uint8),
            masks,
            torch.ones(1, dtype=torch.int64),
            keypoints=torch.tensor([[[20.0, 4.0, 2.0], [0.0, 0.0, 0.0]]]),
            keypoint_schema=KeypointSchema(("edge", "beyond")),
            padding_mask=torch.zeros(1, 10, 20, dtype=torch.bool),
        )
        samples.append(FixedSizeCrop((10, 20 + padding)).transform(sample, (0, 0)) if padding else sample)
    batch = batch_of(samples, 3)
    points = torch.tensor([[20.0, 4.0, 2.0], [20.0 + padding, 4.0, 2.0]])
    batch = replace(batch, keypoints=points * batch.instance_valid[..., None, None])
    placement = PlacementConfig(paste_prob=1.0, scale_range=(1, 1), hflip_probability=0)
    config = BatchCopyPasteConfig(min_residual_area_frac=0, placement=placement, source=EVERY_OBJECT)
    module = BatchCopyPaste(config, _Unmoved())
    out, report = module(replace(batch, sample_seeds=torch.arange(2)), return_report=True)
    check_all(Case(batch, out, report, config))
    assert report.num_placed.tolist() == [1, 1]
    for found, layers in zip(out.keypoints, report.slot_layer, strict=True):
        assert found[layers >= 0][0, :, 2].tolist() == [2, 0 if padding else 2]
    assert out.keypoints[0, 0, :, 2].tolist() == [1, 2 if padding else 1]  # of the second image nothing is left


class _Unmoved:
    """The other images of the batch, where they are."""

    def sample(self, target: Any, eligible: Any, request: Any) -> Any:
        source, placement, counts = IntraBatchSource().sample(target, eligible, request)
        return source, replace(placement, translate=torch.zeros_like(placement.translate)), counts


class TestSources:
    def test_without_keypoints_give_unlabelled_ones(self) -> None:
        batch = pointed_batch()
        source = FromBatch(replace(batch, keypoints=None, keypoint_schema=None))
        out, report = paste(batch, config_of(), source)
        pasted = report.slot_layer >= 0
        assert pasted.any()
        assert not out.keypoints[pasted].any()
        assert out.keypoints[~pasted & out.instance_valid].any()

    def test_keypoints_that_the_target_lacks_are_left_out(self) -> None:
        batch = pointed_batch()
        target = replace(batch, keypoints=None, keypoint_schema=None)
        out = BatchCopyPaste(config_of(), FromBatch(batch))(target)
        assert out.keypoints is None
        assert out.keypoint_schema is None

    def test_of_another_schema_are_refused(self) -> None:
        batch = pointed_batch()
        other = replace(batch, keypoint_schema=KeypointSchema(tuple("abcd")))
        with pytest.raises(ValueError, match=r"expected the keypoints of the target, nose, .* in the source, got a, b"):
            BatchCopyPaste(config_of(), FromBatch(other))(batch)
        nameless = batch.derived(keypoint_schema=None)
        with pytest.raises(ValueError, match="in the source, got no keypoint_schema"):
            BatchCopyPaste(config_of(), FromBatch(nameless))(batch)

    def test_another_skeleton_is_no_other_schema(self) -> None:
        batch = pointed_batch()
        BatchCopyPaste(config_of(), FromBatch(replace(batch, keypoint_schema=replace(POINTS, skeleton=()))))(batch)


class _Scenes(SceneDataset):
    """Scenes as a bank is built from."""

    def image_id(self, index: int) -> int:
        return index

    def annotation_ids(self, index: int) -> Any:
        return range(1, len(self.scene(index).solids) + 1)

    def left_out(self, index: int) -> dict[str, int]:
        return {}


def test_from_a_bank(tmp_path: Any) -> None:
    """Corners of boxes, shrunk into crops, staged, and pasted: every invariant holds, and some are visible."""
    scenes = _Scenes(6, SceneConfig(height=96, width=128, rays_per_px=1), seed=3, keypoints=True)
    build_bank(scenes, tmp_path / "bank", class_names=scenes.class_names, crop_size=(24, 32))
    panoptic = PanopticConfig(taxonomy=scenes.schema)
    config = BatchCopyPasteConfig(
        placement={"paste_prob": 1.0},
        max_instances=24,
        panoptic=panoptic,
        source=SourceConfig(kind="bank", crops_per_target=3),
    )
    target = batch_of((scenes[i] for i in range(4)), 16, overflow="largest")
    target = replace(target, sample_seeds=torch.arange(4))
    with open_bank(tmp_path / "bank") as bank:
        assert bank.layout.keypoint_schema == target.keypoint_schema
        staged = stage_bank_batch(bank, torch.arange(4 * 5).view(4, 5).numpy() % len(bank))
        assert staged.keypoint_schema == bank.layout.keypoint_schema
        crop = bank[0]
        assert crop.keypoints is not None
        assert crop.keypoints.shape == (8, 3)
    out, report = paste(target, config, staged=staged)
    case = Case(target, out, report, config, source_batch(staged, target, config.source))
    check_all(case)
    assert (out.keypoints[case.is_paste][..., 2] == 2).sum() > 3


def test_a_bank_without_keypoints_stays_what_it_was(tmp_path: Any) -> None:
    """Its meta has no new field, so that its version is the one it had."""
    from segpaste.bank import Layout

    with MemmapWriter(tmp_path / "bank", Layout((3, 4)), ["a"]) as writer:
        writer.finish()
    assert "keypoints" not in (tmp_path / "bank" / "meta.json").read_text()
