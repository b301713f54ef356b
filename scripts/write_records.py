#!/usr/bin/env python3
"""Write the structs of the native library's records, from the jobs that the binding packs.

    python scripts/write_records.py           # src/segpaste/engine/native/src/records.hpp
    python scripts/write_records.py --check   # exit code 1 if that file is not what the jobs say

Only the lines between the two marks of the file are written. Build the library afterwards.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence

import torch

from segpaste.engine.native import jobs
from segpaste.engine.native.build import SOURCES
from segpaste.engine.planes import PLANES, ROWS, SHORT_NAMES
from segpaste.types import FIELDS

HEADER = SOURCES / "records.hpp"
FIRST = "// Written by scripts/write_records.py from the schema of the records; do not edit.\n"
LAST = "// End of what scripts/write_records.py writes.\n"

TYPES = {
    torch.bool: "uint8_t",
    torch.uint8: "uint8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.float32: "float",
}
BY_NAME = {field.batched_name: field for field in FIELDS}
JOBS = [job for job in vars(jobs).values() if isinstance(job, jobs.Job)]


def written() -> str:
    """Return the structs."""
    return "\n".join(["\n".join(lines) + "\n" for lines in (_planes(), _rows(), *map(_job, JOBS))])


def _planes() -> Iterator[str]:
    yield "// Pixel fields of a batch."
    yield "struct Planes {"
    for name in (*PLANES, "padding_mask"):
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in BY_NAME[name].batched_dtypes)
        yield f"    Plane {SHORT_NAMES.get(name, name)};  // {_shape(BY_NAME[name].padded_shape)} {dtypes}"
    yield "};"


def _rows() -> Iterator[str]:
    yield "// Instances of a batch."
    yield "struct Rows {"
    for name in ROWS:
        shape = _shape(("B", "K", *BY_NAME[name].shape[1:]))
        yield _pointer(SHORT_NAMES.get(name, name), BY_NAME[name].dtypes[0], shape, is_written=True)
    yield "};"


def _job(job: jobs.Job) -> Iterator[str]:
    yield f"struct {job.struct} {{"
    for names, comment in job.numbers:
        yield from _integers(names, comment)
    yield from _integers(job.sizes)
    for part in job.tensors:
        yield f"    // {part.record.__name__}{', written' * part.is_written}"
        for name, field in zip(part.members, part.fields, strict=True):
            shape = _shape([part.names.get(str(size), size) for size in field.shape])
            assert field.dtype is not None
            yield _pointer(name, field.dtype, shape + ", or null" * field.is_optional, is_written=part.is_written)
    yield from _integers([*job.read_sizes])
    for part in job.rules:
        yield f"    // {part.record.__name__}"
        yield from _integers(part.members)
    yield from (f"    {struct} {name};" for struct, name in job.structs)
    yield from _integers(job.state, "shared between threads")
    yield "};"


def _pointer(name: str, dtype: torch.dtype, comment: str, *, is_written: bool) -> str:
    return f"    {'' if is_written else 'const '}{TYPES[dtype]}* {name};  // {comment}"


def _integers(names: Sequence[str], comment: str = "") -> Iterator[str]:
    """Yield the declaration of integers or, if the last name ends with a star, of pointers to them."""
    if names:
        declared = f"int64_t{'*' * names[-1].endswith('*')} {', '.join(names).replace('*', '')};"
        *lines, last = textwrap.wrap(declared, 100, initial_indent=" " * 4, subsequent_indent=" " * 8)
        yield from [*lines, last + f"  // {comment}" * bool(comment)]


def _shape(shape: Sequence[str | int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def with_structs(text: str) -> str:
    """Return the text of the header with the structs as they should be."""
    before, _, rest = text.partition(FIRST)
    _, _, after = rest.partition(LAST)
    return f"{before}{FIRST}\n{written()}\n{LAST}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "", allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file differs")
    options = parser.parse_args(arguments)
    text = HEADER.read_text(encoding="utf-8")
    if options.check:
        return int(text != with_structs(text))
    HEADER.write_text(with_structs(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
