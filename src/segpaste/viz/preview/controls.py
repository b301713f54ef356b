"""Controls of the page, derived from the fields of a config, and a configuration as text to copy.

Types, limits, defaults and docstrings are those of the fields, so a new field gets a control without a change here.
Only the order of the first group, the ends of some sliders and the fields that are left out are chosen by hand.

Texts are YAML for ``--config``, Python, and words of a command line. Each contains only what differs from the defaults
or from a preset. Reading it back gives the same configuration.
"""

from __future__ import annotations

import inspect
import re
import shlex
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from segpaste.augmentation import BatchCopyPasteConfig, OriginalsConfig, PanopticTaxonomy, PlacementConfig, SizeRange
from segpaste.augmentation.config.base import MASKS_OF_BOXES

Kind = Literal["switch", "choice", "number", "range", "text"]
Path = tuple[str, ...]

LEAVES = (SizeRange, PanopticTaxonomy)
"""Configs that are single values, not groups of fields."""

FIRST = (
    *("placement.paste_prob", "placement.k_range", "placement.grouping", "placement.layers"),
    *("source.crops_per_target", "placement.scale_range", "placement.scale_to_fit", "placement.position"),
    *("placement.hflip_probability", "max_hidden_frac", "harmonize.mode", "harmonize.prob", "source.kind"),
)
"""Keys of the first group, in its order."""

MAIN = "Main options"
TITLES = {"": "Output", "placement": "Placement", "source": "Source", "harmonize": "Colours", "panoptic": "Panoptic"}
"""Titles of the other groups."""

LEFT_OUT = {
    "emit_instance": "every command shows and writes masks",
    "blend_mode": "it has one value",
    "tile_size": "it changes no pixel",
    "panoptic.taxonomy": "the dataset defines it",
    **dict.fromkeys((f"placement.originals.{name}" for name in OriginalsConfig.model_fields), "presets set it"),
}
"""Keys without a control, and why."""

NOT_SEEN = {
    **dict.fromkeys(
        ("placement.fixed_share", "placement.fade_last", "placement.fade_curve"), "One image does not show it"
    ),
    "placement.pad_to_multiple": "The picture shows the image without the padding, as ``segpaste augment`` writes it, "
    "so this option alone moves nothing; with ``patch_aligned_paste`` it is the grid on which pastes lie",
}
"""Keys without an effect on the picture, and why: they act across batches, during training, or outside of the image."""

_OF_BANK = {"crops_per_target", "value_range", "relative_to", "without_depth"}
_WITHOUT_BANK = {"source.kind", "placement.layers", "placement.position", "placement.class_temperature"}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "source.kind": ("intra_batch", "same_image"),
    "source.mask_from": MASKS_OF_BOXES,
}
"""Choices that differ from those of the type. The path of a function is not offered: the server would import it."""

_FAR = 100
"""Largest end of a slider as a multiple of the default."""
_LONGEST = 64

_OF_PRESET = "# A preset also has a jitter, which is not a key of a config: see the command line.\n"
_PASTE_ALONE = "# The paste alone: dataset, jitter, seed and balance are in the command line."
_EVERY_IMAGE = "# Pastes into every image, as on the page; without paste_prob, into half of them."
_LINE = 88


@dataclass(frozen=True, slots=True)
class Extent:
    """Ends of a slider; the number field beside it takes every valid value, also beyond them.

    Attributes:
        low, high: ends.
        step: between two values; for logarithmic sliders only that of the number field.
        is_log: equal distances on the slider are equal factors.
    """

    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    is_log: bool = False


CHOSEN_EXTENTS: Mapping[str, Extent] = {
    "placement.scale_range": Extent(0.1, 8.0, 0.05, is_log=True),
    "placement.size_range": Extent(4, 1024, 1, is_log=True),
    "placement.k_range": Extent(0, 32, 1),
    "placement.layers": Extent(1, 16, 1),
    "source.crops_per_target": Extent(1, 16, 1),
    "placement.max_attempts": Extent(1, 32, 1),
    "placement.pad_to_multiple": Extent(1, 64, 1),
    "max_instances": Extent(1, 128, 1),
    "min_area_px": Extent(1, 4096, 1, is_log=True),
    "source.value_range": Extent(1, 255, 1),
    "harmonize.surround_px": Extent(1, 256, 1, is_log=True),
    "harmonize.max_gain": Extent(1, 16, 0.1),
    "harmonize.poisson_cycles": Extent(1, 16, 1),
    "harmonize.blur_px": Extent(0, 8, 0.1),
    "harmonize.feather_px": Extent(0, 32, 1),
    "panoptic.tau_stuff_px": Extent(0, 4096, 1),
}
"""Chosen ends of sliders, by key; the limits of these fields are far beyond useful values."""


@dataclass(frozen=True, slots=True)
class Control:
    """Control of one field.

    Attributes:
        key: dotted key, such as ``placement.layers``.
        kind: kind of input; a ``range`` has two values, a ``text`` is YAML.
        group: title of its group.
        help: what the field does, from the docstring of its config.
        choices: values of a ``choice``.
        optional: the value may be None.
        whole: numbers are integers.
        extent: ends of the sliders.
        parts: keys of the two values of a ``range`` that is a table.
        note: why the picture does not show it; empty if it does.
    """

    key: str
    kind: Kind
    group: str
    help: str
    choices: tuple[Any, ...] = ()
    optional: bool = False
    whole: bool = False
    extent: Extent = field(default_factory=Extent)
    parts: tuple[str, ...] = ()
    note: str = ""


@cache
def controls_of(*, has_bank: bool, is_panoptic: bool) -> tuple[Control, ...]:
    """Return the controls of a paste, group by group; those of banks or of panoptic datasets only if there is one."""
    found: dict[str, Control] = {}
    for path, model, info in fields_of(BatchCopyPasteConfig):
        key = ".".join(path)
        of_bank = path[0] == "source" and path[-1] in _OF_BANK
        if key in LEFT_OUT or (of_bank and not has_bank) or (key in _WITHOUT_BANK and has_bank):
            continue
        if path[0] == "panoptic" and not is_panoptic:
            continue
        found[key] = _control(path, info, documented(model).get(path[-1], ""))
    first = (found[key] for key in FIRST if key in found)
    others = (control for title in TITLES.values() for control in found.values() if control.group == title)
    return (*first, *others)


def fields_of(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, type[BaseModel], FieldInfo]]:
    """Yield every field of a config and of its groups: its path, the config that has it, and the field."""
    for name, info in model.model_fields.items():
        kinds = [kind for kind in _kinds(info.annotation) if inspect.isclass(kind) and issubclass(kind, BaseModel)]
        if kinds and kinds[0] not in LEAVES:
            yield from fields_of(kinds[0], (*path, name))
        else:
            yield (*path, name), model, info


def documented(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field in the docstring of a config, one line each."""
    text = inspect.getdoc(model) or ""
    _, _, listed = text.partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", listed, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", what).strip().rstrip(".") for name, what in entries}


def key_named(message: str, place: Sequence[str] = ()) -> str:
    """Return the key that an error of a config is about, or an empty text.

    Args:
        message: the error; where it is about several fields, it begins with their names.
        place: path of the field, or of the group that was checked.
    """
    keys = [".".join(path) for path, _, _ in fields_of(BatchCopyPasteConfig)]
    paths = [".".join(place[:num]) for num in range(len(place), 0, -1)]
    if exact := next((path for path in paths if path in keys), ""):
        return exact
    head = message.partition(": expected")[0].rpartition(": ")[2]
    words = re.findall(r"[\w.]+", head)
    named = [key for word in words for key in keys if key == word or key == ".".join((*place, word))]
    return named[0] if named else ""


def _control(path: Path, info: FieldInfo, what: str) -> Control:
    """Derive the control of one field from its type, its limits and its default."""
    key = ".".join(path)
    kinds = _kinds(info.annotation)
    optional = type(None) in kinds
    kind = next(kind for kind in kinds if kind is not type(None))
    group = MAIN if key in FIRST else TITLES[path[0] if len(path) > 1 else ""]
    base = Control(key, "text", group, what, optional=optional, note=NOT_SEEN.get(key, ""))
    none = (None,) if optional else ()
    if kind is bool:
        return replace(base, kind="choice", choices=(None, True, False)) if optional else replace(base, kind="switch")
    if get_origin(kind) is Literal or key in _CHOICES:
        return replace(base, kind="choice", choices=(*none, *_CHOICES.get(key, get_args(kind))))
    if kind in (int, float):
        return replace(base, kind="number", whole=kind is int, extent=_extent_of(key, info.metadata, info.default))
    if get_origin(kind) is tuple:
        (number, _) = get_args(kind)
        return replace(base, kind="range", whole=number is int, extent=_extent_of(key, (), info.default))
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        low = next(iter(kind.model_fields.values()))
        return replace(base, kind="range", parts=tuple(kind.model_fields), extent=_extent_of(key, low.metadata, None))
    return base


def _extent_of(key: str, limits: Iterable[Any], default: Any) -> Extent:
    """Return the ends of the slider of a field: its limits, or chosen ends.

    Args:
        key: dotted key.
        limits: limits of the field, as pydantic keeps them: objects with ``ge``, ``gt``, ``le`` or ``lt``.
        default: its default; a field of integers has a step of 1.
    """
    if key in CHOSEN_EXTENTS:
        return CHOSEN_EXTENTS[key]
    found: dict[str, float] = {}
    for limit in limits:
        found |= {name: getattr(limit, name) for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)}
    largest = max(default) if isinstance(default, tuple) else default
    number = float(largest) if isinstance(largest, int | float) else 1.0
    low = found.get("ge", found.get("gt", 0.0) + (0.01 if "gt" in found else 0.0))
    high = found.get("le", found.get("lt", float("inf")))
    high = min(high, max(_LONGEST, _FAR * number)) if high > 1 else high
    is_whole = isinstance(largest, int) and not isinstance(largest, bool)
    return Extent(float(low), float(high), 1.0 if is_whole else round((high - low) / 100, 6))


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the one type itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def plain(value: Any) -> Any:
    """Return the value of a field in the types of YAML and JSON: numbers, texts, lists and tables."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def leaves_of(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every field of a config and of its groups."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel) and not isinstance(value, LEAVES):
            yield from leaves_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differences(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return the values, by dotted key, in which a config differs from another one."""
    before = dict(leaves_of(base))
    if before["placement.scale_range"] == PlacementConfig.model_fields["scale_range"].default:
        before["placement.scale_range"] = _scale_unless_given(config.placement)
    return {key: value for key, value in leaves_of(config) if key not in before or before[key] != value}


def as_yaml(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig, *, of_preset: bool = False) -> str:
    """Return a file for ``--config`` with the values that differ from ``base``, the defaults for the same dataset.

    For a preset it begins with a comment about its jitter, which is not in the file.
    """
    comment = _OF_PRESET if of_preset else ""
    nested: dict[str, Any] = {}
    for key, value in differences(config, base).items():
        *groups, last = key.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = plain(value)
    if not nested:
        return f"{comment}# every option has its default\n"
    return comment + yaml.safe_dump(nested, sort_keys=False, default_flow_style=None, allow_unicode=True)


def as_words(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig) -> list[str]:
    """Return the values that differ from ``base`` as ``KEY=VALUE`` words of a command line."""
    return [f"{key}={flow(value)}" for key, value in differences(config, base).items()]


def as_command(start: Sequence[str], words: Sequence[str]) -> str:
    """Return a command for a POSIX shell, in lines that end with a backslash."""
    lines = [""]
    for quoted in map(shlex.quote, [*start, *words]):
        if lines[-1] and len(lines[-1]) + len(quoted) >= _LINE:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {quoted}" if lines[-1] else quoted
    return " \\\n".join(lines) + "\n"


def as_python(config: BatchCopyPasteConfig) -> str:
    """Return a program that makes the config and the module that pastes."""
    names: set[str] = set()
    call = "\n".join(_call(config, names))
    others = sorted(names - {"BatchCopyPasteConfig"})
    imports = ["from segpaste import BatchCopyPaste, BatchCopyPasteConfig"]
    imports += [f"from segpaste.augmentation import {', '.join(others)}"] if others else []
    comments = [_PASTE_ALONE, *([_EVERY_IMAGE] if config.placement.paste_prob == 1 else [])]
    return "\n".join([*comments, *imports, "", f"config = {call}", "augment = BatchCopyPaste(config)", ""])


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(plain(value), default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _call(config: BaseModel, names: set[str]) -> list[str]:
    """Return the lines of a constructor call with the values that are no defaults; add its class to ``names``."""
    names.add(type(config).__name__)
    lines = []
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        default = info.default
        if isinstance(config, PlacementConfig) and name == "scale_range":
            default = _scale_unless_given(config)
        if not info.is_required() and value == default:
            continue
        first, *others = _call(value, names) if isinstance(value, BaseModel) else [_literal(value, names)]
        lines += [f"{name}={first}", *others]
        lines[-1] += ","
    name = type(config).__name__
    return [f"{name}()"] if not lines else [f"{name}(", *(f"    {line}" for line in lines), ")"]


def _scale_unless_given(place: PlacementConfig) -> tuple[float, float]:
    """Return the default scale of a placement, which depends on its position."""
    return PlacementConfig.model_validate({"position": place.position}).scale_range


def _literal(value: Any, names: set[str]) -> str:
    """Return the Python literal of a value; configs in a table are calls on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_literal(item, names)}" for key, item in value.items()) + "}"
    if isinstance(value, BaseModel):
        names.add(type(value).__name__)
        given = ", ".join(f"{name}={getattr(value, name)!r}" for name in type(value).model_fields)
        return f"{type(value).__name__}({given})"
    return repr(value)
