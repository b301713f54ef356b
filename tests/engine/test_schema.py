"""Records of the engine: every field is declared once, and all that repeats fields follows from that."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Annotated, NamedTuple
from unittest import mock

import pytest
import torch

from script_modules import script
from segpaste.augmentation import PlacementConfig
from segpaste.augmentation.rules import fixed_rules
from segpaste.engine import operators, schema
from segpaste.engine.native import jobs
from segpaste.engine.record_fields import EVERY_BACKEND, empty, fields_of, flags_of, names_of

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
    assert found["swap_axes"][3:] == (False, EVERY_BACKEND)
    assert "tile_size" in names_of(schema.PasteRules, "reference")
    assert "tile_size" not in names_of(schema.PasteRules, "native")


def test_records_are_allocated_as_declared() -> None:
    given = torch.zeros(2, 3, dtype=torch.int64)
    made = empty(schema.Placement, torch.device("cpu"), {"B": 2, "L": 3, "K_s": 5}, source_idx=given)
    assert made.source_idx is given
    assert (made.translate.shape, made.translate.dtype) == ((2, 3, 2), torch.int64)
    assert (made.carried.shape, made.carried.dtype) == ((2, 3, 5), torch.bool)
    assert made.vflip.shape == made.swap_axes.shape == (2, 3)


def test_a_placement_without_vertical_flips_and_turns_has_none() -> None:
    given = {name: torch.ones(1) for name in names_of(schema.Placement) if name not in ("vflip", "swap_axes")}
    made = schema.Placement(**given)
    assert made.vflip.tolist() == made.swap_axes.tolist() == [0]
    assert schema.Placement(**given, swap_axes=torch.ones(1)).swap_axes.tolist() == [1]


@pytest.fixture(scope="module")
def header() -> ModuleType:
    return script("write_records")


class TestNativeRecords:
    """The structs of ``records.hpp``, which the words of the jobs fill."""

    def test_the_header_is_what_the_schema_says(self, header: ModuleType) -> None:
        assert header.main(["--check"]) == 0, "run python scripts/write_records.py, and build the library"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("    const int64_t* scale_den;  // [B, L, 2]\n", ""),
            ("int64_t num_layers, low_scale, high_scale", "int64_t num_layers, high_scale, low_scale"),
            ("uint8_t* present;  // [B, num_mixed]", "int64_t* present;  // [B, num_mixed]"),
            ("    Plane masks;", "    Plane mask;"),
        ],
    )
    def test_a_difference_is_noticed(self, old: str, new: str, header: ModuleType, tmp_path: Path) -> None:
        text = header.HEADER.read_text()
        assert text.count(old) == 1
        copy = tmp_path / "records.hpp"
        copy.write_text(text.replace(old, new))
        with mock.patch.object(header, "HEADER", copy):
            assert header.main(["--check"]) == 1
            assert header.main([]) == 0
        assert copy.read_text() == text

    def test_a_new_field_becomes_a_member(self, header: ModuleType) -> None:
        class Targets(NamedTuple):
            seeds: Annotated[torch.Tensor, "[B] int64"]
            weights: Annotated[torch.Tensor | None, "[B, num_weights] float32"] = None

        job = jobs.Job("draw", "SmallJob", "pick", "B", jobs.Part("targets", Targets))
        assert [*header._job(job)][1:-1] == [
            "    int64_t pick;",
            "    int64_t num_rows;",
            "    // Targets",
            "    const int64_t* seeds;  // [B]",
            "    const float* weights;  // [B, num_weights], or null",
            "    int64_t num_weights;",
        ]
        words = list[list[int]]()
        with mock.patch.object(jobs, "call", lambda _, record: words.append(record)):
            seeds, weights = torch.zeros(2, dtype=torch.int64), torch.zeros(2, 5)
            for targets in (Targets(seeds), Targets(seeds, weights)):
                job.run(pick=7, sizes={"B": 2}, targets=targets)
        assert words == [[7, 2, seeds.data_ptr(), 0, 0], [7, 2, seeds.data_ptr(), weights.data_ptr(), 5]]


class TestKernelArguments:
    """Tuples that Triton's kernels read by name."""

    def test_they_have_the_fields_of_their_records(self) -> None:
        pytest.importorskip("triton", reason="torch brings Triton along where it has it")
        from segpaste.engine.reference.plan import AxisTable, LayerPlan
        from segpaste.engine.triton import launching
        from segpaste.engine.triton.draws import draw as draws
        from segpaste.engine.triton.visibility import settling as looks

        placed, rules = {*names_of(schema.Placement)}, names_of(schema.PasteRules)
        assert draws.RuleArguments._fields == (*schema.DrawRules._fields, "limits_cover", "takes_part")
        assert draws.CountArguments._fields == names_of(schema.PlacementCounts)
        assert placed - {*draws.DrawnArguments._fields} == {*schema.LayerRows._fields}
        assert placed - {*looks.MapArguments._fields, *names_of(LayerPlan)} == {"layer_valid"}
        assert looks.RuleArguments._fields == tuple(name for name in rules if name != "tile_size")
        axes = {f"{axis}_{name}" for axis in "xy" for name in names_of(AxisTable)}
        assert {*names_of(LayerPlan), *axes} <= {*launching.PlanArguments._fields}


def test_operators_have_the_fields_of_their_records() -> None:
    assert names_of(schema.Placement)[:2] == schema.LayerRows._fields
    assert names_of(schema.Placement) == operators._MAPS
    assert names_of(schema.PlacementCounts) == operators._COUNTS
    assert len(operators.Findings.__args__) == len(schema.Outcome._fields) - 1


def test_switches_of_the_draws_are_marked() -> None:
    """Kernels are compiled for each value of a mark; a switch without one would be read as a number."""
    rules = fixed_rules(PlacementConfig(), whole_only=True)._asdict()
    assert {name for name, value in rules.items() if isinstance(value, bool)} == {*flags_of(schema.DrawRules)}
