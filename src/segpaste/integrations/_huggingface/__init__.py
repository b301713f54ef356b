"""Parts of the adapter of transformers: segments, and samples of datasets of the Hub."""
