"""The fingerprint of a user's function. If it changes, stored results of the function are dropped."""

from __future__ import annotations

import hashlib
import inspect
from types import CodeType
from typing import Any

__all__ = ["fingerprint"]

_PLAIN = (str, bytes, int, float, bool, type(None))


def fingerprint(function: Any) -> str | None:
    """Return a string that changes with the name, code, defaults and closure of a plain function.

    It returns None for any other callable, and if a default or a closure has more than plain values, because its
    behaviour could then change unnoticed. Functions that it calls and globals that it reads are not included.
    """
    if not inspect.isfunction(function):
        return None
    try:
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable without a value
        return None
    values = [function.__defaults__, function.__kwdefaults__, closure]
    told = _told(values)
    if told is None:
        return None
    code = repr(_code(function.__code__)) + told
    return f"{function.__module__}.{function.__qualname__} {hashlib.sha256(code.encode()).hexdigest()[:16]}"


def _told(value: Any) -> str | None:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_told(one) for one in value]
    elif isinstance(value, dict):
        parts = [_told(item) for item in value.items()]
    else:
        return None
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if isinstance(value, set | frozenset):
        known.sort()
    return f"{type(value).__name__}({', '.join(known)})"


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(one) if isinstance(one, CodeType) else _told(one) or repr(one) for one in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants
