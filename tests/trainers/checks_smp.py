"""Models and losses of segmentation_models_pytorch on pasted semantic maps; run by `test_trainers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import segmentation_models_pytorch as smp
import torch

from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste, create_coco_dataloader, get_preset
from segpaste.datasets import convert_dataset, open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import PaddedBatchedDenseSample

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "smp.md"
VOID = 255
SIZE = 96
MAX_INSTANCES = 24
MOST_STEPS = 60
LOSSES: dict[str, Callable[[], torch.nn.Module]] = {
    "dice": lambda: smp.losses.DiceLoss("multiclass", ignore_index=VOID),
    "jaccard": lambda: smp.losses.JaccardLoss("multiclass", ignore_index=VOID),
    "focal": lambda: smp.losses.FocalLoss("multiclass", ignore_index=VOID),
    "cross-entropy": lambda: smp.losses.SoftCrossEntropyLoss(ignore_index=VOID, smooth_factor=0.0),
}


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight rooms as label maps."""
    scenes = SceneDataset(8, SceneConfig(height=SIZE, width=128), seed=0, modalities=["image", "instance", "semantic"])
    out = tmp_path_factory.mktemp("smp") / "rooms"
    convert_dataset(scenes, out, "label-maps")
    return out


def model_of(num_classes: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return smp.Unet("resnet18", encoder_weights=None, classes=num_classes, decoder_channels=(32, 16, 16, 8, 8)).train()


def loader_of(rooms: Path, **options: Any) -> Any:
    sizes = {"batch_size": 4, "size": SIZE, "max_instances": MAX_INSTANCES, "scale_range": (0.8, 1.25)}
    return create_coco_dataloader(dataset=open_dataset(rooms), **{**sizes, **options})


def normalised(batch: PaddedBatchedDenseSample) -> torch.Tensor:
    return (batch.images.float() / 255 - 0.45) / 0.225


def lines_of_the_guide() -> Iterator[str]:
    yield from re.findall(r"^```py\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_lines_of_the_guide(rooms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They train, and whole classes are pasted by the second program."""
    monkeypatch.chdir(rooms.parent)
    first, second = lines_of_the_guide()
    noted = "optimizer.step()\n        seen.append((loss.item(), batch))"
    lines = first.replace("range(10)", "range(2)").replace("optimizer.step()", noted)
    seen: list[tuple[float, PaddedBatchedDenseSample]] = []
    names: dict[str, Any] = {"seen": seen}
    exec(lines, names)
    assert len(seen) == 4
    losses = [loss for loss, _ in seen]
    assert torch.tensor(losses).isfinite().all()
    assert len(set(losses)) == 4
    assert names["model"].segmentation_head[0].out_channels == len(open_dataset(rooms).class_names)
    assert all(int(batch.semantic_maps[batch.padding_mask[:, 0]].min()) == VOID for _, batch in seen)
    exec(second, names)
    assert torch.isfinite(names["loss"])


@pytest.mark.parametrize("name", ["dice", "focal"])
def test_the_same_seed_gives_the_same_losses(rooms: Path, name: str) -> None:
    def losses() -> list[float]:
        model, loss_of, found = model_of(len(open_dataset(rooms).class_names)), LOSSES[name](), []
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for batch in BatchCopyPaste.from_dataloader(loader_of(rooms, base_seed=5), MAX_INSTANCES):
            loss = loss_of(model(normalised(batch)), batch.semantic_maps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    first = losses()
    assert losses() == first
    assert len(set(first)) == 2


def test_four_pasted_images_are_learned(rooms: Path) -> None:
    batch = next(iter(BatchCopyPaste.from_dataloader(loader_of(rooms), MAX_INSTANCES, EVERY_IMAGE)))
    model, loss_of, losses = model_of(len(open_dataset(rooms).class_names)), LOSSES["cross-entropy"](), []
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    while len(losses) < MOST_STEPS and (not losses or losses[-1] >= losses[0] / 2):
        loss = loss_of(model(normalised(batch)), batch.semantic_maps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses[::10]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("preset", [None, "classmix"])
def test_the_loss_wants_the_class_of_what_is_pasted(rooms: Path, name: str, preset: str | None) -> None:
    """Of each pixel the gradient is that of its class in the map; padding and void have none."""
    augment = BatchCopyPaste(EVERY_IMAGE if preset is None else get_preset(preset).config)
    batch, report = augment(next(iter(loader_of(rooms, scale_range=(0.6, 0.8)))), return_report=True)
    num_classes = len(open_dataset(rooms).class_names)
    logits = torch.zeros(4, num_classes, SIZE, SIZE, requires_grad=True)
    LOSSES[name]()(logits, batch.semantic_maps).backward()
    assert logits.grad is not None
    ignored = batch.semantic_maps == VOID
    assert (ignored & batch.padding_mask[:, 0]).any()
    assert not logits.grad.movedim(1, -1)[ignored].any()
    wanted = logits.grad.argmin(1)
    assert torch.equal(wanted[~ignored], batch.semantic_maps[~ignored])
    pasted = report.visible_layer >= 0
    assert pasted.any()
    assert not ignored[pasted.reshape(ignored.shape)].any()
    for masks, labels, classes in zip(batch.instance_masks, batch.labels, batch.semantic_maps, strict=True):
        assert all((classes[mask] == label).all() for mask, label in zip(masks, labels, strict=True))


def test_metrics_leave_out_what_is_ignored(rooms: Path) -> None:
    batch = next(iter(BatchCopyPaste.from_dataloader(loader_of(rooms, scale_range=(0.6, 0.8)), MAX_INSTANCES)))
    num_classes = len(open_dataset(rooms).class_names)
    perfect = batch.semantic_maps.where(batch.semantic_maps != VOID, 0)
    stats = smp.metrics.get_stats(
        perfect, batch.semantic_maps, mode="multiclass", ignore_index=VOID, num_classes=num_classes
    )
    assert smp.metrics.iou_score(*stats, reduction="micro") == 1
    assert int(stats[0].sum()) == int((batch.semantic_maps != VOID).sum())


def test_a_size_that_the_encoder_does_not_divide_is_refused_but_by_unet(rooms: Path) -> None:
    batch = next(iter(loader_of(rooms, size=90)))
    with pytest.raises(RuntimeError, match="divisible by 32"):
        smp.FPN("resnet18", encoder_weights=None, classes=13)(normalised(batch))
    assert model_of(13)(normalised(batch)).shape == (4, 13, 90, 90)


def test_binary_models(rooms: Path) -> None:
    """The pixels of void are left out by a product."""
    batch = next(iter(BatchCopyPaste.from_dataloader(loader_of(rooms, scale_range=(0.6, 0.8)), MAX_INSTANCES)))
    logits = torch.zeros(4, 1, SIZE, SIZE, requires_grad=True)
    target = (batch.semantic_maps == 8).float()[:, None]
    known = (batch.semantic_maps != VOID)[:, None]
    (smp.losses.SoftBCEWithLogitsLoss(reduction="none")(logits, target) * known).mean().backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad != 0, known)
    assert torch.equal(logits.grad < 0, target.bool())
