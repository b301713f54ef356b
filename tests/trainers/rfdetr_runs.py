"""Small folders, models and trainings of RF-DETR, for `checks_rfdetr`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pycocotools.mask
import pytest
import pytorch_lightning as lightning
import rfdetr.datasets.kornia_transforms
import rfdetr.training
import torch
from PIL import Image
from rfdetr.config import RFDETRNanoConfig, RFDETRSegNanoConfig, SegmentationTrainConfig, TrainConfig
from rfdetr.training import RFDETRDataModule, RFDETRModelModule, build_trainer
from trainer_data import SIZE, dataset_of

from live_tensors import LiveTensors, expect_flat
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.integrations.rfdetr import with_copy_paste

SMALL = {
    "out_feature_indexes": [1, 2],
    "num_windows": 1,
    "patch_size": 16,
    "resolution": SIZE,
    "positional_encoding_size": SIZE // 16,
    "hidden_dim": 32,
    "dec_layers": 1,
    "sa_nheads": 2,
    "ca_nheads": 2,
    "num_queries": 20,
    "num_select": 20,
    "group_detr": 1,
    "pretrain_weights": None,
    "device": "cpu",
}
QUIET = {"tensorboard": False, "use_ema": False, "dont_save_weights": True, "accelerator": "cpu", "seed": 3}
QUIET |= {"augmentation_backend": "torchvision", "progress_bar": None}
STILL = {"multi_scale": False, "scale_jitter": False, "aug_config": {}}
CATEGORIES = [{"id": 0, "name": "things", "supercategory": "none"}]
CATEGORIES += [{"id": 2 * n + 1, "name": f"class {n}", "supercategory": "things"} for n in range(8)]
MAX_INSTANCES = 32
EMPTY = 15
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_split(folder: Path, images: range, image_dir: Path) -> None:
    """Write scenes as COCO with run lengths; the last image has no object, the one before it a crowd."""
    image_dir.mkdir(parents=True)
    tables: dict[str, list[Any]] = {"images": [], "annotations": [], "categories": CATEGORIES}
    for number in images:
        sample = dataset_of("scenes")[number]
        name = f"{number}.png"
        Image.fromarray(sample.image.permute(1, 2, 0).numpy()).save(image_dir / name)
        tables["images"].append({"id": number, "file_name": name, "height": SIZE, "width": SIZE})
        if number == images[-1]:
            continue
        for mask, label in zip(sample.instance_masks, sample.labels.tolist(), strict=True):
            run_lengths = pycocotools.mask.encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
            box = pycocotools.mask.toBbox(run_lengths).tolist()
            tables["annotations"].append(
                {
                    "id": len(tables["annotations"]) + 1,
                    "image_id": number,
                    "category_id": CATEGORIES[label + 1]["id"],
                    "bbox": box,
                    "area": int(mask.sum()),
                    "iscrowd": int(number == images[-2] and label == sample.labels[0]),
                    "segmentation": {"size": [SIZE, SIZE], "counts": run_lengths["counts"].decode()},
                }
            )
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text(json.dumps(tables))


def configs(task: str, data: Path, out: Path, **options: Any) -> tuple[Any, Any]:
    """Return the model's and the training's configuration."""
    kind, num_classes = "roboflow", 8
    if (data / "annotations").exists():
        kind, num_classes = "coco", 90
    elif (data / "data.yaml").exists():
        kind, num_classes = "yolo", 80
    model = {**SMALL, "num_classes": num_classes, **options.pop("model", {})}
    layout = {"dataset_file": kind, "dataset_dir": str(data), "output_dir": str(out)}
    chosen = {**QUIET, **layout, "batch_size": 4, "num_workers": 0, "epochs": 4, "multi_scale": False, **options}
    if task == "segment":
        return RFDETRSegNanoConfig(**model), SegmentationTrainConfig(**chosen)
    return RFDETRNanoConfig(**model), TrainConfig(**chosen)


class Notes(lightning.Callback):
    """Losses and live tensors of a training."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.alive = LiveTensors()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        self.losses.append(loss.item())
        self.alive.after_step()


def losses_of(task: str, data: Path, out: Path, augment: Any = None, steps: int = 20, **options: Any) -> list[float]:
    """Train for some steps of four images, pasted, and return the losses."""
    lightning.seed_everything(3)
    balance = options.pop("balance", None)
    model_config, train_config = configs(task, data, out, **options)
    module = RFDETRDataModule(model_config, train_config)
    datamodule = with_copy_paste(module, augment or BatchCopyPaste(EVERY_IMAGE), MAX_INSTANCES, balance)
    notes = Notes()
    trainer = build_trainer(
        train_config, model_config, max_steps=steps, limit_val_batches=0, enable_checkpointing=False, callbacks=[notes]
    )
    trainer.fit(RFDETRModelModule(model_config, train_config), datamodule)
    assert torch.tensor(notes.losses).isfinite().all()
    if steps == 20:
        expect_flat(notes.alive.num_bytes)
    return notes.losses


def ready(task: str, data: Path, out: Path, augment: Any, balance: Any = None, **options: Any) -> Any:
    """Return a data module that pastes, set up to fit as a trainer would, without its random changes."""
    model_config, train_config = configs(task, data, out, **STILL | options)
    datamodule = with_copy_paste(RFDETRDataModule(model_config, train_config), augment, MAX_INSTANCES, balance)
    datamodule.trainer = build_trainer(train_config, model_config, include_training_callbacks=False)
    datamodule.trainer.training = True
    datamodule.setup("fit")
    return datamodule


def batch_of(datamodule: Any, images: Sequence[int], paste: bool = True, as_loaded: bool = True) -> Any:
    """Return some images as a training step gets them, or as they are loaded, or as RF-DETR itself would give them."""
    dataset = datamodule._dataset_train
    batch = datamodule._collate_fn_train([dataset[i] for i in images])
    batch = datamodule.transfer_batch_to_device(batch, torch.device("cpu"), 0)
    if paste:
        return datamodule.on_after_batch_transfer(batch, 0)
    return batch if as_loaded else RFDETRDataModule.on_after_batch_transfer(datamodule, batch, 0)


def are_colours(images: torch.Tensor) -> bool:
    """Tell whether normalised images stand for whole numbers of 0..255."""
    values = (images * torch.tensor(STD).view(-1, 1, 1) + torch.tensor(MEAN).view(-1, 1, 1)) * 255
    return torch.allclose(values, values.round(), atol=1e-3)


def loss_of(module: Any, samples: Any, targets: Any) -> torch.Tensor:
    """Return the weighted sum of RF-DETR's losses."""
    losses, weights = module.criterion(module.model(samples, targets), targets), module.criterion.weight_dict
    return torch.stack([losses[name] * weights[name] for name in losses if name in weights]).sum()


def on_this_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Kornia's augmentations run without CUDA; they are the same."""
    for module in (rfdetr.training.module_data, rfdetr.datasets.kornia_transforms):
        monkeypatch.setattr(module, "_has_cuda_device", lambda: True)
