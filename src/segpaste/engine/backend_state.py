"""State of the backends on this machine: the native library, CUDA, Triton, and which of them runs on each device."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from segpaste.engine.native import build, library
from segpaste.engine.native.library import parallel
from segpaste.engine.select import eager_engine

Problems = list[dict[str, str]]


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
