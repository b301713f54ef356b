"""Blocks spread over a data file; comparing them detects a swapped file in milliseconds.

A file has 16 blocks of 4 KiB, one in each sixteenth of it. The distance of a block from the start of its sixteenth is a
multiple of the golden ratio, different for each block, so that the blocks do not fall on the same rows of crops whose
size is a power of two. A file of up to 64 KiB is covered by blocks. `segpaste.bank.StoredBank.verify` checks the rest.
"""

from __future__ import annotations

import hashlib

NUM_BLOCKS = 16
BLOCK_BYTES = 4096
DIGEST_CHARS = 16
"""Number of hexadecimal digits of the SHA-256 of a block that are kept."""

_GOLDEN, _ONE = 40503, 1 << 16  # fraction of the golden ratio, over 2^16


def block_spans(size: int) -> list[tuple[int, int]]:
    """Return first byte and length of each block of a file of ``size`` bytes."""
    if size <= NUM_BLOCKS * BLOCK_BYTES:
        return [(start, min(BLOCK_BYTES, size - start)) for start in range(0, size, BLOCK_BYTES)]
    stride = size // NUM_BLOCKS
    starts = (i * stride + _GOLDEN * i % _ONE * (stride - BLOCK_BYTES) // _ONE for i in range(NUM_BLOCKS))
    return [(start, BLOCK_BYTES) for start in starts]


def block_digest(data: bytes | bytearray) -> str:
    """Return the digest of one block."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]
