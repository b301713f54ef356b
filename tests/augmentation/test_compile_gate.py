"""The gate sees to it that `BatchCopyPaste` compiles whole: it fails on what breaks a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations, product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from compiled_and_eager import INSTANCE

from samples import OPTIONAL, all_modality_subsets, subset_id
from script_modules import script
from segpaste import BatchCopyPaste, list_presets
from segpaste.augmentation import BankSource, IntraBatchSource
from segpaste.types import FIELDS, Modality, PaddedBatchedDenseSample


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    """The script, as a module."""
    return script("compile_explain")


@pytest.fixture(scope="module")
def cases(gate: ModuleType) -> ModuleType:
    """The cases of the gate."""
    return sys.modules["compile_cases"]


def with_item(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with an ``.item()``, which waits for the device."""

    def spoiled(self: Any, batch: PaddedBatchedDenseSample, *rest: Any) -> Any:
        batch.instance_valid.sum().item()
        return original(self, batch, *rest)

    return spoiled


def with_branch(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a Python branch on a tensor's value."""

    def spoiled(self: Any, batch: PaddedBatchedDenseSample, *rest: Any) -> Any:
        if batch.instance_valid.any():
            return original(self, batch, *rest)
        return original(self, batch, *rest)

    return spoiled


PLACES = [
    pytest.param(BatchCopyPaste, "_prepared", id="prepare"),
    pytest.param(IntraBatchSource, "sample", id="source"),
]


class TestTheGate:
    @pytest.mark.parametrize("spoil", [with_item, with_branch])
    @pytest.mark.parametrize(("owner", "name"), PLACES)
    def test_it_sees_a_break(
        self,
        gate: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        owner: type,
        name: str,
        spoil: Callable[..., Any],
    ) -> None:
        """It names the line of the break. From torch 2.15 on ``fullgraph=True`` lets the item pass, as a symbol."""
        monkeypatch.setattr(owner, name, spoil(getattr(owner, name)))
        assert gate.main(["--case", "instance"]) == 1
        out = capsys.readouterr().out
        assert "graph break: " in out
        assert " at test_compile_gate.py:" in out

    def test_the_allow_list_is_compared_and_empty(
        self,
        gate: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        """A listed break passes, one that no case has any more does not."""
        assert gate.ALLOWLIST.read_bytes() == b""
        monkeypatch.setattr(BatchCopyPaste, "_prepared", with_item(BatchCopyPaste._prepared))
        assert gate.main(["--case", "instance"]) == 1
        (broken,) = (
            line.split("graph break: ")[1] for line in capsys.readouterr().out.splitlines() if "break: " in line
        )
        monkeypatch.setattr(gate, "ALLOWLIST", tmp_path / "allowed.txt")
        gate.ALLOWLIST.write_text(f"{broken}\n\nanother break at nowhere.py:1\n")
        assert gate.main(["--case", "instance"]) == 0
        monkeypatch.setattr(gate, "case_names", {"instance": gate.case_names()["instance"]}.copy)
        assert gate.main([]) == 1
        assert "delete: another break at nowhere.py:1\n" in capsys.readouterr().out

    def test_a_compiler_that_is_switched_off_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch, "compile", lambda module, **_: module)
        result = gate.check("instance", cases.make_case(INSTANCE))
        assert (
            [
                f
                for f in result.failures
                if "expected 1 graph of one frame compiled whole, got 0 of 0 among 0 frames" in f
            ]
            == list(result.failures)
            != []
        )

    def test_a_frame_that_is_skipped_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without ``fullgraph=True`` it runs eagerly, and equals itself."""
        monkeypatch.setattr(BatchCopyPaste, "forward", torch.compiler.disable(BatchCopyPaste.forward))
        result = gate.check("instance", cases.make_case(INSTANCE))
        assert any("graph break" in failure for failure in result.failures), result

    def test_a_compiler_that_raises_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def raising(*_: Any, **__: Any) -> None:
            raise torch._dynamo.exc.Unsupported("no such operator\nand more")

        monkeypatch.setattr(torch, "compile", raising)
        result = gate.check("instance", cases.make_case(INSTANCE))
        assert result.failures == ("torch.compile raised Unsupported: no such operator",)

    def test_another_output_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = cases.make_case(frozenset(OPTIONAL))
        case = case._replace(batch=replace(case.batch, padding_mask=torch.zeros_like(case.batch.depth_valid)))
        out = case.module(case.batch)
        for name in (field.batched_name for field in FIELDS):
            value = getattr(out, name).clone()
            value.view(-1)[-1] = ~value.view(-1)[-1] if value.dtype == torch.bool else value.view(-1)[-1] + 1
            values = {field.name: getattr(out, field.name) for field in fields(out)} | {name: value}
            monkeypatch.setattr(torch, "compile", lambda _, *, values=values, **__: lambda _: SimpleNamespace(**values))
            failures = gate.check("all", case).failures
            assert [f for f in failures if "differs" in f] == [f for f in failures if f.startswith(f"{name} ")] != []

    def test_a_field_too_few_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = cases.make_case(INSTANCE)
        monkeypatch.setattr(
            torch, "compile", lambda module, **_: lambda batch: replace(module(batch), sample_seeds=None)
        )
        assert any(f.startswith("sample_seeds is there") for f in gate.check("instance", case).failures)

    def test_nothing_pasted_is_a_failure(
        self, gate: ModuleType, cases: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = cases.make_case(INSTANCE)
        monkeypatch.setattr(torch, "compile", lambda module, **_: module)
        with pytest.warns(UserWarning, match="paste nothing"):
            result = gate.check("instance", case._replace(batch=case.batch.map_tensors(lambda t: t[:1])))
        assert any("eager pasted nothing" in failure for failure in result.failures)

    def test_it_knows_every_subset_source_and_preset(self, gate: ModuleType, cases: ModuleType) -> None:
        assert list(cases.modality_subsets().values()) == all_modality_subsets()
        assert list(cases.modality_subsets()) == [subset_id(s) for s in all_modality_subsets()]
        subsets = [subset_id(s) for s in all_modality_subsets()]
        presets = [f"preset:{name}" for name in list_presets()]
        assert list(cases.case_names()) == [
            *subsets,
            f"same_image:{subsets[-1]}",
            *(f"bank:{name}" for name in subsets),
            *presets,
            *(f"pairwise:{i}" for i in range(1, 9)),
        ]
        assert gate.legal_case("depth+instance") == "instance+depth"
        assert gate.legal_case("bank:depth+instance") == "bank:instance+depth"

    def test_any_two_options_meet(self, cases: ModuleType) -> None:
        """All pairs but those that the config refuses: ClassMix with a bank, patches, or a layer for each object."""
        names = cases.Pairwise._fields
        levels = [sorted({getattr(options, name) for options in cases.PAIRWISE.values()}) for name in names]
        assert [len(level) for level in levels] == [3] + [2] * 7

        def pairs(options: Any) -> set[Any]:
            return set(combinations(zip(names, options, strict=True), 2))

        possible = [cases.Pairwise(*row) for row in product(*levels)]
        possible = [
            o
            for o in possible
            if not (o.classmix and (o.bank or o.patches or o.grouping or "semantic" not in o.modalities))
        ]
        met = set().union(*map(pairs, cases.PAIRWISE.values()))
        assert set().union(*map(pairs, possible)) <= met

    def test_bad_arguments(self, gate: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            gate.main(["--case=panoptic"])
        assert caught.value.code == 2
        assert "expected one of image, instance, " in capsys.readouterr().err

    def test_each_case_carries_its_modalities(self, cases: ModuleType) -> None:
        for modalities in all_modality_subsets():
            batch = cases.make_case(modalities).batch
            assert batch.modalities == modalities | {Modality.IMAGE}
            assert batch.sample_seeds is not None

    @pytest.mark.slow
    @pytest.mark.first
    def test_it_passes_here(self, gate: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
        """The whole gate passes, run as a user runs it."""
        status = gate.main([])
        out = capsys.readouterr().out
        assert status == 0, out
        assert f"{len(gate.case_names())} of {len(gate.case_names())} passed" in out

    def test_it_sees_a_break_in_the_source_of_a_bank(self, gate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BankSource, "sample", with_branch(BankSource.sample))
        assert gate.main(["--case", "bank:instance"]) == 1
