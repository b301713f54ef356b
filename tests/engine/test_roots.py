"""Square roots are correctly rounded: on CPUs whose `torch.sqrt` is not, and on those where it is."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2

import segpaste
from samples import EVERY_OBJECT, assert_backends_agree, make_batch, make_sample
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.engine import use_backend
from segpaste.types import DenseSample, Modality
from segpaste.types.sampling import norm3, root

PACKAGE = Path(segpaste.__file__).parent
ROOTS = {"sqrt", "rsqrt", "hypot", "norm", "vector_norm", "matrix_norm", "normalize", "std", "std_mean", "cdist"}
ALLOWED = {
    "types/sampling.py": {".sqrt"},  # `root` itself
    "engine/triton/_interpolation.py": {"tl.sqrt_rn"},
    "engine/triton/visibility/_tables.py": {"tl.sqrt"},  # of float64, rounded to float32
    "invariants/_layers.py": {".sqrt"},  # float64, compared with a tolerance
    "bank/embed/similarity.py": {"np.linalg.norm"},  # takes its root by `np.sqrt`
    "encoder/model.py": {"exact.std"},  # float64, rounded to float32
    "encoder/calibration.py": {"both.std"},  # of NumPy
    "encoder/evaluation.py": {"np.linalg.norm", "torch.nn.functional.normalize"},  # float64; distances are rounded
    "viz/_text.py": {"unicodedata.normalize"},  # no root
    "datasets/conversion/names.py": {"unicodedata.normalize"},
}
"""Calls by file, besides `math.sqrt` and `np.sqrt`, which round correctly."""


def rounded_root(value: float) -> float:
    """The nearest float32 to the root of a float32, in integers."""
    mantissa, exponent = math.frexp(value)
    shift = 80 + (exponent % 2)
    exact = math.isqrt(int(mantissa * 2**24) << (shift - 24 + 2))  # 2 ** (shift / 2 + 1) times the root, rounded down
    scale = 2.0 ** ((exponent - shift - 2) // 2)
    digits = exact.bit_length() - 24
    above = (exact >> (digits - 1)) & 1  # no root of a float32 lies halfway between two
    return ((exact >> digits) + above) * 2.0**digits * scale


def test_root() -> None:
    draws = torch.Generator().manual_seed(0)
    values = torch.cat([torch.rand(20_000, generator=draws) * 4, torch.logspace(-37, 38, 2_000), torch.arange(1.0, 99)])
    assert root(values).tolist() == [rounded_root(value) for value in values.tolist()]
    assert root(torch.tensor([0.0, math.inf])).tolist() == [0, math.inf]


def test_norms() -> None:
    x, y, z = vectors = torch.randn(3, 20_000, generator=torch.Generator().manual_seed(0))
    assert norm3(vectors).tolist() == [rounded_root(value) for value in (x * x + y * y + z * z).tolist()]


@pytest.fixture(params=[math.inf, 0.0], ids=["too large", "too small"])
def inexact_roots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call every root of torch is off by one unit in the last place of its dtype."""

    def inexact(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def root_off_by_one(*args: Any, **options: Any) -> Tensor:
            exact = function(*args, **options)
            return torch.nextafter(exact, torch.full_like(exact, request.param))

        return root_off_by_one

    def spoil() -> None:
        for owner in (torch, torch.Tensor, torch.linalg, torch.nn.functional):
            for name in ROOTS & set(dir(owner)):
                monkeypatch.setattr(owner, name, inexact(getattr(owner, name)))

    return spoil


def resized(sample: DenseSample) -> DenseSample:
    return DenseSample.from_dict(v2.Resize((23, 29))(sample.to_dict()))


class TestInexactRoots:
    def test_the_engine(self, inexact_roots: Callable[[], None]) -> None:
        modalities = {Modality.INSTANCE, Modality.DEPTH, Modality.NORMALS}
        batch = make_batch(
            4, size=(31, 37), max_instances=12, image_dtype=torch.float32, modalities=modalities, metric_depth=True
        )
        harmonize = {"prob": 1.0, "mode": "reinhard", "feather_px": 3}
        config = BatchCopyPasteConfig(
            perspective_depth=True, harmonize=harmonize, placement={"layers": 3}, source=EVERY_OBJECT
        )
        with use_backend("native"):
            expected = BatchCopyPaste(config)(batch, return_report=True)
        assert int(expected[1].num_placed.sum()) > 3
        inexact_roots()
        for backend in ("reference", "native"):
            with use_backend(backend):
                assert_backends_agree(BatchCopyPaste(config)(batch, return_report=True), expected)

    def test_transforms(self, inexact_roots: Callable[[], None]) -> None:
        sample = make_sample(modalities={Modality.INSTANCE, Modality.NORMALS})
        expected = resized(sample).normals
        inexact_roots()
        assert torch.equal(resized(sample).normals, expected)


def calls() -> Iterator[tuple[str, str]]:
    """File and function of each root in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                parts = ast.unparse(node.func).rpartition(".")
                if parts[2] in ROOTS | {"sqrt_rn"}:
                    owner = parts[0] if parts[0].replace(".", "").isidentifier() else ""
                    yield name, f"{owner}.{parts[2]}"
            is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
            if is_power and abs(getattr(node.right, "value", 0) or 0) == 0.5:
                yield name, "** 0.5"


def test_roots_of_the_package() -> None:
    found: dict[str, set[str]] = {}
    for name, call in calls():
        if call not in ("math.sqrt", "np.sqrt"):
            found.setdefault(name, set()).add(call)
    assert found == ALLOWED, "take roots by `segpaste.types.sampling.root`, math.sqrt or np.sqrt"


def test_numpy_is_exact() -> None:
    values = np.random.default_rng(0).random(20_000, np.float32)
    assert np.sqrt(values).tolist() == [rounded_root(value) for value in values.tolist()]
