"""Codes in a bank equal those of the encoder and compare like embeddings; the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from segpaste.bank import BankError, MemmapBank, embed_bank, near_duplicates, open_bank
from segpaste.cli import main
from segpaste.encoder import (
    BinaryAttributeEncoder,
    TrainConfig,
    encode_bank,
    near_duplicate_codes,
    pack,
    read_codes,
    read_vectors,
    train,
)
from small_bank import small_bank

LABELS = [0, 1, 2] * 9


@pytest.fixture
def bank(tmp_path: Path) -> MemmapBank:
    """Three classes, whose embeddings lie about three directions; each crop twice nearly the same."""
    plain = small_bank(tmp_path / "plain", LABELS)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 256))
    vectors = centres[LABELS] + rng.normal(size=(27, 256))
    vectors[9:18] = vectors[:9] + 0.01 * rng.normal(size=(9, 256))
    done = iter(vectors.astype(np.float32))
    embed_bank(plain, tmp_path / "embedded", lambda images, _: np.stack([next(done) for _ in images]))
    opened = open_bank(tmp_path / "embedded")
    assert isinstance(opened, MemmapBank)
    return opened


@pytest.fixture
def encoder() -> BinaryAttributeEncoder:
    torch.manual_seed(0)
    return BinaryAttributeEncoder(256, 40)


class TestCodes:
    def test_are_those_of_the_encoder(self, bank: MemmapBank, encoder: BinaryAttributeEncoder, tmp_path: Path) -> None:
        """They are in the order of the crops, whose pixels are the same, for any batch size."""
        vectors = torch.from_numpy(bank.read(np.arange(27))["embedding"].astype(np.float32))
        expected = encoder.encode(vectors).numpy()
        for batch_size in (5, 256):
            coded = open_bank(encode_bank(bank, tmp_path / f"coded{batch_size}", encoder, batch_size=batch_size))
            assert (read_codes(coded) == expected).all()
            assert (coded.read(np.arange(27))["image"] == bank.read(np.arange(27))["image"]).all()

    def test_similarity_goes_by_the_hamming_distance(
        self, bank: MemmapBank, encoder: BinaryAttributeEncoder, tmp_path: Path
    ) -> None:
        coded = open_bank(encode_bank(bank, tmp_path / "coded", encoder))
        codes, labels = read_codes(coded), np.array(LABELS)
        for most in (0, 2, 11):
            expected = near_duplicate_codes(pack(codes), labels, most).tolist()
            assert near_duplicates(coded, 1 - 2 * (most + 0.5) / 40).tolist() == expected
        assert len(expected) >= 9
        with pytest.raises(BankError, match="expected embeddings, got codes already"):
            encode_bank(coded, tmp_path / "again", encoder)

    @pytest.mark.parametrize("num_attributes", [1, 32, 40, 127, 128, 255, 256])
    def test_a_threshold_of_just_so_many_bits(self, num_attributes: int, tmp_path: Path) -> None:
        """Rounded cosines must not lose the code that is equal, or differs in just as many bits as are allowed."""
        plain = small_bank(tmp_path / "plain", [0] * 3)
        signs = np.zeros((3, 256), np.float32)
        signs[:, :num_attributes] = np.random.default_rng(0).choice([-1.0, 1.0], num_attributes)
        signs[2, :1] *= -1
        done = iter(signs)
        coded = open_bank(
            embed_bank(plain, tmp_path / "coded", lambda images, _: np.stack([next(done) for _ in images]))
        )
        assert near_duplicates(coded, 1.0).tolist() == [1]
        if num_attributes > 2:
            assert near_duplicates(coded, 1 - 2 / num_attributes).tolist() == [1, 2]

    def test_embeddings_of_another_embedder(self, tmp_path: Path, encoder: BinaryAttributeEncoder) -> None:
        bank = open_bank(embed_bank(small_bank(tmp_path / "plain", LABELS), tmp_path / "embedded"))
        with pytest.raises(BankError, match="of timm:x, as in training, got those of statistics"):
            encode_bank(bank, tmp_path / "coded", encoder, embedder="timm:x")
        encode_bank(bank, tmp_path / "coded", encoder, embedder="statistics")

    def test_refused(self, bank: MemmapBank, tmp_path: Path) -> None:
        plain = open_bank(tmp_path / "plain")
        with pytest.raises(BankError, match="expected a bank with embeddings"):
            encode_bank(plain, tmp_path / "out", BinaryAttributeEncoder(256, 8))
        for sizes in ((256, 257), (255, 8)):
            with pytest.raises(ValueError, match=f"got one of {sizes[0]} into {sizes[1]}"):
                encode_bank(bank, tmp_path / "out", BinaryAttributeEncoder(*sizes))
        with pytest.raises(BankError, match="expected a bank with codes, found none"):
            read_codes(plain)
        with pytest.raises(BankError, match="expected codes of -1 and 1, got other embeddings"):
            read_codes(bank)
        assert not (tmp_path / "out").exists()


class TestCommand:
    @pytest.fixture
    def trained(self, bank: MemmapBank, tmp_path: Path) -> Path:
        values = {
            "data": {"N_classes_per_batch": 3, "M_samples_per_class": 3},
            "model": {"num_attributes": 24, "hidden": 32},
            "trainer": {"epochs": 2},
        }
        vectors = read_vectors(bank.where)
        train(vectors, vectors, TrainConfig.model_validate(values), tmp_path / "run")
        return tmp_path / "run"

    def test_codes(self, bank: MemmapBank, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "embed", bank.where, "--out", str(tmp_path / "coded"), "--codes", str(trained)]) == 0
        assert "27 crops with codes of 24 attributes" in capsys.readouterr().out
        coded = open_bank(tmp_path / "coded")
        assert read_codes(coded).shape == (27, 24)
        coded.verify()
        words = ["bank", "dedupe", str(tmp_path / "coded"), "--out", str(tmp_path / "unique"), "--threshold", "0.9"]
        assert main(words) == 0
        assert len(open_bank(tmp_path / "unique")) < 27

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--codes", "{run}", "--weights", "w.pt"], "--weights: expected no --codes"),
            (["--codes", "{run}", "--device", "cpu"], "--device: expected no --codes"),
            (["--codes", "nowhere.pt"], "nowhere.pt: No such file"),
            (["--codes", "{plain}/meta.json"], "expected a checkpoint of segpaste train"),
        ],
    )
    def test_errors(
        self, words: list[str], message: str, bank: MemmapBank, trained: Path, tmp_path: Path, capsys: Any
    ) -> None:
        filled = [word.format(run=trained, plain=tmp_path / "plain") for word in words]
        assert main(["bank", "embed", bank.where, "--out", str(tmp_path / "out"), *filled]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "out").exists()
