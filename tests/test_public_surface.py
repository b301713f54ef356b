"""The public names and the version: what users rely on. Names are only ever added."""

from __future__ import annotations

import ast
import compileall
import dataclasses
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import segpaste
import segpaste.bank
import segpaste.datasets

PUBLIC = {
    "BankSampler",
    "BankSource",
    "BatchCopyPaste",
    "BatchCopyPasteConfig",
    "BatchedDenseSample",
    "CameraIntrinsics",
    "CocoDetectionV2",
    "CrowdMask",
    "DenseSample",
    "ExhaustiveNxMSampler",
    "InstanceBank",
    "InstanceMask",
    "IntraBatchSource",
    "KeypointSchema",
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
    "augment_dataset",
    "convert_dataset",
    "create_bank_dataloader",
    "create_coco_dataloader",
    "derive_seed",
    "get_preset",
    "list_presets",
    "open_bank",
    "register_preset",
    "replay_dataset",
    "stage_bank_batch",
}


def own_docstring(item: object) -> str:
    """Return the docstring written for this very item; the signature that a dataclass makes up is none."""
    doc = item.__doc__ or ""
    return "" if doc.startswith(f"{getattr(item, '__name__', '')}(") else doc.strip()


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


LAZY = """
from segpaste._lazy import lazy_names
__getattr__, __dir__, __all__ = lazy_names(__name__, {"lazy_room.home": ("late", "early")})
"""
PACKAGE = Path(segpaste.__file__).parent
LAZY_PACKAGES = [path for path in sorted(PACKAGE.rglob("__init__.py")) if "lazy_names(" in path.read_text()]


class TestLazyNames:
    @pytest.fixture
    def room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
        (tmp_path / "lazy_room").mkdir()
        (tmp_path / "lazy_room" / "__init__.py").write_text(LAZY)
        (tmp_path / "lazy_room" / "home.py").write_text("early, late, other = 1, object(), 3")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield importlib.import_module("lazy_room")
        for name in ("lazy_room", "lazy_room.home"):
            sys.modules.pop(name, None)

    def test_names_are_imported_at_first_use(self, room: ModuleType) -> None:
        assert room.__all__ == ["early", "late"]
        assert {"early", "late"} <= set(dir(room))
        assert "lazy_room.home" not in sys.modules
        assert room.early == 1
        assert room.late is room.late is sys.modules["lazy_room.home"].late

    @pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda path: path.parent.name)
    def test_type_checkers_see_the_same_names(self, path: Path) -> None:
        (block,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
        package = ".".join(("segpaste", *path.relative_to(PACKAGE).parent.parts))
        names_of = vars(importlib.import_module(package))
        homes, moved = names_of["_HOMES"], names_of.get("_MOVED", {})
        seen = {(node.module, name.name, name.asname) for node in block.body for name in node.names}
        seen -= {(module, new, old) for module, new, old in seen if new != old and old in moved}
        assert seen == {(module, name, name) for module, names in homes.items() for name in names}

    def test_a_moved_name_warns_and_is_the_new_one(self) -> None:
        with pytest.warns(DeprecationWarning, match="segpaste.bank.Photos is now segpaste.datasets.AnnotatedDataset"):
            found = segpaste.bank.Photos
        assert found is segpaste.datasets.AnnotatedDataset

    def test_there_are_lazy_packages(self) -> None:
        assert len(LAZY_PACKAGES) >= 5

    @pytest.mark.parametrize("kind", ["zip", "no sources"])
    def test_the_package_needs_no_source_files(self, kind: str, tmp_path: Path) -> None:
        """There are none in a frozen application, or on a path inside an archive."""
        shutil.copytree(PACKAGE, tmp_path / "segpaste", ignore=shutil.ignore_patterns("__pycache__", "*.so", "src"))
        root = tmp_path
        if kind == "zip":
            root = Path(shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, "segpaste"))
        else:
            compileall.compile_dir(tmp_path, quiet=1, legacy=True)
            for source in tmp_path.rglob("*.py"):
                source.unlink()
        code = (
            f"import segpaste; assert segpaste.__file__.startswith({str(root)!r}); segpaste.derive_seed(0, 0, 0, 0, 0)"
        )
        run = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(root)}, check=False, timeout=300)
        assert run.returncode == 0

    def test_other_names_are_refused(self, room: ModuleType) -> None:
        with pytest.raises(AttributeError, match="module 'lazy_room' has no attribute 'other'"):
            room.other  # noqa: B018

    def test_what_really_happened_is_raised(self, room: ModuleType, tmp_path: Path) -> None:
        """An AttributeError inside of a module is not taken for a missing name."""
        (tmp_path / "lazy_room" / "home.py").write_text("import sys\nsys.no_such_function()")
        with pytest.raises(ImportError, match=r"lazy_room\.late: .*home failed with AttributeError: .*no_such"):
            exec("from lazy_room import late", {})


class TestVersion:
    def test_version_is_the_installed_one(self) -> None:
        assert segpaste.__version__ == importlib.metadata.version("segpaste")
