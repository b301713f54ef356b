"""Written dataset formats, one class each, listed in `segpaste.datasets.formats.written.registry`."""
