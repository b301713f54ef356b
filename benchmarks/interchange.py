"""Tables of `docs/interchange.md`: what survives in each tool, of each kind of image and annotation that was tried.

    python -m benchmarks.interchange           # print the tables
    python -m benchmarks.interchange --write   # write them into the page

They are made from `tests/tools/results.json`, which `make tools` writes by running the tools. Two runs give the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.rules import EFFECTS, Effect, Tool
from segpaste.datasets.checking.tools.traits import TRAITS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "tools" / "results.json"
PAGE = ROOT / "docs" / "interchange.md"
HURTS = "<!-- what hurts: python -m benchmarks.interchange --write -->", "<!-- end of what hurts -->"
TABLES = "<!-- tables: python -m benchmarks.interchange --write -->", "<!-- end of tables -->"
KINDS = {"trains": "Trainers", "evaluates": "Evaluators", "converts": "Converters"}
FORMATS = {"coco": "COCO", "yolo": "YOLO's labels", "voc": "Pascal VOC", "panoptic": "panoptic COCO", "maps": "maps"}
ORDINARY = "ordinary"
_WORDS = {
    "stops": "stops",
    "image_lost": "image lost",
    "object_lost": "lost",
    "object_split": "split",
    "mask_changed": "mask",
    "box_changed": "box",
    "class_changed": "class",
    "points_lost": "points lost",
    "shifted": "shifted",
    "crowd_kept": "as object",
    "crowd_made": "as crowd",
    "never_matched": "unmatched",
    "pixels_changed": "pixels",
    "ids_lost": "no id",
    "background_lost": "left out",
}
"""Each effect in a word or two, for a cell of a table."""


def tables() -> Iterator[str]:
    """Yield the lines of all tables."""
    programs = json.loads(RESULTS.read_text())
    results = {name: result for program in programs.values() for name, result in program["tools"].items()}
    dates = [program["date"] for program in programs.values()]
    yield f"Run from {min(dates)} to {max(dates)}."
    for kind, title in KINDS.items():
        for format, its_title in FORMATS.items():
            tools = [tool for tool in TOOLS.values() if tool.does == kind and format in tool.formats]
            if tools:
                yield from ["", f"### {title}, {its_title}", ""]
                yield from _matrix(tools, format, results)
    yield from ["", "### In words, and what to do", ""]
    yield from _in_words()


def hurts() -> Iterator[str]:
    """Yield what costs labels, by trouble: first what happens without a word in most tools, then what ends them."""
    of_traits: dict[str, dict[Effect, dict[str, None]]] = {}
    for tool in TOOLS.values():
        for rule in tool.rules:
            of_traits.setdefault(rule.trait, {}).setdefault(rule.effect, {})[tool.title] = None
    silent = {trait: {key: of[key] for key in of if key != "stops"} for trait, of in of_traits.items()}
    stops = {trait: {key: of[key] for key in of if key == "stops"} for trait, of in of_traits.items()}
    yield from _by_trouble(silent, "what happens, and where")
    yield from ["", "These end a tool with an error, which at least is seen:", ""]
    yield from _by_trouble(stops, "where")


def _by_trouble(of_traits: Mapping[str, Mapping[Effect, Mapping[str, None]]], second: str) -> Iterator[str]:
    yield f"| of what | {second} |"
    yield "|---|---|"
    affected = {trait: sum(map(len, of.values())) for trait, of in of_traits.items()}
    for trait in sorted(affected, key=lambda trait: (-affected[trait], [*TRAITS].index(trait))):
        effects = sorted(of_traits[trait], key=[*EFFECTS].index)
        texts = [
            f"{'' if key == 'stops' else f'{EFFECTS[key]}: '}{', '.join(of_traits[trait][key])}" for key in effects
        ]
        if texts:
            yield f"| {TRAITS[trait].text} | {'; '.join(texts)} |"


def _in_words() -> Iterator[str]:
    """Yield what each tool does wrong, in words."""
    yield "| tool | of what | what happens | what to do |"
    yield "|---|---|---|---|"
    for tool in TOOLS.values():
        for rule in sorted(tool.rules, key=lambda rule: [*EFFECTS].index(rule.effect)):
            of = f"{TRAITS[rule.trait].text}, {FORMATS[rule.format]}"
            yield f"| {tool.label} | {of} | {EFFECTS[rule.effect]}: {_escaped(rule.says)} | {_escaped(rule.advice)} |"


def _matrix(tools: Sequence[Tool], format: str, results: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the tools that read a format: objects and pixels that survive, in percent.

    What all of them keep is one sentence below the table.
    """
    yield "| | " + " | ".join(tool.label for tool in tools) + " |"
    yield "|---" * (len(tools) + 1) + "|"
    of_tools = [results[tool.name] for tool in tools]
    traits = {trait: None for result in of_tools for trait in result["effects"][format]}
    kept = list[str]()
    for trait in sorted(traits, key=[ORDINARY, *TRAITS].index):
        text = "an ordinary image and object" if trait == ORDINARY else TRAITS[trait].text
        if trait != ORDINARY and all(result["effects"][format].get(trait, "kept") == "kept" for result in of_tools):
            kept.append(text)
        else:
            yield f"| {text} | " + " | ".join(_cell(result, format, trait) for result in of_tools) + " |"
    if kept:
        yield ""
        yield f"All of them keep {'; '.join(kept)}."


def _cell(result: dict[str, Any], format: str, trait: str) -> str:
    effect, shares = result["effects"][format].get(trait), result["shares"][format].get(trait)
    if effect is None:
        return ""
    numbers = " / ".join(f"{100 * share:.0f}" for share in shares)
    return numbers if effect == "kept" else f"**{_WORDS[effect]}** {numbers}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    """Return the page with the tables of the results."""
    text = PAGE.read_text()
    for (start, end), lines in ((HURTS, hurts()), (TABLES, tables())):
        before, _, rest = text.partition(start)
        text = "\n".join([before + start, "", *lines, "", end + rest.partition(end)[2]])
    return text


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print("\n".join([*hurts(), "", *tables()]))


if __name__ == "__main__":
    main()
