"""Sources of pasted objects: the batch itself, a bank, or a custom source."""
