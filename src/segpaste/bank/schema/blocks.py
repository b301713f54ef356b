"""Blocks spread over a data file: comparing them tells a swapped file from the right one in milliseconds.

A file has 16 blocks of 4 KiB, one in each sixteenth of it. The distance from the start of its sixteenth is another one
for each block, a multiple of the golden ratio, so that the blocks do not fall on the same rows of crops whose size is a
power of two. A file of up to 64 KiB is all blocks. `segpaste.bank.StoredBank.verify` finds what lies between them.
"""

from __future__ import annotations

import hashlib

NUM_BLOCKS = 16
BLOCK_BYTES = 4096
DIGEST_CHARS = 16
"""Hexadecimal digits that are kept of a block's SHA-256."""

_GOLDEN, _ONE = 40503, 1 << 16  # the golden ratio's fraction, over 2^16


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
