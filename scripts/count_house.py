#!/usr/bin/env python3
"""Count what makes the source hard to read, and compare it with ceilings.

    python scripts/count_house.py                # the table
    python scripts/count_house.py --traced       # also the walks, which run a command and a paste
    python scripts/count_house.py --list NAME    # the files or places of one count

`CEILINGS` has the highest value of each count; `tests/test_house.py` fails above it. A commit that lowers a count
lowers its ceiling; one that raises a ceiling says why. In `OPEN` rooms a further format, trainer or tool is a file of
its own: there only lines of files that several modules import count, and every file counts by itself.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "segpaste"
LONG_FILE = 400
OPEN = (
    "datasets/formats", "datasets/writers", "datasets/checking/tools", "datasets/in_memory", "bank/format",
    "integrations", "targets", "presets", "tuning",
)  # fmt: skip
"""Folders with many of a kind."""
IMPORTED_BY = 3
"""Importers that make a file of an open room a shared one."""
AROUND_DATASETS = ("datasets", "cli", "bank", "replay", "tuning", "augmenting", "viz", "integrations", "targets")

CEILINGS: dict[str, int] = {
    "files with one importer, in their own folder": 92,
    "files over 400 lines": 0,
    "protocols of a dataset with annotations": 2,
    "getattr and hasattr of members of a dataset": 8,
    "isinstance of single datasets": 27,
    "walks through COCO's tables": 0,
    "readers of boxes only": 1,
    "functions that round outwards": 3,
    "shared lines of augmentation": 5_600,
    "shared lines of augmenting": 4_900,
    "shared lines of bank": 5_800,
    "shared lines of cli": 3_300,
    "shared lines of datasets": 25_100,
    "shared lines of encoder": 3_300,
    "shared lines of engine": 10_765,
    "shared lines of epochs": 1_200,
    "shared lines of experimental": 400,
    "shared lines of integrations": 300,
    "shared lines of invariants": 1_700,
    "shared lines of presets": 100,
    "shared lines of replay": 800,
    "shared lines of samplers": 900,
    "shared lines of targets": 1_300,
    "shared lines of the top": 1_100,
    "shared lines of tuning": 700,
    "shared lines of types": 3_400,
    "shared lines of viz": 3_200,
    "shared lines of workspace": 1_100,
}
"""Highest value of each count of the table, lines to the next hundred; what is not named is not limited."""
WALKS: dict[str, int] = {
    "files of segpaste augment": 153,
    "records of segpaste augment": 85,
    "calls from segpaste augment to the forward": 8,
    "files of a forward": 28,
    "records of a forward": 10,
}
"""Highest value of each count of `walks`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a count is above its ceiling."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--traced", action="store_true", help="also count the walks")
    parser.add_argument("--list", metavar="NAME", help="print the places of one count")
    options = parser.parse_args(argv)
    house = House(PACKAGE)
    if options.list is not None:
        print(*house.places[options.list], sep="\n")
        return 0
    found = house.counts()
    above = list(exceeded(found, CEILINGS))
    for name, value in found.items():
        print(f"{value:7,}  {name}")
    if options.traced:
        walked = walks()
        above += exceeded(walked, WALKS)
        for name, value in walked.items():
            print(f"{value:7,}  {name}")
    print(*above, sep="\n", end="\n" if above else "")
    return 1 if above else 0


def exceeded(found: Mapping[str, int], ceilings: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each count above its ceiling."""
    for name, most in ceilings.items():
        if found.get(name, 0) > most:
            yield f"{name}: expected at most {most:,}, got {found[name]:,}: move or remove code, or raise the ceiling"


class House:
    """The modules of a package, parsed.

    Args:
        package: its folder.

    Attributes:
        places: names of what was counted, by count.
    """

    def __init__(self, package: Path) -> None:
        self.package = package
        self.texts = {path.relative_to(package): path.read_text() for path in sorted(package.rglob("*.py"))}
        self.nodes = {path: [*_relevant(ast.parse(text))] for path, text in self.texts.items()}

    def counts(self) -> dict[str, int]:
        """Return the table."""
        lines = {path: text.count("\n") for path, text in self.texts.items()}
        found = {"files": len(lines), "lines of Python": sum(lines.values()), "lines of C++": self._lines_of_native()}
        found |= {name: len(places) for name, places in self.places.items()}
        rooms: Counter[str] = Counter()
        for path, num in lines.items():
            if self._is_shared(path):
                rooms[path.parts[0] if len(path.parts) > 1 else "the top"] += num
        return found | {f"shared lines of {room}": num for room, num in sorted(rooms.items())}

    @cached_property
    def places(self) -> dict[str, list[str]]:
        """Files or places of each count that is a number of them."""
        num_lines = {path: text.count("\n") for path, text in self.texts.items()}
        return {
            "files with one importer, in their own folder": sorted(map(str, self._alone())),
            f"files over {LONG_FILE} lines": [f"{path} {num}" for path, num in num_lines.items() if num > LONG_FILE],
            "protocols of a dataset with annotations": sorted(self._protocols()),
            "getattr and hasattr of members of a dataset": sorted(self._asked()),
            "isinstance of single datasets": sorted(self._told_apart()),
            "walks through COCO's tables": sorted(self._walks()),
            "readers of boxes only": sorted(self._boxed()),
            "functions that round outwards": sorted(self._outwards()),
        }

    def _lines_of_native(self) -> int:
        files = (path for path in self.package.rglob("*") if path.suffix in (".cpp", ".hpp", ".h"))
        return sum(path.read_text().count("\n") for path in files)

    # Imports

    @cached_property
    def importers(self) -> dict[Path, set[Path]]:
        """The files that import each file, in statements or in tables of names that are imported later."""
        names = {_module(path): path for path in self.texts}
        found: dict[Path, set[Path]] = defaultdict(set)
        for path, nodes in self.nodes.items():
            for name in _imported(nodes):
                target = names.get(name) or names.get(name.rpartition(".")[0])
                if target is not None and target != path:
                    found[target].add(path)
        return found

    def _alone(self) -> Iterator[Path]:
        for path, by in self.importers.items():
            others = {other for other in by if other.name != "__init__.py"}
            if path.name != "__init__.py" and len(others) == 1 and next(iter(others)).parent == path.parent:
                yield path

    def _is_shared(self, path: Path) -> bool:
        is_open = any(str(path).startswith(f"{room}/") for room in OPEN)
        return not is_open or len(self.importers.get(path, ())) >= IMPORTED_BY

    # Datasets

    @cached_property
    def _classes(self) -> dict[str, tuple[Path, ast.ClassDef]]:
        """Classes that give samples by an index, or what else is known of an image."""
        known = {
            node.name: (path, node)
            for path, nodes in self.nodes.items()
            if path.parts[0] in AROUND_DATASETS
            for node in nodes
            if isinstance(node, ast.ClassDef)
        }
        found = {name for name, (_, node) in known.items() if _gives_samples(node) or _knows_rows(node)}
        while more := {name for name, (_, node) in known.items() if name not in found and _bases(node) & found}:
            found |= more
        return {name: known[name] for name in found}

    def _protocols(self) -> Iterator[str]:
        for path, nodes in self.nodes.items():
            for node in nodes:
                if not isinstance(node, ast.ClassDef) or not {"Protocol", "ABC"} & _bases(node):
                    continue
                if _gives_samples(node) or _knows_rows(node) or _bases(node) & self._classes.keys():
                    yield f"{path}: {node.name}"

    @cached_property
    def _members(self) -> set[str]:
        names = {
            child.name if isinstance(child, ast.FunctionDef) else child.target.id
            for _, node in self._classes.values()
            for child in node.body
            if isinstance(child, ast.FunctionDef)
            or (isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name))
        }
        return {name for name in names if not name.startswith("_")}

    def _asked(self) -> Iterator[str]:
        for path, call in self._calls(("getattr", "hasattr")):
            name = call.args[1] if len(call.args) > 1 else None
            if isinstance(name, ast.Constant) and name.value in self._members:
                yield f"{path}:{call.lineno} {ast.unparse(call)}"

    def _told_apart(self) -> Iterator[str]:
        concrete = {name for name, (_, node) in self._classes.items() if not {"Protocol", "ABC"} & _bases(node)}
        for path, call in self._calls(("isinstance",)):
            if {node.id for node in ast.walk(call.args[1]) if isinstance(node, ast.Name)} & concrete:
                yield f"{path}:{call.lineno} {ast.unparse(call)}"

    def _calls(self, names: Sequence[str]) -> Iterator[tuple[Path, ast.Call]]:
        for path, nodes in self.nodes.items():
            if path.parts[0] in AROUND_DATASETS:
                for node in nodes:
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                        yield path, node

    def _walks(self) -> Iterator[str]:
        """Yield the files that read the entries of a COCO file themselves, not through `segpaste.datasets.tables`."""
        for path, nodes in self.nodes.items():
            if "category_id" not in self.texts[path]:
                continue
            read = {
                text
                for node in nodes
                for text in _constants(node)
                if text in ("images", "annotations", "image_id", "category_id")
            }
            if {"annotations", "image_id", "category_id"} <= read:
                yield str(path)

    def _boxed(self) -> Iterator[str]:
        """Yield the datasets that say of themselves that they have no masks."""
        for name, (path, node) in self._classes.items():
            source = ast.unparse(node)
            if re.search(r"has_masks( ?: ?bool)? = (False|.*task|.*detect)", source) or "Boxed" in name:
                yield f"{path}: {name}"

    def _outwards(self) -> Iterator[str]:
        """Yield the functions on boxes that round one side down and the other up, in calls or by integer division."""
        for path, nodes in self.nodes.items():
            for node in nodes if "ceil" in self.texts[path] else ():
                if not isinstance(node, ast.FunctionDef):
                    continue
                called = {_name(call.func).strip("_") for call in ast.walk(node) if isinstance(call, ast.Call)}
                if called & _UP and called & _DOWN and _BOX_WORD.search(ast.unparse(node)):
                    yield f"{path}: {node.name}"


_BOX_WORD = re.compile(r"\b(box|boxes|x1|left|corners|extents?|window)\b")
_UP, _DOWN = {"ceil"}, {"floor", "int", "long", "trunc"}


_COUNTED = (ast.ClassDef, ast.FunctionDef, ast.Call, ast.Subscript, ast.Import, ast.ImportFrom, ast.Constant)
_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.Name)


def _relevant(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree that are counted."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, _COUNTED):
            yield node
        for value in node.__dict__.values():
            if isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                left.append(value)


def _module(path: Path) -> str:
    parts = ("segpaste", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the modules and names that a module imports, and texts that may name one."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("segpaste."):
            yield node.value


def _bases(node: ast.ClassDef) -> set[str]:
    return {_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {child.name: child for child in node.body if isinstance(child, ast.FunctionDef)}


def _gives_samples(node: ast.ClassDef) -> bool:
    given = _methods(node).get("__getitem__")
    return given is not None and given.returns is not None and "DenseSample" in ast.unparse(given.returns)


def _knows_rows(node: ast.ClassDef) -> bool:
    return bool({"annotation_rows", "annotation_ids", "image_row"} & _methods(node).keys())


def _constants(node: ast.AST) -> Iterator[str]:
    """Yield the texts with which a node reads a table: subscripts, and the arguments of ``get`` and its like."""
    given: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        given = [node.slice]
    elif isinstance(node, ast.Call):
        given = node.args
    yield from (arg.value for arg in given if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


# Walks


def walks() -> dict[str, int]:
    """Return files, records and depth of what ``segpaste augment`` on two images and a forward pass through."""
    sys.path[:0] = [str(ROOT / "scripts")]
    import make_kept
    import torch

    from segpaste import BatchCopyPaste, BatchedDenseSample, cli
    from segpaste.datasets import SceneConfig, SceneDataset

    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        dataset = Path(name) / "dataset"
        make_kept.write_dataset(dataset)

        def augment(out: str) -> None:
            with contextlib.redirect_stderr(io.StringIO()):
                words = [str(dataset), "--out", str(Path(name) / out), "--num", "2", "placement.grouping=instance"]
                assert cli.main(["augment", *words]) == 0

        augment("first")  # what is imported and made once is not counted
        with Walk() as walk:
            augment("second")
        found |= walk.counts("segpaste augment")
    scenes = SceneDataset(2, SceneConfig(height=32, width=32), 1, modalities=["image", "instance"])
    batch = BatchedDenseSample.from_samples([scenes[0], scenes[1]]).to_padded(20)
    module, seeds = BatchCopyPaste(), torch.arange(2)
    module(batch.derived(sample_seeds=seeds))
    with Walk() as walk:
        module(batch.derived(sample_seeds=seeds))
    return found | walk.counts("a forward")


class Walk:
    """Files, records and depth of the calls within a block, by the profiler of Python."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.records: set[type] = set()
        self.depth = 0

    def __enter__(self) -> Walk:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def counts(self, name: str) -> dict[str, int]:
        """Return the counts, with names."""
        found = {f"files of {name}": len(self.files), f"records of {name}": len(self.records)}
        return found | ({f"calls from {name} to the forward": self.depth} if self.depth > 1 else {})

    def _called(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)):
            self.files.add(code.co_filename)
            if code.co_qualname.endswith("BatchCopyPaste.forward"):
                self.depth = max(self.depth, _depth(frame))
        elif code.co_filename.startswith("<") and code.co_name in ("__init__", "__new__", "<lambda>"):
            kind = frame.f_locals.get("_cls") or type(frame.f_locals.get("self"))
            if isinstance(kind, type) and kind.__module__.startswith("segpaste."):
                self.records.add(kind)


def _depth(frame: FrameType | None) -> int:
    num = 0
    while frame is not None:
        num += frame.f_code.co_filename.startswith(str(PACKAGE))
        frame = frame.f_back
    return num


if __name__ == "__main__":
    sys.exit(main())
