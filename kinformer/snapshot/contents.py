"""The description of a snapshot's contents. Sources with equal contents have the same objects in the same form."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from kinformer.exceptions import ConfigError
from kinformer.list_watcher import ListerWatcher, source_of

__all__ = ["contents_of"]

_PLAIN = (str, bytes, int, float, bool, type(None))


def contents_of(sources: Mapping[str | None, ListerWatcher], transform: Callable[..., Any] | None) -> dict[str, str]:
    """Describe the contents of a cache: its sources and its transform.

    Raises:
        ConfigError: A source has no `contents`, or changes of the transform cannot be detected.
    """
    source = next(iter(sources.values()))
    own = source_of(source).contents
    if own is None:
        raise ConfigError(
            f"snapshot: {type(source).__name__} has no `contents` and `read_back`, which a snapshot requires"
        )
    contents = dict(own)
    if len(sources) > 1:
        contents.pop("namespace", None)
        contents["namespaces"] = ",".join(sorted(str(scope) for scope in sources))
    if transform is not None:
        mark = _fingerprint(transform)
        if mark is None:
            raise ConfigError(
                f"snapshot: changes of {transform!r} cannot be detected, so its results cannot be stored; pass a plain "
                "function as the transform, with plain values as its defaults and in its closure"
            )
        contents["transform"] = mark
    return contents


def _fingerprint(function: Any) -> str | None:
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
    plain = _told(values)
    if plain is None:
        return None
    code = repr(_code(function.__code__)) + plain
    return f"{function.__module__}.{function.__qualname__} {hashlib.sha256(code.encode()).hexdigest()[:16]}"


def _told(value: Any) -> str | None:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_told(member) for member in value]
    elif isinstance(value, dict):
        parts = [_told(item) for item in value.items()]
    else:
        return None
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts):
        return None
    if isinstance(value, set | frozenset):
        texts.sort()
    return f"{type(value).__name__}({', '.join(texts)})"


def _code(code: CodeType) -> tuple[Any, ...]:
    consts = [_code(const) if isinstance(const, CodeType) else _told(const) or repr(const) for const in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, consts
