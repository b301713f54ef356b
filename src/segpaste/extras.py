"""Optional dependencies: imported where they are used, with a hint that names the extra to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRA_OF = {
    "lmdb": "bank",
    "pyarrow": "bank",
    "pyarrow.parquet": "bank",
    "fsspec": "bank",
    "s3fs": "s3",
    "ray": "ray",
    "ray.data": "ray",
    "timm": "embed",
    "open_clip": "embed",
    "safetensors.torch": "embed",
    "pytorch_metric_learning.distances": "encoder",
    "pytorch_metric_learning.losses": "encoder",
    "tensorboard": "encoder",
}
"""The extra of ``pyproject.toml`` that brings a module along."""


def require(module: str) -> Any:
    """Import a module of an optional dependency.

    Raises:
        ImportError: it is not installed; the message says how to.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{package} is not installed: pip install 'segpaste[{EXTRA_OF[module]}]'", name=package
        ) from error
