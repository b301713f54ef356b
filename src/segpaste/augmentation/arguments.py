"""Checks of the arguments of `BatchCopyPaste`, whose errors say what to write instead.

`check_writable` checks tensors that a paste in place would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from segpaste.augmentation.config.base import StrictConfig
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.sources.bank_source import BankSource
from segpaste.augmentation.sources.crop_pool import is_bank, is_dataset
from segpaste.augmentation.sources.strategies import IntraBatchSource, RowStrategy, SourceStrategy
from segpaste.engine.planes import changed_fields, memory_span
from segpaste.types import FIELDS, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import check_bools, check_count
from segpaste.types.staged import SHAPES
from segpaste.types.tracing import is_traced


def checked_config(config: object, source_pool: object) -> BatchCopyPasteConfig:
    """Return the config; for None, the default config.

    With a pool, the kind ``intra_batch`` becomes ``bank``, and each layer becomes a crop.

    Raises:
        TypeError: ``config`` is of another class.
        ValueError: (pydantic) other options of the config do not fit a bank.
    """
    config = BatchCopyPasteConfig() if config is None else config
    if not isinstance(config, BatchCopyPasteConfig):
        raise TypeError(
            f"BatchCopyPaste: expected config to be a BatchCopyPasteConfig or None, got {_shown(config)}"
            f"{_instead_of_config(config)}"
        )
    if source_pool is None or config.source.kind != "intra_batch":
        return config
    changes: dict[str, Any] = {"kind": "bank"}
    given = {name: getattr(config, name) for name in config.model_fields_set}
    if config.placement.layers > 1 and "crops_per_target" not in config.source.model_fields_set:
        changes["crops_per_target"] = config.placement.layers  # each crop is a layer
        given["placement"] = config.placement.model_copy(update={"layers": 1})
    return BatchCopyPasteConfig.model_validate({**given, "source": config.source.model_copy(update=changes)})


def _instead_of_config(given: object) -> str:
    """Return a hint on what to write in place of an object that is not a config, empty if there is none."""
    if isinstance(given, Mapping):
        return "; make one with BatchCopyPasteConfig.model_validate(values)"
    if isinstance(given, str | PathLike):
        return "; read a file with BatchCopyPasteConfig.load(path), or use the config of a preset, get_preset(name)"
    if isinstance(getattr(given, "config", None), BatchCopyPasteConfig):
        return "; give its config attribute"
    if is_bank(given):
        return "; give the bank as source_pool=bank"
    for name, field in BatchCopyPasteConfig.model_fields.items():
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        if isinstance(given, StrictConfig) and type(given) in kinds:
            return f"; give BatchCopyPasteConfig({name}=...)"
    return ""


_PARAMETERS = {"sample": ("target", "eligible", "request"), "rows": ("target", "candidates", "request")}
"""Parameters with which the module calls each method of a source."""

_IN_REQUEST = {"valid_extent", "source_eligible", "generator"}
"""Parameters of the source documents' signature, whose values are in the request or are ``eligible``."""


def _check_signature(source: object, name: str) -> None:
    """Check that the module can call a method of a source; a protocol compares names of methods only."""
    method, parameters = getattr(source, name, None), _PARAMETERS[name]
    try:
        signature = inspect.signature(method)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return  # no such method, which has an error of its own, or one that tells nothing
    error: TypeError | None = None
    try:
        signature.bind(*parameters)
        other = sorted(_IN_REQUEST & signature.parameters.keys())
        reason = f"{', '.join(other)} would be another argument" if other else ""
    except TypeError as caught:
        error, reason = caught, str(caught)
    if reason:
        raise TypeError(
            f"BatchCopyPaste: expected {type(source).__name__}.{name}({', '.join(parameters)}), got {name}{signature} "
            f"({reason}); seeds, extents and free slots are attributes of the request, a "
            "segpaste.augmentation.PlacementRequest"
        ) from error


def check_sources(source: object, source_pool: object, config: BatchCopyPasteConfig) -> None:
    """Check that source, pool and config are of one kind."""
    check_pool("BatchCopyPaste", source_pool, config)
    if source is None:
        return
    if isinstance(source, type) or not isinstance(source, SourceStrategy | RowStrategy):
        instead = ""
        if is_bank(source):
            instead = "; give the bank as source_pool=bank"
        elif isinstance(source, type):
            instead = f"; make an object: {source.__name__}(...)"
        elif isinstance(source, StrictConfig):
            instead = "; give BatchCopyPasteConfig(source=...) as config"
        raise TypeError(
            f"BatchCopyPaste: expected source to be a SourceStrategy, an object with a method sample, got "
            f"{_shown(source)}{instead}"
        )
    _check_signature(source, "rows" if config.emit_classmix else "sample")
    if config.emit_classmix and not isinstance(source, RowStrategy):
        raise ValueError(
            "BatchCopyPaste: expected a source with a method rows (RowStrategy) because emit_classmix=True, got a "
            f"{type(source).__name__}, which has no method rows"
        )
    if not config.emit_classmix and not isinstance(source, SourceStrategy):
        raise ValueError(
            f"BatchCopyPaste: expected emit_classmix=True because the source, a {type(source).__name__}, has a method "
            "rows but no method sample, got False; give it a method sample, or set emit_classmix"
        )
    if isinstance(source, BankSource) and source.config != config.source:
        raise ValueError(
            f"BatchCopyPaste: expected the BankSource to have the config's source, got {source.config!r} in the source "
            f"and {config.source!r} in the config; give BatchCopyPasteConfig(source=...) and leave source out"
        )
    if isinstance(source, IntraBatchSource) and config.source.kind != source.kind:
        raise ValueError(
            f"BatchCopyPaste: expected source.kind={source.kind!r} in the config, as in the IntraBatchSource, got "
            f"{config.source.kind!r}; leave source out: the config sets it"
        )


def check_pool(owner: str, source_pool: object, config: BatchCopyPasteConfig) -> None:
    """Check that the source of the config is a bank if a pool is given."""
    if source_pool is not None and config.source.kind != "bank":
        raise ValueError(
            f"{owner}: expected source.kind='bank' because source_pool is given, got {config.source.kind!r}; leave "
            "source.kind out of the config"
        )


def check_loader(loader: object, max_instances: object, device: object, source_pool: object) -> None:
    """Check the classes of the arguments of ``from_dataloader``."""
    if isinstance(loader, str | Mapping | PaddedBatchedDenseSample) or not hasattr(loader, "__iter__"):
        raise TypeError(f"from_dataloader: expected loader to yield batches, got {_shown(loader)}")
    check_count("from_dataloader: max_instances", max_instances)
    if not isinstance(device, torch.device | str | int | None) or isinstance(device, bool):
        raise TypeError(f"from_dataloader: expected device to be a torch.device, or its name, got {_shown(device)}")
    try:
        torch.device("cpu" if device is None else device)
    except RuntimeError as error:
        raise ValueError(f"from_dataloader: expected a device such as 'cuda:0', got {device!r}: {error}") from error
    is_pool = is_bank(source_pool) or is_dataset(source_pool)
    is_pool = is_pool or (hasattr(source_pool, "__iter__") and not isinstance(source_pool, Mapping))
    if isinstance(source_pool, list | tuple) and not is_dataset(source_pool):
        is_pool = all(isinstance(crops, StagedCrops) for crops in source_pool)
    if not is_pool and not isinstance(source_pool, str | PathLike | None):  # `CropPool` says how to open a path
        raise TypeError(
            f"from_dataloader: expected source_pool to be a bank, a dataset or a loader of staged crops, got "
            f"{_shown(source_pool)}; open_bank(path) opens a bank, create_bank_dataloader(bank, ...) makes a loader"
        )


def check_balance(owner: str, balance: object, source_pool: object) -> None:
    """Check that ``balance`` is given only where objects are drawn from a pool."""
    if balance is not None and source_pool is None:
        raise ValueError(
            f"{owner}: expected source_pool with balance={balance!r}, a bank or a dataset to draw objects from, got "
            "none; objects of the batch itself are balanced by placement.class_temperature"
        )


def check_flag(name: str, value: object) -> None:
    """Check that a flag is True or False, since any text would count as True."""
    if not isinstance(value, bool):
        raise TypeError(f"BatchCopyPaste: expected {name} to be True or False, got {_shown(value)}")


def check_forward(
    target: object, generator: object, staged: object, return_report: object, *, takes_crops: bool, writes: bool
) -> PaddedBatchedDenseSample:
    """Check the classes of the arguments of a forward pass, and that no field requires grad; return ``target``.

    ``takes_crops`` is True if the module's source may read staged crops, ``writes`` if it pastes or works in place;
    otherwise fields of the target may require grad.
    """
    if not isinstance(target, PaddedBatchedDenseSample):
        raise TypeError(
            f"BatchCopyPaste: expected a PaddedBatchedDenseSample, got {type(target).__name__}; "
            "make one with BatchedDenseSample.from_samples(samples).to_padded(max_instances=...)"
        )
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"BatchCopyPaste: expected generator to be a torch.Generator or None, got {_shown(generator)}; give "
            "torch.Generator().manual_seed(5), or your own seeds as the batch's sample_seeds"
        )
    check_flag("return_report", return_report)
    if writes:
        check_no_grad("target", target)
    if staged is None:
        return target
    if not isinstance(staged, StagedCrops):
        raise TypeError(
            f"BatchCopyPaste: expected staged to be StagedCrops or None, got {_shown(staged)}; make them with "
            "stage_bank_batch(bank, crop_idx) or create_bank_dataloader(bank, ...)"
        )
    if not takes_crops:
        raise ValueError(
            "BatchCopyPaste: expected source.kind='bank' because staged crops are given, got a source of "
            "the batch's own rows; set BatchCopyPasteConfig(source=SourceConfig(kind='bank')), or leave staged out"
        )
    check_no_grad("staged", staged)
    return target


def check_bytes(target: PaddedBatchedDenseSample) -> None:
    """Check that a batch has data, and its bool fields on the CPU, which its constructor does not read."""
    if target.device.type == "meta":
        raise ValueError(
            "BatchCopyPaste: expected a batch with data, got one on the device meta, which has none; give a batch on "
            "the CPU or a GPU, or trace the module with torch.compile or under FakeTensorMode"
        )
    for field in FIELDS:
        value: Tensor | None = getattr(target, field.batched_name)
        if value is not None:
            check_bools(f"BatchCopyPaste: {field.batched_name}", value)


def check_region(region: object, target: PaddedBatchedDenseSample, *, takes_region: bool) -> None:
    """Check the mask of the pixels that may be pasted on; ``takes_region`` is False with ClassMix."""
    if region is None:
        return
    if not takes_region:
        raise ValueError(
            "BatchCopyPaste: expected region=None with emit_classmix, which keeps the position of classes, got a "
            f"{type(region).__name__}; leave it out"
        )
    size = target.batch_size, *target.canvas_size
    if not isinstance(region, Tensor) or region.dtype != torch.bool:
        found = str(region.dtype) if isinstance(region, Tensor) else _shown(region)
        raise TypeError(
            f"BatchCopyPaste: expected region to be a tensor of torch.bool, True where pastes are allowed, got {found}"
        )
    if tuple(region.shape) not in (size, (size[0], 1, *size[1:])):
        raise ValueError(
            f"BatchCopyPaste: expected region of shape {list(size)}, a mask for each image, got {list(region.shape)}"
        )
    if region.device != target.device:
        raise ValueError(
            f"BatchCopyPaste: expected region on {target.device}, the target's device, got {region.device}; move it "
            "with .to(device)"
        )


_NAMES = tuple(field.batched_name for field in FIELDS)


def check_no_grad(side: str, batch: PaddedBatchedDenseSample | StagedCrops) -> None:
    """Check that no field requires grad while grad is enabled, since a paste is not differentiable.

    ``requires_grad`` is static while code is traced, so compiled code checks it when it is compiled.
    """
    if not torch.is_grad_enabled():
        return
    for name in _NAMES if isinstance(batch, PaddedBatchedDenseSample) else SHAPES:
        value: Tensor | None = getattr(batch, name)
        if value is not None and value.requires_grad:
            raise RuntimeError(
                f"BatchCopyPaste: expected no field that requires grad, since a paste is not differentiable, got "
                f"{name} of the {side}; give {name}.detach(), or call it under torch.no_grad()"
            )


def _shown(value: Any) -> str:
    """Return the class of a value, and the value itself if it is short."""
    text = repr(value)
    return type(value).__name__ + (f" {text}" if len(text) <= 40 and not isinstance(value, type) else "")


def check_writable(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
    """Check that every tensor that a paste in place would write can be written. No tensor is written here.

    Compiled code checks sizes and strides only.
    """
    max_instances, multiple = config.max_instances, config.placement.pad_to_multiple
    if multiple is not None and any(size % multiple for size in batch.canvas_size):
        raise ValueError(
            f"BatchCopyPaste: expected a canvas whose sides are multiples of pad_to_multiple={multiple} because "
            f"inplace=True, got {batch.canvas_size}; pad the batch to that, or leave inplace out"
        )
    if max_instances is not None and max_instances > batch.max_instances:
        raise ValueError(
            f"BatchCopyPaste: expected at most the batch's {batch.max_instances} slots in max_instances because "
            f"inplace=True, got {max_instances}; pad the batch to that many, or leave inplace out"
        )
    written = changed_fields(batch)
    for name, tensor in written.items():
        if not (tensor.is_contiguous() or _has_own_places(tensor)):
            raise ValueError(
                "BatchCopyPaste: expected no expanded tensors, whose values share memory, because inplace=True, got "
                f"{name}; call .contiguous() on it, or leave inplace out"
            )
    if is_traced():
        return
    for name, tensor in written.items() if not torch.is_inference_mode_enabled() else ():
        if tensor.is_inference():
            raise RuntimeError(
                f"BatchCopyPaste: expected no inference tensor outside of inference mode because inplace=True, got "
                f"{name}; clone it, or leave inplace out"
            )
    _check_apart(batch, written)


_READ = "padding_mask", "camera_intrinsics", "sample_seeds"
"""Fields that a paste reads only."""


def _check_apart(batch: PaddedBatchedDenseSample, written: dict[str, Tensor]) -> None:
    """Check that no written field shares memory with another field; fields with interleaved values count as sharing."""
    given = {**written, **{name: getattr(batch, name) for name in _READ}}
    places = sorted([memory_span(t) for t in given.values() if t is not None])
    if all(before[1] <= after[0] for before, after in pairwise(places)):  # the usual case
        return
    spans = [(*memory_span(t), name) for name, t in given.items() if t is not None and t.numel()]
    last_end, last = 0, ""
    for start, end, name in sorted(spans):
        if start < last_end and (name in written or last in written):
            raise ValueError(
                f"BatchCopyPaste: expected fields that share no memory because inplace=True, got {name} in the memory "
                f"of {last}; clone one of them, or leave inplace out"
            )
        if end > last_end:
            last_end, last = end, name


def _has_own_places(tensor: Tensor) -> bool:
    """Return whether no two values share a place in memory."""
    if tensor.numel() == 0:
        return True
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return False
            reach = (size - 1) * stride + reach
    return True
