"""`simple_copy_paste` equals its paper's rule in plain loops, `xpaste` draws as stated; others: `tests/trainers`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torchvision.tv_tensors import BoundingBoxes, Image

from samples import CPU_BACKENDS, make_batch, paste, with_overlaps
from segpaste import get_preset
from segpaste.augmentation import BatchCopyPaste, HarmonizeConfig, PasteReport, PlacementConfig
from segpaste.datasets.jitter import make_large_scale_jittering
from segpaste.presets import class_size_ranges
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask, PaddedBatchedDenseSample
from small_bank import small_bank

Array = NDArray[Any]
SIGMA = 1.0


def smoothed(mask: Array) -> Array:
    """A mask times the Gaussian around each pixel, of what lies on the canvas."""
    weight, grid = np.zeros(mask.shape), np.stack(np.indices(mask.shape), -1)
    for y, x in np.ndindex(mask.shape):
        density = np.exp(-((grid - (y, x)) ** 2).sum(-1) / (2 * SIGMA**2))
        density[np.abs(grid - (y, x)).max(-1) > 3 * SIGMA] = 0
        weight[y, x] = density[mask].sum() / density.sum()
    return weight


def expected(batch: PaddedBatchedDenseSample, target: int, slots: list[int]) -> tuple[Array, Array, list[Any]]:
    """The image with a smoothed mask everywhere, the mask, and the masks, labels and boxes of the rows."""
    assert batch.instance_masks is not None
    masks, source = batch.instance_masks.numpy(), 1 - target
    union = masks[source, slots].any(0) if slots else np.zeros(masks.shape[-2:], bool)
    alpha = smoothed(union)
    image = alpha * batch.images[source].numpy() + (1 - alpha) * batch.images[target].numpy()
    rows = [(masks[target, k] & ~union, batch.labels[target, k]) for k in np.flatnonzero(batch.instance_valid[target])]
    rows = [row for row in rows if row[0].any()] + [(masks[source, k], batch.labels[source, k]) for k in slots]
    return image, union, [(mask.tobytes(), int(label), box_of(mask)) for mask, label in rows]


def box_of(mask: Array) -> list[float]:
    rows, cols = np.nonzero(mask)
    return [float(v) for v in (cols.min(), rows.min(), cols.max() + 1, rows.max() + 1)]


def check(batch: PaddedBatchedDenseSample, kernels: str) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    out, report = paste(batch, get_preset("simple_copy_paste").config, backend=kernels)
    assert out.instance_masks is not None
    for target in range(2):
        slots = [int(k) for k in report.slot_source[target][report.slot_layer[target] >= 0]]
        image, union, rows = expected(batch, target, slots)
        found = out.images[target].numpy().astype(float)
        assert np.abs(found - image)[:, union].max(initial=0) <= 1
        assert np.array_equal(found[:, ~union], batch.images[target].numpy()[:, ~union])
        valid = out.instance_valid[target]
        masks, labels, boxes = out.instance_masks[target][valid], out.labels[target][valid], out.boxes[target][valid]
        found_rows = zip(masks.numpy(), labels.tolist(), boxes.tolist(), strict=True)
        listed = [(mask.tobytes(), label, box) for mask, label, box in found_rows]
        assert sorted(listed) == sorted(rows)
    return out, report


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_simple_copy_paste(kernels: str) -> None:
    numbers, softened = set(), 0
    for seed in range(8):
        batch = make_batch(2, size=(30, 26), num_instances=4, max_instances=12, modalities=("instance",), seed=seed)
        batch = replace(batch, sample_seeds=torch.tensor([seed, 100 + seed]))
        if seed % 2:
            batch = with_overlaps(batch)
        out, report = check(batch, kernels)
        numbers |= set(report.num_placed.tolist())
        hard = torch.where(report.visible_layer[:, None] >= 0, batch.images.flip(0), batch.images)
        softened += int((out.images != hard).any(1).sum())
    assert numbers == {0, 1, 2, 3, 4}
    assert softened > 200


def test_both_images_are_jittered_before() -> None:
    """With the jitter of the preset, at a smaller size; padding is not pasted over."""
    loader = get_preset("simple_copy_paste").loader
    assert (loader.size, loader.scale_range, loader.hflip_prob) == (1024, (0.1, 2.0), 0.5)
    scene = make_batch(2, size=(30, 26), num_instances=4, max_instances=12, modalities=("instance",), seed=1)
    jitter = make_large_scale_jittering((28, 28), loader.scale_range, hflip_prob=loader.hflip_prob)
    num_padded = num_pasted = 0
    for seed in range(10):
        samples = [jitter(sample, 2 * seed + b) for b, sample in enumerate(scene.to_batched().to_samples())]
        batch = BatchedDenseSample.from_samples(samples).to_padded(12, sample_seeds=torch.tensor([seed, seed + 50]))
        _, report = paste(batch, get_preset("simple_copy_paste").config)
        assert batch.padding_mask is not None
        assert not ((report.visible_layer >= 0) & batch.padding_mask[:, 0]).any()
        num_padded += int(batch.padding_mask.any())
        num_pasted += int(report.num_placed.sum())
        bare = replace(batch, padding_mask=None)
        check(bare, "native")  # without a padding mask canvases are images, as in the paper
    assert num_padded > 5
    assert num_pasted > 5


LABELS = [1] * 9 + [2] * 3 + [3]


@pytest.fixture(scope="module")
def xpaste_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """Staged crops, images, the same with hard and with smoothed edges, and the report of each."""
    bank = small_bank(tmp_path_factory.mktemp("bank") / "bank", [0, *LABELS], crop_size=(24, 24))
    sizes = {1: {"low": 6, "high": 14}, 2: {"low": 9, "high": 9}, 3: {"low": 3, "high": 20}}
    config = get_preset("xpaste").config_for(placement={"class_sizes": sizes})
    hard = config.model_copy(update={"harmonize": HarmonizeConfig()})
    modules = [BatchCopyPaste(c, source_pool=bank, balance="class_uniform") for c in (hard, config)]
    runs = []
    for seed in range(8):
        batch = make_batch(6, size=(64, 60), num_instances=0, max_instances=24, modalities=("instance",), seed=seed)
        batch = replace(batch, sample_seeds=torch.arange(6) + 6 * seed)
        (before, _), (out, report) = (module(batch, return_report=True) for module in modules)
        runs.append((modules[1].crops.staged(batch.sample_seeds), batch, before, out, report))
    return runs


class TestXPaste:
    def test_numbers_and_classes_are_uniform(self, xpaste_runs: Any) -> None:
        numbers = torch.cat([report.num_intended for *_, report in xpaste_runs])
        assert (int(numbers.min()), int(numbers.max())) == (1, 20)
        assert 8 < numbers.float().mean() < 13  # of 1 to 20
        labels = torch.cat([out.labels[report.slot_layer >= 0] for *_, out, report in xpaste_runs])
        shares = labels.bincount(minlength=4)[1:] / len(labels)
        assert labels.min() >= 0
        assert (shares > 0.17).all(), shares  # a fourth each, though the bank has nine of one and one of another

    def test_sizes_are_those_of_the_class(self, xpaste_runs: Any) -> None:
        found: dict[int, list[float]] = {0: [], 1: [], 2: [], 3: []}
        for staged, _, _, _, report in xpaste_runs:
            rows, maps = report.placement.source_idx[report.drawn.any(2)], report.placement
            boxes, labels = staged.boxes.view(-1, 4)[rows], staged.class_ids.flatten()[rows]
            scale = (maps.scale_num / maps.scale_den)[report.drawn.any(2)][:, 0]
            longer = (boxes[:, 2:] - boxes[:, :2]).amax(1) * scale
            for label, size in zip(labels.tolist(), longer.tolist(), strict=True):
                found[label].append(size)
        for label, (low, high) in {1: (6, 14), 2: (9, 9), 3: (3, 20)}.items():
            sizes = np.array(found[label])
            assert len(sizes) > 50
            assert low - 0.01 <= sizes.min() <= sizes.max() <= high
            assert abs(sizes.mean() - (low + high) / 2) < 1.5
            assert abs(sizes.std() - (high - low) / 12**0.5) < 1

    def test_edges_are_smoothed_inside(self, xpaste_runs: Any) -> None:
        for _, batch, before, out, report in xpaste_runs[:1]:
            assert torch.equal(out.instance_masks, before.instance_masks)
            for b in range(2):
                seen = report.visible_layer[b].numpy() >= 0
                alpha = smoothed(seen)
                want = alpha * before.images[b].numpy() + (1 - alpha) * batch.images[b].numpy()
                found = out.images[b].numpy().astype(float)
                assert np.abs(found - want)[:, seen].max() <= 1
                assert np.array_equal(found[:, ~seen], batch.images[b].numpy()[:, ~seen])


def test_sizes_of_a_dataset() -> None:
    """A range with the mean and the deviation of the class: 0.1 and 0.3 of the side."""
    boxes = torch.tensor([[0.0, 0, 4, 2], [0, 0, 3, 12], [5, 5, 9, 8]])
    masks = torch.zeros(3, 40, 40, dtype=torch.bool)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
        mask[y1:y2, x1:x2] = True
    labels, ids = torch.tensor([1, 1, 6]), torch.tensor([1, 2, 3], dtype=torch.int32)
    sample = DenseSample(
        Image(torch.zeros(3, 40, 40, dtype=torch.uint8)),
        BoundingBoxes(boxes, format="XYXY", canvas_size=(40, 40)),
        labels,
        instance_ids=ids,
        instance_masks=InstanceMask(masks),
    )
    ranges = class_size_ranges([sample], 100)
    assert set(ranges) == {1, 6}
    assert ranges[1].low == pytest.approx(max(20 - 10 * 3**0.5, 1))
    assert ranges[1].high == pytest.approx(20 + 10 * 3**0.5)
    assert (ranges[6].low, ranges[6].high) == (10, 10)
    assert PlacementConfig(grouping="instance", class_sizes=ranges).class_sizes[6].high == 10
    with pytest.raises(ValueError, match="side of at least 1 pixel, got 0"):
        class_size_ranges([sample], 0)
