"""Codes in the embedding column of a bank: the first K of its 256 numbers are -1 or 1, the others are zero.

The cosine of two codes is 1 - 2 d / K, where d is the number of attributes that differ. So functions that compare
embeddings, such as `segpaste.bank.near_duplicates` and `segpaste.bank.SimilarToPrototype`, compare codes by their
Hamming distance.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.bank import BankError, StoredBank
from segpaste.bank.embed.copies import Announce, replace_embeddings
from segpaste.bank.schema.meta import Format
from segpaste.bank.schema.record import EMBEDDING_SIZE, Array
from segpaste.encoder.model.codes import Bits, are_signs
from segpaste.encoder.model.encoder import BinaryAttributeEncoder

_BLOCK = 4096


def encode_bank(
    bank: StoredBank,
    out: str | os.PathLike[str],
    encoder: BinaryAttributeEncoder,
    *,
    embedder: str | None = None,
    batch_size: int = 256,
    format: Format | None = None,
    announce: Announce | None = None,
) -> Path | str:
    """Write a bank with the same crops, and codes instead of embeddings.

    Args:
        bank: bank with embeddings of the kind that the encoder was trained on; it is not changed.
        out: folder of the new bank; it must not exist, or be empty.
        encoder: encoder with at most 256 attributes.
        embedder: name of the embedder of the encoder's training vectors; a bank that states another one is rejected.
        batch_size: number of crops that are copied at once.
        format: format of the new bank, by default that of the old one.
        announce: callback for the progress.

    Returns:
        The folder.

    Raises:
        ValueError: the encoder takes vectors of another length, or has more than 256 attributes.
        BankError: the bank has no embeddings, has those of another embedder, or cannot be read, or the folder is taken.
    """
    _expect_encodable(bank, encoder, embedder)

    def codes_of(_: Array, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors = bank.read(indices, ("embedding",))["embedding"].astype(np.float32)
        codes = encoder.encode(torch.from_numpy(vectors)).numpy()
        signs = np.zeros((len(indices), EMBEDDING_SIZE), np.float32)
        signs[:, : codes.shape[1]] = 2.0 * codes - 1.0
        return signs

    name = f"codes of {encoder.num_attributes} attributes"
    return replace_embeddings(bank, out, codes_of, name, batch_size=batch_size, format=format, announce=announce)


def read_embeddings(bank: StoredBank) -> NDArray[np.floating[Any]]:
    """Read all embeddings of a bank, [N, 256], as stored, block by block; the bank must have embeddings and crops."""
    blocks = (np.arange(first, min(first + _BLOCK, len(bank))) for first in range(0, len(bank), _BLOCK))
    return np.concatenate([bank.read(rows, ("embedding",))["embedding"] for rows in blocks])


def read_codes(bank: StoredBank) -> Bits:
    """Read the codes that `encode_bank` wrote, [N, K].

    Raises:
        BankError: the bank has no codes.
    """
    if "embedding" not in bank.layout.groups or not len(bank):
        raise BankError(f"{bank.where}: expected a bank with codes, found none; segpaste bank embed --codes writes one")
    signs = read_embeddings(bank)
    num = int((signs[0] != 0).sum())
    if not num or not (np.abs(signs[:, :num]) == 1).all() or signs[:, num:].any():
        raise BankError(
            f"{bank.where}: expected codes of -1 and 1, got other embeddings; segpaste bank embed --codes writes them"
        )
    return np.asarray(signs[:, :num] > 0)


def _expect_encodable(bank: StoredBank, encoder: BinaryAttributeEncoder, embedder: str | None) -> None:
    """Check that the bank has embeddings of the kind that the encoder was trained on; see `encode_bank`."""
    if "embedding" not in bank.layout.groups:
        raise BankError(f"{bank.where}: expected a bank with embeddings; segpaste bank embed writes one")
    made_by = bank.meta.built_from.get("embedder")
    if embedder is not None and made_by is not None and made_by != embedder:
        raise BankError(f"{bank.where}: expected embeddings of {embedder}, as in training, got those of {made_by}")
    if are_signs(bank.read(np.arange(min(len(bank), 64)), ("embedding",))["embedding"]):
        raise BankError(f"{bank.where}: expected embeddings, got codes already; take the bank that they were made of")
    if encoder.num_inputs != EMBEDDING_SIZE or encoder.num_attributes > EMBEDDING_SIZE:
        raise ValueError(
            f"encode_bank: expected an encoder of vectors of {EMBEDDING_SIZE} numbers into at most {EMBEDDING_SIZE} "
            f"attributes, got one of {encoder.num_inputs} into {encoder.num_attributes}"
        )
