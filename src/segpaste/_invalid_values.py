"""Errors of pydantic in the words of all other errors: what was expected, and what came."""

from __future__ import annotations

from typing import Any

_EXPECTED = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "finite_number": "a finite number",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type", "mapping_type"), "keys and values"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    "string_type": "text",
    "missing": "this key",
}
"""Expectations by the type of pydantic's error; the names in braces are in its context."""


def expectation(error: Any) -> str:
    """Return one of pydantic's errors as "expected ..., got ...", without its key."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "expected this key, got none"
    message = str(error["msg"]).removeprefix("Value error, ")
    if kind in _EXPECTED:
        message = f"expected {_EXPECTED[kind].format_map(context)}"
    elif kind == "literal_error":
        message = f"expected {str(context['expected']).replace(chr(39), '')}"
    got = "" if ", got " in message else f", got {error['input']!r:.80}"
    return f"{message[:1].lower()}{message[1:]}{got}"
