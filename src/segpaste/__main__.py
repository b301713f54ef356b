"""Entry point of `python -m segpaste`, which runs the `segpaste` command."""

import sys

from segpaste.cli import main

if __name__ == "__main__":
    sys.exit(main())
