"""The public names, the version and the extras: what users rely on. Names are only ever added."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

import segpaste

ROOT = Path(__file__).parents[1]

NOT_IN_ALL = {"bench"}  # libraries to measure against, of which two are under the AGPL

PUBLIC = {
    "BankSampler",
    "BankSource",
    "BatchCopyPaste",
    "BatchCopyPasteConfig",
    "BatchedDenseSample",
    "CameraIntrinsics",
    "CocoDetectionV2",
    "DenseSample",
    "ExhaustiveNxMSampler",
    "InstanceBank",
    "InstanceMask",
    "IntraBatchSource",
    "LMDBBank",
    "MemmapBank",
    "Modality",
    "NxMSampler",
    "PaddedBatchedDenseSample",
    "PaddingMask",
    "PanopticMap",
    "PanopticSchema",
    "RandomNxMSampler",
    "SemanticMap",
    "SourceStrategy",
    "StagedCrops",
    "WebDatasetBank",
    "__version__",
    "create_bank_dataloader",
    "create_coco_dataloader",
    "derive_seed",
    "get_preset",
    "list_presets",
    "open_bank",
    "register_preset",
    "stage_bank_batch",
}


def own_docstring(item: object) -> str:
    """Return the docstring written for this very item; the signature that a dataclass makes up is none."""
    doc = item.__doc__ or ""
    return "" if doc.startswith(f"{getattr(item, '__name__', '')}(") else doc.strip()


def hinted_extras(text: str) -> set[str]:
    """Return the extras that a text offers in the form segpaste[NAME,NAME]."""
    return {name.strip() for names in re.findall(r"segpaste\[([\w, -]+)\]", text) for name in names.split(",")}


def table_extras(source: str) -> set[str]:
    """Return the extras in the tables of extras.py: the string values of dictionaries at module level."""
    statements = (node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign))
    values = [value for node in statements if isinstance(node.value, ast.Dict) for value in node.value.values]
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def declared_extras() -> set[str]:
    """Return the extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


class TestNames:
    def test_names_are_pinned(self) -> None:
        assert set(segpaste.__all__) == PUBLIC

    def test_no_name_stands_twice(self) -> None:
        assert len(segpaste.__all__) == len(set(segpaste.__all__))

    @pytest.mark.parametrize("name", sorted(PUBLIC))
    def test_name_resolves(self, name: str) -> None:
        assert getattr(segpaste, name) is not None
        assert name in dir(segpaste)

    @pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
    def test_name_has_a_docstring_of_its_own(self, name: str) -> None:
        assert own_docstring(getattr(segpaste, name))

    def test_unknown_name_is_an_attribute_error(self) -> None:
        assert not hasattr(segpaste, "no_such_name")

    def test_a_generated_or_inherited_docstring_does_not_count(self) -> None:
        made_up = dataclasses.make_dataclass("MadeUp", ["x"])
        assert made_up.__doc__
        assert own_docstring(made_up) == ""
        assert own_docstring(type("Child", (dict,), {})) == ""
        assert own_docstring(own_docstring)


class TestVersion:
    def test_version_is_the_installed_one(self) -> None:
        assert segpaste.__version__ == importlib.metadata.version("segpaste")


class TestExtras:
    def test_every_hint_names_a_real_extra(self) -> None:
        texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
        hints = {path: hinted_extras(path.read_text(encoding="utf-8")) - declared_extras() for path in texts}
        assert {path: names for path, names in hints.items() if names} == {}

    def test_every_table_entry_is_a_real_extra(self) -> None:
        path = ROOT / "src" / "segpaste" / "extras.py"
        assert not path.exists() or table_extras(path.read_text(encoding="utf-8")) <= declared_extras()

    def test_all_names_every_other_extra(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        named = hinted_extras(" ".join(project["optional-dependencies"]["all"]))
        assert named == declared_extras() - NOT_IN_ALL - {"all"}

    def test_hints_are_found_in_text_and_tables(self) -> None:
        assert hinted_extras("pip install 'segpaste[bank, docs]' or segpaste[dev]") == {"bank", "docs", "dev"}
        assert table_extras('EXTRA_OF: dict[str, str] = {"lmdb": "bank"}\nX = {"y": "docs"}') == {
            "bank",
            "docs",
        }
