"""Sources of pasted objects: the batch itself, a bank, or the user's own."""
