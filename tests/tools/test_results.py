"""The rules about tools are what was seen: they agree with the committed results of running each tool."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import judge
import pytest
from all_probes import PROBES
from benchmarks import interchange
from probe_traits import traits_of_probes

from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.rules import EFFECTS, HARMLESS, Rule, Tool
from segpaste.datasets.checking.tools.traits import TRAITS

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from prove_tools import PROGRAMS, RESULTS, ROOT, _told_effects, _without_places, differences

TraitsOf = dict[tuple[str, str], frozenset[str]]


@pytest.fixture(scope="module")
def traits_of(tmp_path_factory: pytest.TempPathFactory) -> TraitsOf:
    return traits_of_probes(tmp_path_factory.mktemp("probes"))


def _results() -> dict[str, Any]:
    programs = json.loads(RESULTS.read_text())
    return {name: result for program in programs.values() for name, result in program["tools"].items()}


def test_rules_agree_with_the_results(traits_of: TraitsOf) -> None:
    assert [*differences(_results(), traits_of, TOOLS)] == []


def test_each_result_is_of_a_program() -> None:
    assert {f"tool_{name}" for name in json.loads(RESULTS.read_text())} == {
        path.stem for path in PROGRAMS.glob("tool_*.py")
    }


def test_each_rule_names_a_trait_with_a_probe_and_an_effect() -> None:
    for tool in TOOLS.values():
        keys = [(rule.format, rule.trait) for rule in tool.rules]
        assert len(keys) == len({*keys})
        for rule in tool.rules:
            assert rule.trait in TRAITS
            assert rule.effect in EFFECTS
            assert rule.format in tool.formats
            assert rule.trait in PROBES[rule.format]
            assert rule.says
            assert rule.advice


def test_advice_to_convert_names_the_tool_itself() -> None:
    for tool in TOOLS.values():
        for rule in tool.rules if tool.reads_best is not None else ():
            assert {TOOLS[name].package for name in re.findall(r"--for (\S+)", rule.advice)} <= {tool.package}


def test_the_judge_and_the_rules_have_the_same_effects_in_the_same_order() -> None:
    assert (*EFFECTS, judge.KEPT) == judge.EFFECTS
    assert EFFECTS.keys() >= HARMLESS


def _is_broken(rule: Rule) -> bool:
    return (rule.format, rule.trait) == ("coco", "oriented_as_stored")


def _without_a_rule(tool: Tool) -> Tool:
    return replace(tool, rules=tuple(rule for rule in tool.rules if not _is_broken(rule)))


def _with_another_effect(tool: Tool) -> Tool:
    return replace(
        tool,
        rules=tuple(replace(rule, effect="stops") if _is_broken(rule) else rule for rule in tool.rules),
    )


def _with_a_rule_too_many(tool: Tool) -> Tool:
    return replace(tool, rules=(*tool.rules, replace(tool.rules[0], trait="palette", effect="stops")))


def _of_another_version(tool: Tool) -> Tool:
    return replace(tool, versions=(*tool.versions, "99.0"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_without_a_rule, "supervision: coco/oriented_as_stored is shifted, the rules say kept"),
        (_with_another_effect, "supervision: coco/oriented_as_stored is shifted, the rules say stops"),
        (_with_a_rule_too_many, "supervision: coco/palette is kept, the rules say stops"),
        (_of_another_version, "supervision: ran 0.31.2, the rules are about 0.31.2, 99.0"),
    ],
)
def test_a_broken_rule_is_reported(change: Callable[[Tool], Tool], told: str, traits_of: TraitsOf) -> None:
    broken = {**TOOLS, "supervision": change(TOOLS["supervision"])}
    assert [*differences(_results(), traits_of, broken)] == [told]


def test_a_tool_without_results_and_results_without_a_tool_are_reported(traits_of: TraitsOf) -> None:
    results = _results()
    results["other"] = results.pop("sahi")
    assert [*differences(results, traits_of, TOOLS)] == ["sahi: has no result", "other: has results and no rules"]


def test_results_name_no_folder_of_the_machine(tmp_path: Path) -> None:
    told = f"{tmp_path}/a.png, {sys.prefix}/lib/b.py, {ROOT.parent}/datasets/c"
    assert _without_places(told, tmp_path) == "./a.png, .venv/lib/b.py, datasets/c"
    assert not re.search(r"[' ](/tmp|/home|/work|/root|/usr)", RESULTS.read_text())


def test_an_object_that_a_map_leaves_out_may_get_the_class_of_void() -> None:
    lost, void = "objects without a mask", "maps with void 255: crowd_kept"
    assert "class_changed" in _told_effects([lost, void])
    assert not any("class_changed" in _told_effects(told) for told in ([], [lost], [void]))


def test_what_was_installed_is_what_the_rules_are_about() -> None:
    for name, result in _results().items():
        assert (result["package"], result["version"]) == (TOOLS[name].package, TOOLS[name].versions[-1])
        pins = [path.read_text().split() for path in Path(PROGRAMS).glob("*.txt")]
        if any(pin.startswith(f"{result['package']}==") for lines in pins for pin in lines):
            assert any(f"{result['package']}=={result['version']}" in lines for lines in pins)


def test_the_page_has_the_tables_of_these_results() -> None:
    assert interchange.PAGE.read_text() == interchange.page(), "run python -m benchmarks.interchange --write"
