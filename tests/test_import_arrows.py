"""Which room may import which: a table, kept over every import statement of the package, nested or not.

A new room, or a new arrow, is a new entry of ARROWS. Modules never import each other in a circle, neither in a function
nor for types only, also inside one room, and neither do the folders of a room.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "segpaste"

# A key is a room, that is a module or package directly under segpaste, or one module that may do more than
# its room.
ARROWS: dict[str, set[str]] = {
    "seeding": set(),
    "extras": set(),
    "workspace": set(),
    "types": {"seeding"},
    "engine": {"types", "seeding"},
    "epochs": {"seeding"},
    "augmentation": {"types", "engine", "seeding", "epochs", "workspace"},  # a configuration is a file too
    "augmentation.sources.crop_pool": {"types", "engine", "seeding", "epochs", "workspace", "bank", "datasets"},
    "datasets": {"types", "engine", "seeding", "epochs", "samplers", "workspace"},
    "invariants": {"types", "augmentation"},
    "targets": {"types"},
    "viz": {"types", "targets", "augmentation", "workspace"},
    "viz.bank_gallery": {"workspace", "bank"},
    "samplers": {"seeding", "epochs"},
    "bank": {"types", "seeding", "epochs", "samplers", "workspace", "datasets"},
    "encoder": {"seeding", "samplers", "bank", "workspace"},  # a bank's embeddings may stand for a CSV
    "presets": {"augmentation", "types"},
    "replay": {"types", "augmentation", "engine", "datasets", "bank", "seeding"},
    "tuning": {"augmentation", "datasets", "seeding", "workspace"},
    "tuning.setup": {"augmentation", "datasets", "workspace", "augmenting"},
    "augmenting": {"types", "seeding", "workspace", "augmentation", "datasets", "bank", "replay", "presets", "viz"},
    "experimental": {"types", "targets", "engine", "augmentation", "seeding", "integrations"},
    "integrations": {"types", "targets", "viz", "bank", "datasets"},  # and the framework of each module
    "integrations._hub_columns": {"datasets"},  # what an image is
    "integrations._hub": {"types", "targets", "datasets"},  # its decoder of polygons
    "integrations._training": {"types", "bank", "datasets", "viz", "epochs", "augmentation"},
    "integrations.rfdetr": {"types", "targets", "bank", "datasets", "augmentation"},
    "integrations.ultralytics": {"types", "targets", "bank", "augmentation"},
    "integrations.huggingface": {"types", "targets", "augmentation", "epochs", "seeding"},
    "integrations.lightning": {"types", "viz", "bank", "augmentation", "seeding"},
    "integrations._lightning": {"types", "bank", "datasets", "epochs"},  # it makes loaders
}
ROOMS = {key.partition(".")[0] for key in ARROWS} | {"cli"}
ARROWS["cli"] = ROOMS - {"cli"} | {"segpaste"}
ARROWS["__main__"] = {"cli"}
ARROWS["__init__"] = ROOMS - {"cli"}

FOR_EVERYBODY = {"extras"}  # the hints for optional dependencies
GRAB_BAGS = {"utils", "util", "common", "helpers", "helper", "misc"}

HEAVY = {
    "triton",
    "pycocotools",
    "yaml",
    "tqdm",
    "deflate",
    "matplotlib",
    "pandas",
    "scipy",
    "lmdb",
    "webdataset",
    "lightning",
}

# Runs argv[2] and reports each import of a package of argv[3:] by a module of segpaste. The importing module
# counts and not sys.modules, since what torch imports is not our affair.
SPY = """
import builtins, sys
sys.path.insert(0, sys.argv[1])
real_import, heavy = builtins.__import__, set(sys.argv[3:])
def spy(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if level == 0 and name.partition(".")[0] in heavy and importer.partition(".")[0] == "segpaste":
        print(importer, "imports", name)
    return real_import(name, globals, locals, fromlist, level)
builtins.__import__ = spy
exec(sys.argv[2])
"""


def imported_names(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for all that the file imports; relative imports are made absolute."""
    here = ("segpaste", *path.relative_to(package).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) + 1 - node.level] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def is_private(room: str) -> bool:
    """Tell whether the module is private: it has no row, so it imports no room and all may import it."""
    return room.startswith("_") and not room.startswith("__")


def room_of(name: str) -> str | None:
    """Return the room of a dotted name, "segpaste" for the package itself, None for other packages."""
    top, _, rest = name.partition(".")
    if top != "segpaste":
        return None
    room = rest.partition(".")[0]
    return room if room in ROOMS or is_private(room) else "segpaste"


def broken_arrows(package: Path) -> list[str]:
    """Return one line for each import statement under the package that ARROWS does not allow."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).with_suffix("")
        room = place.parts[0]
        allowed = ARROWS.get(".".join(place.parts), ARROWS.get(room, set())) | FOR_EVERYBODY | {room}
        for line, name in imported_names(path, package):
            target = room_of(name)
            if target and not is_private(target) and target not in allowed:
                found.append(f"{place}.py:{line} imports {name}; {room} may import {', '.join(sorted(allowed))}")
    return found


def misplaced_modules(package: Path) -> list[str]:
    """Return one line for each module that belongs to no room, or is named after no subject."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] not in ROOMS and not parts[0].startswith("_"):
            found.append(f"{'/'.join(parts)}.py: no room of ARROWS is called {parts[0]}")
        if GRAB_BAGS & {part.strip("_") for part in parts}:
            found.append(f"{'/'.join(parts)}.py: name the subject, not the kind of code")
    return found


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return which module imports which, by dotted names; a package stands for its ``__init__``."""
    names = {
        path: ".".join(("segpaste", *path.relative_to(package).with_suffix("").parts)) for path in package.rglob("*.py")
    }
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known = set(names.values())
    graph: dict[str, set[str]] = {}
    for path, module in names.items():
        graph[module] = set()
        for _, name in imported_names(path, package):
            while name and name not in known:
                name = name.rpartition(".")[0]
            graph[module] |= {name} - {"", "segpaste", module}
    return graph


def include_graph(sources: Path) -> dict[str, set[str]]:
    """Return which C++ file includes which, by dotted names."""
    return {
        ".".join(path.relative_to(sources).with_suffix("").parts): {
            name.replace("/", ".") for name in re.findall(r'^#include "(.+)\.hpp"$', path.read_text(), re.MULTILINE)
        }
        for path in sources.rglob("*.[ch]pp")
    }


def room_graph(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return which folder or module imports which of its neighbours in the same folder, from a graph of modules."""
    graph: dict[str, set[str]] = {}
    for module, imported in modules.items():
        here = module.split(".")
        for name in imported:
            there = name.split(".")
            shared = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if shared is not None:
                graph.setdefault(".".join(here[: shared + 1]), set()).add(".".join(there[: shared + 1]))
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return names that import one another in a circle, the first one twice; nothing where there are none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(module) for module in error.args[1]]
    return []


def heavy_imports(root: Path, statement: str) -> list[str]:
    """Run the statement in a fresh interpreter and return what segpaste under root imports of HEAVY."""
    command = [sys.executable, "-c", SPY, str(root), statement, *sorted(HEAVY)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write a small package of the given files and return its folder."""
    package = root / "segpaste"
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    return package


class TestPackage:
    def test_the_table_has_no_cycle(self) -> None:
        assert list(graphlib.TopologicalSorter(ARROWS).static_order())

    def test_the_table_knows_rooms_that_exist(self) -> None:
        there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        assert ROOMS | {"__main__", "__init__"} <= there
        modules = {
            path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in PACKAGE.rglob("*.py")
        }
        assert {key for key in ARROWS if "." in key} <= modules

    def test_no_modules_import_each_other(self) -> None:
        assert len(import_graph(PACKAGE)) > 200
        assert circle(import_graph(PACKAGE)) == []

    def test_no_folders_of_a_room_import_each_other(self) -> None:
        graph = room_graph(import_graph(PACKAGE))
        assert "segpaste.bank.storage" in graph["segpaste.bank.format"]
        assert circle(graph) == []

    def test_no_headers_or_their_folders_include_each_other(self) -> None:
        graph = include_graph(PACKAGE / "engine" / "native" / "src")
        assert "base.arena" in graph["paste.axes"]
        assert {name for names in graph.values() for name in names} <= set(graph)
        assert circle(graph) == []
        assert circle(room_graph(graph)) == []

    def test_there_is_something_to_check(self) -> None:
        names = [name for path in PACKAGE.rglob("*.py") for _, name in imported_names(path, PACKAGE)]
        assert "types" in {room_of(name) for name in names}

    def test_every_import_follows_an_arrow(self) -> None:
        assert broken_arrows(PACKAGE) == []

    def test_every_module_belongs_to_a_room(self) -> None:
        assert misplaced_modules(PACKAGE) == []

    def test_import_is_light(self) -> None:
        statement = "import segpaste\nfor name in segpaste.__all__: getattr(segpaste, name)"
        assert heavy_imports(PACKAGE.parent, statement) == []


class TestPlanted:
    """The checks above, on packages made to be wrong or just right."""

    @pytest.mark.parametrize(
        "statement",
        [
            "import segpaste.types.dense",
            "from .dense import DenseSample",
            "def f():\n    from segpaste.types import dense",
            "if TYPE_CHECKING:\n    from segpaste.types.dense import DenseSample",
        ],
    )
    def test_a_circle_is_found(self, tmp_path: Path, statement: str) -> None:
        files = {
            "types/__init__.py": "",
            "types/dense.py": "from segpaste.types import fields",
            "types/fields.py": statement,
        }
        graph = import_graph(plant(tmp_path, files))
        assert set(circle(graph)) == {"segpaste.types.dense", "segpaste.types.fields"}

    def test_a_circle_of_folders_is_found(self, tmp_path: Path) -> None:
        files = {
            "bank/__init__.py": "",
            "bank/format/writer.py": "from segpaste.bank.build.parts import x",
            "bank/format/meta.py": "",
            "bank/build/parts.py": "",
            "bank/build/run.py": "from ..format import meta",
        }
        package = plant(tmp_path, files)
        assert circle(import_graph(package)) == []
        assert set(circle(room_graph(import_graph(package)))) == {"segpaste.bank.format", "segpaste.bank.build"}

    @pytest.mark.parametrize(
        ("file", "statement"),
        [
            ("types/dense.py", "import segpaste.augmentation"),
            ("types/dense.py", "from ..augmentation import config"),
            ("types/dense.py", "from .. import engine"),
            ("types/dense.py", "def f():\n    from segpaste.viz import overlay"),
            ("types/deep/er.py", "from ...datasets.coco import read"),
            ("engine/schema.py", "from segpaste import augmentation"),
            ("engine/schema.py", "if TYPE_CHECKING:\n    import segpaste.samplers as s"),
            ("augmentation/sources/strategies.py", "from segpaste.bank import protocol"),
            ("viz/overlay.py", "from segpaste import BatchCopyPaste"),
            ("viz/overlay.py", "import segpaste"),
            ("seeding.py", "from .types import DenseSample"),
            ("seeding.py", "from . import types"),
            ("replay.py", "from segpaste.cli import main"),
            ("augmenting/report.py", "from segpaste.cli import main"),
            ("__init__.py", "from segpaste.cli import main"),
            ("_build.py", "import segpaste.types"),
        ],
    )
    def test_wrong_import_is_found(self, tmp_path: Path, file: str, statement: str) -> None:
        (line,) = broken_arrows(plant(tmp_path, {file: statement}))
        assert line.startswith(f"{file}:")

    @pytest.mark.parametrize(
        ("file", "statement"),
        [
            (
                "types/dense.py",
                "from . import fields\nfrom .fields import FIELDS\nimport segpaste.types.check",
            ),
            ("types/dense.py", "import torch, os.path\nfrom segpaste_other import types"),
            ("types/dense.py", "from segpaste._build import x"),
            (
                "augmentation/sources/strategies.py",
                "from ..types import DenseSample\nfrom segpaste import engine, seeding",
            ),
            ("augmentation/sources/crop_pool.py", "from segpaste.bank import protocol"),
            ("engine/select.py", "from segpaste.extras import require"),
            ("cli/main.py", "import segpaste\nfrom segpaste import viz, datasets, __version__"),
            ("__main__.py", "from segpaste.cli import main"),
            ("__init__.py", "from segpaste.types import DenseSample"),
        ],
    )
    def test_allowed_import_is_let_through(self, tmp_path: Path, file: str, statement: str) -> None:
        assert broken_arrows(plant(tmp_path, {file: statement})) == []

    @pytest.mark.parametrize(
        "file", ["tools.py", "toolbox/paint.py", "types/utils.py", "viz/_helpers.py", "common/a.py"]
    )
    def test_misplaced_module_is_found(self, tmp_path: Path, file: str) -> None:
        found = misplaced_modules(plant(tmp_path, {file: ""}))
        assert found
        assert all(line.startswith(f"{file}:") for line in found)

    def test_placed_module_is_let_through(self, tmp_path: Path) -> None:
        assert misplaced_modules(plant(tmp_path, {"types/dense.py": "", "_build.py": "", "seeding.py": ""})) == []

    def test_heavy_import_is_found(self, tmp_path: Path) -> None:
        plant(tmp_path, {"__init__.py": "from . import types", "types/__init__.py": "import yaml.nodes"})
        assert heavy_imports(tmp_path, "import segpaste") == ["segpaste.types imports yaml.nodes"]

    def test_heavy_import_at_first_use_is_let_through(self, tmp_path: Path) -> None:
        plant(tmp_path, {"__init__.py": "def load():\n    import yaml"})
        assert heavy_imports(tmp_path, "import segpaste, yaml") == []
        assert heavy_imports(tmp_path, "import segpaste; segpaste.load()") == ["segpaste imports yaml"]
