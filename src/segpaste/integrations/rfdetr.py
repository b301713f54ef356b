"""Adapter for RF-DETR: its data module for detection and segmentation, with copy-paste in every training batch.

    import rfdetr.training
    from segpaste import BatchCopyPaste
    from segpaste.integrations.rfdetr import with_copy_paste

    pasting = with_copy_paste(rfdetr.training.RFDETRDataModule, BatchCopyPaste(), max_instances=64)
    rfdetr.training.RFDETRDataModule = pasting
    rfdetr.RFDETRSegNano().train(dataset_dir="folder")

The batch is pasted after its transfer to the device, and before the module's own augmentations there. Images come
normalised from the loader, or as 0..1 if the module normalises them on the device. They are converted to 0..255 for the
paste, and a pixel that no paste changes keeps its value bit for bit. Validation does not change. Keypoint models are
not supported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.transforms import v2

from segpaste.augmentation.modes import pasting
from segpaste.bank.read.class_draws import DrawMode
from segpaste.datasets.formats.image_files import open_image
from segpaste.integrations._training import (
    MOST_WORKERS,
    PICTURE,
    DatasetCrops,
    FirstBatch,
    expect_pasting,
    follow,
    progress_of,
)
from segpaste.targets.objects import LabelMap
from segpaste.targets.rfdetr import Form, Target, from_nested, to_nested
from segpaste.types import DenseSample, PaddedBatchedDenseSample

__all__ = ["Form", "from_nested", "label_map_of", "to_nested", "with_copy_paste"]

Augment = Callable[..., PaddedBatchedDenseSample]
Module = TypeVar("Module")


def with_copy_paste(
    datamodule: Module, augment: Augment, max_instances: int, balance: DrawMode | None = None
) -> Module:
    """Return a data module that pastes into every training batch.

    For detection its training dataset is built with masks if its objects have polygons: objects are pasted by their
    outline, and the model gets boxes as before. ``augment`` gets the labels that segpaste's readers give to the same
    dataset, so a bank that was built from it fits.

    Args:
        datamodule: a data module of RF-DETR, or its class. Boxes without polygons are pasted only if ``augment`` has
            ``source.mask_from="boxes"``.
        augment: the augmentation, such as `segpaste.BatchCopyPaste`; a module is moved to the batch's device.
        max_instances: K, largest number of objects of an image after the paste; an image with more keeps its largest.
        balance: draw the objects from the whole training set, with classes balanced by this mode of
            `segpaste.BankSampler`, instead of from the other images of the batch. ``augment`` must have
            ``source.kind="bank"``. Objects of COCO files without a segmentation are not drawn. Each image is read at
            the resolution of the model.

    The first batch is drawn to ``copy_paste_batch.jpg`` in the ``output_dir`` of the training.

    Returns:
        A subclass of a given class; a given instance is changed to an instance of such a subclass, and returned.

    Raises:
        TypeError: ``datamodule`` is neither.
        ValueError: ``max_instances`` is negative, or ``augment`` does not paste what ``balance`` draws.
    """
    expect_pasting("with_copy_paste", augment, max_instances, balance)
    base: type[Any] = datamodule if isinstance(datamodule, type) else type(datamodule)
    if not (hasattr(base, "on_after_batch_transfer") and hasattr(base, "setup")):
        raise TypeError(f"with_copy_paste: expected a data module of rfdetr or its class, got {datamodule!r:.80}")

    class CopyPasteDataModule(base):
        """The data module, with pasted batches."""

        _built_to_paste = False
        _crops: DatasetCrops | None = None

        def setup(self, stage: str) -> None:
            """Build the datasets of a stage; that of training has masks if possible."""
            if stage == "fit":
                self._first_batch, self._crops = FirstBatch(), None
                _setup_to_fit(self, super().setup)
                if balance is not None:
                    _expect_outlines(self._dataset_train, balance)
            else:
                super().setup(stage)

        def on_after_batch_transfer(self, batch: tuple[Any, Any], dataloader_idx: int) -> tuple[Any, Any]:
            """Paste into a training batch, then call the method of the data module."""
            if self.trainer is not None and self.trainer.training:
                if balance is not None and self._crops is None:
                    self._crops = _crops_of(self, augment, balance, len(batch[1]))
                batch = _pasted(self, batch, augment, max_instances)
            ready: tuple[Any, Any] = super().on_after_batch_transfer(batch, dataloader_idx)
            return ready

    CopyPasteDataModule.__name__ = f"CopyPaste{base.__name__}"
    if isinstance(datamodule, type):
        return CopyPasteDataModule  # type: ignore[return-value]
    datamodule.__class__ = CopyPasteDataModule
    return datamodule


def _setup_to_fit(datamodule: Any, setup: Callable[[str], None]) -> None:
    """Build the datasets for training; with masks if the model needs them or the objects have polygons."""
    model_config = datamodule.model_config
    if model_config.use_grouppose_keypoints:
        raise ValueError(
            "with_copy_paste: expected a model for detection or segmentation, got one for keypoints, whose batches "
            "have no masks to paste by"
        )
    if model_config.segmentation_head or datamodule._built_to_paste:
        setup("fit")
        return
    setup("validate")
    datamodule._dataset_train = None
    with _masks_loaded(model_config):
        setup("fit")
    if not _has_polygons(datamodule._dataset_train):
        datamodule._dataset_train = None
        setup("fit")
    datamodule._built_to_paste = True


@contextlib.contextmanager
def _masks_loaded(model_config: Any) -> Iterator[None]:
    """Build datasets with masks within the context."""
    model_config.segmentation_head = True
    try:
        yield
    finally:
        model_config.segmentation_head = False


def _has_polygons(dataset: Any) -> bool:
    """Return whether the objects of a dataset that was built with masks have outlines.

    In a COCO file every object must have one, since an object without it has an empty mask. In YOLO labels a box is its
    own outline, so one other outline is enough.
    """
    if hasattr(dataset, "sv_dataset"):
        images = (dataset.sv_dataset.get_image_info(i) for i in range(len(dataset)))
        return any(_is_outline(polygon) for image in images for polygon in image.polygons)
    if not hasattr(dataset, "coco"):
        return False
    objects = [row for row in dataset.coco.anns.values() if not row.get("iscrowd")]
    return bool(objects) and all(row.get("segmentation") for row in objects)


def _is_outline(polygon: Any) -> bool:
    """Return whether a polygon [P, 2] differs from the four corners of a box."""
    return len(polygon) != 4 or any(len(set(axis.tolist())) != 2 for axis in polygon.T)


def _form_of(datamodule: Any) -> Form:
    return Form(
        normalized=datamodule._kornia_pipeline is None,
        label_map=label_map_of(datamodule._dataset_train),
        with_masks=datamodule.model_config.segmentation_head,
    )


def label_map_of(dataset: Any) -> LabelMap:
    """Return the labels that a dataset of RF-DETR gives to our classes.

    Our readers number the categories of a COCO file by ascending id. RF-DETR uses the ids themselves for
    ``dataset_file="coco"``; for Roboflow's folders it numbers them, too, but leaves out groups without objects.
    """
    categories = getattr(getattr(dataset, "coco", None), "cats", None)
    if categories is None:
        return 0
    numbers = getattr(dataset, "cat2label", None) or {class_id: class_id for class_id in categories}
    table = {label: numbers[class_id] for label, class_id in enumerate(sorted(categories)) if class_id in numbers}
    return 0 if all(label == number for label, number in table.items()) else table


def class_names_of(dataset: Any) -> tuple[str, ...] | None:
    """Return the names of our classes in a dataset of RF-DETR, in the order of `label_map_of`; None if it has none."""
    categories = getattr(getattr(dataset, "coco", None), "cats", None)
    names = getattr(dataset, "classes", None)
    if categories is not None:
        names = [categories[class_id]["name"] for class_id in sorted(categories)]
    return None if names is None else tuple(map(str, names))


def _expect_outlines(dataset: Any, balance: DrawMode) -> None:
    """Reject a dataset without any object that can be cut out."""
    has_any = _has_polygons(dataset) if hasattr(dataset, "sv_dataset") else _rows_with_outline(dataset)
    if not has_any:
        raise ValueError(
            f"with_copy_paste: expected objects with outlines because balance={balance!r} cuts them out, got none in "
            f"the {type(dataset).__name__} to train on; leave balance out"
        )


def _rows_with_outline(dataset: Any) -> bool:
    """Return whether any object of a COCO file has an outline."""
    rows = dataset.coco.anns.values() if hasattr(dataset, "coco") else []
    return any(row.get("segmentation") and not row.get("iscrowd") for row in rows)


def _crops_of(datamodule: Any, augment: Augment, balance: DrawMode, batch_size: int) -> DatasetCrops:
    """Return crops of all objects of the training dataset of a data module."""
    dataset, config = datamodule._dataset_train, datamodule.train_config
    kind = YoloFolderObjects if hasattr(dataset, "sv_dataset") else CocoObjects
    objects = kind(dataset, datamodule.model_config.resolution)
    return DatasetCrops(
        "with_copy_paste",
        augment,
        objects,
        balance,
        batch_size=batch_size,
        num_steps=int(datamodule.trainer.num_training_batches),
        seed=config.seed or 0,
        num_workers=min(config.num_workers, MOST_WORKERS),
    )


def _pasted(datamodule: Any, batch: tuple[Any, Any], augment: Augment, max_instances: int) -> tuple[Any, list[Target]]:
    """Return a batch of the loader with pastes; it must be on the device of the paste."""
    samples, targets = batch
    form = _form_of(datamodule)
    follow(augment, progress_of(datamodule.trainer))
    if isinstance(augment, nn.Module):
        augment.to(samples.tensors.device)
    if targets and "valid" in targets[0]:
        max_instances = min(max_instances, len(targets[0]["valid"]))
    with torch.no_grad(), pasting(augment):
        target = from_nested(samples, targets, max_instances, form)
        if datamodule._crops is None:
            pasted = augment(target)
        else:
            crops = datamodule._crops.take(target.batch_size, datamodule.trainer.current_epoch)
            pasted = augment(target, staged=crops.to(target.device))
        path, names = Path(datamodule.train_config.output_dir) / PICTURE, class_names_of(datamodule._dataset_train)
        datamodule._first_batch.draw(pasted, path, class_names=names)
        return to_nested(pasted, samples, targets, form)


class CocoObjects:
    """Images of a COCO dataset with the objects that have an outline, at the size that the trainer uses, for crops.

    Crowds are left out. Labels number the categories by ascending id, as in the readers of segpaste.

    Args:
        dataset: a ``torchvision.datasets.CocoDetection``, or a similar object with ``root``, ``coco`` and ``ids``.
        longest_side: longest side in pixels that each image is resized to.
    """

    def __init__(self, dataset: Any, longest_side: int) -> None:
        self.root, self.coco, self.ids = Path(dataset.root), dataset.coco, list(dataset.ids)
        self.label_of = {category: label for label, category in enumerate(sorted(self.coco.cats))}
        self.class_names = tuple(str(self.coco.cats[category]["name"]) for category in self.label_of)
        self.resize = v2.Resize(None, max_size=longest_side)

    def __len__(self) -> int:
        return len(self.ids)

    def image_id(self, index: int) -> int:
        """Return the id of an image."""
        return int(self.ids[index])

    def instance_labels(self, index: int) -> list[int]:
        """Return the label of each object."""
        return [self.label_of[row["category_id"]] for row in self._rows(index)]

    def __getitem__(self, index: int) -> DenseSample:
        image_id = self.ids[index]
        with open_image(self.root / self.coco.imgs[image_id]["file_name"]) as opened:
            image = torch.from_numpy(np.array(opened.convert("RGB"))).permute(2, 0, 1).contiguous()
        found = [self.coco.annToMask(row).astype(bool) for row in self._rows(index)]
        masks = torch.from_numpy(np.stack(found)) if found else image.new_zeros(0, *image.shape[1:], dtype=torch.bool)
        return _resized(self.resize, image, masks, self.instance_labels(index))

    def _rows(self, index: int) -> list[dict[str, Any]]:
        rows = self.coco.imgToAnns[self.ids[index]]
        return [row for row in rows if row.get("segmentation") and not row.get("iscrowd")]


class YoloFolderObjects:
    """Images of a YOLO folder with their objects; the counterpart of `CocoObjects`.

    Args:
        dataset: RF-DETR's dataset of a YOLO folder, built with masks: ``sv_dataset`` and ``classes``.
        longest_side: longest side in pixels that each image is resized to.
    """

    def __init__(self, dataset: Any, longest_side: int) -> None:
        self.images, self.class_names = dataset.sv_dataset, tuple(map(str, dataset.classes))
        self.resize = v2.Resize(None, max_size=longest_side)

    def __len__(self) -> int:
        return len(self.images)

    def instance_labels(self, index: int) -> list[int]:
        """Return the label of each object."""
        return [int(label) for label in self.images.get_image_info(index).class_id]

    def __getitem__(self, index: int) -> DenseSample:
        _, pixels, found = self.images[index]
        image = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).contiguous()
        drawn = np.asarray([] if found.mask is None else found.mask, bool)
        masks = torch.from_numpy(drawn.reshape(-1, *pixels.shape[:2]))
        return _resized(self.resize, image, masks, self.instance_labels(index))


def _resized(resize: v2.Resize, image: Tensor, masks: Tensor, labels: list[int]) -> DenseSample:
    sample: DenseSample = resize(
        DenseSample.from_masks(image, masks, torch.tensor(labels, dtype=torch.int64, device="cpu"))
    )
    return sample
