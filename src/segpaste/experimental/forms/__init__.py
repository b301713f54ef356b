"""Forms of one sample that `segpaste.experimental.CopyPaste` takes and returns."""
