"""Whether code runs on tensors without values, or without memory of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_KEYS = torch._C._TorchDispatchModeKey
_innermost_transform, _num_modes = torch._C._functorch.peek_interpreter_stack, torch._C._len_torch_dispatch_stack


def is_traced() -> bool:
    """Return whether values cannot be read: code is compiled or exported, tensors are fake, or transformed.

    Transforms are those of ``torch.func``, such as ``functionalize`` and ``grad``. Compiled code sees a constant.
    """
    return torch.compiler.is_compiling() or _is_transformed()


def _is_transformed() -> bool:
    if _innermost_transform() is not None:
        return True
    if not _num_modes():  # the usual case, in one call
        return False
    return any(_mode(key) is not None for key in (_KEYS.FAKE, _KEYS.FUNCTIONAL, _KEYS.PROXY))


def _mode(key: Any) -> Any:
    return torch._C._get_dispatch_mode(key)


def fake_mode() -> Any:
    """Return the ``FakeTensorMode`` that code runs in; None without one, and where operations are recorded."""
    if not _num_modes():  # the usual case, in one call
        return None
    return _mode(_KEYS.FAKE) if _mode(_KEYS.PROXY) is None else None


@contextmanager
def real_tensors() -> Iterator[None]:
    """Make real tensors inside the ``with`` block, for tables that outlive a transform or a mode of fake tensors."""
    if not _is_transformed():
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    from torch.utils._python_dispatch import _disable_current_modes

    with temporarily_clear_interpreter_stack(), _disable_current_modes():
        yield
