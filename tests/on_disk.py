"""Helpers that write small datasets to disk, and digests of folders. Nothing here shares code with the package."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def noise(size: tuple[int, int], seed: int = 0) -> NDArray[np.uint8]:
    """[H, W, 3] random colours."""
    return np.random.default_rng([seed, *size]).integers(0, 256, (*size, 3), dtype=np.uint8)


def rectangle(size: tuple[int, int], top: int, left: int, bottom: int, right: int) -> Mask:
    """[H, W], True in rows top..bottom - 1 and columns left..right - 1."""
    mask = np.zeros(size, bool)
    mask[top:bottom, left:right] = True
    return mask


def runs(mask: Mask) -> dict[str, Any]:
    """Uncompressed run lengths down the columns, background first."""
    pixels = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(pixels)) + 1
    counts = np.diff(np.concatenate([[0], edges, [pixels.size]])).tolist()
    return {"size": list(mask.shape), "counts": [0, *counts] if pixels[0] else counts}


def of_runs(segmentation: dict[str, Any]) -> Mask:
    """The mask of uncompressed run lengths."""
    (height, width), counts = segmentation["size"], segmentation["counts"]
    pixels = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    assert pixels.size == height * width
    return pixels.reshape(width, height).T


def tree(folder: Path) -> dict[str, str]:
    """The digest of every file under a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
