"""The invariants on real photos, where SEGPASTE_TEST_DATA names them, and on rendered scenes with all modalities."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from invariant_cases import run

from samples import batch_of
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.datasets import CocoDetectionV2, CocoPanoptic, SceneConfig, SceneDataset, make_large_scale_jittering
from segpaste.invariants import INVARIANTS, Case, applicable, check_all, check_batch
from segpaste.types import PanopticSchema

PLACEMENT = PlacementConfig(paste_prob=1.0, layers=2, max_attempts=4)


def check_both(case: Case, schema: PanopticSchema | None = None) -> None:
    check_batch(case.before, schema=schema)
    check_all(case)
    check_batch(case.after, schema=schema, tight_boxes=True)
    assert int(case.report.num_placed.sum()) > 0


@pytest.mark.parametrize("number", range(3))
def test_invariants_hold_on_photos(test_data: Path, number: int) -> None:
    folder = test_data / "tiny_coco"
    photos = CocoDetectionV2(folder / "train2017", folder / "annotations" / "instances_train2017.json")
    jitter = make_large_scale_jittering((120, 90))
    samples = [jitter(photos[i], seed=i) for i in range(8 * number, 8 * number + 8)]
    batch = batch_of(samples, 40, overflow="largest", sample_seeds=torch.arange(8) + 1000 * number)
    case = run(batch, BatchCopyPasteConfig(max_instances=60, placement=PLACEMENT))
    check_both(case)
    assert len(applicable(case)) == 8 + photos.has_crowds


@pytest.mark.parametrize("stuff_policy", ["revert", "ignore"])
def test_invariants_hold_on_panoptic_photos(test_data: Path, stuff_policy: str) -> None:
    folder = test_data / "coco_panoptic_samples"
    (table,) = folder.glob("split/panoptic_examples*.json")
    photos = CocoPanoptic(folder / "input_images", table, folder / "panoptic_examples")
    jitter = make_large_scale_jittering((160, 200), (0.8, 1.5))
    samples = [jitter(photos[0], seed=seed) for seed in range(6)]
    batch = batch_of(samples, 60, overflow="largest", sample_seeds=torch.arange(6) + 1000)
    panoptic = PanopticConfig(taxonomy=photos.schema, stuff_policy=stuff_policy, tau_stuff_frac=0.5)
    case = run(batch, BatchCopyPasteConfig(max_instances=100, panoptic=panoptic, placement=PLACEMENT))
    check_both(case, photos.schema)
    assert len(applicable(case)) == 14 + photos.has_crowds


@pytest.mark.parametrize("stuff_policy", ["revert", "ignore"])
@pytest.mark.parametrize("number", range(3))
def test_invariants_hold_on_scenes(number: int, stuff_policy: str) -> None:
    scenes = SceneDataset(6, SceneConfig(height=72, width=96, rays_per_px=1), seed=number, keypoints=True)
    panoptic = PanopticConfig(taxonomy=scenes.schema, stuff_policy=stuff_policy)
    batch = batch_of(
        (scenes[i] for i in range(6)), 16, overflow="largest", sample_seeds=torch.arange(6) + 1000 * number
    )
    case = run(batch, BatchCopyPasteConfig(max_instances=24, panoptic=panoptic, placement=PLACEMENT))
    check_both(case, scenes.schema)
    left_out = {"crowd_never_under_paste", "instance_given_bbox_kept"}
    assert {check.__name__ for check in {*INVARIANTS} - {*applicable(case)}} == left_out
