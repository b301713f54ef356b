"""Detection models of torchvision, with random weights, trained on pasted batches; run by `test_trainers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise, repeat
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from trainer_data import NUM_CLASSES, SIZE, dataset_of, expect_flat_memory, tiny_coco

from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.integrations.torchvision import to_detection
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample, select_instances

MAX_INSTANCES = 24
MOST_STEPS = 150
DATA = ("scenes", "tiny_coco", "coco128_seg")


def backbone() -> torch.nn.Module:
    """Return strided convolutions to [B, 32, H / 8, W / 8]."""
    convolutions = [torch.nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise([3, 16, 32, 32])]
    layers = torch.nn.Sequential(*chain.from_iterable((c, torch.nn.ReLU()) for c in convolutions))
    layers.out_channels = 32  # type: ignore[assignment]
    return layers


def model_of(name: str) -> torch.nn.Module:
    """Return a model for class ids from 1 on images of 96 pixels, with heads a few channels wide."""
    torch.manual_seed(0)
    num_classes = NUM_CLASSES + 1
    options: dict[str, Any] = {
        "min_size": SIZE,
        "max_size": SIZE,
        "rpn_anchor_generator": AnchorGenerator(sizes=((8, 16, 32, 64),), aspect_ratios=((0.5, 1.0, 2.0),)),
        "rpn_post_nms_top_n_train": 50,
        "box_batch_size_per_image": 24,
        "box_head": TwoMLPHead(32 * 7 * 7, 64),
        "box_predictor": FastRCNNPredictor(64, num_classes),
    }
    if name == "faster_rcnn":
        return detection.FasterRCNN(backbone(), **options)
    heads = {"mask_head": MaskRCNNHeads(32, (32,), 1), "mask_predictor": MaskRCNNPredictor(32, 32, num_classes)}
    return detection.MaskRCNN(backbone(), **options, **heads)


MODELS = ("mask_rcnn", "faster_rcnn")


def batches_of(dataset: Dataset[DenseSample], num_workers: int) -> Iterator[PaddedBatchedDenseSample]:
    """Yield pasted batches of two, epoch after epoch."""
    loader = DataLoader(dataset, 2, shuffle=True, collate_fn=list, num_workers=num_workers)
    pasted = BatchCopyPaste.from_dataloader(loader, max_instances=MAX_INSTANCES)
    return chain.from_iterable(repeat(pasted))


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


Step = Callable[[PaddedBatchedDenseSample], float]


def training_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """Return a step of training; it returns the loss."""

    def step(batch: PaddedBatchedDenseSample) -> float:
        loss = sum(model(*to_detection(batch, label_map=1)).values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return float(loss.detach())

    return step


def losses_of(name: str, data: str, num_steps: int, num_workers: int = 0) -> list[float]:
    model, losses = model_of(name), []
    step = training_of(model, sgd(model))
    batches = batches_of(dataset_of(data), num_workers)
    expect_flat_memory(lambda: losses.append(step(next(batches))), num_steps)
    return losses


RUNS = [(MODELS[d % 2], data, d // 2 * 2) for d, data in enumerate(DATA)]
"""Each dataset, and each model, which have one form of targets."""


@pytest.mark.parametrize(("name", "data", "num_workers"), RUNS)
def test_twenty_steps(name: str, data: str, num_workers: int) -> None:
    losses = losses_of(name, data, 20, num_workers)
    assert len(losses) == 20
    assert torch.tensor(losses).isfinite().all()


@pytest.mark.parametrize(("name", "num_workers"), zip(MODELS, (2, 0), strict=True))
def test_the_same_seed_gives_the_same_losses(name: str, num_workers: int) -> None:
    first = losses_of(name, "tiny_coco", 6, num_workers)
    assert losses_of(name, "tiny_coco", 6, num_workers) == first
    assert len(set(first)) == 6


@pytest.mark.parametrize("name", MODELS)
def test_four_pasted_images_are_learned(name: str) -> None:
    """Less than half of the first loss, and half as much again with the targets of another image.

    Class frequencies alone halve the loss: only a model that has learned its images tells their targets apart.
    """
    scenes = dataset_of("scenes")
    samples = [scenes[i] for i in range(4)]
    torch.manual_seed(0)
    batch = BatchCopyPaste(EVERY_IMAGE)(
        BatchedDenseSample.from_samples(samples).to_padded(MAX_INSTANCES, overflow="largest")
    )
    model, losses, ratio = model_of(name), [], 0.0
    step = training_of(model, torch.optim.AdamW(model.parameters(), 5e-3, betas=(0.9, 0.9)))
    while len(losses) < MOST_STEPS and (not losses or losses[-1] >= losses[0] / 2 or ratio < 1.5):
        losses += [step(batch) for _ in range(10)]
        ratio = loss_with_others_targets(model, batch) / losses[-1]
    assert torch.tensor(losses).isfinite().all()
    assert losses[-1] < losses[0] / 2, losses[::10]
    assert ratio >= 1.5


@torch.no_grad()
def loss_with_others_targets(model: torch.nn.Module, batch: PaddedBatchedDenseSample) -> float:
    images, targets = to_detection(batch, label_map=1)
    return float(sum(model(images, targets[1:] + targets[:1]).values()))


@pytest.mark.parametrize("name", MODELS)
def test_images_without_objects_are_accepted(name: str) -> None:
    """In a batch with others and in a batch of their own."""
    scenes = dataset_of("scenes")
    empty = [select_instances(scenes[i], torch.zeros(0, dtype=torch.int64)) for i in range(2)]
    model = model_of(name)
    step = training_of(model, sgd(model))
    for samples in ([scenes[0], *empty], empty):
        batch = BatchedDenseSample.from_samples(samples).to_padded(MAX_INSTANCES, overflow="largest")
        assert math.isfinite(step(BatchCopyPaste(EVERY_IMAGE)(batch)))
    assert all(bool(weights.isfinite().all()) for weights in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_photos_with_crowds(name: str) -> None:
    """A crowd is no object, before the paste and after it."""
    photos = tiny_coco()
    with_crowds = [i for i in range(len(photos)) if photos.crowds(i)]
    assert len(with_crowds) == 5
    model = model_of(name)
    step = training_of(model, sgd(model))
    for batch in islice(batches_of(Subset(dataset_of("tiny_coco"), with_crowds), 0), 6):
        assert batch.crowd_mask is not None
        assert math.isfinite(step(batch))
