"""Properties that decide which code Triton compiles for a launch, and a choice of launches that shows each such value.

A value is a property of the arguments that a kernel and the functions that it calls read: an absent field, a dtype, an
integer that is 1, a constant, or the outcome of a condition that is decided while the kernel is compiled.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeVar

import triton
import triton.language as tl
from torch import Tensor

T = TypeVar("T")
Value = tuple[str, str]
"""A field such as ``source.depth``, or a condition such as ``source.depth is not None``, and what it is."""

MANY = 32
"""Blocks above this size count as large ones."""

OUTCOMES = ("True", "False")

ALIASES = {"axis": "x_axis"}
"""Arguments of functions by other names than those of their kernels, and the names there."""

TOGETHER = (("target.images", "out.images"), ("target.images", "held.images"))
"""Fields whose values decide some code together: colours that wait in spare bits are written by their dtype."""

COUNTS: Mapping[str, Collection[str]] = {
    "fill_masks": ("total",),
    "keep": ("num_pixels", "num_values"),
    "stage": ("num_values",),
}
"""Arguments of kernels that count the values of a whole batch: from 2**31 on Triton makes them 64 bits wide."""

_ALWAYS_PANOPTIC = ("target.panoptic", "target.semantic", "target.depth", "source.depth", "labels.rank")
UNREACHABLE: Mapping[str, Collection[Value]] = {
    "look_until_settled": {  # priorities need a panoptic map, rounds of removal need depth too, ClassMix takes neither
        *((f"{name} is not None", "False") for name in (*_ALWAYS_PANOPTIC, "labels.is_stuff", "visible.owner")),
        ("mix.classes is None", "False"),
        ("mix.classes is not None", "True"),
        ("EXCLUSIVE", "False"),
    },
}
"""Outcomes of conditions that no forward has, by kernel."""


class Launch(NamedTuple):
    """A kernel, its arguments, and their values."""

    kernel: Any
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    values: frozenset[Value]

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self.kernel.fn.__name__)

    @property
    def outcomes(self) -> set[Value]:
        """Flags, and outcomes of conditions."""
        return {value for value in self.values if value[1] in OUTCOMES}

    @property
    def decisive(self) -> set[Value]:
        """The values except integers that are not 1."""
        return {value for value in self.values if value[1] not in ("16", "any")}

    @property
    def branching(self) -> set[Value]:
        """Outcomes of conditions, and counts that are 64 bits wide."""
        return {value for value in self.decisive if value[1] in (*OUTCOMES, "wide")}

    @property
    def pairs(self) -> frozenset[tuple[Value, ...]]:
        """Pairs of values."""
        return frozenset(combinations(sorted(self.values), 2))


def launch_of(kernel: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Launch:
    given = dict(zip((param.name for param in kernel.params), arguments, strict=False))
    constants = {param.name for param in kernel.params if param.is_constexpr}
    given |= {name: tl.constexpr(value) for name, value in options.items() if name in constants}
    fields = dict(_fields(kernel, given))
    together = {(f"{a}, {b}", f"{fields[a]}, {fields[b]}") for a, b in TOGETHER if a in fields and b in fields}
    return Launch(kernel, arguments, options, frozenset({*fields.items(), *together, *_outcomes(kernel, given)}))


def widened(launch: Launch) -> Launch | None:
    """Return the launch for so large a batch that its `COUNTS` are 64 bits wide; None for a kernel that has none."""
    if launch.name not in COUNTS:
        return None
    given = zip((param.name for param in launch.kernel.params), launch.arguments, strict=False)
    counts = COUNTS[launch.name]
    return launch_of(launch.kernel, tuple(v + (1 << 32) if n in counts else v for n, v in given), launch.options)


def code_of(kernel: Any) -> str:
    """Return the code of a kernel and of all functions that it calls, without comments and places of lines, and the
    values of the constants of modules in it.
    """
    found = []
    for function, tree in _functions(kernel).items():
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & function.__globals__.keys()
        values = {name: function.__globals__[name] for name in sorted(names)}
        plain = {name: getattr(value, "value", value) for name, value in values.items()}
        shown = {name: repr(v) for name, v in plain.items() if isinstance(v, int | float | str | tuple)}
        found.append(f"{function.__module__}.{function.__qualname__} {shown} {ast.dump(tree)}")
    return "\n".join(sorted(found))


def missing(launches: Iterable[Launch]) -> list[str]:
    """Return outcomes of conditions that no launch has, though a forward may have them."""
    seen: dict[str, set[Value]] = defaultdict(set)
    for launch in launches:
        seen[launch.name] |= launch.values
    return [
        f"{name}: {text} is never {outcome}"
        for name, values in sorted(seen.items())
        for text in sorted({text for text, value in values if value in OUTCOMES})
        for outcome in OUTCOMES
        if (text, outcome) not in {*values, *UNREACHABLE.get(name, ())}
    ]


def shares(launches: Iterable[Launch], cards: Sequence[int], versions: int) -> list[list[tuple[int, Launch]]]:
    """Choose cards and launches for each of some versions of Triton, so that together they have all that decides code.

    Every kernel is compiled for every card. The first version, the oldest, has the most limits and compiles every
    decisive value; the others compile every branching one. `scripts/compile_kernels.py` compiles all pairs of values
    for all cards with the Triton that runs it.
    """
    found: list[list[tuple[int, Launch]]] = [[] for _ in range(versions)]
    for same in _by_kernel(launches):
        ways = [(launch, card, version) for launch in same for card in cards for version in range(versions)]
        needs = [
            {(card,), (version,), *product(launch.branching if version else launch.decisive, [version])}
            for launch, card, version in ways
        ]
        for launch, card, version in _cover(ways, needs):
            found[version].append((card, launch))
    return found


def covering(launches: Iterable[Launch]) -> list[Launch]:
    """Choose launches that together have every pair of values of each kernel that one of them has."""
    return [launch for same in _by_kernel(launches) for launch in _cover(same, [launch.pairs for launch in same])]


def _by_kernel(launches: Iterable[Launch]) -> list[list[Launch]]:
    """Return the launches of each kernel, the first of those with the same values."""
    found: dict[str, dict[frozenset[Value], Launch]] = defaultdict(dict)
    for launch in launches:
        found[launch.name].setdefault(launch.values, launch)
    return [list(same.values()) for same in found.values()]


def _cover(ways: Sequence[T], needs: Sequence[Collection[Hashable]]) -> list[T]:
    """Choose ways until no need is left, always the one that meets the most of those left."""
    left = [set(need) for need in needs]
    chosen = []
    while any(left):
        best = max(range(len(left)), key=lambda i: len(left[i]))
        chosen.append(ways[best])
        met = set(left[best])
        for need in left:
            need -= met
    return chosen


def _fields(kernel: Any, given: Mapping[str, Any]) -> Iterator[Value]:
    """The values of the arguments that the kernel reads."""
    for name, value in given.items():
        for field, kind in _kinds(name, value):
            if "." not in field or field.rpartition(".")[2] in _attributes(kernel):
                yield field, kind


def _kinds(name: str, value: Any) -> Iterator[Value]:
    if isinstance(value, tl.constexpr):
        yield name, _size(value.value) if type(value.value) is int and name != "PICK" else str(value.value)
    elif isinstance(value, Tensor):
        yield name, f"{value.dtype}" if value.data_ptr() % 16 == 0 else f"{value.dtype}, not aligned"
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for field, item in zip(names, value, strict=True):
            yield from _kinds(f"{name}.{field}", item)
    elif type(value) is int:
        yield name, "1" if value == 1 else "wide" if value >= 1 << 31 else "16" if value % 16 == 0 else "any"
    else:
        yield name, "None" if value is None else type(value).__name__


def _size(value: int) -> str:
    return str(value) if value < 2 else "small" if value <= MANY else "large"


def _outcomes(kernel: Any, given: Mapping[str, Any]) -> Iterator[Value]:
    """The outcomes of the static conditions in the kernel and in the functions that it calls."""
    scope = {**given, **{alias: given.get(name) for alias, name in ALIASES.items()}}
    for text, (code, names, of_module) in _conditions(kernel).items():
        constants = [eval(name, of_module, scope) for name in names if name.partition(".")[0] in given]
        if text.endswith(" None") or (constants and all(isinstance(c, tl.constexpr) for c in constants)):
            yield text, str(bool(eval(code, of_module, scope)))


@cache
def _conditions(kernel: Any) -> dict[str, tuple[CodeType, list[str], dict[str, Any]]]:
    """Conditions on the kernel's arguments, with the names in them."""
    params = {*(param.name for param in kernel.params), *ALIASES}
    found = {}
    for function, tree in _functions(kernel).items():
        tests = (node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp))
        for part in (part for test in tests for part in _parts(test)):
            roots = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
            if roots & params and roots <= {*params, *function.__globals__}:
                names = [ast.unparse(n) for n in ast.walk(part) if isinstance(n, ast.Name | ast.Attribute)]
                longest = [n for n in names if not any(other.startswith(f"{n}.") for other in names)]
                text = ast.unparse(part)
                found[text] = compile(text, kernel.fn.__name__, "eval"), longest, function.__globals__
    return found


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands of ``and``, ``or`` and ``not`` in a condition, without results of calls."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _parts(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand)
    elif not any(isinstance(node, ast.Call) for node in ast.walk(test)):
        yield test


@cache
def _attributes(kernel: Any) -> set[str]:
    """Names of the fields that the kernel, and the functions that it calls, read."""
    trees = _functions(kernel).values()
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@cache
def _functions(kernel: Any) -> dict[Any, ast.AST]:
    """The kernel and all functions that it calls, parsed."""
    waiting, found = [kernel], {}
    while waiting:
        function = waiting.pop().fn
        if function not in found:
            found[function] = tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
            named = (_named(node, function.__globals__) for node in ast.walk(tree))
            waiting += [value for value in named if isinstance(value, triton.JITFunction)]
    return found


def _named(node: ast.AST, of_module: Mapping[str, Any]) -> Any:
    """Return the object that a name, or an attribute of a module, stands for."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = of_module.get(node.value.id)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return of_module.get(node.id) if isinstance(node, ast.Name) else None
