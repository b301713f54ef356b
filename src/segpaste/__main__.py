"""Entry point of `python -m segpaste`, which runs the `segpaste` command."""

from segpaste.cli import entry

if __name__ == "__main__":
    entry()
