"""Copy-paste as a transform of one sample, for pipelines of transforms; objects come from a bank.

It is not fast: `segpaste.BatchCopyPaste` on whole batches, on their device, costs a fraction. Use it if the loop or the
trainer cannot be changed, or if samples differ in size until they reach the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, arguments, prepare
from segpaste.augmentation.report import PasteReport, nothing_pasted_warning
from segpaste.augmentation.sources.crop_pool import Balance, BankPool, is_bank, is_dataset
from segpaste.augmentation.warned import ModuleWarnings
from segpaste.integrations._training import print_expected
from segpaste.targets import albumentations, torchvision
from segpaste.targets.annotated import Annotated, sample_of, with_masks
from segpaste.targets.colours import expect_colours, expect_rgb
from segpaste.targets.objects import LabelMap, to_framework
from segpaste.targets.outcome import Outcome, outcome_of
from segpaste.types import FIELDS, DenseSample, KeypointSchema, PaddedBatchedDenseSample
from segpaste.types.check import check_count, not_none
from segpaste.types.rows import own_row, row_sample

PATIENCE = 32
"""Number of consecutive samples without a paste after which a warning is raised."""

_KEPT = ("image_id", "orig_size", "size", "file_name")
"""Entries about the image as a whole, which a paste leaves valid."""

_OWN_FIELDS = {field.name for field in FIELDS} - {"image", *torchvision.ENTRIES}
"""Names that distinguish the dictionary of a `DenseSample` from a detection target."""


class CopyPaste(v2.Transform):
    """Transform that pastes objects of a bank into one sample at a time: `BatchCopyPaste` on a batch of one.

        transforms = v2.Compose([v2.RandomHorizontalFlip(), CopyPaste(bank, label_map=1), v2.ToDtype(...)])

    It takes a `DenseSample` or its ``to_dict()``; an image and a detection target, as two arguments, as a pair or as
    one dictionary with ``image``; or the dictionary that an AlbumentationsX pipeline returns. It returns the same form
    with consistent fields: masks are cut, boxes and areas are those of the visible pixels, hidden objects have no row,
    and pastes come last.

    Put it after transforms that move or resize the image, because sizes of pastes are in pixels, and before
    normalisation, because crops are not normalised. Seeds come from the global generator of torch, which a
    ``DataLoader`` seeds in each worker and each epoch.

    Args:
        source_pool: an instance bank (`segpaste.open_bank`), which workers open again by its path; or a dataset of
            `DenseSample`, whose objects are cut out when they are drawn (`segpaste.bank.DatasetBank`).
        config: options of the paste; ``source.kind`` is ``bank``, also if it is not set. ``source.value_range``, the
            value of white in float images, is 1 unless it is set.
        balance: draw mode of the classes of the pool, see `segpaste.BankSampler`; by default by its repeat factors.
            If it is given, the expected pastes of 1000 images are printed.
        max_instances: maximum number of instances of the output; pastes beyond it are dropped, but the image's own
            instances are all kept. By default there is room for all pastes.
        label_map: class id in the targets of each class of the bank: a number to add, a list, or a table; a class
            whose id is below 0 is never pasted. For AlbumentationsX it may have texts, such as ``bank.class_names``. A
            `DenseSample` has the ids of the bank by default; the other forms need it.
        keypoint_schema: names of the keypoints of detection targets, which are rejected without it.
        bbox_format: format of ``bboxes``, as ``coord_format`` of ``A.BboxParams``: ``pascal_voc``, ``coco``,
            ``cxcywh``, ``albumentations`` or ``yolo``. If it is given, the returned dictionaries of arrays have boxes.
        label_field: field of labels in dictionaries of arrays.
        mask_value: value of objects in masks, 1 or 255, for targets without objects. Other targets keep the value and
            the dtype of their masks.
        keep: names of entries that a paste leaves valid. Texts, numbers, ``image_id``, ``size``, ``orig_size`` and
            ``file_name`` are kept in any case.
        drop: names of entries to remove, such as tensors with a value for each object. All other entries are an error.

    Attributes:
        augment: the `BatchCopyPaste` that it calls.

    Raises:
        TypeError: an argument has another type.
        ValueError: the bank is empty, the config is for another source, or ``label_map`` lacks a class of the bank.
    """

    def __init__(
        self,
        source_pool: BankPool,
        config: BatchCopyPasteConfig | None = None,
        *,
        balance: Balance | None = None,
        max_instances: int | None = None,
        label_map: LabelMap | Sequence[str] | Mapping[int, str] | None = None,
        keypoint_schema: KeypointSchema | None = None,
        bbox_format: str | None = None,
        label_field: str = "labels",
        mask_value: int = 1,
        keep: Sequence[str] = (),
        drop: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if not (is_bank(source_pool) or is_dataset(source_pool)):
            raise TypeError(
                f"CopyPaste: expected source_pool to be a bank or a dataset, got {type(source_pool).__name__}; open a "
                "bank with open_bank(path)"
            )
        config = arguments.checked_config(config, source_pool)
        if config.source.kind == "bank" and config.source.value_range is None:
            config = config.model_copy(update={"source": config.source.model_copy(update={"value_range": 1.0})})
        if config.placement.fade_last > 0:
            raise ValueError(
                "CopyPaste: expected placement.fade_last=0, because a transform does not know the progress of "
                f"training, got {config.placement.fade_last}; leave it out, or paste whole batches with BatchCopyPaste"
            )
        limit = config.max_instances if max_instances is None else max_instances
        if limit is not None:
            check_count("CopyPaste: max_instances", limit)
        in_place = config.placement.pad_to_multiple is None  # in the copy that is the batch of one
        config = config.model_copy(update={"max_instances": None})
        self.augment = BatchCopyPaste(config, source_pool=source_pool, balance=balance, inplace=in_place, always=True)
        self.augment.warnings = ModuleWarnings(config, of_nothing=False)  # usual for single images
        self.max_instances, self.keypoint_schema = limit, keypoint_schema
        self.bbox_format, self.label_field = bbox_format, label_field
        if bbox_format is not None:
            albumentations.checked_format("CopyPaste", bbox_format)
        if mask_value not in (1, 255):
            raise ValueError(f"CopyPaste: expected mask_value to be 1 or 255, got {mask_value!r}")
        self.mask_value = mask_value
        self.keep, self.drop = _names("keep", keep), _names("drop", drop)
        crops = not_none(self.augment.crops)
        print_expected("CopyPaste", self.augment)
        self._class_names = tuple(crops.bank.class_names)
        self._class_ids, self._class_texts = _class_table(label_map, len(self._class_names))
        self._num_without_paste: int | None = 0

    def forward(self, *inputs: Any) -> Any:
        """Return the sample with pastes, in its given form.

        Raises:
            TypeError: the sample has another form.
            ValueError: the sample has no masks or an unknown entry, or needs an option that is not given.
        """
        given = inputs[0] if len(inputs) == 1 else inputs
        if isinstance(given, DenseSample):
            return self._of_sample(given)
        if isinstance(given, Mapping) and "image" in given:
            if _OWN_FIELDS & set(given):
                return self._of_sample(DenseSample.from_dict(given)).to_dict()
            if isinstance(given["image"], np.ndarray):
                return self._of_arrays(given)
            target = {name: value for name, value in given.items() if name != "image"}
            image, target = self._of_target(given["image"], target)
            return {"image": image, **target}
        if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[1], Mapping):
            image, target = self._of_target(*given)
            return [image, target] if isinstance(given, list) else (image, target)
        got = ", ".join(type(value).__name__ for value in inputs) or "nothing"
        raise TypeError(
            f"CopyPaste: expected a DenseSample, an image and its target, or a dictionary with 'image', got {got}; "
            "batches go to segpaste.BatchCopyPaste"
        )

    def _of_sample(self, sample: DenseSample) -> DenseSample:
        if self._class_texts is not None:
            raise ValueError(
                "CopyPaste: expected class ids in label_map, because labels of samples are integers, got texts"
            )
        return row_sample(self._pasted(sample)[0])

    def _of_target(self, image: Any, target: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._check_options()
        if self._class_texts is not None:
            raise ValueError(
                "CopyPaste: expected class ids in label_map, because labels of targets are integers, got texts"
            )
        target = {name: value for name, value in target.items() if name not in self.drop}
        _check_others(target, torchvision.ENTRIES, self.keep)
        schema = self.keypoint_schema
        given = torchvision.read_pair("CopyPaste", image, target, with_keypoints=schema is not None)
        return torchvision.write_pair(image, target, self._outcome(given))

    def _of_arrays(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._check_options()
        data = {name: value for name, value in data.items() if name not in self.drop}
        _check_others(data, ("image", "masks", "bboxes", self.label_field), self.keep)
        names = self.bbox_format, self.label_field
        texts = self._class_texts
        given = albumentations.read_dictionary("CopyPaste", data, *names, texts=texts is not None)
        return albumentations.write_dictionary(data, self._outcome(given), *names, texts=texts)

    def _outcome(self, given: Annotated) -> Outcome:
        if self.augment.config.source.mask_from is None:
            given = with_masks("CopyPaste", given, "or set source.mask_from='boxes' in the config")
        batch, report = self._pasted(sample_of(given, self.keypoint_schema))
        return outcome_of(given, batch, report.slot_layer[0] >= 0, mask_value=self.mask_value)

    def _pasted(self, sample: DenseSample) -> tuple[PaddedBatchedDenseSample, PasteReport]:
        """Return the sample, as a batch of one, after the paste."""
        crops, white = self.augment.crops, self.augment.config.source.value_range
        assert crops is not None
        expect_rgb("CopyPaste", len(sample.image))
        if sample.image.dtype != torch.uint8 and white is not None:
            expect_colours("CopyPaste: image", [sample.image], white, "source.value_range in the config")
        batch = prepare.seeded(own_row(sample, self._num_slots(sample.num_instances)), None)
        staged = crops.staged(not_none(batch.sample_seeds))
        if self._class_ids is not None:
            staged.class_ids.copy_(self._class_ids[staged.class_ids])
        out, report = self.augment(batch, staged=staged, return_report=True)
        self._warn_if_nothing_pasted(report, batch)
        return out, report

    def _num_slots(self, num_own: int) -> int:
        """Return K: room for all pastes within the limits, but at least for the sample's own instances."""
        config = self.augment.config
        limits = [num_own + config.num_layers]
        if self.max_instances is not None:
            limits.append(self.max_instances)
        if config.panoptic is not None:
            limits.append(config.panoptic.taxonomy.max_instances_per_image)
        return max(num_own, min(limits))

    def _check_options(self) -> None:
        """Check the options that forms without a padding mask and with their own class ids need."""
        if self._class_ids is None and self._class_texts is None:
            raise ValueError(
                "CopyPaste: expected label_map, because targets of datasets have their own class ids, got None; give "
                f"the id of each class of the bank, {list(self._class_names)[:8]}, as a list, or a number to add"
            )
        if self.augment.config.placement.pad_to_multiple is not None:
            raise ValueError(
                "CopyPaste: expected no placement.pad_to_multiple, because only a DenseSample can mark padding; pad "
                "with a transform of torchvision"
            )

    def _warn_if_nothing_pasted(self, report: PasteReport, batch: PaddedBatchedDenseSample) -> None:
        """Warn once if nothing could be pasted into the first samples."""
        if self._num_without_paste is None or not int(report.num_tried.sum()):
            return
        self._num_without_paste += 1
        message = nothing_pasted_warning(report, self.augment.config, batch.modalities)
        if message is not None and self._num_without_paste == PATIENCE:
            text = f"CopyPaste pasted nothing into {PATIENCE} samples; the reason for the last one: {message}"
            warnings.warn(text, stacklevel=5)
        if message is None or self._num_without_paste == PATIENCE:
            self._num_without_paste = None


def _check_others(entries: Mapping[str, Any], read: Sequence[str], keep: Sequence[str]) -> None:
    """Check that every entry of a target that is not read refers to the image as a whole.

    Texts, numbers and tensors without dimensions do. Longer values may have an entry for each object, which a paste
    would make invalid.

    Raises:
        ValueError: an entry does not; the message has its name.
    """
    for name, value in entries.items():
        if name in read or name in keep or name in _KEPT:
            continue
        if value is None or isinstance(value, str | bytes | int | float | np.generic):
            continue
        if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
            continue
        raise ValueError(
            f"CopyPaste: expected only {', '.join(read)}, texts and numbers in a target, got {name!r}, a "
            f"{type(value).__name__}; give keep=({name!r},) if it stays valid after a paste, else drop=({name!r},)"
        )


def _names(label: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"CopyPaste: expected {label} to be a list of names, got the text {names!r}")
    return tuple(names)


def _class_table(label_map: Any, num_classes: int) -> tuple[Tensor | None, tuple[Any, ...] | None]:
    """Return the class id of each class of a bank, [num_classes] int64, or its text; None for the one not given."""
    if label_map is None:
        return None, None
    if isinstance(label_map, np.ndarray):
        label_map = label_map.tolist()
    listed = isinstance(label_map, Sequence) and not isinstance(label_map, str)
    table = dict(enumerate(label_map)) if listed else label_map
    num_texts = sum(isinstance(value, str) for value in table.values()) if isinstance(table, Mapping) else 0
    if not num_texts:
        return to_framework(torch.arange(num_classes, device="cpu"), label_map), None
    if num_texts < len(table):
        raise ValueError(f"label_map: expected texts or numbers, got both: {list(table.values())[:8]!r:.80}")
    missing = sorted(set(range(num_classes)) - set(table))
    if missing:
        raise ValueError(f"label_map: expected a text for every class of the bank, got none for {missing[:20]}")
    return None, tuple(table[class_id] for class_id in range(num_classes))
