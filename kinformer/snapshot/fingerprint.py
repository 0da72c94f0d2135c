"""The fingerprint of a user's function: it changes with the function, whose stored results are then dropped."""

from __future__ import annotations

import hashlib
import inspect
from types import CodeType
from typing import Any

__all__ = ["fingerprint"]

_PLAIN = (str, bytes, int, float, bool, type(None))


def fingerprint(function: Any) -> str | None:
    """A text that changes with the name, the code, the defaults and the closure of a plain function.

    None for anything else that can be called, and if a default or a closure holds more than plain values: its behaviour
    may then change unnoticed. Functions that it calls, and globals that it reads, are not looked at.
    """
    if not inspect.isfunction(function):
        return None
    try:
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable that has no value yet
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
