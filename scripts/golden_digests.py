"""Digests of any values, of errors, and of the files of a folder, for `scripts/golden_datasets.py`.

They do not depend on the folder, the version, the compression of a PNG, or what takes time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from golden_records import encoded, tensor_digest
from PIL import Image
from torch import Tensor

import segpaste

KEPT = Path(__file__).parents[1] / "tests" / "golden" / "kept"
"""Files of an earlier version, written by ``scripts/make_kept.py``."""
VERSIONS = (segpaste.__version__, json.loads((KEPT / "augmented.partial" / "run.json").read_bytes())["segpaste"])

Digests = dict[str, str]
Record = tuple[str, Digests]


def values_of(value: Any) -> Any:
    """Return a value of JSON for any record; tensors as digests."""
    if isinstance(value, Tensor | np.ndarray):
        return tensor_digest(value.as_subclass(Tensor) if isinstance(value, Tensor) else value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: values_of(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): values_of(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [values_of(inner) for inner in value]
    assert isinstance(value, str | int | float | bool | None), f"expected a value of JSON, got {value!r}"
    return value


def digest_of(value: Any) -> str:
    """Return the digest of any value."""
    return encoded(hashlib.sha256(json.dumps(values_of(value), sort_keys=True).encode()))[:16]


def tree(folder: Path, *places: Path) -> Digests:
    """Return a digest of each file below a folder: of a picture its values, of text without places and versions."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        found[name] = "" if path.suffix == ".html" else encoded(hashlib.sha256(_content(path, places)))[:12]
    return found


def _content(path: Path, places: Sequence[Path]) -> bytes:
    """Return what is compared of a file; where the version stands, digests may be of it and are left out, too."""
    content = path.read_bytes()
    if path.suffix == ".png":
        with Image.open(path) as picture:
            return repr((picture.mode, picture.size, picture.getpalette())).encode() + picture.tobytes()
    for place in places:
        content = content.replace(str(place).encode(), b"HERE")
    for version in VERSIONS:
        content = content.replace(version.encode(), b"VERSION")
    return re.sub(rb"\b[0-9a-f]{64}\b", b"DIGEST", content) if b"VERSION" in content else content


def error_of(error: BaseException, places: Sequence[Path]) -> Digests:
    """Return the type of an error, and the files and folders that it names."""
    text = str(error)
    for place in places:
        text = text.replace(str(place), "HERE")
    return {"error": type(error).__name__, "files": " ".join(sorted(set(re.findall(r"HERE[^\s:,;)'\"]*", text))))}
