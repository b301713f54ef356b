"""Cameras that construction rejects reach the kernels through tracing: all write the same and no invalid depth."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import brute_force
from samples import CPU_BACKENDS, EVERY_OBJECT, SCHEMA, assert_backends_agree, make_batch, placement_of
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import Classes, Scene, use_backend
from segpaste.engine.reference import stages
from segpaste.invariants import Case, violations
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.sampling import rescaled_depth

NAN, INF = float("nan"), float("inf")
FOCAL = (NAN, 0.0, -0.0, -7.0, INF, -INF, 1e-45, 3.4e38, 1e-20, 1e20, 11.0)
SUBSETS = (
    {Modality.INSTANCE, Modality.DEPTH},
    {Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC, Modality.DEPTH, Modality.NORMALS},
)


def module(**options: Any) -> BatchCopyPaste:
    placement = PlacementConfig(paste_prob=1.0, layers=3, scale_range=(0.5, 1.6), max_attempts=2)
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 2})
    config = BatchCopyPasteConfig(
        placement=placement, panoptic=panoptic, perspective_depth=True, tile_size=7, source=EVERY_OBJECT
    )
    return BatchCopyPaste(config, **options)


def wild_batch(seed: int, modalities: Any) -> PaddedBatchedDenseSample:
    """A batch whose cameras, and some of whose depths, are out of all bounds."""
    batch = make_batch(5, size=(13, 17), max_instances=8, metric_depth=True, seed=seed, modalities=modalities)
    generator = torch.Generator().manual_seed(seed)
    focal = torch.tensor(FOCAL)[torch.randint(len(FOCAL), (5, 2), generator=generator)]
    factor = torch.tensor([1.0, 1e-30, 1e30])[torch.randint(3, (5, 1, 1, 1), generator=generator)]
    cameras = torch.cat([focal, torch.full((5, 2), NAN)], 1)
    assert batch.depth is not None
    return batch.derived(camera_intrinsics=cameras, depth=batch.depth * factor)


def assert_agree(one: Any, other: Any) -> None:
    """Assert equality of all but the cameras, which `dataclasses.replace` would reject."""
    without = [(out.derived(camera_intrinsics=None, metric_depth=False), report) for out, report in (one, other)]
    assert_backends_agree(*without)


def checked(batch: PaddedBatchedDenseSample, found: Any, config: BatchCopyPasteConfig) -> None:
    out, report = found
    assert out.depth.isfinite().all()
    assert (out.depth[out.depth_valid] > 0).all()
    assert not (broken := violations(Case(batch, out, report, config))), [str(v) for v in broken]


@pytest.mark.parametrize("modalities", SUBSETS, ids=["depth", "all"])
def test_every_backend_the_same(modalities: Any) -> None:
    num_placed = num_invalid = 0
    for seed in range(6):
        batch, found = wild_batch(seed, modalities), {}
        for name in CPU_BACKENDS:
            with use_backend(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = module()(batch, return_report=True)
                found[name, "in place"] = module(inplace=True)(batch.clone(), return_report=True)
        reference = found["reference"]
        checked(batch, reference, module().config)
        for outcome in found.values():
            assert_agree(outcome, reference)
        num_placed += int(reference[1].num_placed.sum())
        num_invalid += int(((reference[1].visible_layer >= 0) & (reference[0].depth[:, 0] == 0)).sum())
    assert num_placed > 10
    assert num_invalid > 10


def test_as_the_loops_say() -> None:
    with use_backend("native"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(3):
            batch = wild_batch(seed, SUBSETS[0])
            out, report = module()(batch, return_report=True)
            drawn = replace(report.placement, carried=report.drawn)
            for b, expected in enumerate(brute_force.paste(batch, module().config, drawn)):
                assert np.array_equal(out.depth[b].numpy(), expected.fields["depth"])
                assert np.array_equal(out.depth_valid[b].numpy(), expected.fields["depth_valid"])


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_traced_cameras_are_not_checked_and_do_no_harm(backend: str) -> None:
    batch = wild_batch(3, SUBSETS[0])
    paste, cameras = module(), batch.camera_intrinsics

    def step(batch: PaddedBatchedDenseSample, cameras: Tensor) -> Any:
        return paste(replace(batch, camera_intrinsics=cameras * 1), return_report=True)

    with use_backend(backend):
        found = torch.compile(step, fullgraph=True, backend="eager")(batch.derived(camera_intrinsics=None), cameras)
        assert_agree(found, paste(batch, return_report=True))
    checked(batch, found, paste.config)


def test_products() -> None:
    depth = torch.tensor([1.0, 2.0, 3e38, 1e-38, 1.0, 1.0, 1.0, 5.0])
    factor = torch.tensor([2.0, NAN, 10.0, 1e-30, -1.0, 0.0, INF, 0.5])
    valid = torch.tensor([True] * 7 + [False])
    found, ok = rescaled_depth(depth, valid, factor)
    assert ok.tolist() == [True] + [False] * 7
    assert found.tolist() == [2.0] + [0.0] * 7


def test_small_focal_lengths_keep_their_ratio() -> None:
    """In float32 the product of their roots would be one of the few smallest numbers, or 0."""
    target, source = torch.tensor([[1e-38, 1e-38, 0, 0]]), torch.tensor([[4e-38, 1e-44, 0, 0]])
    expected = np.sqrt(np.prod(target[0, :2].double().numpy()) / np.prod(source[0, :2].double().numpy()))
    batch, paste = make_batch(1, size=(5, 7), num_instances=1, metric_depth=True), module()
    sides = (batch.derived(camera_intrinsics=cameras) for cameras in (target, source))
    scene = Scene(*sides, Classes(), paste._rules.paste(torch.device("cpu"))._replace(perspective=0))
    ratio = stages.depth_scale(scene, placement_of(paste, batch))[:, :1]
    assert ratio.dtype == torch.float32
    assert ratio.item() == pytest.approx(expected, rel=1e-6)
