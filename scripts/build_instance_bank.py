#!/usr/bin/env python3
"""Build a bank of objects from a dataset; the same as `segpaste bank build`.

python scripts/build_instance_bank.py instances.json --images photos --out objects
"""

from __future__ import annotations

import sys

from segpaste.cli import main

if __name__ == "__main__":
    sys.exit(main(["bank", "build", *sys.argv[1:]]))
