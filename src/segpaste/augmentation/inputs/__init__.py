"""Checks and preparation of what a caller gives to `BatchCopyPaste`."""
