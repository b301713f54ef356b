"""Backends of this machine: the one that runs and the reason, and a comparison of pastes by all of them."""

from __future__ import annotations

import dataclasses
import difflib
import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import SceneConfig, scene_batch
from segpaste.engine import use_backend
from segpaste.engine.native import build, library
from segpaste.engine.native.library import parallel
from segpaste.engine.select import NAMES, eager_engine
from segpaste.types import PaddedBatchedDenseSample

VARIABLES = {
    "SEGPASTE_BACKEND",
    "SEGPASTE_CACHE",
    "SEGPASTE_CACHE_BYTES",
    "SEGPASTE_HYPOTHESIS",
    "SEGPASTE_ISA",
    "SEGPASTE_NATIVE",
    "SEGPASTE_NATIVE_LIBRARY",
    "SEGPASTE_TEST_DATA",
    "SEGPASTE_WHEEL_TARGET",
}
"""Environment variables that segpaste, its build and its tests read."""

_OTHER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET")
_TOLERANCE = 1e-5
_CONFIGS: dict[str, dict[str, Any]] = {
    "image": {},
    "instance": {"placement": {"grouping": "instance", "layers": 3, "scale_range": (0.5, 1.5)}},
    "surfaces": {"emit_depth": True, "placement": {"layers": 2}},
}

Problems = list[dict[str, str]]


def variables(problems: Problems) -> dict[str, str]:
    """Return the environment variables that change what runs; an unknown SEGPASTE name is a remark."""
    found = {name: value for name, value in sorted(os.environ.items()) if name.startswith("SEGPASTE_")}
    for name in sorted(found.keys() - VARIABLES):
        near = difflib.get_close_matches(name, VARIABLES, 1)
        text = f"{name}: segpaste reads no such variable" + (f"; the nearest is {near[0]}" if near else "; unset it")
        problems.append({"severity": "remark", "message": text})
    return found | {name: os.environ[name] for name in _OTHER_VARIABLES if name in os.environ}


def backends(problems: Problems) -> dict[str, Any]:
    """Return the state of the native library, CUDA and Triton, and the backend that runs on each device."""
    native = _native(problems)
    cuda = _cuda(problems)
    chosen = {"cpu": _chosen(torch.device("cpu"), problems)}
    if cuda["is_available"]:
        chosen["cuda"] = _chosen(torch.device("cuda"), problems)
    return {
        "chosen": chosen,
        "asked_for": os.environ.get("SEGPASTE_BACKEND") or None,
        "native": native,
        "cuda": cuda,
        "torch_threads": torch.get_num_threads(),
        "runs_in_parallel": bool(parallel()),
    }


def _native(problems: Problems) -> dict[str, Any]:
    named = os.environ.get("SEGPASTE_NATIVE_LIBRARY")
    path = Path(named or build.LIBRARY)
    found: dict[str, Any] = {"file": str(path), "digest": build.built_digest(path), "level": None, "error": None}
    try:
        level = library.load(path).segpaste_level()
    except ImportError as error:
        found["error"] = str(error)
        is_broken = bool(named) or path.exists()
        text = f"the native library cannot be used, so the slow reference runs: {error}"
        problems.append({"severity": "error" if is_broken else "remark", "message": text})
        return found
    names = {number: name for name, number in library._LEVELS.items()}
    return found | {"level": os.environ.get("SEGPASTE_ISA") or names.get(level, f"level {level}")}


def _cuda(problems: Problems) -> dict[str, Any]:
    is_available = torch.cuda.is_available()
    devices = [
        {
            "name": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "bytes": properties.total_memory,
        }
        for properties in map(torch.cuda.get_device_properties, range(torch.cuda.device_count() if is_available else 0))
    ]
    error = None
    try:
        import triton  # noqa: F401
    except Exception as raised:  # an import of compiled code may raise anything
        error = f"{type(raised).__name__}: {raised}"
        if is_available:
            text = f"Triton cannot be imported, so CUDA batches run the slow reference: {error}; pip install triton"
            problems.append({"severity": "error", "message": text})
    return {"built_for": torch.version.cuda, "is_available": is_available, "devices": devices, "triton_error": error}


def _chosen(device: torch.device, problems: Problems) -> str | None:
    """Return the name of the backend that eager code runs on a device."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reason is reported as a problem
            engine: Any = eager_engine(device)
    except (ImportError, ValueError) as error:  # of the backend that SEGPASTE_BACKEND names
        problems.append({"severity": "error", "message": str(error)})
        return None
    return str(engine.__name__).rpartition(".")[2]


def self_test(problems: Problems) -> list[dict[str, Any]]:
    """Paste synthetic scenes by each backend that can run here and compare the results with the reference's.

    Everything must be equal bit for bit, except floats, which must agree to 1e-5.

    Args:
        problems: gets an error for each difference and each backend that fails.

    Returns:
        A row for each backend: name, device, state (``ok``, ``differs``, ``failed``, ``cannot run``), reason, seconds.
    """
    batch = scene_batch(3, 12, SceneConfig(height=64, width=80))
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
