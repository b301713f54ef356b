"""Golden records: the library computes the recorded results, and a difference is found."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from segpaste import BatchCopyPasteConfig, get_preset, list_presets

SCRIPTS = Path(__file__).parents[2] / "scripts"
FILE = Path(__file__).with_name("engine.json")


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("golden_records")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def records(program: ModuleType) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = program.read_records(FILE)
    return found


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every option of a config; a table counts as one."""
    for name, value in values.items():
        if (
            isinstance(value, dict)
            and value
            and name not in ("classes", "class_sizes", "contact_priority", "size_range", "region")
        ):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, json.dumps(value, sort_keys=True)


@pytest.mark.first
def test_nothing_has_changed(program: ModuleType, records: list[dict[str, Any]]) -> None:
    assert list(program.differences(records)) == []


def test_enough_is_recorded(program: ModuleType, records: list[dict[str, Any]]) -> None:
    num, num_placing = program.num_forwards(records)
    assert num >= 300
    assert num_placing >= 0.7 * num
    assert len({record["name"] for record in records}) == len(records)
    assert FILE.stat().st_size < 2_000_000


def test_every_option_is_recorded_with_several_values(records: list[dict[str, Any]]) -> None:
    """Those of the config and those of the inputs, in forwards that place something."""
    seen: dict[str, set[str]] = {}
    placing = [record for record in records if record.get("num_placed", 0) > 0]
    for name, value in (leaf for record in placing for part in ("config", "inputs") for leaf in leaves(record[part])):
        seen.setdefault(name, set()).add(value)
    single = {name for name, values in seen.items() if len(values) < 2}
    absent = {"panoptic", "crops"}  # None, beside records of their parts
    assert single == {"blend_mode", "panoptic.taxonomy.classes", "panoptic.taxonomy.ignore_index"} | absent
    combinations = {(i["dtype"], i["layout"], i["inplace"], i["report"]) for i in (r["inputs"] for r in placing)}
    layouts = ("rows", "channels_last")
    for dtype in ("uint8", "float32", "float16", "bfloat16"):
        assert {(dtype, order, a, b) for order in layouts for a in (False, True) for b in (False, True)} <= combinations
    assert len({tuple(record["inputs"]["modalities"]) for record in placing}) >= 19


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_every_option_survives_a_file(records: list[dict[str, Any]], suffix: str, tmp_path: Path) -> None:
    """The test above says that each option has other values than its default here."""
    path, seen = tmp_path / f"config{suffix}", set[tuple[str, str]]()
    for values in (record["config"] for record in records if "config" in record):
        if seen >= {*leaves(values)}:
            continue
        seen |= {*leaves(values)}
        config = BatchCopyPasteConfig.model_validate(values)
        config.save(path)
        assert BatchCopyPasteConfig.load(path) == config


def test_presets_mean_what_they_meant(records: list[dict[str, Any]]) -> None:
    """Each recorded option still has its value; new options may be added."""
    of_presets = {r["name"].split("/")[1]: r["config"] for r in records if r["name"].startswith("preset/")}
    assert {*of_presets} <= {*list_presets()}
    for name, recorded in of_presets.items():
        config = get_preset(name).config_for(None, panoptic={"taxonomy": recorded["panoptic"]["taxonomy"]})
        now = dict(leaves(json.loads(config.model_dump_json())))
        assert {key: now[key] for key, _ in leaves(recorded)} == dict(leaves(recorded)), name


def test_a_difference_is_told(
    program: ModuleType, records: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed config, output or sampler is reported; the other records stay as they are."""
    chosen = [r for r in records if r["name"] in ("option/tiles/panoptic", "option/hflip=0.0/panoptic", "classmix/1")]
    chosen += [r for r in records if r["name"] in ("sampler/seeds", "sampler/rarest_labels")]
    copy = tmp_path / "copy.json"
    copy.write_text(program.as_text(chosen))
    assert program.main(["--check", str(copy)]) == 0
    chosen = json.loads(json.dumps(chosen))
    by_name = {record["name"]: record for record in chosen}
    by_name["option/hflip=0.0/panoptic"]["config"]["placement"]["hflip_probability"] = 1.0
    by_name["option/tiles/panoptic"]["digests"]["depth"] = "0"
    by_name["sampler/seeds"]["digests"]["seeds"] = "0"
    copy.write_text(program.as_text(chosen))
    capsys.readouterr()
    assert program.main(["--check", str(copy)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "option/tiles/panoptic: depth" in lines
    assert "sampler/seeds: seeds" in lines
    flipped = [line for line in lines if line.startswith("option/hflip=0.0/panoptic: ")]
    assert "option/hflip=0.0/panoptic: report.placement.hflip" in flipped
    assert "option/hflip=0.0/panoptic: images" in flipped
    assert len(lines) == len(flipped) + 3
