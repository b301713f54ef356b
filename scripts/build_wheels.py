#!/usr/bin/env python3
"""Build the wheels of every platform on one machine, with the compiler of the package ziglang.

    python scripts/build_wheels.py --out dist
    python scripts/build_wheels.py --out dist --target macos-arm64

A wheel appears under its name only when it is whole. Each holds the library of its platform; it serves every Python
from 3.11 on and every version of torch. Below each name the program prints what its bytes are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from segpaste.engine.native import build

ROOT = Path(__file__).parents[1]
TARGETS = {"-".join(target): tag for target, tag in build.WHEEL_TAGS.items()}
"""The platform tag of each target."""


def build_wheel(target: str, out: Path) -> Path:
    """Build the wheel of one target into a folder, and return its path.

    Args:
        target: of `TARGETS`.
        out: the folder; it is made.

    Raises:
        RuntimeError: the build fails, or gives another wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".wheel-") as folder:
        # The build backend and ziglang are those of this environment; nothing is fetched.
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        environment = {**os.environ, "SEGPASTE_WHEEL_TARGET": target}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{target}: {done.stdout}{done.stderr}")
        (whole,) = Path(folder).iterdir()
        if not whole.name.endswith(f"-py3-none-{TARGETS[target]}.whl"):
            raise RuntimeError(f"expected a wheel for {TARGETS[target]}, got {whole.name}")
        return whole.replace(out / whole.name)


def parts_of(wheel: Path) -> dict[str, int]:
    """Return the bytes of a wheel, compressed: of the native core with its sources, of other files, and of the archive.

    The archive's own bytes are the names, times and sums of the files, and ``RECORD`` with their hashes.
    """
    sizes = {info.filename: info.compress_size for info in zipfile.ZipFile(wheel).infolist()}
    core = sum(size for name, size in sizes.items() if "/engine/native/" in name)
    files = sum(size for name, size in sizes.items() if not name.endswith(".dist-info/RECORD")) - core
    return {"native core": core, "other files": files, "names and hashes": wheel.stat().st_size - core - files}


def main(argv: Sequence[str] | None = None) -> int:
    """Build; 0 if it went well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels, default: dist")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this platform; may be repeated")
    options = parser.parse_args(argv)
    for target in options.target or TARGETS:
        try:
            wheel = build_wheel(target, options.out)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        print(wheel, *(f"{size:>13,} bytes  {part}" for part, size in parts_of(wheel).items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
