"""Dataset formats: a reader for each, and the writers."""
