"""Records of the engine: every field is declared once, and all that repeats fields follows from that."""

from __future__ import annotations

import inspect

import pytest
import torch

from segpaste.engine import schema
from segpaste.engine.record_fields import NO_BACKEND, empty, fields_of, names_of

RECORDS = [value for value in vars(schema).values() if inspect.isclass(value) and value.__module__ == schema.__name__]


@pytest.mark.parametrize("record", RECORDS)
def test_every_tensor_has_a_shape_and_a_dtype(record: type) -> None:
    declared = {field.name: field for field in fields_of(record)}
    for name, hint in ((name, str(hint)) for name, hint in record.__annotations__.items()):
        if "Tensor" in hint:
            assert declared[name].shape, name
            assert isinstance(declared[name].dtype, torch.dtype) or (record, name) == (schema.CropRows, "images"), name
        else:
            assert (name in declared) == ("int" in hint), name


def test_fields_are_read_as_declared() -> None:
    found = {field.name: field for field in fields_of(schema.Placement)}
    assert found["scale_num"][1:4] == (("B", "L", 2), torch.int64, False)
    assert found["carried"][1:4] == (("B", "L", "K_s"), torch.bool, False)
    assert found["vflip"][3:] == (True, NO_BACKEND)
    assert "tile_size" in names_of(schema.PasteRules, "reference")
    assert "tile_size" not in names_of(schema.PasteRules, "native")


def test_records_are_allocated_as_declared() -> None:
    given = torch.zeros(2, 3, dtype=torch.int64)
    made = empty(schema.Placement, torch.device("cpu"), {"B": 2, "L": 3, "K_s": 5}, source_idx=given)
    assert made.source_idx is given
    assert (made.translate.shape, made.translate.dtype) == ((2, 3, 2), torch.int64)
    assert (made.carried.shape, made.carried.dtype) == ((2, 3, 5), torch.bool)
    assert made.vflip is made.swap_axes is None


def test_quarter_turns_are_constant() -> None:
    """No backend draws them, so a source that set them would be ignored."""
    fields = {name: torch.zeros(1) for name in names_of(schema.Placement)}
    with pytest.raises(TypeError, match="vflip"):
        schema.Placement(**fields, vflip=torch.zeros(1))  # type: ignore[call-arg]
