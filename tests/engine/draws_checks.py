"""The survey and the draws of the triton backend next to the reference, on a CUDA device or in Triton's interpreter.

`test_cuda` runs this file in a process of its own, as `cuda_checks`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from backend_cases import module
from cuda_cases import DEVICE, MAPLESS, patched_interpreter, small_batch  # noqa: F401
from draw_cases import RULES, draw_case, draw_tables, integers
from torch import Tensor

from segpaste.engine import reference, triton
from segpaste.engine.schema import Classes, LayerRows
from segpaste.engine.triton.draws import draw as drawing
from segpaste.types import Modality, PaddedBatchedDenseSample


def tensors(*records: Any) -> dict[str, Tensor | None]:
    """The tensors of some records, by name."""
    found: dict[str, Tensor | None] = {}
    for record in records:
        names = [f.name for f in fields(record)] if is_dataclass(record) else record._fields
        found |= {f"{type(record).__name__}.{name}": getattr(record, name) for name in names}
    return found


def assert_equal(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    one, other = tensors(*found), tensors(*expected)
    assert one.keys() == other.keys()
    for name, tensor in other.items():
        if tensor is None:
            assert one[name] is None, name
        else:
            torch.testing.assert_close(
                one[name], tensor, rtol=0, atol=0, msg=lambda words, name=name: f"{name}: {words}"
            )


class TestDraw:
    @pytest.mark.parametrize("name", RULES)
    def test_each_rule(self, name: str) -> None:
        """Each rule runs on two batches: at least one has pastes, and the rule makes a difference."""
        differs, num_pasted = False, 0
        for seed in range(2):
            case, plain = draw_case(name, seed)
            expected = reference.draw(*case)
            assert_equal(triton.draw(*case), expected)
            num_pasted += int(expected[0].carried.sum())
            without = reference.draw(*plain)
            differs |= any(
                not torch.equal(getattr(expected[0], key), getattr(without[0], key))
                for key in ("source_idx", "scale_num", "translate", "hflip", "vflip", "swap_axes", "carried")
                if getattr(expected[0], key).shape == getattr(without[0], key).shape
            )
        assert num_pasted > 0
        assert differs or name == "nothing more"

    @pytest.mark.parametrize("name", ["one each", "image", "candidates"])
    def test_blocks(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blocks smaller than what they work through, no size a multiple of theirs."""
        sizes = {"SLOT_BLOCK": 2, "LAYER_BLOCK": 2, "ROW_BLOCK": 2, "BLOCK": 4, "TARGET_BLOCK": 2, "TILE": 4}
        for block, size in sizes.items():
            monkeypatch.setattr(drawing, block, size)
        case, _ = draw_case(name, 0, batch_size=3, num_slots=5, num_layers=3, max_attempts=3)
        assert_equal(triton.draw(*case), reference.draw(*case))

    @pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"num_targets": 0}, {"num_slots": 1, "num_layers": 1}])
    def test_degenerate_sizes(self, sizes: dict[str, int]) -> None:
        for name in ("everything", "candidates"):
            case, _ = draw_case(name, 3, **sizes)
            assert_equal(triton.draw(*case), reference.draw(*case))

    @pytest.mark.parametrize("name", ["image", "own rows", "candidates"])
    def test_no_layers(self, name: str) -> None:
        """No program has a layer, and the counts are still set."""
        case, _ = draw_case(name, 1, num_layers=0)
        found = triton.draw(*case)
        assert_equal(found, reference.draw(*case))
        assert found[1].no_source.all()

    @pytest.mark.parametrize("name", ["image", "one each", "own rows"])
    def test_nothing_to_paste(self, name: str) -> None:
        (targets, sources, *others), _ = draw_case(name, 0)
        case = targets, sources._replace(eligible=torch.zeros_like(sources.eligible)), *others
        found = triton.draw(*case)
        assert_equal(found, reference.draw(*case))
        assert not found[0].layer_valid.any()

    def test_equal_priorities(self) -> None:
        """Candidates that cover nothing are equal: those of lower index stay."""
        (targets, sources, *others), _ = draw_case("candidates", 0, batch_size=2, num_slots=6)
        case = targets._replace(occupied=torch.zeros_like(targets.occupied)), sources, *others
        found = triton.draw(*case)
        assert_equal(found, reference.draw(*case))
        assert found[0].carried.any()

    def test_boxes_as_large_as_edges_get(self) -> None:
        (targets, sources, *others), _ = draw_case("image", 0)
        far = torch.tensor([-(1 << 30), 3, 1 << 30, 1 << 30], device=DEVICE)
        case = targets, sources._replace(boxes=torch.where(sources.boxes == 0, far, sources.boxes)), *others
        assert_equal(triton.draw(*case), reference.draw(*case))


class TestRows:
    @pytest.mark.parametrize("batch_size", [0, 1, 5])
    def test_other_rows(self, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """This includes equal seeds, and rows without any other row to paste from."""
        monkeypatch.setattr(drawing, "ROW_BLOCK", 2)
        monkeypatch.setattr(drawing, "LAYER_BLOCK", 2)
        for num_seeds, chance in ((1 << 40, 4), (2, 3), (2, 0)):
            generator = torch.Generator().manual_seed(batch_size)
            seeds = integers(generator, 0, num_seeds, batch_size)
            candidates = integers(generator, 0, 4, batch_size) < chance
            assert_equal((triton.choose_rows(candidates, seeds, 3),), (reference.choose_rows(candidates, seeds, 3),))


class TestSurvey:
    @pytest.mark.parametrize(
        "options", [{"padding": (3, 2)}, {"num_instances": 0}, {"batch_size": 0}, {"size": (45, 40)}]
    )
    @pytest.mark.parametrize("has_taxonomy", [True, False])
    def test_facts_of_a_batch(self, options: dict[str, Any], has_taxonomy: bool) -> None:
        """Boxes between pixels or without an end, the smallest numbers, padding with holes, unknown classes."""
        batch = small_batch(**options)
        generator = torch.Generator().manual_seed(0)
        boxes = batch.boxes + torch.rand(batch.boxes.shape, generator=generator).to(DEVICE) - 0.5
        boxes[:1, :1, 2], boxes[:1, 1:2, 0], boxes[-1:, :1, 3] = float("inf"), float("nan"), 1e19
        boxes[1:2, 0], boxes[1:2, 1] = torch.tensor([-1e-40, 1e-40, 1e-40, 9], device=DEVICE), 5
        semantic = torch.where(batch.semantic_maps == batch.semantic_maps[..., :1, :1], -7, batch.semantic_maps)
        holes = torch.rand(batch.batch_size, 1, *batch.canvas_size, generator=generator).to(DEVICE) < 0.97
        self.agree(batch.derived(boxes=boxes, semantic_maps=semantic), has_taxonomy)
        self.agree(batch.derived(boxes=boxes, semantic_maps=semantic, padding_mask=holes), has_taxonomy)

    def agree(self, batch: PaddedBatchedDenseSample, has_taxonomy: bool) -> None:
        tables = module()._tables if has_taxonomy else Classes()
        for ignore_index, whole_only in ((None, True), (255, False)):
            found, expected = (
                engine.survey(batch, tables, ignore_index, whole_only=whole_only) for engine in (triton, reference)
            )
            assert_equal((found,), (expected,))


class TestClasses:
    @pytest.mark.parametrize("modalities", [None, MAPLESS, {Modality.INSTANCE, Modality.SEMANTIC}])
    @pytest.mark.parametrize(
        "options", [{}, {"padding": (2, 1), "batch_size": 3}, {"num_instances": 0}, {"batch_size": 0}]
    )
    def test_classes_of_other_rows(self, modalities: Any, options: dict[str, Any]) -> None:
        batch = small_batch(**options, **({} if modalities is None else {"modalities": modalities}))
        found = reference.survey(batch, module()._tables, 255)
        generator = torch.Generator().manual_seed(1)
        shape = batch.batch_size, 2
        rows = LayerRows(
            integers(generator, 0, max(1, batch.batch_size), *shape), integers(generator, 0, 5, *shape) > 0
        )
        tables = draw_tables({})
        for num_free in (found.num_free, found.num_free * 0 + 1):
            arguments = batch, found._replace(num_free=num_free), rows, tables
            assert_equal(triton.draw_classes(*arguments), reference.draw_classes(*arguments))

    def test_no_layers(self) -> None:
        batch = small_batch()
        found, rows = reference.survey(batch, module()._tables, 255), batch.labels.new_empty(batch.batch_size, 0)
        arguments = batch, found, LayerRows(rows, rows > 0), draw_tables({})
        assert_equal(triton.draw_classes(*arguments), reference.draw_classes(*arguments))
