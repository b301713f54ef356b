"""RF-DETR's own training on small folders, with pasted batches and random weights; run by `test_trainers`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import rfdetr.training
import torch
from differences import Differences
from PIL import Image
from rfdetr.models.backbone import dinov2
from rfdetr.training import RFDETRDataModule, RFDETRModelModule
from rfdetr_runs import (
    EMPTY,
    MAX_INSTANCES,
    QUIET,
    SMALL,
    STILL,
    are_colours,
    batch_of,
    configs,
    loss_of,
    losses_of,
    on_this_device,
    ready,
    write_split,
)
from trainer_data import SIZE, CountingPastes, data_folder, dataset_of

from example_runs import expect_example_runs
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, CocoDetectionV2
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.datasets import open_dataset
from segpaste.integrations.rfdetr import Form, from_nested, label_map_of, to_nested, with_copy_paste
from segpaste.types import PaddedBatchedDenseSample, tight_boxes
from segpaste.viz import show

TASKS = ("detect", "segment")
DATA = ("scenes", "photos", "yolo_photos")
MOST_STEPS = 400


@pytest.fixture(scope="session", autouse=True)
def small_backbone() -> Iterator[None]:
    """Two narrow layers instead of DINOv2's twelve."""
    patch = pytest.MonkeyPatch()
    own = dinov2.get_config
    narrow = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    patch.setattr(dinov2, "get_config", lambda *args: {**own(*args), **narrow})
    patch.setitem(dinov2.size_to_width, "small", 32)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes in the folders of a Roboflow export, whose first category is a group without objects."""
    root = tmp_path_factory.mktemp("export")
    for split, images in (("train", range(16)), ("valid", range(12, 16))):
        write_split(root / split / "_annotations.coco.json", images, root / split)
    return root


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of tiny_coco, whose category ids have gaps."""
    root = tmp_path_factory.mktemp("photos") / "tiny_coco"
    shutil.copytree(data_folder() / "tiny_coco", root, copy_function=shutil.copyfile)
    for place in [root, *root.rglob("*")]:
        place.chmod(0o755)
    return root


@pytest.fixture(scope="session")
def yolo_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos of coco128_seg as a YOLO folder."""
    root = tmp_path_factory.mktemp("yolo_photos")
    for kind in ("images", "labels"):
        shutil.copytree(data_folder() / "coco128_seg" / kind, root / kind, copy_function=shutil.copyfile)
    names = ", ".join(f"class {n}" for n in range(80))
    lines = ["train: images/train2017", "val: images/train2017", "nc: 80", f"names: [{names}]"]
    (root / "data.yaml").write_text("\n".join(lines))
    return root


RUNS = [(TASKS[d % 2], data, d // 2 * 2) for d, data in enumerate(DATA)]
"""Each dataset, and each task."""


@pytest.mark.parametrize(("task", "data", "workers"), RUNS)
def test_steps(task: str, data: str, workers: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Over twenty steps of scenes memory stays flat."""
    steps = 20 if data == "scenes" else 6
    assert len(losses_of(task, request.getfixturevalue(data), tmp_path, steps=steps, num_workers=workers)) == steps


@pytest.mark.parametrize(("task", "workers"), zip(TASKS, (0, 2), strict=True))
def test_the_same_seed_gives_the_same_losses(scenes: Path, tmp_path: Path, task: str, workers: int) -> None:
    first, second = (losses_of(task, scenes, tmp_path, steps=4, num_workers=workers) for _ in range(2))
    assert first == second
    assert first != losses_of(task, scenes, tmp_path, augment=lambda batch: batch, steps=4, num_workers=workers)


@pytest.mark.parametrize(("task", "data", "workers"), [run for run in RUNS if run[1] != "yolo_photos"])
def test_batches_of_one_receive_objects_of_the_dataset(
    task: str,
    data: str,
    workers: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    placed: list[int] = []
    before: set[int] = set()

    class Counting(BatchCopyPaste):
        def forward(self, target: Any, *args: Any, **options: Any) -> Any:
            out, report = super().forward(target, *args, **options, return_report=True)
            placed.append(int(report.num_placed.sum()))
            before.update(target.labels[target.instance_valid].tolist())
            assert set(out.labels[report.slot_layer >= 0].tolist()) <= allowed
            return out

    allowed = set(range(1, 9)) if data == "scenes" else set(range(80))  # scenes: class 0 is a group
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=2))
    folder, options = request.getfixturevalue(data), {"batch_size": 1, "num_workers": workers, "steps": 12}
    losses = losses_of(task, folder, tmp_path, Counting(config), balance="class_uniform", **options)
    assert len(losses) == len(placed) == 12
    assert sum(num > 0 for num in placed) >= 8
    assert before <= allowed
    assert capsys.readouterr().out.count("pastes expected in an epoch, balance='class_uniform'") == 1
    assert (tmp_path / "copy_paste_batch.jpg").stat().st_size


@pytest.mark.parametrize("balance", [None, "natural"])
def test_pastes_fade_with_the_epochs(scenes: Path, tmp_path: Path, balance: Any) -> None:
    kind = "intra_batch" if balance is None else "bank"
    config = BatchCopyPasteConfig(
        source=SourceConfig(kind=kind), placement=PlacementConfig(paste_prob=1.0, fade_last=0.5)
    )
    counting = CountingPastes(config)
    losses_of("detect", scenes, tmp_path, counting, steps=-1, balance=balance, epochs=2)
    assert len(counting.placed) == 10  # five in an epoch
    assert all(counting.placed[:5])
    assert not any(counting.placed[5:])


def test_balance_needs_crops() -> None:
    with pytest.raises(ValueError, match=r"expected an augmentation with source.kind='bank' because balance="):
        with_copy_paste(RFDETRDataModule, BatchCopyPaste(EVERY_IMAGE), 8, balance="natural")


@pytest.mark.parametrize("backend", ["albumentations", "kornia"])
def test_the_other_augmentations_of_rfdetr(
    scenes: Path, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_this_device(monkeypatch)
    options = {"steps": 6, "augmentation_backend": backend, "multi_scale": True}
    assert len(losses_of("segment", scenes, tmp_path, **options)) == 6


def test_the_lines_of_the_guide(scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class takes the place of RF-DETR's, and its `train` uses it, with validation and checkpoints."""
    seen: list[PaddedBatchedDenseSample] = []
    pasting = with_copy_paste(RFDETRDataModule, lambda batch: seen.append(batch) or batch, MAX_INSTANCES)
    monkeypatch.setattr(rfdetr.training, "RFDETRDataModule", pasting)
    options = {**QUIET, "epochs": 1, "batch_size": 4, "num_workers": 0, "multi_scale": False}
    rfdetr.RFDETRSegNano(**SMALL, num_classes=8).train(dataset_dir=str(scenes), output_dir=str(tmp_path), **options)
    assert len(seen) == 5
    assert all(batch.instance_masks is not None and batch.images.dtype == torch.uint8 for batch in seen)


@pytest.mark.parametrize("task", TASKS)
def test_four_pasted_images_are_learned(scenes: Path, tmp_path: Path, task: str) -> None:
    lightning.seed_everything(3)
    model_config, train_config = configs(task, scenes, tmp_path, **STILL)
    samples, targets = batch_of(ready(task, scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE)), range(4))
    module = RFDETRModelModule(model_config, train_config).train()
    optimizer = torch.optim.AdamW(module.model.parameters(), 2e-3)
    losses: list[float] = []
    while len(losses) < MOST_STEPS and (not losses or losses[-1] >= losses[0] / 2):
        loss = loss_of(module, samples, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses[:: max(1, len(losses) // 10)]


@pytest.mark.parametrize("task", TASKS)
def test_images_without_objects_are_accepted(scenes: Path, tmp_path: Path, task: str) -> None:
    """In a batch with others and in a batch of their own; the loss is finite and has gradients."""
    model_config, train_config = configs(task, scenes, tmp_path, **STILL)
    module = RFDETRModelModule(model_config, train_config).train()
    datamodule = ready(task, scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE))
    for images in ([0, EMPTY, 1], [EMPTY, EMPTY]):
        samples, targets = batch_of(datamodule, images)
        loss = loss_of(module, samples, targets)
        loss.backward()
        assert loss.isfinite()
    assert [len(target["labels"]) for target in targets] == [0, 0]
    assert all(target["boxes"].shape == (0, 4) for target in targets)


DIFFERENCES = {
    "boxes": "an object without a pixel at this size has no row",
    "labels": "the same",
    "area": "the same",
    "iscrowd": "the same",
    "masks": "the same; for detection, targets have no masks: they were loaded to paste by",
}
"""Fields in which an unchanged batch comes back otherwise than RF-DETR's loader gives it, and why."""


def compared(own: Any, ours: Any, task: str) -> dict[str, int]:
    """Return in how many images each field differs; bits are equal but for the rows of objects without a pixel."""
    (samples, targets), (other, others) = own, ours
    assert torch.equal(samples.tensors, other.tensors)
    assert torch.equal(samples.mask, other.mask)
    assert samples.no_padding == other.no_padding
    differing: dict[str, int] = {}
    for target, again in zip(targets, others, strict=True):
        assert set(target) - set(again) == ({"masks"} if task == "detect" else set())
        assert set(again) <= set(target)
        has_pixel = target["masks"].flatten(1).any(1)
        for name, value in again.items():
            assert value.dtype == target[name].dtype
            differing[name] = differing.get(name, 0) + (not same(value, target[name]))
            rows = target[name][has_pixel] if name in DIFFERENCES else target[name]
            assert same(value, rows), name
    return {name: num for name, num in differing.items() if num}


def same(value: torch.Tensor, other: torch.Tensor) -> bool:
    return value.shape == other.shape and torch.equal(value, other)


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("data", ["scenes", "photos"])
@pytest.mark.parametrize("task", TASKS)
def test_an_unpasted_batch_comes_back_as_the_loader_gives_it(
    task: str, data: str, square: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Images of other shapes are padded: boxes are fractions of each image without its padding."""
    datamodule = ready(task, request.getfixturevalue(data), tmp_path, lambda batch: batch, square_resize_div_64=square)
    differing: dict[str, int] = {}
    paddings = 0
    for first in range(0, 16, 4):
        images = range(first, first + 4)
        own, ours = batch_of(datamodule, images, paste=False), batch_of(datamodule, images)
        paddings += int(own[0].mask.sum())
        differing |= compared(own, ours, task)
    assert (paddings > 0) == (data == "photos" and not square)
    rows = {"boxes", "labels", "area", "iscrowd"} | ({"masks"} if task == "segment" else set())
    assert set(differing) == (rows if data == "photos" else set())
    assert set(differing) <= set(DIFFERENCES)


HIDDEN = "an object without a pixel at this size has no row"
DECODED = "theirs decodes JPEG at a fraction of its size, ours in full, as outlines need it"
EXPLANATIONS = {
    "segment": {f"targets.{name}": HIDDEN for name in ("area", "boxes", "iscrowd", "labels", "masks")},
    "detect": {
        **{f"targets.{name}": HIDDEN for name in ("iscrowd", "labels")},
        **{f"targets.{name}": f"{HIDDEN}; {DECODED}" for name in ("area", "boxes")},
        **dict.fromkeys(("samples.mask", "samples.tensors", "targets.orig_size", "targets.size"), DECODED),
    },
}


@pytest.mark.parametrize("task", TASKS)
def test_the_table_of_differences(task: str, photos: Path, tmp_path: Path) -> None:
    """All photos, each in the shape that it has: padded in its batch."""
    options = {"square_resize_div_64": False}
    own = RFDETRDataModule(*configs(task, photos, tmp_path, **STILL, **options))
    own.setup("fit")
    ours = ready(task, photos, tmp_path, lambda batch: batch, **options)
    table = Differences(EXPLANATIONS[task])
    for first in range(0, len(own._dataset_train), 5):
        images = range(first, first + 5)
        batches = [batch_of(own, images, paste=False), batch_of(ours, images)]
        sides = [
            {"samples": {"tensors": samples.tensors, "mask": samples.mask}, "targets": [dict(t) for t in targets]}
            for samples, targets in batches
        ]
        table.compare(*sides)
    table.expect_in_guide("rfdetr.md")


@pytest.mark.parametrize("task", TASKS)
def test_a_paste_changes_what_it_covers_only(scenes: Path, tmp_path: Path, task: str) -> None:
    datamodule = ready(task, scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE).eval())  # it knows that it trains
    own, ours = batch_of(datamodule, range(4), paste=False), batch_of(datamodule, range(4))
    assert sum(len(target["labels"]) for target in ours[1]) > sum(len(target["labels"]) for target in own[1])
    changed = (own[0].tensors != ours[0].tensors).any(1)
    assert 0.01 < changed.float().mean() < 0.9
    assert are_colours(ours[0].tensors)
    num_untouched = 0
    for target, again, pixels in zip(own[1], ours[1], changed, strict=True):
        untouched = target["boxes"][~(target["masks"] & pixels).flatten(1).any(1)]
        num_untouched += len(untouched)
        assert all((again["boxes"] == box).all(1).any() for box in untouched)
        if task == "segment":
            assert again["masks"].flatten(1).any(1).all()
            assert not (pixels & ~again["masks"].any(0)).any()
            centres, sides = (again["boxes"] * SIZE).view(-1, 2, 2).unbind(1)
            fitting = tight_boxes(again["masks"])
            assert torch.allclose(torch.cat([centres - sides / 2, centres + sides / 2], 1), fitting, atol=1e-3)
        assert set(again["labels"].tolist()) <= set(range(8))
        assert (again["boxes"][:, :2] >= again["boxes"][:, 2:] / 2 - 1e-6).all()
    assert num_untouched > 0


@pytest.mark.parametrize("backend", ["torchvision", "kornia"])
def test_the_paste_sees_the_colours_of_the_file(
    scenes: Path, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_this_device(monkeypatch)
    seen: list[PaddedBatchedDenseSample] = []
    augment = lambda batch: seen.append(batch) or batch  # noqa: E731
    batch_of(ready("segment", scenes, tmp_path, augment, augmentation_backend=backend), range(4))
    for b in range(4):
        sample = dataset_of("scenes")[b]
        assert torch.equal(seen[0].images[b], sample.image)
        assert torch.equal(seen[0].instance_masks[b, : len(sample.labels)], sample.instance_masks)


def test_padding_is_not_pasted_over(photos: Path, tmp_path: Path) -> None:
    datamodule = ready("detect", photos, tmp_path, BatchCopyPaste(EVERY_IMAGE), square_resize_div_64=False)
    own, ours = batch_of(datamodule, range(4), paste=False), batch_of(datamodule, range(4))
    changed = (own[0].tensors != ours[0].tensors).any(1)
    assert changed.any()
    assert own[0].mask.any()
    assert not (changed & own[0].mask).any()
    for target in ours[1]:
        centres, sides = target["boxes"].view(-1, 2, 2).unbind(1)
        assert (centres + sides / 2 <= 1 + 1e-6).all()


@pytest.mark.parametrize("task", TASKS)
def test_pastes_come_before_the_augmentations_on_the_device(
    scenes: Path, tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader then gives 0..1 and boxes in pixels; an unpasted batch leaves Kornia the same, bit for bit."""
    on_this_device(monkeypatch)
    options = {"augmentation_backend": "kornia", "aug_config": {"HorizontalFlip": {"p": 0.5}}}
    datamodule = ready(task, scenes, tmp_path, lambda batch: batch, **options)
    batches = []
    for paste in (False, True):
        torch.manual_seed(0)
        batches.append(batch_of(datamodule, range(4), paste=paste, as_loaded=False))
    (samples, targets), (other, others) = batches
    assert samples.tensors.min() < 0
    assert torch.equal(samples.tensors, other.tensors)
    for target, again in zip(targets, others, strict=True):
        assert all(same(again[name], target[name]) for name in again)
    pasted = batch_of(ready(task, scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE), **options), range(4))
    assert sum(len(target["labels"]) for target in pasted[1]) > sum(len(target["labels"]) for target in targets)
    assert all((target["boxes"] <= 1).all() for target in pasted[1])
    assert are_colours(pasted[0].tensors)


@pytest.mark.parametrize("data", ["scenes", "photos"])
def test_the_picture_has_the_names_of_the_classes(data: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    seen: list[PaddedBatchedDenseSample] = []
    folder = request.getfixturevalue(data)
    batch_of(ready("segment", folder, tmp_path, lambda batch: seen.append(batch) or batch), range(4))
    if data == "photos":
        files = folder / "train2017", folder / "annotations" / "instances_train2017.json"
        names = CocoDetectionV2(*files).class_names
    else:
        names = open_dataset(folder, "train").class_names
    show(seen[0], class_names=names, path=tmp_path / "again.jpg")
    assert (tmp_path / "again.jpg").read_bytes() == (tmp_path / "copy_paste_batch.jpg").read_bytes()


def test_targets_keep_their_number_of_rows(scenes: Path, tmp_path: Path) -> None:
    """`pad_targets_to` fills targets with rows that are no objects: not for the paste, and there after it."""
    for rows in (12, 40):
        datamodule = ready("segment", scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE), pad_targets_to=rows)
        own, ours = batch_of(datamodule, range(4), paste=False), batch_of(datamodule, range(4))
        for target, again in zip(own[1], ours[1], strict=True):
            assert {name: value.shape for name, value in again.items()} == {n: v.shape for n, v in target.items()}
            assert target["valid"].sum() < again["valid"].sum() <= rows
            assert not again["boxes"][~again["valid"]].any()
            assert (again["boxes"][again["valid"], 2:] > 0).all()


def test_only_training_is_pasted_and_has_masks(scenes: Path, tmp_path: Path) -> None:
    datamodule = ready("detect", scenes, tmp_path, BatchCopyPaste(EVERY_IMAGE))
    assert datamodule._dataset_train.include_masks
    assert not datamodule._dataset_val.include_masks
    assert not datamodule.model_config.segmentation_head
    built = datamodule._dataset_train
    datamodule.setup("fit")
    assert datamodule._dataset_train is built
    datamodule.trainer.validating = True
    samples, targets = batch_of(datamodule, range(2))
    datamodule.trainer.training = True
    own = batch_of(datamodule, range(2), paste=False)
    assert torch.equal(samples.tensors, own[0].tensors)
    assert len(targets[0]["labels"]) == len(own[1][0]["labels"])


def test_boxes_without_outlines_are_pasted_as_rectangles(scenes: Path, tmp_path: Path) -> None:
    """One object without a segmentation is enough; nothing is pasted unless `mask_from` is set."""
    data = tmp_path / "boxes"
    shutil.copytree(scenes, data)
    path = data / "train" / "_annotations.coco.json"
    tables = json.loads(path.read_text())
    del next(row for row in tables["annotations"] if not row["iscrowd"])["segmentation"]
    path.write_text(json.dumps(tables))
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(mask_from="boxes"))
    for augment, grows in ((BatchCopyPaste(EVERY_IMAGE), False), (BatchCopyPaste(config), True)):
        datamodule = ready("detect", data, tmp_path, augment)
        assert not datamodule._dataset_train.include_masks
        own, ours = batch_of(datamodule, range(4), paste=False), batch_of(datamodule, range(4))
        counts = [sum(len(target["labels"]) for target in targets) for _, targets in (own, ours)]
        assert (counts[1] > counts[0]) == grows
        if not grows:
            for target, again in zip(own[1], ours[1], strict=True):
                assert torch.allclose(again["boxes"], target["boxes"], atol=1e-6)


def yolo_folder(folder: Path, row: str) -> str:
    """Write four images with two objects each, the second as given, and return the text of the data YAML."""
    for kind in ("images", "labels"):
        (folder / "train" / kind).mkdir(parents=True)
    for number in range(4):
        pixels = dataset_of("scenes")[number].image.permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / "train" / "images" / f"{number}.png")
        (folder / "train" / "labels" / f"{number}.txt").write_text(f"0 0.3 0.3 0.2 0.2\n{row}\n")
    return "\n".join(["train: train/images", "val: train/images", "names: [box, other]", "nc: 2"])


@pytest.mark.parametrize(("row", "outlined"), [("1 0.2 0.2 0.7 0.2 0.2 0.7", True), ("1 0.5 0.5 0.4 0.4", False)])
def test_yolo_folders(tmp_path: Path, row: str, outlined: bool) -> None:
    (tmp_path / "data.yaml").write_text(yolo_folder(tmp_path, row))
    datamodule = ready("detect", tmp_path, tmp_path, BatchCopyPaste(EVERY_IMAGE))
    assert datamodule._dataset_train.include_masks == outlined
    assert label_map_of(datamodule._dataset_train) == 0
    _, targets = batch_of(datamodule, range(4))
    assert sum(len(target["labels"]) for target in targets) > 8 or not outlined
    assert {label for target in targets for label in target["labels"].tolist()} == {0, 1}


def test_balance_of_a_yolo_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.yaml").write_text(yolo_folder(tmp_path, "1 0.2 0.2 0.7 0.2 0.2 0.7"))
    augment = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=2))
    )
    datamodule = ready("detect", tmp_path, tmp_path, augment, balance="class_uniform")
    monkeypatch.setattr(type(datamodule.trainer), "num_training_batches", 4)  # known once `fit` has begun
    placed = 0
    for image in range(4):
        own, ours = batch_of(datamodule, [image], paste=False), batch_of(datamodule, [image])
        placed += int((own[0].tensors != ours[0].tensors).any())
        assert are_colours(ours[0].tensors)
    assert placed >= 3
    objects = datamodule._crops.bank.dataset
    own = datamodule._dataset_train
    assert objects.class_names == ("box", "other")
    for index in range(4):
        sample, masks = objects[index], own.sv_dataset[index][2].mask
        assert torch.equal(sample.image, dataset_of("scenes")[index].image)
        assert torch.equal(sample.instance_masks, torch.from_numpy(masks))
        assert sample.labels.tolist() == objects.instance_labels(index) == [0, 1]


@pytest.mark.parametrize("layout", ["roboflow", "yolo"])
def test_balance_of_boxes_is_refused_before_training(layout: str, scenes: Path, tmp_path: Path) -> None:
    data = tmp_path / "boxes"
    if layout == "yolo":
        text = yolo_folder(data, "1 0.5 0.5 0.4 0.4")
        (data / "data.yaml").write_text(text)
    else:
        shutil.copytree(scenes, data)
        path = data / "train" / "_annotations.coco.json"
        tables = json.loads(path.read_text())
        for row in tables["annotations"]:
            del row["segmentation"]
        path.write_text(json.dumps(tables))
    augment = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank")))
    with pytest.raises(ValueError, match="expected objects with outlines because balance='natural' cuts them out, got"):
        ready("detect", data, tmp_path, augment, balance="natural")


def test_labels_are_those_of_our_readers(scenes: Path, photos: Path, tmp_path: Path) -> None:
    """RF-DETR takes the ids of a COCO file as labels, and numbers those of an export, without its group."""
    for data, split in ((scenes, "train"), (photos, "train2017")):
        seen: list[PaddedBatchedDenseSample] = []
        datamodule = ready("segment", data, tmp_path, lambda batch: seen.append(batch) or batch)  # noqa: B023
        _, targets = batch_of(datamodule, range(4))
        if data is scenes:
            ours = open_dataset(data, split)
        else:
            ours = CocoDetectionV2(data / split, data / "annotations" / "instances_train2017.json")
        own = datamodule._dataset_train
        names = {
            label: own.coco.cats[own.label2cat[label] if own.label2cat else label]["name"]
            for label in own_labels(targets)
        }
        for b, target in enumerate(targets):
            labels = seen[0].labels[b, seen[0].instance_masks[b].flatten(1).any(1)].tolist()
            assert [ours.class_names[label] for label in labels] == [names[n] for n in target["labels"].tolist()]


def own_labels(targets: Sequence[dict[str, torch.Tensor]]) -> set[int]:
    return {label for target in targets for label in target["labels"].tolist()}


def test_crowds_are_not_pasted(scenes: Path, tmp_path: Path) -> None:
    """RF-DETR's loader leaves them out; those of a loader that does not are regions, not objects."""
    datamodule = ready("segment", scenes, tmp_path, lambda batch: batch)
    samples, targets = batch_of(datamodule, range(2), paste=False)
    targets[0]["iscrowd"][0] = 1
    batch = from_nested(samples, targets, MAX_INSTANCES, Form())
    assert batch.crowd_mask is not None
    assert torch.equal(batch.crowd_mask[0, 0], targets[0]["masks"][0])
    assert not batch.crowd_mask[1].any()
    assert batch.instance_valid[0].sum() == len(targets[0]["labels"]) - 1
    _, again = to_nested(batch, samples, targets, Form())
    assert torch.equal(again[0]["boxes"], targets[0]["boxes"][1:])
    del targets[0]["masks"], targets[1]["masks"]
    boxes = from_nested(samples, targets, MAX_INSTANCES, Form()).crowd_mask
    assert boxes is not None
    assert torch.equal(boxes[0, 0] | batch.crowd_mask[0, 0], boxes[0, 0])


def test_one_graph_serves_all_batches(scenes: Path, tmp_path: Path) -> None:
    graphs: list[Any] = []

    def count(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(BatchCopyPaste(EVERY_IMAGE), backend=count, fullgraph=True, dynamic=False)
    datamodule = ready("segment", scenes, tmp_path, compiled)
    for images in (range(4), range(4, 8), [EMPTY] * 4):
        batch_of(datamodule, images)
    assert len(graphs) == 1


def test_what_is_refused(scenes: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a data module of rfdetr or its class, got 'x'"):
        with_copy_paste("x", BatchCopyPaste(EVERY_IMAGE), 8)
    datamodule = ready("segment", scenes, tmp_path, lambda batch: batch)
    samples, targets = batch_of(datamodule, range(2), paste=False)
    with pytest.raises(ValueError, match=r"read as images in 0\.\.1: expected colours in 0\.\.1, got -\d\.\d+\.\.\d"):
        from_nested(samples, targets, 8, Form(normalized=False))
    batch = from_nested(samples, targets, 8, Form())
    cut = batch.derived(images=batch.images[:, :, :48])
    with pytest.raises(ValueError, match=r"expected images of the shape \[2, 3, 96, 96\].* got \[2, 3, 48, 96\]"):
        to_nested(cut, samples, targets, Form())
    datamodule.model_config.use_grouppose_keypoints = True
    with pytest.raises(ValueError, match="expected a model for detection or segmentation, got one for keypoints"):
        datamodule.setup("fit")


def test_the_example_runs(tmp_path: Path) -> None:
    expect_example_runs("17_rf_detr", tmp_path)
