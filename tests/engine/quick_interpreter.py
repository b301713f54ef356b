"""Triton's interpreter with less work around each operation: describing types takes it longer than computing values.

No operation on values is replaced. What is kept depends on the sizes of a block, or on names of types, alone. In
Triton 3.6 the interpreter takes no bool as an argument; here it does, as in later versions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import triton
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter


def patch_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch the language once for each launch, and describe each type once."""
    _patch_once_a_launch(monkeypatch)
    _describe_blocks_once(monkeypatch)
    _convert_only_what_differs(monkeypatch)
    _search_no_overflow(monkeypatch)
    _call_operations_directly(monkeypatch)
    _describe_elements_once(monkeypatch)
    _unwrap_what_is_wrapped(monkeypatch)
    if triton.__version__.startswith("3.6."):
        _take_flags(monkeypatch)


def _patch_once_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter patches its language at every call of a function, a third of its time; once does the same.

    Each launch patches it anew, and puts it back.
    """
    real, patched = interpreter._patch_lang, set[int]()

    def patch_lang(function: Any) -> Any:
        if id(function.__globals__) in patched:
            return None
        scope = real(function)
        restore = scope.restore
        scope.restore = lambda: (patched.clear(), restore())
        patched.add(id(function.__globals__))
        return scope

    monkeypatch.setattr(interpreter, "_patch_lang", patch_lang)


def _describe_blocks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the shape and the number of elements of each block, as its type and as a tensor have them.

    Blocks of the same sizes share a shape.
    """
    real_init = core.block_type.__init__
    described: dict[Any, tuple[Any, int, str]] = {}

    @cache
    def block_of(sizes: tuple[int, ...]) -> tuple[Any, int, str]:
        block = core.block_type.__new__(core.block_type)
        real_init(block, core.int8, list(sizes))
        described[id(block.shape)] = found = block.shape, block.numel, str(block.shape)
        return found

    @cache
    def tensor_of(sizes: tuple[int, ...]) -> tuple[Any, Any]:
        return core.tuple([core.constexpr(size) for size in sizes]), core.constexpr(int(np.prod(sizes, dtype=int)))

    def init_block(block: Any, element: Any, shape: Any) -> None:
        found = described.get(id(shape)) or block_of(tuple(core._unwrap_shape(shape)))
        block.element_ty = element
        block.shape, block.numel, text = found
        block.name = f"<{text}, {element}>"

    def init_tensor(tensor: Any, handle: Any, type: Any) -> None:
        tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
        tensor.shape, tensor.numel = tensor_of(tuple(type.shape.values) if type.is_block() else ())

    monkeypatch.setattr(core.block_type, "__init__", init_block)
    monkeypatch.setattr(core.tensor, "__init__", init_tensor)


def _convert_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take tensors of the same type, and of the same sizes, as they are."""
    real_cast, real_broadcast = TritonSemantic.cast, TritonSemantic.broadcast_impl_value

    def cast(self: Any, value: Any, type: Any, *rounding: Any) -> Any:
        return value if value.dtype is type else real_cast(self, value, type, *rounding)

    def broadcast(self: Any, one: Any, other: Any) -> tuple[Any, Any]:
        return (one, other) if one.shape is other.shape else real_broadcast(self, one, other)

    monkeypatch.setattr(TritonSemantic, "cast", cast)
    monkeypatch.setattr(TritonSemantic, "broadcast_impl_value", broadcast)


def _search_no_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter computes each integer in 64 bits again, and then drops what it finds, as debugging is off."""
    assert not interpreter.interpreter_builder.options.debug
    monkeypatch.setattr(TritonSemantic, "binary_op_sanitize_overflow_impl", lambda *_: None)


def _call_operations_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give operations what they run on without copies of their arguments."""

    def patch_attr(owner: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        def call(*arguments: Any, **options: Any) -> Any:
            options["_semantic"] = interpreter.interpreter_semantic
            return operation(*arguments, **options)

        operation = getattr(member, "__wrapped__", member)
        scope.set_attr(owner, name, call)

    monkeypatch.setattr(interpreter, "_patch_attr", patch_attr)


def _unwrap_what_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return tensors, numbers and types at once, which are most of what the interpreter asks to unwrap."""
    real_unwrap = core._unwrap_if_constexpr
    plain = {core.tensor, core.dtype, core.block_type, core.pointer_type, int, float, bool, type(None)}
    monkeypatch.setattr(core, "_unwrap_if_constexpr", lambda o: o if type(o) in plain else real_unwrap(o))


def _describe_elements_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep NumPy's types of elements, and the types in which two of them are computed."""
    real_numpy, real_common, real_equal = (
        interpreter._get_np_dtype,
        TritonSemantic.computation_type_impl,
        core.dtype.__eq__,
    )
    numpy_types: dict[str, np.dtype[Any]] = {}
    common_types: dict[tuple[object, ...], Any] = {}

    def numpy_type(type: Any) -> np.dtype[Any]:
        element = type.scalar
        if element.name not in numpy_types:
            numpy_types[element.name] = real_numpy(element)
        return numpy_types[element.name]

    def common_type(self: Any, one: Any, one_is_scalar: bool, other: Any, other_is_scalar: bool, divides: bool) -> Any:
        key = (one.name, one_is_scalar, other.name, other_is_scalar, divides)
        if key not in common_types:
            common_types[key] = real_common(self, one, one_is_scalar, other, other_is_scalar, divides)
        return common_types[key]

    monkeypatch.setattr(interpreter, "_get_np_dtype", numpy_type)
    monkeypatch.setattr(TritonSemantic, "computation_type_impl", common_type)
    monkeypatch.setattr(core.dtype, "__eq__", lambda one, other: one is other or real_equal(one, other))


def _take_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 stores a bool argument in 32 bits, which it then rejects for a bool."""
    real = interpreter._implicit_cvt

    def convert(argument: Any) -> Any:
        if isinstance(argument, bool):
            return core.tensor(interpreter.TensorHandle(np.array([argument]), core.int1), core.int1)
        return real(argument)

    monkeypatch.setattr(interpreter, "_implicit_cvt", convert)
