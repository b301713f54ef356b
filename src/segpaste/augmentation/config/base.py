"""Base classes of all configs, frozen models that reject unknown keys, and functions on their keys and values.

A config is saved as text, so for ``source.mask_from`` it holds the name of a function, not the function. Loading the
config imports the function's module: load configs and replay records only from sources whose code you would run.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from torch import Tensor

from segpaste._utf8 import NotUtf8Error, decode_utf8
from segpaste.workspace import write_whole

Probability = Annotated[float, Field(ge=0.0, le=1.0)]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

LIKE = 0.6
"""Least similarity of two keys of which one may be meant by the other."""

MASKS_OF_BOXES = ("boxes", "ellipse")


class StrictConfig(BaseModel):
    """Frozen model that rejects unknown keys, numbers that are not finite, and booleans in place of numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    _NO_KEYS: ClassVar[Mapping[str, str]] = {}
    """Names that may be mistaken for keys, with a hint where they belong."""

    @field_validator("*", mode="before")
    @classmethod
    def _expect_no_switch(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject booleans in place of numbers, also within a pair or a table, since pydantic takes True for 1."""
        assert info.field_name is not None
        annotation = cls.model_fields[info.field_name].annotation
        values = [*value] if isinstance(value, list | tuple) else [value]
        if isinstance(value, Mapping) and get_origin(annotation) is Mapping:
            values = [*value.keys(), *value.values()]
        if any(isinstance(v, bool) for v in values) and not _takes(annotation, bool):
            is_number = _takes(annotation, int) or _takes(annotation, float)
            wanted = "numbers" if is_number and values != [value] else "a number" if is_number else "another value"
            raise ValueError(f"expected {wanted}, got {value!r}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _expect_known_keys(cls, values: Any) -> Any:
        """Reject unknown keys, and name the nearest known key, which may be within a group such as ``placement``."""
        if isinstance(values, Mapping):
            _refuse_unknown(cls, values)
        return values

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which are not validated.

        Raises:
            ValidationError: a key is unknown; pydantic would keep it beside the fields, without any effect.
        """
        _refuse_unknown(type(self), update or {})
        return super().model_copy(update=update, deep=deep)


def _refuse_unknown(model: type[StrictConfig], values: Mapping[str, Any]) -> None:
    """Raise `ValidationError` if a key is not one of a config."""
    unknown = [key for key in values if key not in model.model_fields]
    if unknown:
        refusals = [InitErrorDetails(type=_unknown(model, str(k)), loc=(str(k),), input=values[k]) for k in unknown]
        raise ValidationError.from_exception_data(model.__name__, refusals)


def as_fraction(number: float) -> Fraction:
    """Return a number as written in decimal, as a fraction with a denominator of at most 10**6."""
    return Fraction(str(number)).limit_denominator(1_000_000)


def known_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every dotted key of a config, such as ``placement.layers``, and the type of its values."""
    for name, field in model.model_fields.items():
        is_table = get_origin(field.annotation) is Mapping
        options = () if is_table else (field.annotation, *get_args(field.annotation))
        nested = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if nested:
            yield from known_fields(nested[0], f"{prefix}{name}.")
        else:
            yield prefix + name, field.annotation


def nearest_key(model: type[BaseModel], key: str) -> tuple[str, float]:
    """Return the dotted key, or group, of a config that is most similar to ``key``, and the similarity from 0 to 1.

    Keys are compared by their last part, those of different groups also as a whole: ``scale_range`` matches
    ``placement.scale_range``. A last part that continues another one, or that are its initials, is most similar to it:
    ``paste_probability`` matches ``placement.paste_prob``, and ``trainer.lr`` matches ``trainer.learning_rate``.
    """

    def likeness(known: str) -> float:
        (group, _, last), (known_group, _, known_last) = key.rpartition("."), known.rpartition(".")
        if min(len(last), len(known_last)) > 3 and (last.startswith(known_last) or known_last.startswith(last)):
            return 1.0
        if len(last) > 1 and last == "".join(word[:1] for word in known_last.split("_")):
            return 1.0
        pairs = ((key, known), (last, known_last))[group == known_group :]
        return max(difflib.SequenceMatcher(None, one, other).ratio() for one, other in pairs)

    keys = [name for name, _ in known_fields(model)]
    groups = {group: None for known in keys for group in _groups(known)}
    names = [*keys, *(group for group in groups if not key.startswith(f"{group}."))]
    own_group = key.rpartition(".")[0]
    near = max(names, key=lambda name: likeness(name) + 0.1 * (name.rpartition(".")[0] == own_group))
    return near, likeness(near)


def _groups(key: str) -> list[str]:
    """Return the groups that contain a dotted key: ``a`` and ``a.b`` for ``a.b.c``."""
    parts = key.split(".")
    return [".".join(parts[:num]) for num in range(1, len(parts))]


def _unknown(model: type[StrictConfig], key: str) -> PydanticCustomError:
    text = f"expected a key of {model.__name__}, got {key!r}"
    near, likeness = nearest_key(model, key)
    if key in model._NO_KEYS:
        text += f", {model._NO_KEYS[key]}"
    else:
        text += f"; the nearest is {near!r}" if likeness > LIKE else f"; its keys are {', '.join(model.model_fields)}"
    return PydanticCustomError("extra_forbidden", "{text}", {"text": text})


def _takes(annotation: Any, kind: type) -> bool:
    """Return whether an annotation names a class, also within a union."""
    return annotation is kind or any(_takes(part, kind) for part in get_args(annotation))


class SavedConfig(StrictConfig):
    """Config that can be loaded from and saved to YAML and JSON."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.yaml``, ``.yml`` or ``.json`` file.

        Raises:
            ValueError: the suffix is another, the file does not parse, or (pydantic) a key or value is not valid.
        """
        import yaml

        path = Path(path)
        _check_suffix(path)
        try:
            text = decode_utf8(path.read_bytes())
            values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except NotUtf8Error as error:
            raise ValueError(f"{path}: {error}") from error
        except (yaml.YAMLError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: expected YAML or JSON, got text that does not parse: {error}") from error
        return cls.model_validate({} if values is None else values)

    def save(self, path: str | Path) -> None:
        """Write a ``.yaml``, ``.yml`` or ``.json`` file that `load` reads back equal."""
        import yaml

        path = Path(path)
        _check_suffix(path)
        if path.suffix == ".json":
            text = self.model_dump_json(indent=2) + "\n"
        else:
            text = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        write_whole(path, text.encode())


def _check_suffix(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(f"{path}: expected a file name ending in .yaml, .yml or .json")


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``changes`` over ``values``, level by level; a model contributes only the values that were set in it."""
    result = dict(values)
    for key, given in changes.items():
        old, new = result.get(key), given
        if isinstance(old, dict) and isinstance(given, BaseModel):
            new = given.model_dump(exclude_unset=True)
        result[key] = merged(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return result


class FrozenMapping(Mapping[_Key, _Value]):
    """Immutable mapping that can be hashed, copied and pickled, in the order of the mapping it was made from."""

    def __init__(self, values: Mapping[_Key, _Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: _Key) -> _Value:
        return self._values[key]

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"FrozenMapping({self._values})"


class MaskFunction(Protocol):
    """A function that makes masks. It must be pure, and defined at the top level of a module."""

    def __call__(self, images: Tensor, boxes: Tensor, instance_valid: Tensor) -> Tensor:
        """Return the masks of the boxes of a batch.

        Args:
            images: [B, C, H, W], as in the batch.
            boxes: [B, K, 4] float32, xyxy.
            instance_valid: [B, K] bool, slots that hold an object.

        Returns:
            [B, K, H, W] bool. Pixels outside of an object's box, rounded outwards to whole pixels, are cut off; an
            object without a pixel gets its filled box.
        """
        ...


_functions: dict[str, MaskFunction] = {}


def checked_mask_from(value: object) -> object:
    """Check that a value is a choice, a function or the name of one; return it, or the name of the function.

    Raises:
        ValueError: it is neither a choice nor a function that can be imported by name.
    """
    if value is None or value in MASKS_OF_BOXES:
        return value
    if callable(value):
        name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', value)}"
        if _found(name) is not value:
            raise ValueError(f"expected a function at the top level of a module, to import it by name, got {name}")
        value = name
    if not isinstance(value, str) or ":" not in value:
        raise ValueError(f"expected one of {', '.join(MASKS_OF_BOXES)}, or package.module:function, got {value!r:.60}")
    if not callable(function := _found(value)):
        raise ValueError(f"expected the name package.module:function of a function, found none at {value!r:.100}")
    _functions[value] = function
    return value


def mask_function(name: str) -> MaskFunction:
    """Return the function that a config names; a config that was pickled elsewhere imports it now."""
    if name not in _functions:
        checked_mask_from(name)
    return _functions[name]


def _found(name: str) -> MaskFunction | None:
    module, _, attribute = name.partition(":")
    try:
        found: MaskFunction | None = getattr(import_module(module), attribute, None)
    except (ImportError, ValueError):
        return None
    return found
