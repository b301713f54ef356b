"""What a bank holds: the record of a crop, the meta file that counts and seals them, digests by blocks."""
