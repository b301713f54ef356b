"""Modules and batches to compile, and the properties that compiled and eager results share."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from samples import EVERY_OBJECT, OPTIONAL, SCHEMA, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig, PlacementConfig
from segpaste.types import Modality, PaddedBatchedDenseSample

TOLERANCE = 1e-5
INSTANCE = frozenset({Modality.INSTANCE})

Modalities = frozenset[Modality]


def num_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def make_module(modalities: Modalities, **placement: Any) -> BatchCopyPaste:
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8})
    return BatchCopyPaste(
        BatchCopyPasteConfig(
            placement=PlacementConfig(**{"paste_prob": 1.0, "scale_range": (0.5, 1.5), **placement}),
            panoptic=panoptic if Modality.PANOPTIC in modalities else None,
            source=EVERY_OBJECT,
        )
    )


def make_input(modalities: Modalities = frozenset(OPTIONAL), seed: int = 0, **options: Any) -> PaddedBatchedDenseSample:
    """A batch with padding, metric depth, and free slots."""
    options = {"batch_size": 4, "num_instances": (3, 1, 2), "max_instances": 7, "padding": (2, 1), **options}
    return make_batch(seed=seed, modalities=modalities, metric_depth=Modality.DEPTH in modalities, **options)


def assert_equal(actual: Any, expected: Any, path: str = "") -> None:
    """Assert equality bit for bit; float images to 1e-5."""
    assert type(actual) is type(expected), path
    if isinstance(actual, Tensor):
        is_soft = actual.is_floating_point() and path.endswith(".images")
        tolerance = TOLERANCE if is_soft else 0.0
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda m: f"{path}: {m}")
    elif isinstance(actual, tuple):
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(one, other, f"{path}[{i}]")
    elif is_dataclass(actual):
        for field in fields(actual):
            assert_equal(getattr(actual, field.name), getattr(expected, field.name), f"{path}.{field.name}")
    else:
        assert actual == expected, path
