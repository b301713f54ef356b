"""Parts of the adapter of transformers: its segments, and samples of datasets of the Hub."""
