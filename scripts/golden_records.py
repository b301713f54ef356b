#!/usr/bin/env python3
"""Record the outputs of the library, or check that they are still the same, bit for bit.

A record holds all of a forward: its inputs as a `golden_inputs.Spec`, its config with every option, and a digest of
every field of the output and the report. Inputs come from integer arithmetic, so a record depends on no random
generator and no default. Other records hold digests of the index sequences of samplers.

    python scripts/golden_records.py --check                       # tests/golden/engine.json
    python scripts/golden_records.py --check --backend reference   # float colours to 1e-5, all else equal
    python scripts/golden_records.py --write records.json          # after a change of meaning that is wanted

A digest is the SHA-256 of dtype, shape and row-major bytes, base64url; -0.0 counts as 0.0. A check prints the records
and fields that differ and exits with 1. Records that the program would write today and the file lacks are no
difference.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_cases import Case, cases
from golden_inputs import Spec, staged_crops, target_batch
from golden_samplers import sequences
from golden_sources import MemoryBank, source_named
from numpy.typing import NDArray
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample, StagedCrops
from segpaste.engine import use_backend

FILE = Path(__file__).parents[1] / "tests" / "golden" / "engine.json"
TOLERANCE = 1e-5
"""Of float colours, absolute and relative, between backends."""

NUM_FIRST_REASONS = 6
"""Reasons why a paste is dropped that every record knows."""

Values = dict[str, Any]
Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; 0 if nothing differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name, text in (("--write", "write all records"), ("--check", "compare with the records")):
        what.add_argument(name, type=Path, nargs="?", const=FILE, metavar="FILE", help=f"{text}, default: {FILE.name}")
    parser.add_argument("--backend", default=None, metavar="NAME", help="check kernels of this name")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch, default: 1")
    options = parser.parse_args(argv)
    if options.write is not None and options.backend is not None:
        parser.error("--backend goes with --check")
    torch.set_num_threads(options.threads)
    start = time.monotonic()
    if options.write is not None:
        records = written_records()
        options.write.write_text(as_text(records), encoding="utf-8")
        different: list[str] = []
    else:
        records = read_records(options.check)
        different = list(differences(records, options.backend))
        print(*different, sep="\n", end="\n" if different else "")
    num, num_placing = num_forwards(records)
    print(
        f"{len(records)} records, {num} forwards, {num_placing} of them place something, {len(different)} differences, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if different else 0


def read_records(path: Path) -> list[Record]:
    """Read the records of a file."""
    records: list[Record] = json.loads(path.read_text(encoding="utf-8"))["records"]
    return records


def as_text(records: Sequence[Record]) -> str:
    """Return the JSON of a file, one record on each line."""
    num, num_placing = num_forwards(records)
    lines = ",\n".join(json.dumps(record, sort_keys=True, separators=(",", ":")) for record in records)
    return f'{{"num_forwards":{num},"num_placing":{num_placing},"records":[\n{lines}\n]}}\n'


def num_forwards(records: Iterable[Record]) -> tuple[int, int]:
    """Count the forwards, and those that place something."""
    placed = [record["num_placed"] for record in records if "num_placed" in record]
    return len(placed), sum(num > 0 for num in placed)


def written_records() -> list[Record]:
    """Run everything and write it down."""
    records = [record_of(case) for case in cases()]
    return records + [{"name": name, "digests": digests(values)} for name, values in sequences()]


def record_of(case: Case) -> Record:
    """Run one forward and write it down."""
    values, num_placed = run(case.spec, case.config)
    written = json.loads(case.config.model_dump_json())
    same = BatchCopyPasteConfig.model_validate(written)
    assert same == case.config, f"{case.name}: expected a config that JSON keeps, got {same}"
    inputs = case.spec.written()
    return {
        "name": case.name,
        "inputs": inputs,
        "config": written,
        "num_placed": num_placed,
        "digests": digests(values),
    }


def differences(records: Iterable[Record], backend: str | None = None) -> Iterator[str]:
    """Compute everything again and compare.

    Args:
        records: as they were written.
        backend: kernels to use, by default those of the device. Of another one float colours are compared with theirs.

    Yields:
        A line for each field that differs.
    """
    found: dict[str, dict[str, NDArray[Any]]] | None = None
    for record in records:
        name = record["name"]
        if "inputs" in record:
            yield from (f"{name}: {field}" for field in _differing_fields(record, backend))
        elif backend is None:
            found = dict(sequences()) if found is None else found
            yield from (f"{name}: {field}" for field in _unequal(record["digests"], digests(found.get(name, {}))))


def _differing_fields(record: Record, backend: str | None) -> Iterator[str]:
    spec, config = Spec.read(record["inputs"]), BatchCopyPasteConfig.model_validate(record["config"])
    with nullcontext() if backend is None else use_backend(backend):
        values, num_placed = run(spec, config)
    if num_placed != record["num_placed"]:
        yield "num_placed"
    unequal = list(_unequal(record["digests"], digests(values)))
    close = [name for name in unequal if backend is not None and _is_rounded(name, values.get(name))]
    theirs = run(spec, config)[0] if close else {}
    for name in unequal:
        if name not in close or not _is_close(values[name], theirs.get(name)):
            yield name


def _unequal(one: dict[str, str], other: dict[str, str]) -> Iterator[str]:
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            yield name


def _is_rounded(name: str, value: Any) -> bool:
    """Return whether backends may round a field differently."""
    return name == "images" and isinstance(value, Tensor) and value.is_floating_point()


def _is_close(one: Tensor, other: Any) -> bool:
    if not isinstance(other, Tensor) or one.shape != other.shape or one.dtype != other.dtype:
        return False
    # A half-precision value that lies between two may be rounded to either.
    rounding = 0.0 if one.dtype == torch.float32 else torch.finfo(one.dtype).eps
    return torch.allclose(one.float(), other.float(), rtol=TOLERANCE + rounding, atol=TOLERANCE, equal_nan=True)


def run(spec: Spec, config: BatchCopyPasteConfig) -> tuple[Values, int]:
    """Run one forward.

    Returns:
        The fields of the inputs, the output and, if the spec asks for it, the report; and how many pastes were placed.
    """
    batch, staged = target_batch(spec), staged_crops(spec)
    out, report = _forward(spec, config, batch, staged, with_report=True)
    values = _fields("report.", report) if spec.report else {}
    values |= _fields("", out if spec.report else _forward(spec, config, batch, staged, with_report=False))
    values |= _fields("input.", batch) | _fields("input.crops.", staged)  # a forward must not have changed them
    return values, int(report.num_placed.sum())


def _forward(
    spec: Spec,
    config: BatchCopyPasteConfig,
    batch: PaddedBatchedDenseSample,
    staged: StagedCrops | None,
    with_report: bool,
) -> Any:
    """Run the module on the batch, on a copy where it works in place."""
    pool = MemoryBank((3, 30, 12, 5), (16, 18)) if spec.source == "pool" else None
    balance: Any = None if pool is None else "natural"
    source = source_named(spec, config)
    module = BatchCopyPaste(config, source, source_pool=pool, balance=balance, inplace=spec.inplace)
    if spec.progress is not None:
        module.schedule.at(spec.progress[0] / spec.progress[1])
    with warnings.catch_warnings():
        for message in ("BatchCopyPaste could paste nothing", "BatchCopyPaste: expected at least 4 scales"):
            warnings.filterwarnings("ignore", message)
        target = batch.clone() if spec.inplace else batch
        if with_report:
            return module(target, staged=staged, return_report=True)
        return module(target, staged=staged)


def _fields(prefix: str, record: Any) -> Values:
    """Return the tensors and flags of a dataclass, and those of dataclasses in it, by name."""
    values: Values = {}
    for field in () if record is None else fields(record):
        value = getattr(record, field.name)
        if field.name == "num_dropped":  # later reasons have a digest of their own, where they occur
            values[prefix + field.name] = value[:, :NUM_FIRST_REASONS]
            if value[:, NUM_FIRST_REASONS:].any():
                values[f"{prefix}{field.name}.later"] = value[:, NUM_FIRST_REASONS:]
        elif field.name == "slot_lost":  # it follows from the input, the output and the visible layer
            continue
        elif isinstance(value, Tensor | bool):
            values[prefix + field.name] = value
        elif hasattr(value, "__dataclass_fields__"):
            values |= _fields(f"{prefix}{field.name}.", value)
    return values


def digests(values: Values) -> dict[str, str]:
    """Return a digest of each field; of all fields of the inputs one."""
    found = {name: tensor_digest(value) for name, value in values.items()}
    inputs = sorted(name for name in found if name.startswith("input."))
    if inputs:
        text = "".join(f"{name} {found.pop(name)}\n" for name in inputs)
        found["inputs"] = encoded(hashlib.sha256(text.encode()))
    return found


def tensor_digest(value: Tensor | NDArray[Any] | bool) -> str:
    """Return the digest of dtype, shape and bytes; of a bool its name."""
    if isinstance(value, bool):
        return str(value)
    tensor = torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_floating_point():
        tensor = tensor + 0.0  # -0.0 becomes 0.0
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bool:
        tensor = tensor.view(torch.uint8)
    elif tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.view(torch.int16)
    digest = hashlib.sha256(f"{dtype} {list(tensor.shape)}\n".encode())
    digest.update(tensor.numpy().tobytes())
    return encoded(digest)


def encoded(digest: Any) -> str:
    """Return a digest of hashlib as text."""
    return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")


if __name__ == "__main__":
    sys.exit(main())
