"""`Movable`: base class of records of tensors, for moves to a device, page-locked memory and pytree functions.

Lightning and Accelerate move every object that has ``to``; a ``DataLoader`` pins every object that has ``pin_memory``.
They take a dataclass without these methods apart, or reject it because it is frozen. `torch.export` and ``tree_map``
flatten classes that are registered with `register_pytree`.

A transform of torchvision flattens its input as a pytree, transforms the leaves whose classes it knows, and passes the
others through. A padded batch holds plain tensors for `torch.compile`, so a transform would change its images alone.
Therefore the containers look up the caller when they are flattened: a transform gets tagged tensors, or an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.utils._pytree import MappingKey, register_pytree_node
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste._reprs import counted, described, shortened, tensor_text
from segpaste.types.keypoints import KeypointSchema

_BETWEEN = (
    *("torch.utils._pytree", "torch._dynamo.eval_frame", __name__),
    "torchvision.transforms.v2._utils",  # looks for labels
)
_REASON = (
    "whether a transform of torchvision flattens a container is not seen in a trace; call transforms outside of the "
    "compiled function, and map_tensors in place of tree_map"
)


def calling_transform() -> v2.Transform | None:
    """Return the transform that flattens a pytree, found in the call stack; None if the caller is something else.

    Call it from a flattening function that is registered with torch.utils._pytree.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    caller = frame.f_locals.get("self")
    return caller if isinstance(caller, v2.Transform) else None


@dataclass(frozen=True, slots=True, eq=False)
class Movable:
    """Base class of dataclasses that hold tensors, lists of tensors, other such records, and plain values."""

    def __repr__(self) -> str:
        """Return dtypes and shapes of the fields that are there, and flags that are set."""
        return described(self, *(partial(_field_text, self, field.name) for field in fields(self)))

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply a function to every tensor.

        Args:
            function: takes a plain tensor, and returns one that fits the same field.

        Returns:
            A new container. Tagged tensors keep their class. It is not validated, because asynchronous copies may not
            be finished.
        """
        return type(self)._unchecked({f.name: _mapped(getattr(self, f.name), function) for f in fields(self)})

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> Self:
        """Copy every tensor to a device.

        Args:
            device: target device; a tensor that is there already is not copied.
            non_blocking: return before copies from page-locked memory are finished.

        Raises:
            TypeError: ``device`` is not a device but, for example, a dtype. The dtypes of the fields are fixed; only
                images may have another dtype.
        """
        if isinstance(device, bool) or not isinstance(device, (torch.device, str, int)):
            name = type(self).__name__
            raise TypeError(
                f"{name}.to: expected a device (torch.device, str or int), got {device!r}; the dtypes of its fields "
                "are fixed: for other images use dataclasses.replace"
            )
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Copy every tensor into page-locked memory, for asynchronous copies to a GPU."""
        return self._moved(Tensor.pin_memory)

    def __format__(self, spec: str) -> str:
        # SanitizeBoundingBoxes looks for labels before it flattens its input, and formats what it was given.
        transform = calling_transform()
        if isinstance(transform, v2.SanitizeBoundingBoxes):
            self._children(transform)
        return super(Movable, self).__format__(spec)

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return self.map_tensors(move)

    def _children(self, transform: v2.Transform | None) -> dict[str, Any]:
        """Return the leaves for pytree functions, by field: tensors, lists of tensors, other records.

        Args:
            transform: the transform that flattens the record, if any.
        """
        if transform is not None:
            raise TypeError(
                f"transforms.v2 {type(transform).__name__}: expected a sample or a batch of samples, got "
                f"{type(self).__name__}, which no transform moves; leave it out of the input"
            )
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, (Tensor, list, Movable))}

    @classmethod
    def _of_children(cls, values: Mapping[str, Any], by_transform: bool) -> Self:
        """Create a record from the result of `_children` and the constant fields.

        Args:
            values: values by field; without a transform they may be placeholders, which are not validated.
            by_transform: True if a transform returned the values.
        """
        return cls._unchecked(values)

    @classmethod
    def _unchecked(cls, values: Mapping[str, Any]) -> Self:
        """Create a record without validation."""
        record = object.__new__(cls)
        names: tuple[str, ...] = cls.__match_args__  # of a dataclass's fields, in less time than ``fields`` takes
        for name in names:
            object.__setattr__(record, name, values.get(name))
        return record


class _Structure(NamedTuple):
    """Structure of a flattened record, without its leaves.

    Attributes:
        names: names of the fields of the leaves.
        constants: names and values of the other fields.
        by_transform: True if a transform of torchvision flattened the record.
    """

    names: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    by_transform: bool = False


def register_pytree(cls: type[Movable]) -> None:
    """Register a class as a pytree: its tensors are leaves, absent fields and plain values part of the structure."""

    def unflatten(values: Iterable[Any], structure: _Structure) -> Movable:
        by_name = {**dict(structure.constants), **dict(zip(structure.names, values, strict=True))}
        return moved(by_name) if structure.by_transform else cls._of_children(by_name, by_transform=False)

    @_untraced
    def moved(values: Mapping[str, Any]) -> Movable:
        return cls._of_children(values, by_transform=True)

    register_pytree_node(
        cls,
        _flatten,
        unflatten,
        serialized_type_name=f"segpaste.{cls.__name__}",
        to_dumpable_context=lambda structure: json.dumps(structure, default=asdict),
        from_dumpable_context=_structure,
        flatten_with_keys_fn=_flatten_with_keys,
    )
    torch.serialization.add_safe_globals([cls])  # torch.export.load reads example inputs with weights_only=True


torch.serialization.add_safe_globals([KeypointSchema])


def _untraced(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    disabled: Callable[[Any], Any] = torch.compiler.disable(function, reason=_REASON)  # type: ignore[no-untyped-call]
    return disabled


def _flatten(record: Movable) -> tuple[list[Any], _Structure]:
    # torch.export traces this function, and flattens only inputs and outputs.
    return _flattened(record, None) if torch.compiler.is_exporting() else _flattened_for_caller(record)


@_untraced
def _flattened_for_caller(record: Movable) -> tuple[list[Any], _Structure]:
    return _flattened(record, calling_transform())


def _flattened(record: Movable, transform: v2.Transform | None) -> tuple[list[Any], _Structure]:
    children = record._children(transform)
    constants = tuple((f.name, getattr(record, f.name)) for f in fields(record) if f.name not in children)
    return list(children.values()), _Structure(tuple(children), constants, transform is not None)


def _flatten_with_keys(record: Movable) -> tuple[list[tuple[Any, Any]], _Structure]:
    values, structure = _flatten(record)
    # Not GetAttrKey: torch.export treats the path x.depth as a prefix of x.depth_valid.
    return [(MappingKey(name), value) for name, value in zip(structure.names, values, strict=True)], structure


def _structure(text: str) -> _Structure:
    names, constants, by_transform = json.loads(text, object_hook=lambda schema: KeypointSchema(**schema))
    return _Structure(tuple(names), tuple((name, value) for name, value in constants), by_transform)


def _field_text(record: object, name: str) -> str | None:
    """Return a field in words; None if it is missing or a flag that is not set."""
    value = getattr(record, name)
    if value is None or value is False:
        return None
    if isinstance(value, Tensor):
        return f"{name} {tensor_text(value)}"
    if isinstance(value, KeypointSchema):
        return counted(len(value.names), "named keypoint")
    if isinstance(value, list | tuple) and value and all(isinstance(part, Tensor) for part in value):
        shapes = {str(list(part.shape[1:]))[1:-1] for part in value}
        num = sum(part.shape[0] for part in value)
        row = shapes.pop() if len(shapes) == 1 else "..."
        return f"{name} {counted(len(value), 'tensor')} [{num} in all{', ' * bool(row)}{row}]"
    if isinstance(value, list | tuple):
        return f"{name} {len(value)}"
    return f"{name}={shortened(value)}"


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, tv_tensors.TVTensor):
        return tv_tensors.wrap(function(value.as_subclass(Tensor)), like=value)
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Movable):
        return value.map_tensors(function)
    if isinstance(value, list):
        return [_mapped(entry, function) for entry in value]
    return value
