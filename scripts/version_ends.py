#!/usr/bin/env python3
"""Print the requirements of one end of the declared version ranges, for `pip install --upgrade -r`.

``lowest`` pins every dependency, and those of the extras that segpaste itself imports, to its declared lower bound;
``newest`` leaves them free within their ranges, as a user's own installation does. Torch and torchvision keep the
versions that are installed: their oldest Triton has tests of its own, and another torch is a download of gigabytes.

    python scripts/version_ends.py lowest
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("bank", "s3", "gs", "http", "ray", "embed", "exr", "encoder")
AS_INSTALLED = ("torch", "torchvision")


def requirements(end: str) -> Iterator[str]:
    """Yield the requirements of an end, ``lowest`` or ``newest``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"]]
    declared += [requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]]
    for requirement in dict.fromkeys(declared):
        name = re.match(r"[\w-]+", requirement)
        assert name is not None
        if name[0] in AS_INSTALLED:
            yield f"{name[0]}=={metadata.version(name[0])}"
        else:
            yield requirement.replace(">=", "==") if end == "lowest" else requirement


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("end", choices=("lowest", "newest"))
    print("\n".join(requirements(parser.parse_args().end)))
