"""Storage of banks: a folder on a disk, or an object store that is read by ranges through a cache on a local disk."""
