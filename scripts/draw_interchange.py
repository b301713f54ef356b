#!/usr/bin/env python3
"""Draw the pictures of `docs/interchange.md`: three datasets as they are, and as a tool reads them.

    python scripts/draw_interchange.py

Each is drawn in the environment of its tool, which `make tools` sets up, and written into `docs/images/interchange`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from prove_tools import OFFLINE, PROGRAMS, ROOT, python_of

OUT = ROOT / "docs" / "images" / "interchange"
PICTURES = {
    "orientation": ("rfdetr", "rfdetr", "coco", "oriented"),
    "holes": ("converters", "supervision", "coco", "hole_runs"),
    "boxes": ("lightly_train", "lightly-train", "yolo", "mixed_rows"),
}
"""Program, tool, format and trait of each picture."""


def main() -> None:
    """Draw all pictures."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name, arguments in PICTURES.items():
        command = [str(python_of(arguments[0])), str(PROGRAMS / "picture.py"), *arguments, str(OUT / f"{name}.png")]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **OFFLINE}, cwd=Path("/"))
        print(OUT / f"{name}.png")


if __name__ == "__main__":
    main()
