"""Digests that identify a dataset of Python, so that a run neither resumes nor is replayed with another one.

A dataset with a digest of its annotations is identified by it, and a choice of its samples by their indices, too. Of
another dataset, its facts (length, classes, indices) and the content of some samples, evenly spaced, stand for it: two
datasets that agree in these are taken for one. Samples that differ each time they are read are left out.
"""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.types.fields import SAMPLE_FIELDS

NUM_READ = 8
"""Number of samples that are read of a dataset without a digest."""


def digests_of(photos: AnnotatedDataset) -> tuple[str, str]:
    """Return the digest of a dataset, and the one of its facts alone; the latter is empty if it is the same."""
    facts = f"{len(photos)} {photos.class_names} {photos.facts()}"
    of_facts = photos.digest or hashlib.sha256(facts.encode()).hexdigest()
    if _is_identified(photos):
        if photos.facts() is None:
            return photos.digest, ""
        return hashlib.sha256(f"{photos.digest} {facts}".encode()).hexdigest(), of_facts
    samples = _samples_digest(photos)
    return hashlib.sha256(f"{photos.digest} {facts} {samples}".encode()).hexdigest(), of_facts


def _is_identified(photos: AnnotatedDataset) -> bool:
    """Return whether every dataset that samples come from has a digest."""
    if isinstance(photos, DatasetWrapper):
        return _is_identified(photos.dataset)
    parts = photos.joined()
    return all(map(_is_identified, parts)) if parts else bool(photos.digest)


def _samples_digest(photos: AnnotatedDataset) -> str:
    """Return the digest of some samples; empty if the first one differs when it is read again."""
    indices = np.unique(np.linspace(0, len(photos) - 1, NUM_READ).round().astype(int)).tolist()
    first, again = (_sample_digest(photos, indices[0]) for _ in range(2))
    return first + "".join(_sample_digest(photos, index) for index in indices[1:]) if first == again else ""


def _sample_digest(photos: AnnotatedDataset, index: int) -> str:
    """Return the digest of the fields of a sample; one that cannot be read has none."""
    found = hashlib.sha256()
    try:
        sample = photos[index]
    except (ValueError, OSError):
        return "unreadable"
    for field in SAMPLE_FIELDS:
        value = getattr(sample, field.name)
        if isinstance(value, Tensor):
            values = np.ascontiguousarray(value.as_subclass(Tensor).cpu().numpy())
            found.update(f"{field.name} {values.dtype} {values.shape} ".encode() + values.tobytes())
        elif value is not None:
            found.update(f"{field.name} {value} ".encode())
    return found.hexdigest()
