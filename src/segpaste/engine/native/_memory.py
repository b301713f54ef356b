"""Addresses of tensors for native code, which reads and writes there without further checks."""

from __future__ import annotations

from torch import Tensor


def address(tensor: Tensor) -> int:
    """Return the address of a tensor's values in the memory of the CPU.

    Raises:
        ValueError: its values are elsewhere, or it has none.
    """
    kind = type(tensor)
    is_plain = tensor.is_cpu and (kind is Tensor or kind.__torch_dispatch__ is Tensor.__torch_dispatch__)
    try:
        found = tensor.data_ptr() if is_plain else 0
    except RuntimeError:  # a tensor inside a transform of torch.func
        found = 0
    if not found and (not is_plain or tensor.numel()):
        raise ValueError(
            f"the native backend: expected tensors whose values are in the memory of the CPU, got a "
            f"{type(tensor).__name__} on {tensor.device} without; give batches of the CPU, or let the reference "
            "backend paste them: segpaste.engine.use_backend('reference')"
        )
    return found
