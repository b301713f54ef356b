"""The encoder's bits and their gradient, and the losses against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from segpaste.encoder import BinaryAttributeEncoder, Encoded, EncoderLosses, binarise


def encoded(codes: list[list[float]], reconstruction: list[list[float]] | None = None) -> Encoded:
    made = torch.tensor(codes, requires_grad=True)
    return Encoded(made, made.detach() - 0.5, torch.tensor(reconstruction or [[0.0]] * len(codes)))


def value(name: Any, given: Encoded, labels: list[int], target: Tensor | None = None, **options: float) -> float:
    losses = EncoderLosses([name], {}, num_attributes=given.codes.shape[1], num_classes=2, **options)
    return losses(given, torch.zeros(1) if target is None else target, torch.tensor(labels))[name].item()


class TestBinarise:
    def test_hard_forward(self) -> None:
        logits = torch.tensor([-3.0, -1e-9, 0.0, 1e-9, 0.3, 50.0])
        assert binarise(logits).tolist() == [0, 0, 0, 1, 1, 1]

    def test_the_gradient_is_that_of_the_sigmoid(self) -> None:
        logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), requires_grad=True)
        weights = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
        (found,) = torch.autograd.grad((binarise(logits) * weights).sum(), logits)
        (expected,) = torch.autograd.grad((logits.sigmoid() * weights).sum(), logits)
        assert torch.equal(found, expected)
        assert found.abs().min() > 0


class TestEncoder:
    @pytest.fixture
    def encoder(self) -> BinaryAttributeEncoder:
        torch.manual_seed(3)
        return BinaryAttributeEncoder(5, 7, 11)

    def test_shapes(self, encoder: BinaryAttributeEncoder) -> None:
        out = encoder(torch.randn(3, 5))
        assert (out.codes.shape, out.logits.shape, out.reconstruction.shape) == ((3, 7), (3, 7), (3, 5))
        assert set(out.codes.flatten().tolist()) == {0, 1}
        assert out.codes.requires_grad

    def test_encode_is_forward(self, encoder: BinaryAttributeEncoder) -> None:
        vectors = torch.randn(13, 5)
        codes = encoder.encode(vectors)
        assert codes.dtype == torch.bool
        assert torch.equal(codes, encoder(vectors).codes.bool())
        assert encoder.encode(vectors[:0]).shape == (0, 7)

    def test_inputs_are_standardised(self, encoder: BinaryAttributeEncoder) -> None:
        vectors = torch.randn(50, 5) * torch.tensor([1.0, 100, 1e-3, 1, 0]) + torch.tensor([0, 5.0, 7, -1, 3])
        encoder.fit_standardisation(vectors)
        found = encoder.standardise(vectors)
        assert torch.allclose(found.mean(0), torch.zeros(5), atol=1e-4)
        assert torch.allclose(found.std(0, correction=0), torch.tensor([1.0, 1, 1, 1, 0]), atol=1e-3)
        decoded = encoder.decode(encoder.encode(vectors))
        assert torch.allclose(encoder.standardise(decoded), encoder(vectors).reconstruction, atol=1e-3)


class TestLosses:
    """Two classes, a and b; K = 4 attributes."""

    CODES = ([1.0, 1, 0, 0], [1.0, 0, 0, 0], [0.0, 0, 0, 1], [1.0, 0, 1, 1])
    LABELS = (0, 0, 1, 1)

    def test_mse(self) -> None:
        given = encoded([[0.0], [1.0]], [[1.0, 2, 3], [0, 0, 0]])
        found = value("mse", given, [0, 1], torch.tensor([[1.0, 0, 3], [1, 0, 2]]))
        assert found == pytest.approx((4 + 1 + 4) / 6)

    def test_triplet(self) -> None:
        """Attributes that differ: aa 1; ab 3, 3, 2, 2; bb 2."""
        violations = [
            *(1 - 3 + 3, 1 - 3 + 3),  # anchor 0 with 1, against 2 and 3
            *(1 - 2 + 3, 1 - 2 + 3),  # anchor 1 with 0, against 2 and 3
            *(2 - 3 + 3, 2 - 2 + 3),  # anchor 2 with 3, against 0 and 1
            *(2 - 3 + 3, 2 - 2 + 3),
        ]
        kept = [v / 4 for v in violations if v > 0]
        found = value("triplet", encoded(list(self.CODES)), list(self.LABELS), triplet_margin=0.75)
        assert found == pytest.approx(sum(kept) / len(kept))

    def test_triplet_has_a_gradient(self) -> None:
        given = encoded(list(self.CODES))
        losses = EncoderLosses(["triplet"], {}, num_attributes=4, num_classes=2)
        losses.total(losses(given, torch.zeros(1), torch.tensor(self.LABELS))).backward()
        assert given.codes.grad is not None
        assert given.codes.grad.abs().sum() > 0

    def test_sparsity(self) -> None:
        shares = [0.75, 0.25, 0.25, 0.5]
        found = value("sparsity", encoded(list(self.CODES)), list(self.LABELS), sparsity_target=0.25)
        assert found == pytest.approx(sum((share - 0.25) ** 2 for share in shares) / 4)

    def test_angular_margin(self) -> None:
        """Directions of the classes are (1, 1, 1, 1) and (1, 1, -1, -1)."""
        losses = EncoderLosses(["angular_margin"], {}, num_attributes=4, num_classes=2)
        (directions,) = losses.parameters()
        directions.data = torch.tensor([[1.0, 1], [1, 1], [1, -1], [1, -1]])
        given = encoded([[1.0, 1, 1, 0], [1.0, 1, 0, 0]])
        values = losses(given, torch.zeros(1), torch.tensor([0, 1]))
        expected = []
        for mine, other in ((0.5, 0.5), (1.0, 0.0)):
            moved = math.cos(math.acos(mine) + math.radians(28.6))
            expected.append(math.log1p(math.exp(64 * (other - moved))))
        assert values["angular_margin"].item() == pytest.approx(sum(expected) / 2, rel=1e-4)
        losses.total(values).backward()
        assert directions.grad is not None
        assert directions.grad.abs().sum() > 0

    def test_the_sum_is_weighted(self) -> None:
        losses = EncoderLosses(["mse", "sparsity"], {"mse": 3.0}, num_attributes=4, num_classes=2)
        values = losses(encoded(list(self.CODES)), torch.ones(4, 1), torch.tensor(self.LABELS))
        assert losses.total(values).item() == pytest.approx(3 * values["mse"].item() + values["sparsity"].item())

    @pytest.mark.parametrize(
        ("names", "weights", "got"), [([], {}, "none"), (["mse"], {"mes": 3.0}, "'mes'"), (["cosine"], {}, "'cosine'")]
    )
    def test_refused(self, names: list[Any], weights: dict[str, float], got: str) -> None:
        with pytest.raises(ValueError, match=f"EncoderLosses: expected .*mse, triplet, .*, got {got}"):
            EncoderLosses(names, weights, num_attributes=4, num_classes=2)
