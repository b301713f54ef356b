"""`python -m segpaste` is `segpaste`."""

import sys

from segpaste.cli import main

if __name__ == "__main__":
    sys.exit(main())
