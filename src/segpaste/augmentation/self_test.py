"""Comparison of the pastes of all backends that run on this machine."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import torch
from torch import Tensor

from segpaste.augmentation.batch_copy_paste import BatchCopyPaste
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.engine.select import NAMES, use_backend
from segpaste.types import PaddedBatchedDenseSample

_TOLERANCE = 1e-5
_CONFIGS: dict[str, dict[str, Any]] = {
    "image": {},
    "instance": {"placement": {"grouping": "instance", "layers": 3, "scale_range": (0.5, 1.5)}},
    "surfaces": {"emit_depth": True, "placement": {"layers": 2}},
}


def self_test(batch: PaddedBatchedDenseSample, problems: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Paste a batch by each backend that can run here and compare the results with the reference's.

    Everything must be equal bit for bit, except floats, which must agree to 1e-5.

    Args:
        batch: on the CPU, with depth and normals.
        problems: gets an error for each difference and each backend that fails.

    Returns:
        A row for each backend: name, device, state (``ok``, ``differs``, ``failed``, ``cannot run``), reason, seconds.
    """
    expected = _results("reference", batch)
    rows = []
    for name in NAMES:
        device = "cuda" if name == "triton" else "cpu"
        row: dict[str, Any] = {"backend": name, "device": device, "state": "ok", "reason": None, "seconds": None}
        rows.append(row)
        if device == "cuda" and not torch.cuda.is_available():
            row |= {"state": "cannot run", "reason": "no CUDA device"}
            continue
        start = time.perf_counter()
        try:
            found = _results(name, batch.to(device))
        except ImportError as error:
            row |= {"state": "cannot run", "reason": str(error)}
            continue
        except Exception as error:  # the report names any error
            row |= {"state": "failed", "reason": f"{type(error).__name__}: {error}"}
        else:
            row["seconds"] = round(time.perf_counter() - start, 4)
            if wrong := sorted(_differences(expected, found)):
                row |= {"state": "differs", "reason": f"from the reference in {', '.join(wrong)}"}
        if row["state"] != "ok":
            problems.append({"severity": "error", "message": f"self-test: {name} {row['state']}: {row['reason']}"})
    return rows


def _results(name: str, batch: PaddedBatchedDenseSample) -> dict[str, PaddedBatchedDenseSample]:
    """Return the outputs of a backend for the batch, by configuration."""
    with use_backend(name):
        return {
            label: BatchCopyPaste(BatchCopyPasteConfig.model_validate(options)).to(batch.images.device)(batch).to("cpu")
            for label, options in _CONFIGS.items()
        }


def _differences(expected: dict[str, PaddedBatchedDenseSample], found: dict[str, PaddedBatchedDenseSample]) -> set[str]:
    """Return the configurations and fields that differ."""
    return {
        f"{label}.{field.name}"
        for label, batch in expected.items()
        for field in dataclasses.fields(batch)
        if not _is_same(getattr(batch, field.name), getattr(found[label], field.name))
    }


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.is_floating_point:
        return torch.allclose(one, other, rtol=0, atol=_TOLERANCE)
    return torch.equal(one, other)
