"""Parts of the adapter of Lightning: its hooks and its DataModule."""
