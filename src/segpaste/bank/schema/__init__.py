"""Content of a bank: the record of a crop, the meta file with counts and digests, and digests of blocks."""
