"""Banks in object stores, read by ranges through a cache on a local disk."""
