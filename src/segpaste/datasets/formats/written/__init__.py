"""Dataset formats that are written, one class each, listed in `segpaste.datasets.formats.written.registry`."""
