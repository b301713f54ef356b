"""Adapter for Ultralytics YOLO: trainers of segmentation, detection or pose models with copy-paste in every batch.

    from segpaste import BatchCopyPaste
    from segpaste.integrations.ultralytics import with_copy_paste
    from ultralytics.models.yolo.segment import SegmentationTrainer

    trainer = with_copy_paste(SegmentationTrainer, BatchCopyPaste(), max_instances=64)
    YOLO("yolo26n-seg.pt").train(trainer=trainer, data="data.yaml")

The batch is pasted on the trainer's device, after the loader and before the trainer normalises it. Validation does not
change. Not for oriented boxes: their angle would not follow a paste.

Ultralytics is under the AGPL-3.0; this module imports it and contains none of its code.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segpaste.augmentation.modes import pasting
from segpaste.bank.read.class_draws import DrawMode
from segpaste.integrations._training import (
    MOST_WORKERS,
    PICTURE,
    DatasetCrops,
    FirstBatch,
    expect_pasting,
    follow,
)
from segpaste.targets.objects import xyxy
from segpaste.targets.yolo import from_yolo, schema_of, to_yolo
from segpaste.targets.yolo_rows import Batch, Moves
from segpaste.types import DenseSample, KeypointSchema, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.sampling import box_masks

__all__ = ["Moves", "from_yolo", "moves_of", "schema_of", "to_yolo", "with_copy_paste"]

Augment = Callable[..., PaddedBatchedDenseSample]
TASKS = ("segment", "detect", "pose")


def with_copy_paste(
    trainer_cls: type[Any], augment: Augment, max_instances: int, balance: DrawMode | None = None
) -> type[Any]:
    """Return a trainer that pastes into every training batch.

    Its loader yields masks at full resolution for any ``mask_ratio``, since smaller masks do not show which pixels to
    paste; after the paste they are reduced to ``mask_ratio``, equal to the loader's. Its own copy-paste is switched
    off. Detection on polygons loads one mask per object for any ``overlap_mask``.

    The first batch is drawn to ``copy_paste_batch.jpg`` in the trainer's ``save_dir``, unless ``plots=False``.

    Args:
        trainer_cls: a trainer class of Ultralytics for segmentation, detection or pose. The latter two have boxes
            without masks, except for detection on polygons; ``augment`` then needs ``source.mask_from="boxes"``.
        augment: the augmentation, such as `segpaste.BatchCopyPaste`; a module is moved to the trainer's device.
        max_instances: K, largest number of objects of an image after the paste; an image with more keeps its largest.
        balance: draw the objects from the whole training set, with classes balanced by this mode of
            `segpaste.BankSampler`, instead of from the other images of the batch. ``augment`` must have
            ``source.kind="bank"``. Objects are cut out of the images as the trainer loads them, before augmentations
            such as mosaic, by up to two workers.

    Returns:
        A subclass of ``trainer_cls``.

    Raises:
        TypeError: ``trainer_cls`` is not a trainer class.
        ValueError: ``max_instances`` is negative, or ``augment`` does not paste what ``balance`` draws.
    """
    expect_pasting("with_copy_paste", augment, max_instances, balance)
    if not (isinstance(trainer_cls, type) and hasattr(trainer_cls, "preprocess_batch")):
        raise TypeError(f"with_copy_paste: expected a trainer class of ultralytics, got {trainer_cls!r:.80}")

    class CopyPasteTrainer(trainer_cls):
        """The trainer, with pasted batches."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            _check_task(self.args.task)
            if balance is not None:
                _check_colours(self.args.bgr, self.data.get("channels", 3))
            self.first_batch = FirstBatch()
            self.crops: DatasetCrops | None = None
            self.place = PlaceInTraining()
            self.has_mosaic = _joins_images(self.args)

        def build_dataset(self, img_path: str, mode: str = "train", batch: int | None = None) -> Any:
            """Build a dataset; that of training yields masks at full resolution."""
            if mode != "train":
                return super().build_dataset(img_path, mode, batch)
            self.has_mosaic = _joins_images(self.args)
            with _whole_masks(self.args):
                return _with_masks(super().build_dataset(img_path, mode, batch), self.args)

        def _close_dataloader_mosaic(self) -> None:
            with _whole_masks(self.args):  # the dataset rebuilds its transforms
                super()._close_dataloader_mosaic()
            self.has_mosaic = False

        def preprocess_batch(self, batch: Batch) -> Batch:
            """Paste into the batch, then call the method of the trainer."""
            moved = {
                name: value.to(self.device, non_blocking=True) if isinstance(value, Tensor) else value
                for name, value in batch.items()
            }
            follow(augment, self.place.next(self))
            schema = schema_of(self.data) if "keypoints" in moved else None
            if balance is not None and self.crops is None:
                self.crops = _crops_of(self, augment, balance, schema)
            staged = None if self.crops is None else self.crops.take(len(moved["img"]), self.epoch).to(self.device)
            moves = None if self.has_mosaic else moves_of(self.args)
            pasted = _pasted(moved, augment, max_instances, schema, self.args, staged, moves)
            if self.args.plots:
                self.first_batch.draw(pasted, self.save_dir / PICTURE, class_names=self.data["names"])
            ready: Batch = super().preprocess_batch(pasted)
            return ready

    CopyPasteTrainer.__name__ = f"CopyPaste{trainer_cls.__name__}"
    return CopyPasteTrainer


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(
            f"with_copy_paste: expected a task among {', '.join(TASKS)}, got {task!r}; its labels cannot follow a paste"
        )


def _check_colours(bgr: float, num_channels: int) -> None:
    """Reject images whose colours are in another order than those of crops."""
    if bgr or num_channels != 3:
        raise ValueError(
            "with_copy_paste: expected colour images and bgr=0 with balance, since crops are RGB, got "
            f"bgr={bgr} and {num_channels} channels; leave balance out"
        )


def _joins_images(args: Any) -> bool:
    """Return whether the loader may combine several images into one."""
    return any(getattr(args, name, 0.0) > 0 for name in ("mosaic", "mixup", "cutmix"))


def moves_of(args: Any) -> Moves | None:
    """Return how a loader with these arguments, without mosaic, moves images; None if it rotates or warps them, too."""
    if any(getattr(args, name, 0.0) for name in ("degrees", "shear", "perspective")):
        return None
    scale = args.scale[0] if isinstance(args.scale, tuple | list) else 1 - args.scale
    return Moves(scale=max(float(scale), 0.0), translate=float(args.translate))


class PlaceInTraining:
    """Counter of the pasted batches of an epoch, which a trainer of Ultralytics does not count."""

    def __init__(self) -> None:
        self._epoch, self._num_done = -1, 0

    def next(self, trainer: Any) -> float:
        """Return the progress of training, 0 to 1, and count a batch."""
        if not hasattr(trainer, "epoch"):  # a batch that is used before training
            return 0.0
        if trainer.epoch != self._epoch:
            self._epoch, self._num_done = trainer.epoch, 0
        num_epochs = self._epoch + self._num_done / len(trainer.train_loader)
        self._num_done += 1
        return float(num_epochs / trainer.epochs)


def _is_map(args: Any) -> bool:
    """Return whether masks are one map per image; not for detection, since a map hides parts of objects."""
    return bool(args.overlap_mask) and args.task != "detect"


@contextlib.contextmanager
def _whole_masks(args: Any) -> Iterator[None]:
    """Build datasets with masks at full resolution and without their own copy-paste within the context."""
    before = args.mask_ratio, args.copy_paste, args.overlap_mask
    args.mask_ratio, args.copy_paste, args.overlap_mask = 1, 0.0, _is_map(args)
    try:
        yield
    finally:
        args.mask_ratio, args.copy_paste, args.overlap_mask = before


def _with_masks(dataset: Any, args: Any) -> Any:
    """Return the dataset; for detection on polygons, make it yield masks."""
    if args.task == "detect" and _has_polygons(dataset.labels):
        dataset.use_segments = True
        dataset.transforms = dataset.build_transforms(args)
    return dataset


def _has_polygons(labels: Sequence[Batch]) -> bool:
    """Return whether every object of a dataset has a polygon; images without objects need none."""
    counts = [(len(label["cls"]), len(label["segments"])) for label in labels]
    return any(num for _, num in counts) and all(num == num_objects for num_objects, num in counts)


def _crops_of(trainer: Any, augment: Any, balance: DrawMode, schema: KeypointSchema | None) -> DatasetCrops:
    """Return crops of all objects of the training dataset of a trainer."""
    dataset, names = trainer.train_loader.dataset, trainer.data["names"]
    from_boxes = augment.config.source.mask_from == "boxes"
    if not from_boxes and not _has_polygons(dataset.labels):
        raise ValueError(
            f"with_copy_paste: expected polygons, since balance={balance!r} cuts out objects by them, got boxes; set "
            "source.mask_from='boxes' to cut out rectangles"
        )
    objects = YoloObjects(
        dataset,
        tuple(names[label] for label in range(len(names))),
        schema,
        from_boxes=from_boxes,
    )
    return DatasetCrops(
        "with_copy_paste",
        augment,
        objects,
        balance,
        batch_size=trainer.train_loader.batch_size,  # on this rank
        num_steps=len(trainer.train_loader),
        seed=trainer.args.seed,
        num_workers=min(trainer.args.workers, MOST_WORKERS),
    )


def _pasted(
    batch: Batch,
    augment: Augment,
    max_instances: int,
    schema: KeypointSchema | None,
    args: Any,
    staged: StagedCrops | None,
    moves: Moves | None,
) -> Batch:
    """Return a batch of the loader with pastes; it must be on the device of the paste."""
    if "texts" in batch:
        raise ValueError(
            "with_copy_paste: expected batches without 'texts', got some, as in YOLO-World: a class id then means "
            "another text in each image"
        )
    if isinstance(augment, nn.Module):
        augment.to(batch["img"].device)
    with torch.no_grad(), pasting(augment):
        overlap = _is_map(args)
        target = from_yolo(batch, max_instances, overlap=overlap, schema=schema, hsv_v=args.hsv_v, moves=moves)
        pasted = augment(target) if staged is None else augment(target, staged=staged)
        options = {"mask_ratio": args.mask_ratio, "overlap": overlap, "max_instances": max_instances}
        changed = to_yolo(pasted, like=batch, **options)
    return {**batch, **changed}


class YoloObjects:
    """Images of a dataset of Ultralytics at the size at which it loads them, before any augmentation.

    Args:
        dataset: dataset of Ultralytics, with polygons or boxes.
        class_names: the name of each class.
        schema: names of the keypoints, if the dataset has any.
        from_boxes: give objects without polygons rectangles as masks; if False, they have no masks.
    """

    def __init__(
        self, dataset: Any, class_names: tuple[str, ...], schema: KeypointSchema | None, *, from_boxes: bool
    ) -> None:
        self.dataset = copy.copy(dataset)
        self.dataset.augment = False  # so that reads are neither used for mosaics nor kept in memory
        self.class_names, self.schema, self.from_boxes = class_names, schema, from_boxes

    def __len__(self) -> int:
        return len(self.dataset.labels)

    @property
    def digest(self) -> str:
        """Digest of the image files."""
        return hashlib.sha256("\n".join(map(str, self.dataset.im_files)).encode()).hexdigest()

    def instance_labels(self, index: int) -> list[int]:
        """Return the class of each object."""
        labels: list[int] = self.dataset.labels[index]["cls"].reshape(-1).astype(np.int64).tolist()
        return labels

    def __getitem__(self, index: int) -> DenseSample:
        label = self.dataset.labels[index]
        image = self.dataset.load_image(index)[0]
        image = image[..., ::-1] if image.ndim == 3 else np.repeat(image[..., None], 3, 2)  # BGR, or grey
        num = len(label["cls"])
        batch = {
            "img": torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None],
            "batch_idx": torch.zeros(num, dtype=torch.float32, device="cpu"),
            "cls": torch.from_numpy(label["cls"].reshape(-1, 1)),
            "bboxes": torch.from_numpy(label["bboxes"].reshape(-1, 4)),
            "ori_shape": [image.shape[:2]],
            "ratio_pad": [(1.0, 1.0)],
        }
        if (masks := self._masks(label, image.shape[:2])) is not None:
            batch["masks"] = masks
        if label.get("keypoints") is not None:
            batch["keypoints"] = torch.from_numpy(label["keypoints"])
        whole = Moves(scale=1.0, translate=0.0)  # it has no border
        return from_yolo(batch, num, overlap=False, schema=self.schema, moves=whole).to_batched().to_samples()[0]

    def _masks(self, label: dict[str, Any], size: tuple[int, int]) -> torch.Tensor | None:
        """Return one mask per object, [N, H, W] uint8, of its polygon, drawn like the loader, or of its box."""
        num, (height, width) = len(label["cls"]), size
        if not num:
            return torch.zeros(0, height, width, dtype=torch.uint8, device="cpu")
        if len(label["segments"]) == num:
            from ultralytics.data.utils import polygons2masks

            edges = np.array([width, height], np.float32)
            return torch.from_numpy(polygons2masks(size, [polygon * edges for polygon in label["segments"]], color=1))
        if not self.from_boxes:
            return None
        return box_masks(xyxy(torch.from_numpy(label["bboxes"]), size), size).to(torch.uint8)
