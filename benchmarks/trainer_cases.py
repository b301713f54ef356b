"""Cases of `benchmarks.trainer_steps`: a model of each framework, its training step, and a batch of its loader.

Each imports its framework when it is made, for no environment has all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from segpaste.datasets.scenes import SceneDataset
from segpaste.datasets.writers.yolo import data_yaml, sample_labels
from segpaste.types import DenseSample

from . import trainer_turns
from .trainer_turns import COLOURS, MAX_INSTANCES, NUM_CLASSES, Case, Kind, descend, padded_scenes, scenes


def write_yolo(folder: Path, samples: SceneDataset) -> Path:
    """Write samples as a YOLO folder for segmentation, and return its data.yaml."""
    for kind in ("images", "labels"):
        (folder / kind / "train").mkdir(parents=True, exist_ok=True)
    for number in range(len(samples)):
        sample = samples[number]
        pixels = np.ascontiguousarray(sample.image.as_subclass(torch.Tensor).permute(1, 2, 0).numpy())
        Image.fromarray(pixels).save(folder / "images" / "train" / f"{number}.jpg", quality=95)
        (folder / "labels" / "train" / f"{number}.txt").write_text(sample_labels(sample, "segment"))
    splits = {"train": "images/train", "val": "images/train"}
    text = data_yaml([f"class {n}" for n in range(NUM_CLASSES)], splits)
    (folder / "data.yaml").write_text(f"path: {folder.resolve()}\n{text}")
    return folder / "data.yaml"


def ultralytics(size: int, batch_size: int, folder: Path, compiled: bool = False) -> Case:
    """YOLO11n-seg in its own trainer: its loader's batch, its preprocessing, loss, optimizer step."""
    from ultralytics.models.yolo.segment import SegmentationTrainer

    from segpaste.integrations.ultralytics import from_yolo, to_yolo

    options = {"model": "yolo11n-seg.yaml", "data": str(write_yolo(folder, scenes(size, batch_size)))}
    options |= {"project": str(folder / "out"), "device": "cpu", "imgsz": size, "batch": batch_size, "mask_ratio": 1}
    fixed = {"workers": 0, "plots": False, "val": False, "amp": False, "verbose": False, "compile": compiled}
    trainer = SegmentationTrainer(overrides={**options, **fixed})
    trainer._setup_train()
    trainer.model.train()
    source = next(iter(trainer.train_loader))
    padded = partial(from_yolo, max_instances=MAX_INSTANCES, overlap=True)
    reduced = partial(to_yolo, like=source, mask_ratio=4, overlap=True)

    def step(batch: dict[str, Any]) -> None:
        ready = trainer.preprocess_batch(dict(batch))
        if compiled:
            loss, _ = trainer.model._orig_mod.loss(ready, trainer.model(ready["img"]))
        else:
            loss, _ = trainer.model(ready)
        loss.sum().backward()
        trainer.optimizer_step()

    return Case(
        f"YOLO11n-seg, {batch_size} × {size}², mosaics of scenes",
        {**source, **reduced(padded(source))},
        source,
        lambda augment, batch: {**batch, **reduced(augment(padded(batch)))},
        step,
        "The model is compiled, `compile=True`." if compiled else "",
    )


def rfdetr(size: int, batch_size: int, folder: Path) -> Case:
    """RF-DETR's smallest segmentation model at its own resolution; two images, for its step is the longest."""
    from rfdetr.config import RFDETRSegNanoConfig, SegmentationTrainConfig
    from rfdetr.training import RFDETRModelModule
    from rfdetr.utilities.tensors import nested_tensor_from_tensor_list

    from segpaste.integrations.huggingface import to_detr
    from segpaste.integrations.rfdetr import Form, from_nested, to_nested

    model_config = RFDETRSegNanoConfig(num_classes=NUM_CLASSES, pretrain_weights=None, device="cpu")
    side, num = model_config.resolution, 2
    train_config = SegmentationTrainConfig(dataset_dir=str(folder), output_dir=str(folder), batch_size=num)
    module = RFDETRModelModule(model_config, train_config).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    labels = to_detr(padded_scenes(side, num), **COLOURS)
    keys = {"class_labels": "labels"}
    targets = [{keys.get(name, name): value for name, value in label.items()} for label in labels["labels"]]
    targets = [{**target, "masks": target["masks"].bool()} for target in targets]
    source = nested_tensor_from_tensor_list(list(labels["pixel_values"])), targets

    def paste(augment: Callable[..., Any], batch: Any) -> Any:
        return to_nested(augment(from_nested(*batch, MAX_INSTANCES, Form())), *batch, Form())

    def step(batch: Any) -> None:
        losses, weights = module.criterion(module.model(*batch), batch[1]), module.criterion.weight_dict
        descend(optimizer, sum(losses[name] * weights[name] for name in losses if name in weights))

    note = "RF-DETR compiles its models on CUDA only."
    return Case(f"RF-DETR SegNano, {num} × {side}²", source, source, paste, step, note)


def mask2former(size: int, batch_size: int, folder: Path) -> Case:
    """Mask2Former with the Swin-T of its paper; two images, for its step is long."""
    import transformers

    from segpaste.integrations.huggingface import to_mask_labels

    swin = transformers.SwinConfig(out_features=[f"stage{n}" for n in range(1, 5)], image_size=size)
    config = transformers.Mask2FormerConfig(backbone_config=swin, num_labels=NUM_CLASSES)
    model = transformers.Mask2FormerForUniversalSegmentation(config)
    return _of_transformers(f"Mask2Former, Swin-T, 2 × {size}²", model, to_mask_labels, scenes(size, 2))


def detr(size: int, batch_size: int, folder: Path, compiled: bool = False) -> Case:
    """DETR for segmentation with a ResNet-50; compiled as the Trainer's ``torch_compile=True`` does."""
    import transformers

    from segpaste.integrations.huggingface import to_detr

    backbone = transformers.ResNetConfig(out_features=[f"stage{n}" for n in range(1, 5)])
    config = transformers.DetrConfig(backbone_config=backbone, num_labels=NUM_CLASSES)
    model = transformers.DetrForSegmentation(config)
    if compiled:
        model = torch.compile(model)
    half = max(2, batch_size // 2)
    return _of_transformers(f"DETR for segmentation, ResNet-50, {half} × {size}²", model, to_detr, scenes(size, half))


def _of_transformers(batch: str, model: Any, function: Callable[..., Any], samples: SceneDataset) -> Case:
    """A model that takes the collator's dictionaries; the paste begins with a list of samples."""
    from segpaste.integrations.huggingface import CopyPasteCollator

    convert = partial(function, **COLOURS)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)
    source = [samples[n] for n in range(len(samples))]

    def paste(augment: Callable[..., Any], given: list[DenseSample]) -> Any:
        return CopyPasteCollator(augment, MAX_INSTANCES, convert)(given)

    plain = CopyPasteCollator(lambda found: found, MAX_INSTANCES, convert)(source)
    note = "The Trainer pastes in the workers of its loader, in parallel to the step."
    return Case(batch, plain, source, paste, lambda inputs: descend(optimizer, model(**inputs).loss), note)


def torchvision(size: int, batch_size: int, folder: Path) -> Case:
    """Mask R-CNN with a ResNet-50, on images at their own size."""
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    from segpaste.integrations.torchvision import from_detection, to_detection

    num = max(2, batch_size // 2)
    sizes = {"min_size": size, "max_size": size}
    model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=NUM_CLASSES + 1, **sizes).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    source = to_detection(padded_scenes(size, num), label_map=1)

    def paste(augment: Callable[..., Any], batch: Any) -> Any:
        return to_detection(augment(from_detection(*batch, label_map=1, max_instances=MAX_INSTANCES)), label_map=1)

    def step(batch: Any) -> None:
        descend(optimizer, sum(model(*batch).values()))

    return Case(f"Mask R-CNN, ResNet-50 FPN, {num} × {size}²", source, source, paste, step)


CASES = {
    "ultralytics": Kind("Ultralytics", "ultralytics", ultralytics),
    "ultralytics-compiled": Kind("Ultralytics, compiled", "ultralytics", partial(ultralytics, compiled=True)),
    "rfdetr": Kind("RF-DETR", "rfdetr", rfdetr),
    "mask2former": Kind("transformers, Mask2Former", "transformers", mask2former),
    "detr": Kind("transformers, DETR", "transformers", detr),
    "detr-compiled": Kind("transformers, DETR, compiled", "transformers", partial(detr, compiled=True)),
    "torchvision": Kind("torchvision", "", torchvision),
    "lightning": Kind("Lightning", "lightning", trainer_turns.lightning),
    "lightning-compiled": Kind("Lightning, compiled", "lightning", partial(trainer_turns.lightning, compiled=True)),
}
